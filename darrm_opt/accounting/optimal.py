"""The exact optimal composition: no bound on k mechanisms that are (ε, δ)-DP each can be better.

The hardest such mechanism leaks with probability δ and is randomised response otherwise, so with
δ₀(E) = Σ_{l: (k−2l)ε > E} C(k,l) p^(k−l) q^l (1 − e^(E−(k−2l)ε)), p = e^ε/(1+e^ε), q = 1−p,

    D(E) = 1 − (1−δ)^k (1 − δ₀(E))          for every total ε E ≥ 0,

is attained by an adaptive composition and exceeded by none. The source prints the lattice E = (k−2i)ε; the formula is
the same trade-off at every E.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from darrm_opt.accounting.leak import leak_floor
from darrm_opt.accounting.refusals import BelowLeakFloor
from darrm_opt.accounting.response import response_losses
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.rounding import ULP, multiple_up, up

RESOLUTION = 2.0**-48
"""Relative width at which the search for ε stops; it returns the end that was verified."""

_TOTAL_EPSILON = "a number of nats, at least 0"


def optimal(epsilon: float, delta: float, k: int, total_delta: float) -> Privacy:
    """Return the least total ε at a total δ, over every adaptive composition of k (ε, δ)-DP mechanisms.

    Args:
        epsilon: of one mechanism [nats], finite, ≥ 0.
        delta: of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 0.
        total_delta: allowed in total [probability], in [0, 1).

    Returns:
        Total privacy: ε and the given total δ.

    Guarantees:
        Sound: the pair holds for the doubles returned. Above the exact optimum by rounding only, which is a relative
        1e-9 of δ₀ at most for k ≤ 10⁶.

    Raises:
        InvalidInput: a number is outside its range.
        BelowLeakFloor: total_delta < 1 − (1−δ)^k, where no finite ε exists.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3; Murtagh, Vadhan 2016.

    >>> round(optimal(0.2676, 0.0003, 100, 0.03).epsilon, 6)
    11.569758
    """
    epsilon, delta, k = composed(epsilon, delta, k)
    total_delta = Privacy(0.0, total_delta).delta
    floor = leak_floor(delta, k)
    if total_delta < floor:
        raise BelowLeakFloor(total_delta, floor, f"each of {k} mechanisms may leak with probability {delta!r}")
    return Privacy(
        least_epsilon(lambda total: _delta(epsilon, delta, k, total), total_delta, multiple_up(k, epsilon)), total_delta
    )


def optimal_delta(epsilon: float, delta: float, k: int, total_epsilon: float) -> float:
    """Return the least total δ at a total ε, over every adaptive composition of k (ε, δ)-DP mechanisms.

    Args:
        epsilon: of one mechanism [nats], finite, ≥ 0.
        delta: of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 0.
        total_epsilon: E [nats], ≥ 0 or ``inf``.

    Returns:
        D(E) [probability], rounded up; the leak floor 1 − (1−δ)^k where E ≥ kε.

    Raises:
        InvalidInput: a number is outside its range.

    Source: as `optimal`.

    >>> optimal_delta(0.1, 0.0, 1, 0.1)
    0.0
    """
    epsilon, delta, k = composed(epsilon, delta, k)
    return _delta(epsilon, delta, k, non_negative(total_epsilon, "total_epsilon", _TOTAL_EPSILON))


def joined(floor: float, kept_log: float, pure: float) -> float:
    """Return floor + e^kept_log·pure, rounded up: the leak floor and the δ₀ of what did not leak.

    Args:
        floor: 1 − Π(1−δ_i), rounded up.
        kept_log: Σ ln(1−δ_i) as computed, ≤ 0.
        pure: δ₀, rounded up.
    """
    if pure == 0.0:
        return floor
    kept = math.exp(kept_log)
    return min(1.0, up(floor + kept * (1 + (2 * abs(kept_log) + 4) * ULP) * pure, 4))


def least_epsilon(delta_at: Callable[[float], float], total_delta: float, enough: float) -> float:
    """Return the least ε found with delta_at(ε) ≤ total_delta, by bisection between 0 and ``enough``.

    Args:
        delta_at: a sound, non-increasing bound on δ at ε.
        total_delta: what it must not exceed; met at ``enough``.
        enough: an ε where it is met.

    Guarantees:
        What is returned was itself evaluated, so soundness does not rest on monotonicity.
    """
    if delta_at(0.0) <= total_delta:
        return 0.0
    low, high = 0.0, enough
    while high - low > RESOLUTION * high:
        middle = low + (high - low) / 2
        if delta_at(middle) <= total_delta:
            high = middle
        else:
            low = middle
    return high


def epsilon_above_floor(delta_at: Callable[[float], float], delta: float, reach: float, why: str) -> float:
    """Return an ε that holds at ``delta``, of a profile that is flat from ``reach`` on.

    Args:
        delta_at: as in `least_epsilon`.
        delta: allowed [probability], in [0, 1).
        reach: where what is left is the floor [nats].
        why: what makes the floor, for the message.

    Raises:
        InvalidInput: no such δ.
        BelowLeakFloor: no finite ε is proved at this δ.
    """
    delta = Privacy(0.0, delta).delta
    floor = delta_at(reach)
    if floor > delta:
        raise BelowLeakFloor(delta, floor, why)
    return least_epsilon(delta_at, delta, reach)


def composed(epsilon: float, delta: float, k: int) -> tuple[float, float, int]:
    """Return checked (ε, δ, k), or raise `InvalidInput`."""
    each = Privacy(epsilon, delta)
    if each.epsilon == math.inf:
        raise InvalidInput(
            "epsilon", epsilon, "a finite number of nats, at least 0", "What is not private cannot be composed."
        )
    return each.epsilon, each.delta, whole_number(k, "k", "a whole number of mechanisms, at least 0", least=0)


def non_negative(value: float, argument: str, accepted: str) -> float:
    """Return ``value`` ≥ 0 as a float, or raise `InvalidInput`."""
    number = real_number(value, argument, accepted)
    if number < 0:
        raise InvalidInput(argument, value, accepted)
    return number


def _delta(epsilon: float, delta: float, k: int, total_epsilon: float) -> float:
    floor = leak_floor(delta, k)
    if total_epsilon == math.inf or Fraction(total_epsilon) >= k * Fraction(epsilon):
        return floor
    return joined(floor, k * math.log1p(-delta), response_losses(epsilon, k).delta(total_epsilon))
