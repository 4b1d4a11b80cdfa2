"""Quota: how many releases fit in a total (ε, δ), fixed before the first of them; and the ε of each of so many.

A sequence of Q releases that is private as a whole stays private if it stops early, for whatever reason, so one number
decides: up to it every release is allowed, and none beyond.
"""

from __future__ import annotations

import math

from darrm_opt.accounting.calibrate import Quota, largest_quota
from darrm_opt.accounting.composition import cheapest, simple_composition
from darrm_opt.accounting.composition.closed_forms import kov_composition_at_delta
from darrm_opt.accounting.composition.optimal import checked_mechanisms, least_possible_delta, optimal_delta
from darrm_opt.accounting.freshness import models_account
from darrm_opt.accounting.privacy_budget import PrivacyBudget
from darrm_opt.accounting.release_profile import NoisyMajority, Release, Released
from darrm_opt.accounting.total import (
    MAX_RELEASES,
    cheapest_total,
    estimated_total,
)
from darrm_opt.decimals import floor_delta, floor_point
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import down
from darrm_opt.search import largest_count, largest_fitting

MAX_BY_BITS = 20_000
"""Most releases for which the exact account on bits is computed: beyond, it would take minutes."""

MIN_TOO_MANY = 100
"""The same where it is to be quick."""

MAX_WORK = 40_000_000
"""Grid points × releases of one step of the exact account: about a second."""

MAX_POINTS, MIN_POINTS = 40_001, 2_001
"""Grid points of the exact account; fewer only make its bound larger."""


def most_releases(released: Released | Release, budget: Privacy, *, fresh: bool = False, quick: bool = False) -> Quota:
    """Return how many releases of a γ fit in ``budget``.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        budget: total (ε, δ) of all releases, ε finite.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`freshness.FRESH`).
        quick: leave out the accounts whose time grows with the count.

    Returns:
        A count that fits; up to 1 % more may.

    Guarantees:
        That many releases, each chosen freely in view of the earlier answers, are together (ε, δ)-DP; so are fewer.

    Raises:
        InvalidInput: the budget is not valid.
        NotPrivate: a bare γ is not private for its problem.

    Source: `darrm_opt.accounting`: the optimal composition of (mε, δ)-DP releases, and the exact one of bits.

    >>> from darrm_opt import Problem, solve
    >>> solution = solve(Problem(11, Privacy(float("inf")), Privacy(0.2676, 3e-4), 1))
    >>> most_releases(solution, Privacy(2.7, 0.016)).queries >= 20
    True
    """
    release = Release.of(released)
    PrivacyBudget(budget)  # checks it
    if models_account(release.problem, MAX_RELEASES, budget.delta, fresh=fresh).epsilon <= budget.epsilon:
        return Quota(MAX_RELEASES, "models")
    majority = release.effective(MAX_RELEASES, fresh=fresh)

    def near(count: int) -> bool:
        epsilon = estimated_total(majority, count, budget.delta)
        return epsilon is not None and epsilon <= budget.epsilon

    guess = max(1, largest_count(near, MAX_RELEASES))
    quota = largest_quota(
        lambda count: _total(majority, count, budget.delta, quick=quick), budget.epsilon, MAX_RELEASES, guess=guess
    )
    if quota.queries or majority is release:
        return quota
    epsilon, account = _total(release, 1, budget.delta)  # a single release has no earlier one: the voters' own privacy
    return Quota(1, account) if epsilon <= budget.epsilon else quota


def is_proved(release: Release, queries: int, budget: Privacy, *, fresh: bool) -> bool:
    """Return whether an account proves that so many releases fit in ``budget``; ``fresh`` as in `most_releases`."""
    if queries == 0 or models_account(release.problem, queries, budget.delta, fresh=fresh).epsilon <= budget.epsilon:
        return True
    return _total(release.effective(queries, fresh=fresh), queries, budget.delta)[0] <= budget.epsilon


def _total(majority: NoisyMajority, queries: int, delta: float, *, quick: bool = False) -> tuple[float, str]:
    """Return the least ε of so many releases by what takes seconds at most, and the account that proves it."""
    events = {
        # Its own (ε, δ) may not be known at that δ: then neither account applies.
        "simple": lambda: simple_composition({majority.privacy: queries}, delta),
        "general": lambda: kov_composition_at_delta({majority.privacy: queries}, delta),
    }
    by_bits = queries <= (MIN_TOO_MANY if quick else MAX_BY_BITS)
    points = min(MAX_POINTS, max(MIN_POINTS, MAX_WORK // queries))
    return min(cheapest_total(majority, queries, delta, points, quick=not by_bits), cheapest(events))


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
        The total for one release; else half of δ goes to the releases, half to their composition. Both numbers are
        on the grid of a `Problem`, rounded down: the problem keeps them, and no release is lost to its rounding.

    Raises:
        InvalidInput: a number is outside its range.

    >>> target = release_target(Privacy(2.0, 1e-5), 50)
    >>> 0.04 < target.epsilon < 0.1, 50 * target.delta <= 1e-5
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries == 1:
        return total
    delta = floor_delta(total.delta / (2 * queries))
    return Privacy(floor_point(epsilon_each(total, delta, queries)), delta)
