"""Regions of the pairs of one bit: vertices by the definition of a hull, in fractions, rounded in the right direction."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting.bits import region as regions
from darrm_opt.accounting.bits.region import (
    BORDER_POINTS,
    MAX_LINES,
    BitRegion,
    hockey_stick,
    inner_region,
    log_binomials,
    outer_region,
    privacy_region,
    region_lines,
    repeated_delta,
    spanned_region,
    upper_hull,
)
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy

Point = tuple[Fraction, Fraction]


def hull_of(pairs: list[Point]) -> set[Point]:
    """Return the vertices (p, q) of the upper hull with all mirror images: those below no chord of two others."""
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
    assert found >= expected  # in doubles a point on a chord may remain
    assert all(any(abs(p - a) + abs(q - b) < 1e-9 for a, b in found) for p, q in hull)


def test_a_hull_in_doubles_drops_points_below_it() -> None:
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
def test_an_outer_region_attains_each_tight_bound_and_exceeds_none(seed: int) -> None:
    draw = random.Random(seed)
    slopes = sorted(1 + draw.random() * 4 ** draw.randrange(4) for _ in range(1 + seed % 5))
    deltas = [draw.randrange(9) / 16 for _ in slopes]
    region = outer_region(slopes, deltas)
    assert region.guaranteed
    for slope, delta in zip(slopes, deltas, strict=True):
        assert attained(region, Fraction(slope)) <= Fraction(delta) + Fraction(1, 10**14) * Fraction(slope)
    for row in region.moves.tolist():  # two bounds are tight at every vertex: p = 1, q = 0, a line or its mirror image
        p, q = Fraction(row[0]), Fraction(row[2])
        gaps = [1 - p, q]
        for c, least in zip(map(Fraction, slopes), map(Fraction, deltas), strict=True):
            gaps += [(least + c * q - p) / c, (1 - (1 - least) / c) + q / c - p]
        assert min(gaps) >= -Fraction(1, 10**14)
        assert sum(gap <= Fraction(1, 10**14) for gap in gaps) >= 2
        assert Fraction(row[0]) + Fraction(row[1]) >= 1 >= Fraction(row[2]) + Fraction(row[3])
    assert any(row[2] == 0.0 for row in region.moves.tolist())


def test_invalid_bounds_of_an_outer_region_are_refused() -> None:
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
    """For pairs in sixty-fourths, whose products are exact in doubles."""
    pairs = np.random.default_rng((seed, 45)).integers(0, 65, (8, 2)) / 64
    exact = spanned_region([(Fraction(p), Fraction(q)) for p, q in pairs.tolist()])
    found = upper_hull(pairs).tolist()
    assert len(found) == len(exact.moves)
    assert np.allclose(sorted(found), sorted(exact.moves[:, [0, 2]].tolist()), atol=1e-14)
    assert found == sorted(found, key=lambda pair: pair[1])


# ------------------------------------------------------------------------------------------- lines around the pairs of a sequence


Border = Callable[[Array], Array]


def law(chance: float, queries: int) -> list[Fraction]:
    p = Fraction(chance)
    return [math.comb(queries, j) * p**j * (1 - p) ** (queries - j) for j in range(queries + 1)]


@for_each("queries", [1, 2, 7])
@for_each("pair", [(0.3, 0.2), (0.2, 0.3), (0.0, 0.4), (1.0, 0.9), (0.9, 1.0), (0.0, 1.0), (0.5, 0.5)])
def test_laws_and_divergences_are_those_in_fractions(queries: int, pair: tuple[float, float]) -> None:
    pairs = np.array([pair, pair[::-1]])
    for found, chances in zip(log_binomials(pairs, queries), pairs.T.tolist(), strict=True):
        expected = [[float(each) for each in law(chance, queries)] for chance in chances]
        assert np.allclose(np.exp(found), expected, rtol=1e-12, atol=1e-300)
    one, two = (law(chance, queries) for chance in pair)
    for epsilon in (0.0, 0.1, 1.3):
        odds = Fraction(math.exp(epsilon))
        ways = [
            sum(max(Fraction(0), a - odds * b) for a, b in zip(*both, strict=True)) for both in ((one, two), (two, one))
        ]
        assert hockey_stick(*log_binomials(pairs, queries), epsilon) == pytest.approx([float(max(ways))] * 2, abs=1e-13)
        assert repeated_delta(pairs[:, 0], pairs[:, 1], queries, epsilon) == pytest.approx(
            [float(max(ways))] * 2, abs=1e-13
        )


@pytest.fixture
def border(monkeypatch: pytest.MonkeyPatch) -> Callable[[Border], list[Array]]:
    """Replace the cost of pairs by 0.01 + p − f(q), and return the list of all q evaluated."""

    def of(f: Border) -> list[Array]:
        asked: list[Array] = []

        def cost(p: Array, q: Array, queries: int, epsilon: float) -> Array:
            asked.append(q)
            assert (queries, epsilon) == (9, 0.7)
            return 0.01 + p - f(q)

        monkeypatch.setattr(regions, "repeated_delta", cost)
        return asked

    return of


TOTAL = Privacy(0.7, 0.01)


def two_lines(q: Array) -> Array:
    """Return the border of the region of (ln 3, 0.1) and (ln 1.5, 0.3), which is its own mirror image."""
    each = [line for c, d in ((3, 0.1), (1.5, 0.3)) for line in (d + c * q, 1 - (1 - d - q) / c)]
    return np.asarray(np.minimum(1.0, np.min(each, axis=0)))


@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.0])
def test_lines_are_tangents_above_the_border(border: Callable[[Border], list[Array]], tilt: float) -> None:
    asked = border(two_lines)
    lines = region_lines(9, TOTAL, tilt=tilt)
    (q, *others) = asked
    assert all(each is q for each in others)
    assert (q[0], q[1], q[-1], q.size) == (0.0, 1e-6 / 9, 1.0, BORDER_POINTS + 2)
    assert np.all(np.diff(q) > 0)
    assert (q + q[::-1]).tolist() == [1.0] * q.size
    assert q[q.size // 2] == 0.5
    p = two_lines(q)
    middle = (p + q) / 2
    p = q + (p - q) * (4 * middle * (1 - middle)) ** tilt
    slopes = [math.exp(line.epsilon) for line in lines]
    assert [line.delta for line in lines] == pytest.approx(
        [float(np.max(np.maximum(p - c * q, 1 - q - c * (1 - p)))) for c in slopes], abs=1e-12
    )
    assert len(lines) <= MAX_LINES
    assert lines == sorted(lines, key=lambda line: line.epsilon)
    assert len({line.epsilon for line in lines}) == len(lines)
    if not tilt:
        assert (lines[0].epsilon, lines[0].delta) == pytest.approx((0.0, 0.44), abs=0.01)
        assert (lines[-1].epsilon, lines[-1].delta) == pytest.approx((math.log(3), 0.1), abs=1e-6)
        assert any((line.epsilon, line.delta) == pytest.approx((math.log(1.5), 0.3), abs=1e-6) for line in lines)
        assert lines == region_lines(9, TOTAL)


def test_the_requested_number_of_lines_includes_both_ends(border: Callable[[Border], list[Array]]) -> None:
    border(lambda q: (np.sqrt(1 + 8 * q) - 1 + 2 * q) / 4 + 0.1 * (1 - q) * q)
    every = region_lines(9, TOTAL, lines=1000)
    assert len(every) > 24
    for many in (2, 5, 24):
        some = region_lines(9, TOTAL, lines=many)
        assert len(some) == many
        assert (some[0], some[-1]) == (every[0], every[-1])
        assert set(some) <= set(every)
    assert region_lines(9, TOTAL) == region_lines(9, TOTAL, lines=MAX_LINES)


def test_slopes_and_deltas_are_limited(border: Callable[[Border], list[Array]]) -> None:
    border(lambda q: np.minimum(1.0, 0.1 + 1e20 * q))
    assert max(line.epsilon for line in region_lines(9, TOTAL)) == pytest.approx(30.0, rel=1e-12)
    border(np.ones_like)
    assert region_lines(9, TOTAL) == [Privacy(0.0, 1 - 1e-9)]


def test_the_line_of_one_release_is_its_total() -> None:
    assert region_lines(1, TOTAL) == [TOTAL]
    assert region_lines(1, TOTAL, 3, 1.0) == [TOTAL]


def test_lines_of_a_sequence_hold_for_all_pairs_within_the_total() -> None:
    lines = region_lines(4, Privacy(0.8, 1e-3))
    for p, q in np.random.default_rng(5).random((400, 2)):
        middle = np.array([q + (p - q) / 16]), np.array([q])
        if repeated_delta(*middle, 4, 0.8)[0] <= 1e-3:
            assert all(middle[0][0] - math.exp(line.epsilon) * q <= line.delta + 2e-3 for line in lines)
