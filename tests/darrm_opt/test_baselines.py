"""The closed-form noise functions against enumeration in exact fractions."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import cast

import numpy as np
import pytest
from support.cases import for_each
from support.paths import DATA
from support.refusals import refused

from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.baselines import (
    double_subsampling,
    plain_majority,
    plain_majority_sharp,
    randomized_response,
    subsampling,
    subsampling_mixture,
)
from darrm_opt.design.objective import parse_objective
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy

GOLDEN = DATA / "golden_optima.csv"


def exact_subsampling(K: int, m: int) -> list[Fraction]:
    """Return |2q(l) − 1| by enumeration of all subsets of m voters; the first l voters vote 1."""
    values = []
    for l in range(K + 1):
        wins = Fraction(0)
        for drawn in itertools.combinations(range(K), m):
            ones = sum(voter < l for voter in drawn)
            wins += Fraction(1 if 2 * ones > m else 0) if 2 * ones != m else Fraction(1, 2)
        values.append(abs(2 * wins / math.comb(K, m) - 1))
    return values


def is_rounded_down(value: float, exact: Fraction) -> bool:
    return Fraction(float(value)) <= exact and (value == 1.0 or Fraction(math.nextafter(float(value), 2.0)) > exact)


@for_each(("K", "m"), [(K, m) for K in range(1, 10) for m in range(1, K + 1)])
def test_subsampling_is_the_enumeration_rounded_down(K: int, m: int) -> None:
    noise = subsampling(K, m)
    assert noise.K == K
    assert all(
        is_rounded_down(value, exact) for value, exact in zip(noise.values, exact_subsampling(K, m), strict=True)
    )


def test_thousands_of_voters_are_exact() -> None:
    K, m, l = 2001, 901, 1040
    terms = [math.comb(l, j) * math.comb(K - l, m - j) for j in range(m + 1)]
    exact = Fraction(sum(terms[451:]) - sum(terms[:451]), math.comb(K, m))
    assert is_rounded_down(subsampling(K, m).values[l], exact)


@for_each("K", [1, 2, 5, 8, 11])
def test_double_subsampling_is_subsampling_up_to_all_voters(K: int) -> None:
    for m in range(1, K + 2):
        noise = double_subsampling(K, m)
        if 2 * m >= K + 1:
            assert np.all(noise.values[np.arange(K + 1) * 2 != K] == 1.0)
        else:
            assert noise == subsampling(K, 2 * m - 1)


@for_each("K", [1, 2, 5, 6, 11])
def test_mixtures_of_subsampling_interpolate(K: int) -> None:
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
    K, ones, share = 7, 5, Fraction(3, 10)  # five voters with probability 30 %, else three
    drawn = [list(itertools.combinations([1] * ones + [0] * (K - ones), m)) for m in (3, 5)]
    wins = [Fraction(sum(2 * sum(each) > len(each) for each in draws), len(draws)) for draws in drawn]
    expected = abs(2 * ((1 - share) * wins[0] + share * wins[1]) - 1)
    assert float(subsampling_mixture(K, 3.6).values[ones]) == pytest.approx(float(expected), abs=1e-12)


def exact_signed_mean(signed: Array, p: list[Fraction]) -> Fraction:
    """Return H(p) = E g(L) by enumeration over votes, one voter at a time."""
    alpha = [Fraction(1)]
    for one in p:
        alpha = [(1 - one) * a + one * b for a, b in zip([*alpha, Fraction(0)], [Fraction(0), *alpha], strict=True)]
    return sum((a * Fraction(float(g)) for a, g in zip(alpha, signed, strict=True)), Fraction(0))


def worst_excess(noise: NoiseFunction, growth: Fraction, target_growth: Fraction) -> Fraction:
    """Return the largest H(p) − c·H(p′) − (c − 1) over all corners of pure-DP voters, e^ε = ``growth``, c = e^{mε}."""
    x = growth / (growth + 1)
    corners = [(Fraction(0), Fraction(0)), (Fraction(1), Fraction(1)), (x, 1 - x), (1 - x, x)]
    return max(
        exact_signed_mean(noise.signed, [p for p, _ in voters])
        - target_growth * exact_signed_mean(noise.signed, [q for _, q in voters])
        - (target_growth - 1)
        for voters in itertools.combinations_with_replacement(corners, noise.K)
    )


@for_each("K", [1, 2, 3, 4, 5, 6, 7])
@for_each("growth", [Fraction(11, 10), Fraction(3)])
def test_double_subsampling_is_private_as_stored(K: int, growth: Fraction) -> None:
    for m in range(1, (K + 1) // 2 + 1):
        assert worst_excess(double_subsampling(K, m), growth, growth**m) <= 0


@for_each("K", [1, 2, 3, 4, 5, 6, 7])
def test_the_sharp_epsilon_of_the_plain_majority_holds_and_is_the_least(K: int) -> None:
    growth = Fraction(5, 4)
    majority = subsampling(K, K)
    ends = round(plain_majority_sharp(K, Privacy(1.0)).epsilon)
    assert worst_excess(majority, growth, growth**ends) <= 0
    assert worst_excess(majority, growth, growth ** (ends - 1)) > 0


def exact_constant(target: Privacy, majority: Privacy) -> Decimal:
    """Return the largest private γ in 60 digits: R over max f at the corners of the plain majority's region."""
    with localcontext() as context:
        context.prec = 60
        c, e = Decimal(target.epsilon).exp(), Decimal(majority.epsilon).exp()
        delta, failure = Decimal(target.delta), Decimal(majority.delta)
        x = (e + failure) / (e + 1)
        none, full = Decimal(0), Decimal(1)
        corners = [
            (none, none),
            (full, full),
            (x, 1 - x),
            (1 - x, x),
            (none, failure),
            (failure, none),
            (1 - failure, full),
            (full, 1 - failure),
        ]
        worst = max((2 * p - 1) - c * (2 * q - 1) for p, q in corners)
        return Decimal(1) if worst <= 0 else min(Decimal(1), (c - 1 + 2 * delta) / worst)


