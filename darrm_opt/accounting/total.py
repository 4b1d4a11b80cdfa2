"""Total privacy of many releases of a γ: every sound account there is, and the least of them.

    simple    basic composition: the sums of mε and δ
    general   the closed form of Kairouz, Oh and Viswanath; its slack is all of the total δ that the releases leave
    optimal   the exact optimum over all (mε, δ)-DP mechanisms
    pld       the same by privacy loss distributions, plus a guard for rounding
    profile   the privacy loss distribution of the exact profile of this γ
    bits      the exact adaptive recursion on the pairs that a bit of this γ can show
    renyi     sums of Rényi divergences of these pairs, where `bits` takes too long
    gaussian  the Gaussian comparison of them, likewise
    models    the models together, for voters that were trained once

Each account rests on a finer description of the release than the one before: (mε, δ) is one point of the profile, and
the profile bounds a pair (P, Q), while the recursion uses that a release is one bit. `bits` and `profile` hold while
the bit is the whole transcript of a query.

Each account is a proof by itself, so the least of them is sound too. Voters that were trained once are taken as
not private (`freshness`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial, reduce

import numpy as np

from darrm_opt.accounting.bits.adversary import POINTS as ADVERSARY_POINTS
from darrm_opt.accounting.bits.adversary import attained_epsilon
from darrm_opt.accounting.bits.recursion import MAX_WORK, MIN_POINTS, POINTS, compose_bits_any_order, updates_of
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.composition import NotApplicable, cheapest, evaluate
from darrm_opt.accounting.composition.closed_forms import kov_composition_at_delta, kov_delta
from darrm_opt.accounting.composition.optimal import (
    least_possible_delta_of_sequence,
    optimal_composition,
    optimal_composition_of_sequence,
    optimal_delta,
    total_loss,
)
from darrm_opt.accounting.cost import estimated_shift
from darrm_opt.accounting.freshness import check_fresh, compose_models, effective_voters, models_account
from darrm_opt.accounting.gaussian import gaussian_epsilon
from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.labels.composition import compared_epsilon, renyi_epsilon
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.law_pairs import LEAK, LawPairs
from darrm_opt.accounting.pld import Pld, pld_composition_of_sequence, pld_from_profile
from darrm_opt.accounting.release_profile import MAX_EPSILON, NoisyMajority, Release, Released
from darrm_opt.design.privacy_profile import ProfileSearch
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.noise import ArrayLike, NoiseFunction
from darrm_opt.problem import Privacy, Problem, real_number, whole_number
from darrm_opt.rounding import float_above, up

MAX_BITS_WORK = MAX_WORK / 10
"""Updates that `bits` may take, some seconds; the grid is coarser where more would be needed."""

GRID_PRECISION = 1e-6
"""What a grid of `bits` with half as many points may add to ε, as a share of it, before a finer one is used."""

MAX_ADVERSARY_WORK = MAX_BITS_WORK / 10
"""Updates that the lower bound may take, each some ten times as long; beyond, none is given."""

MAX_PROFILE_POINTS = 12
"""Most (ε, δ) of a profile whose optimal composition is computed: each takes some milliseconds."""

PROFILE_PRECISION = 1e-4
"""Share of ε by which one (ε, δ) of a profile has to be better than another to be used instead."""

MAX_PROFILE_QUERIES = 100_000
"""Most releases for which the PLD of the profile is computed if the recursion is too long: seconds each time."""

TIP_MARGIN, MAX_TIP_STEPS = 1e-6, 8
"""Least share of the largest loss by which a line is beyond it that is to have a δ of 0, and how many are tried."""

Counts = Counter[NoisyMajority]
"""How many releases of each γ, with the voters as each of them counts (`freshness`)."""


def basic_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the sums of mε and δ; this δ does not depend on ``total_delta``."""
    events = _events(counts)
    delta = float_above(sum((count * Fraction(event.delta) for event, count in events.items()), Fraction(0)))
    if delta >= 1:
        raise DeltaTooSmall(total_delta, 1.0, "the deltas of the releases add up to 1 or more")
    return Privacy(total_loss(events), delta)


def optimal_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the exact optimum over all mechanisms with the releases' (mε, δ)."""
    return optimal_composition_of_sequence(_events(counts), total_delta)


