"""Privacy loss distributions (PLD): composition by convolution, through Google's ``dp_accounting``.

A PLD lives on the multiples of a discretisation h. Three things could make its δ too small, and each is excluded:

* *Discretisation.* An (ε, δ) mechanism has the losses ±ε only: where h·n = ε (up to an ulp, upward), nothing is rounded
  in between. A profile is entered by pessimistic connect-the-dots: it is convex in e^ε, so the chord between its values
  on the grid lies above it.
* *Truncation.* Tails that are cut are moved to an infinite loss by the library.
* *Rounding, of the Fourier transforms above all.* The library does not bound it (its answer has been seen 6e-9 below
  the exact one). `Pld.guard` does, and is added to every δ that is returned.

The guard: one transform of N points errs in each coefficient by at most η = `FFT_ERROR`·log₂N times the sum of its
input, which is ≤ 1. A k-th power then errs by k(η + `POWER_ERROR`) and the inverse transform by η. A transform
preserves the 2-norm up to √N and Σ|e_i| ≤ √N·‖e‖₂, so the masses err in sum by at most √N·((k+1)η + k·`POWER_ERROR`);
and no δ moves by more than the masses do in sum. Errors of the inputs grow k-fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from darrm_opt.accounting.composition.optimal import (
    Events,
    checked_mechanisms,
    count_events,
    epsilon_at_delta,
    non_negative,
)
from darrm_opt.accounting.errors import TooMuchWork
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import require
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.rounding import ULP, float_above, multiple_up, up

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
    """A privacy loss distribution that dominates a mechanism, or several run one after the other."""

    discretisation: float  # h [nats]; every finite loss is a multiple of it
    max_loss: float  # no finite loss is above it [nats]
    mass_error: float  # bound on the sum of the masses' rounding errors [probability]
    mass: PLDPmf  # the library's probability mass function

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
        """Return an ε [nats] that holds at ``delta`` [probability] in [0, 1)."""
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
        """Return the PLD of ``k`` ≥ 1 adaptive runs."""
        k = whole_number(k, "k", "a whole number of mechanisms, at least 1")
        if k == 1:
            return self
        mass = self.mass.to_dense_pmf()
        if k * mass.size > MAX_CELLS:  # else it is affordable before any tail is cut
            self._afford(_composed_cells(mass, k))
        total = mass.self_compose(k, TRUNCATION)
        # One transform forward, a k-th power, one back: the guard of the head of this file.
        points = 2 * max(mass.size, total.size)
        eta = FFT_ERROR * math.log2(points)
        fourier = math.sqrt(points) * ((k + 1) * eta + k * POWER_ERROR)
        input_error = math.expm1(min(1.0, k * self.mass_error))  # ‖a‖ ≤ 1 + error, to the power k
        return Pld(self.discretisation, multiple_up(k, self.max_loss), up(input_error + fourier, 8), total)

    def then(self, other: Pld) -> Pld:
        """Return the PLD of this and ``other`` together, on their common discretisation."""
        if other.discretisation != self.discretisation:
            raise InvalidInput("discretisation", other.discretisation, f"{self.discretisation!r}, as of the first PLD")
        first, second = self.mass.to_dense_pmf(), other.mass.to_dense_pmf()
        points = 2 * (first.size + second.size)
        self._afford(points)
        # Two transforms forward and one back, each off by √N·η in the sum of the masses.
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


MASS_ERROR = 4 * ULP
"""Sum of the rounding errors of the masses of one (ε, δ) mechanism."""

DEFAULT_CELLS = 1000
"""Cells up to the largest ε of a sequence whose ε's have no coarser common divisor."""

_DISCRETISATION = "a number of nats above 0"


@dataclass(frozen=True)
class PldTotal:
    """Total privacy by a PLD, with its discretisation and its guard for rounding."""

    privacy: Privacy  # total (ε, δ)
    discretisation: float  # h of the PLD [nats]
    guard: float  # the part of δ that pays for rounding [probability]


