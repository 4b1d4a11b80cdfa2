"""The privacy of k mechanisms together, in closed form.

Each rule maps one mechanism's (ε, δ) and the number k of mechanisms, each chosen freely in view of
the earlier outputs, to the (ε, δ) of all outputs together:

    simple    (kε, kδ)
    general   Kairouz–Oh–Viswanath, grows with √k

Every answer is rounded up: the doubles that come back are a guarantee, not an approximation of one.
"""

from __future__ import annotations

import math

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.rounding import multiple_up, up

CLOSED_FORM_ULPS = 32
"""Relative error of `general` before rounding. Each term is positive and goes through fewer than 12
operations of at most 2 units in the last place (tanh, log, sqrt and expm1 included), none of which
amplifies a relative error: 24, and 32 leaves room."""

MOST_MECHANISMS = 2**53
"""Beyond this a count is not exact as a double."""

_MECHANISMS = "a whole number of mechanisms, at least 1"


def simple(epsilon: float, delta: float, k: int) -> Privacy:
    """Return (kε, kδ), the privacy of k mechanisms that are (ε, δ)-DP each.

    Args:
        epsilon: of one mechanism [nats], ≥ 0 or ``inf``.
        delta: of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 1.

    Returns:
        Total privacy; (inf, 0), "nothing is promised", where kδ ≥ 1 or ε = inf.

    Guarantees:
        Never below the exact value; exact where a double can hold it.

    Raises:
        InvalidInput: a number is outside its range.

    Source: basic composition (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).

    >>> simple(0.5, 0.25, 3)
    Privacy(epsilon=1.5, delta=0.75)
    """
    each, k = Privacy(epsilon, delta), _count(k)
    if each.epsilon == math.inf:
        return Privacy(math.inf)
    return _promised(multiple_up(k, each.epsilon), multiple_up(k, each.delta))


def general(epsilon: float, delta: float, k: int, slack: float) -> Privacy:
    """Return the privacy of k mechanisms that are (ε, δ)-DP each, by the closed form with slack δ′.

    ε_total = min{kε, B + ε√(2k·ln(e + √(kε²)/δ′)), B + ε√(2k·ln(1/δ′))}, B = kε(e^ε−1)/(e^ε+1), and
    δ_total = 1 − (1−δ)^k(1−δ′); the first branch needs no slack, so there δ_total = 1 − (1−δ)^k.

    Args:
        epsilon: of one mechanism [nats], ≥ 0 or ``inf``.
        delta: of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 1.
        slack: δ′ [probability], in [0, 1); 0 leaves only the first branch.

    Returns:
        Total privacy; (inf, 0), "nothing is promised", where δ_total rounds to 1 or ε = inf.

    Guarantees:
        Never below the exact value; above it by less than 1e-14 of it.

    Raises:
        InvalidInput: a number is outside its range.

    Source: Theorem 2.3 of the paper; Kairouz, Oh, Viswanath, "The composition theorem for
    differential privacy", Theorem 3.4.

    >>> round(general(0.2676, 0.0003, k=50, slack=1e-4).epsilon, 3)
    9.901
    """
    each, k, slack = Privacy(epsilon, delta), _count(k), _slack(slack)
    if each.epsilon == math.inf:
        return Privacy(math.inf)
    total, spent = multiple_up(k, each.epsilon), 0.0
    if slack > 0:
        slow = up(_square_root_branches(each.epsilon, k, slack), CLOSED_FORM_ULPS)
        if slow < total:
            total, spent = slow, slack
    failure = -math.expm1(k * math.log1p(-each.delta) + math.log1p(-spent))  # 1 − (1−δ)^k(1−δ′)
    return _promised(total, up(failure, CLOSED_FORM_ULPS) if failure > 0 else 0.0)


def _square_root_branches(epsilon: float, k: int, slack: float) -> float:
    """Return the smaller of the two branches that grow with √k; (e^ε−1)/(e^ε+1) = tanh(ε/2), which cannot overflow."""
    mean = k * epsilon * math.tanh(epsilon / 2)
    spread = math.sqrt(k) * epsilon
    first = math.log(math.e + spread / slack)
    second = -math.log(slack)
    return mean + spread * math.sqrt(2 * min(first, second))


def _promised(epsilon: float, delta: float) -> Privacy:
    return Privacy(epsilon, delta) if delta < 1 else Privacy(math.inf)


def _count(k: int) -> int:
    count = whole_number(k, "k", _MECHANISMS)
    if count > MOST_MECHANISMS:
        raise InvalidInput("k", k, f"{_MECHANISMS} and at most {MOST_MECHANISMS}")
    return count


def _slack(slack: float) -> float:
    number = real_number(slack, "slack", "a probability in [0, 1)")
    if not 0 <= number < 1:
        raise InvalidInput("slack", slack, "a probability in [0, 1)")
    return number
