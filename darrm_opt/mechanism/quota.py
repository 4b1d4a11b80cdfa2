"""How many releases of one γ fit in a total (ε, δ): the number is fixed before the first of them.

A sequence of Q releases that is private as a whole stays private if it stops early, whatever made it stop, so one number
decides: up to it every release is allowed, and none beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

from darrm_opt.accounting import BelowLeakFloor, Ledger, Release, TooMuchWork, exact_epsilon
from darrm_opt.accounting.release import Released
from darrm_opt.problem import Privacy

PRECISION = 0.01
"""The count is found to this share of itself, from below: each step of the exact account takes up to seconds."""

MOST_BY_BITS = 20_000
"""Releases beyond which the exact account on bits is not asked: it would take minutes."""

WORK = 40_000_000
"""Grid points × releases of one step of the exact account: about a second."""

FINEST, COARSEST = 40_001, 2_001
"""Grid points of the exact account; fewer only make its bound larger."""


@dataclass(frozen=True)
class Quota:
    """A proved number of releases.

    Attributes:
        queries: releases that fit.
        account: what proves it: "optimal" (the best account of (mε, δ)-DP releases) or "bits" (the exact adaptive
            composition of the bits of this γ).
    """

    queries: int
    account: str


def most_releases(released: Released | Release, budget: Privacy) -> Quota:
    """Return how many releases of a γ fit in ``budget``.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        budget: total (ε, δ) of all releases, ε finite.

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
    by_events = Ledger(budget).affordable(release.privacy)
    fitting = by_events
    # From the best of the cheap accounts upwards with the dear one, which is the tightest.
    too_many = max(1, fitting + 1 if fitting < 10 else 2 * fitting)
    while too_many <= MOST_BY_BITS and _fits(release, too_many, budget):
        fitting, too_many = too_many, 2 * too_many
    if too_many <= MOST_BY_BITS:
        while too_many - fitting > max(1, PRECISION * fitting):
            middle = (fitting + too_many) // 2
            fitting, too_many = (middle, too_many) if _fits(release, middle, budget) else (fitting, middle)
    return Quota(fitting, "optimal" if fitting == by_events else "bits")


def still_proved(release: Release, quota: Quota, budget: Privacy) -> bool:
    """Return whether the account that gave a quota proves it, as it computes today."""
    if quota.queries == 0:
        return True
    if quota.account == "optimal":
        return Ledger(budget).fits(release.privacy, quota.queries)
    return _fits(release, quota.queries, budget)


def _fits(release: Release, queries: int, budget: Privacy) -> bool:
    points = min(FINEST, max(COARSEST, WORK // queries))
    try:
        epsilon = exact_epsilon(release.noise, release.problem, queries, budget.delta, points=points)
    except (BelowLeakFloor, TooMuchWork):
        return False
    return epsilon <= budget.epsilon
