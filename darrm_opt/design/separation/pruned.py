"""Pruned worst-case search for Δ > 0: it rules out almost everything, in about O(K³) where complete search is O(K⁵).

Notation as in `separable`: skeleton (nx, ny, n₁), n₀ = n − n₁, the array A of its (nx, ny), D[j] = A[j+1] − A[j],
and at most M = r − nx − ny voters near 0 and 1 off (0,0) and (1,1). As a mean,

    U_N(a, a′) = E[A(N + X − Y)],   X ~ Bin(a, Δ), Y ~ Bin(a′, Δ) independent.

Three sieves, each a proved upper bound of φ; what passes all is evaluated, not bounded.

1. *Row.* One more voter off its end changes U by Δ·E[D(·)], at most Δ·max|D|. So on a whole row
   φ ≤ q·A[n₁] + A[n₀] + M·Δ·max|D|. As every entry of a later row is a convex combination of an earlier one's,
   max|D| never grows along nx or ny and need not be computed on each.

2. *First order.* A(N+X−Y) − A(N) is a walk over X + Y differences. The k-th of them differs from D[N] (upward) or
   D[N−1] (downward) by at most (k−1)·S, S = max|second difference|; summed,
   |A(N+X−Y) − A[N] − X·D[N] + Y·D[N−1]| ≤ S·C(X+Y, 2), whose mean is at most ½(a+a′)²Δ²S. With q ≤ 1 and
   (a+a′) + (b+b′) ≤ M both blossoms together leave ½M²Δ²S; the linear part is `first_order.Slopes.gain`.

3. *Farthest.* Where A is flat near both ends and bends only beyond, both blossoms are bounded by what A reaches there
   at all (`binomials.bound_by_extremes`): with Δ·M above 1 this rules out nearly everything that sieve 2 leaves.

4. *One kind an end.* The true slope of one more voter is within e = M·Δ·S of the first-order one. If at both ends the
   best kind beats the others by more than that, the worst multiset has all its voters on the best kinds, and φ is
   evaluated there. If not, `first_order.first_order_choice` bounds what another choice gains, which is added. Here S is taken near N and
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
from numpy.typing import NDArray

from darrm_opt.design.polytope.constraint import PrivacyConstraint
from darrm_opt.design.polytope.corners import ONE, XY, YX, ZERO
from darrm_opt.design.polytope.polar_form import CACHE_ENTRIES, UNIT_ROUNDOFF, at_ends, extremes, layers, rounding_error
from darrm_opt.design.separation.binomials import (
    MAX_EVALUATED_MEAN,
    bound_by_distance,
    bound_by_extremes,
    expected,
    expected_all,
    search_error,
    terms_of,
)
from darrm_opt.design.separation.first_order import Rows, Skeletons, Slopes, first_order_choice
from darrm_opt.design.separation.result import MAX_TABLE_ENTRIES, Collector, Indices, Settle, WorstCase
from darrm_opt.design.separation.separable import offer_worst_of_skeleton, search_separable
from darrm_opt.noise import Array

MAX_SKELETONS_PER_ROW = 2
"""With more than n + 2·rows skeletons left open, searching whole rows costs less than one skeleton after another."""

LAYERS_BETWEEN_ROW_BOUNDS = 8
"""Layers between two computations of the rows' bounds; between them the last ones hold."""


@dataclass(frozen=True)
class _Search:
    """One search: the constraint, the collector, the rounding of A, and when to search completely what the sieves leave open."""

    constraint: PrivacyConstraint
    collector: Collector
    fuzz: float
    settle: Settle

    @property
    def goes_on(self) -> bool:
        """Whether what the sieves leave open now is to be searched completely."""
        return self.settle == "always" or (self.settle == "until a cut" and not self.collector.cut)

    def passing(self, bounds: Array) -> NDArray[np.bool_]:
        """Return which bounds lie above the level; the rest is left out, and charged at its own bound."""
        passed: NDArray[np.bool_] = bounds > self.collector.level
        self.collector.leave_out(float(bounds.max(initial=-np.inf, where=~passed)))
        return passed


