"""Rounding in a chosen direction, so that what is stored errs on the private side."""

from __future__ import annotations

import math
from fractions import Fraction

ULP = 2.0**-52
"""Relative spacing of doubles: one unit in the last place is at most this share of a number."""


def up(value: float, ulps: int) -> float:
    """Return a double at least ``value``·(1 + ulps·2⁻⁵²), for ``value`` ≥ 0."""
    return math.nextafter(value * (1.0 + ulps * ULP), math.inf)


def down(value: float, ulps: int) -> float:
    """Return a double at most ``value``·(1 − ulps·2⁻⁵²) and at least 0, for ``value`` ≥ 0."""
    return max(math.nextafter(value * (1.0 - ulps * ULP), -math.inf), 0.0)


def multiple_up(count: int, value: float) -> float:
    """Return the least double ≥ ``count``·``value``, for finite ``value`` ≥ 0; ``inf`` beyond the range of doubles."""
    numerator, denominator = value.as_integer_ratio()
    try:
        product = count * numerator / denominator  # whole numbers divide correctly rounded
    except OverflowError:
        return math.inf
    above, below = product.as_integer_ratio()
    return product if above * denominator >= count * numerator * below else math.nextafter(product, math.inf)


def quotient_down(numerator: int, denominator: int) -> float:
    """Return the largest double that is at most ``numerator``/``denominator``, whole numbers, the second > 0."""
    nearest = numerator / denominator  # whole numbers divide correctly rounded
    over, under = nearest.as_integer_ratio()
    return nearest if over * denominator <= numerator * under else math.nextafter(nearest, -math.inf)


def float_above(value: Fraction) -> float:
    """Return the least double that is at least ``value``.

    >>> float_above(Fraction(18, 100)) >= Fraction(18, 100)
    True
    """
    nearest = value.numerator / value.denominator  # whole numbers divide correctly rounded
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def as_written(value: float) -> Fraction:
    """Return the decimal number that ``value`` prints as: 0.18 is 18/100, not the double beside it."""
    return Fraction(repr(value))
