"""Which corner the voters near 0 and 1 prefer, to first order in Δ, and what that choice could miss.

Notation as in `separable`. Writing U_N(a, a′) = E[A(N + Bin(a, Δ) − Bin(a′, Δ))] and D[j] = A[j+1] − A[j], one more
voter on a kind changes φ by Δ times a slope:

    near 0   down (Δ,0)          q·D[n₁]          up (0,Δ)                 −D[n₀−1]
    near 1   up_to_one (1−Δ,1)   −q·D[n₁−1]       down_from_one (1,1−Δ)    D[n₀]

up to q·e for the kinds that p sees and e for those that p′ sees, where e bounds |E D(N+X−Y) − D[N]|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from darrm_opt.design.corners import DOWN, DOWN_FROM_ONE, ONE, UP, UP_TO_ONE, XY, YX, ZERO, Counts
from darrm_opt.noise import Array

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of one layer: A = H at {x^nx, y^ny, 1^j, 0^(n−j)}, shape (many, n+1); nx + ny is the same in all."""

    values: Array
    nx: Indices
    ny: Indices

    @property
    def n(self) -> int:
        """Voters near 0 and 1."""
        return int(self.values.shape[1] - 1)


@dataclass(frozen=True)
class Slopes:
    """First-order gain of φ, divided by Δ, of putting one voter on each kind; shape (rows, n+1) over n₁."""

    down: Array
    up: Array
    up_to_one: Array
    down_from_one: Array

    @classmethod
    def of(cls, rows: Rows, q: float) -> Slopes:
        """Slopes of every skeleton of the rows; 0 where an end has no voter to move."""
        none = np.zeros((rows.values.shape[0], 1))
        D = np.diff(rows.values, axis=1)
        right, left = np.concatenate([D, none], axis=1), np.concatenate([none, D], axis=1)
        return cls(q * right, -left[:, ::-1], -q * left, right[:, ::-1])

    def gain(self, n: int, moving: int) -> Array:
        """Return the largest first-order gain of each skeleton, divided by Δ, with at most ``moving`` voters moved."""
        zero = np.maximum(np.maximum(self.down, self.up), 0.0)
        one = np.maximum(np.maximum(self.up_to_one, self.down_from_one), 0.0)
        n1 = np.arange(n + 1)
        t0, t1 = _fill(zero >= one, n - n1, n1, moving)
        best: Array = zero * t0 + one * t1
        return best


@dataclass(frozen=True)
class Choice:
    """For each of some skeletons: how many voters on each kind, and what another choice could gain, divided by Δ."""

    down: Indices
    up: Indices
    up_to_one: Indices
    down_from_one: Indices
    overlap: Array

    def counts(self, nx: Indices, ny: Indices, n0: Indices, n1: Indices) -> Counts:
        """Return the multisets of the choice."""
        counts = np.zeros((n1.size, 8), dtype=np.int64)
        counts[:, XY], counts[:, YX] = nx, ny
        counts[:, UP], counts[:, DOWN] = self.up, self.down
        counts[:, UP_TO_ONE], counts[:, DOWN_FROM_ONE] = self.up_to_one, self.down_from_one
        counts[:, ZERO] = n0 - self.up - self.down
        counts[:, ONE] = n1 - self.up_to_one - self.down_from_one
        return counts


def choose(slopes: Slopes, i: Indices, n1: Indices, n: int, moving: int, q: float, e: Array | float) -> Choice:
    """Put each end's voters on its best kind (or none), and bound what any other multiset could gain.

    Any multiset becomes the chosen one by exchanges: its voters go to the chosen kind of their end (losing at most the
    best rival's upper slope, or 0 for not moving, over the chosen one's lower slope, each); then empty budget is
    filled (a loss only where the lower slope is negative: the rival is 0); then, if the budget binds, voters go from
    the end filled last to the end filled first.

    Args:
        slopes: of the rows.
        i: row of each skeleton, shape (many,).
        n1: its number of voters near 1, shape (many,).
        n: voters near either end.
        moving: how many of them may move.
        q: e^(−target ε).
        e: bound on the error of a slope, shape (many,); 0 gives the plain first-order choice.
    """
    down, up = slopes.down[i, n1], slopes.up[i, n1]
    up_to_one, down_from_one = slopes.up_to_one[i, n1], slopes.down_from_one[i, n1]
    n0 = n - n1
    zero, low0, rival0 = _pick(down, q * e, up, e)
    one, low1, rival1 = _pick(up_to_one, q * e, down_from_one, e)
    zero_first = np.maximum(down, up) >= np.maximum(up_to_one, down_from_one)
    t0, t1 = _fill(zero_first, np.where(zero > 0, n0, 0), np.where(one > 0, n1, 0), moving)
    overlap = np.minimum(n0, moving) * np.maximum(rival0 - low0, 0.0)
    overlap += np.minimum(n1, moving) * np.maximum(rival1 - low1, 0.0)
    high0, high1 = np.maximum(down + q * e, up + e), np.maximum(up_to_one + q * e, down_from_one + e)
    exchange = np.maximum(np.where(zero_first, high1 - low0, high0 - low1), 0.0)
    overlap += np.where((zero > 0) & (one > 0) & (n > moving), moving * exchange, 0.0)
    return Choice(
        np.where(zero == 1, t0, 0),
        np.where(zero == 2, t0, 0),
        np.where(one == 1, t1, 0),
        np.where(one == 2, t1, 0),
        overlap,
    )


def _fill(zero_first: NDArray[np.bool_], n0: Indices, n1: Indices, moving: int) -> tuple[Indices, Indices]:
    """Split the budget: the better end first, the rest to the other."""
    most0, most1 = np.minimum(n0, moving), np.minimum(n1, moving)
    return (
        np.where(zero_first, most0, np.minimum(n0, moving - most1)),
        np.where(zero_first, np.minimum(n1, moving - most0), most1),
    )


def _pick(one: Array, one_e: Array | float, two: Array, two_e: Array | float) -> tuple[Indices, Array, Array]:
    """Return (0 none, 1, or 2; its lower slope; the best rival's upper slope) for each skeleton."""
    kind = np.where((one <= 0) & (two <= 0), 0, np.where(one >= two, 1, 2))
    low = np.choose(kind, [np.zeros_like(one), one - one_e, two - two_e])
    high1, high2 = one + one_e, two + two_e
    rival = np.choose(kind, [np.maximum(high1, high2), np.maximum(high2, 0.0), np.maximum(high1, 0.0)])
    return kind, low, rival
