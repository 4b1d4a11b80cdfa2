"""Linear goals: what a program maximises for an objective.

    maximise    weights · (γ, u) + offset        γ: the upper half; u: auxiliary variables in [0, 1], often none
    subject to  rows · (γ, u) ≤ limits           beside the privacy rows, which leave u alone

An objective with weights needs no u; those of `darrm_opt.design.scenarios` do. Optima are not unique, and weights
vanish near K/2, where a solver leaves γ as it likes. The *canonical* goal adds a small share κ of the plain mean of γ,
and so makes the optimum unique in practice, and the same from every backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


class CanonicalGoal:
    """The goal (1−κ)·w + κ·(the plain mean of γ), and how its values and bounds relate to those of w."""

    def __init__(self, goal: LinearGoal, entries: int) -> None:
        self.goal = goal  # w
        self.weights = (1 - KAPPA) * goal.weights  # of γ and the goal's own variables, shape (entries + auxiliaries,)
        self.weights[:entries] += KAPPA / entries
        self.offset = (1 - KAPPA) * goal.offset  # what weights·(γ, u) lacks to the value

    def value(self, noise: NoiseFunction) -> float:
        """Return the canonical value of γ."""
        return (1 - KAPPA) * self.utility(noise) + KAPPA * float(noise.upper_half.sum()) / noise.upper_half.size

    def utility(self, noise: NoiseFunction) -> float:
        """Return the utility of γ: the value without the mean."""
        return self.goal.utility(noise.upper_half)

    @staticmethod
    def utility_bound(bound: float) -> float:
        """Return the bound on the utility that a bound on the canonical value implies: the mean is never negative."""
        return bound / (1 - KAPPA) * (1 + 2.0**-50)
