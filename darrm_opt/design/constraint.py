"""Corners of the feasible region F, their multisets, and the privacy constraint over them as LP rows.

One voter's answer is 1 with probability p on a dataset and p′ on its neighbour. (ε, Δ)-DP means that (p, p′) lies in

    F = {p ≤ e^ε p′ + Δ,  p′ ≤ e^ε p + Δ,  1−p ≤ e^ε(1−p′) + Δ,  1−p′ ≤ e^ε(1−p) + Δ} ∩ [0,1]².

The privacy constraint f is affine in each voter's (p_i, p′_i), so its maximum over F^K is at corners (Lemma 3.4 of the
paper), and since votes are counted, only *how many* voters sit at each corner matters. With x = (e^ε + Δ)/(e^ε + 1) and
y = 1 − x the corners are

    stationary  zero (0,0)   one (1,1)
    moving      xy (x,y)     yx (y,x)      and, for Δ > 0,
                up (0,Δ)   down (Δ,0)   up_to_one (1−Δ,1)   down_from_one (1,1−Δ).

The published scripts have a typing error in the last one; here they are derived, and tested against a dense sweep of F.
For voters that are not private (ε = ∞), x = 1 and y = 0.

*Affected voters.* If a record reaches at most r voters, the other K−r have p_i = p′_i = t, and f is affine in t, so
they are stationary: the constraint set is the same, with at most r voters moving.

*Constraint.* With c = e^(mε), DaRRM_γ is (mε, δ)-DP exactly when for every admissible pair (p, p′)

    f(p, p′) = H(p) − c·H(p′) ≤ c − 1 + 2δ                                  (Lemma 3.4 of the paper)

Since g is antisymmetric and x + y = 1, −H(p′) = H(1−p′). Divided by c (q = e^(−mε) ≤ 1 never overflows, and rows are of
order one for every mε) the constraint used everywhere in the design is

    φ(p, p′) = q·H(p) + H(1−p′) ≤ −expm1(−mε) + 2qδ =: limit.

Half of (limit − φ) is the slack of q·Pr[b | D] ≤ Pr[b | D′] + qδ, a probability.

Only q depends on the target: a row is q·P + R, where P and R are signed masses of a multiset. If ε, Δ and K stay and
the target varies, every row is thus computed once (`cached_rows`).

*Rounding.* H is computed by de Casteljau steps (`darrm_opt.design.polar_form`). Every step is a convex combination, so
errors are never amplified. One computed step, with coefficients known to a few ulps, errs by at most
`STEP_ERROR`·max|a|; hence n steps err by at most n·`STEP_ERROR`·max|g| (`rounding_error`).
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from darrm_opt.arguments import whole_number
from darrm_opt.design.kernel.library import DONE, kernel
from darrm_opt.design.polar_form import MAX_STEPWISE_K, mass
from darrm_opt.design.profile_vertices import ProfileVertices, profile_vertices
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, Integers
from darrm_opt.problem import Problem
from darrm_opt.rounding import UNIT_ROUNDOFF

STEP_ERROR = 16 * UNIT_ROUNDOFF
"""Error of one computed de Casteljau step, relative to the largest entry of its input.

