"""Conversion of releases for other libraries: a ``dp_accounting`` PLD or event, and an OpenDP privacy map.

What is converted is the output of a release (`guarantee`): the exact profile of a γ, not its (mε, δ); the laws of an
answer, for these votes or for any, also if the records are sampled. The conversion is never optimistic: the bound on
rounding that `Pld` adds to each δ on request is added here to the infinite loss, since no other library knows it. That
is sound under
composition: masses with a total error g, composed with anything, err by at most g times the finite mass of the other,
and an infinite loss larger by g raises the composed one by exactly that.

The result will be composed with others, so voters trained once are taken as not private (`freshness`). The models
together enter another accountant only as ``affected`` events of one voter's (ε, Δ).

Neighbours are datasets whose difference changes the voters as their (ε, Δ) and ``affected`` state, so the other
accountant must use the same neighbouring relation. Sampled releases name theirs, and an accountant with another one
rejects them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from darrm_opt.accounting.accounts import Accountable
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.composition.optimal import nats
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.guarantee import Releases
from darrm_opt.accounting.labels.composition import MAX_RANGE, table_divergence
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.pld import Pld, library_distribution, pld_of
from darrm_opt.accounting.release_profile import Release, Released, ReleaseProfile
from darrm_opt.accounting.sampled import direction_pld, renyi_of_pairs
from darrm_opt.accounting.sampling import ALLOCATION, EACH_VOTER, Sampling, amplify_by_subsampling
from darrm_opt.accounting.total import refuse_samples
from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by, require
from darrm_opt.rounding import ULP, up

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

DISCRETISATION = 1e-4  # the library's own default [nats]; only PLDs with the same value compose

COMPOSED_QUERIES = 2
"""Number of queries assumed for a single converted release, which may be composed with others of the same voters."""

Releasing = Accountable | Released | Release  # accepted releases: a mechanism, a `Solution`, or a pair (gamma, problem)
Profile = Callable[[float], float]  # ε [nats] → δ [probability], never below the exact one


def as_pld(
    released: Releasing,
    *,
    queries: int = 1,
    fresh: bool = False,
    discretisation: float = DISCRETISATION,
    sampling: Sampling | None = None,
) -> PrivacyLossDistribution:
    """Return releases as a ``dp_accounting`` PrivacyLossDistribution, to be composed with others.

    Args:
        released: a mechanism (`darrm_opt.mechanisms`), a `Solution`, or a pair (gamma, problem), which is verified
            first.
        queries: releases Q ≥ 1, each chosen freely after the earlier answers.
        fresh: for a γ: True if every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one
            answer; False if the voters were trained once (`freshness.FRESH`): they are taken as not private, even for a
            single release.
        discretisation: h [nats], > 0: the ``value_discretization_interval`` of the PLDs to compose it with.
        sampling: how the records are drawn anew for every query, one label per sample; None: no sampling.

    Guarantees:
        Dominates the releases, rounding included, except for the library's own later arithmetic. Labels of more than
        two classes with σ above some 20 votes are charged as their noisy counts, unlike by `rdp_accountant`.

    Raises:
        InvalidInput: a value is out of range, or a mechanism or sampling without known laws.
        NotPrivate: a bare γ is not private for its problem.
        TooMuchWork: the distribution would be too long: use a coarser h.
        BackendUnavailable: dp_accounting (the extra ``accounting``) is not installed.

    Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots); Zhu, Dong, Wang 2022 (a profile
    defines a dominating pair).
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    subject, fresh = _subject(released, fresh=fresh)
    if sampling is None:
        plds = [reduce(Pld.then, _parts(_releases(subject, queries, fresh=fresh), discretisation))]
    else:
        plds = _sampled(subject, queries, sampling, discretisation)
    return library_distribution(*plds, guarded=True)


def _subject(released: Releasing, *, fresh: bool) -> tuple[Release | Accountable, bool]:
    """Return a γ with its problem, or a mechanism that charges all releases alike; and whether voters are fresh."""
    fresh = check_fresh(fresh) or getattr(released, "fresh", False)
    certified = getattr(released, "release", None)
    if isinstance(certified, Release):
        return certified, fresh
    if hasattr(released, "bounds"):
        return cast("Accountable", released), fresh
    return Release.of(cast("Released", released)), fresh


