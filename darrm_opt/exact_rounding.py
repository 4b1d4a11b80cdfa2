"""Numbers rounded toward the safe side: never smaller (or never larger) than what they stand for."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction

EXACT_BITS = 1 << 20
"""Largest power, in bits, that is computed in whole numbers; beyond it, decimals with a margin."""

DECIMAL_MARGIN = Fraction(1, 10**30)
"""Relative margin added to a decimal result; its own error is below 1e-35 (see `_digits`)."""

GUARD = 1.0 + 2.0**-46
"""Factor that covers the rounding of a double computed by fewer than 60 operations on positive numbers."""


def one_minus_power(base: Fraction, exponent: int) -> Fraction:
    """Return 1 − base^exponent for base in [0, 1]: exact, or above the exact value by 1e-30 of it at most."""
    if exponent * base.denominator.bit_length() <= EXACT_BITS:
        return 1 - base**exponent
    if (1 - base) * exponent > 100:
        return Fraction(1)  # base^exponent ≤ e^−100: no double lies between
    with localcontext(Context(prec=_digits(base, exponent))):
        power = (exponent * (Decimal(base.numerator) / Decimal(base.denominator)).ln()).exp()
        return min(Fraction(1), Fraction(1 - power) * (1 + DECIMAL_MARGIN))


def log_above(ratio: Fraction, times: int = 1) -> Fraction:
    """Return ``times``·ln(ratio) for ratio ≥ 1, above the exact value by 1e-30 of it at most."""
    with localcontext(Context(prec=_digits(ratio, times))):
        return times * Fraction((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()) * (1 + DECIMAL_MARGIN)


def _digits(base: Fraction, exponent: int) -> int:
    """Return a precision that leaves 40 digits after the cancellation in 1 − base^exponent and in ln near 1."""
    return 40 + 2 * len(str(base.denominator)) + 2 * len(str(base.numerator)) + len(str(exponent))
