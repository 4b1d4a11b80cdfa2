"""Pruned worst-case search for Δ > 0: it rules out almost everything, in about O(K³) where complete search is O(K⁵).

Notation as in `separable`: skeleton (nx, ny, n₁), n₀ = n − n₁, the array A of its (nx, ny), D[j] = A[j+1] − A[j], and
at most M = r − nx − ny voters near 0 and 1 off (0,0) and (1,1). As a mean,

    U_N(a, a′) = E[A(N + X − Y)],   X ~ Bin(a, Δ), Y ~ Bin(a′, Δ) independent.

Each sieve is a proved upper bound on φ; skeletons that pass all sieves are evaluated, not bounded.

1. *Row.* One more voter off its end changes U by Δ·E[D(·)], at most Δ·max|D|. So on a whole row
   φ ≤ q·A[n₁] + A[n₀] + M·Δ·max|D|. As every entry of a later row is a convex combination of an earlier one's,
   max|D| never grows along nx or ny and need not be computed on each.

2. *First order.* A(N+X−Y) − A(N) is a walk over X + Y differences. The k-th of them differs from D[N] (upward) or
   D[N−1] (downward) by at most (k−1)·S, S = max|second difference|; summed,
   |A(N+X−Y) − A[N] − X·D[N] + Y·D[N−1]| ≤ S·C(X+Y, 2), whose mean is at most ½(a+a′)²Δ²S. With q ≤ 1 and
   (a+a′) + (b+b′) ≤ M both blossoms together leave ½M²Δ²S; the linear part is `first_order.Slopes.gain`.

3. *Farthest.* If A is flat near both ends and bends only beyond, the values that A reaches there at all bound both
   blossoms (`binomials.bound_by_extremes`): with Δ·M above 1 this rules out nearly everything that sieve 2 leaves.

4. *One kind per end.* The true slope of one more voter is within e = M·Δ·S of the first-order one. If at both ends the
   best kind beats the others by more than that, the worst multiset has all its voters on the best kinds, and φ is
   evaluated there. If not, `first_order.first_order_choice` bounds another choice's gain, which is added. Here S is
   taken near N and n − N: Z = X + Y leaves the window T with E[C(Z,2); Z > T] ≤ ½(MΔ)²·(MΔ)^(T−1)/(T−1)!.

Skeletons that still have an overlap and pass the requested level are searched completely: U_N over all (a, a′) of one
skeleton is a product of three small matrices (binomial masses on both sides of A's values near N), O(n²).

Rounding of A (at most ``fuzz``) enters differences twice and second differences four times; it is added to the slopes'
bounds, so that no multiset is left out because of a rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from darrm_opt.design.constraint import ONE, XY, YX, ZERO, PrivacyConstraint, rounding_error
from darrm_opt.design.polar_form import CACHE_ENTRIES, at_ends, extremes, layers
from darrm_opt.design.separation.binomials import bound_by_distance, bound_by_extremes, expected, expected_all
from darrm_opt.design.separation.first_order import Rows, Skeletons, Slopes, first_order_choice
from darrm_opt.design.separation.result import (
    MAX_EVALUATED_MEAN,
    MAX_PASSED_ENTRIES,
    MAX_TABLE_ENTRIES,
    Collector,
    Indices,
    Settle,
    WorstCase,
    search_error,
    terms_of,
)
from darrm_opt.design.separation.separable import offer_worst_of_skeleton, search_by_reach, search_separable
from darrm_opt.noise import Array
from darrm_opt.rounding import UNIT_ROUNDOFF

MAX_SKELETONS_PER_ROW = 2
"""With more than n + 2·rows open skeletons, searching whole rows costs less than single skeletons."""

LAYERS_BETWEEN_ROW_BOUNDS = 8  # layers between two computations of the rows' bounds; in between the last ones hold


@dataclass(frozen=True)
class _Search:
    """One search: constraint, collector, rounding of A, and when open skeletons are searched completely."""

    constraint: PrivacyConstraint
    collector: Collector
    fuzz: float
    settle: Settle

    @property
    def goes_on(self) -> bool:
        """Whether open skeletons are to be searched completely now."""
        return self.settle == "always" or (self.settle == "until a cut" and not self.collector.cut)

    def above_level(self, bounds: Array) -> NDArray[np.bool_]:
        """Return a mask of the bounds above the level; the others are left out and charged at their own bounds."""
        is_above: NDArray[np.bool_] = bounds > self.collector.level
        self.collector.leave_out(float(bounds.max(initial=-np.inf, where=~is_above)))
        return is_above


def search_pruned(
    signed: Array,
    constraint: PrivacyConstraint,
    collector: Collector,
    *,
    settle: Settle,
    width: int | None = None,
    stored: list[tuple[int, int, Array]] | None = None,
) -> WorstCase:
    """Search every multiset, examining only those that may lie above ``collector.above``.

    ``settle``: when open skeletons are searched completely: always for a proof, only until the first cut in a search
    for cuts. With ``width`` only min(nx, ny) ≤ width is searched, and nothing is proved.
    """
    Delta, largest = constraint.corners.Delta, float(np.abs(signed).max())
    search = _Search(constraint, collector, rounding_error(constraint.affected, largest), settle)
    bounds = _RowBounds(search.fuzz)
    corners = constraint.corners
    for s, first, layer in stored or layers(signed, corners.x, corners.y, constraint.affected, width):
        moving = constraint.affected - s
        collector.tick()
        bounds.descend(layer, s)
        gain = Delta * moving * bounds.slope  # sieve 1: largest gain of a whole row by voters off their ends
        nx = first + np.arange(layer.shape[0])
        most, least = extremes(layer, constraint.q)
        for best, mirrored in ((most, False), (-least, True)):
            _offer_best(best, layer, nx, s, search, mirrored=mirrored)
            bound = best + gain
            is_open = bound > collector.level
            collector.leave_out(float(bound[~is_open].max(initial=-np.inf)))
            if is_open.any():
                A, nx_in, ny_in = layer[is_open], nx[is_open], s - nx[is_open]
                if mirrored:  # exchanging the two answers: φ becomes −φ, ones become zeros
                    A, nx_in, ny_in = -A[:, ::-1], ny_in, nx_in
                rows = _OpenRows(Rows(A, nx_in, ny_in), at_ends(A, constraint.q), bounds.bend[is_open])
                _search_rows(search, rows, float(bound.max()), moving)
    error = search_error(constraint, largest)
    return collector.result(error, "complete" if collector.is_complete else "first-order")


class _RowBounds:
    """Bounds on max|D| and max|second difference| of each row of a layer, rounding of A included."""

    def __init__(self, fuzz: float) -> None:
        self.slope, self.bend = np.empty(0), np.empty(0)
        self._fuzz = fuzz

    def descend(self, layer: Array, number: int) -> None:
        """Go to the next layer; both maxima never grow, so most layers inherit those of the layer before."""
        if number % LAYERS_BETWEEN_ROW_BOUNDS == 0:
            D = np.diff(layer, axis=1)
            self.slope = np.abs(D).max(axis=1, initial=0.0) + 2 * self._fuzz
            self.bend = np.abs(np.diff(D, axis=1)).max(axis=1, initial=0.0) + 4 * self._fuzz
            return
        # every row but the last descends by one y from the row of the same nx, the last by one x from its predecessor
        start = self.slope.size - layer.shape[0] + 1
        self.slope = np.concatenate((self.slope[start:], self.slope[-1:]))
        self.bend = np.concatenate((self.bend[start:], self.bend[-1:]))


@dataclass(frozen=True)
class _OpenRows:
    """Rows that passed sieve 1: φ with all voters at their ends, shape (many, n+1), and max|2nd difference|."""

    rows: Rows
    at_ends: Array
    bend: Array


def _offer_best(best: Array, layer: Array, nx: Indices, s: int, search: _Search, *, mirrored: bool) -> None:
    """Offer the worst multiset of the layer with all near-end voters at their ends."""
    row = int(best.argmax())
    if best[row] <= search.collector.value:
        return
    values = at_ends(layer[row : row + 1], search.constraint.q)
    n1 = int(values.argmin() if mirrored else values.argmax())
    counts = np.zeros((1, 8), dtype=np.int64)
    order = [YX, XY, ZERO, ONE] if mirrored else [XY, YX, ONE, ZERO]
    counts[0, order] = nx[row], s - nx[row], n1, values.size - 1 - n1
    search.collector.offer(best[row : row + 1], counts)


def _search_rows(search: _Search, open_rows: _OpenRows, bound: float, moving: int) -> None:
    """Apply sieves 2 to 4, then complete search, to rows that passed sieve 1 (φ ≤ ``bound`` on all of them)."""
    constraint, collector, rows = search.constraint, search.collector, open_rows.rows
    mean = moving * constraint.corners.Delta
    affordable = (rows.n + 1) * (moving + 1) ** 2 <= MAX_TABLE_ENTRIES
    if mean > MAX_EVALUATED_MEAN:
        if affordable:
            search_separable(rows, constraint, collector)
        elif constraint.affected == constraint.K and rows.n * (rows.n + 1) * (rows.n + 2) <= 6 * MAX_PASSED_ENTRIES:
            search_by_reach(rows, constraint, collector, settle=lambda: search.goes_on)
        else:
            collector.leave_out(bound)
        return
    skeletons = _apply_sieves(search, open_rows, moving)
    collector.tick()
    if affordable and skeletons.i.size > rows.n + MAX_SKELETONS_PER_ROW * rows.nx.size:
        indices = np.unique(skeletons.i)  # whole rows at once cost less than this many single skeletons
        search_separable(Rows(rows.values[indices], rows.nx[indices], rows.ny[indices]), constraint, collector)
        return
    for row, n1 in zip(skeletons.i, skeletons.n1, strict=True):
        _search_skeleton(search, rows, int(row), int(n1), moving)


def _apply_sieves(search: _Search, open_rows: _OpenRows, moving: int) -> Skeletons:
    """Apply sieves 2 to 4: return the skeletons that remain open, and charge the bounds of all others."""
    constraint, collector, rows = search.constraint, search.collector, open_rows.rows
    A, q, Delta = rows.values, constraint.q, constraint.corners.Delta
    i, n1 = _sieve_by_steepest_kind(search, open_rows, moving)
    if collector.most:  # a search for cuts promises its level; a proof, the bound of each sieve
        collector.leave_out(collector.level)
    skeletons = Skeletons(rows, i, n1, moving)
    if i.size == 0:
        return skeletons
    # sieve 2: the first-order gain and the share of second differences
    slopes = Slopes.of(skeletons, q)
    bound = open_rows.at_ends[i, n1] + Delta * (slopes.gain(skeletons) + 2 * search.fuzz * moving)
    bound += 0.5 * (moving * Delta) ** 2 * open_rows.bend[i]
    skeletons = _sieve_by_extremes(search, skeletons.only(search.above_level(bound)))
    if skeletons.i.size == 0:
        return skeletons
    # sieve 4: the multiset that is best to first order is evaluated and offered; ``overlap`` bounds the gain of others
    slopes = Slopes.of(skeletons, q)
    e = moving * Delta * (_local_bend(A, open_rows.bend, skeletons, moving * Delta) + 4 * search.fuzz) + 2 * search.fuzz
    choice = first_order_choice(slopes, skeletons, q, e)
    values = q * expected(A, skeletons.i, skeletons.n1, choice.down, choice.up_to_one, Delta, moving)
    values += expected(A, skeletons.i, skeletons.n0, choice.down_from_one, choice.up, Delta, moving)
    collector.offer(values, choice.counts(skeletons))
    bounds = values + Delta * choice.overlap
    # open: another choice might be better, might pass the level, and the search is to go on
    is_uncertain = choice.overlap > 0
    is_open = is_uncertain & (bounds > collector.level) & search.goes_on
    collector.leave_out(float(bounds[is_uncertain & ~is_open].max(initial=-np.inf)))
    return skeletons.only(is_open)


def _sieve_by_extremes(search: _Search, skeletons: Skeletons) -> Skeletons:
    """Apply sieve 3: coarsely to whole rows, then one by one, a cache-full at a time."""
    A, q, Delta = skeletons.rows.values, search.constraint.q, search.constraint.corners.Delta
    indices, row = np.unique(skeletons.i, return_inverse=True)
    bounds = bound_by_distance(A[indices], min(skeletons.moving, skeletons.rows.n), Delta)
    skeletons = skeletons.only(search.above_level(q * bounds[row, skeletons.n1] + bounds[row, skeletons.n0]))
    is_above = np.zeros(skeletons.i.size, dtype=bool)
    batch = max(1, CACHE_ENTRIES // (terms_of(skeletons.moving * Delta) + 1))
    for start in range(0, skeletons.i.size, batch):
        part = slice(start, start + batch)
        i, n0, n1 = skeletons.i[part], skeletons.n0[part], skeletons.n1[part]
        most0, most1 = np.minimum(n0, skeletons.moving), np.minimum(n1, skeletons.moving)
        bound = q * bound_by_extremes(A, i, n1, most0, most1, Delta, skeletons.moving)
        bound += bound_by_extremes(A, i, n0, most1, most0, Delta, skeletons.moving)
        is_above[part] = search.above_level(bound)
        search.collector.tick()
    return skeletons.only(is_above)


def _sieve_by_steepest_kind(search: _Search, open_rows: _OpenRows, moving: int) -> tuple[Indices, Indices]:
    """Return (row, n₁) of the skeletons that pass sieve 2 with every voter on the steepest kind of both ends."""
    # Coarser than sieve 2 itself, but on whole arrays: most rows are open because of a few skeletons only.
    A, q, mean = open_rows.rows.values, search.constraint.q, moving * search.constraint.corners.Delta
    slack = 0.5 * mean**2 * open_rows.bend + 2 * mean * search.fuzz
    level = search.collector.level - slack
    batch = max(1, CACHE_ENTRIES // A.shape[1])
    parts: list[tuple[Indices, Indices]] = []
    for row in range(0, A.shape[0], batch):
        part = slice(row, row + batch)
        steepest = np.zeros_like(A[part])
        forward = np.diff(A[part], axis=1)
        np.maximum(forward, 0.0, out=steepest[:, :-1])
        np.maximum(steepest[:, 1:], -forward, out=steepest[:, 1:])
        bound = np.maximum(q * steepest, steepest[:, ::-1])
        bound *= mean
        bound += open_rows.at_ends[part]
        is_above = bound > level[part, np.newaxis]
        i, n1 = np.nonzero(is_above)
        parts.append((i + row, n1))
        largest = bound.max(axis=1, initial=-np.inf, where=~is_above)
        # a skeleton left out counts with its largest possible bound, which the proof's bound must cover.
        search.collector.leave_out(float((largest + slack[part]).max()))
    return np.concatenate([i for i, _ in parts]), np.concatenate([n1 for _, n1 in parts])


def _search_skeleton(search: _Search, rows: Rows, row: int, n1: int, moving: int) -> None:
    """Search one skeleton completely."""
    search.collector.tick()
    A, Delta = rows.values[row], search.constraint.corners.Delta
    n0 = rows.n - n1
    m0, m1 = min(n0, moving), min(n1, moving)
    part = slice(row, row + 1)
    offer_worst_of_skeleton(
        expected_all(A, n1, m0, m1, Delta, moving)[np.newaxis],
        expected_all(A, n0, m1, m0, Delta, moving)[np.newaxis],
        Rows(rows.values[part], rows.nx[part], rows.ny[part]),
        (n0, n1, moving),
        search.constraint.q,
        search.collector,
    )


def _local_bend(A: Array, bend: Array, skeletons: Skeletons, mean: float) -> Array:
    """Return max|second difference| near n₁ and n₀, plus the possible contribution of the tail beyond the window."""
    n = A.shape[1] - 1
    window = terms_of(mean) + 1
    # mean^(T−1)/(T−1)! factor by factor, as the power and the factorial alone overflow
    tail = math.prod(mean / k for k in range(1, window)) * (1 + window * 4 * UNIT_ROUNDOFF)
    rows, row = np.unique(skeletons.i, return_inverse=True)
    bends = np.zeros((rows.size, n + 2 * window + 4))
    bends[:, window + 2 : window + 1 + n] = np.abs(np.diff(A[rows], 2, axis=1))
    maxima, width, full_width = bends, 1, 2 * window + 4
    while 2 * width <= full_width:  # maxima over windows of twice the width
        maxima, width = np.maximum(maxima[:, :-width], maxima[:, width:]), 2 * width
    maxima = np.maximum(maxima[:, : n + 1], maxima[:, full_width - width :])
    local: Array = np.maximum(maxima[row, skeletons.n1], maxima[row, skeletons.n0])
    return local + tail * bend[skeletons.i]
