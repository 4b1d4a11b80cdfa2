"""Samplers have exactly their law, by all paths of their random choices in rationals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from exhaustive_chance import exact_distribution
from numpy.typing import NDArray
from scipy import stats
from support.cases import for_each
from support.refusals import refused

from darrm_opt.bagging import draw_subsamples
from darrm_opt.mechanisms import vote_noise
from darrm_opt.mechanisms.vote_noise import GaussianNoise, LaplaceNoise, VoteNoise, noisy_leaders
from darrm_opt.randomness import (
    RandomSource,
    SeededRandomnessForTestsOnly,
    discrete_gaussian,
    discrete_laplace,
    exponential_chance,
    shuffled,
)


@for_each("exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_an_exponential_probability_is_exact(exponent: Fraction) -> None:
    found, rest = exact_distribution(
        lambda source: exponential_chance(*exponent.as_integer_ratio(), source), Fraction(1, 10**8)
    )
    assert rest < 1e-5
    assert float(found.get(True, Fraction(0))) - 1e-15 <= math.exp(-exponent)
    assert math.exp(-exponent) <= float(found.get(True, Fraction(0)) + rest) + 1e-15


def agrees_with(
    masses: Callable[[int], float], draw: Callable[[RandomSource], int], least: Fraction, most_rest: float
) -> None:
    total = math.fsum(masses(x) for x in range(-400, 401))
    found, rest = exact_distribution(draw, least)
    assert float(rest) < most_rest
    assert sum(found.values()) + rest == 1
    assert len(found) >= 5
    for x, probability in found.items():
        exact = masses(x) / total
        assert float(probability) * (1 - 1e-12) <= exact <= float(probability + rest) + 1e-12


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(2), Fraction(1, 2), Fraction(3, 2)])
def test_discrete_laplace_is_exact(scale: Fraction) -> None:
    agrees_with(
        lambda x: math.exp(-abs(x) / scale), lambda source: discrete_laplace(scale, source), Fraction(1, 10**5), 0.1
    )


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(9, 4)])
def test_discrete_gaussian_is_exact(variance: Fraction) -> None:
    agrees_with(
        lambda x: math.exp(-x * x / (2 * variance)),
        lambda source: discrete_gaussian(variance, source),
        Fraction(1, 10**4),
        0.3,
    )


def chi_square(values: list[int], masses: Callable[[int], float], cells: int) -> float:
    """Return the p-value of samples against masses, in cells −c, …, c and both tails."""
    total = math.fsum(masses(x) for x in range(-3000, 3001))
    expected = np.array([masses(x) / total for x in range(-cells, cells + 1)])
    seen = np.array([values.count(x) for x in range(-cells, cells + 1)])
    expected = np.append(expected, 1 - expected.sum()) * len(values)
    seen = np.append(seen, len(values) - seen.sum())
    return float(stats.chisquare(seen, expected).pvalue)


def test_large_scales_have_the_right_law() -> None:
    source = SeededRandomnessForTestsOnly(20)
    laplace = [discrete_laplace(Fraction(25, 2), source) for _ in range(8000)]
    assert chi_square(laplace, lambda x: math.exp(-abs(x) / 12.5), 20) > 1e-3
    gaussian = [discrete_gaussian(Fraction(2146, 100) ** 2, source) for _ in range(8000)]
    assert chi_square(gaussian, lambda x: math.exp(-x * x / (2 * 21.46**2)), 30) > 1e-3


@dataclass(frozen=True)
class ThreeValued(LaplaceNoise):
    """Noise of −1, 0 or 1 with probability ⅓ each, so that all outcomes can be listed."""

    def draw_many(self, count: int, source: RandomSource) -> NDArray[np.int64]:
        return np.array([source.below(3) - 1 for _ in range(count)])


@for_each("counts", [[5, 4], [5, 5], [2, 3, 3], [0, 2, 1]])
def test_the_noisy_leader_is_exact_and_breaks_ties_uniformly(counts: list[int]) -> None:
    def below_each(limits: NDArray[np.integer], source: RandomSource) -> NDArray[np.int64]:
        return np.array([source.below(int(limit)) for limit in limits])

    noise, votes = ThreeValued(Fraction(1)), np.array([counts])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vote_noise, "below_each", below_each)
        found, rest = exact_distribution(lambda source: int(noisy_leaders(votes, noise, source)[0]), Fraction(0))
    assert rest == 0
    expected = dict.fromkeys(range(len(counts)), Fraction(0))
    for shifts in product((-1, 0, 1), repeat=len(counts)):
        noisy = [count + shift for count, shift in zip(counts, shifts, strict=True)]
        winners = [label for label, count in enumerate(noisy) if count == max(noisy)]
        for label in winners:
            expected[label] += Fraction(1, 3 ** len(counts) * len(winners))
    assert found == {label: share for label, share in expected.items() if share}


@for_each("margin", [0, 1, 2, 7, 40])
@for_each("size", [0.4, 1.0, 5.0, 21.46])
@for_each("make", [LaplaceNoise, GaussianNoise.of_sigma])
def test_closed_forms_equal_the_convolution(make: Callable[[float], VoteNoise], size: float, margin: int) -> None:
    x = np.arange(-1500, 1501.0)
    one = np.exp(-np.abs(x) / size) if make is LaplaceNoise else np.exp(-(x**2) / (2 * size**2))
    difference = np.convolve(one / one.sum(), one / one.sum())
    middle = difference.size // 2
    expected = difference[middle + margin] / 2 + difference[middle + margin + 1 :].sum()
    noise = make(size)
    assert noise.loses(margin) == pytest.approx(expected, rel=1e-10, abs=1e-18)
    assert noise.wins(margin) == pytest.approx(1 - expected, rel=1e-12)
    assert noise.wins(-margin) == pytest.approx(expected, rel=1e-10, abs=1e-18)


def test_the_table_and_the_series_agree() -> None:
    table, series = GaussianNoise.of_sigma(99.99999), GaussianNoise.of_sigma(100.00001)
    for margin in (1, 10, 100, 300):
        assert table.loses(margin) == pytest.approx(series.loses(margin), rel=1e-5)
    noise = GaussianNoise.of_sigma(150.0)
    masses = noise.difference_masses()
    for margin in (1, 50, 400):
        assert noise.loses(margin) == pytest.approx(masses[margin] / 2 + masses[margin + 1 :].sum(), rel=1e-12)


def test_discrete_noise_is_continuous_noise_for_large_scales() -> None:
    for margin in (3, 60):
        assert LaplaceNoise(40).wins(margin) == pytest.approx(LaplaceNoise(40).wins(margin, "continuous"), abs=2e-5)
        gaussian = GaussianNoise.of_sigma(40.0)
        assert gaussian.wins(margin) == pytest.approx(gaussian.wins(margin, "continuous"), abs=2e-5)


def test_shuffle_and_subsamples_are_uniform() -> None:
    found, rest = exact_distribution(lambda source: tuple(shuffled("abc", source)))
    assert rest == 0
    assert found == dict.fromkeys(permutations("abc"), Fraction(1, 6))

    def subset(source: RandomSource, *, replacement: bool) -> tuple[int, ...]:
        return tuple(draw_subsamples(4, 2, 1, replacement=replacement, source=source)[0].tolist())

    without, rest = exact_distribution(lambda source: subset(source, replacement=False))
    assert rest == 0
    assert without == dict.fromkeys(permutations(range(4), 2), Fraction(1, 12))
    with_replacement, rest = exact_distribution(lambda source: subset(source, replacement=True))
    assert rest == 0
    assert set(with_replacement.values()) == {Fraction(1, 16)}
    assert len(with_replacement) == 16


def test_disjoint_subsamples_share_no_record() -> None:
    chosen = draw_subsamples(30, 7, 4, replacement=False, sampling="disjoint", source=SeededRandomnessForTestsOnly(3))
    assert len({int(record) for subsample in chosen for record in subsample}) == 28


@for_each("scale", [0, -1.0, math.inf, math.nan, True, "1"])
def test_invalid_scales_are_refused(scale: float) -> None:
    with refused("scale"):
        LaplaceNoise(scale)


def test_invalid_kinds_are_refused() -> None:
    with refused("kind", "'exact'"):
        LaplaceNoise(1).wins(3, "exact")  # type: ignore[arg-type]
