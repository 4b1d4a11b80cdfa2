"""Directed rounding: doubles and fractions that are never below (or never above) the exact value.

All rounding bounds assume IEEE 754's default mode in this thread, which `check_arithmetic` verifies.
"""

from __future__ import annotations

import math
import sys
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import TYPE_CHECKING

from darrm_opt.errors import UnsafeArithmetic

if TYPE_CHECKING:
    from fractions import Fraction  # imported on use: a small design does not need it

ULP = 2.0**-52  # relative spacing of doubles: one unit in the last place is at most this fraction of a number
UNIT_ROUNDOFF = ULP / 2  # largest relative error of one operation rounded to nearest
MAX_EXACT_BITS = 1 << 20  # largest power, in bits, computed in whole numbers; beyond it, decimals with a margin

MARGIN_PARTS = 10**30
"""A decimal result is raised by 1/MARGIN_PARTS of itself; its own error is below 1e-35 (see `_digits`)."""

EXPONENT_BITS = 80  # fractional bits of the bounds on e^ε, far finer than a double
GUARD = 1.0 + 2.0**-46  # factor that covers the rounding of fewer than 60 operations on positive numbers


_ONE, _BELOW_HALF_ULP, _ABOVE_HALF_ULP = 1.0, 2.0**-54, 3.0 * 2.0**-54
_LEAST_NORMAL, _TWO = sys.float_info.min, 2.0  # variables, as Python would fold literals at compile time

_REMEDY = (
    "A library has changed the processor's floating-point mode (as -ffast-math or torch.set_flush_denormal do), which "
    "invalidates every proof. Restore the default, or use another process."
)


def check_arithmetic() -> None:
    """Raise `UnsafeArithmetic` unless this thread rounds to nearest and supports subnormal numbers."""
    # Libraries compiled for speed change this for a whole thread ("flush to zero", "denormals are zero"), and bounds
    # computed in that mode prove nothing. Every proof, account and number from a caller (`real_number`) checks it, in a
    # fraction of a microsecond.
    if _ONE + _BELOW_HALF_ULP != _ONE or _ONE + _ABOVE_HALF_ULP == _ONE or -_ONE - _BELOW_HALF_ULP != -_ONE:
        raise UnsafeArithmetic(f"sums are not rounded to nearest in this thread. {_REMEDY}")
    if _LEAST_NORMAL / _TWO * _TWO != _LEAST_NORMAL:
        raise UnsafeArithmetic(f"subnormal numbers are treated as zero in this thread. {_REMEDY}")


def up(value: float, ulps: int) -> float:
    """Return a double at least ``value``·(1 + ulps·2⁻⁵²), for ``value`` ≥ 0."""
    return math.nextafter(value * (1.0 + ulps * ULP), math.inf)


def down(value: float, ulps: int) -> float:
    """Return a double at most ``value``·(1 − ulps·2⁻⁵²) and at least 0, for ``value`` ≥ 0."""
    return max(math.nextafter(value * (1.0 - ulps * ULP), -math.inf), 0.0)


def ratio_above(numerator: int, denominator: int) -> float:
    """Return the least double ≥ ``numerator``/``denominator``, denominator > 0; ``inf`` beyond the range."""
    try:
        nearest = numerator / denominator  # division of ints is correctly rounded
    except OverflowError:
        return math.inf if numerator > 0 else -sys.float_info.max
    top, bottom = nearest.as_integer_ratio()
    return nearest if top * denominator >= numerator * bottom else math.nextafter(nearest, math.inf)


def ratio_below(numerator: int, denominator: int) -> float:
    """Return the largest double ≤ ``numerator``/``denominator``, denominator > 0; ``-inf`` beyond the range."""
    return 0.0 - ratio_above(-numerator, denominator)


def float_above(value: Fraction) -> float:
    """Return the least double that is at least ``value``."""
    return ratio_above(value.numerator, value.denominator)


def float_below(value: Fraction) -> float:
    """Return the largest double that is at most ``value``."""
    return ratio_below(value.numerator, value.denominator)


def decimal_above(value: Fraction) -> float:
    """Return a double whose decimal form is at least ``value``: for 3 × 0.1 it is 0.3; ``inf`` beyond the range."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        return math.inf
    return nearest if as_written(nearest) >= value else math.nextafter(nearest, math.inf)


def multiple_up(count: int, value: float) -> float:
    """Return the least double ≥ ``count``·``value``, for ``value`` ≥ 0; ``inf`` beyond the range of doubles."""
    if value == math.inf:
        return value
    numerator, denominator = value.as_integer_ratio()
    return ratio_above(count * numerator, denominator)


def as_written(value: float) -> Fraction:
    """Return the decimal number that ``value`` prints as: 18/100 for 0.18, not the stored double."""
    from fractions import Fraction

    return Fraction(repr(value))


def one_minus_power(base: Fraction, exponent: int) -> Fraction:
    """Return 1 − base^exponent for base in [0, 1]: exact, or above it by at most a relative 1e-30."""
    from fractions import Fraction

    if exponent * base.denominator.bit_length() <= MAX_EXACT_BITS:
        return 1 - base**exponent
    if (1 - base) * exponent > 100:
        return Fraction(1)  # base^exponent ≤ e^−100: the nearest double is 1
    with localcontext(Context(prec=_digits(base, exponent))):
        power = (exponent * (Decimal(base.numerator) / Decimal(base.denominator)).ln()).exp()
        return min(Fraction(1), Fraction(1 - power) * (1 + Fraction(1, MARGIN_PARTS)))


def log_above(ratio: Fraction, times: int = 1) -> Fraction:
    """Return ``times``·ln(ratio) for ratio ≥ 1, above the exact value by at most a relative 1e-30."""
    from fractions import Fraction

    with localcontext(Context(prec=_digits(ratio, times))):
        logarithm = Fraction((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())
        return times * logarithm * (1 + Fraction(1, MARGIN_PARTS))


def _digits(base: Fraction, exponent: int) -> int:
    """Return a precision that leaves 40 digits after cancellation in 1 − base^exponent and in ln near 1."""
    return 40 + 2 * len(str(base.denominator)) + 2 * len(str(base.numerator)) + len(str(exponent))


def exp_bounds(epsilon: float) -> tuple[int, int]:
    """Return close integers a ≤ e^ε·2^`EXPONENT_BITS` ≤ b for a double ε ≥ 0."""
    from fractions import Fraction

    if epsilon == 0:
        return 1 << EXPONENT_BITS, 1 << EXPONENT_BITS
    digits = 40 + math.ceil(epsilon / math.log(10))
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    # `decimal` rounds exp correctly, so the neighbours of its result enclose the true value.
    nearest = context.exp(Decimal(epsilon))
    below, above = Fraction(context.next_minus(nearest)), Fraction(context.next_plus(nearest))
    return max(1 << EXPONENT_BITS, math.floor(below * 2**EXPONENT_BITS)), math.ceil(above * 2**EXPONENT_BITS)
