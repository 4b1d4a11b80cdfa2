"""Tables for voters with a privacy profile: the answers of an oracle, and those of the product against them."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.enumeration import exp_fraction
from support.group_exact import Enumeration, Points, outcomes
from support.paths import DATA
from support.refusals import refused

from darrm_opt import InvalidInput, NotPrivate, Privacy, Problem
from darrm_opt.design.solution import Status
from darrm_opt.problem import TargetProfile, VoterGroup
from darrm_opt.tables.certificate import CornerProof, certify_table, place_chances, verify_table
from darrm_opt.tables.corners import CompletedCorners, corners_of
from darrm_opt.tables.groups import group_cells
from darrm_opt.tables.record import TableSpec, table_from_record, table_solution_record
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table
from darrm_opt.voters import PrivacyProfile

Case = dict[str, Any]

CASES: list[Case] = json.loads((DATA / "profile_optima.json").read_text(encoding="utf-8"))
SMALL = [case for case in CASES if case["corners"] < 3000]


def groups_of(case: Case) -> list[tuple[int, Points]]:
    return [(K, [(float(epsilon), delta) for epsilon, delta in points]) for K, points in case["groups"]]


def enumeration_of(case: Case, *, monotone: bool = True) -> Enumeration:
    return _enumeration(json.dumps(case), monotone)


@cache
def _enumeration(text: str, monotone: bool) -> Enumeration:
    case = json.loads(text)
    shape: Any = {"abstention": case["abstention"], "monotone": monotone}
    return Enumeration.of(groups_of(case), case["classes"], case["affected"], **shape)


def enumerated(case: Case, *, monotone: bool = True) -> float:
    """Return the optimum of a case by enumeration."""
    every = enumeration_of(case, monotone=monotone)
    return every.optimum(every.plurality_worth(), *[tuple(point) for point in case["target"]])


@for_each("case", SMALL)
def test_recorded_optima_are_those_of_enumeration(case: Case) -> None:
    assert enumerated(case) == pytest.approx(case["right"], abs=1e-8)


@for_each(
    ("groups", "classes", "target"),
    [
        ([[2, [[0.0, 0.0597853], [0.3, 0.00147645]]]], 3, [[0.3, 1e-5]]),
        ([[3, [[0.0, 0.15], [0.6, 0.0]]]], 3, [[0.9, 0.0]]),
        ([[3, [[0.0, 0.0597853], [0.3, 0.00147645]]]], 2, [[0.1, 0.01], [0.4, 1e-5]]),
        ([[2, [[0.0, 0.12], [0.5, 0.0]]], [1, [[0.3, 0.001]]]], 2, [[0.3, 0.01]]),
    ],
)
def test_monotone_maps_are_as_bad_as_all_maps(groups: Any, classes: int, target: Any) -> None:
    case = {"groups": groups, "classes": classes, "target": target, "abstention": False}
    case["affected"] = sum(K for K, _ in groups)
    assert enumerated(case) == pytest.approx(enumerated(case, monotone=False), abs=1e-8)


@for_each(
    ("points", "expected"),
    [
        ([(0.5, 0.0)], 2),
        ([(0.5, 1e-3)], 4),
        ([(0.0, 0.05)], 3),
        ([(math.inf, 0.0)], 2),
        ([(0.0, 0.0597853), (0.3, 0.00147645)], 5),
        ([(0.0, 0.02), (0.1, 0.004), (0.3, 0.0)], 5),
        ([(0.1, 1e-5), (0.2, 1e-5)], 4),  # the second is redundant
    ],
)
def test_outcomes_are_the_edges_of_the_region(points: Points, expected: int) -> None:
    edges = outcomes(points)
    assert len(edges) == expected
    assert sum(before for before, _ in edges) == sum(after for _, after in edges) == 1
    # By decreasing likelihood ratio, and symmetric under exchange of the data sets.
    ratios = [math.inf if after == 0 else before / after for before, after in edges]
    assert ratios == sorted(ratios, reverse=True)
    for (before, after), (mirrored_after, mirrored_before) in zip(edges, reversed(edges), strict=True):
        assert math.isclose(before, mirrored_before, abs_tol=1e-40)
        assert math.isclose(after, mirrored_after, abs_tol=1e-40)
    # Every point holds, and each vertex of the region with equality at some event.
    for epsilon, delta in points:
        if not math.isinf(epsilon):
            loss = sum(max(before - math.exp(epsilon) * after, 0) for before, after in edges)
            assert loss <= delta + 1e-15


def problem_of(case: Case) -> Problem:
    """Return a case as a problem of the product."""
    groups = [VoterGroup(K, PrivacyProfile(points)) for K, points in groups_of(case)]
    return Problem(
        groups=groups,
        target=TargetProfile(case["target"]),
        affected=case["affected"],
        classes=case["classes"],
        abstention=case["abstention"],
    )


@for_each(("listed", "case"), [(listed, case) for listed in (True, False) for case in CASES if case["corners"] < 9000])
def test_the_optimum_is_that_of_enumeration(listed: bool, case: Case) -> None:
    problem = problem_of(case)
    with pytest.MonkeyPatch.context() as patch:
        if not listed:
            patch.setattr("darrm_opt.tables.corners.MAX_CORNERS", 0)
        corners_of.cache_clear()
        solution = solve_table(problem)
        assert isinstance(corners_of(problem)[0], CompletedCorners) != listed
    assert solution.status is Status.OPTIMAL
    assert solution.utility == pytest.approx(case["right"], abs=2e-8)
    assert solution.utility <= solution.upper_bound <= solution.utility + 1e-8
    assert case["right"] <= solution.upper_bound + 1e-9
    assert verify_table(problem, solution.table) == solution.certificate
    if listed and case["corners"] < 3000:
        every = enumeration_of(case)
        for epsilon, delta in case["target"]:
            assert every.worst_excess(solution.table.probabilities, epsilon, delta) <= 0


POINTS = [(0.0, 0.15), (0.6, 0.0)]


def test_one_point_is_the_problem_of_epsilon_and_delta() -> None:
    target = Privacy(0.6, 1e-3)
    stated = Problem(
        groups=[(3, PrivacyProfile([(0.5, 1e-3)])), (1, PrivacyProfile([(math.inf, 0.0)]))], target=target, classes=3
    )
    today = Problem(groups=[(3, 0.5, 1e-3), (1, math.inf)], target=target, classes=3)
    assert stated == today
    assert TableSpec(stated).key == TableSpec(today).key
    assert solve_table(stated).table == solve_table(today).table


def test_more_points_never_lower_the_utility() -> None:
    utilities = [
        solve_table(Problem(groups=[(3, PrivacyProfile(points))], target=Privacy(0.5, 1e-4), classes=3)).utility
        for points in ([(0.6, 0.0)], POINTS, [*POINTS, (0.3, 0.05)], [*POINTS, (0.3, 0.05), (0.45, 0.02)])
    ]
    assert utilities == sorted(utilities)
    assert utilities[-1] > utilities[0] + 0.05


def test_a_refusal_names_a_corner_of_the_profile() -> None:
    problem = Problem(groups=[(3, PrivacyProfile(POINTS))], target=Privacy(0.4), classes=3)
    table = solve_table(Problem(groups=[(3, PrivacyProfile(POINTS))], target=Privacy(0.9), classes=3)).table
    for listed in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not listed:
                patch.setattr("darrm_opt.tables.corners.MAX_CORNERS", 0)
            corners_of.cache_clear()
            with pytest.raises(NotPrivate):
                verify_table(problem, table)
            worst = CornerProof(problem).excess(table).worst
        before, after = place_chances(problem, table, worst)
        assert before > exp_fraction(0.4) * after
    every = Enumeration.of([(3, POINTS)], 3, 3)
    assert float(before - exp_fraction(0.4) * after) == pytest.approx(
        float(every.worst_excess(table.probabilities, 0.4, 0.0)), abs=1e-9
    )


def test_too_many_points_for_the_classes_are_refused_at_once() -> None:
    profile = PrivacyProfile([(0.1 * i, 0.3 / 2**i) for i in range(1, 10)])
    with refused("groups"):
        solve_table(Problem(groups=[(3, profile)], target=Privacy(0.4), classes=6))
    with refused("groups"):
        solve_table(Problem(groups=[(9, profile)], target=Privacy(0.4), classes=4))


def test_a_target_of_several_points_is_canonical_and_recorded() -> None:
    assert TargetProfile([(0.5, 1e-5), (0.1 * 3, 0.01), (0.4, 1e-5)]).points == ((0.3, 0.01), (0.4, 1e-5))
    groups = [(3, 0.6)]
    one = Problem(groups=groups, target=TargetProfile([(0.3, 0.01), (0.4, 0.01)]), classes=3)
    assert one == Problem(groups=groups, target=Privacy(0.3, 0.01), classes=3)
    voter = PrivacyProfile([(0.0, 0.0597853), (0.3, 0.00147645)])
    several: Any = Problem(groups=[(2, voter), (1, voter)], target=TargetProfile([(0.1, 0.05), (0.5, 1e-5)])).merged
    assert several == Problem(groups=[(3, voter)], target=TargetProfile([(0.5, 1e-5), (0.1, 0.05)]))
    solution = solve_table(several)
    record = json.loads(json.dumps(table_solution_record(solution)))
    assert record["problem"]["targets"] == [[0.1, 0.05], [0.5, 1e-05]]
    assert table_from_record(record)[2] == solution.certificate
    # A table for one target alone is more useful, and not private for the other.
    for epsilon, delta in several.target.points:
        alone = solve_table(Problem(groups=[(3, voter)], target=Privacy(epsilon, delta)))
        assert alone.utility > solution.utility + 1e-4
        with pytest.raises(NotPrivate):
            table_from_record(record | {"values": alone.table.values.tolist()})
    for bad in ([], [[0.3]], [[0.3, 1.5]], [[0.1 * i, 0.1 / 2**i] for i in range(1, 30)]):
        with pytest.raises(InvalidInput):
            TargetProfile(bad)


@for_each("seed", range(12))
def test_the_verdict_on_hostile_tables_is_that_of_enumeration(seed: int) -> None:
    """Random tables, and optima moved slightly outward, with all corners listed and with a map left open."""
    case = SMALL[seed]
    chance = np.random.default_rng(seed)
    every = enumeration_of(case)
    problem = problem_of(case)
    cells, optimum = group_cells(problem), solve_table(problem).table
    with pytest.MonkeyPatch.context() as patch:
        if seed % 2:
            patch.setattr("darrm_opt.tables.corners.MAX_CORNERS", 0)
        corners_of.cache_clear()
        for outward in (1e-9, 1e-4, 0.02, 1.0):
            moved = optimum.values * (1 + outward * chance.random(len(cells.owners)))
            values = moved if outward < 1 else chance.random(len(cells.owners))
            sums = np.add.reduceat(values * cells.multiplicities, cells.starts)
            table = Table.normalised(cells, values / np.maximum(sums, 1)[cells.owners])
            excess = max(every.worst_excess(table.probabilities, *target) for target in case["target"])
            if excess > 0:
                with pytest.raises(NotPrivate):
                    verify_table(problem, table)
            elif excess < -1e-10:
                assert verify_table(problem, table).margin >= 0
            repaired, _ = certify_table(problem, table)
            assert max(every.worst_excess(repaired.probabilities, *target) for target in case["target"]) <= 0
    corners_of.cache_clear()