def pld_composition(
    epsilon: float, delta: float, k: int, total_delta: float, discretisation: float | None = None
) -> PldTotal:
    """Return the total ε at a total δ of k (ε, δ)-DP mechanisms, by their PLD.

    ``discretisation``: the nearest h that divides ε is used; ε itself, the default, loses nothing.

    Guarantees: Sound. Exceeds `optimal_composition` only by the cost of the guard.
    Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots); the guard is ours.

    >>> round(pld_composition(0.2676, 0.0003, 100, 0.03).privacy.epsilon, 5)
    11.56976
    """
    return pld_composition_of_sequence({Privacy(epsilon, delta): k}, total_delta, discretisation)


def pld_composition_of_sequence(events: Events, total_delta: float, discretisation: float | None = None) -> PldTotal:
    """Return the total ε at a total δ of mechanisms with different parameters, by their PLDs.

    ``discretisation`` is by default the greatest common divisor of the ε's as decimals, if it is coarse enough
    (`DEFAULT_CELLS` in the largest ε), else that part of the largest ε.

    Guarantees: Sound; the dots of an ε that h does not divide are connected above it. The same for every order.
    """
    counts = count_events(events)
    total_delta = Privacy(0.0, total_delta).delta
    step = common_discretisation([event.epsilon for event in counts], discretisation)
    if not counts:
        return PldTotal(Privacy(0.0, total_delta), step, 0.0)
    parts = [pld_of(event, step).repeated(count) for event, count in sorted(counts.items(), key=_sort_key)]
    total = reduce(Pld.then, parts)
    return PldTotal(Privacy(total.epsilon(total_delta), total_delta), step, total.guard)


def pld_of(event: Privacy, discretisation: float) -> Pld:
    """Return the PLD of one (ε, δ)-DP mechanism, ``event``: losses −ε, ε and ∞.

    Where ``discretisation`` does not divide ε (up to an ulp), the profile of these three losses is entered by
    connecting its dots, which costs far less than rounding ε up to a multiple.
    """
    epsilon, delta, _ = checked_mechanisms(event.epsilon, event.delta, 1)
    step = _check_discretisation(discretisation)
    cells = math.ceil(Fraction(epsilon) / Fraction(step))
    loss = multiple_up(cells, step)
    if loss > epsilon * (1 + 4 * ULP):
        return pld_from_profile(profile_of_event(event), discretisation=step, max_loss=loss)
    truth = 1 / (1 + math.exp(-loss))
    lie = math.exp(-loss) * truth
    masses = {cells: (1 - delta) * truth, -cells: (1 - delta) * lie} if cells else {0: 1 - delta}
    mass = _pmf().create_pmf(masses, step, delta, pessimistic_estimate=True)
    return Pld(step, loss, MASS_ERROR, mass)


def profile_of_event(event: Privacy) -> Callable[[Array], Array]:
    """Return the profile ε′ ↦ δ(ε′) of the hardest (ε, δ)-DP mechanism, rounded up.

    Source: δ + (1−δ)·Σ p_x(1 − e^(ε′−x))₊ over the losses x = ±ε of randomised response.
    """
    truth = 1 / (1 + math.exp(-event.epsilon))
    lie = math.exp(-event.epsilon) * truth

    def profile(epsilons: Array) -> Array:
        truth_excess = -np.expm1(np.minimum(epsilons - event.epsilon, 0.0))
        lie_excess = -np.expm1(np.minimum(epsilons + event.epsilon, 0.0))
        pure = truth * truth_excess + lie * lie_excess
        # One subtraction may be off by an ulp of ε′ ± ε, and δ by no more; the rest is relative.
        rounding = 2 * ULP * (np.abs(epsilons) + event.epsilon) * (pure > 0)
        return np.minimum(1.0, (event.delta + (1 - event.delta) * (pure + rounding)) * (1 + 16 * ULP))

    return profile


