"""Enumeration of all outcomes in rationals: a slow, simple and exact reference for the accountants.

e^ε is irrational, so it is a rational within 1e-60 of it (`exp_fraction`); everything else is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product

from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy

DIGITS = 80  # decimal digits of `exp_fraction`

Pair = tuple[Fraction, Fraction]


def exp_fraction(epsilon: float) -> Fraction:
    """Return e^ε as a rational, to 60 digits or more."""
    with localcontext(Context(prec=DIGITS)):
        return Fraction(Decimal(epsilon).exp())


def worst_mechanism(event: Privacy) -> list[Pair]:
    """Return the outcomes (P, Q) of the hardest (ε, δ)-DP mechanism: leak either way, or randomised response.

    Source: Kairouz, Oh, Viswanath 2015, Section 3.
    """
    odds, delta = exp_fraction(event.epsilon), Fraction(event.delta)
    truth = (1 - delta) * odds / (1 + odds)
    lie = (1 - delta) / (1 + odds)
    return [(delta, Fraction(0)), (truth, lie), (lie, truth), (Fraction(0), delta)]


def enumerated_delta(mechanisms: Sequence[Sequence[Pair]], total_epsilon: float) -> Fraction:
    """Return Σ (P − e^E·Q)₊ over all outcomes of the composed mechanisms."""
    odds = exp_fraction(total_epsilon)
    wholes, scaled = zip(*map(whole, mechanisms), strict=True) if mechanisms else ((), ())
    total = 0
    for outcome in product(*scaled):
        on_data, on_neighbour = odds.denominator, odds.numerator
        for p, q in outcome:
            on_data, on_neighbour = on_data * p, on_neighbour * q
        total += max(on_data - on_neighbour, 0)
    return Fraction(total, odds.denominator * math.prod(wholes))


def whole(pairs: Sequence[Sequence[Fraction]]) -> tuple[int, list[list[int]]]:
    """Return a common denominator and the numerators: integers are multiplied twelve times as fast."""
    common = math.lcm(*(p.denominator for pair in pairs for p in pair))
    return common, [[p.numerator * (common // p.denominator) for p in pair] for pair in pairs]


def vote_pairs(gamma: NoiseFunction, affected: int) -> list[Pair]:
    """Return all pairs of Pr[1] of fixed votes of which this many move."""
    ones, K = [(1 + Fraction(float(g))) / 2 for g in gamma.signed], gamma.K
    return [(ones[v], ones[w]) for v in range(K + 1) for w in range(K + 1) if abs(v - w) <= affected]


def adaptive_bits_delta(regions: Sequence[Sequence[Pair]], total_epsilon: float) -> Fraction:
    """Return the worst δ of single-bit releases, chosen adaptively.

    Source: W_t(a, b) = max over (p, q) of W_{t−1}(ap, bq) + W_{t−1}(a(1−p), b(1−q)).
    """

    wholes, scaled = zip(*map(whole, regions), strict=True) if regions else ((), ())
    odds = exp_fraction(total_epsilon)

    @cache
    def worst(index: int, on_data: int, on_neighbour: int) -> int:
        if index == len(regions):
            return max(on_data - on_neighbour, 0)
        one = wholes[index]
        return max(
            worst(index + 1, on_data * p, on_neighbour * q)
            + worst(index + 1, on_data * (one - p), on_neighbour * (one - q))
            for p, q in scaled[index]
        )

    return Fraction(worst(0, odds.denominator, odds.numerator), odds.denominator * math.prod(wholes))
