"""Accounts: theorems about many releases together, in any order and each chosen after the earlier answers.

Each kind of release states a guarantee (`guarantee.ReleaseGuarantee`). Every account below is a theorem about the same
releases, so their minimum ε is proved too (`total`). An account does not apply if its input is unknown:

    account   input                total
    models    models trained once  their composition: all answers, in any number, are post-processing
    simple    (ε, δ)               the sums of ε and of δ
    optimal   (ε, δ)               the exact optimum over all (ε, δ)-DP mechanisms
    profiles  a profile of models  privacy loss distributions of models that state several (ε, δ)
    general   (ε, δ)               the closed form of Kairouz, Oh and Viswanath; the remaining δ is slack
    pld       (ε, δ)               the optimum by privacy loss distributions, plus a charge for rounding
    laws      all pairs of laws    one release, or the adaptive recursion on the pairs
    bits      pairs of a bit       the exact adaptive recursion on the pairs that a bit can show
    losses    the largest losses   their sum: what holds at δ = 0 holds at every δ
    points    lines around these   `optimal`, at the best (ε, δ) of the exact profile
    profile   laws, or lines       the privacy loss distribution of the exact profile
    moments   all pairs of laws    sums of Rényi divergences of the pairs
    renyi     power divergences    the same, of bounds on all orders
    gaussian  power divergences    the Gaussian comparison: at most one Gaussian mechanism

Each uses a finer description of the release than the accounts it supersedes (`Account.finer`): (ε, δ) is one point of
the profile, the profile bounds a pair (P, Q), and the recursion uses that a release is one bit. `laws`, `bits` and
`profile` hold only if the answer is the whole transcript of a query.

Private voters trained once are taken as not private, or charged as models (`freshness`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from darrm_opt.accounting.adaptive import adaptive_epsilon
from darrm_opt.accounting.bits.recursion import MIN_POINTS, compose_bits_any_order, updates_of
from darrm_opt.accounting.bounds import is_within, upper_bound
from darrm_opt.accounting.composition import sums_as_written
from darrm_opt.accounting.composition.closed_forms import kov_composition_at_delta
from darrm_opt.accounting.composition.optimal import (
    least_possible_delta_of_sequence,
    optimal_composition,
    optimal_composition_of_sequence,
    optimal_delta,
    optimal_delta_of_sequence,
    total_loss,
)
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.guarantee import BaggedReleases, Laws, LawTriples, Models, ReleaseGuarantee, Releases
from darrm_opt.accounting.labels.composition import compared_epsilon, renyi_epsilon
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.accounting.law_pairs import LEAK, LawPairs
from darrm_opt.accounting.pld import Pld, pld_composition_of_sequence, pld_from_profile
from darrm_opt.accounting.release_profile import ReleaseProfile
from darrm_opt.accounting.sampled import convolved_epsilon, renyi_sums
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import decimal_above, float_above

MAX_RELEASES = 10**9  # maximum number of releases in one account


class Effort(NamedTuple):
    """Limits on the running time of accounts."""

    points: int  # grid points of the recursion on bits; sound for any number
    updates: float  # grid point × vertex updates in that recursion; beyond it the grid is coarser
    convolved: int = 100_000  # maximum releases of a γ for convolution of its profile, if the recursion is too long
    only_within: float | None = None  # `optimal` only decides whether this ε holds, 100 times faster

    def for_search(self, releases: int, *, quick: bool = False) -> Effort:
        """Return the effort of one account of ``releases`` releases in a search: about a second, far less if quick."""
        if releases > (MIN_TOO_MANY if quick else MAX_BY_BITS):
            return Effort(self.points, 0.0, 0)
        return Effort(min(self.points, max(MIN_SEARCHED, MAX_GRID // max(1, releases))), self.updates)


MAX_BY_BITS, MIN_TOO_MANY = 20_000, 100
"""Maximum number of releases for which a search uses `bits`, which would take minutes beyond it; the same if quick."""

MAX_GRID, MIN_SEARCHED = 40_000_000, 2_001
"""Grid points × releases of one step of such a search, about a second, and the smallest grid."""

STATED = Effort(40_001, 2e9, MAX_RELEASES)  # for a stated total: some seconds

SEARCHED = Effort(8_001, 4e8)
"""For one of many totals in a search: a second. A finer grid would change the fourth digit of ε."""

PLANNED = STATED._replace(points=SEARCHED.points, convolved=SEARCHED.convolved)  # for a γ in a plan
DECIDED = Effort(0, 0.0, 0)  # for a decision about (ε, δ) only, with `Effort.only_within`: negligible time
SLOW = ("laws", "bits", "profile", "moments", "pld")  # accounts whose time grows with the releases, or that convolve

GRID_PRECISION = 1e-6
"""Relative increase of ε up to which a grid of `bits` with half as many points is used instead of a finer one."""

MAX_PROFILE_POINTS = 12
"""Maximum number of (ε, δ) of a profile whose optimal composition is computed, in some milliseconds each."""

PROFILE_PRECISION = 1e-4  # smallest relative improvement of ε for which one (ε, δ) of a profile replaces another
CHEAP = ("simple", "optimal")  # accounts of negligible time
COMPARED = ("general", "pld", "profile")  # accounts shown for comparison even if a finer one is known


class Accountable(Protocol):
    """A mechanism whose releases can be accounted for (`mechanisms.base.VoteMechanism`)."""

    K: int
    affected: int
    takes_samples: bool  # whether totals are known if records are drawn anew for every release

    @property
    def effort(self) -> Effort:
        """Limits on the running time of its accounts."""
        ...

    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of ``releases`` releases."""
        ...

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee | None:
        """Return the guarantee of one release if a record moves ``votes`` votes; None if nothing is proved."""
        ...

    def listed(self) -> LawPairs | None:
        """Return all pairs of laws of one release, in both orders; None if too many."""
        ...

    def sampled_laws(self, sampling: Sampling, cut: float = ...) -> Sequence[LawTriples] | None:
        """Return the laws of one answer without a record and with it, in one or two of its values; None if unknown.

        ``cut``: probability of noise that may be cut off: the laws are conditional on the noise that remains.
        """
        ...


