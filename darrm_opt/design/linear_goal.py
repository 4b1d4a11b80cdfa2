"""What a program maximises, in the form that a solver takes, and what that means for one γ.

    maximise    weights · (γ, u) + offset        γ: the upper half; u: auxiliary variables in [0, 1], often none
    subject to  rows · (γ, u) ≤ limits           beside the privacy rows, which leave u alone

An objective with weights needs no u. The true error (Definition 2.4 of the paper) is a mean of absolute values, one for
each scenario of voter probabilities: with a_s = ½(α_l − α_{K−l}) at scenario s,

    error_s(γ) = |a_s · (1 − γ)| ≤ 1 − u_s   ⇔   u_s − a_s·γ ≤ 1 − Σa_s   and   u_s + a_s·γ ≤ 1 + Σa_s,

so the least mean error is the largest mean of u_s, and the least worst error the largest common u. Utility is the share
of the error of γ = 0 that is saved: 1 − error(γ)/error(0), which for an objective with weights is w·γ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from darrm_opt.noise import Array


@dataclass(frozen=True)
class LinearGoal:
    """A linear goal over γ's upper half and auxiliary variables.

    Attributes:
        weights: shape (entries + auxiliaries,).
        utility: of a γ, from its upper half, shape (entries,).
        offset: what weights·(γ, u) lacks to the utility.
        rows: shape (many, entries + auxiliaries).
        limits: shape (many,).
    """

    weights: Array
    utility: Callable[[Array], float]
    offset: float
    rows: Array
    limits: Array


def weighted(weights: Array) -> LinearGoal:
    """Return the goal Σ w_l·γ(l)."""
    return LinearGoal(weights, lambda upper: float(weights @ upper), 0.0, np.empty((0, weights.size)), np.empty(0))


def least_error(gaps: Array, masses: Array | None) -> LinearGoal:
    """Return the goal of the least tv error over scenarios.

    Args:
        gaps: a_s = ½(α_l − α_{K−l}) for l = ⌊K/2⌋+1..K, shape (scenarios, entries).
        masses: how much each scenario counts, shape (scenarios,), summing to 1; None for the worst of them.
    """
    scenarios, entries = gaps.shape
    nothing = np.abs(gaps.sum(axis=1))
    columns = np.eye(scenarios) if masses is not None else np.ones((scenarios, 1))
    share = masses if masses is not None else np.ones(1)
    scale = float(masses @ nothing) if masses is not None else float(nothing.max())
    rows = np.block([[-gaps, columns], [gaps, columns]])
    limits = np.concatenate([1.0 - gaps.sum(axis=1), 1.0 + gaps.sum(axis=1)])

    def utility(upper: Array) -> float:
        errors = np.abs(gaps @ (1.0 - upper))
        return 1.0 - float(masses @ errors if masses is not None else errors.max()) / scale

    return LinearGoal(np.concatenate([np.zeros(entries), share / scale]), utility, 1.0 - 1.0 / scale, rows, limits)
