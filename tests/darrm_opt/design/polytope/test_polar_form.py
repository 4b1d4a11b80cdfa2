"""The blossom against exact fractions, and its bound on the rounding error."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.exact import NEGLIGIBLE, Voters, distribution, mean, precise, signed
from support.strategies import NOISES, random_case, random_noise

from darrm_opt.design.constraint import (
    STEP_ERROR,
    UNDERFLOW_SLACK,
    PrivacyConstraint,
    rounding_error,
)
from darrm_opt.design.polar_form import MAX_STEPWISE_K, at_ends, extremes, layers, mass, step, stored_layers
from darrm_opt.noise import NoiseFunction
from darrm_opt.rounding import UNIT_ROUNDOFF

X = [0.5, 0.525, 0.75, 0.9, 0.982, 1.0, 1 - 2.0**-40]
"""Doubles in [½, 1], for which 1 − x is exact, so that the fractions are the numbers of the code."""


def enumerated_distribution(ones: list[Fraction]) -> list[Fraction]:
    """Return Pr[L = 0..K] by enumeration of all 2^K votes."""
    masses = [Fraction(0)] * (len(ones) + 1)
    for vote in itertools.product((0, 1), repeat=len(ones)):
        masses[sum(vote)] += math.prod(
            (t if bit else 1 - t for t, bit in zip(ones, vote, strict=True)), start=Fraction(1)
        )
    return masses


def exact_H(noise: NoiseFunction, probabilities: list[Fraction]) -> Fraction:
    return mean(signed(noise.values, Fraction), probabilities)


def multiset(x: float, nx: int, ny: int, ones: int, K: int) -> list[Fraction]:
    t = Fraction(x)
    return [t] * nx + [1 - t] * ny + [Fraction(1)] * ones + [Fraction(0)] * (K - nx - ny - ones)


@given(st.lists(st.fractions(0, 1, max_denominator=50), min_size=1, max_size=6))
def test_the_oracle_is_the_enumeration_of_all_votes(ones: list[Fraction]) -> None:
    assert distribution(ones) == enumerated_distribution(ones)


@for_each("kind", NOISES)
@for_each("K", [1, 2, 5, 6, 7])
def test_layers_hold_H_at_every_multiset(K: int, kind: str) -> None:
    rng = np.random.default_rng((K, NOISES.index(kind)))
    noise = random_noise(rng, K, kind)
    x = float(rng.choice(X))
    seen = set()
    largest = float(noise.values.max())
    for s, first, layer in layers(noise.signed, x, 1.0 - x, K):
        assert layer.shape == (s - first + 1, K - s + 1)
        for (i, j), value in np.ndenumerate(layer):
            nx, ny = first + i, s - first - i
            exact = exact_H(noise, multiset(x, nx, ny, j, K))
            assert abs(Fraction(float(value)) - exact) <= Fraction(rounding_error(s, largest))
            seen |= {(nx, ny, j), (ny, nx, K - s - j)}  # the mirrored multiset has −H, and is not computed
            assert exact_H(noise, multiset(x, ny, nx, K - s - j, K)) == -exact
    assert len(seen) == math.comb(K + 3, 3)


@for_each("width", [0, 1, 4])
@for_each("K", [5, 12, 17])
def test_rows_near_a_face_are_a_subset_of_the_layers(K: int, width: int) -> None:
    noise = random_noise(np.random.default_rng((K, width)), K, "uniform")
    whole = {s: (first, layer.copy()) for s, first, layer in layers(noise.signed, 0.6, 0.4, K)}
    for s, first, layer in layers(noise.signed, 0.6, 0.4, K, width):
        every, full = whole[s]
        assert len(layer) == min(width, s // 2) + 1
        assert layer == pytest.approx(full[first - every :], abs=1e-14)


def test_the_block_size_does_not_change_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random_noise(np.random.default_rng(3), 19, "uniform")
    whole = [(layer.copy(), *extremes(layer, 0.7)) for _, _, layer in layers(noise.signed, 0.6, 0.4, 19)]
    monkeypatch.setattr("darrm_opt.design.polar_form.CACHE_ENTRIES", 10)
    for (layer, most, least), (_, _, again) in zip(whole, layers(noise.signed, 0.6, 0.4, 19), strict=True):
        assert np.array_equal(layer, again)
        in_parts = extremes(layer, 0.7)
        assert np.array_equal(most, in_parts[0])
        assert np.array_equal(least, in_parts[1])
        assert np.array_equal(most, at_ends(layer, 0.7).max(axis=1))


def test_values_at_the_ends_are_those_of_the_constraint_and_bound_it() -> None:
    rows = np.random.default_rng(2).uniform(-1, 1, (3, 5))
    by_hand = [[0.7 * row[ones] + row[4 - ones] for ones in range(5)] for row in rows.tolist()]
    assert at_ends(rows, 0.7).tolist() == by_hand
    assert [found.tolist() for found in extremes(rows, 0.7)] == [[*map(max, by_hand)], [*map(min, by_hand)]]


@given(st.floats(0.5, 1), st.integers(0, 100_000))
def test_a_step_stays_within_the_range_of_its_input_values(t: float, seed: int) -> None:
    coefficients = np.random.default_rng(seed).uniform(-1, 1, 12)
    after = step(coefficients, 1 - t, t)
    assert after.shape == (11,)
    assert np.abs(after).max() <= np.abs(coefficients).max() * (1 + 2.0**-51)


@pytest.mark.parametrize("by_binomials", [False, True])
@pytest.mark.parametrize("K", [1, 4, 7, 10])
def test_masses_are_those_of_the_enumeration(monkeypatch: pytest.MonkeyPatch, K: int, *, by_binomials: bool) -> None:
    if by_binomials:
        monkeypatch.setattr("darrm_opt.design.polar_form.MAX_STEPWISE_K", 0)
    rng = np.random.default_rng(K)
    probabilities = np.array([0.5, 0.25, 1e-12, 0.3])
    counts = np.array([rng.multinomial(rng.integers(0, K + 1), rng.dirichlet(np.ones(4))) for _ in range(8)])
    free = K - counts.sum(axis=1)
    ones = np.array([int(rng.integers(0, rest + 1)) for rest in free])
    computed = mass(probabilities, counts, ones, K)
    assert computed.shape == (8, K + 1)
    for row, count, certain in zip(computed, counts, ones, strict=True):
        voters = [Fraction(float(t)) for t, n in zip(probabilities, count, strict=True) for _ in range(n)]
        exact = distribution([*voters, *[Fraction(1)] * int(certain), *[Fraction(0)] * int(K - count.sum() - certain)])
        errors = [abs(Fraction(float(value)) - true) for value, true in zip(row, exact, strict=True)]
        assert sum(errors) <= Fraction(rounding_error(K, 1.0))


@pytest.mark.parametrize("K", [MAX_STEPWISE_K, MAX_STEPWISE_K + 1, MAX_STEPWISE_K + 60])
def test_masses_of_many_voters(K: int) -> None:
    """Above `MAX_STEPWISE_K` voters another method is used, within the same bound."""
    rng = np.random.default_rng(K)
    probabilities = np.array([1e-12, 0.02, 0.475, 0.525, 1 - 1e-6])
    counts = np.array(
        [
            [0, 0, K, 0, 0],
            [K, 0, 0, 0, 0],
            [0, 0, 0, 0, 0],
            *rng.multinomial(K - 40, [0.3, 0.1, 0.2, 0.2, 0.1, 0.1], 3)[:, :5],
        ]
    )
    ones = np.minimum(K - counts.sum(axis=1), 30)
    for row, count, certain in zip(mass(probabilities, counts, ones, K), counts, ones, strict=True):
        voters = [Decimal(float(t)) for t, n in zip(probabilities, count, strict=True) for _ in range(n)]
        with precise():
            exact = distribution(voters)
            shifted = [Decimal(0)] * int(certain) + exact + [Decimal(0)] * int(K - count.sum() - certain)
            error = sum(abs(Decimal(float(value)) - true) for value, true in zip(row, shifted, strict=True))
            assert error <= Decimal(rounding_error(K, 1.0))


def test_only_rows_of_many_voters_are_computed_by_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both methods satisfy the bound; only this test tells which was used."""
    monkeypatch.setattr("darrm_opt.design.polar_form._mass_by_convolution", lambda *asked: np.full(asked[-1] + 1, 7.0))
    nobody = np.zeros((2, 1), dtype=np.int64)
    assert np.array_equal(
        mass(np.array([0.25]), nobody, nobody[:, 0], MAX_STEPWISE_K), np.eye(2, MAX_STEPWISE_K + 1)[[0, 0]]
    )
    assert np.array_equal(
        mass(np.array([0.25]), nobody, nobody[:, 0], MAX_STEPWISE_K + 1), np.full((2, MAX_STEPWISE_K + 2), 7.0)
    )