T = TypeVar("T")

ReleasesOf = Sequence[tuple[T, int]]
"""The input of an account for each kind of release, and the maximum number of releases of that kind."""


@dataclass(frozen=True)
class Account(Generic[T]):
    """A theorem about releases of several kinds, in any order and each chosen after the earlier answers."""

    name: str
    needs: Callable[[ReleaseGuarantee], T | None]  # its input, from each kind of release; None if unknown
    total: Callable[[ReleasesOf[T], float, Effort], Privacy | None]  # raises `NotApplicable`; or None
    finer: tuple[str, ...] = ()  # accounts never above it: skipped if one of them is exact
    is_exact: Callable[[ReleasesOf[T], float, Effort], bool] = lambda *_: True  # except for rounding, given its input
    needs_delta: bool = False  # no total at δ = 0: skips the computation of its input


EventAccount = Callable[[ReleasesOf[Privacy], float, Effort], Privacy | None]


def _bound(epsilon: float, delta: float) -> Privacy:
    """Return the ε of an account as a bound; ∞ for NaN."""
    return Privacy(float(upper_bound(epsilon)), delta)


def _by_models(parts: ReleasesOf[Models], delta: float, _: Effort) -> Privacy:
    models: Counter[Privacy] = Counter()
    for _K, reached in {voters for voters, _count in parts}:
        models.update(dict(reached))
    total = compose_models(models, delta)
    if total.epsilon == math.inf:
        floor = least_possible_delta_of_sequence((model.delta, count) for model, count in models.items())
        raise DeltaTooSmall(delta, floor, "each model that a record reaches may leak with its own Delta")
    return total


def _by_sums(parts: ReleasesOf[Privacy], delta: float, _: Effort) -> Privacy:
    """Return the sums of ε and δ, of the numbers as written or as stored: this δ does not depend on ``delta``."""
    events = _counted(parts)
    written, written_delta = sums_as_written(events)
    stored = float_above(sum((count * Fraction(event.delta) for event, count in events.items()), Fraction(0)))
    total_delta = min(decimal_above(written_delta), stored)
    if total_delta >= 1:
        raise DeltaTooSmall(delta, 1.0, "the deltas of the releases add up to 1 or more")
    return Privacy(min(decimal_above(written), total_loss(events)), total_delta)


