"""Bisection: the least or largest value with a property that changes once.

The result was itself tested (or given as an end that fits), so its correctness does not rest on monotonicity: if the
property changes more than once, the result fits but may not be the least or largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

RESOLUTION = 2.0**-48  # finest relative width: a few roundings of the compared values
LEAST = math.ulp(0.0)  # finest absolute width: adjacent subnormal numbers have nothing between them


def least_fitting(fits: Callable[[float], bool], low: float, high: float, precision: float = RESOLUTION) -> float:
    """Return a value that fits, above the least one by at most a relative ``precision``.

    >>> round(least_fitting(lambda x: x * x >= 2, 0.0, 2.0), 9)
    1.414213562
    """
    return _narrowed(lambda value: not fits(value), low, high, precision)[1]


def largest_fitting(fits: Callable[[float], bool], low: float, high: float, precision: float = RESOLUTION) -> float:
    """Return a value that fits, below the largest one by at most a relative ``precision``."""
    return _narrowed(fits, low, high, precision)[0]


def largest_fitting_from(
    fits: Callable[[float], bool], first: float, most: float, precision: float = RESOLUTION
) -> float:
    """Return a value as `largest_fitting` does, doubling ``first`` while it fits and is below ``most``; 0 if none fits.

    >>> round(largest_fitting_from(lambda x: x * x <= 2, 1e-3, 100.0), 9)
    1.414213562
    """
    return largest_fitting(fits, *bracket(fits, first, most, 1.0), precision)


def bracket(fits: Callable[[float], bool], first: float, most: float, precision: float) -> tuple[float, float]:
    """Return a value that fits, or 0, and one that does not, or is at least ``most``, by doubling from ``first``.

    >>> bracket(lambda x: x * x <= 2, 1.0, 100.0, 0.25)
    (1.25, 1.5)
    """
    low, high = 0.0, first
    while high < most and fits(high):
        low, high = high, 2 * high
    return _narrowed(fits, low, high, precision)


def _narrowed(fits: Callable[[float], bool], low: float, high: float, precision: float) -> tuple[float, float]:
    while high - low > precision * high + LEAST:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low, high


def largest_count_between(fits: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest integer in ``low``..``high`` − 1 that fits; ``low`` is not tested and may stand for none."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_count(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest integer in 1..``most`` that fits, 0 if none does.

    >>> largest_count(lambda n: n * n <= 50, 10**9), largest_count(lambda n: True, 5), largest_count(lambda n: False, 5)
    (7, 5, 0)
    """
    # a large number is tested only if half of it fits.
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    return largest_count_between(fits, low, min(high, most + 1))
