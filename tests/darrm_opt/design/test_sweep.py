"""Utility against privacy: many allowances at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Privacy, Problem, solve, verify
from darrm_opt.design.solution import Status
from darrm_opt.design.solver import Shape
from darrm_opt.design.sweep import solve_sweep, tradeoff

MS = [1, 5, 2, 8, 3.5]


@for_each("shape", ["free", "monotone"])
@for_each("objective", ["rectangular", "shared(1,1)"])
@for_each(("K", "epsilon", "Delta", "affected"), [(11, 0.1, 0.0, 11), (12, 0.3, 1e-4, 12), (15, 0.2, 1e-2, 6)])
def test_a_tradeoff_equals_single_solves(
    K: int, epsilon: float, Delta: float, affected: int, objective: str, shape: Shape
) -> None:
    problem = Problem.from_allowance(K, 1, epsilon, Delta, None, affected)
    line = tradeoff(problem, MS, objective, shape)
    for m, target, solution in zip(MS, line.target_epsilons, line.solutions, strict=True):
        alone = solve(Problem.from_allowance(K, m, epsilon, Delta, None, affected), objective, shape)
        assert solution.problem == alone.problem
        assert target == solution.problem.target.epsilon
        assert solution.gap <= 1e-9
        assert solution.utility == pytest.approx(alone.utility, abs=1e-9)
        assert np.abs(solution.gamma - alone.gamma).max() < 1e-4
        assert verify(solution.problem, solution.gamma).margin >= 0
    assert np.all(np.diff(np.array(line.utilities)[np.argsort(MS)]) >= -1e-9)


def test_voters_without_an_allowance_are_swept_over_targets() -> None:
    problem = Problem(7, Privacy(math.inf), Privacy(1.0), 1)
    line = tradeoff(problem, [0.5, 0.25], delta=1e-3)
    assert line.target_epsilons == (0.5, 0.25)
    assert line.utilities[0] > line.utilities[1] > 0


@pytest.mark.parametrize(("ms", "argument"), [([], "ms"), ([1, -1], "m"), ([math.nan], "m")])
def test_invalid_allowances_are_refused(ms: list[float], argument: str) -> None:
    with refused(argument):
        tradeoff(Problem.from_allowance(5, 1, 0.1), ms)


def test_a_sweep_yields_the_strictest_target_first() -> None:
    problem = Problem.from_allowance(11, 1, 0.1)
    problems = [problem.with_allowance(m) for m in MS]
    found = list(solve_sweep(problems))
    assert [place for place, _ in found] == [0, 2, 4, 1, 3]
    assert [solution for _, solution in sorted(found, key=lambda each: each[0])] == list(
        tradeoff(problem, MS).solutions
    )


def test_a_sweep_observes_its_time_limit() -> None:
    problems = [Problem.from_allowance(301, m, 0.1, 1e-3) for m in (2, 3)]
    for _, solution in solve_sweep(problems, total_time_limit=0.0):
        assert solution.status is Status.TIME_LIMIT
        assert verify(solution.problem, solution.gamma).margin >= 0
