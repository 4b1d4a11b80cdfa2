"""Total: the (ε, δ) of many releases together, by the tightest account that applies (`accounts`).

`total_of` evaluates any guarantees; `cost` a mechanism, also if records are drawn anew for every release (`sampled`,
`allocation`); `total_privacy` a γ. `most_releases` searches for the number that fits; `estimated_epsilon` only
estimates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from darrm_opt.accounting.accounts import (
    ACCOUNTS,
    CHEAP,
    COMPARED,
    MAX_RELEASES,
    NAMES,
    SEARCHED,
    STATED,
    Accountable,
    Effort,
    ReleasesOf,
)
from darrm_opt.accounting.allocation import allocated_accounts, in_most
from darrm_opt.accounting.bits.adversary import POINTS as ADVERSARY_POINTS
from darrm_opt.accounting.bits.adversary import attained_epsilon
from darrm_opt.accounting.bits.recursion import compose_bits_any_order, updates_of
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.calibrate import Quota, largest_quota
from darrm_opt.accounting.composition import NotApplicable, evaluate
from darrm_opt.accounting.composition.closed_forms import kov_delta
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.gaussian import gaussian_epsilon
from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases, estimated_shift
from darrm_opt.accounting.labels.composition import composed_epsilon
from darrm_opt.accounting.release_profile import NoisyMajority, Release, Released
from darrm_opt.accounting.sampled import sampled_accounts
from darrm_opt.accounting.sampling import ALLOCATION, EACH_VOTER, Sampling
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.solution import Solution
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.noise import Array, ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import ULP, check_arithmetic
from darrm_opt.search import largest_count

MAX_FOUND = 10**7  # largest number of releases of a mechanism that is searched for a total

MAX_ADVERSARY_WORK = STATED.updates / 10
"""Maximum number of updates of the lower bound, each some ten times as slow; beyond it, there is none."""

ESTIMATE_POINTS, MAX_ESTIMATE_WORK = 1001, 3e7
"""Grid points of an estimate by likely pairs, and the number of updates beyond which the grid is coarser."""

ESTIMATE_STRIDE = 3  # stride of the Gaussian comparison in an estimate: it increases ε by 1e-4

HIGH_CHANCE = 0.1
"""Probability of a record to be in a sample from which accounts that ignore sampling are evaluated, too."""

NOTHING = "nothing is released"  # name of the account of no release


@dataclass(frozen=True)
class ReleaseTotal:
    """The total of many releases by each account.

    Attributes:
        delta: requested total δ [probability].
        totals: (ε, δ) by account; the δ of ``simple`` may differ.
        refused: the error of each account without a total.
        epsilon_at_least: ε that some adversary attains at ``delta`` [nats], up to the rounding of the pairs found: a
            lower bound for every sound account. ``inf`` if an infinite loss is more probable than ``delta``; None if
            there are too many releases, if private voters were trained once (their joint behaviour is unknown), or if
            it was not requested.
        fresh: whether the voters were taken to be fresh (`freshness.FRESH`).
    """

    delta: float
    totals: dict[str, Privacy]
    refused: dict[str, NotApplicable] = field(default_factory=dict)
    epsilon_at_least: float | None = None
    fresh: bool = False

    @property
    def epsilons(self) -> dict[str, float]:
        """ε by each account within the total δ [nats]."""
        return {name: total.epsilon for name, total in self.totals.items() if total.delta <= self.delta}

    @property
    def epsilon(self) -> float:
        """The smallest of them [nats]; ∞ if nothing is proved."""
        return min(self.epsilons.values(), default=math.inf)

    @property
    def account(self) -> str:
        """The account that proves it; "none" if none does."""
        epsilon, account = min(((value, name) for name, value in self.epsilons.items()), default=(math.inf, "none"))
        return account if epsilon < math.inf else "none"

    @property
    def method(self) -> str:
        """The account with the least ε among those within the total δ.

        Raises:
            DeltaTooSmall: none is; the error of the account that needs the least δ.
            TooMuchWork: every account would take too long.
        """
        if self.epsilons:
            return min(self.epsilons, key=lambda name: self.epsilons[name])
        floors = [error for error in self.refused.values() if isinstance(error, DeltaTooSmall)]
        if floors:
            raise min(floors, key=lambda error: error.floor)
        raise next(iter(self.refused.values()))

    @property
    def best(self) -> Privacy:
        """The least total within the total δ, rounded up. Raises as `method`."""
        return self.totals[self.method]

    def or_less(self, epsilons: Mapping[str, float]) -> ReleaseTotal:
        """Return the same with further proved ε of these releases at the same δ.

        Args:
            epsilons: ε by the name of its account [nats].
        """
        totals = dict(self.totals)
        for name, epsilon in epsilons.items():
            known = totals.get(name)
            if known is None or known.delta > self.delta or epsilon < known.epsilon:
                totals[name] = Privacy(float(upper_bound(epsilon)), self.delta)
        return replace(self, totals=totals)


def total_of(
    parts: Releases,
    delta: float,
    *,
    effort: Effort = SEARCHED,
    skip: Collection[str] = (),
    compare: Collection[str] = (),
    enough: float = -math.inf,
) -> ReleaseTotal:
    """Return the cost of releases of several kinds together, in any adaptive order.

    ``skip``: accounts to leave out. ``compare``: accounts to evaluate even if a finer one has a total. ``enough``: an ε
    at which no further account is evaluated.
    """
    check_arithmetic()
    runs = [(bounds, count) for bounds, count in parts if count]
    if not runs:
        return ReleaseTotal(delta, {NOTHING: Privacy(0.0)})
    totals: dict[str, Privacy] = {}
    refused: dict[str, NotApplicable] = {}
    finest: set[str] = set()
    asked = [account for account in ACCOUNTS if account.name not in skip and (delta or not account.needs_delta)]
    for account in asked:
        if account.name not in compare and finest & set(account.finer):
            continue
        try:
            # an account needs its input for every part: with one missing it proves nothing.
            known = [(need, count) for bounds, count in runs if (need := account.needs(bounds)) is not None]
            found = account.total(known, delta, effort) if len(known) == len(runs) else None
        except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
            refused[account.name] = err
            if account.name == "optimal" and isinstance(err, DeltaTooSmall):
                finest.add(account.name)  # exact: the accounts it supersedes have no total either
            continue
        if found is None:
            continue
        if found.epsilon == math.inf:
            refused[account.name] = DeltaTooSmall(delta, 1.0, "this account proves nothing")
            continue
        totals[account.name] = found
        if account.is_exact(known, delta, effort):
            finest.add(account.name)
        if found.epsilon <= enough and found.delta <= delta:
            break
    return ReleaseTotal(delta, totals, refused)


def cost(
    mechanism: Accountable,
    releases: int,
    delta: float,
    sampling: Sampling | None = None,
    *,
    skip: Collection[str] = (),
    enough: float = -math.inf,
) -> ReleaseTotal:
    """Return the cost of a number of releases of a mechanism together, each chosen freely after the earlier answers.

    ``skip``: accounts to leave out, because they are slow or a first estimate is enough. ``enough``: as for `total_of`.

    Guarantees: Sound for every adaptive sequence of up to ``releases`` releases, for voters that are not private; ε is
    rounded up.
    Source: see each account (docs/releases.md).
    """
    releases = whole_number(releases, "releases", "a whole number of releases, at least 0", least=0)
    delta = probability(delta, "delta")
    effort = mechanism.effort
    if effort is STATED and enough > -math.inf:
        effort = effort.for_search(releases)
    if sampling is not None:
        return _sampled_total(mechanism, releases, delta, sampling, skip)
    parts = mechanism.bounds(releases)
    is_known = not releases or all(bounds.laws is not None for bounds, _ in parts)
    listed = None if is_known else mechanism.listed()
    if listed is None:
        return total_of(parts, delta, effort=effort, skip=skip, enough=enough)
    # All pairs of laws of a query, if listed, are another description of the same releases.
    found = total_of([(ReleaseGuarantee(laws=lambda: listed), releases)], delta, effort=effort, skip=skip)
    if releases == 1 or found.epsilon <= enough:  # the δ of all pairs is exact: no account for any votes is below it
        return found
    return found.or_less(total_of(parts, delta, effort=effort, skip=skip, enough=enough).epsilons)


def refuse_samples(released: Accountable | Released | Release, sampling: Sampling | None) -> None:
    """Reject samples for totals of releases that include every record."""
    if sampling is not None and not getattr(released, "takes_samples", False):
        accepted = "None for a γ with its voters, or a mechanism of private voters"
        raise InvalidInput("sampling", sampling, accepted, "Its accounts are those of all voters.")


def _sampled_total(
    mechanism: Accountable, releases: int, delta: float, sampling: Sampling, skip: Collection[str]
) -> ReleaseTotal:
    """Return the cost of releases whose records are drawn anew for each; as `cost`."""
    refuse_samples(mechanism, sampling)
    if not releases:
        return total_of((), delta)
    # As functions: laws of any votes take seconds, and not every scheme needs them.
    at_sensitivity, sampled_laws = mechanism.at_sensitivity, partial(mechanism.sampled_laws, sampling)
    if sampling.scheme == ALLOCATION:
        accounts = allocated_accounts(at_sensitivity, sampled_laws, sampling, mechanism.affected, releases, delta)
        return _with_unsampled(mechanism, in_most(sampling, releases), accounts, delta, skip)
    events, accounts = sampled_accounts(
        at_sensitivity,
        sampled_laws,
        lambda each: cost(mechanism, sampling.labels, each).epsilon,
        lambda orders: renyi_divergences(mechanism.bounds(sampling.labels), orders),
        sampling,
        mechanism.K,
        mechanism.affected,
        releases,
        delta,
    )
    found = _with_unsampled(mechanism, 0, accounts, delta, skip)
    if events:
        of_events = total_of(events, delta, skip={*skip, *NAMES - set(CHEAP)})
        found = replace(found, totals=of_events.totals | found.totals, refused=of_events.refused | found.refused)
    # Sampling only hides: the guarantees of releases with every record hold for sampled ones.
    if sampling.scheme in EACH_VOTER or (found.epsilons and sampling.chance < HIGH_CHANCE):
        return found
    return _with_unsampled(
        mechanism, releases, {name: partial(Privacy, each, delta) for name, each in found.epsilons.items()}, delta, ()
    )


def _with_unsampled(
    mechanism: Accountable, all_in: int, accounts: dict[str, Callable[[], Privacy]], delta: float, skip: Collection[str]
) -> ReleaseTotal:
    """Return the minimum of the accounts and of those of ``all_in`` releases that include every record; 0 for none."""
    found = ReleaseTotal(delta, *evaluate(accounts, skip))
    if not all_in:
        return found
    unsampled = cost(mechanism, all_in, delta, skip=skip).epsilons
    return found.or_less({f"{name}, unsampled": each for name, each in unsampled.items()})


def renyi_divergences(parts: Releases, orders: Array) -> Array | None:
    """Return bounds on the Rényi divergences of releases together at orders above 1 [nats]; None if unknown."""
    divergences = np.zeros(orders.size)
    for bounds, count in parts:
        if count:
            if (bound := bounds.bound()) is None:
                return None
            divergences += count * bound.renyi(orders)
    return np.asarray(divergences * (1 + 8 * (len(parts) + 1) * ULP))


def estimated_epsilon(parts: Releases, delta: float) -> float | None:
    """Return an estimate, not a proof, of the cost of releases at δ [nats]; None if there is none.

    By the recursion on likely pairs or approximate bounds, if stated; else as one Gaussian mechanism of the same
    Hellinger distances.
    """
    kinds = [(bounds, count) for bounds, count in parts if count]
    bagged = kinds[0][0].bagged if len(kinds) == 1 else None
    likely = [(bounds.likely(), count) for bounds, count in kinds if bounds.likely is not None]
    stated = [(bound, n) for bounds, n in kinds if bounds.estimate is not None and (bound := bounds.estimate())]
    epsilon: float | None = None
    # an estimate only saves time: it is omitted if a package is missing.
    with suppress(BackendUnavailable):
        if bagged is not None:
            epsilon = bagged.estimate(kinds[0][1], delta)
        elif kinds and len(likely) == len(kinds):
            points = min(ESTIMATE_POINTS, int(MAX_ESTIMATE_WORK / updates_of(likely)))
            try:
                if points >= ESTIMATE_POINTS // 4:
                    epsilon = compose_bits_any_order(likely, points=points).epsilon(delta)
            except DeltaTooSmall:
                epsilon = math.inf
        elif delta and kinds and len(stated) == len(kinds):
            epsilon = composed_epsilon(stated, delta, stride=ESTIMATE_STRIDE)
        elif delta and 0 < (shift := estimated_shift(parts) or 0.0) < math.inf:
            epsilon = gaussian_epsilon(shift, delta)
    return epsilon


def total_privacy(
    released: Released | Release, queries: int, total_delta: float, *, fresh: bool = False
) -> ReleaseTotal:
    """Return the cost of ``queries`` releases of a γ, each chosen freely after the earlier answers.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: Q ≥ 0 releases, fixed beforehand.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: True if every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False if the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`freshness.FRESH`). For
            one release, and for voters that are not private, both are the same.

    Returns:
        The total ε by each account, and the smallest as ``.best``.

    Guarantees:
        Sound: every returned ε holds at its δ. Sums, such as those of the models' ε, are of the numbers as written.

    Raises:
        InvalidInput: a value is out of range.
        NotPrivate: a bare γ is not private for its problem.

    Source: see each account (docs/releases.md).

    >>> from darrm_opt import Problem, solve
    >>> solution = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
    >>> total = total_privacy(solution, 20, 0.00608, fresh=True)
    >>> total.method, round(total.best.epsilon, 2), round(total.totals["optimal"].epsilon, 2)
    ('bits', 2.26, 4.27)
    >>> 0.999 * total.best.epsilon < total.epsilon_at_least <= total.best.epsilon
    True
    >>> total_privacy(solution, 20, 0.00608).method  # models that were trained once
    'models'
    """
    return total_privacy_of_sequence([(released, queries)], total_delta, fresh=fresh)


def total_privacy_of_sequence(
    parts: Iterable[tuple[Released | Release, int]], total_delta: float, *, fresh: bool = False
) -> ReleaseTotal:
    """Return the cost of releases of several γ together, in any order.

    Args:
        parts: (release, number) for each γ; the numbers are fixed beforehand, the order may be adaptive.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: as in `total_privacy`. Releases for equal voters (K, their privacy, ``affected``) are taken to be of the
            same models, others to be of other models.

    Returns:
        As `total_privacy`, which it equals if all γ are equal.

    Raises:
        DarrmError: as `total_privacy`.
    """
    total_delta, fresh = probability(total_delta, "total_delta"), check_fresh(fresh)
    counts: Counter[Release] = Counter()
    for released, count in parts:
        release = Release.of(released)
        if whole_number(count, "queries", "a whole number of releases, at least 0", least=0) > MAX_RELEASES:
            raise InvalidInput("queries", count, f"at most {MAX_RELEASES} releases")
        if count:
            counts[release] += count
    # Whether answers compose at the voters' own privacy depends on their number in all, not of one γ.
    queries = sum(counts.values())
    releases = sorted(counts.items(), key=_sort_key)
    stated = [part for release, count in releases for part in release.guarantees(count, fresh=fresh, queries=queries)]
    found = total_of(stated, total_delta, effort=STATED, compare=COMPARED)
    # If voters are taken as not private, an adversary against those is not one against the releases: no lower bound.
    at_least = None
    if all(release.effective(queries, fresh=fresh) is release for release in counts):
        at_least = attained_by_adversary([(release.profile.inner, count) for release, count in releases], total_delta)
    return replace(found, epsilon_at_least=at_least, fresh=fresh)


def attained_by_adversary(parts: ReleasesOf[BitRegion], total_delta: float) -> float | None:
    """Return an ε that some adversary attains with releases inside regions, in some order; None for too many of them.

    It is a lower bound for every account.
    """
    if sum(region.moves.shape[0] * count for region, count in parts) * ADVERSARY_POINTS > MAX_ADVERSARY_WORK:
        return None
    return attained_epsilon(parts, total_delta) if parts else 0.0


def _sort_key(item: tuple[NoisyMajority, int]) -> tuple[float, float, bytes]:
    target = item[0].problem.target
    return target.epsilon, target.delta, item[0].noise.values.tobytes()


def exact_epsilon(
    gamma: ArrayLike | NoiseFunction,
    problem: Problem,
    queries: int,
    total_delta: float,
    *,
    fresh: bool = False,
    points: int = STATED.points,
) -> float:
    """Return the total ε of releases of any γ by the exact recursion on its bits.

    γ need not be private for its problem's target. For voters trained once it is the total of the models together if
    that is less.

    Guarantees: Sound.
    """
    total_delta = probability(total_delta, "total_delta")
    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    parts = NoisyMajority(NoiseFunction(gamma, problem.K), problem).guarantees(queries, fresh=fresh)
    effort = STATED._replace(points=points)
    return total_of(parts, total_delta, effort=effort, skip=NAMES - {"models", "simple", "bits"}).best.epsilon


def checked_budget(budget: Privacy) -> Privacy:
    """Return a valid, finite total (ε, δ) of releases."""
    if not isinstance(budget, Privacy):
        raise InvalidInput("budget", budget, "a Privacy(epsilon, delta)")
    if budget.epsilon == math.inf:
        raise InvalidInput(
            "budget", budget, "a Privacy with a finite epsilon", "An infinite budget needs no accounting."
        )
    return budget


def most_releases(
    released: Accountable | Released | Release,
    budget: Privacy,
    sampling: Sampling | None = None,
    *,
    fresh: bool = False,
    quick: bool = False,
) -> Quota:
    """Return the number of releases that fit in ``budget``.

    Args:
        released: a mechanism (`darrm_opt.mechanisms`), a `Solution`, or a pair (gamma, problem), which is verified
            first.
        budget: total (ε, δ) of all releases, ε finite.
        sampling: for a mechanism, how the records are drawn anew for every release; None: every record is in every
            release.
        fresh: for a γ, True if every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one
            answer; False if the voters were trained once, and (ε, Δ) is the privacy of the whole voter
            (`freshness.FRESH`).
        quick: for a γ, skip the accounts whose time grows with the count.

    Returns:
        A count that fits; up to 1 % more may fit.

    Guarantees:
        That many releases, each chosen freely after the earlier answers, are together (ε, δ)-DP; so are fewer.

    Raises:
        InvalidInput: the budget is invalid, or samples are given for a γ or private voters.
        NotPrivate: a bare γ is not private for its problem.

    >>> from darrm_opt import Problem, solve
    >>> solution = solve(Problem(11, Privacy(float("inf")), Privacy(0.2676, 3e-4), 1))
    >>> most_releases(solution, Privacy(2.7, 0.016)).queries >= 20
    True
    """
    checked_budget(budget)
    refuse_samples(released, sampling)
    bounds: Callable[[int], Releases]
    if isinstance(released, Release | Solution | tuple):
        bounds, effort = partial(Release.of(released).guarantees, fresh=fresh), STATED
    else:
        bounds, effort = released.bounds, released.effort
    most = MAX_RELEASES if effort is STATED else MAX_FOUND
    if total_of(bounds(most), budget.delta, skip=NAMES - {"models"}).epsilon <= budget.epsilon:
        return Quota(most, "models")

    def near(count: int) -> bool:
        epsilon = estimated_epsilon(bounds(count), budget.delta)
        return epsilon is not None and epsilon <= budget.epsilon

    def spent(count: int) -> tuple[float, str]:
        if effort is STATED:
            found = total_of(bounds(count), budget.delta, effort=effort.for_search(count, quick=quick), skip=("pld",))
        else:
            found = cost(cast("Accountable", released), count, budget.delta, sampling)
        return found.epsilon, found.account

    guess = max(1, largest_count(near, most)) if effort is STATED else 1
    return largest_quota(spent, budget.epsilon, most, guess=guess, exact=CHEAP)


def total_delta_of(privacy: Privacy, queries: int, slack: float) -> float:
    """Return 1 − (1−δ)^Q (1−s): the total δ of the closed form with slack s, rounded up."""
    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    slack = probability(slack, "slack")
    total = kov_delta({privacy: queries} if queries else {}, slack)
    if total >= 1:
        raise InvalidInput("queries", queries, "fewer releases", "The total delta rounds to 1.")
    return total


def probability(value: float, argument: str) -> float:
    """Return ``value`` in [0, 1) as a float, or raise `InvalidInput` naming the argument."""
    return real_number(value, argument, "a probability in [0, 1)", least=0, below=1)
