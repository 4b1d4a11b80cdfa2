"""Weights of objectives: exact fractions, the sampling of the paper, and the text form."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc
from support.cases import for_each
from support.paths import DATA
from support.refusals import refused

from darrm_opt.design.objective import (
    MEASURES,
    Objective,
    as_objective,
    histogram,
    parse_objective,
    rectangular,
    shared,
    uniform,
)
from darrm_opt.noise import Array
from darrm_opt.priors import Histogram, SharedBeta, poisson_binomial, upper_half

GOLDEN = list(csv.DictReader((DATA / "golden_optima.csv").read_text(encoding="utf-8").splitlines()))


def wrong(value: object) -> Any:
    """Return a value of a type that mypy refuses."""
    return value


def normalised(masses: Sequence[int] | Sequence[Fraction]) -> list[float]:
    """Return each mass over their sum, correctly rounded (integers and fractions divide exactly)."""
    total = sum(masses)
    return [float(mass / total) for mass in masses]


def binomial_weights(K: int, p: Fraction, sign: int) -> list[float]:
    """Return α_l + sign·α_{K−l} of Binomial(K, p), l > K/2, normalised, from integers."""
    one, zero = p.numerator, p.denominator - p.numerator
    alpha = [zero**K]
    for l in range(K):
        alpha.append(alpha[l] * (K - l) * one // ((l + 1) * zero))  # divides exactly
    return normalised([alpha[l] + sign * alpha[K - l] for l in range(K // 2 + 1, K + 1)])


def agrees(weights: Array, exact: list[float]) -> bool:
    assert len(weights) == len(exact)
    assert np.all(weights >= 0)
    assert weights.tolist() == pytest.approx(exact, rel=1e-12, abs=1e-302)  # relative from 1e-290 upwards
    return True


@for_each("K", [1, 2, 3, 10, 11, 61, 101])
@for_each(
    ("objective", "mean"),
    [
        (rectangular(), Fraction(745, 1000)),
        (rectangular(lower=0.75, tau=8), Fraction(3, 4) + Fraction(7, 64)),
        (rectangular(tau=2), Fraction(5, 8)),
        (uniform(), Fraction(3, 4)),
        (uniform(lower=0.5 + 2**-20), Fraction(3, 4) + Fraction(1, 2**21)),
    ],
)
def test_independent_voters_are_binomial_with_the_mean_of_the_grid(
    K: int, objective: Objective, mean: Fraction
) -> None:
    assert agrees(objective.weights(K), binomial_weights(K, mean, -1))
    both = Objective(objective.name, objective.parameters, "agreement")
    assert agrees(both.weights(K), binomial_weights(K, mean, +1))


def test_weights_of_thousands_of_voters_are_accurate() -> None:
    assert agrees(rectangular().weights(5001), binomial_weights(5001, Fraction(745, 1000), -1))
    assert agrees(rectangular(0.5, 2).weights(4001), binomial_weights(4001, Fraction(5, 8), -1))
    assert agrees(uniform(lower=0.0, measure="agreement").weights(2000), binomial_weights(2000, Fraction(1, 2), +1))


def test_agreement_is_symmetric() -> None:
    low, high = rectangular(lower=0.0, tau=1, measure="agreement"), uniform(lower=1 - 2.0**-53, measure="agreement")
    assert low.weights(4).tolist() == [0.0, 1.0]  # every p_i = 0: a unanimous vote
    assert high.weights(3).tolist() == pytest.approx([0.0, 1.0], abs=1e-14)
    # p_i on a grid of [0, 1) has mean (τ−1)/(2τ) < 1/2; its mirror image (τ+1)/(2τ) has the same weights
    assert agrees(rectangular(lower=0.0, measure="agreement").weights(11), binomial_weights(11, Fraction(51, 100), +1))


def beta_binomial(K: int, a: int, b: int) -> list[Fraction]:
    """Return C(K, l)·B(l+a, K−l+b)/B(a, b) for integers a, b."""
    f = math.factorial
    scale = Fraction(f(a + b - 1), f(a - 1) * f(b - 1) * f(K + a + b - 1))
    return [math.comb(K, l) * f(l + a - 1) * f(K - l + b - 1) * scale for l in range(K + 1)]


@for_each(("K", "a", "b"), [(1, 1, 1), (2, 1, 1), (11, 2, 5), (11, 5, 2), (20, 1, 3), (101, 7, 7), (501, 2, 1)])
def test_shared_agreement_is_beta_binomial(K: int, a: int, b: int) -> None:
    alpha = beta_binomial(K, a, b)
    assert sum(alpha) == 1
    exact = normalised([alpha[l] + alpha[K - l] for l in range(K // 2 + 1, K + 1)])
    assert agrees(shared(a, b).weights(K), exact)


def half_line_integral(i: int, j: int) -> Fraction:
    """Return ∫_{1/2}^1 p^i (1−p)^j dp for integers i, j, by expanding p^i in powers of 1 − p."""
    terms = (Fraction((-1) ** n * math.comb(i, n), (j + n + 1) * 2 ** (j + n + 1)) for n in range(i + 1))
    return sum(terms, Fraction(0))


@for_each(("K", "a", "b"), [(1, 1, 1), (2, 1, 1), (5, 3, 1), (10, 1, 30), (11, 2, 5), (11, 5, 2), (30, 40, 41)])
def test_shared_tv_is_the_mean_absolute_gap(K: int, a: int, b: int) -> None:
    exact = []
    for l in range(K // 2 + 1, K + 1):
        gap = Fraction(0)
        for s, t in ((a, b), (b, a)):
            gap += half_line_integral(l + s - 1, K - l + t - 1) - half_line_integral(K - l + s - 1, l + t - 1)
        exact.append(math.comb(K, l) * gap)
    weights = shared(a, b, measure="tv").weights(K)
    assert agrees(weights, normalised(exact))
    scale = math.factorial(a + b - 1) / (math.factorial(a - 1) * math.factorial(b - 1))
    assert SharedBeta(a, b).gap(K).tolist() == pytest.approx([float(value) * scale for value in exact], rel=1e-11)


@pytest.mark.parametrize(("K", "a", "b"), [(501, 3, 3), (301, 200, 180), (11, 10_000, 9_900)])
def test_shared_tv_for_a_narrow_prior_or_many_voters(K: int, a: int, b: int) -> None:
    """share(l) = [T(l+a) + r·T(l+b)]/(1+r) with T(i) = 1 − 2·Pr[Bin(n, 1/2) ≥ i], exactly."""
    n, f = K + a + b - 1, math.factorial
    prior = SharedBeta(a, b)
    share = prior.gap(K) / prior.folded(K)

    def lead(i: int) -> Fraction:
        term = math.comb(n, i)
        tail = 0
        for j in range(i, n + 1):
            tail += term
            term = term * (n - j) // (j + 1)
        return Fraction(2**n - 2 * tail, 2**n)

    for l in (K // 2 + 1, (3 * K) // 4, K):
        ratio = Fraction(f(l + b - 1) * f(K - l + a - 1), f(l + a - 1) * f(K - l + b - 1))
        exact = (lead(l + a) + ratio * lead(l + b)) / (1 + ratio)
        assert float(share[l - K // 2 - 1]) == pytest.approx(float(exact), rel=1e-12)


@for_each(("a", "b"), [(0.5, 0.5), (0.3, 2.5), (1e-3, 1e-3), (1e-3, 7.0)])
def test_shared_tv_for_fractional_parameters(a: float, b: float) -> None:
    """At K = 1 and 2 the gap is E|2p − 1|, a difference of incomplete beta functions."""
    expected = a / (a + b) * (1 - 2 * betainc(a + 1, b, 0.5)) + b / (a + b) * (1 - 2 * betainc(b + 1, a, 0.5))
    assert SharedBeta(a, b).gap(1).tolist() == pytest.approx([expected], rel=1e-12)
    assert SharedBeta(a, b).gap(2).tolist() == pytest.approx([expected], rel=1e-12)  # α_2 − α_0 = 2p − 1


def test_a_prior_and_its_mirror_image_have_the_same_weights() -> None:
    for measure in MEASURES:
        assert shared(2, 5, measure).weights(11).tolist() == pytest.approx(
            shared(5, 2, measure).weights(11).tolist(), rel=1e-13
        )
        counts = (5, 1, 4, 2, 9, 0, 3)
        assert np.array_equal(histogram(counts, measure).weights(6), histogram(counts[::-1], measure).weights(6))


def test_tv_never_exceeds_agreement_and_approaches_it_at_large_margins() -> None:
    prior = SharedBeta(2, 5)
    share = prior.gap(21) / prior.folded(21)
    assert np.all((share > 0) & (share < 1))
    assert np.all(np.diff(share) > 0)


def test_histogram_weights() -> None:
    assert histogram([4, 1, 0, 2, 1]).weights(4).tolist() == [0.375, 0.625]
    assert histogram([4, 1, 7, 2, 1], "tv").weights(4).tolist() == [0.25, 0.75]  # the tie has weight 0
    assert histogram(np.array([1.0, 0.0, 0.0, 0.0])).weights(3).tolist() == [0.0, 1.0]


def test_the_golden_utility_is_that_of_a_known_optimum() -> None:
    """With m = 1, Δ = δ = 0 and a small ε the optimum is |2l/K − 1|: its golden utility checks only the weights."""
    row = next(
        row for row in GOLDEN if (row["K"], row["m"], row["epsilon"], row["Delta"]) == ("15", "1", "0.05", "0.0")
    )
    l = np.arange(8, 16)
    utility = parse_objective(row["objective"]).weights(15) @ (2 * l / 15 - 1)
    assert float(utility) == pytest.approx(float(row["utility"]), abs=1e-12)


def test_golden_names_are_canonical() -> None:
    for row in GOLDEN:
        assert str(parse_objective(row["objective"])) == row["objective"]


@for_each(("K", "lower", "tau"), [(11, 0.5, 50), (6, 0.7, 5), (11, 0.5, None), (6, 0.7, None)])
def test_the_sampling_of_the_paper_agrees_with_the_closed_form(K: int, lower: float, tau: int | None) -> None:
    """Algorithms 4 (p_i uniform on [lower, 1)) and 5 (on its grid of tau points) of the paper, of which these are the exact values."""
    rng, shape = np.random.default_rng(20241101), (4000, K)
    share = rng.random(shape) if tau is None else rng.integers(tau, size=shape) / tau
    alpha = poisson_binomial(lower + (1 - lower) * share)
    gaps = upper_half(alpha) - upper_half(alpha[:, ::-1])
    grid, flat = rectangular(lower, tau or 5).weights(K), uniform(lower).weights(K)
    exact, other = (flat, grid) if tau is None else (grid, flat)

    def distance(weights: Array) -> float:  # in standard errors: gap_l − w_l·Σgap has mean 0 at the right weights
        rests = gaps - weights * gaps.sum(axis=1, keepdims=True)
        return float(np.max(np.abs(rests.mean(axis=0)) / (rests.std(axis=0) / len(rests) ** 0.5)))

    assert distance(exact) < 4.5
    if tau == 5 or (tau is None and K == 6):  # a coarse grid has another mean, so the wrong form would fail
        assert distance(other) > 5


@for_each(
    ("text", "objective", "canonical"),
    [
        ("rectangular", rectangular(), "rectangular"),
        (" rectangular ( lower = 0.7 ) ", rectangular(lower=0.7), "rectangular(lower=0.7)"),
        (
            "rectangular(0.7, 20) agreement",
            rectangular(0.7, 20, "agreement"),
            "rectangular(lower=0.7, tau=20) agreement",
        ),
        ("rectangular(tau=20,lower=0.5)tv", rectangular(tau=20), "rectangular(tau=20)"),
        ("rectangular(0.6, tau=9)", rectangular(0.6, 9), "rectangular(lower=0.6, tau=9)"),
        ("uniform(lower=0) agreement", uniform(0.0, "agreement"), "uniform(lower=0) agreement"),
        ("shared(2, 5)", shared(2, 5), "shared(2,5) agreement"),
        ("shared(a=0.5, b=1e-2) tv", shared(0.5, 0.01, "tv"), "shared(0.5,0.01) tv"),
        ("histogram(1, 2.5, 3, 0)", histogram([1, 2.5, 3, 0]), "histogram(1,2.5,3,0) agreement"),
        ("histogram(1,2,3,0) tv", histogram([1, 2, 3, 0], "tv"), "histogram(1,2,3,0) tv"),
    ],
)
def test_texts_are_parsed(text: str, objective: Objective, canonical: str) -> None:
    assert parse_objective(text) == objective
    assert str(objective) == canonical
    assert hash(parse_objective(canonical)) == hash(objective)
    assert as_objective(text) == as_objective(objective) == objective


@given(
    st.one_of(
        st.builds(
            rectangular,
            st.floats(0.5, 1, exclude_max=True),
            st.integers(2, 10**6),
            st.sampled_from(["tv", "agreement"]),
        ),
        st.builds(uniform, st.floats(0, 1, exclude_max=True), st.just("agreement")),
        st.builds(shared, st.floats(1e-3, 1e4), st.floats(1e-3, 1e4), st.just("agreement")),
        st.builds(
            histogram, st.lists(st.floats(0, 1e300), min_size=2, max_size=6).filter(lambda counts: counts[0] > 0)
        ),
    )
)
def test_the_text_form_round_trips(objective: Objective) -> None:
    assert parse_objective(str(objective)) == objective


def test_weights_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        shared(1, 1).weights(3)[0] = 1.0


@for_each(
    ("call", "argument"),
    [
        (lambda: parse_objective("best"), "objective"),
        (lambda: parse_objective("shared(1,2"), "objective"),
        (lambda: parse_objective(wrong(3)), "objective"),
        (lambda: parse_objective("shared(1)"), "objective"),
        (lambda: parse_objective("shared"), "objective"),
        (lambda: parse_objective("shared(1,2,3)"), "parameters"),
        (lambda: parse_objective("shared(a=1,a=2)"), "objective"),
        (lambda: parse_objective("shared(a=1,2)"), "objective"),
        (lambda: parse_objective("shared(2,a=1)"), "objective"),
        (lambda: parse_objective("rectangular(upper=1)"), "objective"),
        (lambda: parse_objective("shared(1,x)"), "objective"),
        (lambda: parse_objective("shared(1,2) best"), "measure"),
        (lambda: parse_objective("shared(1,nan)"), "b"),
        (lambda: parse_objective("histogram()"), "counts"),
        (lambda: rectangular(1.0), "lower"),
        (lambda: rectangular(wrong("a")), "lower"),
        (lambda: rectangular(tau=0), "tau"),
        (lambda: rectangular(tau=10**15), "tau"),
        (lambda: rectangular(tau=wrong(2.5)), "tau"),
        (lambda: rectangular(tau=wrong(None)), "tau"),
        (lambda: rectangular(tau=1), "measure"),
        (lambda: uniform(0.4), "lower"),
        (lambda: shared(0, 1), "a"),
        (lambda: shared(1, 1e9), "b"),
        (lambda: histogram([1, 2, 2, 1], "tv"), "measure"),
        (lambda: histogram([0, 0, 0, 0]), "counts"),
        (lambda: histogram([0, 3, 0]), "counts"),
        (lambda: histogram([1, -1]), "counts"),
        (lambda: histogram([1, math.inf]), "counts"),
        (lambda: histogram([1]), "counts"),
        (lambda: histogram(wrong("11")), "counts"),
        (lambda: histogram(wrong(11)), "counts"),
        (lambda: Histogram(wrong("11")), "counts"),
        (lambda: histogram([1, 2]).weights(3), "counts"),
        (lambda: shared(1, 1).weights(0), "K"),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object], argument: str) -> None:
    with refused(argument):
        call()
