"""Groups of private voters among C classes: corners, optimum, proof and repair against enumeration."""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from campaigns.groups import chances_of, problem_of
from support.cases import for_each
from support.enumeration import exp_fraction
from support.group_exact import Enumeration, random_problem
from support.refusals import refused, refuses

from darrm_opt import NotPrivate, Privacy, Problem, shared, solve
from darrm_opt.design.solution import Status
from darrm_opt.problem import NOT_PRIVATE, VoterGroup
from darrm_opt.record import DesignSpec
from darrm_opt.tables import corner_program
from darrm_opt.tables.certificate import Corner, CornerProof, certify_table, exact_chances, verify_table
from darrm_opt.tables.corners import check_reach, corner_count, corners_of
from darrm_opt.tables.group_laws import voter_maps
from darrm_opt.tables.groups import group_cells
from darrm_opt.tables.objective import PluralityObjective, Truth, Worth, as_table_objective, utility
from darrm_opt.tables.priors import Dirichlet
from darrm_opt.tables.problem import partition_cells
from darrm_opt.tables.record import GROUP_KIND, TableSpec, table_from_record, table_record, table_solution_record
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

TARGET = Privacy(1.0)


@for_each(
    ("classes", "groups", "corners", "cells"),
    [
        (3, [(5, 0.5, 0.0)], 222, 12),
        (3, [(7, 0.5, 0.0)], 1090, 20),
        (3, [(9, 0.5, 0.0)], 4090, 30),
        (4, [(5, 0.5, 0.0)], 713, 16),
        (3, [(3, 0.5, 1e-3)], 1791, 6),
        (5, [(2, 0.5, 1e-3)], None, 4),
        (5, [(3, 0.5, 0.0)], None, 7),
        (3, [(4, 0.5, 1e-3)], None, 9),
    ],
)
def test_sizes_have_closed_forms(
    classes: int, groups: list[tuple[int, float, float]], corners: int | None, cells: int
) -> None:
    problem = Problem(groups=groups, target=TARGET, classes=classes)
    assert len(corners_of(problem)[0]) == corner_count(problem) == (corners or corner_count(problem))
    assert len(group_cells(problem).owners) == cells
    for outcomes, maps in ((2, [4, 9, 16]), (4, [8, 39, 136])):
        voter = Privacy(0.5, 0.0 if outcomes == 2 else 1e-3)
        assert [len(voter_maps(voter, several).maps) for several in (2, 3, 4)] == maps


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
    problem = Problem(groups=groups, target=Privacy(target_epsilon), classes=classes)
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
    assert best - 1e-9 <= solution.upper_bound <= best + 4e-9
    assert solution.status is Status.OPTIMAL
    assert every.worst_excess(chances_of(solution.table, problem), case["epsilon"], case["delta"]) <= 0


@for_each("seed", range(30, 40))
def test_the_verdict_on_any_table_is_that_of_enumeration(seed: int) -> None:
    case = random_problem(np.random.default_rng(seed))
    problem = problem_of(case)
    cells = group_cells(problem)
    rng = np.random.default_rng(seed)
    every = Enumeration.of(case["groups"], case["classes"], case["affected"], abstention=case["abstention"])
    for scale in (1.0, 0.5, 0.1):
        raw = rng.random(len(cells.owners)) * scale
        sums = np.add.reduceat(raw * cells.multiplicities, cells.starts)
        table = Table.normalised(group_cells(problem), raw / np.maximum(sums, scale)[cells.owners])
        excess = every.worst_excess(table.probabilities, case["epsilon"], case["delta"])
        if excess > 1e-11:
            with pytest.raises(NotPrivate):
                verify_table(problem, table)
        elif excess < -1e-11:
            assert verify_table(problem, table).margin >= 0
        repaired, _ = certify_table(problem, table)
        assert every.worst_excess(repaired.probabilities, case["epsilon"], case["delta"]) <= 0


