"""Worst-case search for Δ > 0 that rules out almost everything: about O(K³), where complete search is O(K⁵).

Notation as in `separable`: skeleton (nx, ny, n₁), n₀ = n − n₁, the array A of its (nx, ny), D[j] = A[j+1] − A[j],
and at most M = min(n, r − nx − ny) voters near 0 and 1 off (0,0) and (1,1). As a mean,

    U_N(a, a′) = E[A(N + X − Y)],   X ~ Bin(a, Δ), Y ~ Bin(a′, Δ) independent.

Three sieves, each a proved upper bound of φ; what passes all is evaluated, not bounded.

1. *Row.* One more voter off its end changes U by Δ·E[D(·)], at most Δ·max|D|. So on a whole row
   φ ≤ q·A[n₁] + A[n₀] + M·Δ·max|D|. As every entry of a later row is a convex combination of an earlier one's,
   max|D| never grows along nx or ny and need not be computed on each.

2. *First order.* A(N+X−Y) − A(N) is a walk over X + Y differences. Each of the k-th ones differs from D[N] or D[N−1]
   by at most (k−1)·S, S = max|second difference|; summed, |A(N+X−Y) − A[N] − X·D[N] + Y·D[N−1]| ≤ S·C(X+Y, 2),
   whose mean is at most ½(a+a′)²Δ²S. With q ≤ 1 and (a+a′) + (b+b′) ≤ M both blossoms together leave
   ½M²Δ²S, and the linear part is maximal with each end's voters all on their best kind:
   near 0 slopes q·D[n₁] for (Δ,0) and −D[n₀−1] for (0,Δ); near 1 slopes −q·D[n₁−1] for (1−Δ,1) and D[n₀] for (1,1−Δ).

3. *One kind an end.* The true slope of one more voter is Δ·(slope above ± e), e = M·Δ·S: if at both ends the best
   kind beats the others by more than that, the worst multiset has all its voters on the best kinds, and φ is
   evaluated there. If not, exchanging kinds voter by voter gains at most the overlap of the slopes' ranges, which is
   added. S may be taken near N: Z = X + Y exceeds T with E[C(Z,2); Z > T] ≤ ½(MΔ)²·(MΔ)^(T−1)/(T−1)!.

What then still has an overlap, and passes the level asked for, is searched completely: U_N over all (a, a′) of one
skeleton is a product of three small matrices (binomial masses on both sides of A's values near N), O(n²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from darrm_opt.design.blossom import UNIT_ROUNDOFF, layers
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import DOWN, DOWN_FROM_ONE, ONE, UP, UP_TO_ONE, XY, YX, ZERO, Counts
from darrm_opt.design.found import Collector, WorstCase
from darrm_opt.design.separable import TABLE_ENTRIES, Skeletons, join, search_separable
from darrm_opt.noise import Array

FIRST_ORDER_REACH = 1.0
"""Largest M·Δ for which the first-order bound is tried where complete search is affordable: beyond, its remainder
prunes nothing."""

EVALUATION_REACH = 16.0
"""Largest M·Δ for which a mean over the binomials is worth its terms; beyond, only complete search or the row bound."""

SETTLED_ONE_BY_ONE = 4
"""Skeletons left open per row up to which each is searched by itself; beyond, the rows are searched whole."""

SLOPES_EVERY = 8
"""Layers between two computations of max|D|; between them the last one holds."""

TAIL = 2.0**-60
"""Probability beyond which a binomial is cut off; charged in `_evaluation_error`."""


@dataclass(frozen=True)
class _Rows:
    """Some rows of one layer, both orientations: A, shape (many, n+1), with their (nx, ny)."""

    values: Array
    nx: NDArray[np.int64]
    ny: NDArray[np.int64]


def search_pruned(
    signed: Array, constraint: PrivacyConstraint, collector: Collector, error: float, *, refine: bool
) -> WorstCase:
    """Search every multiset, looking only at those that may lie above ``collector.above``.

    Args:
        signed: g(0..K).
        constraint: Δ > 0.
        collector: takes what is found.
        error: rounding error of φ on the constraint set.
        refine: whether to settle what the sieves leave open by complete search (a proof wants that; a search for
            cuts does not).
    """
    K, Delta = constraint.K, constraint.corners.Delta
    slopes, buffer = np.empty(0), np.empty(0)
    for s, first, layer in layers(signed, constraint.corners.x, constraint.corners.y, constraint.affected):
        n, moving = K - s, min(K - s, constraint.affected - s)
        slopes = _carried_slopes(slopes, layer, s)
        if buffer.size < layer.size:
            buffer = np.empty(layer.size)
        values = buffer[: layer.size].reshape(layer.shape)
        np.multiply(layer, constraint.q, out=values)
        values += layer[:, ::-1]
        reach = Delta * moving * slopes
        suspects: list[_Rows] = []
        highest = -np.inf
        for best, mirrored in ((values.max(axis=1), False), (-values.min(axis=1), True)):
            _offer_best(best, values, first, s, n, collector, mirrored=mirrored)
            bound = best + reach
            highest = max(highest, float(bound.max()))
            passed = bound > collector.above
            collector.leave_out(float(np.max(bound, where=~passed, initial=-np.inf)))
            rows = np.flatnonzero(passed)
            nx = first + rows
            suspects.append(
                _Rows(-layer[rows][:, ::-1], s - nx, nx) if mirrored else _Rows(layer[rows], nx, s - nx)
            )
        rows = _Rows(*(np.concatenate(parts) for parts in zip(*((r.values, r.nx, r.ny) for r in suspects), strict=True)))
        if rows.nx.size:
            _search_rows(rows, highest, moving, constraint, collector, refine=refine)
    mean = min(constraint.affected * Delta, EVALUATION_REACH)
    found = collector.result(error + (1.0 + constraint.q) * _evaluation_error(mean) * float(np.max(signed)), "complete")
    loose = collector.left_out > max(collector.value, collector.above)
    return WorstCase(found.bound, found.value, found.counts, found.cuts, "first-order" if loose else "complete")


def _carried_slopes(slopes: Array, layer: Array, s: int) -> Array:
    """Return a bound on max|D| for each row of a layer, from the layer before or afresh."""
    if layer.shape[1] == 1:
        return np.zeros(layer.shape[0])
    if s % SLOPES_EVERY == 0:
        fresh: Array = np.abs(np.diff(layer, axis=1)).max(axis=1)
        return fresh
    # rows nx = ⌈s/2⌉..s−1 descend by one y, row nx = s from nx = s−1 by one x
    return np.concatenate([slopes[slopes.size - layer.shape[0] + 1 :], slopes[-1:]])


def _offer_best(
    best: Array, values: Array, first: int, s: int, n: int, collector: Collector, *, mirrored: bool
) -> None:
    """Offer the worst multiset of the layer whose near-end voters all stay at their ends."""
    row = int(best.argmax())
    if best[row] <= collector.value:
        return
    n1 = int(values[row].argmin() if mirrored else values[row].argmax())
    counts = np.zeros((1, 8), dtype=np.int64)
    order = [YX, XY, ZERO, ONE] if mirrored else [XY, YX, ONE, ZERO]
    counts[0, order] = first + row, s - first - row, n1, n - n1
    collector.offer(best[row : row + 1], counts)


def _search_rows(
    rows: _Rows, bound: float, moving: int, constraint: PrivacyConstraint, collector: Collector, *, refine: bool
) -> None:
    """Sieves 2 and 3, then complete search, for the rows that passed sieve 1 (φ ≤ ``bound`` on all of them)."""
    n = rows.values.shape[1] - 1
    mean = moving * constraint.corners.Delta
    affordable = (n + 1) * (moving + 1) ** 2 <= TABLE_ENTRIES
    if mean > FIRST_ORDER_REACH and affordable:
        search_separable(rows.values, rows.nx, rows.ny, constraint, collector)
        return
    if mean > EVALUATION_REACH:
        collector.leave_out(bound)
        return
    i, N = _sift(rows, moving, constraint, collector, refine=refine)
    if refine and affordable and i.size > SETTLED_ONE_BY_ONE * rows.nx.size:
        of = np.unique(i)
        search_separable(rows.values[of], rows.nx[of], rows.ny[of], constraint, collector)
    elif refine:
        for row, n1 in zip(i, N, strict=True):
            _settle(rows, int(row), int(n1), moving, constraint, collector)


def _sift(
    rows: _Rows, moving: int, constraint: PrivacyConstraint, collector: Collector, *, refine: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sieves 2 and 3. Return the skeletons left open (row, n₁) if ``refine``, else charge their bounds."""
    A, q, Delta = rows.values, constraint.q, constraint.corners.Delta
    n = A.shape[1] - 1
    D = np.diff(A, axis=1)
    second = np.abs(np.diff(D, axis=1))
    bend = second.max(axis=1, initial=0.0)
    kinds = _Slopes.of(D, q)
    n1 = np.arange(n + 1)
    linear = Delta * _greedy(kinds.near_zero, kinds.near_one, n - n1, n1, moving)
    bound = q * A + A[:, ::-1] + linear + 0.5 * (moving * Delta) ** 2 * bend[:, np.newaxis]
    passed = bound > collector.above
    collector.leave_out(float(np.max(bound, where=~passed, initial=-np.inf)))
    i, N = np.nonzero(passed)
    if i.size == 0:
        return i, N
    e = moving * Delta * _local_bend(second, bend, i, N, moving * Delta)
    chosen = _choose(kinds, i, N, n - N, moving, e, q)
    values = q * _expected(A, i, N, chosen.down, chosen.up_to_one, Delta, moving)
    values += _expected(A, i, n - N, chosen.down_from_one, chosen.up, Delta, moving)
    counts = chosen.counts(rows.nx[i], rows.ny[i], N, n - N)
    collector.offer(values, counts)
    bounds = values + Delta * chosen.overlap
    left_open = (chosen.overlap > 0) & (bounds > collector.above) if refine else np.zeros(i.size, dtype=bool)
    collector.leave_out(float(bounds.max(where=(chosen.overlap > 0) & ~left_open, initial=-np.inf)))
    return i[left_open], N[left_open]


