"""Calibration of equal queries: the ε of each, and how many fit in a budget."""

from __future__ import annotations

import math

from darrm_opt.accounting.composition.optimal import checked_mechanisms, least_possible_delta, optimal_delta
from darrm_opt.accounting.errors import DeltaTooSmall
from darrm_opt.accounting.privacy_budget import PrivacyBudget
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import down
from darrm_opt.search import largest_fitting


def most_queries(query: Privacy, budget: Privacy) -> int:
    """Return how many (ε, δ)-DP queries fit in ``budget``, by the best accountant of `PrivacyBudget`.

    Args:
        query: privacy of one query, ε finite.
        budget: total (ε, δ), ε finite.

    Returns:
        The count, at most 10⁹.

    Raises:
        InvalidInput: a number is outside its range.

    >>> most_queries(Privacy(0.2676, 3e-4), Privacy(11.6, 0.03))
    100
    """
    return PrivacyBudget(budget).affordable(query)


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
        DeltaTooSmall: k mechanisms with this δ exceed the total δ whatever their ε.

    Source: bisection on the exact optimum, which grows with ε.
    """
    total, delta, k = checked_mechanisms(budget.epsilon, delta, k)
    if k == 0:
        raise InvalidInput("k", k, "at least one mechanism")
    if total == 0:
        raise InvalidInput("budget", budget, "a total epsilon above 0")
    floor = least_possible_delta(delta, k)
    if budget.delta < floor:
        raise DeltaTooSmall(budget.delta, floor, f"each of {k} mechanisms may leak with probability {delta!r}")

    def fits(epsilon: float) -> bool:
        return optimal_delta(epsilon, delta, k, total) <= budget.delta

    low, high = down(total / k, 2), 2 * total / k  # basic composition always fits
    while fits(high):
        low, high = high, 2 * high
        if high == math.inf:
            return low
    return largest_fitting(fits, low, high)


def release_target(total: Privacy, queries: int) -> Privacy:
    """Return an (ε, δ) of each release with which ``queries`` of them are within a total, by optimal composition.

    Args:
        total: (ε, δ) of all releases.
        queries: Q ≥ 1.

    Returns:
        The total for one release; else half of δ goes to the releases, half to their composition.

    Raises:
        InvalidInput: a number is outside its range.

    >>> target = release_target(Privacy(2.0, 1e-5), 50)
    >>> 0.04 < target.epsilon < 0.1, 50 * target.delta <= 1e-5
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries == 1:
        return total
    delta = total.delta / (2 * queries)
    return Privacy(epsilon_each(total, delta, queries), delta)