def _by_optimum(parts: ReleasesOf[Privacy], delta: float, effort: Effort) -> Privacy | None:
    """Return the exact optimum over all (ε, δ)-DP mechanisms; or, with `Effort.only_within`, whether that ε holds."""
    events, epsilon = _counted(parts), effort.only_within
    if epsilon is None:
        return optimal_composition_of_sequence(events, delta)
    with suppress(DeltaTooSmall):  # the closed form is fast for any number, and never below the optimum
        if is_within(kov_composition_at_delta(events, delta).epsilon, epsilon):
            return Privacy(epsilon, delta)
    return Privacy(epsilon, delta) if is_within(optimal_delta_of_sequence(events, epsilon), delta) else None


def _by_model_profiles(parts: ReleasesOf[Privacy], delta: float, _: Effort) -> Privacy | None:
    events = _counted(parts)
    if all(len(event.points) == 1 for event in events):
        return None
    from darrm_opt.accounting.model_profiles import composed_profiles  # imported on use: few models state one

    epsilon = _least([(_of_events(composed_profiles), list(events.items()))], delta)
    if len(events) == 1:  # each point holds by itself, too
        ((model, count),) = events.items()
        points = [[(Privacy(*point), count)] for point in model.points]
        epsilon = min(epsilon, _least([(by, point) for point in points for by in (_by_sums, _by_optimum)], delta))
    return Privacy(epsilon, delta)


def _least(asked: Iterable[tuple[EventAccount, ReleasesOf[Privacy]]], delta: float) -> float:
    """Return the smallest ε [nats] of the accounts of (ε, δ) that have one at δ; ∞ if none has."""
    epsilons = [math.inf]
    for account, parts in asked:
        with suppress(DeltaTooSmall, TooMuchWork):
            total = account(parts, delta, STATED)
            if total is not None and is_within(total.delta, delta):
                epsilons.append(total.epsilon)
    return min(epsilons)


def compose_models(models: Mapping[Privacy, int], total_delta: float) -> Privacy:
    """Return the privacy of independent models together, and so of everything computed from them.

    Args:
        models: number of models of each privacy that one record affects, ≥ 1 in all.
        total_delta: δ of all together [probability], in [0, 1).

    Returns:
        (ε, δ); ε = inf if nothing is proved at that δ. A single model costs its own (ε, Δ).

    Guarantees:
        Sound for models that are independent given the data: by basic or optimal composition, and for models that state
        a privacy profile by composition of their pairs of laws. Basic composition adds the numbers as written: three
        times 0.1 is 0.3, though as doubles it is 3e-17 more.

    >>> compose_models({Privacy(0.5, 1e-6): 1}, 1e-5), compose_models({Privacy(0.1): 3}, 0.0).epsilon
    (Privacy(epsilon=0.5, delta=1e-06), 0.3)
    """
    if any(model.epsilon == math.inf for model in models):
        return Privacy(math.inf, total_delta)
    if sum(models.values()) == 1:
        (model,) = models
        if len(model.points) == 1 and model.delta <= total_delta:
            return model  # unchanged: an account would round its numbers up
    parts = list(models.items())
    return Privacy(
        _least([(by, parts) for by in (_by_sums, _by_optimum, _by_model_profiles)], total_delta), total_delta
    )


def models_account(problem: Problem, queries: int, total_delta: float, *, fresh: bool) -> Privacy:
    """Return the account of the releases by the privacy of the models together; ε = inf for fresh voters."""
    if effective_voters(problem, queries, fresh=fresh) is problem:
        return Privacy(math.inf, total_delta)
    return compose_models({problem.voter: problem.affected}, total_delta)


def _of_one_law(parts: ReleasesOf[Laws], delta: float, _: Effort) -> Privacy | None:
    (shown, count), *others = parts
    if others or not isinstance(shown, LawPairs) or (count > 1 and (shown.is_bit or not delta)):
        return None
    return _bound(shown.epsilon(delta) if count == 1 else adaptive_epsilon([shown], count, delta), delta)


