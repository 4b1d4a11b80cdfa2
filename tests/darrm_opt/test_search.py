"""Bisection: the result fits, is adjacent to the boundary, and all values tried are in range."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from darrm_opt.search import largest_count, largest_count_between, largest_fitting, least_fitting


@given(st.floats(1e-6, 1e6), st.sampled_from([2.0**-48, 1e-6, 1e-2]))
def test_real_boundaries_are_found_within_the_precision_on_the_fitting_side(boundary: float, precision: float) -> None:
    high = least_fitting(lambda x: x >= boundary, 0.0, 2e6, precision)
    assert boundary <= high <= boundary * (1 + 2 * precision)
    low = largest_fitting(lambda x: x <= boundary, 0.0, 2e6, precision)
    assert boundary * (1 - 2 * precision) <= low <= boundary


@pytest.mark.parametrize("boundary", [math.ulp(0.0), 3 * math.ulp(0.0)])
def test_a_boundary_among_subnormal_numbers_is_found(boundary: float) -> None:
    """The search ends if no double lies within the interval."""
    tiny = math.ulp(0.0)
    assert least_fitting(lambda x: x >= boundary, 0.0, 9 * tiny) == boundary
    assert largest_fitting(lambda x: x < boundary, 0.0, 9 * tiny) == boundary - tiny


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_counts_are_exact_and_capped(boundary: int, most: int) -> None:
    tried: list[int] = []

    def fits(n: int) -> bool:
        tried.append(n)
        return n <= boundary

    assert largest_count(fits, most) == min(boundary, most)
    assert all(1 <= n <= max(most, 1) for n in tried)
    assert len(tried) <= 2 * math.log2(most + 2) + 2
    assert largest_count_between(fits, 0, most + 1) == min(boundary, most)
