"""The worst corner multiset for a given γ, and with it a certified bound on φ.

Voters are nx at (x,y), ny at (y,x) and n = K − nx − ny others, n₁ of them *near 1* — (1,1), (1−Δ,1),
(1,1−Δ) — and n₀ *near 0* — (0,0), (0,Δ), (Δ,0). A *skeleton* is (nx, ny, n₁).

Δ = 0. One layer of the blossom holds H for all skeletons with nx + ny = s, so φ over the whole layer is
q·A[nx, n₁] + A[nx, n − n₁]: complete in O(K³) time and O(K²) memory, any ``affected``.

Δ > 0, separable. p depends on a = #(Δ,0) and a′ = #(1−Δ,1) only, 1 − p′ on b = #(0,Δ) and
b′ = #(1,1−Δ) only, and the one coupling is a + b ≤ n₀, a′ + b′ ≤ n₁. With

    U_N(a, a′) = H at {x^nx, y^ny, Δ^a, (1−Δ)^a′, 1^(N−a′), 0^rest}
    M_N(A, A′) = max of U_N over a ≤ A, a′ ≤ A′                             (a running maximum)

the exact worst case over the skeleton is the maximum over A ≤ n₀, A′ ≤ n₁ of
q·M_{n₁}(A, A′) + M_{n₀}(n₁ − A′, n₀ − A): O(K⁵) for what enumeration does in O(K⁷). With
``affected`` = r < K also nx + ny + a + a′ + b + b′ ≤ r: M carries its own sum as a third index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from darrm_opt.design.blossom import layers, step
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import (
    DOWN,
    DOWN_FROM_ONE,
    ONE,
    UP,
    UP_TO_ONE,
    XY,
    YX,
    ZERO,
    ConstraintGenerator,
    Corners,
    Counts,
)
from darrm_opt.noise import Array, NoiseFunction

TABLE_ENTRIES = 4_000_000
"""Most doubles in one table of the separable search (32 MB): a layer with more is searched in parts."""


@dataclass(frozen=True)
class WorstCase:
    """What a search found.

    Attributes:
        bound: proven upper bound on φ over the whole constraint set, rounding included.
        value: largest φ found, as computed.
        counts: the multiset where it was found, shape (corners,).
        cuts: the worst multisets above the wanted level, one a skeleton at most, worst first.
        method: "complete" (every multiset), "first-order" (bounds where they suffice) or "monotone".
    """

    bound: float
    value: float
    counts: Counts
    cuts: Counts
    method: str


class _Collector:
    """Keeps the worst multiset and the best cuts while a search streams past."""

    def __init__(self, above: float, most: int) -> None:
        self.above, self.most = above, most
        self.value = -np.inf
        self.counts: Counts | None = None
        self._values: list[Array] = []
        self._counts: list[Counts] = []

    @property
    def floor(self) -> float:
        """Values at or below this need not be reported."""
        return min(self.above, self.value)

    def offer(self, values: Array, counts: Counts) -> None:
        if values.size == 0:
            return
        worst = int(np.argmax(values))
        if values[worst] > self.value:
            self.value, self.counts = float(values[worst]), counts[worst]
        keep = np.flatnonzero(values > self.above)
        if keep.size and self.most:
            keep = keep[np.argsort(-values[keep], kind="stable")[: self.most]]
            self._values.append(values[keep])
            self._counts.append(counts[keep])

    def result(self, error: float, method: str) -> WorstCase:
        if self.counts is None:
            raise AssertionError("a search saw no multiset at all")
        cuts = np.empty((0, self.counts.size), dtype=np.int64)
        if self._values:
            values = np.concatenate(self._values)
            cuts = np.concatenate(self._counts)[np.argsort(-values, kind="stable")[: self.most]]
        return WorstCase(self.value + error, self.value, self.counts, cuts, method)


def worst_case(
    noise: NoiseFunction, constraint: PrivacyConstraint, *, above: float = np.inf, most: int = 0
) -> WorstCase:
    """Search every multiset, by the fastest complete method.

    Args:
        noise: γ, for the constraint's K.
        constraint: the privacy constraint.
        above: report multisets with φ above this as cuts.
        most: how many cuts at most.

    Guarantees:
        ``bound`` ≥ φ at every admissible (p, p′), for γ exactly as stored.

    Source: Lemma 3.4 of the paper; the separable search is ours.
    """
    collector = _Collector(above, most)
    signed = noise.signed
    for s, layer in layers(signed, constraint.corners.x, constraint.corners.y, constraint.affected):
        if constraint.corners.Delta == 0:
            _search_layer(layer, s, constraint, collector)
        else:
            _search_separable(layer, s, constraint, collector)
    return collector.result(constraint.error(float(noise.values.max())), "complete")


def enumerated_worst_case(noise: NoiseFunction, constraint: PrivacyConstraint, generator: ConstraintGenerator) -> WorstCase:
    """Search by evaluating φ at every vector of the constraint generator: the oracle for `worst_case`."""
    collector = _Collector(np.inf, 0)
    for counts in generator.blocks():
        collector.offer(constraint.values(noise.signed, counts), counts)
    # a dot product of K/2 entries adds K/2 roundings to those of the rows: covered by doubling
    return collector.result(2 * constraint.error(float(noise.values.max())), "complete")


def _search_layer(layer: Array, s: int, constraint: PrivacyConstraint, collector: _Collector) -> None:
    """Δ = 0: all multisets with nx + ny = s at once."""
    values = constraint.q * layer + layer[:, ::-1]
    n1 = values.argmax(axis=1)
    nx = np.arange(s + 1)
    counts = np.zeros((s + 1, 4), dtype=np.int64)
    counts[:, XY], counts[:, YX] = nx, s - nx
    counts[:, ONE], counts[:, ZERO] = n1, constraint.K - s - n1
    collector.offer(values[nx, n1], counts)


def _search_separable(layer: Array, s: int, constraint: PrivacyConstraint, collector: _Collector) -> None:
    """Δ > 0: all multisets with nx + ny = s, in parts of bounded memory."""
    n, moving = constraint.K - s, constraint.affected - s
    side = min(n, moving) + 1
    part = max(1, TABLE_ENTRIES // ((n + 1) * side * side))
    for start in range(0, s + 1, part):
        table = _ends_near(layer[start : start + part], constraint.corners, min(n, moving))
        for n1 in range(n + 1):
            _couple(table, n1, start, s, constraint, collector)


def _ends_near(layer: Array, corners: Corners, most: int) -> Array:
    """U[i, N, a, a′] for every row i of a layer; −inf where a > n − N, a′ > N or a + a′ > most."""
    rows, n = layer.shape[0], layer.shape[1] - 1
    table = np.full((rows, n + 1, most + 1, most + 1), -np.inf)
    after_a = layer
    for a in range(most + 1):
        after = after_a
        for a1 in range(most - a + 1):
            table[:, a1 : n - a + 1, a, a1] = after
            if after.shape[1] > 1:
                after = step(after, 1.0 - corners.Delta, corners.Delta)
        if after_a.shape[1] > 1:
            after_a = step(after_a, corners.Delta, 1.0 - corners.Delta)
    return table


def _couple(table: Array, n1: int, start: int, s: int, constraint: PrivacyConstraint, collector: _Collector) -> None:
    """Join the two blossoms of the skeletons (start + i, s − start − i, n₁) under their coupling."""
    n = table.shape[1] - 1
    n0, moving = n - n1, constraint.affected - s
    mine, theirs = table[:, n1], table[:, n0]
    best = np.full(table.shape[0], -np.inf)
    split = np.zeros((table.shape[0], 4), dtype=np.int64)
    for own_total, other_total, p_part, p_prime_part in _splits(mine, theirs, n0, n1, moving):
        joint = constraint.q * p_part + p_prime_part
        flat = joint.reshape(joint.shape[0], -1)
        where = flat.argmax(axis=1)
        values = flat[np.arange(where.size), where]
        better = values > best
        best[better] = values[better]
        A, A1 = np.divmod(where, joint.shape[2])
        split[better] = np.stack(np.broadcast_arrays(A, A1, own_total, other_total), axis=1)[better]
    if best.max() <= collector.floor:
        return
    interesting = np.flatnonzero(best > collector.floor)
    counts = np.zeros((interesting.size, 8), dtype=np.int64)
    for row, i in enumerate(interesting):
        A, A1, own_total, other_total = split[i]
        a, a1 = _argmax_within(mine[i], A, A1, own_total)
        b1, b = _argmax_within(theirs[i], n1 - A1, n0 - A, other_total)
        nx = start + i
        counts[row, [XY, YX, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE]] = nx, s - nx, b, a, a1, b1
        counts[row, ZERO], counts[row, ONE] = n0 - a - b, n1 - a1 - b1
    collector.offer(best[interesting], counts)


def _splits(mine: Array, theirs: Array, n0: int, n1: int, moving: int) -> Iterator[tuple[int, int, Array, Array]]:
    """Yield (σ, σ′, M_{n₁}, M_{n₀}) as arrays [i, A, A′], with a + a′ ≤ σ and b + b′ ≤ σ′.

    With everyone affected (moving = n₀ + n₁) the sum never binds and one split is all there is.
    """
    last = mine.shape[1] - 1
    own_A = np.arange(min(n0, last) + 1)
    own_A1 = np.arange(min(n1, last) + 1)
    other = np.ix_(np.minimum(n1 - own_A1, last), np.minimum(n0 - own_A, last))
    if moving >= n0 + n1:
        yield moving, moving, _running_maximum(mine)[:, : own_A.size, : own_A1.size], _reflect(_running_maximum(theirs), other)
        return
    total = np.add.outer(np.arange(last + 1), np.arange(last + 1))
    for used in range(moving + 1):
        p_part = _running_maximum(np.where(total <= used, mine, -np.inf))
        p_prime_part = _running_maximum(np.where(total <= moving - used, theirs, -np.inf))
        yield used, moving - used, p_part[:, : own_A.size, : own_A1.size], _reflect(p_prime_part, other)


def _running_maximum(table: Array) -> Array:
    return np.maximum.accumulate(np.maximum.accumulate(table, axis=1), axis=2)


def _reflect(maximum: Array, other: tuple[np.ndarray, ...]) -> Array:
    """M_{n₀}(n₁ − A′, n₀ − A) as an array [i, A, A′]."""
    return maximum[(slice(None), *other)].swapaxes(1, 2)


def _argmax_within(table: Array, A: int, A1: int, total: int) -> tuple[int, int]:
    """Return the (a, a′) that attains M(A, A′) with a + a′ ≤ total."""
    box = table[: A + 1, : A1 + 1]
    allowed = np.add.outer(np.arange(box.shape[0]), np.arange(box.shape[1])) <= total
    a, a1 = np.unravel_index(int(np.where(allowed, box, -np.inf).argmax()), box.shape)
    return int(a), int(a1)
