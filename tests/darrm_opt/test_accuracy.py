"""Both error measures against an enumeration of all 2^K votes in exact fractions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accuracy import disagreement, error_curve, tv_error
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.priors import Histogram, IndependentVoters, SharedBeta

CASES = [(K, seed) for K in range(1, 8) for seed in range(3)]


def random_noise(K: int, seed: int) -> NoiseFunction:
    """Return a symmetric γ, not monotone, with entries in [0, 1]."""
    half = np.random.default_rng((K, seed)).random(K // 2 + 1)
    return NoiseFunction(np.concatenate((half, half[: (K + 1) // 2][::-1])))


def random_p(K: int, seed: int) -> Array:
    return np.random.default_rng((K, seed, 1)).random(K)


def enumerated(noise: NoiseFunction, p: Array | list[float]) -> tuple[Fraction, Fraction]:
    """Return (tv error, disagreement) of Algorithm 1, run on every vote."""
    K, half = noise.K, Fraction(1, 2)
    released_one = majority_one = differ = Fraction(0)
    for vote in itertools.product((0, 1), repeat=K):
        chance = Fraction(1)
        for bit, one in zip(vote, p, strict=True):
            chance *= Fraction(float(one)) if bit else 1 - Fraction(float(one))
        ones = sum(vote)
        keep = Fraction(float(noise.values[ones]))
        if 2 * ones == K:
            released_one += chance * half
            majority_one += chance * half
            continue
        majority = int(2 * ones > K)
        released_one += chance * (keep * majority + (1 - keep) * half)
        majority_one += chance * majority
        differ += chance * (1 - keep) * half
    return abs(released_one - majority_one), differ


@for_each(("K", "seed"), CASES)
def test_vectors_of_voters(K: int, seed: int) -> None:
    noise, p = random_noise(K, seed), random_p(K, seed)
    tv, differ = enumerated(noise, p)
    assert tv_error(noise, p) == pytest.approx(float(tv), abs=1e-15)
    assert disagreement(noise, p) == pytest.approx(float(differ), abs=1e-15)
    assert tv_error(noise, p) <= disagreement(noise, p)


@for_each(("K", "seed"), CASES)
def test_shared_p(K: int, seed: int) -> None:
    noise = random_noise(K, seed)
    for p in (0.0, 1e-9, 0.3, 0.5, 0.5 + 2**-40, 0.77, 1.0):
        tv, differ = enumerated(noise, [p] * K)
        assert tv_error(noise, p) == pytest.approx(float(tv), rel=1e-13, abs=0)
        assert disagreement(noise, p) == pytest.approx(float(differ), rel=1e-13, abs=0)


@pytest.mark.parametrize("K", [4, 7])
def test_lists_and_integers_are_accepted(K: int) -> None:
    gamma = [0.5] * (K + 1)
    assert tv_error(gamma, 1) == disagreement(gamma, [1] * K) == 0.25


@for_each("K", [1, 4, 7, 30])
def test_a_curve_has_the_error_of_each_point(K: int) -> None:
    noise = random_noise(K, 1)
    grid = np.linspace(0, 1, 9)
    curve = error_curve(noise, grid)
    assert curve.tv_error.tolist() == [tv_error(noise, p) for p in grid]
    assert curve.disagreement.tolist() == [disagreement(noise, p) for p in grid]
    rows = np.random.default_rng(K).random((5, K))
    curve = error_curve(noise, rows)
    assert np.array_equal(curve.p, rows)
    assert curve.tv_error.tolist() == pytest.approx([tv_error(noise, p) for p in rows], rel=1e-13, abs=1e-16)
    assert curve.disagreement.tolist() == pytest.approx([disagreement(noise, p) for p in rows], rel=1e-13)


def test_curves_cannot_be_changed_and_may_be_empty() -> None:
    curve = error_curve([1.0, 1.0], [0.5])
    for array in (curve.p, curve.tv_error, curve.disagreement):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert error_curve([1.0, 1.0], []).tv_error.shape == (0,)


def test_large_blocks_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, noise = np.random.default_rng(0).random((100, 40)), random_noise(40, 0)
    whole = error_curve(noise, rows)
    for cells in (1000, 1):  # pieces of 24 rows, then of one
        monkeypatch.setattr("darrm_opt.priors.BLOCK_CELLS", cells)
        assert np.array_equal(error_curve(noise, rows).tv_error, whole.tv_error)


def averaged(noise: NoiseFunction, grid: Array, weights: Array, which: Callable[[NoiseFunction, Any], float]) -> float:
    return float(weights @ [which(noise, p) for p in grid])


@for_each("K", [1, 2, 5, 12])
@for_each("which", [tv_error, disagreement])
def test_shared_beta_prior_is_the_mean_over_p(K: int, which: Callable[[NoiseFunction, Any], float]) -> None:
    """Beta(3, 2) has density 12p²(1−p); each half of [0, 1] is a polynomial, exact by Gauss–Legendre."""
    noise = random_noise(K, 2)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for left in (0.0, 0.5):
        p = left + (nodes + 1) / 4
        total += averaged(noise, p, weights / 4 * 12 * p**2 * (1 - p), which)
    assert which(noise, SharedBeta(3, 2)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("which", [tv_error, disagreement])
def test_independent_grid_prior_is_the_mean_over_the_grid(which: Callable[[NoiseFunction, Any], float]) -> None:
    """Three voters on a grid of 4 points: all 64 vectors."""
    noise = random_noise(3, 0)
    prior = IndependentVoters(0.5, tau=4)
    points = [0.5 + i / 8 for i in range(4)]
    mean = np.mean([which(noise, np.array(p)) for p in itertools.product(points, repeat=3)])
    assert which(noise, prior) == pytest.approx(float(mean), rel=1e-13)


def test_independent_uniform_prior_below_one_half() -> None:
    noise = random_noise(5, 0)
    assert disagreement(noise, IndependentVoters(0.0)) == pytest.approx(disagreement(noise, 0.5), rel=1e-13)
    with refused("lower"):
        tv_error(noise, IndependentVoters(0.0))


def test_a_histogram_is_the_distribution_of_ones() -> None:
    noise = NoiseFunction([1.0, 0.25, 0.25, 1.0])
    prior = Histogram((1.0, 4.0, 1.0, 2.0))
    assert tv_error(noise, prior) == pytest.approx(abs(4 - 1) / 8 * 0.75 / 2)
    assert disagreement(noise, prior) == pytest.approx((4 + 1) / 8 * 0.75 / 2)


@for_each(
    ("call", "argument"),
    [
        (lambda: tv_error([1.0, 1.0, 1.0], [0.1, 0.2, 0.3]), "p"),
        (lambda: tv_error([1.0, 1.0], 1.5), "p"),
        (lambda: disagreement([1.0, 1.0], float("nan")), "p"),
        (lambda: disagreement([1.0, 1.0], cast("float", "a")), "p"),
        (lambda: tv_error([1.0, 0.5], 0.1), "gamma[0]"),
        (lambda: error_curve([1.0, 1.0, 1.0], np.array([[0.1, 0.2, 0.3]])), "ps"),
        (lambda: error_curve([1.0, 1.0, 1.0], cast("list[float]", 0.5)), "ps"),
        (lambda: error_curve([1.0, 1.0, 1.0], [-0.5]), "ps"),
        (lambda: tv_error([1.0, 1.0], Histogram((1.0, 1.0, 1.0, 0.0))), "counts"),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object], argument: str) -> None:
    with refused(argument):
        call()


def test_a_custom_prior_is_averaged_over() -> None:
    class Undecided:
        """On half of the inputs all voters agree; on the others p is uniform."""

        def folded(self, K: int) -> Array:
            return self._mixed(SharedBeta(1, 1).folded(K))

        def gap(self, K: int) -> Array:
            return self._mixed(SharedBeta(1, 1).gap(K))

        @staticmethod
        def _mixed(rest: Array) -> Array:
            mixed = rest / 2
            mixed[-1] += 0.5
            return mixed

    noise = NoiseFunction([0.9, 0.4, 0.2, 0.2, 0.4, 0.9])
    for which in (tv_error, disagreement):
        expected = (which(noise, SharedBeta(1, 1)) + which(noise, 1.0)) / 2
        assert which(noise, Undecided()) == pytest.approx(expected, rel=1e-12)
