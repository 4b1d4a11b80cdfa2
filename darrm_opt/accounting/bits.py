"""The exact cost of many adaptive releases when each release is a single bit.

One bit shows a neighbouring pair as (p, q) = (Pr[1|D], Pr[1|D′]) in a polygon (`bit_region`). Let W_t(a, b) be the largest
hockey-stick Σ (a·P − b·Q)₊ that t more releases can show. The adversary picks (p, q) after seeing all earlier bits, so

    W_0(a, b) = (a − b)₊,    W_t(a, b) = max over (p, q) of W_{t−1}(ap, bq) + W_{t−1}(a(1−p), b(1−q)),

and D(E) = W_k(1, e^E) is the worst δ at total ε E. W is convex and homogeneous, so the maximum sits at a vertex, and one
variable is enough: with V_t(x) = W_t(1, x), x = e^E,

    V_0(x) = (1−x)₊,    V_t(x) = max over vertices of p·V_{t−1}(xq/p) + (1−p)·V_{t−1}(x(1−q)/(1−p)).

Grid. V is stored at x = e^(ih), i ≥ 0. Left of it V_t(x) = 1 − x + x·V_t(1/x), since every pair may also be swapped. Between grid
points V is replaced by its chord in x: V is convex, so this only raises it. Right of the grid the last value stands: V
decreases. Rounding: W grows with a and falls with b, so p and 1−p are rounded up, q and 1−q and all shifts down; all that
remains are products and sums of non-negative numbers, paid for in the coefficients.

Valid while the whole transcript of a query is that one bit: no count, time, error text or abstention depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from darrm_opt.accounting.bit_region import BitRegion
from darrm_opt.accounting.optimal import least_epsilon, non_negative
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import ULP, down, up

POINTS = 40_001
"""Grid points by default: the error they leave in ε is measured in the tests, 1e-3 and less."""

SCOUT_POINTS = 2001
"""Grid points of the first pass, which only finds how far the grid must reach."""

FURTHEST = 1e5
"""Largest ε [nats] that a grid reaches; beyond it the last value stands, which is sound and loose."""

FLAT = 1e-20
"""The grid ends where every V_t is this close to its limit, the probability of an infinite loss."""

MOST_WORK = 2e10
"""Most vertex-point updates in one call, about a minute; beyond it `TooMuchWork`."""

_ROUNDING = 16 * ULP
"""Relative charge of one step: two coefficients of three operations each, two products, three sums."""

Parts = Sequence[tuple[BitRegion, int]]
"""Releases in the order in which they are made: (region, how many)."""


@dataclass(frozen=True, eq=False)
class BitTotal:
    """What the releases cost together: V on its grid.

    Attributes:
        step: h [nats], the grid's spacing in ε.
        values: δ at ε = 0, h, 2h, …: an upper bound on what the regions allow, read-only [probability].
        guaranteed: whether every region contained all that its mechanism can show; if not, the numbers are optimistic.
    """

    step: float
    values: Array
    guaranteed: bool

    def delta(self, epsilon: float) -> float:
        """Return δ at ``epsilon`` ≥ 0 [nats]."""
        epsilon = non_negative(epsilon, "epsilon", "a number of nats, at least 0")
        last = self.values.size - 1
        position = min(down(epsilon / self.step, 2), float(last))
        cell = min(int(position), last - 1)
        share = _chord(position - cell, self.step)
        found = float((1 - share) * self.values[cell] + share * self.values[cell + 1])
        return min(1.0, up(found, 4)) if found else 0.0

    def epsilon(self, delta: float) -> float:
        """Return ε [nats] at ``delta`` [probability] in [0, 1).

        Raises:
            BelowLeakFloor: δ is below the probability of an infinite loss (or of one beyond the grid).
        """
        delta = Privacy(0.0, delta).delta
        reach = up((self.values.size - 1) * self.step, 4)
        floor = self.delta(reach)
        if floor > delta:
            raise BelowLeakFloor(delta, floor, "that is the probability of an infinite loss, rounding included")
        return least_epsilon(self.delta, delta, reach)


def compose_bits(parts: Parts, *, points: int = POINTS) -> BitTotal:
    """Return the exact cost of single-bit releases made in the given order.

    Args:
        parts: (region, count) of each run of releases, in the order in which they are made. The order matters: a release
            with many choices is worth more to the adversary after others than before them. Where it is not fixed
            beforehand, use `compose_bits_any_order`.
        points: grid points, ≥ 3; the error falls with their square.

    Returns:
        δ at every ε and ε at every δ.

    Guarantees:
        With outer regions: sound for every adaptive sequence of such releases.

    Raises:
        InvalidInput: a count or the number of points is out of range.
        TooMuchWork: too many releases for this method; use `optimal` or a PLD.

    Source: ours; docs/accounting.md, "Many releases, by their bits".

    >>> from darrm_opt.accounting.bit_region import privacy_region
    >>> region = privacy_region(Privacy(0.2676, 0.0003))
    >>> round(compose_bits([(region, 20)]).epsilon(0.006), 2)
    3.63
    """
    runs, points = _checked(parts, points)
    _afford(sum(region.moves.shape[0] * count for region, count in runs) * points)
    step = _spacing(runs, points)
    values = _start(points)
    for region, count in reversed(runs):
        moves = _compiled(region, step, points)
        for _ in range(count):
            values = _earlier(values, moves)
    return _total(values, step, runs)


def compose_bits_any_order(parts: Parts, *, points: int = POINTS) -> BitTotal:
    """Return the cost of single-bit releases whose order the adversary chooses too, bit by bit.

    Args:
        parts: (region, count) of each kind of release, in any order; few kinds, since the state is how many are left of each.
        points: as in `compose_bits`.

    Returns:
        An upper bound on `compose_bits` for every order, and what an adversary attains who may choose it adaptively.

    Raises:
        DarrmError: what `compose_bits` raises, for the same reasons.
    """
    runs, points = _checked(parts, points)
    runs.sort(key=lambda run: run[0].moves.tobytes())
    states = math.prod(count + 1 for _, count in runs)
    _afford(states * sum(region.moves.shape[0] for region, _ in runs) * points)
    step = _spacing(runs, points)
    moves = [_compiled(region, step, points) for region, _ in runs]
    layer = {(0,) * len(runs): _start(points)}
    for _ in range(sum(count for _, count in runs)):
        following: dict[tuple[int, ...], Array] = {}
        for done, values in layer.items():
            for kind, (_, count) in enumerate(runs):
                if done[kind] < count:
                    state = (*done[:kind], done[kind] + 1, *done[kind + 1 :])
                    earlier = _earlier(values, moves[kind])
                    following[state] = np.maximum(earlier, following[state]) if state in following else earlier
        layer = following
    return _total(next(iter(layer.values())), step, runs)


@dataclass(frozen=True, eq=False)
class _Branch:
    """a·V(x·b/a) on the grid: near·V at ``offset`` cells + far·V one further."""

    offset: int
    near: float
    far: float


@dataclass(frozen=True, eq=False)
class _Moves:
    """The vertices of a region, ready for one grid.

    Attributes:
        vertices: for each a constant, up to two branches, and up to two pairs (A, B) for A + B·V at the grid's end; all
            are added.
        left: cells needed left of the grid; right: cells needed right of it.
        scale: x = e^(−jh) at the j-th cell left of the grid; offset: 1 − x there, rounded up. V = offset + scale·V(1/x).
    """

    vertices: list[tuple[float, list[_Branch], list[tuple[Array, Array]]]]
    left: int
    right: int
    scale: Array
    offset: Array


def _compiled(region: BitRegion, step: float, points: int) -> _Moves:
    vertices = []
    for p, p_rest, q, q_rest in region.moves.tolist():
        constant, branches, beyond = 0.0, list[_Branch](), list[tuple[Array, Array]]()
        for a, b in ((p, q), (p_rest, q_rest)):
            if a == 0:
                continue  # W(0, ·) = 0
            if b == 0:
                constant += a * (1 + _ROUNDING)  # V(0) = 1
                continue
            shift = math.log(b) - math.log(a)
            cells = shift / step
            cells -= 4 * ULP * (1 + abs(math.log(a)) + abs(shift)) / step + 4 * ULP * abs(cells)
            if cells < -2 * points:  # V(x) = 1 − x + x·V(1/x), and the grid has ended before 1/x
                log_x = (cells + np.arange(points)) * step
                beyond.append((-np.expm1(log_x) * (a * (1 + _ROUNDING)), np.exp(log_x) * (a * (1 + _ROUNDING))))
                continue
            offset = math.floor(min(cells, float(points)))
            share = _chord(min(cells - offset, 1.0), step)
            branches.append(_Branch(offset, a * (1 - share) * (1 + _ROUNDING), a * share * (1 + _ROUNDING)))
        vertices.append((constant, branches, beyond))
    offsets = [branch.offset for _, branches, _ in vertices for branch in branches]
    left = max(0, -min(offsets, default=0))
    outside = -step * np.arange(1, left + 1)
    scale, offset = np.exp(outside) * (1 + _ROUNDING), -np.expm1(outside) * (1 + _ROUNDING)
    return _Moves(vertices, left, max(0, max(offsets, default=0) + 1), scale, offset)


def _earlier(values: Array, moves: _Moves) -> Array:
    """Return V_t from V_{t−1}: the value one release earlier."""
    points = values.size
    extended = np.empty(moves.left + points + moves.right)
    extended[moves.left : moves.left + points] = values
    extended[moves.left + points :] = values[-1]
    mirrored = np.full(moves.left, values[-1])
    mirrored[: points - 1] = values[1 : moves.left + 1]
    extended[: moves.left] = (moves.offset + moves.scale * mirrored)[::-1]
    best = np.zeros(points)
    total, part = np.empty(points), np.empty(points)
    for constant, branches, beyond in moves.vertices:
        total.fill(constant)
        for base, factor in beyond:
            np.multiply(factor, values[-1], out=part)
            total += part
            total += base
        for branch in branches:
            first = moves.left + branch.offset
            np.multiply(extended[first : first + points], branch.near, out=part)
            total += part
            np.multiply(extended[first + 1 : first + 1 + points], branch.far, out=part)
            total += part
        np.maximum(best, total, out=best)
    return np.minimum(best, 1.0, out=best)


def _chord(share: float, step: float) -> float:
    """Return how far along in x a point is that lies ``share`` of a cell along in log x, rounded down."""
    return down(math.expm1(share * step) / math.expm1(step), 8) if share > 0 else 0.0


def _start(points: int) -> Array:
    return np.zeros(points)  # V_0(x) = (1 − x)₊ at x ≥ 1


def _spacing(runs: Parts, points: int) -> float:
    """Return h such that the grid reaches where the total has become flat, found on a coarse grid first."""
    full = sum(count * _largest_shift(region) for region, count in runs)
    if full == 0:
        return 1.0  # nothing run, or nothing but infinite losses: V is flat
    reach = min(full, FURTHEST)
    if sum(count for _, count in runs) > 1:
        coarse = reach / (SCOUT_POINTS - 1)
        values, flat = _start(SCOUT_POINTS), 0
        for region, count in reversed(runs):
            moves = _compiled(region, coarse, SCOUT_POINTS)
            for _ in range(count):
                values = _earlier(values, moves)
                flat = max(flat, int(np.argmax(values <= values[-1] * (1 + 1e-9) + FLAT)))
        reach = min(reach, (flat + 2) * coarse)
    step = reach / (points - 1)
    # The move with the largest p − q matters most: a whole number of cells keeps it free of interpolation.
    p, _, q, _ = max((move for region, _ in runs for move in region.moves.tolist()), key=lambda move: move[0] - move[2])
    if 0 < q < p:
        loss = math.log(p) - math.log(q)
        if loss > step:
            step = loss / math.floor(loss / step)
    return step


def _largest_shift(region: BitRegion) -> float:
    p, p_rest, q, q_rest = region.moves.T
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = np.abs(np.log(np.concatenate((q / p, q_rest / p_rest))))
    finite = shifts[np.isfinite(shifts)]
    return float(np.max(finite, initial=0.0))


def _checked(parts: Parts, points: int) -> tuple[list[tuple[BitRegion, int]], int]:
    runs = []
    for region, count in parts:
        if not isinstance(region, BitRegion):
            raise InvalidInput("parts", region, "pairs (BitRegion, count)")
        if whole_number(count, "count", "a whole number of releases, at least 0", least=0):
            runs.append((region, count))
    return runs, whole_number(points, "points", "a whole number of grid points, at least 3", least=3)


def _afford(work: float) -> None:
    if work > MOST_WORK:
        raise TooMuchWork(
            f"{work:.3g} updates are more than {MOST_WORK:.3g} for the exact adaptive composition of single bits. "
            "Use optimal() or a PLD, which know longer sequences, or fewer grid points."
        )


def _total(values: Array, step: float, runs: Parts) -> BitTotal:
    values.setflags(write=False)
    return BitTotal(step, values, all(region.guaranteed for region, _ in runs))