def _settle(
    rows: _Rows, row: int, n1: int, moving: int, constraint: PrivacyConstraint, collector: Collector
) -> None:
    """Search one skeleton completely."""
    A, Delta = rows.values[row], constraint.corners.Delta
    n0 = A.size - 1 - n1
    m0, m1 = min(n0, moving), min(n1, moving)
    here = slice(row, row + 1)
    join(
        _all_expected(A, n1, m0, m1, Delta, moving)[np.newaxis],
        _all_expected(A, n0, m1, m0, Delta, moving)[np.newaxis],
        Skeletons(rows.nx[here], rows.ny[here], n0, n1, moving),
        constraint.q,
        collector,
    )


def _all_expected(A: Array, N: int, most_up: int, most_down: int, Delta: float, moving: int) -> Array:
    """Return E[A(N + Bin(a, Δ) − Bin(a′, Δ))] for all a ≤ most_up, a′ ≤ most_down: shape (most_up+1, most_down+1)."""
    terms = min(_terms(moving * Delta), moving)
    t = np.arange(terms + 1)
    near = A[np.clip(N + t[:, np.newaxis] - t, 0, A.size - 1)]
    plus, minus = _binomial(np.arange(most_up + 1), Delta, terms), _binomial(np.arange(most_down + 1), Delta, terms)
    mean: Array = plus.T @ near @ minus
    return mean


