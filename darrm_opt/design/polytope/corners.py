"""Corners of the feasible region F, and the generator of all their multisets.

One voter's answer is 1 with probability p on a dataset and p′ on its neighbour. (ε, Δ)-DP means that
(p, p′) lies in

    F = {p ≤ e^ε p′ + Δ,  p′ ≤ e^ε p + Δ,  1−p ≤ e^ε(1−p′) + Δ,  1−p′ ≤ e^ε(1−p) + Δ} ∩ [0,1]².

The privacy constraint f is affine in each voter's (p_i, p′_i), so its maximum over F^K is at corners
(Lemma 3.4 of the paper), and since votes are counted, only *how many* voters sit at each corner
matters. With x = (e^ε + Δ)/(e^ε + 1) and y = 1 − x the corners are

    stationary  zero (0,0)   one (1,1)
    moving      xy (x,y)     yx (y,x)      and, for Δ > 0,
                up (0,Δ)   down (Δ,0)   up_to_one (1−Δ,1)   down_from_one (1,1−Δ).

The published scripts carry a typing slip in the last one; here they are derived, and tested against
a dense sweep of F. For voters that are not private (ε = ∞), x = 1 and y = 0.

*Affected voters.* If a record reaches at most r voters, the other K−r have p_i = p′_i = t, and f is
affine in t, so they are stationary: the constraint set is the same, with at most r voters moving.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, Integers
from darrm_opt.problem import Problem, whole_number

Counts = Integers
"""Multisets of corners: shape (vectors, corners), each row sums to K. Columns in the order of `Corners.labels`."""

LABELS = ("zero", "one", "xy", "yx", "up", "down", "up_to_one", "down_from_one")
ZERO, ONE, XY, YX, UP, DOWN, UP_TO_ONE, DOWN_FROM_ONE = range(8)

BLOCK_VECTORS = 65_536
"""Vectors per block of the stream: a few tens of MB of rows at K = 101, and enough to hide NumPy's call overhead."""


class Corners(NamedTuple):
    """The corners of F for the voters of one problem."""

    x: float  # p of the corner (x, y) [probability]; 1 for voters that are not private
    y: float  # 1 − x, computed as (1−Δ)/(e^ε+1) so that it keeps its relative accuracy
    Delta: float

    @classmethod
    def of(cls, problem: Problem) -> Corners:
        """Return the corners for the voters of ``problem``."""
        voter = problem.voter
        shrink = math.exp(-voter.epsilon)  # both fractions divided by e^ε: no overflow at any ε; 0 for ε = ∞
        return cls(
            (1.0 + voter.delta * shrink) / (1.0 + shrink), (1.0 - voter.delta) * shrink / (1.0 + shrink), voter.delta
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the corners, in the column order of `Counts`."""
        return LABELS if self.Delta > 0 else LABELS[:4]

    @property
    def p(self) -> Array:
        """Probability of a 1 on the dataset, one entry a corner."""
        x, y, D = self.x, self.y, self.Delta
        return np.array([0.0, 1.0, x, y, 0.0, D, 1.0 - D, 1.0][: len(self.labels)])

    @property
    def p_prime(self) -> Array:
        """Probability of a 1 on the neighbouring dataset, one entry a corner."""
        x, y, D = self.x, self.y, self.Delta
        return np.array([0.0, 1.0, y, x, D, 0.0, 1.0, 1.0 - D][: len(self.labels)])

    @property
    def reflected(self) -> Array:
        """1 − p′ at each corner; written out, since 1 − (1−Δ) is not Δ in floating point."""
        x, y, D = self.x, self.y, self.Delta
        return np.array([1.0, 0.0, x, y, 1.0 - D, 1.0, 0.0, D][: len(self.labels)])

    def named(self, counts: Integers) -> dict[str, int]:
        """Return one multiset as ``{label: count}`` without the empty corners."""
        return {label: int(n) for label, n in zip(self.labels, counts, strict=True) if n}


class ConstraintGenerator:
    """Every permutation-reduced corner vector of a problem, as a stream of blocks.

    The oracle that each faster search is tested against, and the rows of ``method="enumerate"``.
    Memory is that of one block, however many vectors there are.

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
        self.corners = Corners.of(problem)
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
            InvalidInput: ``most`` is no number of rows, or there are 2^63 vectors or more.
        """
        most = whole_number(most, "most", "a whole number of rows, at least 1")
        for moving in range(self.problem.affected + 1):
            total = self._vectors_with(moving)
            if total > np.iinfo(np.int64).max:
                raise InvalidInput("K", self.problem.K, "fewer than 2^63 vectors", "Such a set cannot be enumerated.")
            for start in range(0, total, most):
                yield self._unrank(moving, np.arange(start, min(start + most, total)))

    def _unrank(self, moving: int, rank: Integers) -> Counts:
        """Return the vectors of the given ranks among those with ``moving`` moving voters.

        A rank is (composition of ``moving`` into q parts, number of stationary ones). A composition
        is q−1 bars among moving+q−1 places, unranked in colexicographic order (combinadic).
        """
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
