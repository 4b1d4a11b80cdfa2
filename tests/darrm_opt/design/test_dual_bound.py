"""The linear program as arrays: the bound of any multipliers, and the status of a solve."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from support.cases import for_each
from support.strategies import random_case

from darrm_opt.design.constraint import STEP_ERROR, ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.master_program import MasterProgram, dual_bound, in_increments
from darrm_opt.design.objective import rectangular, shared
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array

Program = tuple[Array, Array, Array, int]


def program(seed: int) -> Program:
    """Return weights, rows, limits and K of the full program of a random problem."""
    rng = np.random.default_rng((seed, 31))
    problem = random_case(rng, (1, 2, 3, 4, 5, 6, 7)).problem
    constraint = PrivacyConstraint.of(problem)
    rows = np.concatenate([constraint.rows(block) for block in ConstraintGenerator(problem).blocks()])
    objective = rectangular() if seed % 2 else shared(1, 1)
    return objective.weights(problem.K), rows, np.full(len(rows), constraint.limit), problem.K


def solved(weights: Array, rows: Array, limits: Array) -> tuple[Fraction, Array]:
    """Return a value that some γ attains, and the multipliers of the optimum.

    The value is exact: the answer is scaled until it meets every row in fractions.
    """
    answer = linprog(-weights, A_ub=rows, b_ub=limits, bounds=(0, 1), method="highs")
    if answer.x is None:
        raise AssertionError(answer.message)
    gamma = [Fraction(min(1.0, max(0.0, float(value)))) for value in answer.x]
    scale = Fraction(1)
    for row, limit in zip(rows[rows @ answer.x > limits - 1e-6], limits, strict=False):
        value = sum((Fraction(float(entry)) * g for entry, g in zip(row, gamma, strict=True)), start=Fraction(0))
        if value > 0:
            scale = min(scale, Fraction(float(limit)) / value)
    attained = scale * sum((Fraction(float(w)) * g for w, g in zip(weights, gamma, strict=True)), start=Fraction(0))
    return attained, -answer.ineqlin.marginals


@for_each("seed", range(25))
def test_no_multipliers_give_a_bound_below_an_attained_value(seed: int) -> None:
    weights, rows, limits, K = program(seed)
    attained, optimal = solved(weights, rows, limits)
    rng = np.random.default_rng(seed)
    many = len(limits)
    for multipliers in (
        optimal,
        optimal * rng.uniform(0, 2, many),
        optimal + rng.normal(0, 1e-3, many),
        rng.normal(0, 1, many),
        rng.exponential(1, many) * (rng.random(many) < 3 / many),
        -np.abs(rng.normal(0, 1, many)),
        np.zeros(many),
        np.full(many, np.nan),
        np.where(rng.random(many) < 0.5, np.nan, optimal),
        np.where(rng.random(many) < 0.1, np.inf, optimal),
        np.where(rng.random(many) < 0.1, -np.inf, optimal),
    ):
        bound = dual_bound(weights, rows, limits, multipliers, K)
        assert np.isfinite(bound)
        assert Fraction(bound) >= attained
    charged = float(np.maximum(optimal, 0).sum()) * (4 * (K + 1) * STEP_ERROR + many * 2.0**-49)
    assert dual_bound(weights, rows, limits, optimal, K) == pytest.approx(float(attained), abs=2e-6 + charged)


def test_without_rows_or_multipliers_the_bound_is_the_sum_of_weights() -> None:
    weights = np.array([0.25, 0.75])
    assert 1.0 <= dual_bound(weights, np.empty((0, 2)), np.empty(0), np.empty(0), 3) < 1 + 1e-14
    assert 1.0 <= dual_bound(weights, np.ones((1, 2)), np.zeros(1), np.array([-5.0]), 3) < 1 + 1e-14


def test_a_row_that_forbids_everything_gives_bound_0() -> None:
    weights = np.array([0.25, 0.75])
    assert dual_bound(weights, weights[np.newaxis], np.zeros(1), np.ones(1), 3) < 1e-12


@for_each("seed", range(8))
def test_rows_of_gamma_are_converted_to_rows_of_increments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    increments = rng.dirichlet(np.ones(6))
    rows = rng.normal(size=(4, 6))
    assert in_increments(rows) @ increments == pytest.approx(rows @ np.cumsum(increments), abs=1e-14)
    assert in_increments(rows[0]).shape == (6,)


@pytest.mark.parametrize("shape", ["free", "monotone"])
def test_the_bound_of_a_growing_program_falls_to_its_value(shape: str) -> None:
    """With more rows the bound falls; each answer satisfies its rows, and the bound is its value."""
    problem = random_case(np.random.default_rng(5), (9,)).problem
    constraint, weights = PrivacyConstraint.of(problem), rectangular().weights(9)
    growing = MasterProgram(constraint, rectangular().linear_goal(9), shape, "highs")
    blocks = [*ConstraintGenerator(problem).blocks(60)][-12:]
    last = np.inf
    for block in blocks:
        growing.add(block)
        (status, answer), bound = growing.maximise(weights, None), growing.bound(weights)
        assert status is Status.OPTIMAL
        assert bound == pytest.approx(weights @ answer.values[5:], abs=1e-7)
        assert bound <= last + 1e-9
        assert (constraint.rows(block) @ answer.values[5:]).max() <= constraint.limit + 1e-9
        if shape == "monotone":
            assert answer.is_monotone
        last = bound
    assert growing.rows == sum(map(len, blocks)) + (shape == "monotone")
    assert len(growing.new_multisets(blocks[0])) == 0
    fresh = blocks[0] + np.array([1, -1] + [0] * (blocks[0].shape[1] - 2))
    assert len(growing.new_multisets(fresh)) > 0