@pytest.mark.parametrize(
    ("K", "most", "entries"), [(4, 4, 5 + 4 + 6 + 4 + 3), (5, 5, 6 + 5 + 8 + 6 + 6 + 3), (5, 2, 19)]
)
def test_too_many_layers_are_not_stored(monkeypatch: pytest.MonkeyPatch, K: int, most: int, entries: int) -> None:
    signed = random_noise(np.random.default_rng(K), K, "uniform").signed
    assert sum(layer.size for _, _, layer in layers(signed, 0.6, 0.4, most)) == entries
    monkeypatch.setattr("darrm_opt.design.polar_form.MAX_STORED_ENTRIES", entries)
    kept = stored_layers(signed, 0.6, 0.4, most)
    assert kept is not None
    assert sum(layer.size for _, _, layer in kept) == entries
    monkeypatch.setattr("darrm_opt.design.polar_form.MAX_STORED_ENTRIES", entries - 1)
    assert stored_layers(signed, 0.6, 0.4, most) is None


def test_the_bound_on_the_rounding_error_holds_and_is_small() -> None:
    """With x and y of the design, against e^ε to 70 digits, over all accepted problems."""
    rng = np.random.default_rng(53)
    worst = Decimal(0)
    for _ in range(300):
        problem = random_case(rng, (1, 2, 5, 9, 16, 25)).problem
        noise = random_noise(rng, problem.K)
        largest = float(noise.values.max())
        corners = PrivacyConstraint.of(problem).corners
        x, y = Voters.of(problem.strictest).corners()["xy"]
        for s, first, layer in layers(noise.signed, corners.x, corners.y, problem.K):
            i, j = int(rng.integers(layer.shape[0])), int(rng.integers(layer.shape[1]))
            ends = [Decimal(1)] * j + [Decimal(0)] * (problem.K - s - j)
            with precise():
                true = mean(signed(noise.values, Decimal), [x] * (first + i) + [y] * (s - first - i) + ends)
                error, bound = abs(Decimal(float(layer[i, j])) - true), Decimal(rounding_error(s, largest))
                assert error <= bound + NEGLIGIBLE * Decimal(largest)
                worst = max(worst, error / bound if bound else Decimal(0))
    assert worst > Decimal("1e-4")


def test_the_constants_are_those_of_the_derivation() -> None:
    """Actual errors are far below the bound, so no other test would notice a bound of half the size."""
    assert np.finfo(np.float64).eps / 2 == UNIT_ROUNDOFF
    assert STEP_ERROR == (14 + 2) * UNIT_ROUNDOFF
    assert UNDERFLOW_SLACK == 2**14 * 5e-324


def test_the_rounding_error_of_zero_is_zero() -> None:
    assert rounding_error(100, 0.0) == rounding_error(0, 1.0) == 0.0
    assert rounding_error(3, 0.5) == 3 * STEP_ERROR * 0.5 + 3 * UNDERFLOW_SLACK
    assert rounding_error(1, 5e-324) > 0  # products of the smallest doubles underflow to 0


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-300])
def test_underflow_is_charged(tiny: float) -> None:
    noise = NoiseFunction.from_upper_half(np.array([tiny, 0.0, tiny]), 6)
    for s, first, layer in layers(noise.signed, 0.75, 0.25, 6):
        for (i, j), value in np.ndenumerate(layer):
            true = exact_H(noise, multiset(0.75, first + i, s - first - i, j, 6))
            assert abs(Fraction(float(value)) - true) <= Fraction(rounding_error(s, tiny))
