"""Permute-and-flip, the exponential mechanism and mixtures of subsampling, as noise functions, against their definitions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.baselines import subsampling, subsampling_mixture
from darrm_opt.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, SelectionMechanism
from darrm_opt.noise import NoiseFunction


def permute_and_flip(K: int, rate: float) -> NoiseFunction:
    return PermuteAndFlip(K, 2, rate).gamma


def exponential_mechanism(K: int, rate: float) -> NoiseFunction:
    return ExponentialMechanism(K, 2, rate).gamma


@for_each("K", [1, 2, 5, 8])
@for_each("rate", [0.1, 1.0, 4.0])
def test_the_laws_are_those_of_the_definitions(K: int, rate: float) -> None:
    for ones in range(K + 1):
        votes = (K - ones, ones)
        lag = [max(votes) - each for each in votes]
        flips = [math.exp(-rate * each) for each in lag]
        taken = 0.0  # Pr[class 1]: over both orders, the first that its coin takes; a class that does not lag always is
        for order in itertools.permutations((0, 1)):
            left = 1.0
            for each in order:
                taken += 0.5 * left * flips[each] * each
                left *= 1 - flips[each]
        gamma = float(permute_and_flip(K, rate).values[ones])
        assert abs(2 * taken - 1) == pytest.approx(gamma if 2 * ones != K else 0.0, abs=1e-12)
        weights = [math.exp(rate * (each - K)) for each in votes]
        gamma = float(exponential_mechanism(K, rate).values[ones])
        assert abs(2 * weights[1] / sum(weights) - 1) == pytest.approx(gamma, abs=1e-12)


@for_each("K", [1, 2, 5, 6, 11])
def test_mixtures_of_subsampling_fill_the_gaps(K: int) -> None:
    most = K - 1 + K % 2
    for m in range(1, most + 1, 2):
        np.testing.assert_allclose(subsampling_mixture(K, m).values, subsampling(K, m).values, rtol=1e-15)
    at = [subsampling_mixture(K, float(voters)).values for voters in np.linspace(0.05, most, 60)]
    assert all(np.all(b >= a) and np.any(b > a) for a, b in itertools.pairwise(at))
    if most > 2:
        half = (subsampling(K, 1).values + subsampling(K, 3).values) / 2
        np.testing.assert_allclose(subsampling_mixture(K, 2.0).values, half, rtol=1e-15)
    np.testing.assert_allclose(subsampling_mixture(K, 0.25).values, subsampling(K, 1).values / 4, rtol=1e-15)


def test_the_mixture_is_the_majority_of_a_random_number_of_voters() -> None:
    K, ones, share = 7, 5, Fraction(3, 10)  # 30 % of the time five voters, else three
    drawn = [list(itertools.combinations([1] * ones + [0] * (K - ones), m)) for m in (3, 5)]
    wins = [Fraction(sum(2 * sum(each) > len(each) for each in draws), len(draws)) for draws in drawn]
    expected = abs(2 * ((1 - share) * wins[0] + share * wins[1]) - 1)
    assert float(subsampling_mixture(K, 3.6).values[ones]) == pytest.approx(float(expected), abs=1e-12)


def test_bad_parameters_are_named() -> None:
    kinds: tuple[type[SelectionMechanism], ...] = (PermuteAndFlip, ExponentialMechanism)
    for kind in kinds:
        for rate in (0.0, -1.0, math.inf, math.nan):
            with refused("rate"):
                kind(5, 2, rate)
        with refused("classes"):
            _ = kind(5, 3, 1.0).gamma
    for voters in (0.0, 5.5, math.nan):
        with refused("voters"):
            subsampling_mixture(6, voters)
