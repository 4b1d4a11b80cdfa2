"""Tables for several classes in a store: proved when read, found by key, written to files, and made by grids."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from darrm_opt import InvalidInput, Privacy, Problem
from darrm_opt.answers.running_time import solve_seconds
from darrm_opt.plurality import PluralityObjective, PluralityProblem, parse_prior, solve_plurality
from darrm_opt.record import DesignSpec, canonical_json, digest
from darrm_opt.tables.record import TableSpec
from solver_cache import Store, cached_table, check, keep, nearest, open_store, validate_row
from solver_cache.database.designs import DesignFilter
from solver_cache.model import Row, row_of
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import make_plan
from solver_cache.precompute.worker import Answer, Assignment, perform
from solver_cache.tables.formats import FORMATS, import_rows, read_table, write_table

PROBLEM = PluralityProblem(4, 3, Privacy(1.0, 1e-3))
PRIOR = "favoured(0.5,0.9)"
SPEC = TableSpec(PROBLEM, PRIOR)
SOLUTION = solve_plurality(PROBLEM, PRIOR)
ROW = row_of(SOLUTION)


def stores(tmp_path: Path) -> tuple[Store, ...]:
    return open_store("memory"), open_store(f"sqlite:///{tmp_path / 'store.sqlite'}")


def test_a_table_is_solved_once_and_read_bit_for_bit(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        with closing(store):
            first, second = (cached_table(PROBLEM, PRIOR, store=store) for _ in range(2))
            assert (first.decision, second.decision) == ("miss", "hit")
            assert second.solution.rule == first.solution.rule == SOLUTION.rule
            assert (second.solution.utility, second.solution.upper_bound) == (SOLUTION.utility, SOLUTION.upper_bound)
            assert not list(check(store))


def test_a_table_cut_short_is_not_stored() -> None:
    store = open_store("memory")
    large = PluralityProblem(12, 4, Privacy(0.5, 1e-6))
    assert not cached_table(large, store=store, time_limit=1e-9).stored
    assert not list(store.rows())


def test_each_question_has_its_key() -> None:
    objective = PluralityObjective(parse_prior(PRIOR))
    specs = [
        SPEC,
        TableSpec(PluralityProblem(5, 3, PROBLEM.target), PRIOR),
        TableSpec(PluralityProblem(4, 4, PROBLEM.target), PRIOR),
        TableSpec(PluralityProblem(4, 3, Privacy(1.0, 2e-3)), PRIOR),
        TableSpec(PluralityProblem(4, 3, PROBLEM.target, 2), PRIOR),
        TableSpec(PluralityProblem(4, 3, PROBLEM.target, abstention=True), PRIOR),
        TableSpec(PROBLEM, "favoured(0.5,0.9000000000000001)"),
        TableSpec(PROBLEM, replace(objective, price=1.0)),
        TableSpec(PROBLEM, replace(objective, ties="any")),
    ]
    assert len({spec.key for spec in specs}) == len(specs)
    assert TableSpec(PluralityProblem(4, 3, Privacy(3 * 0.1 / 0.3, 1e-3)), PRIOR).key == SPEC.key


def changed(**changes: Any) -> Row:
    """Return the row with other members in its record, and a hash that fits."""
    text = canonical_json(json.loads(ROW.record) | changes)
    return Row(ROW.key, ROW.core, text, digest(text))


RECORD = json.loads(ROW.record)
LIES: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "certain": (lambda: {"values": [1.0 if v > 0.4 else 0.0 for v in RECORD["values"]]}, "not private"),
    "utility": (lambda: {"utility": RECORD["utility"] + 1e-6}, "its utility is"),
    "bound": (lambda: {"upper_bound": RECORD["utility"] - 1e-6}, "upper bound"),
    "price": (lambda: {"price": 2.0}, "another question"),
    "prior": (lambda: {"prior": "dirichlet(2.0)"}, "another question"),
    "margin": (lambda: {"certificate": RECORD["certificate"] | {"margin": 0.5}}, "margin"),
    "status": (lambda: {"status": "time limit"}, "such answers are not kept"),
    "values": (lambda: {"values": "none"}, "cannot be read"),
    "kind": (lambda: {"kind": "another"}, "record"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_row_that_lies_is_no_answer(lie: str) -> None:
    change, said = LIES[lie]
    for question in (SPEC, None):
        validation = validate_row(changed(**change()), question)
        assert (validation.decision, validation.solution) == ("damaged", None)
        if question is not None:
            assert said in validation.reason
    assert validate_row(ROW, SPEC).decision == "hit"


def test_a_table_is_no_gamma_and_no_gamma_is_a_table() -> None:
    store = open_store("memory")
    keep(SOLUTION, store)
    gamma = DesignSpec(Problem.from_allowance(K=5, m=1, epsilon=0.5))
    assert validate_row(replace(ROW, key=gamma.key), gamma).decision == "damaged"
    assert nearest(DesignSpec(Problem(4, Privacy(0.5), Privacy(1.0, 1e-3))), store) is None


@pytest.mark.parametrize("name", FORMATS)
def test_files_bring_a_table_to_another_store(name: str, tmp_path: Path) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"table.{name}"
    write_table(path, [ROW], name)
    store = open_store("memory")
    assert [row.became for row in import_rows(read_table(path, name), store)] == ["new"]
    assert store.get(ROW.key) == ROW
    assert [row.became for row in import_rows(read_table(path, name), store)] == ["known"]
    write_table(path, [changed(utility=0.99)], name)
    assert [row.became for row in import_rows(read_table(path, name), open_store("memory"))] == ["refused"]


def test_a_stored_table_is_listed_and_tagged(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        with closing(store):
            keep(SOLUTION, store)
            store.designs.tag(SPEC.key, "mine")
            (design,) = store.designs.list(DesignFilter(K=4, tag="mine"))
            assert design.about is not None
            assert (design.key, design.about.shape, design.about.voters) == (SPEC.key, "3 classes", 4)
            assert not store.designs.list(DesignFilter(K=5))


def test_a_long_prior_fits_into_the_index(tmp_path: Path) -> None:
    votes = "; ".join(f"{4 - i % 3},{i % 3},0:{10**200 + i}" for i in range(3))
    solution = solve_plurality(PROBLEM, f"histogram({votes}; 2,1,1:{10**300})")
    for store in stores(tmp_path):
        with closing(store):
            assert keep(solution, store).stored
            (design,) = store.designs.list()
            assert design.about is not None
            assert design.about.objective.startswith("sha256:")


GRID = {"classes": [2, 3], "K": [3, 4], "target_epsilon": [0.5, 1.0], "delta": "0.001*K", "prior": ["dirichlet(1)"]}


def test_a_grid_names_tables() -> None:
    specs = list(grid_of(GRID).specs())
    asked = [(spec.problem.classes, spec.problem.K, spec.problem.target.epsilon) for spec in specs]
    assert sorted(asked) == [(C, K, e) for C in (2, 3) for K in (3, 4) for e in (0.5, 1.0)]
    assert all(spec.problem.target.delta == pytest.approx(0.001 * spec.problem.K) for spec in specs)
    assert len({spec.key for spec in specs}) == 8
    more = grid_of(GRID | {"abstention": [False, True], "price": [0, 1], "ties": "any", "affected": 2})
    assert more.size == 32
    assert sorted(spec.key for spec in more.parts[0].sample(32)) == sorted(spec.key for spec in more.specs())


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"epsilon": 0.1}, "epsilon"),
        ({"m": 2}, "m"),
        ({"objective": "rectangular"}, "objective"),
        ({"prior": "nonsense"}, "prior"),
        ({"ties": "some"}, "ties"),
        ({"abstention": 1}, "abstention"),
        ({"classes": 1}, "classes"),
        ({"price": -1}, "price"),
    ],
)
def test_what_does_not_fit_tables_is_refused(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(grid_of(GRID | change).specs())
    assert caught.value.argument == argument


def test_a_gamma_has_no_price() -> None:
    with pytest.raises(InvalidInput) as caught:
        grid_of({"K": 5, "epsilon": 0.1, "m": 1, "price": 1})
    assert caught.value.argument == "price"


def test_a_run_solves_what_is_missing() -> None:
    store = open_store("memory")
    plan = make_plan(grid_of(GRID).specs(), store, solve_seconds)
    for batch in plan.batches:
        for event in perform(Assignment(0, batch.specs, batch.lead)):
            assert isinstance(event, Answer)
            store.put(event.row)
    assert not list(check(store))
    again = make_plan(grid_of(GRID).specs(), store, solve_seconds)
    assert (again.stored, again.missing) == (8, 0)
