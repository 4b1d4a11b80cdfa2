"""Optimal composition: the exact total privacy of (ε, δ)-DP mechanisms; no bound can be better.

*Least possible δ.* A mechanism that reveals the record with probability δ and is blank otherwise is (ε, δ)-DP for every
ε. After k runs the record is revealed with probability 1 − (1−δ)^k, an event that never happens on a neighbour without
the record. So no sound account, at any finite ε, has a smaller δ.

*Equal mechanisms.* The worst (ε, δ)-DP mechanism leaks with probability δ and is randomised response otherwise, so with
δ₀(E) = Σ_{l: (k−2l)ε > E} C(k,l) p^(k−l) q^l (1 − e^(E−(k−2l)ε)), p = e^ε/(1+e^ε), q = 1−p,

    D(E) = 1 − (1−δ)^k (1 − δ₀(E))          for every total ε E ≥ 0,

is attained by an adaptive composition and exceeded by none. The source prints the lattice E = (k−2i)ε; the formula is
the same trade-off at every E.

*Different mechanisms.* With P = Π(1−δ_i) and the loss of randomised response summed over classes of equal ε,

    D(E) = 1 − P (1 − Σ_{x > E} mass(x)·(1 − e^(E−x))),    x = Σ_c (n_c − 2 j_c) ε_c,

is attained by a composition of (ε_i, δ_i)-DP mechanisms with parameters fixed beforehand, adaptive otherwise, and
exceeded by none. It does not depend on their order. The number of terms is the product of the class sizes.

*Randomised response* tells the truth with probability p. Its loss over k runs with l lies is (k−2l)ε, with probability
C(k,l) p^(k−l) q^l; it is the worst ε-DP mechanism to compose, so these masses decide every exact composition. They are
built outward from the mode by their ratios, (k−l)/(l+1)·e^(−ε), and normalised by their own sum: no factorials, no
overflow, and an error bound that counts operations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from darrm_opt.accounting.bounds import is_within
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, float_above, multiple_up, up
from darrm_opt.search import least_fitting

MAX_EXACT_COUNT = 64
"""Largest k for which the power is computed in rationals. Beyond it 1 − (1−δ)^k is never a double itself (with δ =
a/2^b in lowest terms its odd numerator is above 2^(b(k−1)) ≥ 2^64), so a decimal approximation decides the rounding."""

TINY_DELTA = 1e-30  # below this δ, kδ is used: it exceeds 1 − (1−δ)^k by a relative kδ/2
GUESS_ERRORS = (1e-13, 1e-9)  # expected relative errors of a guess of the least ε, usual and maximal

MAX_SECANTS, SECANT_PRECISION, MAX_EXCESS = 20, 1e-8, 20.0
"""Maximum number of steps of regula falsi before a bisection; the relative change at which they end; and the largest
ln(total/δ) used for interpolation."""

SECANT_ERRORS = (1e-11, 1e-7)
"""Relative errors of their result, usual and maximal, above the rounding of a δ that does not grow."""

_DIGITS = 120  # decimal digits: 1 − δ ≥ 1e-30 keeps more than 80 correct ones after a power and a subtraction
_MARGIN = Decimal("1e-60")  # relative charge for the decimal arithmetic, whose error is below 1e-70


def least_possible_delta(delta: float, k: int) -> float:
    """Return 1 − (1−δ)^k rounded up to the nearest double; at δ < 1e-30, kδ rounded up.

    Source: the mechanism at the top of this module.

    >>> least_possible_delta(0.5, 2)
    0.75
    """
    return least_possible_delta_of_sequence([(delta, k)])


def least_possible_delta_of_sequence(classes: Iterable[tuple[float, int]]) -> float:
    """Return 1 − Π(1−δ_c)^(k_c), rounded up, for classes (δ_c, k_c); the order does not matter."""
    leaks = sorted((delta, k) for delta, k in classes if delta > 0 and k > 0)
    tiny = [(delta, k) for delta, k in leaks if delta < TINY_DELTA]
    others = leaks[len(tiny) :]
    floor = _floor(others)
    for delta, k in tiny:
        floor = up(floor + k * delta, 2)
    return min(floor, 1.0)


def _floor(classes: list[tuple[float, int]]) -> float:
    if sum(k for _, k in classes) <= MAX_EXACT_COUNT:
        no_leak = math.prod((1 - Fraction(delta)) ** k for delta, k in classes)
        return float_above(1 - Fraction(no_leak))
    with localcontext(Context(prec=_DIGITS)):
        product = Decimal(1)
        for delta, k in classes:
            product *= (1 - Decimal(delta)) ** k
        return float_above(Fraction((1 - product) * (1 + _MARGIN)))


def optimal_composition(epsilon: float, delta: float, k: int, total_delta: float) -> Privacy:
    """Return the least total ε at a total δ, over every adaptive composition of k (ε, δ)-DP mechanisms.

    Guarantees: The returned doubles are a sound pair, above the exact optimum only by rounding: at most a relative 1e-9
    of δ₀ for k ≤ 10⁶.
    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3; Murtagh, Vadhan 2016.
    >>> round(optimal_composition(0.2676, 0.0003, 100, 0.03).epsilon, 6)
    11.569758
    """
    epsilon, delta, k = checked_mechanisms(epsilon, delta, k)
    total_delta = Privacy(0.0, total_delta).delta
    floor = least_possible_delta(delta, k)
    if not is_within(floor, total_delta):
        raise DeltaTooSmall(total_delta, floor, f"each of {k} mechanisms may leak with probability {delta!r}")
    all_losses = multiple_up(k, epsilon)
    return Privacy(
        least_epsilon(lambda total: _delta(epsilon, delta, k, total, floor, all_losses), total_delta, all_losses),
        total_delta,
    )


def optimal_delta(epsilon: float, delta: float, k: int, total_epsilon: float) -> float:
    """Return the least total δ at a total ε, over every adaptive composition of k (ε, δ)-DP mechanisms.

    Source: as `optimal_composition`.

    >>> optimal_delta(0.1, 0.0, 1, 0.1)
    0.0
    """
    epsilon, delta, k = checked_mechanisms(epsilon, delta, k)
    total_epsilon = nats(total_epsilon, "total_epsilon")
    return _delta(epsilon, delta, k, total_epsilon, least_possible_delta(delta, k), multiple_up(k, epsilon))


def add_leak(floor: float, log_no_leak: float, pure: float) -> float:
    """Return floor + e^kept_log·pure, rounded up: the probability of a leak, and the δ₀ of runs without one."""
    if pure == 0.0:
        return floor
    no_leak = math.exp(log_no_leak)
    return min(1.0, up(floor + no_leak * (1 + (2 * abs(log_no_leak) + 4) * ULP) * pure, 4))


def least_epsilon(
    delta_at: Callable[[float], float], total_delta: float, upper: float, guess: float | None = None
) -> float:
    """Return the least ε found with delta_at(ε) ≤ total_delta, by bisection between 0 and ``upper``.

    Guarantees: The result was itself evaluated, so soundness does not depend on monotonicity.
    """
    delta = delta_at(0.0)
    if delta <= total_delta:
        return 0.0
    low, high, known = 0.0, upper, _Known(delta_at, total_delta, delta, upper)
    if guess is None and total_delta > 0:
        for candidate in _around(known.by_secants(), SECANT_ERRORS):
            known.fits(candidate)  # the bisection then only evaluates points between them
    elif guess is not None and 0 < guess < upper:
        for candidate in _around(guess, GUESS_ERRORS):
            if low < candidate < high:
                low, high = (low, candidate) if known.fits(candidate) else (candidate, high)
    least_fitting(known.fits, low, high)
    return known.high


def _around(guess: float, errors: Iterable[float]) -> list[float]:
    return [factor * guess for error in errors for factor in (1 - error, 1 + error)]


class _Known:
    """Known values of a non-increasing δ(ε): it exceeds the total at ``low``, and not at ``high``."""

    def __init__(
        self, delta_at: Callable[[float], float], total_delta: float, delta_at_zero: float, high: float
    ) -> None:
        self._delta_at, self._total = delta_at, total_delta
        self.low, self.high, self._delta_at_zero = 0.0, high, delta_at_zero

    def fits(self, epsilon: float) -> bool:
        """Return whether the total is met at ε; evaluated only if unknown."""
        if not self.low < epsilon < self.high:
            return epsilon >= self.high
        within = self._delta_at(epsilon) <= self._total
        self.low, self.high = (self.low, epsilon) if within else (epsilon, self.high)
        return within

    def by_secants(self) -> float:
        """Return an estimate of where the total is met, by regula falsi on ln δ (the Illinois rule)."""
        low, high, below = self.low, self.high, math.log(self._delta_at_zero / self._total)
        epsilon = previous = high
        above = -below  # its value at the upper end does not matter
        for _ in range(MAX_SECANTS):
            epsilon = low + (high - low) * below / (below - above)
            if not low < epsilon < high or abs(epsilon - previous) <= SECANT_PRECISION * epsilon:
                break
            delta, was_low = self._delta_at(epsilon), previous == low
            excess = max(math.log(delta / self._total), -MAX_EXCESS) if delta > 0 else -MAX_EXCESS
            if excess > 0:
                low, below, above = epsilon, excess, above / 2 if was_low else above
            else:
                high, above, below = epsilon, excess, below if was_low else below / 2
            previous = epsilon
        return epsilon


def epsilon_at_delta(
    delta_at: Callable[[float], float], delta: float, flat_from: float, reason: str, guess: float | None = None
) -> float:
    """Return an ε that holds at ``delta``, for a profile that is flat from ``flat_from`` on."""
    delta = Privacy(0.0, delta).delta
    floor = delta_at(flat_from)
    if not is_within(floor, delta):
        raise DeltaTooSmall(delta, floor, reason)
    return least_epsilon(delta_at, delta, flat_from, guess)


def checked_mechanisms(epsilon: float, delta: float, k: int) -> tuple[float, float, int]:
    """Return valid (ε, δ, k), or raise `InvalidInput`."""
    mechanism = Privacy(epsilon, delta)
    if mechanism.epsilon == math.inf:
        advice = "A mechanism that is not private cannot be composed."
        raise InvalidInput("epsilon", epsilon, "a finite number of nats, at least 0", advice)
    return mechanism.epsilon, mechanism.delta, whole_number(k, "k", "a whole number of mechanisms, at least 0", least=0)


def nats(value: float, argument: str) -> float:
    """Return a valid number of nats, at least 0, as a float."""
    return real_number(value, argument, "a number of nats, at least 0", least=0)


def _delta(epsilon: float, delta: float, k: int, total_epsilon: float, floor: float, all_losses: float) -> float:
    if total_epsilon >= all_losses:  # the least double ≥ k·ε, as in exact arithmetic
        return floor
    return add_leak(floor, k * math.log1p(-delta), response_losses(epsilon, k).delta(total_epsilon))


MAX_TERMS = 4_000_000
"""Maximum number of terms of the exact sum, about 100 MB of work space; beyond it `TooMuchWork`: use a PLD."""

Events = Mapping[Privacy, int] | Iterable[Privacy]
"""Composed mechanisms: a list of privacy parameters, or ``{parameters: count}``."""


def optimal_composition_of_sequence(events: Events, total_delta: float) -> Privacy:
    """Return the least total ε at a total δ, over every adaptive composition of the given mechanisms.

    Guarantees: Sound for the returned doubles; independent of the order; equal mechanisms give `optimal_composition`.
    Source: Murtagh, Vadhan 2016, Theorem 1.5; Kairouz, Oh, Viswanath 2015, Theorem 3.5.

    >>> optimal_composition_of_sequence([Privacy(0.5), Privacy(1.0)], 0.0).epsilon
    1.5
    """
    counts = count_events(events)
    if len(counts) == 1:
        ((event, k),) = counts.items()
        return optimal_composition(event.epsilon, event.delta, k, total_delta)
    total_delta, _ = check_total_delta(counts, total_delta)
    delta_at, all_losses = _delta_of_sequence(counts), total_loss(counts)
    return Privacy(least_epsilon(delta_at, total_delta, all_losses), total_delta)


def optimal_delta_of_sequence(events: Events, total_epsilon: float) -> float:
    """Return the least total δ at a total ε, over every adaptive composition of the given mechanisms.

    Source: as `optimal_composition_of_sequence`.
    """
    return _delta_of_sequence(count_events(events))(nats(total_epsilon, "total_epsilon"))


def count_events(events: Events) -> Counter[Privacy]:
    """Return ``{Privacy: count}`` with positive counts, validated."""
    counts: Counter[Privacy] = Counter()
    for event, count in Counter(events).items():
        if not isinstance(event, Privacy):
            raise InvalidInput("events", event, "Privacy(epsilon, delta) of each mechanism")
        if checked_mechanisms(event.epsilon, event.delta, count)[2] > 0:
            counts[event] = count
    return counts


def total_loss(counts: Mapping[Privacy, int]) -> float:
    """Return Σ ε_i, the ε of basic composition, rounded up to the nearest double."""
    exact = sum((count * Fraction(event.epsilon) for event, count in counts.items()), Fraction(0))
    return float_above(exact)


def sequence_losses(counts: Mapping[Privacy, int]) -> Losses:
    """Return the loss of the randomised responses of all mechanisms together."""
    by_epsilon: Counter[float] = Counter()
    for event, count in counts.items():
        if event.epsilon > 0:
            by_epsilon[event.epsilon] += count
    return _losses(tuple(sorted(by_epsilon.items())))


@lru_cache(maxsize=8)
def _losses(classes: tuple[tuple[float, int], ...]) -> Losses:
    total = Losses(np.zeros(1), np.ones(1), 0.0, 0.0)
    for epsilon, count in classes:
        part = response_losses(epsilon, count)
        terms = total.losses.size * part.losses.size
        if terms > MAX_TERMS:
            raise TooMuchWork(
                f"the exact composition of {len(classes)} classes of mechanisms has more than {MAX_TERMS} terms. "
                "Use pld_composition_of_sequence(), which rounds every epsilon up to a common grid, or "
                "kov_composition_of_sequence()."
            )
        losses = np.add.outer(total.losses, part.losses).ravel()
        masses = np.multiply.outer(total.masses, part.masses).ravel() * (1 + ULP)
        # Each sum of two losses rounds once; products that underflow are below NEGLIGIBLE.
        error = total.loss_error + part.loss_error + ULP * float(np.max(np.abs(losses), initial=0.0))
        missing = up(total.missing + part.missing, 1) + terms * NEGLIGIBLE
        total = Losses(losses, masses, missing, error) if len(classes) > 1 else part
    return total


def check_total_delta(counts: Mapping[Privacy, int], total_delta: float) -> tuple[float, float]:
    """Return the valid total δ, and the least possible one, which it must reach."""
    total_delta, floor = Privacy(0.0, total_delta).delta, leak_of(counts)
    if not is_within(floor, total_delta):
        raise DeltaTooSmall(total_delta, floor, "each mechanism may leak with its own delta")
    return total_delta, floor


def leak_of(counts: Mapping[Privacy, int]) -> float:
    """Return 1 − Π(1−δ_i), rounded up."""
    return least_possible_delta_of_sequence((event.delta, count) for event, count in counts.items())


def _delta_of_sequence(counts: Mapping[Privacy, int]) -> Callable[[float], float]:
    floor, all_losses = leak_of(counts), total_loss(counts)
    log_no_leak = math.fsum(count * math.log1p(-event.delta) for event, count in counts.items())

    def delta_at(total_epsilon: float) -> float:
        if total_epsilon >= all_losses:
            return floor
        return add_leak(floor, log_no_leak, sequence_losses(counts).delta(total_epsilon))

    return delta_at


NEGLIGIBLE = 1e-300  # masses below this share of the largest one are dropped, and charged in `Losses.missing`

RATIO_ULPS = 4
"""Relative error of one ratio and its product into the running one: e^(−ε) 1 ulp, three operations ½ ulp each; 2.5, and
the rest covers second-order terms and the joining of blocks."""

SUM_ULPS = 64
"""Relative error of a sum of non-negative doubles: pairwise in blocks of 128 added eight abreast (16 + log₂ of the
number of blocks additions at ½ ulp), below 32 ulps for any array that fits in memory, doubled as a reserve."""

MAX_WINDOW = 50_000_000  # maximum number of masses held at once; at ε → 0 this is reached at k of about 10¹²
_FIRST_BLOCK = 4096  # number of ratios of the first block, enough for most laws; each further block is twice as long


@dataclass(frozen=True, eq=False)
class Losses:
    """A privacy loss distribution that dominates the exact one."""

    losses: Array  # values of the privacy loss, in any order [nats], each within ``loss_error`` of exact
    masses: Array  # their probabilities, each at least the exact one
    missing: float  # at least the probability of all unlisted losses
    loss_error: float  # bound on the rounding of a loss [nats]

    def delta(self, epsilon: float) -> float:
        """Return Σ masses·(1 − e^(ε−loss))₊ + missing, rounded up: the δ at ``epsilon`` ≥ 0 [nats]."""
        excess = self.losses - epsilon
        # Raised by the possible errors of the loss, the product and the subtraction; 1 − e^(−x) grows with x.
        excess += self.loss_error + 2 * ULP * (np.abs(self.losses) + epsilon)
        counts = excess > 0
        terms = -np.expm1(-excess[counts]) * self.masses[counts]
        total = up(float(np.sum(terms)), SUM_ULPS + 4) if terms.size else 0.0
        return min(1.0, total + terms.size * math.ulp(0.0) + self.missing)  # a product may underflow


@lru_cache(maxsize=32)
def response_losses(epsilon: float, k: int) -> Losses:
    """Return the privacy loss of k-fold ε-randomised response.

    Guarantees: Every mass is at least the exact one, and above it by a relative 1e-9 at most for k ≤ 10⁶.
    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    shrink = math.exp(-epsilon)  # q/p
    mode = min(k, int((k + 1) * (shrink / (1 + shrink))))
    rising = _ratio_products(k - mode, lambda i: (k - mode - i) / (mode + 1 + i) * shrink, k)
    falling = _ratio_products(mode, lambda i: (mode - i) / ((k - mode + 1 + i) * shrink), k)
    lies = mode + np.arange(-falling.size, rising.size + 1, dtype=np.float64)
    weights = np.concatenate((falling[::-1], [1.0], rising))
    error = ULP * RATIO_ULPS * np.abs(lies - mode)
    least_sum = float(np.sum(weights * (1 - error))) * (1 - SUM_ULPS * ULP)
    masses = weights * ((1 + error) * (1 + 8 * ULP) / least_sum)
    is_truncated = weights.size < k + 1
    with np.errstate(over="ignore"):  # a loss that overflows counts as infinite
        losses = (k - 2 * lies) * epsilon  # integers below 2^53 times ε: one rounding
    for array in (losses, masses):
        array.setflags(write=False)
    return Losses(losses, masses, 2.0 * k * NEGLIGIBLE if is_truncated else 0.0, 0.0)


def _ratio_products(count: int, ratio: Callable[[Array], Array], k: int) -> Array:
    """Return the running products of ratio(0), ratio(1), … until they are negligible: they only decrease."""
    blocks: list[Array] = []
    last, start, size = 1.0, 0, _FIRST_BLOCK
    while start < count and last > NEGLIGIBLE:
        if start > MAX_WINDOW:
            raise InvalidInput(
                "k", k, "few enough mechanisms that their losses fit in memory", "Use kov_composition() instead."
            )
        steps = np.arange(start, min(start + size, count), dtype=np.float64)
        block: Array = np.cumprod(ratio(steps), dtype=np.float64)
        block *= last
        last = float(block[-1])
        blocks.append(block)
        start, size = start + steps.size, min(2 * size, 1 << 20)
    products = np.concatenate(blocks) if blocks else np.empty(0)
    return products[products > NEGLIGIBLE]
