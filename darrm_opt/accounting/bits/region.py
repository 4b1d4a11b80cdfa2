"""Region of one released bit: a polygon of the pairs (Pr[1|D], Pr[1|D′]) over neighbouring datasets D, D′.

The more a bit can depend on the data, the further the pair (p, q) is from the diagonal. The pairs that a mechanism can
show lie in a convex polygon, centrally symmetric about (½, ½) (rename the answers) and, neighbours being symmetric,
about the diagonal. `recursion` needs only its vertices, and of two complementary ones, (p, q) and (1−p, 1−q), only one.

The pairs that, shown Q times each, cost at most a total (E, D) form such a region too; each of its supporting lines is
an (ε, δ), that is, a privacy constraint of one release (`region_lines`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, float_above, float_below

Side = Literal["outer", "inner"]

MAX_LINES = 24  # maximum number of supporting lines of the region
MAX_SLOPE = math.exp(30.0)  # slope beyond which a line only bounds the probability of an infinite loss
BORDER_POINTS = 61  # number of values of q at which the border of the region is computed


@dataclass(frozen=True, eq=False)
class BitRegion:
    """The vertices of a polygon of pairs (p, q), from which an adversary chooses one for each release.

    Built by `privacy_region`, `outer_region`, `spanned_region` or `inner_region`, which close it under swapping the
    neighbours, as `recursion` requires.

    Attributes:
        moves: shape (vertices, 4): p, 1−p, q, 1−q, read-only. In an outer region p and 1−p are rounded up, q and 1−q
            down, so that any divergence computed from them is at least that of the exact vertex.
        side: "outer": contains every pair that the mechanism can show, so results are guarantees; "inner": contains
            only pairs that it can show, so results are optimistic, the other end of the bracket.
    """

    moves: Array
    side: Side

    @property
    def guaranteed(self) -> bool:
        """Whether a δ computed from this region is a proof."""
        return self.side == "outer"


def privacy_region(event: Privacy) -> BitRegion:
    """Return the region of all (ε, δ)-DP mechanisms that release one bit, ε finite.

    Its vertices up to relabelling are (δ, 0), (0, δ) and (x, y), x = (e^ε+δ)/(e^ε+1), y = (1−δ)/(e^ε+1) = 1 − x.

    Source: the corners of F in Lemma 3.4 of the paper, read as the two probabilities of one bit.
    """
    epsilon, delta = event.epsilon, event.delta
    if epsilon == math.inf:
        raise InvalidInput("epsilon", epsilon, "a finite number of nats, at least 0")
    shrink = math.exp(-epsilon)
    x, y = (1 + delta * shrink) / (1 + shrink), (1 - delta) * shrink / (1 + shrink)
    wide = 8 * ULP
    # Subnormal numbers have no relative accuracy.
    low, high = (0.0, sys.float_info.min) if y < sys.float_info.min else (y * (1 - wide), y * (1 + wide))
    moves = [[min(1.0, x * (1 + wide)), high, low, x * (1 - wide)]]
    if delta > 0:
        complement = 1 - Fraction(delta)
        moves += [[delta, float_above(complement), 0.0, 1.0], [0.0, 1.0, delta, float_below(complement)]]
    return _region(moves, "outer")


def outer_region(slopes: Sequence[float] | Array, deltas: Sequence[float] | Array) -> BitRegion:
    """Return the polygon that, by bounds on the privacy profile, contains every pair.

    ``slopes``: e^ε at which the profile is known. ``deltas``: for each slope c a δ ≥ sup (p − c·q) over all pairs, both
    answers and both orders of the neighbours, rounded up. The polygon is p ≤ δ + c·q, and the mirror images in the
    diagonal and in (½, ½).

    Guarantees: Contains every pair that satisfies the bounds: computed in rationals and rounded outward.
    Source: supporting lines of a convex region; docs/proofs.md, "Many releases".
    """
    bounds = _lines(slopes, deltas)
    # Upper boundary p ≤ δ + c·q; mirrored in the diagonal and then in (½, ½): 1−q ≤ δ + c(1−p), i.e.
    # p ≤ (1 − (1−δ)/c) + q/c.  And p ≤ 1.
    lines = bounds + [(1 / slope, 1 - (1 - delta) / slope) for slope, delta in bounds] + [(Fraction(0), Fraction(1))]
    vertices = [(height, Fraction(0)) for height in [min(height for _, height in lines)]]
    vertices += _lower_envelope(lines)
    return _region([[*_above(p, q)] for p, q in vertices], "outer")


def spanned_region(pairs: Sequence[tuple[Fraction, Fraction]], side: Side = "outer") -> BitRegion:
    """Return the polygon spanned by all pairs (Pr[1|D], Pr[1|D′]) of a mechanism, given exactly.

    Guarantees: Its vertices are those of the hull of the pairs and their mirror images (swapped neighbours, renamed
    answers), rounded outward (so it contains every pair) or inward.
    """
    if not pairs or not all(0 <= chance <= 1 for pair in pairs for chance in pair):
        raise InvalidInput(
            "pairs", [tuple(map(float, pair)) for pair in pairs], "pairs (p, q) of probabilities, at least one"
        )
    # (p, q) unchanged, answers renamed, neighbours swapped, both: only the upper hull, p as a function of q.
    unit, chances = in_whole_units([chance for pair in pairs for chance in pair])
    points = {(0, 0), (unit, unit)}
    for p, q in zip(chances[::2], chances[1::2], strict=True):
        points |= {(q, p), (unit - q, unit - p), (p, q), (unit - p, unit - q)}
    hull = [(Fraction(q, unit), Fraction(p, unit)) for q, p in upper_chain(points)]
    if side == "outer":
        return _region([[*_above(p, q)] for q, p in hull], "outer")
    return _region([[*_above(q, p)[2:], *_above(q, p)[:2]] for q, p in hull], "inner")


def in_whole_units(fractions: Sequence[Fraction]) -> tuple[int, list[int]]:
    """Return a common denominator and the numerators for it: exact, and faster to compare than fractions."""
    unit = math.lcm(*(fraction.denominator for fraction in fractions))
    return unit, [fraction.numerator * (unit // fraction.denominator) for fraction in fractions]


def inner_region(pairs: ArrayLike | Sequence[Sequence[float]]) -> BitRegion:
    """Return the polygon spanned by pairs that the mechanism can show: the optimistic end of a bracket.

    ``pairs``: (Pr[1|D], Pr[1|D′]) of some neighbours, shape (pairs, 2).
    """
    points = np.asarray(pairs, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or not points.size or not np.all((points >= 0) & (points <= 1)):
        raise InvalidInput("pairs", np.asarray(pairs).tolist(), "pairs (p, q) of probabilities, shape (n, 2), n ≥ 1")
    p, q = np.concatenate((points, points[:, ::-1])).T  # neighbours may be swapped
    return _region(np.column_stack((p, 1 - p, q, 1 - q)).tolist(), "inner")


def upper_hull(pairs: ArrayLike) -> Array:
    """Return the pairs (p, q) that are vertices of the region they span with their mirror images.

    Answers may be renamed and neighbours swapped, so only the upper hull, p as a function of q, matters; in floating
    point, for estimates.

    >>> upper_hull([[0.5, 0.5], [0.75, 0.5], [0.6, 0.5]]).tolist()
    [[0.0, 0.0], [0.5, 0.25], [0.75, 0.5], [1.0, 1.0]]
    """
    p, q = np.asarray(pairs, dtype=np.float64).T
    x = np.concatenate([q, 1 - q, p, 1 - p, [0.0, 1.0]])
    y = np.concatenate([p, 1 - p, q, 1 - q, [0.0, 1.0]])
    return np.array([(p, q) for q, p in upper_chain(zip(x.tolist(), y.tolist(), strict=True))])


Number = TypeVar("Number", float, int)


def upper_chain(points: Iterable[tuple[Number, Number]]) -> list[tuple[Number, Number]]:
    """Return the vertices (x, y) of the upper convex hull, by increasing x."""
    hull: list[tuple[Number, Number]] = []
    for x, y in sorted(points):
        if hull and hull[-1][0] == x:
            hull.pop()  # lower at the same x: sorted
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) <= (y - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append((x, y))
    return hull


def _region(moves: list[list[float]], side: Side) -> BitRegion:
    array = np.unique(np.array(moves, dtype=np.float64), axis=0)
    array.setflags(write=False)
    return BitRegion(array, side)


def _lines(slopes: Sequence[float] | Array, deltas: Sequence[float] | Array) -> list[tuple[Fraction, Fraction]]:
    if len(slopes) != len(deltas) or len(slopes) == 0:
        raise InvalidInput("deltas", list(deltas), f"one δ for each of {len(slopes)} slopes, at least one")
    for slope, delta in zip(slopes, deltas, strict=True):
        if not 1 <= slope < math.inf:
            raise InvalidInput("slopes", float(slope), "e^ε, a number at least 1")
        if not 0 <= delta <= 1:
            raise InvalidInput("deltas", float(delta), "a probability in [0, 1]")
    return [(Fraction(float(slope)), Fraction(float(delta))) for slope, delta in zip(slopes, deltas, strict=True)]


def _lower_envelope(lines: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Return the corners (p, q), 0 < q ≤ 1, of q ↦ min over lines of height + slope·q, exactly."""
    envelope: list[tuple[Fraction, Fraction]] = []
    for slope, height in sorted(set(lines), key=lambda line: (-line[0], line[1])):
        if envelope and slope == envelope[-1][0]:
            continue
        while envelope and height <= envelope[-1][1]:
            envelope.pop()  # flatter and lower at 0: below it everywhere
        while len(envelope) >= 2 and _crossing(envelope[-2], (slope, height)) <= _crossing(envelope[-2], envelope[-1]):
            envelope.pop()
        envelope.append((slope, height))
    corners = []
    for steep, flat in pairwise(envelope):
        q = _crossing(steep, flat)
        if 0 < q <= 1:
            corners.append((steep[1] + steep[0] * q, q))
    return corners


