"""Linear goal: what a program maximises, in the form that a solver takes, and the utility of one γ under it.

    maximise    weights · (γ, u) + offset        γ: the upper half; u: auxiliary variables in [0, 1], often none
    subject to  rows · (γ, u) ≤ limits           beside the privacy rows, which leave u alone

An objective with weights needs no u. The true error (Definition 2.4 of the paper) is a mean of absolute values, one for
each scenario of voter probabilities: with a_s = ½(α_l − α_{K−l}) at scenario s,

    error_s(γ) = |a_s · (1 − γ)| ≤ 1 − u_s   ⇔   u_s − a_s·γ ≤ 1 − Σa_s   and   u_s + a_s·γ ≤ 1 + Σa_s,

so the least mean error is the largest mean of u_s, and the least worst error the largest common u. Utility is the share
of the error of γ = 0 that is saved: 1 − error(γ)/error(0), which for an objective with weights is w·γ.

Optima are not unique, and weights vanish near K/2, where a solver leaves γ as it likes. The canonical goal adds a small
share κ of the plain mean of γ, and so makes the optimum unique in practice, and the same from every backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from darrm_opt.noise import Array, NoiseFunction

KAPPA = 1e-6
"""Share of the plain mean in the canonical goal: far above the solvers' dual tolerances (`backends.row_scale`), far
below what a user can see."""


@dataclass(frozen=True, eq=False, repr=False)
class LinearGoal:
    """A linear goal over γ's upper half and auxiliary variables."""

    weights: Array  # shape (entries + auxiliaries,)
    utility: Callable[[Array], float]  # of a γ, from its upper half, shape (entries,)
    offset: float  # what weights·(γ, u) lacks to the utility
    rows: Array  # shape (many, entries + auxiliaries)
    limits: Array  # shape (many,)


def weighted_goal(weights: Array) -> LinearGoal:
    """Return the goal Σ w_l·γ(l)."""
    return LinearGoal(weights, lambda upper: float(weights @ upper), 0.0, np.empty((0, weights.size)), np.empty(0))


def least_error(gaps: Array, masses: Array | None) -> LinearGoal:
    """Return the goal of the least tv error over scenarios.

    ``gaps``: a_s = ½(α_l − α_{K−l}), shape (scenarios, entries). ``masses``: their weights; None for the worst
    scenario.
    """
    scenarios, entries = gaps.shape
    zero_errors = np.abs(gaps.sum(axis=1))
    columns = np.eye(scenarios) if masses is not None else np.ones((scenarios, 1))
    share = masses if masses is not None else np.ones(1)
    scale = float(masses @ zero_errors) if masses is not None else float(zero_errors.max())
    rows = np.block([[-gaps, columns], [gaps, columns]])
    limits = np.concatenate([1.0 - gaps.sum(axis=1), 1.0 + gaps.sum(axis=1)])

    def utility(upper: Array) -> float:
        errors = np.abs(gaps @ (1.0 - upper))
        return 1.0 - float(masses @ errors if masses is not None else errors.max()) / scale

    return LinearGoal(np.concatenate([np.zeros(entries), share / scale]), utility, 1.0 - 1.0 / scale, rows, limits)


class CanonicalGoal:
    """The goal (1−κ)·w + κ·(the plain mean of γ), and how its values and bounds relate to those of w."""

    def __init__(self, goal: LinearGoal, entries: int) -> None:
        self.goal = goal  # w
        self.weights = (1 - KAPPA) * goal.weights  # of γ and the goal's own variables, shape (entries + auxiliaries,)
        self.weights[:entries] += KAPPA / entries
        self.offset = (1 - KAPPA) * goal.offset  # what weights·(γ, u) lacks to the value

    def value(self, noise: NoiseFunction) -> float:
        """Return the canonical value of γ."""
        upper = noise.values[noise.K // 2 + 1 :]
        return (1 - KAPPA) * self.goal.utility(upper) + KAPPA * float(upper.sum()) / upper.size

    def utility(self, noise: NoiseFunction) -> float:
        """Return the utility of γ: the value without the mean."""
        return self.goal.utility(noise.values[noise.K // 2 + 1 :])

    @staticmethod
    def utility_bound(bound: float) -> float:
        """Return the bound on the utility that a bound on the canonical value implies: the mean is never negative."""
        return bound / (1 - KAPPA) * (1 + 2.0**-50)