def search_pruned(
    signed: Array,
    constraint: PrivacyConstraint,
    collector: Collector,
    *,
    settle: Settle,
    width: int | None = None,
    stored: list[tuple[int, int, Array]] | None = None,
) -> WorstCase:
    """Search every multiset, looking only at those that may lie above ``collector.above``.

    Args:
        signed: g(0..K).
        constraint: Δ > 0.
        collector: takes what is found.
        settle: when to search completely what the sieves leave open: a proof wants that always, a search for cuts only
            until it has found one.
        width: if given, the search is confined to min(nx, ny) ≤ width, and nothing is proved.
        stored: the layers, where the caller has them.
    """
    Delta, largest = constraint.corners.Delta, float(np.abs(signed).max())
    search = _Search(constraint, collector, rounding_error(constraint.affected, largest), settle)
    bounds = _RowBounds(search.fuzz)
    corners = constraint.corners
    for s, first, layer in stored or layers(signed, corners.x, corners.y, constraint.affected, width):
        moving = constraint.affected - s
        collector.tick()
        bounds.descend(layer, s)
        gain = Delta * moving * bounds.slope  # sieve 1: what leaving the ends can add to a whole row
        nx = first + np.arange(layer.shape[0])
        most, least = extremes(layer, constraint.q)
        for best, mirrored in ((most, False), (-least, True)):
            _offer_best(best, layer, nx, s, search, mirrored=mirrored)
            bound = best + gain
            passed = bound > collector.level
            collector.leave_out(float(bound[~passed].max(initial=-np.inf)))
            if passed.any():
                A, nx_in, ny_in = layer[passed], nx[passed], s - nx[passed]
                if mirrored:  # exchange the two answers: φ becomes −φ, ones become zeros
                    A, nx_in, ny_in = -A[:, ::-1], ny_in, nx_in
                rows = _OpenRows(Rows(A, nx_in, ny_in), at_ends(A, constraint.q), bounds.bend[passed])
                _search_rows(search, rows, float(bound.max()), moving)
    error = search_error(constraint, largest)
    return collector.result(error, "complete" if collector.is_complete else "first-order")


class _RowBounds:
    """Bounds on max|D| and max|second difference| of each row of a layer, rounding of A included."""

    def __init__(self, fuzz: float) -> None:
        self.slope, self.bend = np.empty(0), np.empty(0)
        self._fuzz = fuzz

    def descend(self, layer: Array, number: int) -> None:
        """Go on to the next layer; both maxima never grow, so most layers take over those of the layer before."""
        if number % LAYERS_BETWEEN_ROW_BOUNDS == 0:
            D = np.diff(layer, axis=1)
            self.slope = np.abs(D).max(axis=1, initial=0.0) + 2 * self._fuzz
            self.bend = np.abs(np.diff(D, axis=1)).max(axis=1, initial=0.0) + 4 * self._fuzz
            return
        # all rows but the last descend by one y from the row of the same nx, the last by one x from the one before
        kept = self.slope.size - layer.shape[0] + 1
        self.slope = np.concatenate((self.slope[kept:], self.slope[-1:]))
        self.bend = np.concatenate((self.bend[kept:], self.bend[-1:]))


@dataclass(frozen=True)
class _OpenRows:
    """Rows that passed sieve 1: φ with everybody near an end at it, shape (many, n+1), and the rows' max|2nd difference|."""

    rows: Rows
    at_ends: Array
    bend: Array


def _offer_best(best: Array, layer: Array, nx: Indices, s: int, search: _Search, *, mirrored: bool) -> None:
    """Offer the worst multiset of the layer whose near-end voters all stay at their ends."""
    row = int(best.argmax())
    if best[row] <= search.collector.value:
        return
    values = at_ends(layer[row : row + 1], search.constraint.q)
    n1 = int(values.argmin() if mirrored else values.argmax())
    counts = np.zeros((1, 8), dtype=np.int64)
    order = [YX, XY, ZERO, ONE] if mirrored else [XY, YX, ONE, ZERO]
    counts[0, order] = nx[row], s - nx[row], n1, values.size - 1 - n1
    search.collector.offer(best[row : row + 1], counts)