def _crossing(steep: tuple[Fraction, Fraction], flat: tuple[Fraction, Fraction]) -> Fraction:
    return (flat[1] - steep[1]) / (steep[0] - flat[0])


def _above(p: Fraction, q: Fraction) -> tuple[float, float, float, float]:
    return float_above(p), float_above(1 - p), float_below(q), float_below(1 - q)


def region_lines(queries: int, total: Privacy, lines: int = MAX_LINES, tilt: float = 0.0) -> list[Privacy]:
    """Return lines (ε, δ) around the pairs that, shown ``queries`` times, cost at most ``total``."""
    if queries == 1:
        return [total]
    q = np.concatenate([[0.0], np.geomspace(1e-6 / queries, 0.5, BORDER_POINTS // 2 + 1)])
    q = np.concatenate([q, 1 - q[-2::-1]])
    low, high = q.copy(), np.ones_like(q)
    # Halvings of [q, 1]: to 1e-14, the resolution of a δ in double precision.
    for _ in range(46):
        middle = (low + high) / 2
        fits = repeated_delta(middle, q, queries, total.epsilon) <= total.delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    midpoint = (low + q) / 2
    low = q + (low - q) * (4 * midpoint * (1 - midpoint)) ** tilt
    p, q = upper_hull(np.stack([low, q], axis=1)).T
    slopes = np.unique(np.clip(np.diff(p) / np.diff(q), 1.0, MAX_SLOPE))
    slopes = slopes[np.unique(np.linspace(0, slopes.size - 1, lines).round().astype(int))]
    return [Privacy(math.log(c), float(np.clip(np.max(p - c * q), 0.0, 1 - 1e-9))) for c in slopes.tolist()]


def repeated_delta(p: Array, q: Array, queries: int, epsilon: float) -> Array:
    """Return the larger of the two hockey-stick divergences at ε between Q bits of probability p and of q."""
    return hockey_stick(*log_binomials(np.stack([p, q], axis=1), queries), epsilon)


def hockey_stick(on_data: Array, on_neighbour: Array, epsilon: float) -> Array:
    """Return the larger of the two hockey-stick divergences at ε between laws of `log_binomials`, shape (pairs,)."""
    with np.errstate(over="ignore"):  # e^ε overflows: the difference is negative, and counts as 0
        forward = np.maximum(np.exp(on_data) - np.exp(on_neighbour + epsilon), 0.0).sum(axis=1)
        backward = np.maximum(np.exp(on_neighbour) - np.exp(on_data + epsilon), 0.0).sum(axis=1)
    return np.asarray(np.maximum(forward, backward))


def log_binomials(pairs: Array, queries: int) -> tuple[Array, Array]:
    """Return the logarithms of the binomial laws of Q bits of probability p and q, shape (pairs, Q + 1) each."""
    ones = np.arange(queries + 1.0)
    log_ways = np.array([math.lgamma(queries + 1) - math.lgamma(j + 1) - math.lgamma(queries - j + 1) for j in ones])

    def law(chance: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(ones > 0, ones * np.log(chance)[:, None], 0.0)
            terms += np.where(ones < queries, (queries - ones) * np.log1p(-chance)[:, None], 0.0)
        return np.asarray(terms + log_ways)

    return law(pairs[:, 0]), law(pairs[:, 1])