@dataclass(frozen=True)
class _Slopes:
    """First-order gain of φ, divided by Δ, of putting one voter on each kind; shape (rows, n+1) over n₁."""

    down: Array
    up: Array
    up_to_one: Array
    down_from_one: Array

    @classmethod
    def of(cls, D: Array, q: float) -> _Slopes:
        """Slopes from the differences of the rows; 0 where an end has no voter to move."""
        none = np.zeros((D.shape[0], 1))
        right, left = np.concatenate([D, none], axis=1), np.concatenate([none, D], axis=1)
        return cls(q * right, -left[:, ::-1], -q * left, right[:, ::-1])

    @property
    def near_zero(self) -> Array:
        return np.maximum(np.maximum(self.down, self.up), 0.0)

    @property
    def near_one(self) -> Array:
        return np.maximum(np.maximum(self.up_to_one, self.down_from_one), 0.0)


@dataclass(frozen=True)
class _Chosen:
    """For each suspect skeleton: how many voters on each kind, and what another choice could gain, divided by Δ."""

    down: NDArray[np.int64]
    up: NDArray[np.int64]
    up_to_one: NDArray[np.int64]
    down_from_one: NDArray[np.int64]
    overlap: Array

    def counts(self, nx: NDArray[np.int64], ny: NDArray[np.int64], n1: NDArray[np.int64], n0: NDArray[np.int64]) -> Counts:
        counts = np.zeros((n1.size, 8), dtype=np.int64)
        counts[:, XY], counts[:, YX] = nx, ny
        counts[:, UP], counts[:, DOWN] = self.up, self.down
        counts[:, UP_TO_ONE], counts[:, DOWN_FROM_ONE] = self.up_to_one, self.down_from_one
        counts[:, ZERO] = n0 - self.up - self.down
        counts[:, ONE] = n1 - self.up_to_one - self.down_from_one
        return counts


