"""How many releases of one γ fit in a total (ε, δ): the number is fixed before the first of them.

A sequence of Q releases that is private as a whole stays private if it stops early, whatever made it stop, so one number
decides: up to it every release is allowed, and none beyond.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from darrm_opt.accounting import BelowLeakFloor, Ledger, Release, TooMuchWork
from darrm_opt.accounting.accounts import bits_total
from darrm_opt.accounting.freshness import models_total
from darrm_opt.accounting.release import NoisyMajority, Released
from darrm_opt.accounting.total import MOST_RELEASES
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
        account: what proves it: "optimal" (the best account of (mε, δ)-DP releases), "bits" (the exact adaptive
            composition of the bits of this γ), or "models" (those of the models together: then there is no limit but
            `MOST_RELEASES`).
    """

    queries: int
    account: str


def most_releases(released: Released | Release, budget: Privacy, *, fresh: bool = False) -> Quota:
    """Return how many releases of a γ fit in ``budget``.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        budget: total (ε, δ) of all releases, ε finite.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer; False
            where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`freshness.FRESH`).

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
    release, ledger = Release.of(released), Ledger(budget)
    if models_total(release.problem, MOST_RELEASES, budget.delta, fresh=fresh).epsilon <= budget.epsilon:
        return Quota(MOST_RELEASES, "models")
    many = release.counted(MOST_RELEASES, fresh=fresh)
    found = _most(many, ledger)
    if found.queries or many is release:
        return found
    one = _account(release, 1, ledger)  # which has no earlier release, so that the voters' own privacy counts
    return Quota(0, "optimal") if one is None else Quota(1, one)


def still_proved(release: Release, quota: Quota, budget: Privacy, *, fresh: bool) -> bool:
    """Return whether an account proves a quota, as it computes today; ``fresh`` as in `most_releases`."""
    if quota.queries == 0:
        return True
    if quota.account == "models":
        return models_total(release.problem, quota.queries, budget.delta, fresh=fresh).epsilon <= budget.epsilon
    return _account(release.counted(quota.queries, fresh=fresh), quota.queries, Ledger(budget)) is not None


def _most(majority: NoisyMajority, ledger: Ledger) -> Quota:
    """Return how many releases fit, the voters as they count."""
    try:
        by_events = ledger.affordable(majority.privacy)
    except BelowLeakFloor:
        by_events = 0
    fitting = by_events
    # From the best of the cheap accounts upwards with the dear one, which is the tightest.
    too_many = max(1, fitting + 1 if fitting < 10 else 2 * fitting)
    while too_many <= MOST_BY_BITS and _fits(majority, too_many, ledger.budget):
        fitting, too_many = too_many, 2 * too_many
    if too_many <= MOST_BY_BITS:
        while too_many - fitting > max(1, PRECISION * fitting):
            middle = (fitting + too_many) // 2
            fitting, too_many = (middle, too_many) if _fits(majority, middle, ledger.budget) else (fitting, middle)
    return Quota(fitting, "optimal" if fitting == by_events else "bits")


def _account(majority: NoisyMajority, queries: int, ledger: Ledger) -> str | None:
    """Return the account that proves that so many releases fit, the voters as they count; None: none does."""
    with suppress(BelowLeakFloor):
        if ledger.fits(majority.privacy, queries):
            return "optimal"
    return "bits" if _fits(majority, queries, ledger.budget) else None


def _fits(majority: NoisyMajority, queries: int, budget: Privacy) -> bool:
    points = min(FINEST, max(COARSEST, WORK // queries))
    try:
        epsilon = bits_total(Counter({majority: queries}), budget.delta, points).epsilon
    except (BelowLeakFloor, TooMuchWork):
        return False
    return epsilon <= budget.epsilon