def _releases(mechanism: Release | Accountable, queries: int, *, fresh: bool) -> Releases:
    """Return the guarantees of ``queries`` releases among others of the same voters; ``fresh`` applies to a γ."""
    if isinstance(mechanism, Release):
        return [(mechanism.effective(COMPOSED_QUERIES, fresh=fresh).guarantee, queries)]
    # Voters trained once reveal less in an only release than in one of several.
    least = COMPOSED_QUERIES if queries == 1 and getattr(mechanism, "is_fixed", False) else queries
    return [(bounds, -(-count * queries // least)) for bounds, count in mechanism.bounds(least)]


def _parts(parts: Releases, step: float) -> list[Pld]:
    """Return the PLDs of releases of several kinds."""
    plds = []
    for bounds, count in parts:
        if not count:
            continue
        if bounds.laws is not None and isinstance(bounds.shown, ReleaseProfile):
            plds.append(bounds.shown.pld(step, count=count))
        elif bounds.laws is not None and isinstance(bounds.shown, LawPairs):
            plds.append(direction_pld([bounds.shown], 0.0, count, step))
        # Of any votes if those of these are too many: larger, but also sound.
        elif bounds.any_votes is not None:
            known = bounds.any_votes()
            plds.append(direction_pld([known.pairs], known.missing, count * known.times, step))
        elif (event := bounds.event()) is not None:
            plds.append(pld_of(event, step).repeated(count))
        else:
            raise InvalidInput(
                "released", "a mechanism without known laws", "one with laws, or an (ε, δ), of a release"
            )
    return plds


def _sampled(released: Release | Accountable, queries: int, sampling: Sampling, step: float) -> list[Pld]:
    """Return the PLDs of sampled releases: of a record removed and of one added, or one PLD for both."""
    mechanism = _checked_sampling(released, sampling)
    families = mechanism.sampled_laws(sampling)
    if families is None:
        release = mechanism.at_sensitivity(mechanism.affected)
        event = None if release is None else release.event()
        if event is None:
            raise InvalidInput("released", "a mechanism without known laws", "one whose laws in a sample are known")
        return [pld_of(amplify_by_subsampling(event, sampling.chance), step).repeated(queries)]
    missing = max(family.missing for family in families)
    directions = zip(*(family.pairs(sampling.chance) for family in families), strict=True)
    plds = [direction_pld(list(each), missing, queries, step) for each in directions]
    return plds[::-1]  # the removed record first


def _checked_sampling(released: Release | Accountable, sampling: Sampling) -> Accountable:
    """Reject samples with a record in several votes, queries or labels, and mechanisms that do not support sampling."""
    refuse_samples(released, sampling)
    if sampling.scheme in (*EACH_VOTER, ALLOCATION) or sampling.labels > 1:
        raise InvalidInput("sampling", sampling.words, "poisson or without-replacement, and one label of a sample")
    return cast("Accountable", released)


def as_event(released: Releasing, *, fresh: bool = False, sampling: Sampling | None = None) -> Any:
    """Return one release as a ``dp_accounting`` DpEvent, for `pld_accountant` and `rdp_accountant`.

    Compose it (``SelfComposedDpEvent(event, 100)``) and combine it with the library's own events, such as those of
    DP-SGD. Other accountants of the library reject this event.

    Args:
        released: as in `as_pld`.
        fresh: as in `as_pld`.
        sampling: as in `as_pld`.

    Raises:
        NotPrivate: a bare γ is not private for its problem.
        BackendUnavailable: dp_accounting is not installed.

    >>> from dp_accounting import dp_event
    >>> from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum
    >>> labels = dp_event.SelfComposedDpEvent(as_event(NoisyMaximum(250, 10, 40.0)), 286)
    >>> step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.5))
    >>> both = rdp_accountant().compose(step, 500).compose(labels)
    >>> bool(2.2 < both.get_epsilon(1e-5) < 2.3)  # the labels alone cost 2.06, as noisy counts 2.64
    True
    """
    return _event_and_accountants()[0](*_subject(released, fresh=fresh), sampling)


def pld_accountant(discretisation: float = DISCRETISATION, neighbours: str = "ADD_OR_REMOVE_ONE") -> Any:
    """Return a ``dp_accounting`` PLDAccountant that also accepts `as_event`.

    Args:
        discretisation: h [nats] of everything it composes.
        neighbours: name of the library's NeighboringRelation, for which the voters must be private.

    Raises:
        BackendUnavailable: dp_accounting is not installed.
    """
    return _event_and_accountants()[1](_relation(neighbours), discretisation)


def rdp_accountant(neighbours: str = "ADD_OR_REMOVE_ONE") -> Any:
    """Return a ``dp_accounting`` RdpAccountant that also accepts `as_event`, for mechanisms with known divergences.

    Labels of a noisy vote, for any number of classes and any σ, are charged by divergences of labels, which are up to
    36 % smaller than those of noisy counts.

    Args:
        neighbours: as in `pld_accountant`.

    Raises:
        BackendUnavailable: dp_accounting is not installed.
    """
    return _event_and_accountants()[2](None, _relation(neighbours))


def _relation(name: str) -> Any:
    return require("dp_accounting.privacy_accountant", "The conversion").NeighboringRelation[name]


def renyi_divergences(
    subject: Release | Accountable, sampling: Sampling | None, orders: Array, *, fresh: bool = False
) -> Array:
    """Return bounds on the Rényi divergences of one release at each order above 1; inf if none is known."""
    if sampling is not None:
        families = _checked_sampling(subject, sampling).sampled_laws(sampling)
        if families is None or any(family.missing for family in families):
            raise InvalidInput("sampling", sampling.words, "None, or one for `pld_accountant`")
        pairs = [laws for family in families for laws in family.pairs(sampling.chance)]
        return renyi_of_pairs(pairs, orders)
    total = np.zeros(orders.size)
    for bounds, count in _releases(subject, 1, fresh=fresh):
        bound, event = bounds.bound(), bounds.event()
        if bound is None and event is not None and not event.delta and event.epsilon <= MAX_RANGE:
            truth = 1 / (1 + math.exp(-event.epsilon))
            lie = truth * math.exp(-event.epsilon)  # not 1 − truth, which is 0 from ε = 37 on
            bound = table_divergence([[truth, lie]], [[lie, truth]])  # the least private mechanism of its ε
        if bound is None:
            raise InvalidInput("released", "a mechanism without known divergences", "one for `pld_accountant`")
        divergences = bound.renyi(orders)
        if bounds.laws is not None:
            divergences = np.minimum(divergences, bounds.shown.largest_loss)
        total += count * divergences
    return total * (1 + 8 * ULP)


def privacy_map(released: Released | Release, *, queries: int = 1, fresh: bool = False) -> Callable[[int], Profile]:
    """Return the map d_in ↦ privacy profile of releases on two datasets that differ in d_in records.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: releases Q ≥ 0, each chosen freely after the earlier answers.
        fresh: True if every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False if the voters were trained once (`freshness.FRESH`): they are taken as not private if there is more
            than one release.

    Returns:
        A function of the number of differing records d_in ≥ 0; its value maps ε ≥ 0 to a δ.

    Guarantees:
        Sound: at d_in = 1 the exact account of the bits; beyond it group privacy, δ_d(ε) ≤ Σ_{i<d} e^(iε/d) δ(ε/d).

    Raises:
        InvalidInput: a value is out of range.
        NotPrivate: a bare γ is not private for its problem.
        TooMuchWork: too many releases for the exact account.

    Source: the form of a measurement's privacy map in OpenDP; group privacy: Dwork, Roth 2014.

    >>> from darrm_opt import Problem, solve
    >>> to_profile = privacy_map(solve(Problem.from_allowance(K=11, m=3, epsilon=0.1)))
    >>> to_profile(0)(0.0), to_profile(1)(0.3) < 1e-12, 0 < to_profile(2)(0.3) < 0.2
    (0.0, True, True)
    """
    release = Release.of(released)
    queries = whole_number(queries, "queries", "a whole number of releases, at least 0", least=0)
    profile = release.effective(queries, fresh=fresh).profile
    one_record = profile.delta if queries == 1 else compose_bits([(profile.outer, queries)]).delta

    def to_profile(d_in: int) -> Profile:
        d_in = whole_number(d_in, "d_in", "a whole number of records, at least 0", least=0)

        def delta(epsilon: float) -> float:
            epsilon = nats(epsilon, "epsilon")
            if d_in == 0 or queries == 0:
                return 0.0
            if d_in == 1:
                return one_record(epsilon)
            share = epsilon / d_in * (1 - 2.0**-52)  # rounded down: δ only falls
            delta_one, largest = one_record(share), (d_in - 1) * share
            # e^709 is the largest double: beyond it a δ above 0 becomes 1.
            if delta_one == 0 or largest > 700 or delta_one * d_in >= 1:
                return 0.0 if delta_one == 0 else 1.0
            ulps = 8 + int(largest)  # i·share errs by half an ulp, e^(i·share) by i·share times that
            return min(1.0, up(delta_one * math.fsum(math.exp(i * share) for i in range(d_in)), ulps))

        return delta

    return to_profile


@cache
def _event_and_accountants() -> tuple[Any, Any, Any]:
    """Return the event class and the accountants that accept it, defined when the library is first used."""
    with needed_by("The conversion"):
        import attrs

    dp_event: Any = require("dp_accounting.dp_event", "The conversion")
    pld: Any = require("dp_accounting.pld.pld_privacy_accountant", "The conversion")
    rdp: Any = require("dp_accounting.rdp.rdp_privacy_accountant", "The conversion")

    class DarrmDpEvent(dp_event.DpEvent):  # type: ignore[misc]  # the library has no types
        """One release, by the laws of its answer."""

        release: Release | Accountable = attrs.field()
        fresh: bool = attrs.field()
        sampling: Sampling | None = attrs.field(default=None)

    # Compared by value, like the library's own events: its ledger merges equal consecutive ones.
    event_class = attrs.frozen(DarrmDpEvent)

    class Composing:
        """Common part of both accountants."""

        def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:  # noqa: FBT001 - the library's
            if not isinstance(event, event_class):
                return super()._maybe_compose(event, count, do_compose)  # type: ignore[misc]  # of the library's class
            # The library calls this with `do_compose` False before it composes, so a rejection leaves the accountant
            # unchanged.
            if event.sampling is not None:
                wanted = "REPLACE_ONE" if event.sampling.neighbours == "replace-one" else "ADD_OR_REMOVE_ONE"
                relation = self._neighboring_relation.name  # type: ignore[attr-defined]  # likewise
                if relation != wanted:
                    raise InvalidInput("neighbours", relation, wanted)
            if do_compose and count:
                self._add(event, count)  # type: ignore[attr-defined]  # of the classes below
            return None

    class DarrmPldAccountant(Composing, pld.PLDAccountant):  # type: ignore[misc]  # the library has no types
        """The library's accountant, extended by `as_event`."""

        def _add(self, event: Any, count: int) -> None:
            # All in one conversion: composed here, with one charge for rounding, instead of the library's rounding.
            step = self._value_discretization_interval
            converted = as_pld(
                event.release, queries=count, fresh=event.fresh, discretisation=step, sampling=event.sampling
            )
            self._pld: Any = self._pld.compose(converted)

    class DarrmRdpAccountant(Composing, rdp.RdpAccountant):  # type: ignore[misc]  # the library has no types
        """The library's accountant, extended by `as_event`."""

        def _add(self, event: Any, count: int) -> None:
            # Divergences of adaptive releases add up; at an order without a bound the sum is infinite.
            divergences = renyi_divergences(event.release, event.sampling, self._orders, fresh=event.fresh)
            self._rdp: Any = self._rdp + count * divergences

    return event_class, DarrmPldAccountant, DarrmRdpAccountant