def _greedy(zero: Array, one: Array, n0: NDArray[np.int64], n1: NDArray[np.int64], moving: int) -> Array:
    """Return the largest t₀·zero + t₁·one with t₀ ≤ n₀, t₁ ≤ n₁, t₀ + t₁ ≤ moving, for slopes ≥ 0."""
    t0, t1 = _fill(zero >= one, n0, n1, moving)
    return t0 * zero + t1 * one


def _fill(
    zero_first: NDArray[np.bool_], n0: NDArray[np.int64], n1: NDArray[np.int64], moving: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    most0, most1 = np.minimum(n0, moving), np.minimum(n1, moving)
    return (
        np.where(zero_first, most0, np.minimum(n0, moving - most1)),
        np.where(zero_first, np.minimum(n1, moving - most0), most1),
    )


def _choose(
    kinds: _Slopes, i: NDArray[np.int64], N: NDArray[np.int64], n0: NDArray[np.int64], moving: int, e: Array, q: float
) -> _Chosen:
    """Put each end's voters on its best kind (or none), and bound what any other multiset could gain.

    Any multiset becomes the chosen one by exchanges: its voters to the chosen kind of their end (gain lost: at most
    the best rival's upper slope, or 0 for not moving, over the chosen one's lower slope, each); then empty budget is
    filled (that loses only where the lower slope is negative: rival 0); then, if the budget binds, voters go from the
    end filled last to the end filled first.
    """
    down, up = kinds.down[i, N], kinds.up[i, N]
    up_to_one, down_from_one = kinds.up_to_one[i, N], kinds.down_from_one[i, N]
    zero, low0, rival0 = _pick(down, q * e, up, e)
    one, low1, rival1 = _pick(up_to_one, q * e, down_from_one, e)
    use0, use1 = zero > 0, one > 0
    zero_first = np.maximum(down, up) >= np.maximum(up_to_one, down_from_one)
    t0, t1 = _fill(zero_first, np.where(use0, n0, 0), np.where(use1, N, 0), moving)
    most0, most1 = np.minimum(n0, moving), np.minimum(N, moving)
    overlap = most0 * np.maximum(rival0 - low0, 0.0) + most1 * np.maximum(rival1 - low1, 0.0)
    binds = use0 & use1 & (n0 + N > moving)
    first_low = np.where(zero_first, low0, low1)
    second_high = np.where(zero_first, np.maximum(up_to_one + q * e, down_from_one + e), np.maximum(down + q * e, up + e))
    overlap += np.where(binds, moving * np.maximum(second_high - first_low, 0.0), 0.0)
    return _Chosen(
        np.where(zero == 1, t0, 0), np.where(zero == 2, t0, 0), np.where(one == 1, t1, 0), np.where(one == 2, t1, 0), overlap
    )


def _pick(one: Array, one_e: Array, two: Array, two_e: Array) -> tuple[NDArray[np.int64], Array, Array]:
    """Return (0 none, 1, or 2; its lower slope; the best rival's upper slope) for each skeleton."""
    kind = np.where((one <= 0) & (two <= 0), 0, np.where(one >= two, 1, 2))
    low = np.choose(kind, [np.zeros_like(one), one - one_e, two - two_e])
    high1, high2 = one + one_e, two + two_e
    rival = np.choose(kind, [np.maximum(high1, high2), np.maximum(high2, 0.0), np.maximum(high1, 0.0)])
    return kind, low, rival


def _local_bend(second: Array, bend: Array, i: NDArray[np.int64], N: NDArray[np.int64], mean: float) -> Array:
    """Return max|second difference| near N and near n − N, plus what the tail beyond the window may add."""
    n = second.shape[1] + 1
    window = _terms(mean)
    tail = mean ** (window - 1) / math.factorial(window - 1)
    here = np.zeros(i.size)
    if second.shape[1]:
        for offset in range(-window - 2, window + 2):
            for centre in (N, n - N):
                at = centre + offset
                inside = (at >= 0) & (at < second.shape[1])
                np.maximum(here, np.where(inside, second[i, np.clip(at, 0, second.shape[1] - 1)], 0.0), out=here)
    return here + tail * bend[i]


def _terms(mean: float) -> int:
    """Return T such that a binomial of that mean exceeds T with probability at most `TAIL`."""
    terms, bound = 1, mean**2 / 2
    while bound > TAIL:
        terms += 1
        bound *= mean / (terms + 1)
    return terms + 1


def _expected(
    A: Array,
    i: NDArray[np.int64],
    N: NDArray[np.int64],
    up: NDArray[np.int64],
    down: NDArray[np.int64],
    Delta: float,
    moving: int,
) -> Array:
    """Return E[A[i](N + Bin(up, Δ) − Bin(down, Δ))], the binomials cut off where less than `TAIL` is left."""
    terms = min(_terms(moving * Delta), moving)
    plus, minus = _binomial(up, Delta, terms), _binomial(down, Delta, terms)
    mean = np.zeros(i.size)
    for offset in range(-terms, terms + 1):
        weight = np.zeros(i.size)
        for t in range(max(0, offset), terms + min(0, offset) + 1):
            weight += plus[t] * minus[t - offset]
        mean += weight * A[i, np.clip(N + offset, 0, A.shape[1] - 1)]
    return mean


def _binomial(trials: NDArray[np.int64], Delta: float, terms: int) -> Array:
    """Return Pr[Bin(trials, Δ) = t] for t = 0..terms, shape (terms+1, many)."""
    mass = np.empty((terms + 1, trials.size))
    mass[0] = np.exp(trials * math.log1p(-Delta))
    odds = Delta / (1.0 - Delta)
    for t in range(terms):
        mass[t + 1] = mass[t] * (np.maximum(trials - t, 0) / (t + 1) * odds)
    return mass


def _evaluation_error(mean: float) -> float:
    """Return a bound on |computed − exact| of one `_expected`, relative to max|A|.

    The first mass carries (4 + 4·mean)u (log1p, product, exp), each further one 6u more, so a weight at most
    (8 + 8·mean + 12T)u relative; T² of them are added with at most 2T additions each in sequence; all weights sum to
    at most 1. Two tails are cut off.
    """
    terms = _terms(mean)
    return (10 + 8 * mean + 20 * terms) * UNIT_ROUNDOFF + 2 * TAIL
