"""Privacy loss distributions (PLD): composition by convolution.

A PLD has its losses on the multiples of a discretisation h. Three things could make its δ too small, and each is
excluded:

* *Discretisation.* An (ε, δ) mechanism only has the losses ±ε: if h·n = ε (up to an ulp, upward), nothing is rounded. A
  profile is entered by pessimistic connect-the-dots: it is convex in e^ε, so the chord between its values on the grid
  lies above it.
* *Truncation.* Truncated tails are moved up: to the least remaining loss, or to an infinite one.
* *Rounding*, above all of the Fourier transforms (without a bound, results 6e-9 below the exact one have occurred).
  `Pld.guard` bounds it, and is added to every δ.

The guard: one transform of N points errs in each coefficient by at most η = `FFT_ERROR`·log₂N times the sum of its
input, here ≤ 1. A k-th power then errs by k(η + `POWER_ERROR`) and the inverse transform by η. A transform preserves
the 2-norm up to √N and Σ|e_i| ≤ √N·‖e‖₂, so the masses err in sum by at most √N·((k+1)η + k·`POWER_ERROR`); and no δ
changes by more than the masses do in sum. Errors of the inputs grow k-fold. Masses of a profile that is not convex may
add up to s > 1: then all of that grows by s^k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.composition.optimal import Events, checked_mechanisms, count_events, epsilon_at_delta, nats
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput, TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.optional_packages import require
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, float_above, multiple_up, up

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


FFT_ERROR = 4 * ULP
"""Error of one stage of a Fourier transform, per factor of two in its length. A butterfly of radix r ≤ 11 with its
twiddle factor has at most r+4 roundings of ½ ulp on a path, 2.2 ulps per bit; the rest covers the error of the
twiddles."""

POWER_ERROR = 8 * ULP
"""Relative error of a complex power, per factor: k·|argument| ≤ kπ and k·|log| carry one rounding each."""

MAX_CELLS = 1 << 24
"""Maximum number of cells of a composed PLD, about a gigabyte of work space; beyond it `TooMuchWork`."""

TRUNCATION = 1e-15
"""Tail mass that one composition may move to an infinite loss: it adds to δ, so it only affects tightness."""


NORMAL_ORDERS, MAX_EXPONENT = np.geomspace(0.2, 2, 8), 600.0
"""Orders at which the tails of a composition are bounded, relative to the best one for a normal law; and the largest
exponent at one of them."""


@dataclass(frozen=True, eq=False)
class Pld:
    """A privacy loss distribution that dominates a mechanism, or a composition of several."""

    discretisation: float  # h [nats]; every finite loss is a multiple of it
    max_loss: float  # no finite loss is above it [nats]
    mass_error: float  # bound on the sum of the masses' rounding errors [probability]
    lowest: int  # the least finite loss, in steps of h
    masses: Array  # probabilities of the losses from there on, shape (cells,)
    infinite: float  # probability of an infinite loss

    @property
    def guard(self) -> float:
        """Added to every δ so that rounding cannot make it too small [probability]."""
        # a dot product of n terms rounds n times; a loss, index·h, is off by an ulp of itself, and δ by no more.
        return up(self.mass_error + (self.masses.size + 4 * self.max_loss + 8) * ULP, 4)

    def delta(self, epsilon: float) -> float:
        """Return a δ in [0, 1] that holds at ``epsilon`` ≥ 0 [nats]."""
        epsilon = nats(epsilon, "epsilon")
        delta = self._delta(min(epsilon, 2 * self.max_loss + 1))
        return float(upper_bound(up(max(delta, 0.0) + self.guard, 2), 1.0))

    def _delta(self, epsilon: float) -> float:
        """Return δ without the guard."""
        losses = self._losses
        above = int(np.searchsorted(losses, epsilon, side="right"))
        first = self.masses.size - losses.size + above
        return float(self.infinite + np.dot(-np.expm1(epsilon - losses[above:]), self.masses[first:]))

    @cached_property
    def _losses(self) -> Array:
        """The losses above 0."""
        return np.asarray(np.arange(max(self.lowest, 1), self.lowest + self.masses.size) * self.discretisation)

    def epsilon(self, delta: float) -> float:
        """Return an ε [nats] that holds at ``delta`` [probability] in [0, 1)."""
        reason = "that is the probability of an infinite loss, rounding included"
        return epsilon_at_delta(self.delta, delta, self.max_loss, reason, self._guess(Privacy(0.0, delta).delta))

    def _guess(self, delta: float) -> float | None:
        """Return an estimate of ε on the chord of δ against e^ε between two losses; None if it is not above 0."""
        losses, target = self._losses, delta / (1 + 2 * ULP) - self.guard
        masses = self.masses[self.masses.size - losses.size :]
        on_data = self.infinite + np.cumsum(masses[::-1])[::-1]
        on_neighbour = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
        with np.errstate(over="ignore", invalid="ignore"):
            within = on_data - np.exp(losses) * on_neighbour <= target
        place = int(np.argmax(within)) if within.any() else losses.size - 1
        if target <= 0 or place < 0 or not 0 < on_neighbour[place] < on_data[place] - target:
            return None
        return math.log(float(on_data[place] - target) / float(on_neighbour[place]))

    @property
    def library(self) -> PrivacyLossDistribution:
        """The same as a ``dp_accounting`` PrivacyLossDistribution, to be composed with others there.

        The library does not know ``guard``: add it to each δ that it computes.
        """
        return library_distribution(self)

    def repeated(self, k: int) -> Pld:
        """Return the PLD of ``k`` ≥ 1 adaptive runs."""
        k = whole_number(k, "k", "a whole number of mechanisms, at least 1")
        if k == 1:
            return self
        growth = k * math.log(self._size)
        if growth > MAX_EXPONENT:  # no bound is known
            return Pld(self.discretisation, multiple_up(k, self.max_loss), 0.0, 0, np.zeros(1), 1.0)
        low, high = _ends(self.masses, k)
        cells = high - low + 1
        _afford(self.discretisation, cells)
        transform = fast_length(max(cells, self.masses.size))
        power = np.fft.irfft(np.fft.rfft(self.masses, transform) ** k, transform)
        masses = np.roll(power, -low)[:cells]  # the transform wraps around
        infinite = TRUNCATION - math.expm1(k * math.log1p(-self.infinite)) if self.infinite < 1 else 1.0
        # One transform forward, a k-th power, one back: the guard as in the module docstring.
        points = 2 * max(self.masses.size, cells)
        eta = FFT_ERROR * math.log2(points)
        fourier = math.sqrt(points) * ((k + 1) * eta + k * POWER_ERROR)
        input_error = math.expm1(min(1.0, k * self.mass_error))  # ‖a‖ ≤ 1 + error, to the power k
        error = up((input_error + fourier) * math.exp(growth), 8 + 2 * math.ceil(growth))
        return Pld(
            self.discretisation, multiple_up(k, self.max_loss), error, k * self.lowest + low, masses, min(1.0, infinite)
        )

    @staticmethod
    def of_all(parts: Sequence[tuple[Pld, int]]) -> Pld:
        """Return the PLD of several mechanisms, each run a number of times, on one discretisation; fails early."""
        if len(parts) > 1:
            # Convolved successively, n equal distributions grow with the square root of n.
            ends = [_ends(pld.masses, count) for pld, count in parts]
            cells = math.ceil(math.sqrt(len(parts)) * sum(high - low + 1 for low, high in ends))
            _afford(parts[0][0].discretisation, cells)
        return reduce(Pld.then, [pld.repeated(count) for pld, count in parts])

    def then(self, other: Pld) -> Pld:
        """Return the PLD of this and ``other`` together, on their common discretisation."""
        if other.discretisation != self.discretisation:
            raise InvalidInput("discretisation", other.discretisation, f"{self.discretisation!r}, as of the first PLD")
        points = 2 * (self.masses.size + other.masses.size)
        _afford(self.discretisation, points)
        transform = fast_length(points // 2 - 1)
        product = np.fft.rfft(self.masses, transform) * np.fft.rfft(other.masses, transform)
        masses = np.fft.irfft(product, transform)[: points // 2 - 1]
        first = min(int(np.searchsorted(np.cumsum(np.abs(masses)), TRUNCATION / 2)), masses.size - 1)  # keep one cell
        masses[first] += masses[:first].sum()
        last = masses.size - int(np.searchsorted(np.cumsum(np.abs(masses[::-1])), TRUNCATION / 2))
        last = max(last, first + 1)
        # Two transforms forward and one back, each with an error of √N·η in the sum of the masses.
        fourier = 3 * math.sqrt(points) * FFT_ERROR * math.log2(points)
        first_size, size = self._size, other._size
        error = self.mass_error * size + other.mass_error * (first_size + self.mass_error) + fourier * first_size * size
        return Pld(
            self.discretisation,
            up(self.max_loss + other.max_loss, 1),
            up(error, 8),
            self.lowest + other.lowest + first,
            masses[first:last],
            min(1.0, self.infinite + other.infinite - self.infinite * other.infinite + float(masses[last:].sum())),
        )

    @property
    def _size(self) -> float:
        """The sum of the absolute masses, at least 1, without the part from rounding."""
        return max(1.0, float(np.abs(self.masses).sum()) - self.mass_error)


def library_distribution(*directions: Pld, guarded: bool = False) -> PrivacyLossDistribution:
    """Return a ``dp_accounting`` PrivacyLossDistribution of one PLD, or of those of a record removed and added.

    ``guarded``: whether the infinite losses include the guard.
    """
    pld_pmf = require("dp_accounting.pld.pld_pmf", "The conversion")
    distributions = require("dp_accounting.pld.privacy_loss_distribution", "The conversion")
    masses = []
    for pld in directions:
        infinite = min(1.0, up(pld.infinite + pld.guard, 2)) if guarded else pld.infinite
        masses.append(
            pld_pmf.DensePLDPmf(pld.discretisation, pld.lowest, pld.masses, infinite, pessimistic_estimate=True)
        )
    distribution: PrivacyLossDistribution = distributions.PrivacyLossDistribution(*masses)
    return distribution


def _afford(discretisation: float, cells: int) -> None:
    """Raise an error for too many cells."""
    if cells > MAX_CELLS:
        raise TooMuchWork(
            f"a PLD at discretisation {discretisation:g} would need {cells} cells; the limit is {MAX_CELLS}. "
            "Use a coarser discretisation, or optimal_composition()."
        )


def _ends(masses: Array, k: int) -> tuple[int, int]:
    """Return the first and the last cell of k runs."""
    highest = k * (masses.size - 1)
    # a short one is computed in full.
    return _composed_cells(masses, k) if highest >= 2 * masses.size else (0, highest)


def _composed_cells(masses: Array, k: int) -> tuple[int, int]:
    """Return the first and last cell outside which a k-fold convolution has at most `TRUNCATION`."""
    # Source: Chernoff's bound of each tail, at a few orders. Masses from a transform may be slightly negative, which
    # would hide others; most laws have few atoms.
    size, cells = masses.size, np.flatnonzero(masses)
    masses, log = np.abs(masses[cells]), math.log(2 / TRUNCATION)
    total = float(masses.sum())
    if total <= TRUNCATION:  # the rest is an infinite loss
        return 0, 0
    mean = float(masses @ cells) / total
    spread = math.sqrt(k * max(float(masses @ (cells - mean) ** 2) / total, 1e-300))
    low, high = 0, k * (size - 1)
    # The best orders for a normal law, and those at which the largest loss, however rare, hardly counts.
    orders = np.concatenate([NORMAL_ORDERS * math.sqrt(2 * log) / spread, np.arange(1, 21) / size])
    for order in orders[orders * size <= MAX_EXPONENT].tolist():
        growth = np.exp(order * (cells - mean))
        high = min(high, math.ceil(k * mean + (k * math.log(float(masses @ growth)) + log) / order))
        low = max(low, math.floor(k * mean - (k * math.log(float(masses @ (1 / growth))) + log) / order))
    return min(low, high), high


def fast_length(cells: int) -> int:
    """Return the least 2^a·3^b·5^c ≥ ``cells`` with b, c ≤ 2."""
    lengths = (factor << max(0, (-(-cells // factor) - 1).bit_length()) for factor in (1, 3, 5, 9, 15, 25, 45, 75, 225))
    return min(lengths)


MASS_ERROR = 4 * ULP  # sum of the rounding errors of the masses of one (ε, δ) mechanism
DEFAULT_CELLS = 1000  # number of cells up to the largest ε of a sequence whose ε have no coarser common divisor

_DISCRETISATION = "a number of nats above 0"


@dataclass(frozen=True)
class PldTotal:
    """Total privacy by a PLD, with its discretisation and its guard for rounding."""

    privacy: Privacy  # total (ε, δ)
    discretisation: float  # h of the PLD [nats]
    guard: float  # the part of δ charged for rounding [probability]


def pld_composition(
    epsilon: float, delta: float, k: int, total_delta: float, discretisation: float | None = None
) -> PldTotal:
    """Return the total ε at a total δ of k (ε, δ)-DP mechanisms, by their PLD.

    ``discretisation``: the nearest h that divides ε is used; the default, ε itself, loses nothing.

    Guarantees: Sound. Exceeds `optimal_composition` only by the cost of the guard.
    Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots).

    >>> round(pld_composition(0.2676, 0.0003, 100, 0.03).privacy.epsilon, 5)
    11.56976
    """
    return pld_composition_of_sequence({Privacy(epsilon, delta): k}, total_delta, discretisation)


def pld_composition_of_sequence(events: Events, total_delta: float, discretisation: float | None = None) -> PldTotal:
    """Return the total ε at a total δ of mechanisms with different parameters, by their PLDs.

    ``discretisation``: by default the greatest common divisor of the ε as decimals, if it is coarse enough
    (`DEFAULT_CELLS` in the largest ε), else that part of the largest ε.

    Guarantees: Sound, by connecting the dots of an ε that h does not divide from above; independent of the order.
    """
    counts = count_events(events)
    total_delta = Privacy(0.0, total_delta).delta
    step = common_discretisation([event.epsilon for event in counts], discretisation)
    if not counts:
        return PldTotal(Privacy(0.0, total_delta), step, 0.0)
    total = Pld.of_all([(pld_of(event, step), count) for event, count in sorted(counts.items(), key=_sort_key)])
    return PldTotal(Privacy(total.epsilon(total_delta), total_delta), step, total.guard)


def pld_of(event: Privacy, discretisation: float) -> Pld:
    """Return the PLD of one (ε, δ)-DP mechanism, ``event``: losses −ε, ε and ∞.

    If ``discretisation`` does not divide ε (up to an ulp), the profile of these losses is entered by connecting its
    dots, which costs far less than rounding ε up to a multiple.
    """
    epsilon, delta, _ = checked_mechanisms(event.epsilon, event.delta, 1)
    step = _check_discretisation(discretisation)
    cells = math.ceil(Fraction(epsilon) / Fraction(step))
    loss = multiple_up(cells, step)
    if loss > epsilon * (1 + 4 * ULP):
        return pld_from_profile(profile_of_event(event), discretisation=step, max_loss=loss)
    if 2 * cells > MAX_CELLS:
        raise TooMuchWork(f"epsilon = {epsilon:g} at discretisation {step:g} needs more than {MAX_CELLS} cells.")
    masses = np.zeros(2 * cells + 1)
    masses[-1] = (1 - delta) / (1 + math.exp(-loss))
    masses[0] = (1 - delta) * math.exp(-loss) / (1 + math.exp(-loss)) if cells else 1 - delta
    return Pld(step, loss, MASS_ERROR, -cells, masses, delta)


def profile_of_event(event: Privacy) -> Callable[[Array], Array]:
    """Return the profile ε′ ↦ δ(ε′) of the worst (ε, δ)-DP mechanism, rounded up.

    Source: δ + (1−δ)·Σ p_x(1 − e^(ε′−x))₊ over the losses x = ±ε of randomised response.
    """
    truth = 1 / (1 + math.exp(-event.epsilon))
    lie = math.exp(-event.epsilon) * truth

    def profile(epsilons: Array) -> Array:
        truth_excess = -np.expm1(np.minimum(epsilons - event.epsilon, 0.0))
        lie_excess = -np.expm1(np.minimum(epsilons + event.epsilon, 0.0))
        pure = truth * truth_excess + lie * lie_excess
        # One subtraction may err by an ulp of ε′ ± ε, and δ by no more; the rest is relative.
        rounding = 2 * ULP * (np.abs(epsilons) + event.epsilon) * (pure > 0)
        return np.minimum(1.0, (event.delta + (1 - event.delta) * (pure + rounding)) * (1 + 16 * ULP))

    return profile


def pld_from_profile(profile: Callable[[Array], Array], *, discretisation: float, max_loss: float) -> Pld:
    """Return the PLD of a mechanism known by its privacy profile ε ↦ δ(ε).

    ``profile`` maps increasing ε to δ never below the exact ones, for both orders of a pair of neighbours
    (`symmetric_profile` if it is known only at ε ≥ 0). Losses beyond ``max_loss`` count as infinite, so choose it where
    the profile is flat.
    Guarantees: Its δ is at least the profile at every ε ≥ 0, rounding included.
    Source: Zhu, Dong, Wang 2022 (a profile defines a dominating pair); Doroshenko et al. 2022, Algorithm 1.
    """
    step, end = _check_discretisation(discretisation), nats(max_loss, "max_loss")
    if 2 * end / step > MAX_CELLS:
        raise TooMuchWork(f"max_loss = {end:g} at discretisation {step:g} needs more than {MAX_CELLS} cells.")
    cells = max(1, math.ceil(end / step))
    # Evaluated slightly left of each grid point, so that the rounding of the grid cannot make δ too small.
    grid = np.arange(-cells, cells + 1) * step
    deltas = np.asarray(profile(grid - 2 * ULP * np.abs(grid)), dtype=np.float64)  # a profile only decreases
    if deltas.shape != grid.shape or not np.all((deltas >= 0) & (deltas <= 1)):
        raise InvalidInput("profile", deltas.tolist(), f"{grid.size} probabilities, one for each epsilon")
    # δ ≥ 1 − e^ε for every mechanism, and a bound at a smaller ε is a bound here.
    deltas = np.minimum.accumulate(np.maximum(deltas, np.maximum(0.0, -np.expm1(grid))))
    # The chords of δ against e^ε: the difference of their slopes is the mass on the neighbour, e^ε times as much on the
    # data. The first chord ends at ε = −∞, where δ = 1.
    falls = np.concatenate([[(1 - deltas[0]) * -math.expm1(-step)], -np.diff(deltas), [0.0]]) / -math.expm1(-step)
    # a mass is a second difference of δ over e^h − 1, and the differences add up to at most 1; if rounding makes it
    # negative it is set to 0, an increase.
    masses = np.maximum(falls[:-1] - falls[1:] * math.exp(-step), 0.0)
    rounding = 16 * ULP / math.tanh(step / 2)
    return Pld(step, multiple_up(cells, step), rounding, -cells, masses, float(deltas[-1]))


def symmetric_profile(profile: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the profile at every real ε of a mechanism with symmetric neighbours, known at ε ≥ 0.

    For a pair (P, Q) and its reverse, δ_PQ(−ε) = 1 − e^(−ε)(1 − δ_QP(ε)).
    """

    def full_profile(epsilons: Array) -> Array:
        deltas = np.asarray(profile(np.abs(epsilons)), dtype=np.float64)
        reverse = 1 - np.exp(np.minimum(epsilons, 0.0)) * (1 - deltas)
        return np.where(epsilons < 0, np.minimum(1.0, reverse + 4 * ULP), deltas)

    return full_profile


def common_discretisation(epsilons: list[float], discretisation: float | None = None) -> float:
    """Return the h [nats] for a sequence of (ε, δ) mechanisms; see `pld_composition_of_sequence`."""
    positive = sorted({epsilon for epsilon in epsilons if epsilon > 0})
    if not positive:
        return 1.0 if discretisation is None else _check_discretisation(discretisation)
    largest = positive[-1]
    if discretisation is not None:
        if len(positive) > 1:
            return _check_discretisation(discretisation)
        return float_above(Fraction(largest) / max(1, round(largest / _check_discretisation(discretisation))))
    # The ε as written: 0.3 and 0.2 have the divisor 0.1 as decimals, and 2^-54 as doubles.
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
