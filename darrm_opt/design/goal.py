"""Linear goals: the objective of a program.

    maximise    weights · (γ, u) + offset        γ: the upper half; u: auxiliary variables in [0, 1], often none
    subject to  rows · (γ, u) ≤ limits           besides the privacy rows, which do not involve u

An objective with weights needs no u; those of `darrm_opt.design.scenarios` do. Optima are not unique, and weights
vanish near K/2, where γ is undetermined. The *canonical* goal adds a small share κ of the plain mean of γ, which makes
the optimum unique in practice and equal for every backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from darrm_opt.noise import Array, NoiseFunction

KAPPA = 1e-6
"""Share of the plain mean in the canonical goal: far above the solvers' dual tolerances (`backends.row_scale`), far
below what users notice."""


@dataclass(frozen=True, eq=False, repr=False)
class LinearGoal:
    """A linear goal over γ's upper half and auxiliary variables."""

    weights: Array  # shape (entries + auxiliaries,)
    utility: Callable[[Array], float]  # of a γ, from its upper half, shape (entries,)
    offset: float  # utility − weights·(γ, u)
    rows: Array  # shape (many, entries + auxiliaries)
    limits: Array  # shape (many,)


class CanonicalGoal:
    """The goal (1−κ)·w + κ·(the plain mean of γ), and the conversion of its values and bounds to those of w."""

    def __init__(self, goal: LinearGoal, entries: int) -> None:
        self.goal = goal  # w
        self.weights = (1 - KAPPA) * goal.weights  # of γ and the goal's own variables, shape (entries + auxiliaries,)
        self.weights[:entries] += KAPPA / entries
        self.offset = (1 - KAPPA) * goal.offset  # value − weights·(γ, u)

    def value(self, noise: NoiseFunction) -> float:
        """Return the canonical value of γ."""
        return (1 - KAPPA) * self.utility(noise) + KAPPA * float(noise.upper_half.sum()) / noise.upper_half.size

    def utility(self, noise: NoiseFunction) -> float:
        """Return the utility of γ: the value without the mean."""
        return self.goal.utility(noise.upper_half)

    @staticmethod
    def utility_bound(bound: float) -> float:
        """Return the bound on the utility implied by a bound on the canonical value: the mean is never negative."""
        return bound / (1 - KAPPA) * (1 + 2.0**-50)
