"""Privacy profiles of voters: canonical points, vertices of the region, and the pair of laws."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from darrm_opt import Privacy
from darrm_opt.errors import InvalidInput
from darrm_opt.voters import MAX_STATED_POINTS, PrivacyProfile, profile_of

POINTS = st.lists(
    st.tuples(st.floats(0.0, 3.0), st.floats(1e-6, 0.9) | st.just(0.0)).filter(lambda point: sum(point) > 1e-6),
    min_size=1,
    max_size=7,
)


def test_points_are_sorted_and_redundant_ones_are_dropped() -> None:
    profile = PrivacyProfile([(0.1, 1e-5), (0, 0.013), (0.2, 1e-5), (0.05, 0.0129999)])
    assert profile.points == ((0.0, 0.013), (0.1, 1e-5))
    assert (profile.epsilon, profile.delta) == (0.1, 1e-5)
    same = PrivacyProfile([(0, 0.013), (0.3 / 3, 1e-5)])
    assert profile == same
    assert hash(profile) == hash(same)


def test_a_point_is_rounded_towards_the_weaker_guarantee() -> None:
    ((epsilon, delta),) = PrivacyProfile([(0.1234567890123456, 0.0012345678901234567)]).points
    assert 0.1234567890123456 < epsilon < 0.12345678901302
    assert 0.0012345678901234567 < delta < 0.00123456789022


def test_one_point_has_the_corners_of_the_paper() -> None:
    epsilon, Delta = 0.3, 0.01
    y = (1 - Delta) / (math.exp(epsilon) + 1)
    expected = [(0, 0), (0, Delta), (y, 1 - y), (1 - Delta, 1), (1, 1)]  # the other corners are their mirror images
    found = profile_of(Privacy(epsilon, Delta)).chain()
    assert all(math.dist(map(float, v), e) < 1e-15 for v, e in zip(found, expected, strict=True))


def test_a_voter_that_is_not_private_has_two_outcomes() -> None:
    zero, one = Fraction(0), Fraction(1)
    assert PrivacyProfile([(math.inf, 0.0)]).outcomes() == ((one, zero), (zero, one))
    assert PrivacyProfile([(0.5, 1.0)]).outcomes() == ((one, zero), (zero, one))


@given(POINTS)
def test_the_laws_satisfy_every_point_and_are_tight_at_each_kept_one(points: list[tuple[float, float]]) -> None:
    profile = PrivacyProfile(points)
    laws = profile.outcomes()
    assert [sum(law) for law in zip(*laws, strict=True)] == [1, 1]
    assert laws == tuple((p, q) for q, p in reversed(laws))
    assert all(min(pair) >= 0 and max(pair) > 0 for pair in laws)
    ratios = [p / q if q else math.inf for p, q in laws]
    assert all(one > other for one, other in pairwise(ratios))

    def delta_at(epsilon: float) -> float:
        slope = Fraction(math.exp(epsilon))
        return float(sum(max(p - slope * q, Fraction(0)) for p, q in laws))

    for epsilon, delta in profile.points:  # the hockey-stick divergence of the pair is the stated δ
        assert delta_at(epsilon) == pytest.approx(delta, rel=1e-9, abs=1e-15)
    for epsilon, delta in points:  # a dropped point is implied up to the precision of the grid, or given up
        if delta < 1:
            assert delta_at(epsilon) <= delta + 1e-10 * (1 + epsilon) * 100


@given(POINTS)
def test_an_additional_point_shrinks_the_region(points: list[tuple[float, float]]) -> None:
    few, many = PrivacyProfile(points[:-1] or points).chain(), PrivacyProfile(points).chain()
    for p_prime, p in many:  # below the upper boundary of fewer points
        above = next(
            low[1] + (high[1] - low[1]) * (p_prime - low[0]) / (high[0] - low[0])
            for low, high in pairwise(few)
            if low[0] < high[0] and low[0] <= p_prime <= high[0]
        )
        assert float(p) <= float(above) + 1e-9


@pytest.mark.parametrize(
    ("points", "argument"),
    [
        ([], "points"),
        ("0:0.1", "points"),
        ([(0.1,)], "points"),
        ([(-0.1, 0.1)], "epsilon"),
        ([(0.1, 1.5)], "delta"),
        ([(math.nan, 0.1)], "epsilon"),
        ([(0.0, 0.0)], "points"),
        ([(0.1, math.nan)], "delta"),
        ([(0.1, 0.1)] * (MAX_STATED_POINTS + 1), "points"),
    ],
)
def test_invalid_points_are_rejected(points: object, argument: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PrivacyProfile(points)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_a_point_out_of_range_is_ignored_quickly() -> None:
    assert PrivacyProfile([(0, 0.1), (1e300, 0)]).points == PrivacyProfile([(0, 0.1)]).points
    alone = PrivacyProfile([(2e6, 0.001), (1e6, 0.01)])
    assert alone.points == ((1e6, 0.01),)
    # without its line the region is larger
    assert alone.chain() == PrivacyProfile([(math.inf, 0)]).chain()
