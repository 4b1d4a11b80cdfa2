"""Pairs of fixed votes: all of them in fractions, each bound to the unit of rounding that it charges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import NoiseFunction
from darrm_opt.accounting.bits.region import spanned_region
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.problem import MAX_TARGET_EPSILON
from darrm_opt.rounding import ULP

Pair = tuple[Fraction, Fraction]
U = Fraction(ULP)
EIGHTHS = NoiseFunction(np.array([0.75, 0.0, 0.0, 0.75]), 3)  # Pr[1 | v] = 1/8, 1/2, 1/2, 7/8
NOT_MONOTONE = NoiseFunction(np.array([0.1, 0.9, 0.3, 0.3, 0.9, 0.1]), 5)


def exact_pairs(noise: NoiseFunction, affected: int) -> list[Pair]:
    ones, K = [(1 + Fraction(float(g))) / 2 for g in noise.signed], noise.K
    return [(ones[v], ones[w]) for v in range(K + 1) for w in range(K + 1) if abs(v - w) <= affected]


@for_each("noise", [EIGHTHS, NOT_MONOTONE, NoiseFunction(np.ones(6), 5)])
@for_each("affected", [1, 2, 3])
def test_the_pairs_are_all_of_them_rounded_outward(noise: NoiseFunction, affected: int) -> None:
    found = BitPairs.of_gamma(noise, affected).pairs.tolist()
    exact = exact_pairs(noise, affected)
    assert len(found) == len(exact)
    for (p, q), (exact_p, exact_q) in zip(sorted(found), sorted(exact), strict=True):
        assert exact_p <= p <= min(1, exact_p * (1 + 2 * U))
        assert exact_q * (1 - 2 * U) <= q <= exact_q


def test_delta_is_the_excess_to_the_unit_that_it_charges() -> None:
    """At ε = ln 2 the pair (1/2, 1/8) exceeds by 1/4; p is charged two units, 2q six, and the result one."""
    assert math.exp(math.log(2)) == 2.0
    found = BitPairs.of_gamma(EIGHTHS, 1).delta(math.log(2))
    assert Fraction(found) == Fraction(1, 4) + (1 + Fraction(4, 4) + Fraction(1, 4)) * U


def test_delta_is_a_probability() -> None:
    votes = BitPairs.of_gamma(NoiseFunction(np.ones(6), 5), 1)
    assert votes.delta(0.0) == votes.at(0.0)[0] == 1.0


@pytest.mark.parametrize("affected", [1, 2, 5])
def test_delta_is_never_below_the_pairs(affected: int) -> None:
    votes, pairs = BitPairs.of_gamma(NOT_MONOTONE, affected), exact_pairs(NOT_MONOTONE, affected)
    for epsilon in (0.0, 0.2, 1.0, 2.5, 40.0, MAX_TARGET_EPSILON, 1e300, math.inf):
        slope = Fraction(math.exp(min(epsilon, MAX_TARGET_EPSILON)))
        exact = max(Fraction(0), *(p - slope * q for p, q in pairs))
        delta, p, q = votes.at(epsilon)
        assert delta == votes.delta(epsilon)
        assert exact <= Fraction(delta) <= exact + 16 * U
        if exact > 16 * U:
            assert abs(Fraction(p) - slope * Fraction(q) - exact) <= 16 * U
            assert any(abs(Fraction(p) - a) < 4 * U and abs(Fraction(q) - b) < 4 * U for a, b in pairs)
        elif not exact:
            assert (p, q) == (0.0, 0.0)


@for_each(("noise", "affected"), [(EIGHTHS, 1), (EIGHTHS, 2), (NOT_MONOTONE, 1), (NoiseFunction(np.ones(6), 5), 1)])
def test_the_largest_finite_loss_is_that_of_the_pairs(noise: NoiseFunction, affected: int) -> None:
    ratio = max(p / q for p, q in exact_pairs(noise, affected) if q > 0)
    found = BitPairs.of_gamma(noise, affected).max_loss
    exact = math.log(ratio)
    assert exact * (1 + 8 * ULP) < found < exact * (1 + 14 * ULP) + 8 * ULP
    assert ratio > 1 or 0 < found < 1e-14


@for_each("seed", range(6))
@for_each("affected", [1, 2])
def test_the_regions_are_those_of_all_pairs(seed: int, affected: int) -> None:
    rng = np.random.default_rng((seed, 44))
    K = int(rng.integers(2, 7))
    noise = NOT_MONOTONE if seed == 0 else NoiseFunction.from_upper_half(rng.random((K + 1) // 2), K)
    pairs, votes = exact_pairs(noise, affected), BitPairs.of_gamma(noise, affected)
    assert votes.region.moves.tolist() == spanned_region(pairs).moves.tolist()
    assert votes.inner.moves.tolist() == spanned_region(pairs, "inner").moves.tolist()
    assert (votes.region.guaranteed, votes.inner.guaranteed) == (True, False)