def _search_rows(search: _Search, suspects: _OpenRows, bound: float, moving: int) -> None:
    """Sieves 2 to 4, then complete search, for the rows that passed sieve 1 (φ ≤ ``bound`` on all of them)."""
    constraint, collector, rows = search.constraint, search.collector, suspects.rows
    mean = moving * constraint.corners.Delta
    affordable = (rows.n + 1) * (moving + 1) ** 2 <= MAX_TABLE_ENTRIES
    if mean > MAX_EVALUATED_MEAN:
        if affordable:
            search_separable(rows, constraint, collector)
        else:
            collector.leave_out(bound)
        return
    left = _apply_sieves(search, suspects, moving)
    collector.tick()
    if affordable and left.i.size > rows.n + MAX_SKELETONS_PER_ROW * rows.nx.size:
        of = np.unique(left.i)  # whole rows at once cost less than so many skeletons one by one
        search_separable(Rows(rows.values[of], rows.nx[of], rows.ny[of]), constraint, collector)
        return
    for row, n1 in zip(left.i, left.n1, strict=True):
        _search_skeleton(search, rows, int(row), int(n1), moving)


def _apply_sieves(search: _Search, suspects: _OpenRows, moving: int) -> Skeletons:
    """Apply sieves 2 to 4: return the skeletons that they leave open, and charge the bounds of all others."""
    constraint, collector, rows = search.constraint, search.collector, suspects.rows
    A, q, Delta = rows.values, constraint.q, constraint.corners.Delta
    i, n1 = _sieve_by_steepest_kind(search, suspects, moving)
    if collector.most:  # a search for cuts promises the level it was asked for; a proof, what each sieve came to
        collector.leave_out(collector.level)
    at = Skeletons(rows, i, n1, moving)
    if i.size == 0:
        return at
    # sieve 2: the first-order gain, and the second differences' share
    slopes = Slopes.of(at, q)
    bound = suspects.at_ends[i, n1] + Delta * (slopes.gain(at) + 2 * search.fuzz * moving)
    bound += 0.5 * (moving * Delta) ** 2 * suspects.bend[i]
    at = _sieve_by_extremes(search, at.only(search.passing(bound)))
    if at.i.size == 0:
        return at
    # sieve 4: the multiset that is best to first order is evaluated and offered; ``overlap`` bounds what another could gain
    slopes = Slopes.of(at, q)
    e = moving * Delta * (_local_bend(A, suspects.bend, at, moving * Delta) + 4 * search.fuzz) + 2 * search.fuzz
    choice = first_order_choice(slopes, at, q, e)
    values = q * expected(A, at.i, at.n1, choice.down, choice.up_to_one, Delta, moving)
    values += expected(A, at.i, at.n0, choice.down_from_one, choice.up, Delta, moving)
    collector.offer(values, choice.counts(at))
    bounds = values + Delta * choice.overlap
    # open: another choice might be better, might pass the level, and the search is to go on
    uncertain = choice.overlap > 0
    left_open = uncertain & (bounds > collector.level) & search.goes_on
    collector.leave_out(float(bounds[uncertain & ~left_open].max(initial=-np.inf)))
    return at.only(left_open)


