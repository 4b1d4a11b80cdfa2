"""Groups of private voters among C classes: corners, optimum, proof and repair against full enumeration."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.group_exact import Enumeration, exponential, random_problem
from support.refusals import refused, refuses

from darrm_opt import InvalidInput, NotPrivate, Privacy, Problem, shared, solve
from darrm_opt.answers.tables import table_to_dict
from darrm_opt.design.solution import Status
from darrm_opt.record import DesignSpec
from darrm_opt.tables import corner_program
from darrm_opt.tables.certificate import Corner, CornerProof, certify_table, exact_chances, verify_table
from darrm_opt.tables.corners import check_reach, corner_count, corners_of, voter_maps
from darrm_opt.tables.groups import GroupProblem, VoterGroup, group_of, simplest_problem
from darrm_opt.tables.objective import PluralityObjective, Truth, as_table_objective
from darrm_opt.tables.priors import Dirichlet
from darrm_opt.tables.problem import PluralityProblem
from darrm_opt.tables.record import table_from_record, table_solution_record
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

TARGET = Privacy(1.0)


def problem_of(case: dict[str, object]) -> GroupProblem:
    groups = [group_of(*group) for group in case["groups"]]  # type: ignore[attr-defined]
    target = Privacy(case["epsilon"], case["delta"])  # type: ignore[arg-type]
    return GroupProblem(case["classes"], groups, target, case["affected"], abstention=case["abstention"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("classes", "pure", "approximate"), [(2, 4, 8), (3, 9, 39), (4, 16, 136)])
def test_number_of_maps(classes: int, pure: int, approximate: int) -> None:
    assert len(voter_maps(Privacy(0.5), classes).maps) == pure
    assert len(voter_maps(Privacy(0.5, 1e-3), classes).maps) == approximate


@for_each(
    ("classes", "groups", "corners", "cells"),
    [
        (3, [(5, 0.5, 0.0)], 222, 12),
        (3, [(7, 0.5, 0.0)], 1090, 20),
        (3, [(9, 0.5, 0.0)], 4090, 30),
        (4, [(5, 0.5, 0.0)], 713, 16),
        (3, [(3, 0.5, 1e-3)], 1791, 6),
    ],
)
def test_sizes(classes: int, groups: list[tuple[int, float, float]], corners: int, cells: int) -> None:
    problem = GroupProblem(classes, [group_of(*group) for group in groups], TARGET)
    assert corner_count(problem) == corners
    assert len(corners_of(problem)[0]) == corners
    assert len(problem.cells.owners) == cells


@for_each(
    ("classes", "groups", "target_epsilon", "right"),
    [
        (3, [(5, 0.5)], 1.0, 0.9488),
        (4, [(5, 0.5)], 1.0, 0.9177),
        (3, [(7, 0.5)], 1.5, 0.9823),
        (2, [(6, 0.1), (5, 0.5)], 0.6, (1 + 0.867) / 2),
        (2, [(8, 0.1), (3, 1.0)], 1.0, (1 + 0.931) / 2),
        (2, [(11, 0.3)], 0.9, 0.96788521774),
    ],
)
def test_known_answers(classes: int, groups: list[tuple[int, float]], target_epsilon: float, right: float) -> None:
    problem = GroupProblem(classes, [group_of(*group) for group in groups], Privacy(target_epsilon))
    solution = solve_table(problem, "shared(1,1)")
    assert solution.utility == pytest.approx(right, abs=4e-4 if right != 0.96788521774 else 1e-9)
    assert solution.status is Status.OPTIMAL
    assert 0 <= solution.gap <= 1e-9


@for_each("seed", range(20))
def test_optimum_and_proof_agree_with_enumeration(seed: int) -> None:
    case = random_problem(np.random.default_rng(seed))
    problem = problem_of(case)
    solution = solve_table(problem)
    every = Enumeration.of(case["groups"], case["classes"], case["affected"], abstention=case["abstention"])
    best = every.optimum(every.plurality_worth(), (case["epsilon"], case["delta"]))
    assert solution.utility <= best + 1e-9
    assert best - 1e-9 <= solution.upper_bound <= best + 2e-9
    assert solution.status is Status.OPTIMAL
    assert every.worst_excess(solution.table.probabilities, case["epsilon"], case["delta"]) <= 0


@for_each("seed", range(30, 40))
def test_any_table_is_judged_as_enumeration_judges_it(seed: int) -> None:
    case = random_problem(np.random.default_rng(seed))
    problem = problem_of(case)
    cells = problem.cells
    rng = np.random.default_rng(seed)
    every = Enumeration.of(case["groups"], case["classes"], case["affected"], abstention=case["abstention"])
    for scale in (1.0, 0.5, 0.1):
        raw = rng.random(len(cells.owners)) * scale
        sums = np.add.reduceat(raw * cells.multiplicities, cells.starts)
        table = Table.normalised(problem.cells, raw / np.maximum(sums, scale)[cells.owners])
        excess = every.worst_excess(table.probabilities, case["epsilon"], case["delta"])
        if excess > 1e-11:
            with pytest.raises(NotPrivate):
                verify_table(problem, table)
        elif excess < -1e-11:
            assert verify_table(problem, table).margin >= 0
        repaired, _ = certify_table(problem, table)
        assert every.worst_excess(repaired.probabilities, case["epsilon"], case["delta"]) <= 0


def test_a_sweep_in_blocks_names_each_corner_by_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [group_of(3, 0.5), group_of(1, 1.0, 1e-3), group_of(2, 0.2)]
    problem = GroupProblem(3, groups, Privacy(0.4, 1e-4))
    corners = corners_of(problem)[0]
    chances = np.random.default_rng(5).dirichlet(np.ones(3), len(problem.cells.counts))
    before, after = corners.output_laws(chances)
    losses = before * math.exp(-0.4) - after
    excess = np.maximum(losses, 0).sum(axis=1) + np.minimum(losses.max(axis=1), 0) - math.exp(-0.4) * 1e-4
    monkeypatch.setattr("darrm_opt.tables.corners.BLOCK_NUMBERS", 1)  # a multiset of the reduced group at a time
    found = corners.violations(chances, -math.inf, len(corners))
    assert found.largest == pytest.approx(excess.max(), abs=1e-12)
    sizes = [len(law.multisets) for law in corners.laws]
    at = [
        [law.multisets.tolist().index(row.tolist()) for row in part]
        for law, part in zip(corners.laws, corners.by_group(found.places), strict=True)
    ]
    places = np.ravel_multi_index(tuple(at), sizes)
    assert len(places) == len({*places.tolist()}) >= len(corners.laws[corners.reduced].multisets)
    assert found.excesses == pytest.approx(excess[places], abs=1e-12)


def test_a_sweep_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = GroupProblem(3, [group_of(3, 0.5), group_of(4, 0.2)], TARGET)
    corners, numbers = len(corners_of(problem)[0]), check_reach(problem).probabilities
    monkeypatch.setattr("darrm_opt.tables.corners.MAX_STEPS", 0)  # nor with one voter's map left open
    for limit, most in (("MAX_CORNERS", corners), ("MAX_LAW_BYTES", 16 * 3 * numbers)):
        with monkeypatch.context() as patch:
            patch.setattr(f"darrm_opt.tables.corners.{limit}", most)
            assert check_reach(problem).probabilities == numbers
            patch.setattr(f"darrm_opt.tables.corners.{limit}", most - 1)
            with refused("groups"):
                check_reach(problem)


def test_refusal_names_a_true_counterexample() -> None:
    problem = GroupProblem(3, [group_of(2, 0.5, 1e-3), group_of(2, 0.2)], Privacy(0.4, 1e-4))
    cells = problem.cells
    leader = cells.counts.sum(axis=1).argmax(axis=1)[cells.first]
    plain = np.zeros(len(cells.owners))
    plain[cells.layout[cells.first, leader]] = 1.0  # the plurality itself, nearly
    pushed = Table.normalised(problem.cells, plain / cells.multiplicities)
    with pytest.raises(NotPrivate) as refused:
        verify_table(problem, pushed)
    assert refused.value.excess > 0
    corner = CornerProof(problem).excess(pushed).worst
    assert isinstance(corner, Corner)
    sides = [voter_maps(voter, 3) for voter in problem.strictest[0]]
    places = [[side.maps.index(chosen) for chosen in group] for side, group in zip(sides, corner.maps, strict=True)]
    before, after = exact_chances(problem, sides, places, pushed, corner.released)
    assert before > exponential(0.4) * after + Fraction(1e-4)
    assert refused.value.excess == pytest.approx(float(before - exponential(0.4) * after) - 1e-4, rel=1e-6)


def test_two_classes_and_one_group_are_the_problem_of_gamma() -> None:
    problem = simplest_problem([(6, 0.3), (5, 0.1 * 3, 0.0)], Privacy(0.9))
    assert problem == Problem(11, Privacy(0.3), Privacy(0.9))
    assert copy.deepcopy(problem) == problem
    assert DesignSpec(problem).key == DesignSpec(Problem(11, Privacy(0.3), Privacy(0.9))).key
    gamma = solve(problem, shared(1, 1))
    general = solve_table(GroupProblem(2, [group_of(11, 0.3)], Privacy(0.9)), "shared(1,1)")
    assert 2 * general.utility - 1 == pytest.approx(gamma.utility, abs=1e-9)
    cells = general.problem.cells
    for ones in range(11 + 1):
        kept = general.table.probabilities([(11 - ones, ones)])[int(ones > 5)]
        assert float(kept) == pytest.approx((1 + gamma.gamma[ones]) / 2, abs=1e-6)
    assert len(cells.owners) == 12


@pytest.mark.parametrize(
    ("K", "classes", "affected", "epsilon", "delta"), [(7, 2, 1, 0.5, 0.0), (6, 3, 2, 1.0, 1e-3), (4, 4, 1, 0.7, 0.01)]
)
def test_voters_that_are_not_private_have_todays_table(
    K: int, classes: int, affected: int, epsilon: float, delta: float
) -> None:
    target = Privacy(epsilon, delta)
    asked: Any = simplest_problem([(K, math.inf)], target, affected=affected, classes=classes)
    if classes > 2:
        assert asked == PluralityProblem(K, classes, Privacy(epsilon, delta), affected)
    today = solve_table(PluralityProblem(K, classes, Privacy(epsilon, delta), affected))
    here = solve_table(GroupProblem(classes, [group_of(K, math.inf)], Privacy(epsilon, delta), affected))
    assert here.utility == pytest.approx(today.utility, abs=1e-9)


def test_problems_of_classes_and_groups_come_from_one_constructor_and_are_solved() -> None:
    voters = [group_of(2, 0.1), group_of(1, 0.5, 1e-4)]
    problem: Any = simplest_problem([(2, 0.1), (1, 0.5, 1e-4)], TARGET, classes=3, abstention=True)
    general = GroupProblem(3, voters, TARGET, abstention=True)
    assert problem == general
    alike: Any = simplest_problem([(3, 0.5)], TARGET, classes=3)
    assert alike == GroupProblem(3, [group_of(3, 0.5)], TARGET)
    assert solve(problem).utility == solve(general).utility == solve_table(general).utility
    plain: Any = simplest_problem([(4, math.inf)], Privacy(1.0, 0.01), affected=1, classes=3)
    assert solve(plain).utility == solve_table(plain).utility
    groups: list[list[Any]] = [[(3,)], []]
    for none in groups:
        with refused("groups"):
            simplest_problem(none, TARGET)
    with refused("shape"):
        solve(problem, shape="monotone")
    with refused("backend"):
        solve(plain, backend="cvxpy")


def test_order_of_groups_is_irrelevant_and_more_privacy_is_never_better() -> None:
    one = solve_table(GroupProblem(3, [group_of(2, 0.1), group_of(3, 0.5)], TARGET))
    other = solve_table(GroupProblem(3, [group_of(3, 0.5), group_of(2, 0.1)], TARGET))
    assert one.utility == pytest.approx(other.utility, abs=2e-9)
    stricter = solve_table(GroupProblem(3, [group_of(3, 0.5), group_of(2, 0.1)], Privacy(0.8)))
    assert stricter.utility < one.utility
    worst = solve_table(GroupProblem(3, [group_of(5, 0.5)], TARGET))
    assert worst.utility < one.utility


def test_time_limit_returns_a_private_table_and_its_gap() -> None:
    solution = solve_table(GroupProblem(3, [group_of(5, 0.5)], TARGET), time_limit=1e-9)
    assert solution.status is Status.TIME_LIMIT
    assert solution.gap >= 0.9488 - solution.utility - 1e-3
    assert verify_table(solution.problem, solution.table).margin >= 0


def test_backends_agree() -> None:
    pytest.importorskip("cvxpy")
    problem = GroupProblem(3, [group_of(2, 0.5), group_of(2, 0.2)], TARGET)
    assert solve_table(problem, backend="cvxpy").utility == pytest.approx(solve_table(problem).utility, abs=1e-6)


def test_record_is_proved_again() -> None:
    solution = solve_table(GroupProblem(3, [group_of(3, 0.5, 1e-3), group_of(1, math.inf)], Privacy(1.0, 1e-3), 2))
    record = json.loads(json.dumps(table_solution_record(solution)))
    problem, table, certificate = table_from_record(record)
    assert problem == solution.problem
    assert table.values.tobytes() == solution.table.values.tobytes()
    assert certificate == solution.certificate
    record["values"] = [min(1.0, value * 1.2) for value in record["values"]]
    with pytest.raises((NotPrivate, InvalidInput)):
        table_from_record(record)
    assert table_to_dict(solution)["utility"] == solution.utility


def test_truth_weighs_votes_by_what_they_tell() -> None:
    # One voter who is right in 95 % of the cases outweighs two at 60 %: without privacy to keep, it decides.
    problem = GroupProblem(2, [group_of(2, 0.1), group_of(1, 0.1)], Privacy(5.0))
    solution = solve_table(problem, "truth(0.6,0.95)")
    assert solution.utility == pytest.approx(0.95, abs=1e-6)
    weighted = PluralityObjective(Dirichlet(1.0), weights=(1.0, 3.0))
    chances = solve_table(problem, weighted).table.probabilities([(2, 0), (0, 1)])
    assert float(chances[1]) == pytest.approx(1.0, abs=1e-6)
    assert as_table_objective("truth(0.6,0.95)") == Truth((0.6, 0.95))


def test_an_objective_judges_the_whole_plurality() -> None:
    """Of a release of every leader alike all is right, however many lead; no label is worth nothing."""
    cells = PluralityProblem(4, 3, TARGET, 1, abstention=True).cells
    plurality = np.zeros(len(cells.values))
    plurality[cells.starts] = 1 / cells.multiplicities[cells.starts]
    prior = Dirichlet(1.0)
    for objective in (
        PluralityObjective(prior, "any"),
        PluralityObjective(prior),
        PluralityObjective(prior, "any", 0.5),
    ):
        weights, constant = objective.cell_weights(cells)
        assert weights @ plurality + constant == pytest.approx(1.0)
        silent = np.append(cells.starts[1:], len(cells.values)) - 1
        assert weights[silent].sum() + constant == pytest.approx(0.0)
    with refused("ties"):
        PluralityObjective(prior, ties="broken")  # type: ignore[arg-type]
    groups = GroupProblem(2, [group_of(2, 0.5), group_of(1, 0.1)], TARGET).cells
    with refused("chances"):
        Truth((0.9,)).worth(groups)
    with refused("weights"):
        PluralityObjective(prior, weights=(1.0, 2.0, 3.0)).worth(groups)


def test_price_and_abstention() -> None:
    groups = [group_of(3, 1.0), group_of(2, 0.5)]
    silent = GroupProblem(3, groups, Privacy(0.3), abstention=True)
    dear = solve_table(silent, PluralityObjective(Dirichlet(1.0), price=5.0))
    assert dear.utility >= -1e-12
    forced = solve_table(GroupProblem(3, groups, Privacy(0.3)), PluralityObjective(Dirichlet(1.0), price=5.0))
    assert forced.utility < dear.utility


def test_bad_input_names_its_argument() -> None:
    valid = {"classes": 3, "groups": [group_of(3, 0.5)], "target": TARGET}
    refuses(GroupProblem, valid, classes=[1], groups=[[]], affected=[4])
    with refused("K"):
        GroupProblem(3, [VoterGroup(0, Privacy(0.5))], TARGET)


@pytest.mark.parametrize(
    ("classes", "K", "Delta"),
    [(4, 30, 1e-3), (6, 5, 0.1)],  # many corners; few, but keys that would fill the memory
)
def test_what_is_too_large_is_refused_at_once(classes: int, K: int, Delta: float) -> None:
    with refused("groups"):
        solve_table(GroupProblem(classes, [group_of(K, 0.5, Delta)], TARGET))


def test_multisets_up_to_relabelling_are_as_many_as_are_counted() -> None:
    for classes, K, Delta in ((5, 2, 1e-3), (5, 3, 0.0), (3, 4, 1e-3)):
        problem = GroupProblem(classes, [group_of(K, 0.5, Delta)], TARGET)
        assert len(corners_of(problem)[0]) == corner_count(problem)


def test_many_voters_of_whom_a_record_moves_few_are_counted_as_they_are() -> None:
    probabilities = [
        check_reach(GroupProblem(2, [group_of(K, 1.0)], Privacy(1.0, 1e-5), affected=1)).probabilities
        for K in (1999, 2001)
    ]
    assert probabilities == [(3 * K + 1) // 2 * (K + 1) for K in (1999, 2001)]


def test_a_price_that_leaves_nothing_for_right_answers_is_refused() -> None:
    with refused("price"):
        as_table_objective("dirichlet(1)", 1e300)
    with refused("price"):
        solve_table(GroupProblem(2, [group_of(2, 0.5)], TARGET), PluralityObjective(Dirichlet(1.0), price=1e300))


def test_an_objective_of_groups_is_not_one_of_voters_that_are_alike() -> None:
    for objective in (Truth((0.9,)), PluralityObjective(Dirichlet(1.0), weights=(1.0, 2.0))):
        with refused("objective"):
            solve_table(PluralityProblem(3, 3, TARGET), objective)


def test_a_time_limit_leaves_the_time_for_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is left for the search, one round is made: a proof of the uniform release would say nothing."""
    monkeypatch.setattr(corner_program, "CORNER_SECONDS", 1.0)
    problem = GroupProblem(2, [group_of(6, 0.1), group_of(5, 0.5)], Privacy(0.6))
    solution = solve_table(problem, time_limit=1.0)
    assert (solution.status, solution.statistics.rounds) == (Status.TIME_LIMIT, 1)
    assert 0.55 < solution.utility <= solution.upper_bound
    assert verify_table(problem, solution.table).margin >= 0
