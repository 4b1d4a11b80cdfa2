"""The interior point method: equal to the simplex method up to the requested gap, with a valid bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import Privacy, Problem, solve, verify
from darrm_opt.design import solver
from darrm_opt.design.backends import WarmStart, open_backend
from darrm_opt.design.backends.interior import InteriorPoint
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.objective import rectangular
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array

GAP = 1e-7


def program(rows: Array, limits: Array) -> InteriorPoint:
    opened = InteriorPoint(rows.shape[1], 1e-10)
    opened.add(rows, limits)
    opened.gap = GAP
    return opened


def optimum(rows: Array, limits: Array, weights: Array) -> float:
    opened = open_backend("highs", weights.size)
    opened.add(rows, limits)
    outcome = opened.solve(weights)
    opened.close()
    assert outcome.status is Status.OPTIMAL
    return float(weights @ outcome.upper_half)


def examine(opened: InteriorPoint, rows: Array, limits: Array, weights: Array) -> None:
    """Check an answer and the bound of its multipliers against the optimum of the simplex method."""
    outcome, best = opened.solve(weights), optimum(rows, limits, weights)
    assert outcome.status is Status.OPTIMAL
    assert (outcome.multipliers >= 0).all()
    assert ((outcome.upper_half >= 0) & (outcome.upper_half <= 1)).all()
    assert np.max(rows @ outcome.upper_half - limits, initial=0.0) <= 10 * GAP * max(
        1.0, np.abs(limits).max(initial=1.0)
    )
    bound = limits @ outcome.multipliers + np.maximum(weights - outcome.multipliers @ rows, 0.0).sum()
    assert best - 1e-9 <= bound <= best + GAP + 1e-9
    assert float(weights @ outcome.upper_half) >= best - GAP - 1e-9


@pytest.mark.parametrize("size", [(3, 40), (40, 3), (30, 30), (1, 1), (80, 25)])
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_reach_the_simplex_optimum(size: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.standard_normal(size), rng.standard_normal(size[1])
    limits = rows @ rng.random(size[1]) + rng.random(size[0])  # they are feasible
    examine(program(rows, limits), rows, limits, weights)


@for_each(
    "problem",
    [
        Problem.from_allowance(K=11, m=3, epsilon=0.1),
        Problem.from_allowance(K=21, m=1.5, epsilon=0.01),
        Problem.from_allowance(K=8, m=3, epsilon=0.1, Delta=0.01),
        Problem.from_allowance(K=8, m=1, epsilon=1e-4),
    ],
)
def test_full_constraint_sets_reach_the_simplex_optimum(problem: Problem) -> None:
    constraint = PrivacyConstraint.of(problem)
    rows = np.concatenate([constraint.rows(block) for block in ConstraintGenerator(problem).blocks()])
    examine(
        program(rows, limits := np.full(len(rows), constraint.limit)), rows, limits, rectangular().weights(problem.K)
    )


def test_rows_without_limit_or_entries_and_empty_programs_are_solved() -> None:
    weights = np.array([1.0, -1.0, 0.5])
    rows = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    limits = np.array([0.0, 0.5, 0.25, 0.25])
    examine(program(rows, limits), rows, limits, weights)
    examine(program(rows[:0], limits[:0]), rows[:0], limits[:0], weights)


def test_without_interior_points_the_bound_holds() -> None:
    rows = np.array([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]])  # y₀ = y₁
    outcome = program(rows, np.zeros(3)).solve(np.array([1.0, -0.5]))
    assert (outcome.multipliers >= 0).all()
    assert np.isfinite(outcome.multipliers).all()
    bound = np.maximum(np.array([1.0, -0.5]) - outcome.multipliers @ rows, 0.0).sum()
    assert 0.5 - 1e-9 <= bound <= 0.5 + 1e-3


def test_after_dropping_rows_the_program_is_a_new_one() -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.random((20, 6)), rng.random(6)
    limits = 1.0 + rng.random(20)
    opened = program(rows[:12], limits[:12])
    opened.solve(weights)
    opened.add(rows[12:], limits[12:])
    opened.drop(np.array([1, 5, 19]))
    kept = np.delete(np.arange(20), [1, 5, 19])
    examine(opened, rows[kept], limits[kept], weights)
    places = np.arange(4)
    later = opened.continued(rows[:5, :4], limits[:5], WarmStart(places, np.arange(5), np.zeros(4)))
    later.gap = GAP
    examine(later, rows[:5, :4], limits[:5], weights[:4])


def test_a_time_limit_of_0_gives_a_status_and_a_valid_bound() -> None:
    rows, weights = np.ones((1, 4)), np.arange(4.0)
    outcome = program(rows, np.ones(1)).solve(weights, 0.0)
    assert (outcome.status, outcome.iterations) == (Status.TIME_LIMIT, 0)
    assert np.isfinite(outcome.multipliers).all()
    assert outcome.multipliers[0] + np.maximum(weights - outcome.multipliers @ rows, 0.0).sum() >= 3.0


CASES = [
    (Problem.from_allowance(K=151, m=1.5, epsilon=0.01), "rectangular"),
    (Problem.from_allowance(K=150, m=3, epsilon=0.1, Delta=1e-3), "rectangular"),
    (Problem.from_allowance(K=151, m=3, epsilon=1.0, affected=40), "shared(2,5)"),
    (Problem.from_allowance(K=121, m=2, epsilon=0.1), "expected_error"),
]


@pytest.mark.parametrize(("problem", "objective"), CASES)
def test_both_methods_prove_the_same_optimum(monkeypatch: pytest.MonkeyPatch, problem: Problem, objective: str) -> None:
    by_simplex = solve(problem, objective)
    monkeypatch.setattr(solver, "MIN_INTERIOR_K", 0)
    from_inside = solve(problem, objective)
    for one, other in ((by_simplex, from_inside), (from_inside, by_simplex)):
        assert one.status is Status.OPTIMAL
        assert one.gap <= 1e-6
        assert one.utility <= other.upper_bound
        assert verify(problem, one.gamma).margin >= 0
    assert from_inside.statistics.iterations != by_simplex.statistics.iterations


def test_a_design_of_a_thousand_voters_ends_at_its_tolerance() -> None:
    long_design = solve(Problem.from_allowance(K=1301, m=1.5, epsilon=0.01))
    assert long_design.status is Status.OPTIMAL
    assert long_design.gap <= 1e-6
    assert long_design.certificate.margin >= 0
    assert math.isclose(long_design.utility, 0.6357, abs_tol=1e-4)


def test_if_only_gamma_0_is_private_the_answer_is_0() -> None:
    silent = solve(Problem(1301, Privacy(0.1), Privacy(0.0)))
    assert silent.status is Status.OPTIMAL
    assert silent.utility <= silent.upper_bound <= 1e-6
