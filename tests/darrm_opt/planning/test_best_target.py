"""Best target and sequence design: within the total, known answers, and no better baselines."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import NoiseFunction, Privacy, Problem, solve
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bits.region import inner_region, region_lines, upper_hull
from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import exact_epsilon, total_of, total_privacy
from darrm_opt.baselines import double_subsampling, subsampling
from darrm_opt.design.certificate import verify
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.planning.best_target import best_target
from darrm_opt.planning.sequence_design import MAX_QUERIES, design_sequence

OPEN = Problem(7, Privacy(math.inf), Privacy(1.0), affected=1)
PRIVATE = Problem(7, Privacy(0.3, 1e-4), Privacy(1.0))
PURE = Problem(6, Privacy(0.4), Privacy(1.0), affected=3)
BUDGET = Privacy(1.5, 1e-3)
QUERIES = 15


@pytest.mark.parametrize("problem", [OPEN, PRIVATE, PURE], ids=str)
def test_the_best_target_is_within_the_total_and_at_least_as_useful_as_an_equal_share(problem: Problem) -> None:
    found = best_target(problem.K, problem.voter, QUERIES, BUDGET, problem.affected, fresh=True)
    assert found.account == "bits"
    assert found.total.delta == BUDGET.delta
    assert found.total.epsilon <= BUDGET.epsilon
    assert found.solution.problem.target == found.target
    verify(found.solution.problem, found.solution.gamma)
    assert total_privacy(found.solution, QUERIES, BUDGET.delta, fresh=True).best.epsilon <= BUDGET.epsilon
    share = Privacy(BUDGET.epsilon / QUERIES, BUDGET.delta / QUERIES)
    equal = solve(Problem(problem.K, problem.voter, share, problem.affected))
    assert found.solution.utility > equal.utility
    again = solve(found.solution.problem)  # solving at the target gives the accounted γ
    assert np.allclose(again.gamma, found.solution.gamma, atol=1e-6)


def test_a_target_above_a_jump_of_the_total_is_found() -> None:
    """Below the first jump along ε the best utility is 0.535, as γ_opt has pairs there that the budget excludes."""
    voter, total = Privacy(0.1, 1e-5), Privacy(3.0, 0.01)
    found = best_target(35, voter, 100, total, fresh=True)
    assert found.solution.utility >= 0.5938
    assert found.total.epsilon <= total.epsilon
    assert total_privacy(found.solution, 100, total.delta, fresh=True).best.epsilon <= total.epsilon
    verify(found.solution.problem, found.solution.gamma)


def test_the_split_of_delta_matters() -> None:
    """At δ = 0, with the largest ε, γ_opt is less useful than with the best δ."""
    found = best_target(11, Privacy(math.inf), 100, Privacy(2.0, 1e-3), 1, fresh=True)

    def pure(epsilon: float) -> tuple[float, float]:
        solution = solve(Problem(11, Privacy(math.inf), Privacy(epsilon), affected=1))
        return solution.utility, exact_epsilon(solution.gamma, solution.problem, 100, 1e-3, points=4001, fresh=True)

    end = calibrate(pure, 2.0, 2.0, guess=0.07, precision=1e-3)
    assert end is not None
    assert found.solution.utility > 1.05 * end.result


def test_one_release_gets_the_whole_total() -> None:
    found = best_target(7, Privacy(0.3, 1e-4), 1, BUDGET, fresh=True)
    assert found.target == BUDGET
    assert found.solution.utility == pytest.approx(solve(Problem(7, Privacy(0.3, 1e-4), BUDGET)).utility, abs=1e-9)


def test_a_large_total_gives_the_plain_majority() -> None:
    found = best_target(3, Privacy(0.01), 5, Privacy(2.0, 1e-3), fresh=True)
    assert np.all(found.solution.gamma >= 1 - 1e-9)


@for_each("voter", [Privacy(0.01), Privacy(0.5)])  # for voters trained once
@for_each("fresh", [False, True])
def test_a_design_states_whether_voters_are_fresh(voter: Privacy, fresh: bool) -> None:
    total = Privacy(1.0, 1e-3)
    assert best_target(3, voter, 5, total, 1, fresh=fresh).fresh is fresh
    assert design_sequence(Problem(3, voter, total, 1), 5, total, fresh=fresh).fresh is fresh


def test_very_many_releases_are_accounted_without_the_recursion() -> None:
    solution = solve(Problem(3, Privacy(0.01), Privacy(1e-5)))
    found = total_of(Release.of(solution).guarantees(10**6, fresh=True), 1e-3)
    assert found.account in ("optimal", "points")
    assert 0 < found.epsilon < math.inf
    # (mε, δ) and the region of its lines leak with probability δ; the pairs of a bit do not
    leaky = solve(Problem(7, Privacy(0.3, 1e-2), Privacy(1.0, 1e-2)))
    assert total_of(Release.of(leaky).guarantees(1000, fresh=True), 1e-6).account == "renyi"


@pytest.mark.parametrize("problem", [OPEN, PRIVATE, PURE], ids=str)
def test_a_gamma_for_the_sequence_is_at_least_as_useful_as_one_target_and_as_every_seed(problem: Problem) -> None:
    single = best_target(problem.K, problem.voter, QUERIES, BUDGET, problem.affected, fresh=True).solution
    constant = NoiseFunction(np.full(problem.K + 1, 0.07))
    seeds = [single.noise, constant, subsampling(problem.K, 1), double_subsampling(problem.K, 2)]
    found = design_sequence(problem, QUERIES, BUDGET, seeds=seeds, fresh=True)
    assert exact_epsilon(found.noise, problem, QUERIES, BUDGET.delta, fresh=True) <= BUDGET.epsilon
    upper = single.objective.linear_goal(problem.K).utility
    half = problem.K // 2 + 1
    for seed in seeds:
        if exact_epsilon_or_inf(seed, problem) <= BUDGET.epsilon:
            assert found.utility >= upper(seed.values[half:])
    assert found.utility == upper(found.noise.values[half:])


def exact_epsilon_or_inf(noise: NoiseFunction, problem: Problem) -> float:
    try:
        return exact_epsilon(noise, problem, QUERIES, BUDGET.delta, fresh=True)
    except DeltaTooSmall:
        return math.inf


@pytest.mark.parametrize("problem", [OPEN, PRIVATE, PURE], ids=str)
def test_utility_increases_with_the_budget_and_decreases_with_the_queries(problem: Problem) -> None:
    utilities = [
        design_sequence(problem, queries, total, fresh=True).utility
        for queries, total in [(40, BUDGET), (QUERIES, BUDGET), (QUERIES, Privacy(2.5, 1e-3)), (2, Privacy(2.5, 1e-2))]
    ]
    assert utilities == sorted(utilities)
    assert utilities[0] < utilities[-1]


@pytest.mark.parametrize("problem", [OPEN, PURE], ids=str)
def test_a_sequence_of_one_is_one_target(problem: Problem) -> None:
    one = solve(Problem(problem.K, problem.voter, BUDGET, problem.affected))
    assert design_sequence(problem, 1, BUDGET, fresh=True).utility == pytest.approx(one.utility, rel=2e-3)


def test_the_region_contains_pairs_whose_repetition_costs_the_total() -> None:
    total = Privacy(1.0, 1e-3)
    lines = region_lines(30, total)
    assert [line.epsilon for line in lines] == sorted(line.epsilon for line in lines)
    for q in (0.01, 0.2, 0.5, 0.8):
        p = min(line.delta + math.exp(line.epsilon) * q for line in lines)
        inside, outside = (
            compose_bits([(inner_region([[q + share * (p - q), q]]), 30)], points=4001).delta(1.0)
            for share in (0.9, 1.25)
        )
        assert inside < outside
        assert outside > total.delta  # an adaptive adversary gains slightly more
    tilted = region_lines(30, total, tilt=0.3)
    assert min(line.delta + math.exp(line.epsilon) * 0.01 for line in tilted) < min(
        line.delta + math.exp(line.epsilon) * 0.01 for line in lines
    )


def test_the_upper_hull_keeps_its_vertices() -> None:
    pairs = np.random.default_rng(3).random((40, 2))
    hull = upper_hull(pairs)
    every = np.concatenate([pairs, 1 - pairs, pairs[:, ::-1], 1 - pairs[:, ::-1]])
    for slope in (1.0, 1.5, 4.0):
        assert np.max(hull[:, 0] - slope * hull[:, 1]) == pytest.approx(
            np.max(every[:, 0] - slope * every[:, 1]).clip(0)
        )
    assert len(hull) < len(every) / 4


def test_invalid_arguments_are_refused() -> None:
    with refused("queries", "0"):
        best_target(3, Privacy(0.1), 0, BUDGET, fresh=True)
    with refused("total_epsilon", "0.0"):
        best_target(3, Privacy(0.1), 2, Privacy(0.0, 0.1), fresh=True)
    with refused("total", "1.0"):
        design_sequence(OPEN, 2, 1.0, fresh=True)  # type: ignore[arg-type]
    with pytest.raises(TooMuchWork, match="Use best_target"):
        design_sequence(OPEN, MAX_QUERIES + 1, BUDGET, fresh=True)


@pytest.mark.parametrize(
    ("voter", "queries", "total"),
    [
        (Privacy(0.5), 2, Privacy(2.0, 1e-6)),
        (Privacy(0.5), 3, Privacy(2.0, 2e-6)),
        (Privacy(math.inf), 7, Privacy(1.0)),
    ],
)
def test_the_reported_total_is_within_the_budget(voter: Privacy, queries: int, total: Privacy) -> None:
    """Also if the equal share wins, which fits only by the sums."""
    found = best_target(5, voter, queries, total, fresh=True)
    assert found.total.epsilon <= total.epsilon
    assert found.total.delta <= total.delta
    if found.account == "simple":
        assert queries * Fraction(found.target.epsilon) <= Fraction(found.total.epsilon)
        assert queries * Fraction(found.target.delta) <= Fraction(total.delta)
