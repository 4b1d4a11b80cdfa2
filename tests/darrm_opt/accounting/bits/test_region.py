"""Regions of the pairs that one bit can show: their vertices by the definition of a hull, in fractions, rounded the right way."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting.bits.region import (
    BitRegion,
    inner_region,
    outer_region,
    privacy_region,
    spanned_region,
    upper_hull,
)
from darrm_opt.problem import Privacy

Point = tuple[Fraction, Fraction]


def hull_of(pairs: list[Point]) -> set[Point]:
    """Return the vertices (p, q) of the upper hull with all mirror images: those under no chord of two others."""
    points = {each for p, q in pairs for each in ((p, q), (1 - q, 1 - p), (q, p), (1 - p, 1 - q))}
    points |= {(Fraction(0), Fraction(0)), (Fraction(1), Fraction(1))}

    def covered(p: Fraction, q: Fraction) -> bool:
        others = points - {(p, q)}
        if any(q == there and p < high for high, there in others):
            return True
        left = [each for each in others if each[1] < q]
        right = [each for each in others if each[1] > q]
        return any(p <= a + (b - a) * (q - x) / (y - x) for a, x in left for b, y in right)

    return {(p, q) for p, q in points if not covered(p, q)}


def pairs_of(seed: int) -> list[Point]:
    draw = random.Random(seed)
    return [(Fraction(draw.randrange(13), 12), Fraction(draw.randrange(13), 12)) for _ in range(1 + seed % 6)]


@for_each("epsilon", [0.0, 1e-9, 0.3, 5.0, 40.0])
@for_each("delta", [0.0, 1e-3])
def test_the_region_of_a_guarantee_is_rounded_outward(epsilon: float, delta: float) -> None:
    region = privacy_region(Privacy(epsilon, delta))
    assert region.guaranteed
    with localcontext() as context:
        context.prec = 60
        odds, leak = Decimal(epsilon).exp(), Decimal(delta)
        x, y = (odds + leak) / (odds + 1), (1 - leak) / (odds + 1)
        (row,) = [each for each in region.moves.tolist() if each[0] not in (0.0, delta)]
        for found, exact, above in zip(row, (x, y, y, x), (True, True, False, False), strict=True):
            assert found <= 1
            room = Decimal("4e-15") * exact
            least, most = (exact, exact + room) if above else (exact - room, exact)
            assert least <= Decimal(found) <= most or (above and found == 1.0 >= exact)
    leaks = [each for each in region.moves.tolist() if each != row]
    rest = 1 - Fraction(delta)
    assert len(leaks) == (2 if delta else 0)
    if delta:
        (one, other) = sorted(leaks, reverse=True)
        assert (one[0], one[2], one[3]) == (delta, 0.0, 1.0)
        assert (other[0], other[1], other[2]) == (0.0, 1.0, delta)
        assert Fraction(other[3]) <= rest <= Fraction(one[1])
        assert one[1] - other[3] <= 2.0**-52


@for_each("seed", range(30))
def test_a_spanned_region_is_the_hull_of_all_mirror_images(seed: int) -> None:
    pairs = pairs_of(seed)
    expected = hull_of(pairs)
    outer, inner = spanned_region(pairs), spanned_region(pairs, "inner")
    assert (outer.guaranteed, inner.guaranteed) == (True, False)
    for region, up in ((outer, True), (inner, False)):
        rows = region.moves.tolist()
        assert len(rows) == len(expected)
        assert not region.moves.flags.writeable
        for p, q in expected:
            (row,) = [each for each in rows if abs(each[0] - p) + abs(each[2] - q) < 1e-9]
            for found, exact, above in zip(row, (p, 1 - p, q, 1 - q), (up, up, not up, not up), strict=True):
                assert (Fraction(found) >= exact) if above else (Fraction(found) <= exact)
                assert found == pytest.approx(float(exact), rel=1e-15)
    hull = upper_hull(np.array(pairs, dtype=np.float64)).tolist()
    found = {(Fraction(p).limit_denominator(12), Fraction(q).limit_denominator(12)) for p, q in hull}
    assert found >= expected  # in doubles a point on a chord may stay
    assert all(any(abs(p - a) + abs(q - b) < 1e-9 for a, b in found) for p, q in hull)


def test_a_hull_in_doubles_drops_what_lies_below() -> None:
    assert upper_hull(np.array([[0.5, 0.5], [0.75, 0.25], [0.625, 0.5]])).tolist() == [
        [0.0, 0.0],
        [0.75, 0.25],
        [1.0, 1.0],
    ]
    assert upper_hull(np.array([[0.25, 0.25]])).tolist() == [[0.0, 0.0], [1.0, 1.0]]
    steps = upper_hull(np.array([[0.5, 0.125], [0.75, 0.375], [0.625, 0.3125]])).tolist()
    assert steps[:2] == [[0.0, 0.0], [0.5, 0.125]]
    assert [1 - each[1] for each in steps[::-1]] == [each[0] for each in steps]  # answers renamed


def test_an_inner_region_takes_both_orders_of_neighbours() -> None:
    region = inner_region([(1.0, 0.0), (0.5, 0.25)])
    assert region.moves.tolist() == [
        [0.0, 1.0, 1.0, 0.0],
        [0.25, 0.75, 0.5, 0.5],
        [0.5, 0.5, 0.25, 0.75],
        [1.0, 0.0, 0.0, 1.0],
    ]
    assert not region.guaranteed
    for wrong in ([(1.1, 0.0)], [(0.5, -0.1)], [], [0.5, 0.5], [(0.1, 0.2, 0.3)]):
        with refused("pairs"):
            inner_region(wrong)


def attained(region: BitRegion, slope: Fraction) -> Fraction:
    return max(Fraction(p) - slope * Fraction(q) for row in region.moves.tolist() for p, q in (row[::2], row[1::2]))


@for_each("seed", range(20))
def test_an_outer_region_attains_each_bound_that_matters_and_exceeds_none(seed: int) -> None:
    draw = random.Random(seed)
    slopes = sorted(1 + draw.random() * 4 ** draw.randrange(4) for _ in range(1 + seed % 5))
    deltas = [draw.randrange(9) / 16 for _ in slopes]
    region = outer_region(slopes, deltas)
    assert region.guaranteed
    for slope, delta in zip(slopes, deltas, strict=True):
        assert attained(region, Fraction(slope)) <= Fraction(delta) + Fraction(1, 10**14) * Fraction(slope)
    for row in region.moves.tolist():  # every vertex touches two bounds: p = 1, q = 0, a line or its mirror image
        p, q = Fraction(row[0]), Fraction(row[2])
        gaps = [1 - p, q]
        for c, least in zip(map(Fraction, slopes), map(Fraction, deltas), strict=True):
            gaps += [(least + c * q - p) / c, (1 - (1 - least) / c) + q / c - p]
        assert min(gaps) >= -Fraction(1, 10**14)
        assert sum(gap <= Fraction(1, 10**14) for gap in gaps) >= 2
        assert Fraction(row[0]) + Fraction(row[1]) >= 1 >= Fraction(row[2]) + Fraction(row[3])
    assert any(row[2] == 0.0 for row in region.moves.tolist())


def test_bounds_of_an_outer_region_are_checked() -> None:
    assert outer_region([1.0], [1.0]).moves.shape[0] >= 1
    for slopes in ([math.inf], [0.99], [math.nan]):
        with refused("slopes"):
            outer_region(slopes, [0.1])
    for deltas in ([1.1], [-0.1], [0.1, 0.1], []):
        with refused("deltas"):
            outer_region([2.0], deltas)
    for wrong in ([], [(Fraction(1, 2), Fraction(3, 2))]):
        with refused("pairs"):
            spanned_region(wrong)
    assert outer_region([2.0, 2.0], [0.25, 0.125]).moves.tolist() == outer_region([2.0], [0.125]).moves.tolist()
    assert np.all(outer_region([1.0, 2.0], [0.25, 0.0]).moves <= 1)


@for_each("seed", range(40))
def test_the_hull_in_doubles_has_the_vertices_of_the_one_in_fractions(seed: int) -> None:
    """Of pairs in sixty-fourths, whose products no double rounds."""
    pairs = np.random.default_rng((seed, 45)).integers(0, 65, (8, 2)) / 64
    exact = spanned_region([(Fraction(p), Fraction(q)) for p, q in pairs.tolist()])
    found = upper_hull(pairs).tolist()
    assert len(found) == len(exact.moves)
    assert np.allclose(sorted(found), sorted(exact.moves[:, [0, 2]].tolist()), atol=1e-14)
    assert found == sorted(found, key=lambda pair: pair[1])
