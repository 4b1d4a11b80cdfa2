"""Utility against privacy: many allowances at once, and the least allowance for a wanted utility."""

from __future__ import annotations

import math

import numpy as np
import pytest

from darrm_opt import InvalidInput, Privacy, Problem, solve, verify
from darrm_opt.design.sweep import least_m, tradeoff

MS = [1, 5, 2, 8, 3.5]


@pytest.mark.parametrize("shape", ["free", "monotone"])
@pytest.mark.parametrize("objective", ["rectangular", "shared(1,1)"])
@pytest.mark.parametrize(
    ("K", "epsilon", "Delta", "affected"), [(11, 0.1, 0.0, 11), (12, 0.3, 1e-4, 12), (15, 0.2, 1e-2, 6)]
)
def test_a_tradeoff_is_one_solve_after_another(
    K: int, epsilon: float, Delta: float, affected: int, objective: str, shape: str
) -> None:
    problem = Problem.from_allowance(K, 1, epsilon, Delta, None, affected)
    line = tradeoff(problem, MS, objective, shape)  # type: ignore[arg-type]  # the parameters of a test are texts
    for m, target, solution in zip(MS, line.target_epsilons, line.solutions, strict=True):
        alone = solve(Problem.from_allowance(K, m, epsilon, Delta, None, affected), objective, shape)  # type: ignore[arg-type]
        assert solution.problem == alone.problem
        assert target == solution.problem.target.epsilon
        assert solution.gap <= 1e-9
        assert solution.utility == pytest.approx(alone.utility, abs=1e-9)
        assert np.abs(solution.gamma - alone.gamma).max() < 1e-4
        assert verify(solution.problem, solution.gamma).margin >= 0
    assert np.all(np.diff(np.array(line.utilities)[np.argsort(MS)]) >= -1e-9)


def test_voters_without_an_allowance_are_asked_by_target() -> None:
    problem = Problem(7, Privacy(math.inf), Privacy(1.0), 1)
    line = tradeoff(problem, [0.5, 0.25], delta=1e-3)
    assert line.target_epsilons == (0.5, 0.25)
    assert line.utilities[0] > line.utilities[1] > 0


@pytest.mark.parametrize(
    ("ms", "text"), [([], "at least one allowance"), ([1, -1], "m = -1 is not valid"), ([math.nan], "m = nan")]
)
def test_what_is_no_allowance_is_refused(ms: list[float], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        tradeoff(Problem.from_allowance(5, 1, 0.1), ms)


@pytest.mark.parametrize("Delta", [0.0, 1e-4])
@pytest.mark.parametrize("utility", [0.3, 0.9, 1.0])
def test_the_least_allowance_reaches_the_utility_and_a_smaller_one_does_not(utility: float, Delta: float) -> None:
    problem = Problem.from_allowance(11, 2, 0.2, Delta)
    found = least_m(problem, utility)
    assert found.utility >= utility - 2e-12
    assert verify(found.problem, found.gamma).margin >= 0
    smaller = Privacy(found.problem.target.epsilon * (1 - 1e-6), found.problem.target.delta)
    assert solve(Problem(11, problem.voter, smaller)).upper_bound < utility


def test_a_utility_that_a_tradeoff_shows_is_found_again() -> None:
    problem = Problem.from_allowance(9, 3, 0.25)
    line = tradeoff(problem, [3], delta=0.0)
    found = least_m(problem, line.utilities[0] - 1e-10)
    assert found.problem.target.epsilon == pytest.approx(line.target_epsilons[0], rel=1e-6)


def test_what_costs_nothing_is_had_at_target_zero() -> None:
    problem = Problem(3, Privacy(0.1, 0.0), Privacy(1.0, 0.9))
    found = least_m(problem, 0.5)
    assert found.problem.target.epsilon == 0
    assert found.utility >= 0.5


def test_a_utility_out_of_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("darrm_opt.design.sweep.MAX_SWEEP_EPSILON", 4.0)
    problem = Problem(3, Privacy(math.inf), Privacy(1.0))
    with pytest.raises(InvalidInput, match=r"a utility that a target ε of 4 nats reaches"):
        least_m(problem, 1.0)


@pytest.mark.parametrize("utility", [0.0, -1.0, 1.5, math.nan])
def test_what_is_no_share_is_refused(utility: float) -> None:
    with pytest.raises(InvalidInput, match=r"expected a share in \(0, 1\]"):
        least_m(Problem.from_allowance(5, 1, 0.1), utility)
