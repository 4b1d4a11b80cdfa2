"""The other way round: what each query may cost, or how many there may be, within a total budget."""

from __future__ import annotations

import math

from darrm_opt.accounting.leak import leak_floor
from darrm_opt.accounting.ledger import Ledger
from darrm_opt.accounting.optimal import RESOLUTION, composed, optimal_delta
from darrm_opt.accounting.refusals import BelowLeakFloor
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import down


def most_queries(each: Privacy, budget: Privacy) -> int:
    """Return how many (ε, δ)-DP queries fit in ``budget``, by the best accountant of `Ledger`.

    Args:
        each: privacy of one query, ε finite.
        budget: total (ε, δ), ε finite.

    Returns:
        The count, at most 10⁹.

    Raises:
        InvalidInput: a number is outside its range.

    >>> most_queries(Privacy(0.2676, 3e-4), Privacy(11.6, 0.03))
    100
    """
    return Ledger(budget).affordable(each)


def epsilon_each(budget: Privacy, delta: float, k: int) -> float:
    """Return the largest ε that each of k mechanisms may have so that all of them fit in ``budget``.

    Args:
        budget: total (ε, δ), ε finite and > 0.
        delta: failure probability of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 1.

    Returns:
        ε of one mechanism [nats], rounded down.

    Guarantees:
        `optimal_delta` of the result, k times, at the total ε is within the total δ.

    Raises:
        InvalidInput: a number is outside its range.
        BelowLeakFloor: k mechanisms with this δ exceed the total δ whatever their ε.

    Source: bisection on the exact optimum, which grows with ε.
    """
    total, delta, k = composed(budget.epsilon, delta, k)
    if k == 0:
        raise InvalidInput("k", k, "at least one mechanism")
    if total == 0:
        raise InvalidInput("budget", budget, "a total epsilon above 0")
    floor = leak_floor(delta, k)
    if budget.delta < floor:
        raise BelowLeakFloor(budget.delta, floor, f"each of {k} mechanisms may leak with probability {delta!r}")

    def fits(epsilon: float) -> bool:
        return optimal_delta(epsilon, delta, k, total) <= budget.delta

    low, high = down(total / k, 2), 2 * total / k  # basic composition always fits
    while fits(high):
        low, high = high, 2 * high
        if high == math.inf:
            return low
    while high - low > RESOLUTION * high:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
