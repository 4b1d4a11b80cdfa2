"""Linear program of γ, as arrays.

    maximise    w · γ                        share of the noiseless utility kept
    over        γ(⌊K/2⌋+1..K) in [0, 1]      the upper half; symmetry gives the rest
    subject to  φ_i · γ ≤ limit              one row a corner multiset (`PrivacyConstraint.rows`)

For shape = "monotone" the variables are the increments t ≥ 0 of γ instead: γ(l) = Σ_{k ≤ l} t_k and Σ t ≤ 1, so a row
or weight of γ becomes its suffix sums (`in_increments`), and order holds by construction.

Every variable lives in a box, so any multipliers λ ≥ 0 prove a bound on the optimum, whoever made them:

    w·γ ≤ bᵀλ + (w − Aᵀλ)·γ ≤ bᵀλ + Σ_l max(0, w_l − (Aᵀλ)_l)           (weak duality)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from darrm_opt.design.polytope.polar_form import STEP_ERROR, UNIT_ROUNDOFF
from darrm_opt.noise import Array


class Status(enum.Enum):
    """How a solve ended; `advice` says what the reader can do about it."""

    OPTIMAL = "optimal"
    TIME_LIMIT = "time limit"
    ITERATION_LIMIT = "iteration limit"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NUMERICAL = "numerical trouble"
    INTERRUPTED = "interrupted"
    NEAREST = "nearest"
    SEARCH_LIMIT = "search limit"
    ROUNDING_LIMIT = "rounding limit"
    PLANNED = "planned"

    @property
    def advice(self) -> str:
        """One sentence of advice for the user."""
        return _ADVICE[self]

    @property
    def settled(self) -> bool:
        """Whether solving again, with more time or another backend, would change nothing: such answers are kept."""
        return self in {Status.OPTIMAL, Status.SEARCH_LIMIT, Status.ROUNDING_LIMIT}


_ADVICE = {
    Status.OPTIMAL: "The answer is optimal up to its gap.",
    Status.TIME_LIMIT: "The time limit came first: the answer is private, and its gap says how far from optimal it may be.",
    Status.ITERATION_LIMIT: "The solver gave up before the optimum: allow more rounds, or try another backend.",
    Status.INFEASIBLE: "The solver calls the program infeasible, which it never is (γ = 0 is private): try another backend.",
    Status.UNBOUNDED: "The solver calls the program unbounded, which it never is (γ ≤ 1): try another backend.",
    Status.NUMERICAL: "The solver lost its accuracy: try another backend, or move extreme parameters inward.",
    Status.INTERRUPTED: "Stopped on request, or at the gap that was asked for: the answer is private, and its gap says how far "
    "from optimal it may be.",
    Status.SEARCH_LIMIT: "The best monotone γ: with so many voters off their ends no other γ is searched for a proof, and the "
    "gap says how much better one could be at most.",
    Status.ROUNDING_LIMIT: "The constraint is so small that rounding hides the optimum: the answer is private, and its gap says "
    "how far from optimal it may be.",
    Status.PLANNED: "Chosen by a plan for a total over many releases: private for the stated problem, and nothing is claimed of "
    "the optimum of that problem.",
    Status.NEAREST: "Designed for a stricter problem and private for this one too; nothing was solved for it.",
}


@dataclass(frozen=True)
class Outcome:
    """Answer of a backend to a linear program; no guarantee rests on it.

    Attributes:
        status: how it ended.
        upper_half: γ(⌊K/2⌋+1..K) as the solver has it, shape (entries,).
        multipliers: one a row in order of addition, ≥ 0 up to the solver's tolerance, shape (rows,).
        iterations: simplex (or other) iterations of this solve.
    """

    status: Status
    upper_half: Array
    multipliers: Array
    iterations: int


def in_increments(rows: Array) -> Array:
    """Return rows (or weights) of γ as rows of its increments: suffix sums along the last axis."""
    sums: Array = np.cumsum(rows[..., ::-1], axis=-1)[..., ::-1]
    return sums


def dual_bound(weights: Array, rows: Array, limits: Array, multipliers: Array, K: int) -> float:
    """Return a proven upper bound on w·γ over everything private, from any multipliers.

    Args:
        weights: w, shape (entries,).
        rows: A, shape (rows, entries).
        limits: b, shape (rows,).
        multipliers: λ, shape (rows,); negative ones are set to 0.
        K: number of voters, for the rounding error of the rows.

    Guarantees:
        Never below the true optimum: the error of the rows (2·(1+q)·K·`STEP_ERROR` an entry in the sum over
        entries), of every product and of every sum is added, and γ ≤ 1 charges it.

    Source: weak duality, with the box's multipliers eliminated.
    """
    nonnegative = np.where((multipliers > 0) & (multipliers < np.inf), multipliers, 0.0)  # NaN is neither
    # suffix sums of weights (and of rows) add up to one rounding an entry: inside the slack below
    reduced = weights - rows.T @ nonnegative
    bound = float(limits @ nonnegative + np.maximum(reduced, 0.0).sum())
    # rows: 4K steps of error each (q ≤ 1, two blossoms, differences of two masses); sums: their length in ulps
    slack = float(nonnegative.sum()) * (
        4 * (K + 1) * STEP_ERROR + 4 * (nonnegative.size + weights.size) * UNIT_ROUNDOFF * 2.0
    )
    return bound + slack + 4 * weights.size * UNIT_ROUNDOFF
