"""Exact samplers: discrete Laplace and Gaussian noise, and shuffles, drawn from a random source.

A sampler here uses whole numbers only: each outcome has exactly the probability that its docstring
states, so there is no floating-point hole (Mironov 2012) to account for. What is not covered: the
time that a draw takes depends on the noise that was drawn, so anyone who can time single draws
learns something about it.

Source of the noise samplers: Canonne, Kamath, Steinke, "The discrete Gaussian for differential
privacy" (2020), Algorithms 1 to 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from darrm_opt.randomness.source import RandomSource

_T = TypeVar("_T")


def exponential_chance(exponent: Fraction, source: RandomSource) -> bool:
    """Return True with probability exactly e^−exponent, exponent ≥ 0 (Algorithm 1)."""
    while exponent > 1:
        if not exponential_chance(Fraction(1), source):
            return False
        exponent -= 1
    # The first failure of chances x/1, x/2, x/3, … comes at an odd place with probability
    # 1 − x + x²/2! − … = e^−x.
    place = 1
    while source.chance(exponent / place):
        place += 1
    return place % 2 == 1


def discrete_laplace(scale: Fraction, source: RandomSource) -> int:
    """Return a whole number x with probability exactly proportional to e^(−|x|/scale), scale > 0 (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        remainder = source.below(t)
        if not exponential_chance(Fraction(remainder, t), source):
            continue
        quotient = 0
        while exponential_chance(Fraction(1), source):
            quotient += 1
        # remainder + t·quotient is geometric with ratio e^(−1/t); in steps of s the ratio is e^(−s/t).
        magnitude = (remainder + t * quotient) // s
        negative = source.chance(Fraction(1, 2))
        if magnitude or not negative:  # zero has one sign only
            return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, source: RandomSource) -> int:
    """Return a whole number x with probability exactly proportional to e^(−x²/(2·variance)) (Algorithm 3)."""
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        candidate = discrete_laplace(Fraction(t), source)
        if exponential_chance((abs(candidate) - variance / t) ** 2 / (2 * variance), source):
            return candidate


def shuffled(items: Sequence[_T], source: RandomSource) -> list[_T]:
    """Return the items in an order drawn uniformly among all orders."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = source.below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
