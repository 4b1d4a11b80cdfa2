"""Directed rounding of fractions: up to the least double above, down to the largest below."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from darrm_opt.rounding import (
    as_written,
    decimal_above,
    float_above,
    float_below,
    multiple_up,
    ratio_above,
    ratio_below,
)

SMALLEST = Fraction(1, 2**1074)
BEYOND = 2**1024

ratios = st.tuples(st.integers(-(10**40), 10**40), st.integers(1, 10**40))


@given(ratios)
def test_a_ratio_is_rounded_to_an_adjacent_double(ratio: tuple[int, int]) -> None:
    exact, above, below = Fraction(*ratio), ratio_above(*ratio), ratio_below(*ratio)
    assert Fraction(math.nextafter(above, -math.inf)) < exact <= Fraction(above)
    assert Fraction(below) <= exact < Fraction(math.nextafter(below, math.inf))
    assert (float_above(exact), float_below(exact)) == (above, below)


@given(st.decimals(min_value=0, max_value=10**20, places=6))
def test_decimals_are_rounded_as_written(value: Decimal) -> None:
    exact = Fraction(value)
    above = decimal_above(exact)
    assert as_written(math.nextafter(above, -1.0)) < exact <= as_written(above)
    assert decimal_above(3 * as_written(0.1)) == 0.3


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_its_own_rounding(value: float) -> None:
    numerator, denominator = value.as_integer_ratio()
    assert ratio_above(numerator, denominator) == value == ratio_below(numerator, denominator)


def test_zero_is_positive() -> None:
    assert math.copysign(1, ratio_below(0, 3)) == 1 == math.copysign(1, ratio_above(0, 3))


def test_underflow_and_overflow_are_rounded_in_the_right_direction() -> None:
    largest = sys.float_info.max
    assert (ratio_above(BEYOND, 1), ratio_below(BEYOND, 1)) == (math.inf, largest)
    assert (ratio_above(-BEYOND, 1), ratio_below(-BEYOND, 1)) == (-largest, -math.inf)
    assert float_above(Fraction(largest) + SMALLEST) == math.inf
    assert float_above(SMALLEST / 3) == float(SMALLEST)
    assert ratio_below(1, 3 * 2**1074) == 0.0


@pytest.mark.parametrize("count", [0, 1, 3, 10**6, 2**60 + 1])
@given(st.floats(0, 1e300))
def test_a_multiple_is_the_least_double_above_it(count: int, value: float) -> None:
    exact = count * Fraction(value)
    above = multiple_up(count, value)
    if above == math.inf:
        assert exact > Fraction(sys.float_info.max)
    else:
        assert Fraction(math.nextafter(above, -math.inf)) < exact <= Fraction(above)
