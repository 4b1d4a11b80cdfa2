"""Linear program of γ, and the dual bound: a proven upper bound on its optimum from any multipliers.

    maximise    w · γ                        share of the noiseless utility kept
    over        γ(⌊K/2⌋+1..K) in [0, 1]      the upper half; symmetry gives the rest
    subject to  φ_i · γ ≤ limit              one row a corner multiset (`PrivacyConstraint.rows`)

For shape = "monotone" the variables are the increments t ≥ 0 of γ instead: γ(l) = Σ_{k ≤ l} t_k and Σ t ≤ 1, so a row
or weight of γ becomes its suffix sums (`in_increments`), and order holds by construction.

Every variable lives in a box, so any multipliers λ ≥ 0 prove a bound on the optimum, whoever made them:

    w·γ ≤ bᵀλ + (w − Aᵀλ)·γ ≤ bᵀλ + Σ_l max(0, w_l − (Aᵀλ)_l)           (weak duality)
"""

from __future__ import annotations

import numpy as np

from darrm_opt.design.polytope.polar_form import STEP_ERROR, UNIT_ROUNDOFF
from darrm_opt.noise import Array


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
    reduced_costs = weights - rows.T @ nonnegative
    bound = float(limits @ nonnegative + np.maximum(reduced_costs, 0.0).sum())
    # rows: 4K steps of error each (q ≤ 1, two blossoms, differences of two masses); sums: their length in ulps
    slack = float(nonnegative.sum()) * (
        4 * (K + 1) * STEP_ERROR + 4 * (nonnegative.size + weights.size) * UNIT_ROUNDOFF * 2.0
    )
    return bound + slack + 4 * weights.size * UNIT_ROUNDOFF
