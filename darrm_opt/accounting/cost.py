"""Cost: the total ε of many releases of a mechanism, by the least of all accounts that apply.

A mechanism states what is proved of one release (`ReleaseGuarantee`); every account takes what it can use:

    simple    sums of ε and δ, as written
    optimal   the optimal composition of (ε, δ)-DP releases
    laws      one release, or few: the exact δ of all pairs of laws, by the adaptive recursion
    bits      the exact adaptive recursion on the pairs that a released bit can show
    renyi     sums of Rényi divergences, of labels and not of counts
    gaussian  the Gaussian comparison: no more than one Gaussian mechanism, and a negligible δ

    pld       convolution of the distribution that the largest δ of the pairs of laws defines

Where records are drawn anew for every release (`sampling`), `sampled` has the accounts of the sampled pairs.

Each account is a theorem about the same releases, so the least ε is a proof too. `most_releases` goes the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from darrm_opt.accounting.allocation import allocated_accounts, in_most
from darrm_opt.accounting.bits.recursion import MIN_POINTS, compose_bits_any_order, updates_of
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.calibrate import Quota, largest_quota
from darrm_opt.accounting.composition import evaluate, event_accounts
from darrm_opt.accounting.guarantee import Accountable, ReleaseGuarantee, Releases
from darrm_opt.accounting.labels.composition import compared_epsilon, composed_epsilon, renyi_epsilon
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.sampled import accounts_of_pairs, sampled_accounts
from darrm_opt.accounting.sampling import ALLOCATION, EACH_VOTER, Sampling
from darrm_opt.errors import BackendUnavailable, InvalidInput, TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy, real_number, whole_number
from darrm_opt.rounding import ULP

POINTS = 8001
"""Grid points of the recursion on bits: sound for any number; finer would change the fourth digit of ε."""

MAX_UPDATES = 4e8
"""Updates that the recursion may take, about a second."""

MAX_RELEASES = 10**7
"""Most releases that a total is found to allow."""

HIGH_CHANCE = 0.1
"""Chance of a record to be in a sample from which the accounts that ignore sampling are asked too."""

CHEAP = ("simple", "optimal")
"""Accounts that take next to no time."""


@dataclass(frozen=True)
class Cost:
    """Total privacy of releases."""

    epsilon: float
    delta: float
    account: str  # the account that proves it; "none" where nothing is
    epsilons: dict[str, float]  # ε by each account that was asked

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", float(upper_bound(self.epsilon)))

    def beside(self, account: str, epsilon: float) -> Cost:
        """Return the same with one more account, the least of all being what is proved."""
        epsilons = {**self.epsilons, account: epsilon}
        name = min(epsilons, key=lambda name: epsilons[name])
        best = epsilons[name]
        return Cost(best, self.delta, name if best < math.inf else "none", epsilons)


def cost(
    mechanism: Accountable, releases: int, delta: float, sampling: Sampling | None = None, *, skip: Collection[str] = ()
) -> Cost:
    """Return what so many releases of a mechanism cost together.

    Each release may be chosen freely in view of the earlier answers. ``skip``: accounts that are not asked, where a
    first estimate is enough or they take long.

    Guarantees: Sound for every adaptive sequence of up to so many releases, for voters that are not private; ε is
    rounded up.
    Source: each account has its own (docs/accounting.md).
    """
    releases = whole_number(releases, "releases", "a whole number of releases, at least 0", least=0)
    delta = Privacy(0.0, real_number(delta, "delta", "a probability in [0, 1)")).delta
    if sampling is None:
        return _unsampled_cost(mechanism, releases, delta, skip)
    return _sampled_cost(mechanism, releases, delta, sampling, skip)


def _unsampled_cost(mechanism: Accountable, releases: int, delta: float, skip: Collection[str]) -> Cost:
    """Return the least of what is proved of any votes, and of all pairs of laws where these are listed; as `cost`."""
    parts = mechanism.bounds(releases)
    listed = mechanism.listed() if releases and any(bounds.laws is None for bounds, _ in parts) else None
    if listed is None:
        return cost_of_parts(parts, delta, skip=skip)
    pairs = ReleaseGuarantee(laws=lambda: listed)
    if releases == 1:  # the δ of all pairs is exact: no account of any votes is below it
        return cost_of_parts([(pairs, 1)], delta, skip=skip)
    found = cost_of_parts(parts, delta, skip=skip)
    of_pairs = cost_of_parts([(pairs, releases)], delta, skip=skip).epsilons
    if delta and releases > 1:
        totals, _ = evaluate(accounts_of_pairs([listed], releases, delta), skip)
        more = {name: total.epsilon for name, total in totals.items()}
        of_pairs = {name: min(each.get(name, math.inf) for each in (of_pairs, more)) for name in {**of_pairs, **more}}
    both = (found.epsilons, of_pairs)
    return _least({name: min(each.get(name, math.inf) for each in both) for name in {**both[0], **both[1]}}, delta)


def estimated_epsilon(releases: Releases, delta: float) -> float | None:
    """Return about what releases cost together at δ [nats], no proof; None where no estimate is known."""
    parts = [(None if bounds.estimate is None else bounds.estimate(), count) for bounds, count in releases if count]
    known = [(estimate, count) for estimate, count in parts if estimate is not None]
    if not delta or not known or len(known) < len(parts):
        return None
    try:
        return composed_epsilon(known, delta).epsilon
    except BackendUnavailable:  # an estimate only saves time
        return None


def estimated_shift(releases: Releases) -> float | None:
    """Return μ [standard deviations] of about what releases cost together, no proof: one Gaussian mechanism.

    That of the same Hellinger distances; None where no bound on the divergences is known.
    """
    variance = 0.0
    for bounds, count in releases:
        laws = None if bounds.laws is None else bounds.laws()
        if laws is not None and laws.finite:  # next to no time, where a bound of every order may take a second
            affinity = laws.affinity
        else:
            bound = bounds.bound()
            if bound is None:
                return None
            # H at ½ is 4·(1 − affinity); a bound on it may be above 4, where the affinity is as good as 0.
            affinity = 1 - min(float(bound.at(np.array([0.5]))[0]), 3.9) / 4
        variance += count * (math.inf if affinity <= 0 else -8 * math.log(affinity))
    return math.sqrt(variance)


def cost_of_parts(parts: Releases, delta: float, *, skip: Collection[str] = ()) -> Cost:
    """Return what releases of several kinds cost together, in any adaptive order; as `cost`."""
    runs = [(bounds, count) for bounds, count in parts if count]
    if not runs:
        return Cost(0.0, delta, "nothing is released", {})
    # An account of the whole needs its kind of bound for every part: with one missing it says nothing of the others.
    first: dict[str, Callable[[], Privacy]] = {}
    privacies = [(privacy, count) for bounds, count in runs if (privacy := bounds.event()) is not None]
    if len(privacies) == len(runs):
        first |= event_accounts(privacies, delta)
    all_laws = [(bounds.laws(), count) for bounds, count in runs if bounds.laws is not None]
    if len(all_laws) == len(runs):
        if sum(count for _, count in runs) == 1:
            first["laws"] = lambda: Privacy(all_laws[0][0].epsilon(delta), delta)
        elif all(laws.is_bit for laws, _ in all_laws):
            first["bits"] = lambda: _bits_total(_regions(all_laws), delta)
    totals, _ = evaluate(first, skip)
    # The recursion is exact but for its grid: on the full one, no account of the same pairs is below it.
    is_exact = "laws" in totals or ("bits" in totals and _affordable_points(_regions(all_laws)) >= POINTS)
    if delta > 0 and not is_exact:
        bounded = [(bounds.bound(), count) for bounds, count in runs]
        known = [(bound, count) for bound, count in bounded if bound is not None]
        if len(known) == len(runs):
            more, _ = evaluate(
                {
                    "renyi": lambda: Privacy(renyi_epsilon(known, delta).epsilon, delta),
                    "gaussian": lambda: Privacy(compared_epsilon(known, delta).epsilon, delta),
                }
            )
            totals |= more
    return _least({name: total.epsilon for name, total in totals.items()}, delta)


def renyi_of_parts(parts: Releases, orders: Array) -> Array | None:
    """Return bounds on the Rényi divergences of releases together at orders above 1 [nats]; None: not known."""
    total = np.zeros(orders.size)
    for bounds, count in parts:
        if count:
            if (bound := bounds.bound()) is None:
                return None
            total += count * bound.renyi(orders)
    return np.asarray(total * (1 + 8 * (len(parts) + 1) * ULP))


def refuse_samples(mechanism: object, sampling: Sampling | None) -> None:
    """Refuse samples where totals are those of releases that every record is in."""
    if sampling is not None and not getattr(mechanism, "takes_samples", True):
        raise InvalidInput(
            "sampling", sampling, "None for a mechanism of private voters", "Its accounts are those of all voters."
        )


def _sampled_cost(
    mechanism: Accountable, releases: int, delta: float, sampling: Sampling, skip: Collection[str]
) -> Cost:
    """Return what releases cost whose records are drawn anew for each; as `cost`."""
    refuse_samples(mechanism, sampling)
    if not releases:
        return cost_of_parts((), delta)
    # As functions: laws of any votes take seconds, and not every scheme asks for them.
    at_sensitivity, sampled_laws = mechanism.at_sensitivity, partial(mechanism.sampled_laws, sampling)
    if sampling.scheme == ALLOCATION:
        accounts = allocated_accounts(at_sensitivity, sampled_laws, sampling, mechanism.affected, releases, delta)
        return _with_unsampled(mechanism, in_most(sampling, releases), accounts, delta, skip)
    accounts = sampled_accounts(
        at_sensitivity,
        sampled_laws,
        lambda each: _unsampled_cost(mechanism, sampling.labels, each, ()).epsilon,
        lambda orders: renyi_of_parts(mechanism.bounds(sampling.labels), orders),
        sampling,
        mechanism.K,
        mechanism.affected,
        releases,
        delta,
    )
    found = _with_unsampled(mechanism, 0, accounts, delta, skip)
    # A sample hides, and never shows: what is proved of releases that every record is in holds for sampled ones.
    if sampling.scheme in EACH_VOTER or (found.epsilons and sampling.chance < HIGH_CHANCE):
        return found
    return _with_unsampled(
        mechanism, releases, {name: partial(Privacy, each, delta) for name, each in found.epsilons.items()}, delta, ()
    )


def _with_unsampled(
    mechanism: Accountable, all_in: int, accounts: dict[str, Callable[[], Privacy]], delta: float, skip: Collection[str]
) -> Cost:
    """Return the least of accounts and of those of so many releases that every record is in, 0 for none."""
    totals, _ = evaluate(accounts, skip)
    epsilons = {name: total.epsilon for name, total in totals.items()}
    if all_in:
        unsampled = cost(mechanism, all_in, delta, skip=skip).epsilons
        epsilons |= {f"{name}, unsampled": each for name, each in unsampled.items()}
    return _least(epsilons, delta)


def _least(epsilons: dict[str, float], delta: float) -> Cost:
    epsilon, account = min(((value, name) for name, value in epsilons.items()), default=(math.inf, "none"))
    return Cost(epsilon, delta, account if epsilon < math.inf else "none", epsilons)


def most_releases(mechanism: Accountable, total: Privacy, sampling: Sampling | None = None) -> Quota:
    """Return how many releases of a mechanism fit in a total (ε, δ), as `largest_quota` finds it."""

    def spent(count: int) -> tuple[float, str]:
        found = cost(mechanism, count, total.delta, sampling)
        return found.epsilon, found.account

    return largest_quota(spent, total.epsilon, MAX_RELEASES, exact=CHEAP)


def fits(mechanism: Accountable, releases: int, total: Privacy, sampling: Sampling | None = None) -> bool:
    """Return whether so many releases of a mechanism are proved to fit in a total (ε, δ)."""
    return cost(mechanism, releases, total.delta, sampling).epsilon <= total.epsilon


def _bits_total(parts: Sequence[tuple[BitRegion, int]], delta: float) -> Privacy:
    """Return the total of single-bit releases in any order by the exact recursion."""
    points = min(POINTS, _affordable_points(parts))
    if points < MIN_POINTS:
        releases = sum(count for _, count in parts)
        raise TooMuchWork(f"The exact recursion on the bits of {releases:,} releases takes too long.")
    return Privacy(compose_bits_any_order(parts, points=points).epsilon(delta), delta)


def _affordable_points(parts: Sequence[tuple[BitRegion, int]]) -> int:
    """Return the grid points for which the recursion takes `MAX_UPDATES`."""
    return int(MAX_UPDATES / updates_of(parts))


def _regions(all_laws: Sequence[tuple[LawPairs, int]]) -> list[tuple[BitRegion, int]]:
    return [(laws.region, count) for laws, count in all_laws]
