"""Tables in a store, for classes and for groups of voters: verified when read, exported, and computed by grids."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.refusals import refused

from darrm_opt import Privacy, Problem
from darrm_opt.answers.tables import design_seconds
from darrm_opt.plurality import parse_prior
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.record import DesignSpec, canonical_json, digest
from darrm_opt.tables.objective import PluralityObjective, Truth
from darrm_opt.tables.priors import Dirichlet
from darrm_opt.tables.record import TableSpec
from darrm_opt.tables.solver import solve_table
from solver_cache import Store, cached_table, check, keep, nearest, open_store, validate_row
from solver_cache.database.designs import DesignFilter
from solver_cache.model import Row, row_of, search_columns
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import make_plan
from solver_cache.precompute.worker import Answer, Assignment, perform
from solver_cache.table_entries import import_rows
from solver_cache.table_files import FORMATS, read_table, write_table

PROBLEM = Problem(4, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3)
PRIOR = "favoured(0.5,0.9)"
GROUPS = Problem(groups=[(1, 0.7, 1e-3), (1, math.inf)], target=Privacy(1.0, 1e-2), affected=1, classes=3)
OBJECTIVE = PluralityObjective(Dirichlet(1.0), "any", 0.5, (1.0, 2.0))


@dataclass(frozen=True)
class Kind:
    """A kind of table: a question, its stored answer, and its look-up in a store."""

    spec: TableSpec
    row: Row
    ask: Callable[[Store], Any]
    values: Callable[[Any], Any]
    voters: int

    @property
    def record(self) -> dict[str, Any]:
        return dict(json.loads(self.row.record))

    def changed(self, **changes: Any) -> Row:
        """Return the row with changed members of its record and a matching hash."""
        text = canonical_json(self.record | changes)
        return Row(self.row.key, self.row.core, text, digest(text))


CLASSES = Kind(
    TableSpec(PROBLEM, PRIOR),
    row_of(solve_table(PROBLEM, PRIOR)),
    lambda store: cached_table(PROBLEM, PRIOR, store=store),
    lambda solution: solution.table,
    4,
)
VOTERS = Kind(
    TableSpec(GROUPS, OBJECTIVE),
    row_of(solve_table(GROUPS, OBJECTIVE)),
    lambda store: cached_table(GROUPS, OBJECTIVE, store=store),
    lambda solution: solution.table.values.tobytes(),
    2,
)
KINDS = {"classes": CLASSES, "groups": VOTERS}


def stores(tmp_path: Path) -> Iterator[Store]:
    for url in ("memory", f"sqlite:///{tmp_path / 'store.sqlite'}"):
        with closing(open_store(url)) as store:
            yield store


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_table_is_solved_once_read_bit_for_bit_and_listed(kind: Kind, tmp_path: Path) -> None:
    for store in stores(tmp_path):
        first, second = (kind.ask(store) for _ in range(2))
        assert (first.decision, second.decision) == ("miss", "hit")
        assert kind.values(second.solution) == kind.values(first.solution)
        assert second.solution.certificate == first.solution.certificate
        (row,) = store.rows()
        record = json.loads(row.record)
        assert (second.solution.utility, second.solution.upper_bound) == (record["utility"], record["upper_bound"])
        assert not list(check(store))
        store.designs.tag(kind.spec.key, "mine")
        (design,) = store.designs.list(DesignFilter(K=kind.voters, tag="mine"))
        assert design.about is not None
        assert (design.key, design.about.shape, design.about.voters) == (kind.spec.key, "3 classes", kind.voters)
        assert not store.designs.list(DesignFilter(K=5))


def test_a_table_at_a_time_limit_is_not_stored() -> None:
    store = open_store("memory")
    large = Problem(12, NOT_PRIVATE, Privacy(0.5, 1e-6), 1, classes=4)
    assert not cached_table(large, store=store, time_limit=1e-9).stored
    assert not list(store.rows())


def test_each_question_has_its_key() -> None:
    objective, groups = PluralityObjective(parse_prior(PRIOR)), list(GROUPS.groups)
    specs = [
        CLASSES.spec,
        TableSpec(Problem(5, NOT_PRIVATE, PROBLEM.target, 1, classes=3), PRIOR),
        TableSpec(Problem(4, NOT_PRIVATE, PROBLEM.target, 1, classes=4), PRIOR),
        TableSpec(Problem(4, NOT_PRIVATE, Privacy(1.0, 2e-3), 1, classes=3), PRIOR),
        TableSpec(Problem(4, NOT_PRIVATE, PROBLEM.target, 2, classes=3), PRIOR),
        TableSpec(Problem(4, NOT_PRIVATE, PROBLEM.target, 1, classes=3, abstention=True), PRIOR),
        TableSpec(PROBLEM, "favoured(0.5,0.9000000000000001)"),
        TableSpec(PROBLEM, replace(objective, price=1.0)),
        TableSpec(PROBLEM, replace(objective, ties="any")),
        VOTERS.spec,
        TableSpec(GROUPS),
        TableSpec(GROUPS, PluralityObjective(Dirichlet(1.0), "any", 0.5, (2.0, 1.0))),
        TableSpec(GROUPS, Truth((0.5, 0.9))),
        TableSpec(Problem(groups=groups[::-1], target=GROUPS.target, affected=1, classes=3), OBJECTIVE),
        TableSpec(Problem(groups=groups, target=GROUPS.target, affected=2, classes=3), OBJECTIVE),
        TableSpec(Problem(groups=groups, target=GROUPS.target, affected=1, classes=3, abstention=True), OBJECTIVE),
    ]
    assert len({spec.key for spec in specs}) == len(specs)
    assert TableSpec(Problem(4, NOT_PRIVATE, Privacy(3 * 0.1 / 0.3, 1e-3), 1, classes=3), PRIOR).key == CLASSES.spec.key
    assert TableSpec(GROUPS, PluralityObjective(Dirichlet(1.0), weights=(2.0, 2.0))).key == TableSpec(GROUPS).key


LIES: list[tuple[Kind, dict[str, Any], str]] = [
    (CLASSES, {"values": [1.0 if v > 0.4 else 0.0 for v in CLASSES.record["values"]]}, "not private"),
    (CLASSES, {"prior": "dirichlet(2.0)"}, "another question"),
    (CLASSES, {"kind": "another"}, "record"),
    (VOTERS, {"values": [1.0 if v > 0.5 else 0.0 for v in VOTERS.record["values"]]}, "not private"),
    (VOTERS, {"values": [min(1.0, 1.3 * value) for value in VOTERS.record["values"]]}, "cannot be read"),
    (VOTERS, {"weights": [1.0, 3.0]}, "another question"),
    (VOTERS, {"problem": {}}, "cannot be read"),
]
for _kind in KINDS.values():
    LIES += [
        (_kind, {"utility": _kind.record["utility"] + 1e-6}, "its utility is"),
        (_kind, {"upper_bound": _kind.record["utility"] - 1e-6}, "upper bound"),
        (_kind, {"price": 2.0}, "another question"),
        (_kind, {"certificate": _kind.record["certificate"] | {"margin": 0.5}}, "margin"),
        (_kind, {"status": "time limit"}, "so it is not stored"),
        (_kind, {"values": "none"}, "cannot be read"),
    ]


def test_false_rows_are_not_answers() -> None:
    for kind, change, said in LIES:
        for question in (kind.spec, None):
            validation = validate_row(kind.changed(**change), question)
            assert (validation.decision, validation.solution) == ("damaged", None), change
            assert question is None or said in validation.reason, change
    assert [validate_row(kind.row, kind.spec).decision for kind in KINDS.values()] == ["hit", "hit"]


def test_malformed_records_have_no_columns() -> None:
    for change in ({"problem": {"classes": 3}}, {"objective": "truth(2)"}):
        assert search_columns(VOTERS.changed(**change).record) is None


def test_tables_and_gammas_have_separate_rows() -> None:
    store = open_store("memory")
    store.put(CLASSES.row)
    gamma = DesignSpec(Problem.from_allowance(K=5, m=1, epsilon=0.5))
    assert validate_row(replace(CLASSES.row, key=gamma.key), gamma).decision == "damaged"
    assert nearest(DesignSpec(Problem(4, Privacy(0.5), Privacy(1.0, 1e-3))), store) is None


@pytest.mark.parametrize("name", FORMATS)
def test_tables_are_exported_and_imported(name: str, tmp_path: Path) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"table.{name}"
    for kind in KINDS.values():
        write_table(path, [kind.row], name)
        store = open_store("memory")
        assert [row.became for row in import_rows(read_table(path, name), store)] == ["new"]
        assert store.get(kind.row.key) == kind.row
        assert [row.became for row in import_rows(read_table(path, name), store)] == ["known"]
        write_table(path, [kind.changed(utility=0.99)], name)
        assert [row.became for row in import_rows(read_table(path, name), open_store("memory"))] == ["refused"]


def test_a_long_prior_fits_in_the_index(tmp_path: Path) -> None:
    votes = "; ".join(f"{4 - i % 3},{i % 3},0:{10**200 + i}" for i in range(3))
    solution = solve_table(PROBLEM, f"histogram({votes}; 2,1,1:{10**300})")
    for store in stores(tmp_path):
        assert keep(solution, store).stored
        (design,) = store.designs.list()
        assert design.about is not None
        assert design.about.objective.startswith("sha256:")


# ------------------------------------------------------------------------------------------------------------ grids

GRID = {"classes": [2, 3], "K": [3, 4], "target_epsilon": [0.5, 1.0], "delta": "0.001*K", "prior": ["dirichlet(1)"]}
ATTENDANCES = {
    "classes": 2,
    "target_epsilon": [0.5, 1.0],
    "groups": [{"K": [0, 1], "epsilon": 0.1}, {"K": {"from": 1, "to": 2, "step": 1}, "epsilon": "inf", "weight": 2}],
    "where": "K1 + K2 >= 2",
    "delta": "0.01*K2",
    "affected": 2,
}


def made(grid: dict[str, Any]) -> Store:
    """Return a store with all problems of a grid solved."""
    store = open_store("memory")
    for batch in make_plan(grid_of(grid).specs(), store, design_seconds).batches:
        for event in perform(Assignment(0, batch.specs, batch.lead)):
            assert isinstance(event, Answer)
            store.put(event.row)
    again = make_plan(grid_of(grid).specs(), store, design_seconds)
    assert (again.stored, again.missing) == (len(list(store.rows())), 0)
    assert not list(check(store))
    return store


def test_a_grid_may_contain_tables() -> None:
    specs = list(grid_of(GRID).specs())
    asked = [(spec.problem.classes, spec.problem.K, spec.problem.target.epsilon) for spec in specs]
    assert sorted(asked) == [(C, K, e) for C in (2, 3) for K in (3, 4) for e in (0.5, 1.0)]
    assert all(spec.problem.target.delta == pytest.approx(0.001 * spec.problem.K) for spec in specs)
    assert len({spec.key for spec in specs}) == 8 == len(list(made(GRID).rows()))
    more = grid_of(GRID | {"abstention": [False, True], "price": [0, 1], "ties": "any", "affected": 2})
    assert more.size == 32
    assert sorted(spec.key for spec in more.parts[0].sample(32)) == sorted(spec.key for spec in more.specs())


def test_a_grid_of_attendance_has_a_table_for_each() -> None:
    specs = list(grid_of(ATTENDANCES).specs())
    asked = {(tuple(group.K for group in spec.problem.groups), spec.problem.target.epsilon) for spec in specs}
    assert asked == {(Ks, e) for Ks in ((2,), (1, 1), (1, 2)) for e in (0.5, 1.0)}
    alike = [{name: value for name, value in group.items() if name != "weight"} for group in ATTENDANCES["groups"]]  # type: ignore[attr-defined]
    truth = list(grid_of(ATTENDANCES | {"groups": alike, "objective": "truth(0.6,0.9)"}).specs())
    assert {spec.objective.chances for spec in truth} == {(0.9,), (0.6, 0.9)}
    store = made(ATTENDANCES)
    attended = Problem(groups=[(1, 0.1), (2, math.inf)], target=Privacy(1.0, 0.02), affected=2)
    objective = PluralityObjective(Dirichlet(1.0), weights=(1.0, 2.0))
    assert cached_table(attended, objective, store=store).hit
    assert keep(solve_table(attended, objective), store).hit


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (GRID, {"epsilon": 0.1}, "epsilon"),
    (GRID, {"m": 2}, "m"),
    (GRID, {"objective": "rectangular"}, "objective"),
    (GRID, {"prior": "nonsense"}, "prior"),
    (GRID, {"ties": "some"}, "ties"),
    (GRID, {"abstention": 1}, "abstention"),
    (GRID, {"classes": 1}, "classes"),
    (GRID, {"price": -1}, "price"),
    ({"K": 5, "epsilon": 0.1, "m": 1}, {"price": 1}, "price"),  # a γ has none
    (ATTENDANCES, {"groups": []}, "groups"),
    (ATTENDANCES, {"groups": [{"K": 2}]}, "groups[0]"),
    (ATTENDANCES, {"groups": [{"K": 2, "epsilon": -1}]}, "groups[0].epsilon"),
    (
        ATTENDANCES,
        {"where": "K1 == 0 and K2 == 0", "groups": [{"K": [0], "epsilon": 1}, {"K": [0], "epsilon": 2}]},
        "groups",
    ),
    (ATTENDANCES, {"epsilon": 0.1}, "epsilon"),
    (ATTENDANCES, {"prior": "dirichlet(1)"}, "prior"),
]


def test_invalid_entries_are_refused() -> None:
    for grid, change, argument in REFUSED:
        with refused(argument):
            list(grid_of(grid | change).specs())