def test_randomized_response_is_the_largest_private_constant_rounded_down() -> None:
    steps = (0.0, 1e-6, 0.1, 0.3, 2.0, 40.0)
    rates = (0.0, 1e-12, 1e-5, 0.1, 0.9)
    for ends in itertools.product(steps, rates, steps, rates):
        target, majority = Privacy(*ends[:2]), Privacy(*ends[2:])
        value = float(randomized_response(3, target, majority).values[0])
        exact = exact_constant(target, majority)
        # 1e-40 allows for rounding at 60 digits
        assert exact * (1 - Decimal("1e-14")) <= Decimal(value) <= exact * (1 + Decimal("1e-40")), ends


def test_randomized_response_of_a_majority_that_is_not_private() -> None:
    noise = randomized_response(4, Privacy(0.3, 1e-5), Privacy(math.inf))
    expected = (math.expm1(0.3) + 2e-5) / (math.exp(0.3) + 1)
    assert noise.values.tolist() == pytest.approx([expected, expected, 0.0, expected, expected], rel=1e-14)
    assert randomized_response(3, Privacy(5000.0), Privacy(math.inf)).values[0] == pytest.approx(1.0, rel=1e-14)


def test_plain_majority_by_each_composition() -> None:
    voter = Privacy(0.1, 1e-5)
    assert (
        plain_majority(35, voter)
        == plain_majority(35, voter, compose=basic_composition)
        == basic_composition(0.1, 1e-5, 35)
    )
    rule = partial(kov_composition, slack=0.1)
    assert plain_majority(35, voter, compose=rule) == kov_composition(0.1, 1e-5, 35, 0.1)
    assert plain_majority(35, voter, affected=4) == basic_composition(0.1, 1e-5, 4)
    assert plain_majority(35, Privacy(math.inf)) == plain_majority(35, Privacy(0.1, 0.05)) == Privacy(math.inf)


def test_sharp_price_with_few_affected_voters() -> None:
    assert plain_majority_sharp(11, Privacy(0.5)) == Privacy(3.0)
    assert plain_majority_sharp(12, Privacy(0.5)) == Privacy(3.0)
    assert plain_majority_sharp(11, Privacy(0.5), affected=2) == Privacy(1.0)
    assert plain_majority_sharp(11, Privacy(math.inf)) == Privacy(math.inf)


def test_no_baseline_exceeds_the_optimum() -> None:
    """The optimal utilities come from an independent program."""
    compared = 0
    for row in csv.DictReader(GOLDEN.read_text(encoding="utf-8").splitlines()):
        K, epsilon, best = int(row["K"]), float(row["epsilon"]), float(row["utility"])
        if float(row["Delta"]) > 0 or int(row["affected"]) < K:
            continue
        target, m = Privacy(float(row["target_epsilon"])), float(row["m"])
        weights = parse_objective(row["objective"]).weights(K)
        noises = [
            randomized_response(K, target, price(K, Privacy(epsilon)))
            for price in (plain_majority, plain_majority_sharp)
        ]
        assert np.all(noises[1].values >= noises[0].values)
        noises += [double_subsampling(K, math.floor(m)), subsampling(K, min(math.floor(m), K))]
        utilities = [float(weights @ noise.values[K // 2 + 1 :]) for noise in noises]
        assert max(utilities) <= best + 1e-11
        if m == 1 and epsilon <= 0.1:
            assert utilities[2] == pytest.approx(best, abs=1e-11)  # γ_opt = |2l/K − 1|
        if m >= (K + 1) / 2:
            assert utilities[2] == pytest.approx(best, abs=1e-11)  # γ_opt = 1
        compared += 1
    assert compared >= 20


@for_each(
    ("call", "argument"),
    [
        (lambda: subsampling(0, 1), "K"),
        (lambda: subsampling(cast("int", 2.5), 1), "K"),
        (lambda: subsampling(5, 0), "m"),
        (lambda: subsampling(5, 6), "m"),
        (lambda: subsampling(5, cast("int", 1.5)), "m"),
        (lambda: double_subsampling(5, 0), "m"),
        *((lambda voters=voters: subsampling_mixture(6, voters), "voters") for voters in (0.0, 5.5, math.nan)),
        (lambda: randomized_response(5, cast("Privacy", 0.3), Privacy(1.0)), "target"),
        (lambda: randomized_response(5, Privacy(0.3), cast("Privacy", None)), "majority"),
        (lambda: plain_majority(5, Privacy(0.3), affected=6), "affected"),
        (lambda: plain_majority(5, Privacy(0.3), affected=0), "affected"),
        (lambda: plain_majority_sharp(5, Privacy(0.3, 1e-5)), "Delta"),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object], argument: str) -> None:
    with refused(argument):
        call()
