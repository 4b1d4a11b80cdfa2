"""Means over the few voters away from the ends, and their bounds, against exact sums."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb, inf, lgamma, log

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.design.separation.binomials import binomial, bound_by_distance, bound_by_extremes, expected, expected_all
from darrm_opt.design.separation.result import TAIL, evaluation_error, terms_of
from darrm_opt.noise import Array

PLACES = [
    (n, N, plus, minus)
    for n in (0, 1, 4, 6)
    for N in range(n + 1)
    for plus in range(n - N + 1)
    for minus in range(N + 1)
]


def rough(n: int, many: int = 3) -> Array:
    """Return rough rows: smooth ones would hide an off-by-one error."""
    return np.random.default_rng(n).choice([-1.0, -0.3, 0.0, 0.25, 1.0], (many, n + 1))


def masses(trials: int, Delta: float) -> list[Fraction]:
    p = Fraction(Delta)
    return [comb(trials, t) * p**t * (1 - p) ** (trials - t) for t in range(trials + 1)]


def exact(row: Array, N: int, plus: int, minus: int, Delta: float) -> Fraction:
    pairs = itertools.product(enumerate(masses(plus, Delta)), enumerate(masses(minus, Delta)))
    return sum((p * r * Fraction(row[N + x - y]) for (x, p), (y, r) in pairs), Fraction(0))


def exact_farthest(row: Array, N: int, plus: int, minus: int, Delta: float) -> Fraction:
    pairs = itertools.product(enumerate(masses(plus, Delta)), enumerate(masses(minus, Delta)))
    return sum((p * r * Fraction(row[N - y : N + x + 1].max()) for (x, p), (y, r) in pairs), Fraction(0))


@for_each("Delta", [1e-6, 0.01, 0.3, 0.5])
@for_each("trials", [0, 1, 5, 40])
def test_the_masses_of_a_binomial(trials: int, Delta: float) -> None:
    terms = min(terms_of(trials * Delta), trials)
    mass = binomial(np.array([trials, 0]), Delta, terms)
    assert mass[:, 0] == pytest.approx([float(m) for m in masses(trials, Delta)[: terms + 1]], rel=1e-13, abs=0)
    assert mass[:, 1].tolist() == [1.0, *[0.0] * terms]
    assert sum(masses(trials, Delta)[terms + 1 :]) <= TAIL


@for_each("Delta", [0.6, 0.99, 1 - 1e-6, 1 - 1e-9, 1 - 2.0**-53])
def test_the_masses_of_a_binomial_with_probability_near_1(Delta: float) -> None:
    trials = np.array([0, 1, 2, 40, 64])  # (1 - Delta)^64 underflows
    mass = binomial(trials, Delta, 64)
    assert mass.shape == (65, 5)
    for column, many in zip(mass.T, trials.tolist(), strict=True):
        true = [float(m) for m in masses(many, Delta)]
        assert column == pytest.approx([*true, *[0.0] * (64 - many)], rel=1e-13, abs=1e-300)
    assert binomial(trials, Delta, 3) == pytest.approx(mass[:4], rel=0, abs=0)


@for_each("Delta", [1e-5, 0.05, 0.4])
@for_each("n", [0, 1, 4, 6])
def test_means_and_their_bounds(n: int, Delta: float) -> None:
    for _, N, plus, minus in (place for place in PLACES if place[0] == n):
        A, error = rough(n), evaluation_error(n * Delta)
        i, at, up, down = (np.array([*range(3)]), *(np.full(3, value) for value in (N, plus, minus)))
        means = expected(A, i, at, up, down, Delta, n)
        far, near = bound_by_extremes(A, i, at, up, down, Delta, n), bound_by_distance(A, plus + minus, Delta)[:, N]
        for row in range(3):
            true = exact(A[row], N, plus, minus, Delta)
            bound = exact_farthest(A[row], N, plus, minus, Delta)
            assert abs(Fraction(means[row]) - true) <= error
            assert abs(Fraction(far[row]) - bound) <= error
            assert far[row] >= true - Fraction(error)
            assert near[row] >= bound - 2 * Fraction(error)  # all values reached there are reached here
            assert far[row] <= near[row] + 2 * error
            table = expected_all(A[row], N, plus, minus, Delta, n)
            assert table.shape == (plus + 1, minus + 1)
            assert abs(Fraction(table[plus, minus]) - true) <= error
            assert far[row] >= table.max() - 2 * error


@for_each(("n", "trials"), [(0, 0), (1, 1), (6, 3), (6, 6)])
def test_values_within_a_distance(n: int, trials: int) -> None:
    A = rough(n)
    bound = bound_by_distance(A, trials, 0.3)
    for row, N in itertools.product(range(3), range(n + 1)):
        value = sum(m * Fraction(A[row, max(0, N - t) : N + t + 1].max()) for t, m in enumerate(masses(trials, 0.3)))
        assert bound[row, N] == pytest.approx(float(value), abs=1e-14)


def test_bounds_are_tight_for_flat_rows() -> None:
    """A jump ten places away counts by the small probability of reaching it."""
    A = np.zeros((1, 41))
    A[0, 30:] = 1.0
    zero = np.array([0])
    near, far = (
        float(bound_by_extremes(A, zero, np.array([N]), np.array([40 - N]), np.array([N]), 0.02, 40)[0])
        for N in (28, 15)
    )
    assert near > 0.02
    assert far < 1e-9
    assert bound_by_distance(A, 40, 0.02)[0, 15] < 1e-9


@for_each("mean", [0.0, 1e-9, 3.5, 499.9, 500.1, 711.9, 720.9, 4000.0, 90_000.0])
def test_the_number_of_terms_suffices_for_any_mean(mean: float) -> None:
    """T is sufficient and not much larger, also if mean^k/k! overflows."""
    terms = terms_of(mean)
    log_tail = (terms + 1) * log(mean) - lgamma(terms + 2) if mean else -inf
    assert log_tail <= log(TAIL) * (1 - 1e-9)
    if terms > 1:
        assert (terms - 1) * log(mean) - lgamma(terms) > log(TAIL) - 1e-3