With `exp` accurate to 4u relative, x and y (see `Corners.of`) carry at most 4u + 2u (product, sum) + 5u (denominator) +
u (quotient) ≤ 12u; Δ is exact and 1−Δ carries u. Each of the two products adds u and the sum adds u:
s|a|(1+12u)(1+u)(1+u) …, so at most 14u + O(u²) of s|a_j| + t|a_{j+1}| ≤ max|a|. The remaining 2u absorb every O(u²)
term for K ≤ 10⁶, as n·16u stays far below 1."""

UNDERFLOW_SLACK = 2.0**-1060
"""Absolute slack for products that underflow: each loses at most 2^−1074, and fewer than 2^14 are summed."""


def rounding_error(steps: int, largest: float) -> float:
    """Return a bound on |computed − exact| of H after ``steps`` de Casteljau steps (see `STEP_ERROR`)."""
    return (steps * STEP_ERROR * largest + steps * UNDERFLOW_SLACK) if largest > 0 else 0.0


class PrivacyConstraint(NamedTuple):
    """φ ≤ limit over all admissible corner multisets, for the strictest reading of a problem.

    Attributes:
        K: number of voters.
        affected: number of voters that may move.
        corners: the corners at which each may sit.
        q: e^(−target ε), in (0, 1].
        limit: right-hand side, rounded down; in [0, 1 + 2δ].
    """

    K: int
    affected: int
    corners: AnyCorners
    q: float
    limit: float

    @classmethod
    def of(cls, problem: Problem, *, nominal: bool = False) -> PrivacyConstraint:
        """Return the constraint of a problem.

        Args:
            problem: privacy to prove.
            nominal: whether to prove the problem itself alone, rather than every problem that rounds to it.

        Raises:
            InvalidInput: its answer is a table, or it has several targets, each with its own constraint.
        """
        if not problem.is_binary or len(problem.target.points) > 1:
            raise InvalidInput("problem", problem, "two classes, voters that are alike and one (epsilon, delta)")
        strict = problem if nominal else problem.strictest
        q = math.exp(-strict.target.epsilon)
        limit = -math.expm1(-strict.target.epsilon) + 2.0 * q * strict.target.delta
        # expm1 to 4u, q to 4u, product and sum 3u: 8u relative, as both terms are non-negative
        return cls(problem.K, problem.affected, corners_of(strict), q, limit * (1.0 - 12 * UNIT_ROUNDOFF))

    @classmethod
    def loosest(cls, problem: Problem) -> PrivacyConstraint:
        """Return the constraint satisfied by every γ that is private for any problem that rounds to this one.

        Its limit is rounded up: it serves upper bounds on the optimum and proves no privacy.
        """
        constraint = cls.of(problem.loosest, nominal=True)
        return constraint._replace(limit=constraint.limit * (1.0 + 32 * UNIT_ROUNDOFF))

    def error(self, largest: float) -> float:
        """Return a bound on |computed − exact| of φ for γ ≤ ``largest``."""
        # K steps in each of the two blossoms, one more for the rounding of q, the product and the sum
        return (1.0 + self.q) * rounding_error(self.K + 1, largest)

    @property
    def entries(self) -> int:
        """Number of free values of γ: l = ⌊K/2⌋+1..K."""
        return (self.K + 1) // 2

    def rows(self, counts: Counts) -> Array:
        """Return φ as a linear function of γ(⌊K/2⌋+1..K), one row per multiset: shape (vectors, entries).

        Each entry is within 2(1+q)·K·`STEP_ERROR` of exact. That affects only speed and the upper bound, which charges
        it.
        """
        on_data, on_neighbour = self.signed_masses(counts)
        return self.q * on_data + on_neighbour

    def signed_masses(self, counts: Counts) -> tuple[Array, Array]:
        """Return H(p) and H(1−p′), the parts of `rows` that do not depend on the target."""
        return self._signed_mass(counts, self.corners.p), self._signed_mass(counts, self.corners.reflected)

    def values(self, signed: Array, counts: Counts) -> Array:
        """Return φ at each multiset, shape (vectors,), through `rows`.

        Args:
            signed: g(0..K), shape (K+1,).
            counts: voters at each corner [voters], shape (vectors, corners).
        """
        return self.rows(counts) @ signed[self.K // 2 + 1 :]

    def pair(self, signed: Array, counts: Counts) -> tuple[Array, Array]:
        """Return (Pr[1 | D], Pr[1 | D′]) of the release at each multiset, shapes (vectors,); each within `error`(1).

        Args:
            signed: as in `values`.
            counts: as in `values`.
        """
        on_data, on_neighbour = (masses @ signed[self.K // 2 + 1 :] for masses in self.signed_masses(counts))
        return (1.0 + on_data) / 2, (1.0 - on_neighbour) / 2

    def _signed_mass(self, counts: Counts, chances: Array) -> Array:
        """α_l − α_{K−l} for l > K/2, where the voters of corner k answer 1 with probability ``chances[k]``."""
        # Many multisets share the same probabilities (p does not depend on where p′ went): each is computed once.
        library = kernel()
        if library is not None:
            counts = np.ascontiguousarray(counts, dtype=np.int64)
            compiled = np.empty((len(counts), self.entries))
            inputs = (self.K, chances.size, chances.ctypes.data, counts.ctypes.data, len(counts))
            if library.signed_mass(*inputs, self.K <= MAX_STEPWISE_K, compiled.ctypes.data) != DONE:
                raise MemoryError
            return compiled
        certain = chances == 1.0
        inside = np.array(sorted(set(chances[(chances > 0.0) & ~certain].tolist())))
        groups = np.stack(
            [counts[:, chances == t].sum(axis=1) for t in inside] + [counts[:, certain].sum(axis=1)], axis=1
        )
        distinct, inverse = np.unique(groups, axis=0, return_inverse=True)
        masses = mass(inside, distinct[:, :-1], distinct[:, -1], self.K)
        signed = masses[:, self.K // 2 + 1 :] - masses[:, : (self.K + 1) // 2][:, ::-1]
        return np.asarray(signed[inverse.reshape(-1)])


MAX_LINES = 16  # number of voters whose rows are cached; each problem needs its strictest and its loosest reading

MAX_FAMILIES = 64
"""Number of read-only arrays of multisets whose keys are cached: solves often start from the same ones."""

MAX_ENTRIES = 250_000
"""Maximum cached doubles of each part per kind of voters (2 MB); further rows are computed each time."""


def multiset_keys(counts: Counts) -> tuple[bytes, ...]:
    """Return each multiset as bytes, for look-up."""
    content = np.ascontiguousarray(counts).tobytes()
    return (_split if counts.flags.writeable else _family_keys)(content, counts.shape[1] * counts.itemsize)


def _split(content: bytes, width: int) -> tuple[bytes, ...]:
    return tuple([content[start : start + width] for start in range(0, len(content), width)])


_family_keys = functools.lru_cache(maxsize=MAX_FAMILIES)(_split)


def cached_rows(constraint: PrivacyConstraint, counts: Counts, keys: tuple[bytes, ...] | None = None) -> Array:
    """Return `PrivacyConstraint.rows`, bit for bit, from cached parts."""
    if not 0 < len(counts) * constraint.entries <= MAX_ENTRIES:
        return constraint.rows(counts)
    keys = multiset_keys(counts) if keys is None else keys
    return _line(constraint.K, constraint.corners).rows(constraint, counts, keys)


@functools.lru_cache(maxsize=MAX_LINES)
def _line(K: int, corners: AnyCorners) -> _Line:  # noqa: ARG001 — the parts depend on them
    return _Line((K + 1) // 2)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=_line.cache_clear
    )  # a lock held by another thread would stay locked in the child


class _Line:
    """Signed masses by multiset for one kind of voters; thread-safe."""

    def __init__(self, entries: int) -> None:
        self._lock = threading.Lock()
        self._place: dict[bytes, int] = {}
        self._parts = np.empty((0, 2, entries))  # on the data and on the neighbour

    def rows(self, constraint: PrivacyConstraint, counts: Counts, keys: tuple[bytes, ...]) -> Array:
        """Return the rows of multisets."""
        with self._lock:
            places = [self._place.get(key, -1) for key in keys]
            if -1 in places:
                missing = [i for i, place in enumerate(places) if place < 0]
                size = len(self._parts)
                if (size + len(missing)) * constraint.entries > MAX_ENTRIES:
                    return constraint.rows(counts)
                new_parts = np.stack(constraint.signed_masses(counts[missing]), axis=1)
                # parts before places: an interruption or lack of memory leaves at worst parts without a place
                self._parts = np.concatenate([self._parts, new_parts])
                for place, i in enumerate(missing, size):
                    self._place.setdefault(keys[i], place)
                places = [self._place[key] for key in keys]
            parts = self._parts.take(places, axis=0)
            rows: Array = constraint.q * parts[:, 0] + parts[:, 1]
            return rows


Counts = Integers
"""Multisets of corners: shape (vectors, corners), rows sum to K, columns in the order of `Corners.labels`."""

LABELS = ("zero", "one", "xy", "yx", "up", "down", "up_to_one", "down_from_one")
ZERO, ONE, XY, YX, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE = range(8)

BLOCK_VECTORS = 65_536
"""Vectors per block: a few tens of MB of rows at K = 101, and enough to hide NumPy's call overhead."""