def optimal_total_of_profile(majority: NoisyMajority, queries: int, total_delta: float) -> Privacy:
    """Return the exact optimum over all mechanisms with the (ε, δ) of a release: its target, or one of its profile.

    As cheap for a million releases as for a hundred. Where the same pair of neighbours is the worst throughout, which
    is so for private voters whose γ is small, it is the total of `bits_total`; else some per cent above it.
    """
    profile = majority.profile
    lines = profile.epsilons[np.linspace(0, len(profile.epsilons) - 1, MAX_PROFILE_POINTS).astype(int)]
    epsilons = sorted({*np.maximum(lines, 0.0).tolist(), profile.max_loss}, reverse=True)
    # A plain majority of votes that are not private has a δ of 1 everywhere: nothing is proved of it.
    points = [(epsilon, delta) for epsilon in epsilons if (delta := profile.delta(epsilon)) < 1]
    with suppress(DeltaTooSmall):  # none at the δ of its target
        points.append((majority.privacy.epsilon, majority.privacy.delta))
    best, errors = None, []
    for epsilon, delta in points:
        if (
            best is not None
            and optimal_delta(epsilon, delta, queries, (1 - PROFILE_PRECISION) * best.epsilon) > total_delta
        ):
            continue  # hardly better, if at all
        try:
            best = optimal_composition(epsilon, delta, queries, total_delta)
        except DeltaTooSmall as err:
            errors.append(err)
    if best is None:
        raise min(errors, key=lambda err: err.floor, default=DeltaTooSmall(total_delta, 1.0, LEAK))
    return best


def profile_total(counts: Counts, total_delta: float) -> Privacy:
    """Return the total by the privacy loss distribution of the exact profiles."""
    floor = max(release.profile.delta(release.profile.max_loss) for release in counts)
    # All of them leak no less; where one leaks nearly all, no distribution is left to compose.
    if not is_within(floor, total_delta):
        raise DeltaTooSmall(total_delta, floor, LEAK)
    return Privacy(compose_profiles(counts).epsilon(total_delta), total_delta)


def compose_profiles(counts: Counts) -> Pld:
    """Return the PLD of the exact profiles of releases, on one grid."""
    queries = sum(counts.values())
    longest = max(counts, key=lambda release: release.profile.max_loss)
    step = longest.profile.discretisation(queries)
    parts = [
        pld_from_profile(release.profile, discretisation=step, max_loss=release.profile.max_loss).repeated(count)
        for release, count in sorted(counts.items(), key=_sort_key)
    ]
    return reduce(Pld.then, parts)