def pld_from_profile(profile: Callable[[Array], Array], *, discretisation: float, max_loss: float) -> Pld:
    """Return the PLD of a mechanism known by its privacy profile ε ↦ δ(ε).

    ``profile`` maps increasing ε's to δ's never below the exact ones, for both orders of a pair of neighbours
    (`symmetric_profile` where it is known at ε ≥ 0 only). What is lost beyond ``max_loss`` counts as infinite, so
    choose it where the profile has become flat.

    Guarantees: Its δ is at least the profile at every ε ≥ 0, rounding included.
    Source: Zhu, Dong, Wang 2022 (a profile defines a dominating pair); Doroshenko et al. 2022, Algorithm 1.
    """
    step, end = _check_discretisation(discretisation), non_negative(max_loss, "max_loss", _DISCRETISATION)
    if 2 * end / step > MAX_CELLS:
        raise TooMuchWork(f"max_loss = {end:g} at discretisation {step:g} needs more than {MAX_CELLS} cells.")
    cells = max(1, math.ceil(end / step))
    # Evaluated a little left of each grid point, so that the rounding of the grid cannot make δ too small.
    grid = np.arange(-cells, cells + 1) * step
    deltas = np.asarray(profile(grid - 2 * ULP * np.abs(grid)), dtype=np.float64)  # a profile only falls
    if deltas.shape != grid.shape or not np.all((deltas >= 0) & (deltas <= 1)):
        raise InvalidInput("profile", deltas.tolist(), f"{grid.size} probabilities, one for each epsilon")
    # δ ≥ 1 − e^ε for every mechanism, and a bound at a smaller ε is a bound here.
    deltas = np.minimum.accumulate(np.maximum(deltas, np.maximum(0.0, -np.expm1(grid))))
    mass = _pmf().create_pmf_pessimistic_connect_dots_fixed_gap(step, -cells, cells, deltas)
    # A mass is a second difference of δ's over e^h − 1, and the differences add up to 1 at most; where rounding makes
    # it negative the library sets it to 0, which only adds.
    rounding = 16 * ULP / math.tanh(step / 2)
    return Pld(step, multiple_up(cells, step), rounding, mass)


def symmetric_profile(profile: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the profile at every real ε of a mechanism known at ε ≥ 0, where neighbours are symmetric.

    For a pair (P, Q) and its reverse, δ_PQ(−ε) = 1 − e^(−ε)(1 − δ_QP(ε)).
    """

    def full_profile(epsilons: Array) -> Array:
        deltas = np.asarray(profile(np.abs(epsilons)), dtype=np.float64)
        reverse = 1 - np.exp(np.minimum(epsilons, 0.0)) * (1 - deltas)
        return np.where(epsilons < 0, np.minimum(1.0, reverse + 4 * ULP), deltas)

    return full_profile


def common_discretisation(epsilons: list[float], discretisation: float | None = None) -> float:
    """Return the h [nats] that a sequence of (ε, δ) mechanisms is put on; see `pld_composition_of_sequence`."""
    positive = sorted({epsilon for epsilon in epsilons if epsilon > 0})
    if not positive:
        return 1.0 if discretisation is None else _check_discretisation(discretisation)
    largest = positive[-1]
    if discretisation is not None:
        if len(positive) > 1:
            return _check_discretisation(discretisation)
        return float_above(Fraction(largest) / max(1, round(largest / _check_discretisation(discretisation))))
    # The ε's as they are written: 0.3 and 0.2 have the divisor 0.1 as decimals, and 2^-54 as doubles.
    divisor = Fraction(0)
    for epsilon in positive:
        decimal = Fraction(repr(epsilon))
        divisor = Fraction(
            math.gcd(divisor.numerator * decimal.denominator, decimal.numerator * divisor.denominator),
            divisor.denominator * decimal.denominator,
        )
    if Fraction(repr(largest)) / divisor > DEFAULT_CELLS:
        return largest / DEFAULT_CELLS
    return max(float_above(Fraction(epsilon) / int(Fraction(repr(epsilon)) / divisor)) for epsilon in positive)


def _sort_key(item: tuple[Privacy, int]) -> tuple[float, float]:
    return item[0].epsilon, item[0].delta


def _check_discretisation(discretisation: float) -> float:
    return real_number(discretisation, "discretisation", _DISCRETISATION, above=0, below=math.inf)


def _pmf() -> Any:
    return require("dp_accounting.pld.pld_pmf", "A PLD")