def _sieve_by_extremes(search: _Search, at: Skeletons) -> Skeletons:
    """Sieve 3: coarsely for whole rows, then one by one, a cache-full at a time."""
    A, q, Delta = at.rows.values, search.constraint.q, search.constraint.corners.Delta
    of, row = np.unique(at.i, return_inverse=True)
    reach = bound_by_distance(A[of], min(at.moving, at.rows.n), Delta)
    at = at.only(search.passing(q * reach[row, at.n1] + reach[row, at.n0]))
    above = np.zeros(at.i.size, dtype=bool)
    many = max(1, CACHE_ENTRIES // (terms_of(at.moving * Delta) + 1))
    for start in range(0, at.i.size, many):
        part = slice(start, start + many)
        i, n0, n1 = at.i[part], at.n0[part], at.n1[part]
        most0, most1 = np.minimum(n0, at.moving), np.minimum(n1, at.moving)
        bound = q * bound_by_extremes(A, i, n1, most0, most1, Delta, at.moving)
        bound += bound_by_extremes(A, i, n0, most1, most0, Delta, at.moving)
        above[part] = search.passing(bound)
        search.collector.tick()
    return at.only(above)


def _sieve_by_steepest_kind(search: _Search, suspects: _OpenRows, moving: int) -> tuple[Indices, Indices]:
    """Return (row, n₁) of the skeletons that pass sieve 2 with every voter on the steepest kind of both ends.

    Coarser than sieve 2 itself, but whole arrays at a time: most rows are on the list for a few skeletons only.
    """
    A, q, mean = suspects.rows.values, search.constraint.q, moving * search.constraint.corners.Delta
    slack = 0.5 * mean**2 * suspects.bend + 2 * mean * search.fuzz
    level = search.collector.level - slack
    many = max(1, CACHE_ENTRIES // A.shape[1])
    found: list[tuple[Indices, Indices]] = []
    for row in range(0, A.shape[0], many):
        part = slice(row, row + many)
        steepest = np.zeros_like(A[part])
        forward = np.diff(A[part], axis=1)
        np.maximum(forward, 0.0, out=steepest[:, :-1])
        np.maximum(steepest[:, 1:], -forward, out=steepest[:, 1:])
        bound = np.maximum(q * steepest, steepest[:, ::-1])
        bound *= mean
        bound += suspects.at_ends[part]
        passed = bound > level[part, np.newaxis]
        i, n1 = np.nonzero(passed)
        found.append((i + row, n1))
        largest = bound.max(axis=1, initial=-np.inf, where=~passed)
        search.collector.leave_out(float((largest + slack[part]).max()))
    return np.concatenate([i for i, _ in found]), np.concatenate([n1 for _, n1 in found])


def _search_skeleton(search: _Search, rows: Rows, row: int, n1: int, moving: int) -> None:
    """Search one skeleton completely."""
    search.collector.tick()
    A, Delta = rows.values[row], search.constraint.corners.Delta
    n0 = rows.n - n1
    m0, m1 = min(n0, moving), min(n1, moving)
    here = slice(row, row + 1)
    offer_worst_of_skeleton(
        expected_all(A, n1, m0, m1, Delta, moving)[np.newaxis],
        expected_all(A, n0, m1, m0, Delta, moving)[np.newaxis],
        Rows(rows.values[here], rows.nx[here], rows.ny[here]),
        (n0, n1, moving),
        search.constraint.q,
        search.collector,
    )


def _local_bend(A: Array, bend: Array, at: Skeletons, mean: float) -> Array:
    """Return max|second difference| near n₁ and near n₀, plus what the tail beyond the window may add."""
    n = A.shape[1] - 1
    window = terms_of(mean) + 1
    # mean^(T−1)/(T−1)! factor by factor: the power and the factorial alone overflow
    tail = math.prod(mean / k for k in range(1, window)) * (1 + window * 4 * UNIT_ROUNDOFF)
    rows, row = np.unique(at.i, return_inverse=True)
    padded = np.zeros((rows.size, n + 2 * window + 4))
    padded[:, window + 2 : window + 1 + n] = np.abs(np.diff(A[rows], 2, axis=1))
    near, width, wanted = padded, 1, 2 * window + 4
    while 2 * width <= wanted:  # maxima over windows of twice the width
        near, width = np.maximum(near[:, :-width], near[:, width:]), 2 * width
    near = np.maximum(near[:, : n + 1], near[:, wanted - width :])
    local: Array = np.maximum(near[row, at.n1], near[row, at.n0])
    return local + tail * bend[at.i]
