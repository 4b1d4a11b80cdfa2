"""Tables for groups of voters in a store: proved when read, written to files, and made for every attendance."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from darrm_opt import InvalidInput, Privacy
from darrm_opt.answers.running_time import solve_seconds
from darrm_opt.record import canonical_json, digest
from darrm_opt.tables.group_record import GroupSpec
from darrm_opt.tables.group_solver import GroupObjective, GroupTruth, solve_groups
from darrm_opt.tables.groups import GroupProblem, group_of
from darrm_opt.tables.priors import Dirichlet
from solver_cache import check, open_store, validate_row
from solver_cache.database.designs import DesignFilter
from solver_cache.model import Row, row_of, search_columns
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import make_plan
from solver_cache.precompute.worker import Answer, Assignment, perform
from solver_cache.solve import cached_groups, keep
from solver_cache.tables.formats import import_rows, read_table, write_table

PROBLEM = GroupProblem(3, [group_of(1, 0.7, 1e-3), group_of(1, math.inf)], Privacy(1.0, 1e-2), 1)
OBJECTIVE = GroupObjective(Dirichlet(1.0), "any", 0.5, (1.0, 2.0))
SPEC = GroupSpec(PROBLEM, OBJECTIVE)
ROW = row_of(solve_groups(PROBLEM, OBJECTIVE))


def test_a_table_is_solved_once_and_read_bit_for_bit(tmp_path: Path) -> None:
    for url in ("memory", f"sqlite:///{tmp_path / 'store.sqlite'}"):
        with closing(open_store(url)) as store:
            first, second = (cached_groups(PROBLEM, OBJECTIVE, store=store) for _ in range(2))
            assert (first.decision, second.decision) == ("miss", "hit")
            assert second.solution.table.values.tobytes() == first.solution.table.values.tobytes()
            assert second.solution.certificate == first.solution.certificate
            assert not list(check(store))
            store.designs.tag(SPEC.key, "mine")
            (design,) = store.designs.list(DesignFilter(tag="mine"))
            assert design.about is not None
            assert (design.key, design.about.voters, design.about.shape) == (SPEC.key, 2, "3 classes")


def test_each_question_has_its_key() -> None:
    groups = list(PROBLEM.groups)
    specs = [
        SPEC,
        GroupSpec(PROBLEM),
        GroupSpec(PROBLEM, GroupObjective(Dirichlet(1.0), "any", 0.5, (2.0, 1.0))),
        GroupSpec(PROBLEM, GroupTruth((0.5, 0.9))),
        GroupSpec(GroupProblem(3, groups[::-1], PROBLEM.target, 1), OBJECTIVE),
        GroupSpec(GroupProblem(3, groups, PROBLEM.target, 2), OBJECTIVE),
        GroupSpec(GroupProblem(3, groups, PROBLEM.target, 1, abstention=True), OBJECTIVE),
    ]
    assert len({spec.key for spec in specs}) == len(specs)


def changed(**changes: Any) -> Row:
    text = canonical_json(json.loads(ROW.record) | changes)
    return Row(ROW.key, ROW.core, text, digest(text))


RECORD = json.loads(ROW.record)


@pytest.mark.parametrize(
    "change",
    [
        {"values": [min(1.0, 1.3 * value) for value in RECORD["values"]]},
        {"utility": RECORD["utility"] + 1e-6},
        {"upper_bound": RECORD["utility"] - 1e-6},
        {"price": 2.0},
        {"weights": [1.0, 3.0]},
        {"certificate": RECORD["certificate"] | {"margin": 0.5}},
        {"status": "time limit"},
        {"values": "none"},
        {"problem": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_row_that_lies_is_no_answer(change: dict[str, Any]) -> None:
    for question in (SPEC, None):
        assert validate_row(changed(**change), question).decision == "damaged"
    assert validate_row(ROW, SPEC).decision == "hit"


def test_columns_of_anything_are_none() -> None:
    assert search_columns(changed(problem={"classes": 3}).record) is None
    assert search_columns(changed(objective="truth(2)").record) is None


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_files_bring_a_table_to_another_store(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{name}"
    write_table(path, [ROW], name)
    store = open_store("memory")
    assert [row.became for row in import_rows(read_table(path, name), store)] == ["new"]
    assert store.get(ROW.key) == ROW
    write_table(path, [changed(utility=0.99)], name)
    assert [row.became for row in import_rows(read_table(path, name), open_store("memory"))] == ["refused"]


GRID = {
    "classes": 2,
    "target_epsilon": [0.5, 1.0],
    "groups": [{"K": [0, 1], "epsilon": 0.1}, {"K": {"from": 1, "to": 2, "step": 1}, "epsilon": "inf", "weight": 2}],
    "where": "K1 + K2 >= 2",
    "delta": "0.01*K2",
    "affected": 2,
}


def test_a_grid_is_a_table_for_each_attendance() -> None:
    specs = list(grid_of(GRID).specs())
    asked = {(tuple(group.K for group in spec.problem.groups), spec.problem.target.epsilon) for spec in specs}
    assert asked == {(Ks, e) for Ks in ((2,), (1, 1), (1, 2)) for e in (0.5, 1.0)}
    alike = [{name: value for name, value in group.items() if name != "weight"} for group in GRID["groups"]]  # type: ignore[attr-defined]
    truth = list(grid_of(GRID | {"groups": alike, "objective": "truth(0.6,0.9)"}).specs())
    assert {spec.objective.chances for spec in truth} == {(0.9,), (0.6, 0.9)}
    store = open_store("memory")
    for batch in make_plan(iter(specs), store, solve_seconds).batches:
        for event in perform(Assignment(0, batch.specs, batch.lead)):
            assert isinstance(event, Answer)
            store.put(event.row)
    assert make_plan(iter(specs), store, solve_seconds).missing == 0
    attended = GroupProblem(2, [group_of(1, 0.1), group_of(2, math.inf)], Privacy(1.0, 0.02), 2)
    objective = GroupObjective(Dirichlet(1.0), weights=(1.0, 2.0))
    assert cached_groups(attended, objective, store=store).hit
    assert keep(solve_groups(attended, objective), store).hit


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"groups": []}, "groups"),
        ({"groups": [{"K": 2}]}, "groups[0]"),
        ({"groups": [{"K": 2, "epsilon": -1}]}, "groups[0].epsilon"),
        ({"where": "K1 == 0 and K2 == 0", "groups": [{"K": [0], "epsilon": 1}, {"K": [0], "epsilon": 2}]}, "groups"),
        ({"epsilon": 0.1}, "epsilon"),
        ({"prior": "dirichlet(1)"}, "prior"),
    ],
)
def test_what_does_not_fit_groups_is_refused(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(grid_of(GRID | change).specs())
    assert caught.value.argument == argument
