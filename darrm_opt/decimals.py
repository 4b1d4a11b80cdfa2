"""Decimal numbers: their parsing, and the grid of a problem's numbers, on which 3·0.1 and 0.3 are equal.

The command line, queries, JSON bodies and grid files share one syntax. A number beyond the range of doubles is
rejected: as 0, a voter's Δ of 1e-400 would claim a stronger privacy than was given.

A value within floating-point noise of a grid point *is* that point; any other moves to its neighbour on the given side.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Literal

GRID_DIGITS = 12

EPSILON_NOISE = 2.0**-44
"""Relative distance to the grid that counts as floating-point noise (256 ulps; the grid of ε is 1e-12)."""

DELTA_GRID = Decimal("1e-13")
"""Absolute grid of a δ above `DELTA_GRID_FROM`: 1 − (1−Δ)^m, computed plainly, has about m·1e-16 of absolute noise, so
digits below 1e-13 are meaningless."""

DELTA_GRID_FROM = 1e-9  # δ at and below which the grid is relative, of 12 significant digits

DELTA_NOISE = 4.5e-14
"""Absolute distance to `DELTA_GRID` that counts as noise in a release's δ, which is computed. A voter's Δ is stated, so
its noise is relative, like that of ε."""

MAX_DELTA = 1.0 - 2.0**-53  # the largest double below 1

Toward = Literal["ROUND_CEILING", "ROUND_FLOOR"]

UP: Toward = ROUND_CEILING
DOWN: Toward = ROUND_FLOOR


@lru_cache(maxsize=256)
def grid_point(value: float, toward: Toward) -> float:
    """Return the grid point of ``GRID_DIGITS`` significant digits that ``value`` stands for."""
    if value == 0:
        return 0.0
    exact = Decimal(value)
    return _to_grid(exact, _unit(exact), abs(exact) * Decimal(EPSILON_NOISE), toward)


@lru_cache(maxsize=256)
def grid_delta(value: float, toward: Toward) -> float:
    """Return the grid point for a release's δ (down) or a voter's Δ (up); absolute above `DELTA_GRID_FROM`."""
    if value <= DELTA_GRID_FROM:
        return grid_point(value, toward)
    exact = Decimal(value)
    noise = exact * Decimal(EPSILON_NOISE) if toward == UP else Decimal(DELTA_NOISE)
    return _to_grid(exact, DELTA_GRID, noise, toward)


def _unit(exact: Decimal) -> Decimal:
    """Return the spacing of the relative grid at a number."""
    return Decimal(1).scaleb(exact.adjusted() - GRID_DIGITS + 1)


def _to_grid(exact: Decimal, grid: Decimal, noise: Decimal, toward: Toward) -> float:
    nearest = exact.quantize(grid, rounding=ROUND_HALF_EVEN)
    if abs(exact - nearest) <= noise:
        return float(nearest)
    return float(exact.quantize(grid, rounding=toward))


def floor_point(value: float) -> float:
    """Return the largest grid point of ``GRID_DIGITS`` significant digits that is at most ``value`` as written."""
    exact = Decimal(repr(value))
    return float(exact.quantize(_unit(exact), rounding=DOWN)) if value else 0.0


def floor_delta(value: float) -> float:
    """Return the largest grid point of a release's δ that is at most ``value`` as written."""
    exact = Decimal(repr(value))
    return float(exact.quantize(DELTA_GRID, rounding=DOWN)) if value > DELTA_GRID_FROM else floor_point(value)


@lru_cache(maxsize=256)
def grid_step(value: float) -> float:
    """Return an upper bound on the spacing of the grid at a value: the most that `grid_point` moves it."""
    return float(_unit(Decimal(repr(value)))) * (1 + 2.0**-50) if value else 0.0  # only 0 becomes 0


def delta_step(delta: float) -> float:
    """Return an upper bound on the distance by which `grid_delta` may have moved a δ."""
    return grid_step(delta) if delta < DELTA_GRID_FROM else float(DELTA_GRID) * (1 + 2.0**-50)


def delta_noise(delta: float) -> float:
    """Return the noise that is tolerated at a δ of the grid [probability]."""
    return DELTA_NOISE if delta >= DELTA_GRID_FROM else EPSILON_NOISE * delta


def number_in(text: str) -> int | float | None:
    """Return the int or float that ``text`` spells in ASCII digits, without underscores; None if it spells none.

    >>> [number_in(text) for text in ("11", "1e-4", "inf", "1_1", "1e-400", "1e400", "one")]
    [11, 0.0001, inf, None, None, None, None]
    """
    if not text.isascii() or "_" in text:
        return None
    for parse in (int, double_in):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def double_in(text: str) -> float:
    """Return ``float(text)``, or raise ValueError if `out_of_range` has a reason."""
    if reason := out_of_range(text):
        raise ValueError(f"{text[:40]} cannot be read. {reason}")
    return float(text)


def out_of_range(text: str) -> str:
    """Return the reason to reject the number in ``text``, as a sentence; "" for any other text."""
    try:
        number = float(text)
    except ValueError:
        return ""
    if number == 0 and any(digit in text.lower().partition("e")[0] for digit in "123456789"):
        return "It is not 0, but closer to 0 than any other double."
    if math.isinf(number) and any(map(str.isdigit, text)):
        return 'It is beyond the largest double, 1.8e308; infinity is written inf (in JSON "inf").'
    return ""
