"""Lines around the pairs of a sequence: binomial laws in fractions, and the lines of regions that are known by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt import Privacy
from darrm_opt.accounting.bits import region
from darrm_opt.accounting.bits.region import (
    BORDER_POINTS,
    MAX_LINES,
    hockey_stick,
    log_binomials,
    region_lines,
    repeated_delta,
)
from darrm_opt.noise import Array

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
    """Make pairs cost D where p is on a border p = f(q), and return the q at which that is asked."""

    def of(f: Border) -> list[Array]:
        asked: list[Array] = []

        def cost(p: Array, q: Array, queries: int, epsilon: float) -> Array:
            asked.append(q)
            assert (queries, epsilon) == (9, 0.7)
            return 0.01 + p - f(q)

        monkeypatch.setattr(region, "repeated_delta", cost)
        return asked

    return of


TOTAL = Privacy(0.7, 0.01)


def two_lines(q: Array) -> Array:
    """Return the border of the region of (ln 3, 0.1) and (ln 1.5, 0.3), which is its own mirror image."""
    each = [line for c, d in ((3, 0.1), (1.5, 0.3)) for line in (d + c * q, 1 - (1 - d - q) / c)]
    return np.asarray(np.minimum(1.0, np.min(each, axis=0)))


@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.0])
def test_lines_touch_the_border_and_lie_above_it(border: Callable[[Border], list[Array]], tilt: float) -> None:
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


def test_as_many_lines_as_asked_for_and_both_ends(border: Callable[[Border], list[Array]]) -> None:
    border(lambda q: (np.sqrt(1 + 8 * q) - 1 + 2 * q) / 4 + 0.1 * (1 - q) * q)
    every = region_lines(9, TOTAL, lines=1000)
    assert len(every) > 24
    for many in (2, 5, 24):
        some = region_lines(9, TOTAL, lines=many)
        assert len(some) == many
        assert (some[0], some[-1]) == (every[0], every[-1])
        assert set(some) <= set(every)
    assert region_lines(9, TOTAL) == region_lines(9, TOTAL, lines=MAX_LINES)


def test_slopes_and_deltas_have_limits(border: Callable[[Border], list[Array]]) -> None:
    border(lambda q: np.minimum(1.0, 0.1 + 1e20 * q))
    assert max(line.epsilon for line in region_lines(9, TOTAL)) == pytest.approx(30.0, rel=1e-12)
    border(np.ones_like)
    assert region_lines(9, TOTAL) == [Privacy(0.0, 1 - 1e-9)]


def test_one_release_is_its_own_line() -> None:
    assert region_lines(1, TOTAL) == [TOTAL]
    assert region_lines(1, TOTAL, 3, 1.0) == [TOTAL]


def test_lines_of_a_sequence_hold_for_every_pair_within_the_total() -> None:
    lines = region_lines(4, Privacy(0.8, 1e-3))
    for p, q in np.random.default_rng(5).random((400, 2)):
        middle = np.array([q + (p - q) / 16]), np.array([q])
        if repeated_delta(*middle, 4, 0.8)[0] <= 1e-3:
            assert all(middle[0][0] - math.exp(line.epsilon) * q <= line.delta + 2e-3 for line in lines)
