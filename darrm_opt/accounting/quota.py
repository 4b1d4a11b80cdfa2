"""Quota: how many releases fit in a total (ε, δ), fixed before the first of them; and the ε of each of so many.

A sequence of Q releases that is private as a whole stays private if it stops early, for whatever reason, so one number
decides: up to it every release is allowed, and none beyond.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from functools import cache

from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.composition.optimal import checked_mechanisms, least_possible_delta, optimal_delta
from darrm_opt.accounting.cost import Quota
from darrm_opt.accounting.freshness import models_account
from darrm_opt.accounting.privacy_budget import PrivacyBudget
from darrm_opt.accounting.release_profile import NoisyMajority, Release, Released
from darrm_opt.accounting.total import (
    MAX_RELEASES,
    bits_total,
    cheapest_total,
    estimated_total,
    optimal_total_of_profile,
)
from darrm_opt.decimals import floor_delta, floor_point
from darrm_opt.errors import DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import down
from darrm_opt.search import largest_count, largest_count_between, largest_fitting

PRECISION = 0.01
"""The count is found to this share of itself, from below: each step of the exact account takes up to seconds."""

MAX_BY_BITS = 20_000
"""Most releases for which the exact account on bits is computed: beyond, it would take minutes."""

MIN_TOO_MANY = 100
"""The same where it is to be quick."""

MAX_EVENTS = 10**6
"""Most releases that the optimal composition of the profile is asked for."""

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
    release, account = Release.of(released), PrivacyBudget(budget)
    if models_account(release.problem, MAX_RELEASES, budget.delta, fresh=fresh).epsilon <= budget.epsilon:
        return Quota(MAX_RELEASES, "models")
    majority = release.effective(MAX_RELEASES, fresh=fresh)
    quota = _largest_count(majority, account, quick=quick)
    if quota.queries or majority is release:
        return quota
    single_account = _account(release, 1, account)  # a single release has no earlier one: the voters' own privacy holds
    return Quota(0, "optimal") if single_account is None else Quota(1, single_account)


def is_proved(release: Release, queries: int, budget: Privacy, *, fresh: bool) -> bool:
    """Return whether an account proves that so many releases fit in ``budget``; ``fresh`` as in `most_releases`."""
    if queries == 0 or models_account(release.problem, queries, budget.delta, fresh=fresh).epsilon <= budget.epsilon:
        return True
    return _account(release.effective(queries, fresh=fresh), queries, PrivacyBudget(budget)) is not None


def _largest_count(majority: NoisyMajority, account: PrivacyBudget, *, quick: bool) -> Quota:
    """Return how many releases fit, for voters whose releases compose."""
    most_by_bits = MIN_TOO_MANY if quick else MAX_BY_BITS
    try:
        by_events = account.affordable(majority.privacy)
    except DeltaTooSmall:
        by_events = 0
    by_events = max(by_events, largest_count(lambda count: _fits_quickly(majority, count, account.budget), MAX_EVENTS))
    fitting, name = by_events, "optimal"
    if quick:
        fitting, name = _by_comparison(majority, by_events, account.budget)
    least = fitting
    # The cheap accounts give a lower end; from there upwards the expensive one, which is the tightest.
    too_many = max(1, fitting + 1 if fitting < 10 else 2 * fitting)
    while too_many <= most_by_bits and _fits(majority, too_many, account.budget):
        fitting, too_many = too_many, 2 * too_many
    if too_many <= most_by_bits:
        fitting = largest_count_between(
            lambda count: _fits(majority, count, account.budget), fitting, too_many, PRECISION
        )
    return Quota(fitting, name if fitting == least else "bits")


def _by_comparison(majority: NoisyMajority, fitting: int, budget: Privacy) -> tuple[int, str]:
    """Return the largest count that fits by the Gaussian comparison, if larger, and the account of what is returned."""

    @cache
    def total(count: int) -> tuple[float, str]:
        # Without the recursion on bits, whose time grows with the count that is searched for.
        return cheapest_total(majority, count, budget.delta, quick=True)

    def account(value: float) -> tuple[tuple[int, str], float]:
        count = max(1, int(value))
        epsilon, name = total(count)
        return (count, name), epsilon

    def near(count: int) -> bool:
        epsilon = estimated_total(majority, count, budget.delta)
        return epsilon is not None and epsilon <= budget.epsilon

    found = calibrate(
        account,
        budget.epsilon,
        MAX_RELEASES,
        # From an estimate, which takes much less time than an account.
        guess=max(1, fitting, largest_count(near, MAX_RELEASES)),
        precision=PRECISION / 4,
        guess_error=PRECISION,
    )
    return (fitting, "optimal") if found is None or found.result[0] <= fitting else found.result


def _account(majority: NoisyMajority, queries: int, account: PrivacyBudget) -> str | None:
    """Return the account that proves that so many releases fit; None if none does."""
    with suppress(DeltaTooSmall):
        if account.fits(majority.privacy, queries):
            return "optimal"
    if _fits_quickly(majority, queries, account.budget):
        return "optimal"
    return "bits" if _fits(majority, queries, account.budget) else None


def _fits_quickly(majority: NoisyMajority, queries: int, budget: Privacy) -> bool:
    try:
        return optimal_total_of_profile(majority, queries, budget.delta).epsilon <= budget.epsilon
    except (DeltaTooSmall, TooMuchWork):
        return False


def _fits(majority: NoisyMajority, queries: int, budget: Privacy) -> bool:
    points = min(MAX_POINTS, max(MIN_POINTS, MAX_WORK // queries))
    try:
        epsilon = bits_total(Counter({majority: queries}), budget.delta, points).epsilon
    except (DeltaTooSmall, TooMuchWork):
        return False
    return epsilon <= budget.epsilon


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
