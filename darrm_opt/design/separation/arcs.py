"""Search over arcs: the worst multiset for voters with a privacy profile, by branch and bound.

φ is affine in each voter's (p, p′), so its maximum lies at vertices of the region F; V vertices have C(K+V−1, V−1)
multisets. A *node* gives n_i voters to each of some disjoint sets of neighbouring vertices, its arcs. For a voter of
arc i let

    a_i = E[D(L)], b_i = E′[D(L)],   D(l) = g(l+1) − g(l), L the votes of the other K − 1 voters,

where E′ takes every voter at p′. De Casteljau steps with p known to lie in an interval enclose a_i and b_i over the
whole node: each step keeps the larger (or smaller) of its values at both ends.

*Reduction.* φ changes by q·a·Δp − b·Δp′ when one voter moves. If that is positive for a move from a vertex to a
neighbour on the boundary or to its mirror image, for all a, b and b − a within the node, the vertex carries no voter of
a worst multiset and leaves the arc; a node with an empty arc holds no worst multiset. (b − a has its own bound: p and
p′ are close, so a and b nearly move together.)

*Bound.* Move all voters from the middle of their arcs, a point of F each, to any multiset of the node at once. φ
changes by the sum of q·a·Δp − b·Δp′ over the voters, with the mean of each slope on the way. A mean slope lies between
the bounds of the node, and within half of (Σ|Δp|)·max|second difference| of the slope at the middle, where second
differences are means over the votes of all but two voters. A node whose bound falls to the level is left out at its
bound; in any other node one wide arc with a large term is halved: at least half of its voters sit in one half, or more
than half of them in the other (the NumPy form splits them in every way, and takes a vertex for the middle).

*Sweep.* With at most two inner vertices above the diagonal (two points of a curve) the kernel bounds all multisets at
once, for each number of voters at each vertex or its mirror image, by a Taylor series about the middles of these pairs:
if no slope changes its sign the worst multiset is a corner of the class, and φ is known. The remaining classes are
searched as nodes. A climb starts with the corners of all classes. Proof: docs/proofs.md, "Search over arcs".

With g non-decreasing, a and b are never negative: the upper chain suffices (`monotone`). With r < K voters affected,
the other K − r sit at (0,0) and (1,1) in every way, and the r on any vertices.

Source: ours.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
from itertools import combinations, pairwise
from typing import NamedTuple, cast

import numpy as np

from darrm_opt.design.constraint import STEP_ERROR, Counts, PrivacyConstraint, cached_rows
from darrm_opt.design.kernel.library import LARGEST, ArcSearch, in_threads, kernel
from darrm_opt.design.polar_form import step
from darrm_opt.design.profile_vertices import ProfileVertices
from darrm_opt.design.separation.result import Collector, Settle, WorstCase
from darrm_opt.noise import Array, Integers, NoiseFunction
from darrm_opt.rounding import UNIT_ROUNDOFF

MAX_NODES = 20_000_000  # nodes after which the kernel's search stops: open nodes are left out at their bounds
MAX_NODES_NUMPY = 200_000  # the same for NumPy
MAX_PAIRED_VERTICES = 24  # with more vertices than this, a climb starts from those of the upper chain only

MIN_CLIMBED, MAX_CLIMBED, MAX_CLIMBING_WORK = 6, 96, 400_000
"""Multisets from which a search for cuts climbs: as many as their steps, of K² operations each, allow."""

THOROUGHNESS = 20  # factor of that number before a proof: each cut that climbs miss costs a proof of its own

ENOUGH_CUTS = 4
"""Number of cuts at which a search for cuts ends: if the climb missed them, the next one starts close to them."""

SHARES, FINE_SHARES = 12, 60
"""Numbers of shares into which voters are divided between two vertices, in multisets that are likely to bind."""


def search_profile(
    noise: NoiseFunction,
    constraint: PrivacyConstraint,
    collector: Collector,
    *,
    settle: Settle = "always",
    known: Counts | None = None,
) -> WorstCase:
    """Offer the worst multiset and cuts, with a bound on all others.

    ``known``: bad multisets of a similar γ, as further starts of a climb. ``settle``: "always" proves; "until a cut"
    proves only if a climb finds no cut; otherwise it only climbs.
    """
    largest = float(noise.values.max())
    error = constraint.error(largest) + 2 * STEP_ERROR * largest
    climb(noise.signed, constraint, collector, known)
    if settle == "until a cut" and not collector.cut:
        climb(noise.signed, constraint, collector, known, thorough=True)
    if settle in ("never", "one kind") or (settle == "until a cut" and collector.cut):
        collector.leave_out((1.0 + constraint.q) * largest)
        return collector.result(error, "estimate" if settle != "until a cut" else "first-order")
    enough = ENOUGH_CUTS if settle == "until a cut" else 0
    search_arcs(noise.signed, constraint, collector, _columns_of(noise, constraint), enough=enough)
    method = "monotone" if noise.is_monotone else "complete"
    return collector.result(error, method if collector.is_complete else "first-order")


def vertices_of(constraint: PrivacyConstraint) -> ProfileVertices:
    """Return the vertices of the constraint of a profile."""
    return cast("ProfileVertices", constraint.corners)


def _columns_of(noise: NoiseFunction, constraint: PrivacyConstraint) -> Integers:
    """Return the columns at which the voters of a worst multiset sit: for a monotone γ, the upper chain suffices."""
    vertices = vertices_of(constraint)
    if not noise.is_monotone:
        return vertices.boundary
    # voters that may not move sit at (0, 0) and (1, 1)
    return vertices.chain if constraint.affected < constraint.K else vertices.upper


def likely_multisets(constraint: PrivacyConstraint) -> Counts:
    """Return likely multisets: at one vertex, at two neighbours of the upper chain, or split between its ends."""
    upper = vertices_of(constraint).upper
    pairs = (*pairwise(upper), (upper[0], upper[-1]))
    counts, _ = _family(constraint.K, constraint.affected, vertices_of(constraint), pairs)
    counts = counts[np.sort(np.unique(counts, axis=0, return_index=True)[1])]
    counts.setflags(write=False)
    return counts


def _starts(constraint: PrivacyConstraint, *, monotone: bool, shares: int) -> tuple[Counts, Integers]:
    """Return multisets at any two vertices, from which a search for cuts climbs, and the index of their pair."""
    vertices = vertices_of(constraint)
    chain = vertices.chain if monotone or len(vertices.p) > MAX_PAIRED_VERTICES else vertices.boundary
    return _family(constraint.K, constraint.affected, vertices, tuple(combinations(chain, 2)), shares)


@lru_cache(maxsize=32)
def _family(
    K: int, r: int, vertices: ProfileVertices, pairs: tuple[tuple[int, int], ...], shares: int = SHARES
) -> tuple[Counts, Integers]:
    """Return r voters at two vertices each, in some shares, the others at both ends; and the index of each pair."""
    part = np.unique([*np.round(np.linspace(0, r, shares + 1)), min(1, r), r - 1, r // 2, (r + 1) // 2]).astype(int)
    ones = np.unique([0, (K - r) // 2, K - r])
    i, k, j = (index.ravel() for index in np.indices((len(pairs), len(ones), len(part))))
    counts = np.zeros((i.size, len(vertices.p)), dtype=np.int64)
    row, ends = np.arange(i.size), np.array(pairs)
    counts[row, 1], counts[row, 0] = ones[k], K - r - ones[k]
    counts[row, ends[i, 0]] += part[j]
    counts[row, ends[i, 1]] += r - part[j]
    counts.setflags(write=False)
    return counts, i * len(ones) + k


def _peaks(values: Array, lines: Integers) -> Integers:
    """Return the local maxima of values within their line, the largest first."""
    same = np.diff(lines) == 0
    rises, falls = np.append(True, ~same | (np.diff(values) >= 0)), np.append(~same | (np.diff(values) <= 0), True)
    peaks = np.flatnonzero(rises & falls)
    return peaks[np.argsort(-values[peaks], kind="stable")]


def climb(
    signed: Array,
    constraint: PrivacyConstraint,
    collector: Collector,
    known: Counts | None = None,
    *,
    thorough: bool = False,
) -> None:
    """Offer the multisets reached from likely and known ones by exchanging one voter after another; no proof."""
    collector.tick()
    monotone, times = bool((np.diff(signed) >= 0).all()), THOROUGHNESS if thorough else 1
    starts, pairs = _starts(constraint, monotone=monotone, shares=FINE_SHARES if thorough else SHARES)
    most = int(np.clip(times * MAX_CLIMBING_WORK / constraint.K**2, MIN_CLIMBED, times * MAX_CLIMBED))
    values = cached_rows(constraint, starts) @ signed[constraint.K // 2 + 1 :]
    peaks = _peaks(values, pairs)
    if not thorough:  # one of each pair: many starts of a pair would climb to one multiset
        peaks = peaks[np.sort(np.unique(pairs[peaks], return_index=True)[1])]
    best = starts[peaks[:most]]
    if known is not None and len(known):
        heights = cached_rows(constraint, known) @ signed[constraint.K // 2 + 1 :]
        best = np.concatenate([best, known[np.argsort(-heights, kind="stable")[:most]]])
    best = np.ascontiguousarray(best)
    vertices, library = vertices_of(constraint), kernel()
    moving = np.ascontiguousarray(vertices.p + vertices.reflected != 1.0, dtype=np.int64)
    if library is None:
        found = np.array([_climbed(signed, constraint, multiset, moving, collector) for multiset in best])
    else:
        question = _Question.of(constraint, np.arange(len(vertices.p)))
        search = _KernelSearch(question, signed, constraint, collector)
        found = best[:, question.columns].copy()
        collector.check(library.sweep_corners(ctypes.byref(search), constraint.affected))
        search.offer_to(collector, len(vertices.p))
        collector.check(
            library.climb_multisets(
                ctypes.byref(search),
                len(found),
                found.ctypes.data,
                moving[question.columns].ctypes.data,
                constraint.affected,
            )
        )
        found = question.to_columns(found, len(vertices.p))
    collector.offer(values, starts)
    found = np.unique(found, axis=0)
    collector.offer(constraint.values(signed, found), found)


def _climbed(
    signed: Array, constraint: PrivacyConstraint, multiset: Integers, moving: Integers, collector: Collector
) -> Integers:
    """Return the multiset after the exchanges that raise φ most, one voter at a time."""
    vertices, current = vertices_of(constraint), multiset.copy()
    threshold = 4 * _slope_error(signed, constraint)
    for _ in range(4 * constraint.K + 16):
        collector.tick()
        may_move = int(moving @ current) < constraint.affected
        best: tuple[float, int, int] = (threshold, -1, -1)
        for v in np.flatnonzero(current):
            others = current.copy()
            others[v] -= 1
            a, b = (_mean(np.diff(signed), side, others) for side in (vertices.p, vertices.reflected))
            gain = constraint.q * a * (vertices.p - vertices.p[v]) + b * (vertices.reflected - vertices.reflected[v])
            if not may_move and not moving[v]:
                gain[moving == 1] = -np.inf
            w = int(gain.argmax())
            best = max(best, (float(gain[w]), int(v), w))
        if best[1] < 0:
            break
        current[best[1]] -= 1
        current[best[2]] += 1
    return current


def _mean(coefficients: Array, chances: Array, counts: Integers) -> float:
    """Return the blossom of coefficients at all but one as many voters."""
    for t, count in zip(chances, counts, strict=True):
        for _ in range(count):
            coefficients = step(coefficients, float(t), 1.0 - float(t))
    return float(coefficients[0])


def _slope_error(signed: Array, constraint: PrivacyConstraint) -> float:
    """Return a bound on the rounding of the bounds on a, b and b − a."""
    # D is at most 2·max γ, its differences and b − a are at most 4·max γ. Each step of b − a adds p′ − p times a
    # second difference of b, with the rounding of up to K steps.
    vertices, steps = vertices_of(constraint), constraint.K + 2
    shift = float(np.abs(vertices.p + vertices.reflected - 1.0).max()) + UNIT_ROUNDOFF
    return 4 * steps * (1 + shift * steps) * STEP_ERROR * float(np.abs(signed).max())


class _Question(NamedTuple):
    """Vertices in the order of p + p′, with their neighbours on the boundary."""

    columns: Integers  # their columns in `Counts`
    p: Array
    reflected: Array
    previous: Integers  # rank of the preceding vertex; −1: none
    following: Integers
    mirror: Integers  # rank of (p′, p)
    zero: int  # rank of (0, 0); −1: absent
    one: int

    @classmethod
    def of(cls, constraint: PrivacyConstraint, boundary: Integers) -> _Question:
        """Return the question of columns given in the order of the boundary; if they are all, it is a cycle."""
        vertices, count = vertices_of(constraint), len(boundary)
        cyclic = count == len(vertices.p)
        order = np.argsort(vertices.p[boundary] - vertices.reflected[boundary], kind="stable")
        rank = np.empty(count + 1, dtype=np.int64)
        rank[order], rank[count] = np.arange(count), -1
        before = np.arange(-1, count - 1) if not cyclic else (np.arange(count) - 1) % count
        after = np.arange(1, count + 1) if not cyclic else (np.arange(count) + 1) % count
        previous, following = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        previous[rank[:count]], following[rank[:count]] = rank[before], rank[after]
        places = {int(column): int(rank[i]) for i, column in enumerate(boundary)}
        columns = boundary[order]
        mirror = np.array([places.get(vertices.mirror(int(column)), -1) for column in columns])
        ends = places.get(0, -1), places.get(1, -1)
        return cls(columns, vertices.p[columns], vertices.reflected[columns], previous, following, mirror, *ends)

    def to_columns(self, counts: Integers, width: int) -> Counts:
        """Return multisets of these vertices as multisets of all vertices."""
        full = np.zeros((len(counts), width), dtype=np.int64)
        full[:, self.columns] = counts
        return full


class _KernelSearch(ArcSearch):
    """A search by the kernel, with the arrays that its pointers refer to."""

    def __init__(self, question: _Question, signed: Array, constraint: PrivacyConstraint, collector: Collector) -> None:
        super().__init__()
        size, most, signed = len(question.columns), collector.most, np.ascontiguousarray(signed)
        self.arrays = (question, signed, np.zeros(size, dtype=np.int64))
        self.found_values, self.found_cuts = np.zeros(max(most, 1)), np.zeros((max(most, 1), size), dtype=np.int64)
        self.K, self.vertices = constraint.K, size
        self.p, self.reflected = question.p.ctypes.data, question.reflected.ctypes.data
        self.previous, self.following = question.previous.ctypes.data, question.following.ctypes.data
        self.mirror, self.zero, self.one = question.mirror.ctypes.data, question.zero, question.one
        self.signed_values, self.q = signed.ctypes.data, constraint.q
        self.fuzz, self.above = _slope_error(signed, constraint), float(np.clip(collector.above, -LARGEST, LARGEST))
        self.seconds = min(collector.remaining, LARGEST)
        self.most_nodes, self.most = MAX_NODES, most
        self.value, self.left_out = max(collector.value, -LARGEST), -LARGEST
        self.counts = self.arrays[2].ctypes.data
        self.cut_values, self.cuts = self.found_values.ctypes.data, self.found_cuts.ctypes.data

    def offer_to(self, collector: Collector, width: int) -> None:
        """Offer the worst multiset and the cuts found, as multisets of all ``width`` vertices."""
        question, _, worst = self.arrays
        collector.offer(self.found_values[: self.kept], question.to_columns(self.found_cuts[: self.kept], width))
        if self.value > collector.value:
            collector.offer(np.array([self.value]), question.to_columns(worst[np.newaxis], width))


def search_arcs(
    signed: Array, constraint: PrivacyConstraint, collector: Collector, boundary: Integers, *, enough: int = 0
) -> None:
    """Offer the worst multiset of these columns and bound all others; or stop after ``enough`` cuts."""
    question, library = _Question.of(constraint, boundary), kernel()
    if library is None:
        _Reference(signed, constraint, collector, question).search()
        return
    search = _KernelSearch(question, signed, constraint, collector)
    search.enough = enough

    def call(stop: int) -> int:
        search.stop = stop
        return int(library.search_arcs(ctypes.byref(search), constraint.affected))

    collector.check(in_threads([call], 1)[0])
    collector.leave_out(search.left_out)
    search.offer_to(collector, len(vertices_of(constraint).p))


MAX_JOINT = 16  # number of slopes in one joint search by the kernel


def search_jointly(noise: NoiseFunction, constraint: PrivacyConstraint, q: Array, above: Array) -> tuple[Array, Counts]:
    """Return bounds on φ at several slopes q, not below the levels ``above``, and the worst multisets found.

    Shapes (slopes,) and (slopes, vertices); a row of zeros if no multiset is above its level. Close slopes share most
    of the work. Needs the kernel.
    """
    vertices, library = vertices_of(constraint), kernel()
    assert library is not None  # noqa: S101 - for the type checker: `jointly` has checked
    question = _Question.of(constraint, _columns_of(noise, constraint))
    bounds, counts = np.empty(q.size), np.zeros((q.size, len(vertices.p)), dtype=np.int64)
    largest = float(noise.values.max())
    for part in np.array_split(np.argsort(q), -(-q.size // MAX_JOINT)):
        slopes, levels = np.ascontiguousarray(q[part]), np.ascontiguousarray(above[part])
        values, left_out = np.full(part.size, -LARGEST), np.full(part.size, -LARGEST)
        found = np.zeros((part.size, len(question.columns)), dtype=np.int64)
        collector = Collector()
        search = _KernelSearch(question, noise.signed, constraint, collector)

        def call(stop: int, arrays: tuple[Array | Integers, ...], search: _KernelSearch) -> int:
            search.stop = stop
            addresses = (array.ctypes.data for array in arrays)
            return int(
                library.search_arcs_jointly(ctypes.byref(search), constraint.affected, len(arrays[0]), *addresses)
            )

        arrays = (slopes, levels, values, left_out, found)
        collector.check(in_threads([partial(call, arrays=arrays, search=search)], 1)[0])
        error = np.array([constraint._replace(q=float(each)).error(largest) for each in slopes])
        bounds[part] = np.maximum(np.maximum(values, left_out), levels) + error + 2 * STEP_ERROR * largest
        is_above = values > levels
        counts[part[is_above]] = question.to_columns(found[is_above], len(vertices.p))
    return bounds, counts


class _Arc(NamedTuple):
    """Voters anywhere on some vertices."""

    alive: tuple[int, ...]
    voters: int
    fixed: bool = False


class _Reference:
    """The search by NumPy, node by node as in the kernel."""

    def __init__(self, signed: Array, constraint: PrivacyConstraint, collector: Collector, question: _Question) -> None:
        self._signed, self._constraint, self._collector, self._question = signed, constraint, collector, question
        self._differences, self._fuzz = np.diff(signed), _slope_error(signed, constraint)
        self._nodes, self._width = 0, len(vertices_of(constraint).p)

    def search(self) -> None:
        """Search all positions of the voters that may not move, at (0, 0) and (1, 1)."""
        question, movable = self._question, self._constraint.affected
        others = self._constraint.K - movable
        for ones in range(others + 1):
            arcs = [
                _Arc(tuple(range(len(question.columns))), movable),
                _Arc((question.one,), ones, fixed=True),
                _Arc((question.zero,), others - ones, fixed=True),
            ]
            self._search([arc for arc in arcs if arc.voters], np.inf)

    def _search(self, arcs: list[_Arc], bound: float) -> None:
        collector, question, q = self._collector, self._question, self._constraint.q
        self._nodes += 1
        collector.tick()
        if bound <= collector.level or self._nodes > MAX_NODES_NUMPY:
            collector.leave_out(bound)
            return
        reduced = self._reduced(arcs)
        if reduced is None:
            return
        arcs, slopes = reduced
        p, reflected = question.p, question.reflected
        reference = [
            arc.alive[int(np.argmax(a.sum() * p[list(arc.alive)] + b.sum() * reflected[list(arc.alive)]))]
            for arc, (a, b) in zip(arcs, slopes, strict=True)
        ]
        counts = np.zeros(len(p), dtype=np.int64)
        for arc, at in zip(arcs, reference, strict=True):
            counts[at] += arc.voters
        value = q * _mean(self._signed, p, counts) + _mean(self._signed, reflected, counts)
        collector.offer(np.array([value]), question.to_columns(counts[np.newaxis], self._width))
        if all(len(arc.alive) == 1 for arc in arcs):
            return
        gains = [self._gains(at, arc.alive, *slope) for arc, at, slope in zip(arcs, reference, slopes, strict=True)]
        terms = [arc.voters * max(gain) for arc, gain in zip(arcs, gains, strict=True)]
        distance = sum(
            arc.voters * max(abs(p[v] - p[at]) + abs(reflected[v] - reflected[at]) for v in arc.alive)
            for arc, at in zip(arcs, reference, strict=True)
        )
        total = sum(terms) + 2 * self._fuzz * distance
        bound = min(bound, value + total * (1 + 2.0**-46))
        if bound <= collector.level:
            collector.leave_out(bound)
            return
        widest = max((i for i, arc in enumerate(arcs) if len(arc.alive) > 1), key=lambda i: terms[i])
        arc, rest = arcs[widest], arcs[:widest] + arcs[widest + 1 :]
        halves = _halves(arc.alive, p - reflected)
        gain = dict(zip(arc.alive, gains[widest], strict=True))
        near, far = sorted(halves, key=lambda half: reference[widest] not in half)
        for moved in range(arc.voters + 1):
            change = (arc.voters - moved) * max(gain[v] for v in near) + moved * max(gain[v] for v in far)
            terms_bound = total - terms[widest] + change
            parts = [_Arc(near, arc.voters - moved), _Arc(far, moved)]
            child_bound = value + terms_bound + (abs(terms_bound) + total) * 2.0**-46
            self._search([*rest, *(part for part in parts if part.voters)], min(bound, child_bound))

    def _gains(self, start: int, ends: tuple[int, ...], a: Array, b: Array) -> list[float]:
        """Return the largest possible gain of φ by a voter's move from a vertex to each of several others."""
        p, reflected = self._question.p, self._question.reflected
        moves = ((p[v] - p[start], reflected[v] - reflected[start]) for v in ends)
        return [float(a[int(dp > 0)] * dp + b[int(dr > 0)] * dr) for dp, dr in moves]

    def _reduced(self, arcs: list[_Arc]) -> tuple[list[_Arc], list[tuple[Array, Array]]] | None:
        """Return the arcs without vertices that hold no voter of a worst multiset, and their slopes."""
        while True:
            a = [self._constraint.q * slope for slope in self._slopes(arcs, self._question.p)]
            slopes = [
                *zip(a, self._slopes(arcs, self._question.reflected), strict=True)
            ]  # E over 1 − p′ is E′, as D is symmetric
            kept = [
                arc._replace(alive=tuple(v for v in arc.alive if not self._loses(v, arc, *slope)))
                for arc, slope in zip(arcs, slopes, strict=True)
            ]
            if not all(arc.alive for arc in kept):
                return None
            if kept == arcs:
                return arcs, slopes
            arcs = kept

    def _loses(self, v: int, arc: _Arc, a: Array, b: Array) -> bool:
        """Whether every voter at v gains by a move, whatever the others do within the node."""
        question = self._question
        p, reflected = question.p, question.reflected
        end = question.one if v == question.zero else question.zero
        neighbours = (question.previous[v], question.following[v], question.mirror[v])
        for w in (end,) if arc.fixed else map(int, neighbours):
            if w >= 0 and w != v:
                dp, dr = p[w] - p[v], reflected[w] - reflected[v]
                gain = a[int(dp <= 0)] * dp + b[int(dr <= 0)] * dr
                if gain > 2 * self._fuzz * (abs(dp) + abs(dr)) + 1e-290:
                    return True
        return False

    def _slopes(self, arcs: list[_Arc], chances: Array) -> list[Array]:
        """Return, for each arc, bounds on E[D(L)] over the votes of all voters but one of it, shape (2,)."""
        ranges = [(float(chances[list(arc.alive)].min()), float(chances[list(arc.alive)].max())) for arc in arcs]
        order = sorted(range(len(arcs)), key=lambda i: ranges[i][1] - ranges[i][0])
        both = np.stack([self._differences, self._differences])
        for i in order:
            for _ in range(arcs[i].voters - 1):
                both = _range_step(both, *ranges[i])
        slopes = []
        for i in range(len(arcs)):
            part = both
            for k in order:
                if k != i:
                    part = _range_step(part, *ranges[k])
            slopes.append(part[:, 0])
        return slopes


def _range_step(both: Array, low: float, high: float) -> Array:
    """Return bounds below and above after one voter whose probability lies in a range."""
    one, other = step(both, low, 1.0 - low), step(both, high, 1.0 - high)
    return np.stack([np.minimum(one[0], other[0]), np.maximum(one[1], other[1])])


def _halves(alive: tuple[int, ...], place: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the vertices before and after the middle of an arc, at least one each."""
    middle = (place[alive[0]] + place[alive[-1]]) / 2
    first = max(1, min(len(alive) - 1, sum(bool(place[v] <= middle) for v in alive)))
    return alive[:first], alive[first:]
