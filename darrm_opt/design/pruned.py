"""Worst-case search for Δ > 0 that rules out almost everything: about O(K³), where complete search is O(K⁵).

Notation as in `separable`: skeleton (nx, ny, n₁), n₀ = n − n₁, the array A of its (nx, ny), D[j] = A[j+1] − A[j],
and at most M = min(n, r − nx − ny) voters near 0 and 1 off (0,0) and (1,1). As a mean,

    U_N(a, a′) = E[A(N + X − Y)],   X ~ Bin(a, Δ), Y ~ Bin(a′, Δ) independent.

Three sieves, each a proved upper bound of φ; what passes all is evaluated, not bounded.

1. *Row.* One more voter off its end changes U by Δ·E[D(·)], at most Δ·max|D|. So on a whole row
   φ ≤ q·A[n₁] + A[n₀] + M·Δ·max|D|. As every entry of a later row is a convex combination of an earlier one's,
   max|D| never grows along nx or ny and need not be computed on each.

2. *First order.* A(N+X−Y) − A(N) is a walk over X + Y differences. The k-th of them differs from D[N] (upward) or
   D[N−1] (downward) by at most (k−1)·S, S = max|second difference|; summed,
   |A(N+X−Y) − A[N] − X·D[N] + Y·D[N−1]| ≤ S·C(X+Y, 2), whose mean is at most ½(a+a′)²Δ²S. With q ≤ 1 and
   (a+a′) + (b+b′) ≤ M both blossoms together leave ½M²Δ²S; the linear part is `kinds.Slopes.gain`.

3. *One kind an end.* The true slope of one more voter is within e = M·Δ·S of the first-order one. If at both ends the
   best kind beats the others by more than that, the worst multiset has all its voters on the best kinds, and φ is
   evaluated there. If not, `kinds.choose` bounds what another choice gains, which is added. Here S is taken near N and
   n − N: Z = X + Y leaves the window T with E[C(Z,2); Z > T] ≤ ½(MΔ)²·(MΔ)^(T−1)/(T−1)!.

What then still has an overlap, and passes the level asked for, is searched completely: U_N over all (a, a′) of one
skeleton is a product of three small matrices (binomial masses on both sides of A's values near N), O(n²).

Rounding of A (at most ``fuzz``) enters differences twice and second differences four times; it is added to the
slopes' bounds, so that no multiset is left out by a rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from darrm_opt.design.binomials import evaluation_error, expected, expected_all, terms_of
from darrm_opt.design.blossom import layers, rounding_error
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import ONE, XY, YX, ZERO
from darrm_opt.design.found import Collector, WorstCase
from darrm_opt.design.kinds import Indices, Rows, Slopes, choose
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


@dataclass(frozen=True)
class _Search:
    """One search: what is bounded, who takes the findings, the rounding of A, and whether to settle what stays open."""

    constraint: PrivacyConstraint
    collector: Collector
    fuzz: float
    refine: bool


def search_pruned(signed: Array, constraint: PrivacyConstraint, collector: Collector, *, refine: bool) -> WorstCase:
    """Search every multiset, looking only at those that may lie above ``collector.above``.

    Args:
        signed: g(0..K).
        constraint: Δ > 0.
        collector: takes what is found.
        refine: whether to settle what the sieves leave open by complete search (a proof wants that; a search for
            cuts does not).
    """
    K, Delta, largest = constraint.K, constraint.corners.Delta, float(np.abs(signed).max())
    search = _Search(constraint, collector, rounding_error(constraint.affected, largest), refine)
    slopes, buffer = np.empty(0), np.empty(0)
    for s, first, layer in layers(signed, constraint.corners.x, constraint.corners.y, constraint.affected):
        moving = min(K - s, constraint.affected - s)
        slopes = _carried_slopes(slopes, layer, s)
        if buffer.size < layer.size:
            buffer = np.empty(layer.size)
        values = buffer[: layer.size].reshape(layer.shape)
        np.multiply(layer, constraint.q, out=values)
        values += layer[:, ::-1]
        reach = Delta * moving * (slopes + 2 * search.fuzz)
        for best, mirrored in ((values.max(axis=1), False), (-values.min(axis=1), True)):
            _offer_best(best, values, first, s, K - s, collector, mirrored=mirrored)
            bound = best + reach
            passed = bound > collector.above
            collector.leave_out(float(np.max(bound, where=~passed, initial=-np.inf)))
            nx = first + np.flatnonzero(passed)
            if nx.size:
                some = layer[passed]
                rows = Rows(-some[:, ::-1], s - nx, nx) if mirrored else Rows(some, nx, s - nx)
                _search_rows(search, rows, float(bound.max()), moving)
    mean = min(constraint.affected * Delta, EVALUATION_REACH)
    error = constraint.error(largest) + (1.0 + constraint.q) * evaluation_error(mean) * largest
    loose = collector.left_out > max(collector.value, collector.above)
    return collector.result(error, "first-order" if loose else "complete")


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


def _search_rows(search: _Search, rows: Rows, bound: float, moving: int) -> None:
    """Sieves 2 and 3, then complete search, for the rows that passed sieve 1 (φ ≤ ``bound`` on all of them)."""
    constraint, collector = search.constraint, search.collector
    mean = moving * constraint.corners.Delta
    affordable = (rows.n + 1) * (moving + 1) ** 2 <= TABLE_ENTRIES
    if mean > FIRST_ORDER_REACH and affordable:
        search_separable(rows, constraint, collector)
        return
    if mean > EVALUATION_REACH:
        collector.leave_out(bound)
        return
    i, n1 = _sift(search, rows, moving)
    if affordable and i.size > SETTLED_ONE_BY_ONE * rows.nx.size:
        of = np.unique(i)
        search_separable(Rows(rows.values[of], rows.nx[of], rows.ny[of]), constraint, collector)
        return
    for row, near_one in zip(i, n1, strict=True):
        _settle(search, rows, int(row), int(near_one), moving)


def _sift(search: _Search, rows: Rows, moving: int) -> tuple[Indices, Indices]:
    """Sieves 2 and 3. Return the skeletons left open (row, n₁) if refining; charge the bounds of all others."""
    constraint, collector = search.constraint, search.collector
    A, n, q, Delta = rows.values, rows.n, constraint.q, constraint.corners.Delta
    second = np.abs(np.diff(A, 2, axis=1)) + 4 * search.fuzz
    bend = second.max(axis=1, initial=4 * search.fuzz)
    slopes = Slopes.of(rows, q)
    bound = q * A + A[:, ::-1] + Delta * (slopes.gain(n, moving) + 2 * search.fuzz * moving)
    bound += 0.5 * (moving * Delta) ** 2 * bend[:, np.newaxis]
    passed = bound > collector.above
    collector.leave_out(float(np.max(bound, where=~passed, initial=-np.inf)))
    i, n1 = np.nonzero(passed)
    if i.size == 0:
        return i, n1
    e = moving * Delta * _local_bend(second, bend, i, n1, moving * Delta) + 2 * search.fuzz
    choice = choose(slopes, i, n1, n, moving, q, e)
    values = q * expected(A, i, n1, choice.down, choice.up_to_one, Delta, moving)
    values += expected(A, i, n - n1, choice.down_from_one, choice.up, Delta, moving)
    collector.offer(values, choice.counts(rows.nx[i], rows.ny[i], n - n1, n1))
    bounds = values + Delta * choice.overlap
    uncertain = choice.overlap > 0
    left_open = uncertain & (bounds > collector.above) & search.refine
    collector.leave_out(float(bounds.max(where=uncertain & ~left_open, initial=-np.inf)))
    return i[left_open], n1[left_open]


def _settle(search: _Search, rows: Rows, row: int, n1: int, moving: int) -> None:
    """Search one skeleton completely."""
    A, Delta = rows.values[row], search.constraint.corners.Delta
    n0 = rows.n - n1
    m0, m1 = min(n0, moving), min(n1, moving)
    here = slice(row, row + 1)
    join(
        expected_all(A, n1, m0, m1, Delta, moving)[np.newaxis],
        expected_all(A, n0, m1, m0, Delta, moving)[np.newaxis],
        Skeletons(rows.nx[here], rows.ny[here], n0, n1, moving),
        search.constraint.q,
        search.collector,
    )


def _local_bend(second: Array, bend: Array, i: Indices, n1: Indices, mean: float) -> Array:
    """Return max|second difference| near n₁ and near n₀, plus what the tail beyond the window may add."""
    width = second.shape[1]
    window = terms_of(mean) + 1
    tail = mean ** (window - 1) / math.factorial(window - 1)
    here = np.zeros(i.size)
    for offset in range(-window - 2, window + 2) if width else ():
        for centre in (n1, width + 1 - n1):
            at = centre + offset
            inside = (at >= 0) & (at < width)
            np.maximum(here, np.where(inside, second[i, np.clip(at, 0, width - 1)], 0.0), out=here)
    return here + tail * bend[i]