def test_a_sweep_in_blocks_gives_the_positions_of_corners(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [(3, 0.5), (1, 1.0, 1e-3), (2, 0.2)]
    problem = Problem(groups=groups, target=Privacy(0.4, 1e-4), classes=3)
    corners = corners_of(problem)[0]
    chances = np.random.default_rng(5).dirichlet(np.ones(3), len(group_cells(problem).counts))
    before, after = corners.output_laws(chances)
    losses = before * math.exp(-0.4) - after
    excess = np.maximum(losses, 0).sum(axis=1) + np.minimum(losses.max(axis=1), 0) - math.exp(-0.4) * 1e-4
    monkeypatch.setattr("darrm_opt.tables.corners.BLOCK_NUMBERS", 1)  # one multiset of the reduced group at a time
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


def test_a_sweep_that_exceeds_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(groups=[(3, 0.5), (4, 0.2)], target=TARGET, classes=3)
    corners, numbers = len(corners_of(problem)[0]), check_reach(problem).probabilities
    monkeypatch.setattr("darrm_opt.tables.corners.MAX_STEPS", 0)  # nor with the map of one voter left open
    for limit, most in (("MAX_CORNERS", corners), ("MAX_LAW_BYTES", 16 * 3 * numbers)):
        with monkeypatch.context() as patch:
            patch.setattr(f"darrm_opt.tables.corners.{limit}", most)
            assert check_reach(problem).probabilities == numbers
            patch.setattr(f"darrm_opt.tables.corners.{limit}", most - 1)
            with refused("groups"):
                check_reach(problem)


def test_a_refusal_has_a_true_counterexample() -> None:
    problem = Problem(groups=[(2, 0.5, 1e-3), (2, 0.2)], target=Privacy(0.4, 1e-4), classes=3)
    cells = group_cells(problem)
    leader = cells.counts.sum(axis=1).argmax(axis=1)[cells.first]
    plain = np.zeros(len(cells.owners))
    plain[cells.layout[cells.first, leader]] = 1.0  # nearly the plurality itself
    pushed = Table.normalised(group_cells(problem), plain / cells.multiplicities)
    with pytest.raises(NotPrivate) as refused:
        verify_table(problem, pushed)
    assert refused.value.excess > 0
    corner = CornerProof(problem).excess(pushed).worst
    assert isinstance(corner, Corner)
    sides = [voter_maps(voter, 3) for voter in problem.strictest.voters]
    places = [[side.maps.index(chosen) for chosen in group] for side, group in zip(sides, corner.maps, strict=True)]
    before, after = exact_chances(problem, sides, places, pushed, corner.released)
    assert before > exp_fraction(0.4) * after + Fraction(1e-4)
    assert refused.value.excess == pytest.approx(float(before - exp_fraction(0.4) * after) - 1e-4, rel=1e-6)


def test_an_answer_does_not_depend_on_earlier_proofs() -> None:
    """The cached corners of the last problem are those of its proof; a solve must know whether they are complete."""
    problem, other = (Problem(groups=[(K, 0.7)], target=Privacy(1.0, 1e-2), classes=3) for K in (2, 3))
    first = solve_table(problem)
    verify_table(other, Table(group_cells(other), [0.0] * len(group_cells(other).owners)))
    # the factor between a table that is repaired at once and one that is scaled first is 1 − 2e-12
    assert solve_table(problem).table.values == pytest.approx(first.table.values, abs=0, rel=1e-13)


def test_one_group_and_two_classes_are_the_problem_of_gamma() -> None:
    problem = Problem(groups=[(6, 0.3), (5, 0.1 * 3, 0.0)], target=Privacy(0.9)).merged
    assert problem == Problem(11, Privacy(0.3), Privacy(0.9))
    assert copy.deepcopy(problem) == problem
    assert DesignSpec(problem).key == DesignSpec(Problem(11, Privacy(0.3), Privacy(0.9))).key
    gamma = solve(problem, shared(1, 1))
    general = solve_table(Problem(groups=[(11, 0.3)], target=Privacy(0.9)), "shared(1,1)")
    assert 2 * general.utility - 1 == pytest.approx(gamma.utility, abs=1e-9)
    cells = group_cells(general.problem)
    for ones in range(11 + 1):
        kept = general.table.probabilities([(11 - ones, ones)])[int(ones > 5)]
        assert float(kept) == pytest.approx((1 + gamma.gamma[ones]) / 2, abs=1e-6)
    assert len(cells.owners) == 12


@pytest.mark.parametrize(
    ("K", "classes", "affected", "epsilon", "delta"), [(7, 2, 1, 0.5, 0.0), (6, 3, 2, 1.0, 1e-3), (4, 4, 1, 0.7, 0.01)]
)
def test_voters_that_are_not_private_have_the_table_of_counts(
    K: int, classes: int, affected: int, epsilon: float, delta: float
) -> None:
    target = Privacy(epsilon, delta)
    asked: Any = Problem(groups=[(K, math.inf)], target=target, affected=affected, classes=classes).merged
    if classes > 2:
        assert asked == Problem(K, NOT_PRIVATE, Privacy(epsilon, delta), affected, classes=classes)
    today = solve_table(Problem(K, NOT_PRIVATE, Privacy(epsilon, delta), affected, classes=classes))
    # The program over corners has the same optimum, and its table over the counts is verified for the problem.
    goal = as_table_objective("dirichlet(1)")
    found = corner_program.optimum(asked, goal, "highs", math.inf)
    table, certificate = certify_table(asked, found.candidates[0])
    assert utility(table, goal) == pytest.approx(today.utility, abs=1e-9)
    assert table_from_record(table_record(asked, table)) == (asked, table, certificate)


def test_problems_of_classes_and_groups_come_from_one_constructor_and_are_solved() -> None:
    voters = [(2, 0.1), (1, 0.5, 1e-4)]
    problem: Any = Problem(groups=voters, target=TARGET, classes=3, abstention=True)
    assert problem.merged is problem
    assert solve(problem) == solve_table(problem)
    alike: Any = Problem(groups=[(2, 0.5), (1, 0.5)], target=TARGET, classes=3)
    one = Problem(3, Privacy(0.5), TARGET, classes=3)
    assert alike.merged == one != alike
    assert solve(alike) == solve_table(one)
    plain: Any = Problem(groups=[(3, math.inf), (1, math.inf)], target=Privacy(1.0, 0.01), affected=1, classes=3)
    assert solve(plain) == solve_table(Problem(4, NOT_PRIVATE, Privacy(1.0, 0.01), 1, classes=3))
    groups: list[list[Any]] = [[(3,)], []]
    for none in groups:
        with refused("groups"):
            Problem(groups=none, target=TARGET)
    with refused("shape"):
        solve(problem, shape="monotone")
    with refused("backend"):
        solve(plain, backend="cvxpy")


def test_order_of_groups_is_irrelevant_and_more_privacy_is_never_better() -> None:
    one = solve_table(Problem(groups=[(2, 0.1), (3, 0.5)], target=TARGET, classes=3))
    other = solve_table(Problem(groups=[(3, 0.5), (2, 0.1)], target=TARGET, classes=3))
    assert one.utility == pytest.approx(other.utility, abs=2e-9)
    stricter = solve_table(Problem(groups=[(3, 0.5), (2, 0.1)], target=Privacy(0.8), classes=3))
    assert stricter.utility < one.utility
    worst = solve_table(Problem(groups=[(5, 0.5)], target=TARGET, classes=3))
    assert worst.utility < one.utility


def test_time_limit_returns_a_private_table_and_its_gap() -> None:
    solution = solve_table(Problem(groups=[(5, 0.5)], target=TARGET, classes=3), time_limit=1e-9)
    assert solution.status is Status.TIME_LIMIT
    assert solution.gap >= 0.9488 - solution.utility - 1e-3
    assert verify_table(solution.problem, solution.table).margin >= 0


def test_backends_agree() -> None:
    pytest.importorskip("cvxpy")
    problem = Problem(groups=[(2, 0.5), (2, 0.2)], target=TARGET, classes=3)
    assert solve_table(problem, backend="cvxpy").utility == pytest.approx(solve_table(problem).utility, abs=1e-6)


def test_an_objective_without_a_text_form_has_no_record() -> None:
    problem = Problem(groups=[(2, 0.5), (1, 0.2)], target=TARGET)
    solution = solve_table(problem, Worth(np.eye(len(group_cells(problem).counts), 2)))
    with refused("objective"):
        table_solution_record(solution)
    with refused("objective"):  # two of them would have the same key
        _ = TableSpec.of(solution).key


def test_the_truth_weighs_votes_by_their_information() -> None:
    # One voter with accuracy 95 % outweighs two with 60 %, and decides if privacy is no constraint.
    problem = Problem(groups=[(2, 0.1), (1, 0.1)], target=Privacy(5.0))
    solution = solve_table(problem, "truth(0.6,0.95)")
    assert solution.utility == pytest.approx(0.95, abs=1e-6)
    weighted = PluralityObjective(Dirichlet(1.0), weights=(1.0, 3.0))
    chances = solve_table(problem, weighted).table.probabilities([(2, 0), (0, 1)])
    assert float(chances[1]) == pytest.approx(1.0, abs=1e-6)
    assert as_table_objective("truth(0.6,0.95)") == Truth((0.6, 0.95))
    for text in ("truth(0.6", "truth(0.6) 1", "truth 0.6", "shared(1,1", "shared(1)"):
        with refused("objective"):
            as_table_objective(text)
    with refused("shape"):  # by its position, too
        solve(Problem(3, Privacy(0.1), Privacy(0.3), classes=3), "dirichlet(1)", "monotone")


def test_an_objective_counts_any_leader_as_right() -> None:
    """Releasing any leader is right, whatever their number; abstention has value 0."""
    cells = partition_cells(Problem(4, NOT_PRIVATE, TARGET, 1, classes=3, abstention=True))
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
    groups = group_cells(Problem(groups=[(2, 0.5), (1, 0.1)], target=TARGET))
    with refused("chances"):
        Truth((0.9,)).worth(groups)
    with refused("weights"):
        PluralityObjective(prior, weights=(1.0, 2.0, 3.0)).worth(groups)


def test_price_and_abstention() -> None:
    groups = [(3, 1.0), (2, 0.5)]
    silent = Problem(groups=groups, target=Privacy(0.3), classes=3, abstention=True)
    dear = solve_table(silent, PluralityObjective(Dirichlet(1.0), price=5.0))
    assert dear.utility >= -1e-12
    forced = solve_table(
        Problem(groups=groups, target=Privacy(0.3), classes=3), PluralityObjective(Dirichlet(1.0), price=5.0)
    )
    assert forced.utility < dear.utility


def test_invalid_arguments_are_refused() -> None:
    valid = {"classes": 3, "groups": [(3, 0.5)], "target": TARGET}
    refuses(Problem, valid, classes=[1], groups=[[]], affected=[4])
    with refused("K"):
        Problem(groups=[VoterGroup(0, Privacy(0.5))], target=TARGET, classes=3)


@pytest.mark.parametrize(
    ("classes", "K", "Delta"),
    [(4, 30, 1e-3), (6, 5, 0.1)],  # many corners; few corners, but keys that exceed the memory
)
def test_problems_that_are_too_large_are_refused_at_once(classes: int, K: int, Delta: float) -> None:
    with refused("groups"):
        solve_table(Problem(groups=[(K, 0.5, Delta)], target=TARGET, classes=classes))


def test_many_voters_with_few_affected_are_counted_exactly() -> None:
    probabilities = [
        check_reach(Problem(groups=[(K, 1.0)], target=Privacy(1.0, 1e-5), affected=1)).probabilities
        for K in (1999, 2001)
    ]
    assert probabilities == [(3 * K + 1) // 2 * (K + 1) for K in (1999, 2001)]


def test_a_price_too_large_for_right_answers_is_refused() -> None:
    with refused("price"):
        as_table_objective("dirichlet(1)", 1e300)
    with refused("price"):
        solve_table(Problem(groups=[(2, 0.5)], target=TARGET), PluralityObjective(Dirichlet(1.0), price=1e300))


def test_an_objective_of_groups_is_refused_for_equal_voters() -> None:
    problem = Problem(3, NOT_PRIVATE, TARGET, 1, classes=3)
    with refused("weights"):
        solve_table(problem, PluralityObjective(Dirichlet(1.0), weights=(1.0, 2.0)))
    # A truth known to one group depends on its counts, so the table is one of groups, and stored as such.
    solution = solve_table(problem, Truth((0.9,)))
    assert TableSpec.of(solution).kind == table_solution_record(solution)["kind"] == GROUP_KIND
    assert table_from_record(table_solution_record(solution))[2] == solution.certificate


def test_a_time_limit_leaves_the_time_for_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time for the search there is one round, since the uniform release alone is useless."""
    monkeypatch.setattr(corner_program, "CORNER_SECONDS", 1.0)
    problem = Problem(groups=[(6, 0.1), (5, 0.5)], target=Privacy(0.6))
    solution = solve_table(problem, time_limit=1.0)
    assert (solution.status, solution.statistics.rounds) == (Status.TIME_LIMIT, 1)
    assert 0.55 < solution.utility <= solution.upper_bound
    assert verify_table(problem, solution.table).margin >= 0