def _by_bits(parts: ReleasesOf[ReleaseGuarantee], delta: float, effort: Effort) -> Privacy:
    """Return the total by the exact adaptive recursion, on as many grid points as are affordable."""
    if not delta:  # the largest losses add up, which no grid finds more exactly
        total = _sum_of_losses(parts)
        if total is None:
            raise DeltaTooSmall(0.0, max(_leak(bounds.shown) for bounds, _ in parts), LEAK)
        return total
    if _is_single(parts):  # no grid needed
        return _bound(parts[0][0].shown.epsilon(delta), delta)
    # The recursion over several kinds has a state for every number of each used so far, as the adversary chooses the
    # order.
    regions = [(bounds.shown.region, count) for bounds, count in parts]
    points = min(effort.points, int(effort.updates / updates_of(regions)))
    if points < MIN_POINTS:
        raise TooMuchWork(
            f"{updates_of(regions):.3g} steps of the exact adaptive composition, each on at least {MIN_POINTS} points, "
            "take too long. The accounts profile and optimal handle longer sequences."
        )
    previous = math.inf
    # a coarser grid is also sound: a finer one only lowers the total.
    for coarse_points in (points // 8, points // 4) if points // 8 >= MIN_POINTS else ():
        with suppress(DeltaTooSmall):
            epsilon = compose_bits_any_order(regions, points=coarse_points).epsilon(delta)
            if previous - epsilon <= GRID_PRECISION * epsilon:
                return _bound(epsilon, delta)
            previous = epsilon
    return _bound(compose_bits_any_order(regions, points=points).epsilon(delta), delta)


def _by_bags(parts: ReleasesOf[BaggedReleases], delta: float, _: Effort) -> Privacy | None:
    (bagged, count), *others = parts
    return None if others else _bound(bagged.epsilon(count, delta), delta)


def _by_losses(parts: ReleasesOf[ReleaseGuarantee], delta: float, _: Effort) -> Privacy | None:
    """Return what holds at δ = 0: grids and Rényi divergences may state more at a δ near their rounding."""
    # `simple` and `bits` add up the same losses.
    is_pure = all(
        isinstance(bounds.privacy, Privacy | None) and not (bounds.privacy and bounds.privacy.delta)
        for bounds, _count in parts
    )
    is_bits = not delta and all(_bit(bounds) for bounds, _count in parts)
    return None if is_pure or is_bits else _sum_of_losses(parts)


def _sum_of_losses(parts: ReleasesOf[ReleaseGuarantee]) -> Privacy | None:
    losses = [(bounds.largest_loss(), count) for bounds, count in parts]
    if any(loss == math.inf for loss, _count in losses):
        return None
    return Privacy(float_above(sum((count * Fraction(loss) for loss, count in losses), Fraction(0))))


def _has_full_grid(parts: ReleasesOf[ReleaseGuarantee], delta: float, effort: Effort) -> bool:
    """Return whether the recursion on bits has its full grid, so that no account of the same pairs is below it."""
    regions = [(bounds.shown.region, count) for bounds, count in parts]
    return not delta or _is_single(parts) or effort.points * updates_of(regions) <= effort.updates


def _is_single(parts: ReleasesOf[Any]) -> bool:
    return sum(count for _, count in parts) == 1


def _by_points(parts: ReleasesOf[Laws], delta: float, _: Effort) -> Privacy | None:
    """Return the optimum over all mechanisms with an (ε, δ) of a release's profile; fast for any number."""
    ((profile, queries), *others) = parts
    if others or not isinstance(profile, ReleaseProfile):
        return None
    lines = profile.epsilons[np.linspace(0, len(profile.epsilons) - 1, MAX_PROFILE_POINTS).astype(int)]
    epsilons = sorted({*np.maximum(lines, 0.0).tolist(), profile.max_loss}, reverse=True)
    best, errors = None, []
    for epsilon in epsilons:
        # a plain majority of votes that are not private has δ = 1 everywhere.
        if (each := profile.delta(epsilon)) == 1 or (
            best is not None and optimal_delta(epsilon, each, queries, (1 - PROFILE_PRECISION) * best.epsilon) > delta
        ):
            continue  # not significantly better
        try:
            best = optimal_composition(epsilon, each, queries, delta)
        except DeltaTooSmall as err:
            errors.append(err)
    if best is None:
        raise min(errors, key=lambda err: err.floor, default=DeltaTooSmall(delta, 1.0, LEAK))
    return best


def _by_profile(parts: ReleasesOf[Laws], delta: float, effort: Effort) -> Privacy | None:
    """Return the total by the privacy loss distribution of the exact profiles."""
    profiles = [(shown, count) for shown, count in parts if isinstance(shown, ReleaseProfile)]
    if len(profiles) < len(parts):
        (shown, count), *others = parts
        if others or not isinstance(shown, LawPairs) or not delta:
            return None
        return _bound(convolved_epsilon([shown], count, delta), delta)
    floor = max(_leak(profile) for profile, _ in profiles)
    # All of them together leak at least this; if one leaks nearly always, no distribution is left to compose.
    if not is_within(floor, delta):
        raise DeltaTooSmall(delta, floor, LEAK)
    if sum(count for _, count in parts) > effort.convolved:
        raise TooMuchWork("The convolution of profiles takes too long.")
    return _bound(compose_profiles(profiles).epsilon(delta), delta)


def compose_profiles(parts: ReleasesOf[ReleaseProfile]) -> Pld:
    """Return the PLD of the exact profiles of releases, on the grid of the longest."""
    longest = max((profile for profile, _ in parts), key=lambda profile: profile.max_loss)
    step = longest.discretisation(sum(count for _, count in parts))
    return Pld.of_all([(pld_from_profile(each, discretisation=step, max_loss=each.max_loss), n) for each, n in parts])


def _by_moments(parts: ReleasesOf[Laws], delta: float, _: Effort) -> Privacy | None:
    (shown, count), *others = parts
    if others or not isinstance(shown, LawPairs) or count == 1:
        return None
    return _bound(renyi_sums([shown], count, delta), delta)


def _leak(shown: Laws) -> float:
    """Return the δ of one release beyond its largest finite loss."""
    return float(shown(np.array([shown.max_loss]))[0])


def _counted(parts: ReleasesOf[Privacy]) -> Counter[Privacy]:
    events: Counter[Privacy] = Counter()
    for event, count in parts:
        events[event] += count
    return events


def _laws(bounds: ReleaseGuarantee) -> Laws | None:
    return None if bounds.laws is None else bounds.shown


def _bit(bounds: ReleaseGuarantee) -> ReleaseGuarantee | None:
    return bounds if bounds.laws is not None and bounds.shown.is_bit else None


def _of_events(
    account: Callable[[Counter[Privacy], float], Privacy],
) -> Callable[[ReleasesOf[Privacy], float, Effort], Privacy]:
    return lambda parts, delta, _: account(_counted(parts), delta)


def _of_divergences(
    account: Callable[[ReleasesOf[PowerDivergence], float], float],
) -> Callable[[ReleasesOf[PowerDivergence], float, Effort], Privacy]:
    return lambda parts, delta, _: _bound(account(parts, delta), delta)


_EVENT, _BOUND = ReleaseGuarantee.event, ReleaseGuarantee.bound
_PAIRS = "laws", "bits"

ACCOUNTS: tuple[Account[Any], ...] = (
    Account("models", lambda bounds: bounds.models, _by_models),
    Account("simple", _EVENT, _by_sums),
    Account("optimal", _EVENT, _by_optimum),
    Account("profiles", _EVENT, _by_model_profiles),
    Account("general", _EVENT, _of_events(kov_composition_at_delta), ("optimal",)),
    Account("laws", _laws, _of_one_law, is_exact=lambda parts, *_: _is_single(parts)),
    Account("bits", _bit, _by_bits, ("laws",), _has_full_grid),
    Account("bits", lambda bounds: bounds.bagged, _by_bags),  # averaged over the draw
    Account("losses", lambda bounds: bounds, _by_losses),
    Account("pld", _EVENT, _of_events(lambda *of: pld_composition_of_sequence(*of).privacy), ("optimal", *_PAIRS)),
    Account("points", _laws, _by_points, _PAIRS),
    Account("profile", _laws, _by_profile, _PAIRS),
    Account("moments", _laws, _by_moments, _PAIRS, needs_delta=True),
    Account("renyi", _BOUND, _of_divergences(renyi_epsilon), _PAIRS, needs_delta=True),
    Account("gaussian", _BOUND, _of_divergences(compared_epsilon), _PAIRS, needs_delta=True),
)
"""All accounts; for one description of releases the quick ones first, then those of a finer description."""

NAMES = frozenset(account.name for account in ACCOUNTS)