class Corners(NamedTuple):
    """The corners of F for a problem's voters."""

    x: float  # p of the corner (x, y) [probability]; 1 for voters that are not private
    y: float  # 1 − x, computed as (1−Δ)/(e^ε+1) to keep its relative accuracy
    Delta: float

    @classmethod
    def of(cls, problem: Problem) -> Corners:
        """Return the corners for the voters of ``problem``."""
        voter = problem.voter
        shrink = math.exp(-voter.epsilon)  # both fractions are divided by e^ε: no overflow; 0 for ε = ∞
        return cls(
            (1.0 + voter.delta * shrink) / (1.0 + shrink), (1.0 - voter.delta) * shrink / (1.0 + shrink), voter.delta
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the corners, in the column order of `Counts`."""
        return LABELS if self.Delta > 0 else LABELS[:4]

    @property
    def p(self) -> Array:
        """Probability of a 1 on the dataset, per corner."""
        x, y, D = self.x, self.y, self.Delta
        return np.array([0.0, 1.0, x, y, 0.0, D, 1.0 - D, 1.0][: len(self.labels)])

    @property
    def p_prime(self) -> Array:
        """Probability of a 1 on the neighbouring dataset, per corner."""
        x, y, D = self.x, self.y, self.Delta
        return np.array([0.0, 1.0, y, x, D, 0.0, 1.0, 1.0 - D][: len(self.labels)])

    @property
    def reflected(self) -> Array:
        """1 − p′ per corner; written out, since 1 − (1−Δ) is not Δ in floating point."""
        x, y, D = self.x, self.y, self.Delta
        return np.array([1.0, 0.0, x, y, 1.0 - D, 1.0, 0.0, D][: len(self.labels)])

    def named(self, counts: Integers) -> dict[str, int]:
        """Return one multiset as ``{label: count}`` without empty corners."""
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True) if n}


AnyCorners = Corners | ProfileVertices


def corners_of(problem: Problem) -> AnyCorners:
    """Return the positions of a voter: the corners of one (ε, Δ), or the vertices of a profile."""
    return profile_vertices(problem.voter) or Corners.of(problem)


class ConstraintGenerator:
    """Every permutation-reduced corner vector of a problem, as a stream of blocks.

    The oracle for all faster searches, and the rows of ``method="enumerate"``. Memory is that of one block.

    Args:
        problem: K voters, of which at most ``affected`` move.

    Source: Section 3.3 of the paper (reduction to multisets); ``affected`` is ours.

    >>> from darrm_opt.problem import Problem
    >>> ConstraintGenerator(Problem.from_allowance(K=35, m=3, epsilon=0.1)).size
    8436
    >>> ConstraintGenerator(Problem.from_allowance(K=35, m=3, epsilon=0.1, Delta=1e-5)).size
    26978328
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.corners = corners_of(problem)
        self._moving = len(self.corners.labels) - 2

    @property
    def size(self) -> int:
        """Number of vectors: Σ_{M ≤ r} C(M+q−1, q−1)(K−M+1) with q moving corners; C(K+q+1, q+1) for r = K."""
        return sum(self._vectors_with(moving) for moving in range(self.problem.affected + 1))

    def _vectors_with(self, moving: int) -> int:
        return math.comb(moving + self._moving - 1, self._moving - 1) * (self.problem.K - moving + 1)

    def blocks(self, most: int = BLOCK_VECTORS) -> Iterator[Counts]:
        """Yield all vectors once, in blocks of at most ``most`` rows, fewest moving voters first.

        Raises:
            InvalidInput: ``most`` is not a number of rows, or there are 2^63 vectors or more.
        """
        most = whole_number(most, "most", "a whole number of rows, at least 1")
        for moving in range(self.problem.affected + 1):
            total = self._vectors_with(moving)
            if total > np.iinfo(np.int64).max:
                raise InvalidInput("K", self.problem.K, "fewer than 2^63 vectors", "Such a set cannot be enumerated.")
            for start in range(0, total, most):
                yield self._unrank(moving, np.arange(start, min(start + most, total)))

    def _unrank(self, moving: int, rank: Integers) -> Counts:
        """Return the vectors of the given ranks among those with ``moving`` moving voters."""
        # a rank is (composition of ``moving`` into q parts, number of ones). A composition is q−1 bars among moving+q−1
        # places, unranked in colexicographic order (combinadic).
        q, K = self._moving, self.problem.K
        counts = np.zeros((rank.size, q + 2), dtype=np.int64)
        composition, counts[:, ONE] = np.divmod(rank, K - moving + 1)
        counts[:, ZERO] = K - moving - counts[:, ONE]
        ceiling = np.full(rank.size, moving + q - 1)
        for bars in range(q - 1, 0, -1):
            ranks = np.array([math.comb(place, bars) for place in range(moving + q)])
            bar = np.searchsorted(ranks, composition, side="right") - 1
            composition = composition - ranks[bar]
            counts[:, 2 + bars] = ceiling - bar - 1
            ceiling = bar
        counts[:, 2] = ceiling
        return counts
