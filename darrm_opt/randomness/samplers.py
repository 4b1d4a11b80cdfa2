"""Where chance comes from, and noise drawn from it exactly.

A sampler here uses whole numbers only: each outcome has exactly the probability that its docstring
states, so there is no floating-point hole (Mironov 2012) to account for. What is not covered: the
time that a draw takes depends on the noise that was drawn, so whoever can time single draws
learns something about it.

Source of the noise samplers: Canonne, Kamath, Steinke, "The discrete Gaussian for differential
privacy" (2020), Algorithms 1 to 3.
"""

from __future__ import annotations

import math
import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

_T = TypeVar("_T")


class Bits(ABC):
    """A source of exactly uniform whole numbers."""

    @abstractmethod
    def below(self, n: int) -> int:
        """Return a whole number in 0..n−1, each with probability exactly 1/n."""

    def chance(self, probability: Fraction) -> bool:
        """Return True with probability exactly ``probability``, in [0, 1]."""
        return self.below(probability.denominator) < probability.numerator


class SystemBits(Bits):
    """Chance from the operating system: what privacy requires, and the default everywhere."""

    def below(self, n: int) -> int:
        """Return a whole number in 0..n−1, each with probability exactly 1/n."""
        return secrets.randbelow(n)


class SeededBitsForTestsOnly(Bits):
    """Repeatable chance. Whoever knows the seed can subtract the noise: never for a real release."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose, and its name says so

    def below(self, n: int) -> int:
        """Return a whole number in 0..n−1 that the seed decides."""
        return self._random.randrange(n)  # exact: rejection on random bits, not a scaled double


def exponential_chance(exponent: Fraction, bits: Bits) -> bool:
    """Return True with probability exactly e^−exponent, exponent ≥ 0 (Algorithm 1)."""
    while exponent > 1:
        if not exponential_chance(Fraction(1), bits):
            return False
        exponent -= 1
    # The first failure of chances x/1, x/2, x/3, … comes at an odd place with probability
    # 1 − x + x²/2! − … = e^−x.
    place = 1
    while bits.chance(exponent / place):
        place += 1
    return place % 2 == 1


def discrete_laplace(scale: Fraction, bits: Bits) -> int:
    """Return a whole number x with probability exactly proportional to e^(−|x|/scale), scale > 0 (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        remainder = bits.below(t)
        if not exponential_chance(Fraction(remainder, t), bits):
            continue
        quotient = 0
        while exponential_chance(Fraction(1), bits):
            quotient += 1
        # remainder + t·quotient is geometric with ratio e^(−1/t); in steps of s the ratio is e^(−s/t).
        magnitude = (remainder + t * quotient) // s
        negative = bits.chance(Fraction(1, 2))
        if magnitude or not negative:  # zero has one sign only
            return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, bits: Bits) -> int:
    """Return a whole number x with probability exactly proportional to e^(−x²/(2·variance)), variance > 0 (Algorithm 3)."""
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        candidate = discrete_laplace(Fraction(t), bits)
        if exponential_chance((abs(candidate) - variance / t) ** 2 / (2 * variance), bits):
            return candidate


def shuffled(items: Sequence[_T], bits: Bits) -> list[_T]:
    """Return the items in an order drawn uniformly among all orders."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = bits.below(last + 1)
        order[last], order[other] = order[other], order[last]
    return order
