"""First-order choice: the corners that voters near 0 and 1 prefer to first order in Δ, and a bound on its loss.

Notation as in `separable`. With U_N(a, a′) = E[A(N + Bin(a, Δ) − Bin(a′, Δ))] and D[j] = A[j+1] − A[j], one more voter
of a kind changes φ by Δ times a slope:

    near 0   down (Δ,0)          q·D[n₁]          up (0,Δ)                 −D[n₀−1]
    near 1   up_to_one (1−Δ,1)   −q·D[n₁−1]       down_from_one (1,1−Δ)    D[n₀]

up to q·e for the kinds that affect p and e for those that affect p′, where e bounds |E D(N+X−Y) − D[N]|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from darrm_opt.design.constraint import DOWN, DOWN_FROM_ONE, ONE, UP, UP_TO_ONE, XY, YX, ZERO, Counts
from darrm_opt.design.separation.result import Indices
from darrm_opt.noise import Array


@dataclass(frozen=True)
class Rows:
    """Rows of one layer: A = H at {x^nx, y^ny, 1^j, 0^(n−j)}, shape (many, n+1); nx + ny is the same in all."""

    values: Array
    nx: Indices
    ny: Indices

    @property
    def n(self) -> int:
        """Number of voters near 0 and 1."""
        return int(self.values.shape[1] - 1)


@dataclass(frozen=True)
class Skeletons:
    """Skeletons (nx, ny, n₁) of some rows."""

    rows: Rows
    i: Indices  # row of each skeleton, shape (many,)
    n1: Indices  # number of voters near 1, shape (many,)
    moving: int  # maximum number of near-end voters off their end

    @property
    def n0(self) -> Indices:
        """Number of voters near 0."""
        return self.rows.n - self.n1

    def only(self, mask: NDArray[np.bool_]) -> Skeletons:
        """Return the skeletons of a mask."""
        return Skeletons(self.rows, self.i[mask], self.n1[mask], self.moving)

    def fill(self, zero_first: NDArray[np.bool_]) -> tuple[Indices, Indices]:
        """Split the budget between the ends: as much as possible at the end named first, the rest at the other."""
        n0, n1 = self.n0, self.n1
        most0, most1 = np.minimum(n0, self.moving), np.minimum(n1, self.moving)
        return (
            np.where(zero_first, most0, np.minimum(n0, self.moving - most1)),
            np.where(zero_first, np.minimum(n1, self.moving - most0), most1),
        )


@dataclass(frozen=True)
class Slopes:
    """First-order gain of φ, divided by Δ, of one voter of each kind; shape (skeletons,)."""

    down: Array
    up: Array
    up_to_one: Array
    down_from_one: Array

    @classmethod
    def of(cls, skeletons: Skeletons, q: float) -> Slopes:
        """Return the slopes at some skeletons; 0 if an end has no voter to move."""
        A, i, n1, n0 = skeletons.rows.values, skeletons.i, skeletons.n1, skeletons.n0
        n = skeletons.rows.n
        at1, at0 = A[i, n1], A[i, n0]
        return cls(
            q * (A[i, np.minimum(n1 + 1, n)] - at1),
            A[i, np.maximum(n0 - 1, 0)] - at0,
            q * (A[i, np.maximum(n1 - 1, 0)] - at1),
            A[i, np.minimum(n0 + 1, n)] - at0,
        )

    def gain(self, skeletons: Skeletons) -> Array:
        """Return the largest first-order gain of each skeleton, divided by Δ."""
        zero = np.maximum(np.maximum(self.down, self.up), 0.0)
        one = np.maximum(np.maximum(self.up_to_one, self.down_from_one), 0.0)
        t0, t1 = skeletons.fill(zero >= one)  # an end that gains nothing comes last
        gains: Array = zero * t0 + one * t1
        return gains


@dataclass(frozen=True)
class Choice:
    """Numbers of voters of each kind per skeleton, and a bound on another choice's gain, divided by Δ."""

    down: Indices
    up: Indices
    up_to_one: Indices
    down_from_one: Indices
    overlap: Array

    def counts(self, skeletons: Skeletons) -> Counts:
        """Return the chosen multisets."""
        counts = np.zeros((skeletons.i.size, 8), dtype=np.int64)
        counts[:, XY], counts[:, YX] = skeletons.rows.nx[skeletons.i], skeletons.rows.ny[skeletons.i]
        counts[:, UP], counts[:, DOWN] = self.up, self.down
        counts[:, UP_TO_ONE], counts[:, DOWN_FROM_ONE] = self.up_to_one, self.down_from_one
        counts[:, ZERO] = skeletons.n0 - self.up - self.down
        counts[:, ONE] = skeletons.n1 - self.up_to_one - self.down_from_one
        return counts


def first_order_choice(slopes: Slopes, skeletons: Skeletons, q: float, e: Array) -> Choice:
    """Put each end's voters on its best kind (or none), and bound the gain of any other multiset.

    ``e`` bounds the error of a slope at each skeleton.
    """
    # Any multiset becomes the chosen one by exchanges: its voters go to the chosen kind of their end (each losing at
    # most the best rival's upper slope, or 0 for not moving, minus the chosen one's lower slope); then the remaining
    # budget is filled (a loss only if the lower slope is negative: the rival is 0); then, if the budget binds, voters
    # go from the end filled last to the end filled first.
    down, up, up_to_one, down_from_one = slopes.down, slopes.up, slopes.up_to_one, slopes.down_from_one
    zero, low0, rival0 = _pick(down, q * e, up, e)
    one, low1, rival1 = _pick(up_to_one, q * e, down_from_one, e)
    zero_first = np.maximum(down, up) >= np.maximum(up_to_one, down_from_one)
    t0, t1 = skeletons.fill(zero_first)  # an end that stays comes last
    overlap = np.minimum(skeletons.n0, skeletons.moving) * np.maximum(rival0 - low0, 0.0)
    overlap += np.minimum(skeletons.n1, skeletons.moving) * np.maximum(rival1 - low1, 0.0)
    high0, high1 = np.maximum(down + q * e, up + e), np.maximum(up_to_one + q * e, down_from_one + e)
    exchange = np.maximum(np.where(zero_first, high1 - low0, high0 - low1), 0.0)
    overlap += np.where(
        (zero > 0) & (one > 0) & (skeletons.rows.n > skeletons.moving), skeletons.moving * exchange, 0.0
    )
    return Choice(
        np.where(zero == 1, t0, 0),
        np.where(zero == 2, t0, 0),
        np.where(one == 1, t1, 0),
        np.where(one == 2, t1, 0),
        overlap,
    )


def _pick(first: Array, first_e: Array, second: Array, second_e: Array) -> tuple[Indices, Array, Array]:
    """Return (0 none, 1, or 2; its lower slope; the best rival's upper slope) for each skeleton."""
    kind = np.where((first <= 0) & (second <= 0), 0, np.where(first >= second, 1, 2))
    low = np.choose(kind, [np.zeros_like(first), first - first_e, second - second_e])
    high1, high2 = first + first_e, second + second_e
    rival = np.choose(kind, [np.maximum(high1, high2), np.maximum(high2, 0.0), np.maximum(high1, 0.0)])
    return kind, low, rival
