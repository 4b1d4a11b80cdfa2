"""Privacy loss distribution (PLD) with a bound on rounding: its δ is never too small.

The distribution itself is that of ``dp_accounting``. Guard: one transform of N points errs in each coefficient by at
most η = `FFT_ERROR`·log₂N times the sum of its input, which is ≤ 1. A k-th power then errs by k(η + `POWER_ERROR`) and
the inverse transform by η. A transform preserves the 2-norm up to √N and Σ|e_i| ≤ √N·‖e‖₂, so the masses err in sum by
at most √N·((k+1)η + k·`POWER_ERROR`); and no δ moves by more than the masses do in sum. Errors of the inputs grow
k-fold. Tails that are cut are moved to an infinite loss by the library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from darrm_opt.accounting.composition.optimal import epsilon_at_delta, non_negative
from darrm_opt.accounting.errors import TooMuchWork
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import ULP, multiple_up, up

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import DensePLDPmf, PLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

FFT_ERROR = 4 * ULP
"""Error of one stage of a Fourier transform, per factor of two in its length. A butterfly of radix r ≤ 11
with its twiddle factor does at most r+4 roundings of ½ ulp on a path, 2.2 ulps per bit; the rest covers
the twiddles' own error."""

POWER_ERROR = 8 * ULP
"""Relative error of a complex power, per factor: k·|argument| ≤ kπ and k·|log| carry one rounding each."""

MAX_CELLS = 1 << 24
"""Most cells of a composed PLD, about a gigabyte at work; beyond it `TooMuchWork`."""

TRUNCATION = 1e-15
"""Tail mass that one composition may move to an infinite loss: it adds to δ, so it costs tightness only."""


@dataclass(frozen=True, eq=False)
class Pld:
    """A privacy loss distribution that dominates a mechanism, or several run one after the other.

    Attributes:
        discretisation: h [nats]; every finite loss is a multiple of it.
        max_loss: no finite loss is above it [nats].
        mass_error: bound on the sum of the masses' rounding errors [probability].
        mass: the library's probability mass function.
    """

    discretisation: float
    max_loss: float
    mass_error: float
    mass: PLDPmf

    @property
    def guard(self) -> float:
        """What is added to every δ so that rounding cannot have made it too small [probability]."""
        # A dot product of n terms rounds n times; a loss, index·h, is off by an ulp of itself, and δ by no more.
        return up(self.mass_error + (self.mass.size + 4 * self.max_loss + 8) * ULP, 4)

    def delta(self, epsilon: float) -> float:
        """Return a δ in [0, 1] that holds at ``epsilon`` ≥ 0 [nats]."""
        epsilon = non_negative(epsilon, "epsilon", "a number of nats, at least 0")
        delta = float(self.mass.get_delta_for_epsilon(min(epsilon, 2 * self.max_loss + 1)))
        return min(1.0, up(max(delta, 0.0) + self.guard, 2))

    def epsilon(self, delta: float) -> float:
        """Return an ε [nats] that holds at ``delta`` [probability] in [0, 1).

        Raises:
            DeltaTooSmall: no finite ε is proved at this δ.
        """
        reason = "an infinite loss has that probability, the guard for rounding included"
        delta_without_guard = Privacy(0.0, delta).delta - self.guard
        guess = float(self.mass.get_epsilon_for_delta(delta_without_guard)) if delta_without_guard > 0 else None
        return epsilon_at_delta(self.delta, delta, self.max_loss, reason, guess)

    @property
    def library(self) -> PrivacyLossDistribution:
        """The same as a ``dp_accounting`` PrivacyLossDistribution, to be composed with others there.

        The library does not know ``guard``: add it to each δ that it computes.
        """
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.PrivacyLossDistribution(self.mass)

    def repeated(self, k: int) -> Pld:
        """Return the PLD of ``k`` ≥ 1 adaptive runs.

        Raises:
            InvalidInput: k is not a whole number ≥ 1.
            TooMuchWork: the result would have more than `MAX_CELLS` cells.
        """
        k = whole_number(k, "k", "a whole number of mechanisms, at least 1")
        if k == 1:
            return self
        mass = self.mass.to_dense_pmf()
        if k * mass.size > MAX_CELLS:  # else it is affordable before any tail is cut
            self._afford(_composed_cells(mass, k))
        total = mass.self_compose(k, TRUNCATION)
        points = 2 * max(mass.size, total.size)
        eta = FFT_ERROR * math.log2(points)
        fourier = math.sqrt(points) * ((k + 1) * eta + k * POWER_ERROR)
        input_error = math.expm1(min(1.0, k * self.mass_error))  # ‖a‖ ≤ 1 + error, to the power k
        return Pld(self.discretisation, multiple_up(k, self.max_loss), up(input_error + fourier, 8), total)

    def then(self, other: Pld) -> Pld:
        """Return the PLD of this and ``other`` together, on their common discretisation.

        Raises:
            InvalidInput: the discretisations differ.
            TooMuchWork: the result would have more than `MAX_CELLS` cells.
        """
        if other.discretisation != self.discretisation:
            raise InvalidInput("discretisation", other.discretisation, f"{self.discretisation!r}, as of the first PLD")
        first, second = self.mass.to_dense_pmf(), other.mass.to_dense_pmf()
        points = 2 * (first.size + second.size)
        self._afford(points)
        fourier = 3 * math.sqrt(points) * FFT_ERROR * math.log2(points)
        error = self.mass_error + other.mass_error * (1 + self.mass_error) + fourier
        return Pld(
            self.discretisation, up(self.max_loss + other.max_loss, 1), up(error, 8), first.compose(second, TRUNCATION)
        )

    def _afford(self, cells: int) -> None:
        if cells > MAX_CELLS:
            raise TooMuchWork(
                f"a PLD at discretisation {self.discretisation:g} would need {cells} cells, more than {MAX_CELLS}. "
                "Use a coarser discretisation, or optimal_composition()."
            )


def _composed_cells(mass: DensePLDPmf, k: int) -> int:
    """Return how many cells the library's k-fold composition would have, before it is made.

    It cuts tails by bounds of Chernoff at few, not too small orders: for very large k they keep a
    share of all k·size cells.
    """
    from dp_accounting.pld import common

    masses = mass._probs.tolist()  # noqa: SLF001 - the library says how long a result would be of masses only
    low, high = common.compute_self_convolve_bounds(masses, k, TRUNCATION)
    return max(1, int(high - low) + 1)