def bits_total(counts: Counts, total_delta: float, most_points: int = POINTS) -> Privacy:
    """Return the total by the exact adaptive recursion, on at most ``most_points`` grid points."""
    if not total_delta:
        return _pure_total(counts)
    if sum(counts.values()) == 1:  # no grid needed
        return Privacy(next(iter(counts)).profile.epsilon(total_delta), total_delta)
    parts = [(release.profile.outer, count) for release, count in sorted(counts.items(), key=_sort_key)]
    # The recursion over several γ has a state for every way to have used some of each, as the adversary chooses the
    # order.
    updates = updates_of(parts)
    points = min(most_points, int(MAX_BITS_WORK / updates))
    if points < MIN_POINTS:
        raise TooMuchWork(
            f"{updates:.3g} steps of the exact adaptive composition, each on {MIN_POINTS} points or more, take too "
            "long. The accounts profile and optimal handle longer sequences."
        )
    previous = math.inf
    # a coarser grid is as sound: a finer one only lowers the total
    for coarse_points in (points // 8, points // 4) if points // 8 >= MIN_POINTS else ():
        with suppress(DeltaTooSmall):
            epsilon = compose_bits_any_order(parts, points=coarse_points).epsilon(total_delta)
            if previous - epsilon <= GRID_PRECISION * epsilon:
                return Privacy(epsilon, total_delta)
            previous = epsilon
    return Privacy(compose_bits_any_order(parts, points=points).epsilon(total_delta), total_delta)


def _pure_total(counts: Counts) -> Privacy:
    """Return the total at a δ of 0: the largest losses add up, which no grid finds more exactly."""
    losses = [(_largest_loss(_without_tip(majority)), count) for majority, count in counts.items()]
    if any(loss == math.inf for loss, _ in losses):
        floor = max(majority.profile.delta(majority.profile.max_loss) for majority in counts)
        raise DeltaTooSmall(0.0, floor, LEAK)
    return Privacy(float_above(sum((count * Fraction(loss) for loss, count in losses), Fraction(0))), 0.0)


def _largest_loss(region: BitRegion) -> float:
    """Return a bound on ln p/q over a region, rounded up: a vertex has the largest."""
    p, p_rest, q, q_rest = region.moves.T
    above, below = np.concatenate([p, p_rest]), np.concatenate([q, q_rest])
    possible = above > 0
    if np.any(below[possible] <= 0):
        return math.inf
    return up(float(np.log(above[possible] / below[possible]).max()), 16)


def cheapest_total(
    majority: NoisyMajority, queries: int, total_delta: float, points: int = POINTS, *, quick: bool = False
) -> tuple[float, str]:
    """Return the least total ε of ``queries`` releases of one γ [nats], and the name of the account that proves it.

    The exact recursion on bits is the least of all where it is affordable; elsewhere the PLD of the profile and the
    optimal composition of the best (ε, δ) of the profile compete. (inf, "none") if nothing is proved at that δ.

    ``quick`` leaves out the accounts whose time grows with Q.
    """
    counts = Counter({majority: queries})
    accounts: dict[str, Callable[[], Privacy]] = {
        "optimal": partial(optimal_total_of_profile, majority, queries, total_delta)
    }
    compared = divergence_totals(counts, total_delta)
    if not total_delta:
        return cheapest({**accounts, "bits": partial(bits_total, counts, total_delta)})
    if quick:
        return cheapest(compared | accounts)
    try:
        return bits_total(counts, total_delta, points).epsilon, "bits"
    except DeltaTooSmall:
        pass  # the profile leaks no less than the bits do
    except TooMuchWork:
        if queries <= MAX_PROFILE_QUERIES:
            accounts = {"profile": partial(profile_total, counts, total_delta), **accounts}
        accounts = compared | accounts
    return cheapest(accounts)


def divergence_totals(counts: Counts, total_delta: float) -> dict[str, Callable[[], Privacy]]:
    """Return the accounts by power divergences, as of mechanisms: H_a is convex in a pair, so largest at a vertex."""

    def bounds() -> list[tuple[PowerDivergence, int]]:
        known = [(bound, count) for majority, count in counts.items() if (bound := _divergence(majority)) is not None]
        if len(known) < len(counts):
            raise TooMuchWork("A pair with an infinite loss has no power divergence.")
        return known

    if not total_delta:
        return {}
    return {
        "renyi": lambda: Privacy(renyi_epsilon(bounds(), total_delta).epsilon, total_delta),
        "gaussian": lambda: Privacy(compared_epsilon(bounds(), total_delta).epsilon, total_delta),
    }


@lru_cache(maxsize=64)
def _divergence(majority: NoisyMajority) -> PowerDivergence | None:
    return _vertex_laws(_without_tip(majority)).divergence


@lru_cache(maxsize=64)
def _without_tip(majority: NoisyMajority) -> BitRegion:
    """Return the region without the tiny pairs of large losses that its lines leave next to (0, 0)."""
    profile, problem = majority.profile, majority.problem
    p, q = np.concatenate([profile.pairs, 1 - profile.pairs[:, ::-1]]).T
    possible = (q > 0) & (p > q)
    if problem.voter.epsilon == math.inf or not possible.any():
        return profile.outer
    # The profile's last line may be far beyond the largest loss: it meets the one before in a pair of the size of a
    # rounding, whose loss would be charged as the shift of every release. So another line is proved: beyond the largest
    # loss that was found, until no pair is.
    search, loss = ProfileSearch(majority.noise, problem), math.log(float(np.max(p[possible] / q[possible])))
    margin = TIP_MARGIN
    for _ in range(MAX_TIP_STEPS):
        epsilon = min(loss * (1 + margin), MAX_EPSILON)
        delta, P, Q = search.at(epsilon)
        if not delta:
            break
        if P > Q > 0 and math.log(P / Q) > epsilon:
            loss = math.log(P / Q)
        else:  # of the size of a rounding
            margin *= 10
    return profile.inside(epsilon, delta)


def _vertex_laws(region: BitRegion) -> LawPairs:
    """Return the laws (p, 1−p) and (q, 1−q) at the vertices of a region."""
    moves = region.moves.clip(0.0, 1.0)
    return LawPairs(moves[:, :2], moves[:, 2:])


def least_total(
    release: Release,
    queries: int,
    total_delta: float,
    *,
    fresh: bool = False,
    points: int = POINTS,
    quick: bool = False,
) -> tuple[float, str]:
    """Return the total ε of ``queries`` ≥ 1 releases at a total δ, and the name of the account that proves it.

    `cheapest_total` of voters whose releases compose, or the models together where they were trained once.
    """
    models = models_account(release.problem, queries, total_delta, fresh=fresh).epsilon, "models"
    cost = cheapest_total(release.effective(queries, fresh=fresh), queries, total_delta, points, quick=quick)
    return models if models[0] < cost[0] else cost


def estimated_total(majority: NoisyMajority, queries: int, total_delta: float) -> float | None:
    """Return about the total ε of many releases, no proof: as one Gaussian mechanism of the same Hellinger distances.

    None where a loss is infinite or δ is 0.
    """
    laws = _vertex_laws(majority.profile.outer)
    if not total_delta or not laws.finite:
        return None
    shift = estimated_shift([(ReleaseGuarantee(laws=lambda: laws), queries)])
    try:
        return gaussian_epsilon(shift, total_delta) if shift else None
    except BackendUnavailable:  # an estimate only saves time
        return None


def attained_by_adversary(counts: Counts, total_delta: float) -> float | None:
    """Return an ε that some adversary attains with the releases in some order; None for too many of them.

    It is a lower bound on every account.
    """
    parts = [(release.profile.inner, count) for release, count in sorted(counts.items(), key=_sort_key)]
    if sum(region.moves.shape[0] * count for region, count in parts) * ADVERSARY_POINTS > MAX_ADVERSARY_WORK:
        return None
    return attained_epsilon(parts, total_delta)


ACCOUNTS: dict[str, Callable[[Counts, float], Privacy]] = {
    "simple": basic_total,
    "general": lambda counts, delta: kov_composition_at_delta(_events(counts), delta),
    "optimal": optimal_total,
    "pld": lambda counts, delta: pld_composition_of_sequence(_events(counts), delta).privacy,
    "profile": profile_total,
    "bits": bits_total,
}
"""Accounts by name, each with a finer description of the release than the one before."""


def _events(counts: Counts) -> Counter[Privacy]:
    events: Counter[Privacy] = Counter()
    for release, count in counts.items():
        events[release.privacy] += count
    return events


def _sort_key(item: tuple[NoisyMajority, int]) -> tuple[float, float, bytes]:
    target = item[0].problem.target
    return target.epsilon, target.delta, item[0].noise.values.tobytes()


METHODS = tuple(ACCOUNTS)
"""Names of the accounts that apply to every release; "models" is added for voters that were trained once."""

MAX_RELEASES = 10**9
"""Most releases in one account."""


@dataclass(frozen=True)
class ReleaseTotal:
    """The cost of many releases by each account.

    Attributes:
        delta: total δ of the query [probability].
        totals: (ε, δ) by method; ``simple`` has a δ of its own.
        refused: the error of each method that gave no total.
        epsilon_at_least: what some adversary attains at ``delta`` [nats], up to the rounding of the pairs
            found: no sound account can be below it. ``inf`` where an infinite loss is likelier than ``delta``;
            None where the releases are too many to tell, or where private voters were trained once (what they
            attain together is not known).
        fresh: whether the voters were taken to be fresh (`freshness.FRESH`).
    """

    delta: float
    totals: dict[str, Privacy]
    refused: dict[str, NotApplicable]
    epsilon_at_least: float | None = None
    fresh: bool = False

    @property
    def method(self) -> str:
        """The account with the least ε among those within the total δ.

        Raises:
            DeltaTooSmall: none is; the error of the account that needs the least δ.
        """
        epsilons = {name: total.epsilon for name, total in self.totals.items() if total.delta <= self.delta}
        if not epsilons:
            floors = [err for err in self.refused.values() if isinstance(err, DeltaTooSmall)]
            raise min(floors, key=lambda err: err.floor) if floors else next(iter(self.refused.values()))
        return min(epsilons, key=epsilons.__getitem__)

    @property
    def best(self) -> Privacy:
        """The least total ε that is proved, and its δ; raises as `method`."""
        return self.totals[self.method]


def total_privacy(
    released: Released | Release, queries: int, total_delta: float, *, fresh: bool = False
) -> ReleaseTotal:
    """Return what ``queries`` releases of a γ cost, each chosen freely in view of the earlier answers.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: Q ≥ 0 releases, fixed beforehand.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`freshness.FRESH`).
            For one release, and for voters that are not private, both are the same.

    Returns:
        The total ε by each method, and the least of them as ``.best``.

    Guarantees:
        Sound: every ε returned holds at its δ. Sums, as of the models' ε, are of the numbers as written (`freshness`).

    Raises:
        InvalidInput: a number is outside its range.
        NotPrivate: a bare γ is not private for its problem.

    Source: each account has its own; the least of several theorems about the same releases is one (docs/accounting.md).

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
    """Return what releases of several γ cost together, in whatever order they are made.

    Args:
        parts: (release, how many) for each γ; how many of each is fixed beforehand, their order
            may be chosen on the way.
        total_delta: allowed in total [probability], in [0, 1).
        fresh: as in `total_privacy`. Releases for equal voters (K, their privacy, ``affected``) are taken to be of the
            same models, others to be of other models.

    Returns:
        As `total_privacy`, which it equals where all γ are equal.

    Raises:
        DarrmError: what `total_privacy` raises, for the same reasons.
    """
    total_delta, fresh = probability(total_delta, "total_delta"), check_fresh(fresh)
    counts: Counter[Release] = Counter()
    for released, count in parts:
        release = Release.of(released)
        if whole_number(count, "queries", "a whole number of releases, at least 0", least=0) > MAX_RELEASES:
            raise InvalidInput("queries", count, f"at most {MAX_RELEASES} releases")
        if count:
            counts[release] += count
    if not counts:
        return ReleaseTotal(total_delta, dict.fromkeys(METHODS, Privacy(0.0, 0.0)), {}, 0.0, fresh)
    queries = sum(counts.values())
    # Whether an answer composes at the voters' own privacy depends on the number of answers in all, not of one γ.
    majorities: Counter[NoisyMajority] = Counter()
    for release, count in counts.items():
        majorities[release.effective(queries, fresh=fresh)] += count
    accounts: dict[str, Callable[[], Privacy]] = {
        name: partial(account, majorities, total_delta) for name, account in ACCOUNTS.items()
    }
    voters = {(release.problem.K, release.problem.voter, release.problem.affected) for release in counts}
    if majorities != counts and all(voter.epsilon < math.inf for _, voter, _ in voters):
        accounts["models"] = partial(_models, voters, total_delta)
    totals, refused = evaluate(accounts)
    if "bits" not in totals:  # which is exact, so that no account of the same pairs is below it
        more, more_refused = evaluate(divergence_totals(majorities, total_delta))
        totals, refused = totals | more, refused | more_refused
    # Where voters are taken as not private, an adversary against those is none against the releases: no lower bound.
    at_least = attained_by_adversary(majorities, total_delta) if majorities == counts else None
    return ReleaseTotal(total_delta, totals, refused, at_least, fresh)


def _models(voters: Iterable[tuple[int, Privacy, int]], total_delta: float) -> Privacy:
    """Return what all models together cost; raises `DeltaTooSmall` where nothing finite is proved."""
    models: Counter[Privacy] = Counter()
    for _, voter, affected in voters:
        models[voter] += affected
    total = compose_models(models, total_delta)
    if total.epsilon == math.inf:
        floor = least_possible_delta_of_sequence((model.delta, count) for model, count in models.items())
        raise DeltaTooSmall(total_delta, floor, "each model that a record reaches may leak with its own Delta")
    return total


def exact_epsilon(
    gamma: ArrayLike | NoiseFunction,
    problem: Problem,
    queries: int,
    total_delta: float,
    *,
    fresh: bool = False,
    points: int = POINTS,
) -> float:
    """Return the total ε of releases of any γ by the exact recursion on its bits.

    γ need not be private for its problem's target. Where voters were trained once, the models together may cost less,
    and then that is the total.

    Guarantees: Sound.
    """
    total_delta = probability(total_delta, "total_delta")
    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    # Releases of voters that were trained once compose as those of voters that are not private, or not at all.
    voters = effective_voters(problem, queries, fresh=fresh)
    if queries == 0:
        return 0.0
    models = models_account(problem, queries, total_delta, fresh=fresh).epsilon
    try:
        counts = Counter({NoisyMajority(NoiseFunction(gamma, problem.K), voters): queries})
        return min(models, bits_total(counts, total_delta, points).epsilon)
    # The models' account stands whatever the bits say: a refusal matters only where it is the last.
    except (DeltaTooSmall, TooMuchWork):
        if models == math.inf:
            raise
        return models


def total_delta_of(privacy: Privacy, queries: int, slack: float) -> float:
    """Return 1 − (1−δ)^Q (1−s): the total δ that the closed form has with slack s, rounded up."""
    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    slack = probability(slack, "slack")
    total = kov_delta({privacy: queries} if queries else {}, slack)
    if total >= 1:
        raise InvalidInput("queries", queries, "fewer releases", "The total delta rounds to 1.")
    return total


def probability(value: float, argument: str) -> float:
    """Return ``value`` in [0, 1) as a float, or raise `InvalidInput` naming the argument."""
    return real_number(value, argument, "a probability in [0, 1)", least=0, below=1)
