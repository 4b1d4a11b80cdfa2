"""Conversion of releases of a γ for other libraries: a ``dp_accounting`` PLD or event, and an OpenDP privacy map.

The conversion uses the exact profile of the release (`release_profile`), not its (mε, δ), and is never optimistic: the
bound on rounding that `Pld` adds to each δ on request is added here to the infinite loss, since no other library knows
of it. That is sound under composition: masses that err by g in sum, composed with anything, err by at most g times the
finite mass of the other, and an infinite loss larger by g raises the composed one by exactly that.

The result will be composed with others, so voters that were trained once are taken as not private (`freshness`). The
models together enter another accountant only as ``affected`` events of one voter's (ε, Δ).

Neighbours are datasets whose difference changes the voters as their (ε, Δ) and ``affected`` say, so the other
accountant must use the same neighbouring relation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.composition.optimal import non_negative
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.accounting.release_profile import Release, Released
from darrm_opt.optional_packages import needed_by, require
from darrm_opt.problem import whole_number
from darrm_opt.rounding import up

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

DISCRETISATION = 1e-4
"""The library's own default [nats]; PLDs compose only where theirs are equal."""

COMPOSED_QUERIES = 2
"""Queries assumed for a single converted release: others of the same voters may be composed with it."""

Profile = Callable[[float], float]
"""ε [nats] → δ [probability], never below the exact one."""


def as_pld(
    released: Released | Release, *, queries: int = 1, fresh: bool = False, discretisation: float = DISCRETISATION
) -> PrivacyLossDistribution:
    """Return releases of a γ as a ``dp_accounting`` PrivacyLossDistribution, to be composed with others.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: releases Q ≥ 1, each chosen freely in view of the earlier answers.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one
            answer; False where the voters were trained once (`freshness.FRESH`), which are taken as not private,
            also for a single release.
        discretisation: h [nats], > 0: the ``value_discretization_interval`` of what it will be composed with.

    Guarantees:
        Dominates the releases, rounding included, up to what the library's own later arithmetic rounds.

    Raises:
        InvalidInput: a number is outside its range.
        NotPrivate: a bare γ is not private for its problem.
        TooMuchWork: the distribution would be too long: take a coarser h.
        BackendUnavailable: dp_accounting (the extra ``accounting``) is not installed.

    Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots); the guard is ours.
    """
    from darrm_opt.accounting.pld import Pld

    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    pld: Pld = Release.of(released).effective(COMPOSED_QUERIES, fresh=fresh).profile.pld(discretisation, count=queries)
    privacy_loss_distribution = require("dp_accounting.pld.privacy_loss_distribution", "The conversion")
    dense: Any = pld.mass.to_dense_pmf()
    guarded_pmf = type(dense)(
        dense._discretization,  # noqa: SLF001 - the library offers no other way to raise the infinite loss
        dense._lower_loss,  # noqa: SLF001
        dense._probs,  # noqa: SLF001
        min(1.0, up(dense._infinity_mass + pld.guard, 2)),  # noqa: SLF001
        pessimistic_estimate=True,
    )
    answer: PrivacyLossDistribution = privacy_loss_distribution.PrivacyLossDistribution(guarded_pmf)
    return answer


def as_event(released: Released | Release, *, fresh: bool = False) -> Any:
    """Return one release as a ``dp_accounting`` DpEvent, for the accountant of `pld_accountant`.

    Compose it (``SelfComposedDpEvent(event, 100)``) and combine it with the library's own events, such as those of
    DP-SGD. Other accountants of the library reject this event.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        fresh: as in `as_pld`.

    Raises:
        NotPrivate: a bare γ is not private for its problem.
        BackendUnavailable: dp_accounting is not installed.
    """
    return _event_and_accountant()[0](Release.of(released), check_fresh(fresh))


def pld_accountant(discretisation: float = DISCRETISATION, neighbours: str = "ADD_OR_REMOVE_ONE") -> Any:
    """Return a ``dp_accounting`` PLDAccountant that also accepts `as_event`.

    Args:
        discretisation: h [nats] of all it composes.
        neighbours: name of the library's NeighboringRelation; it must be the one for which the voters are private.

    Raises:
        BackendUnavailable: dp_accounting is not installed.
    """
    relation = require("dp_accounting.privacy_accountant", "The conversion").NeighboringRelation[neighbours]
    return _event_and_accountant()[1](relation, discretisation)


def privacy_map(released: Released | Release, *, queries: int = 1, fresh: bool = False) -> Callable[[int], Profile]:
    """Return the map d_in ↦ privacy profile: how private releases are where two datasets differ in d_in records.

    Args:
        released: a `Solution`, or a pair (gamma, problem), which is verified first.
        queries: releases Q ≥ 0, each chosen freely in view of the earlier answers.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one
            answer; False where the voters were trained once (`freshness.FRESH`), which are taken as not private if
            there is more than one release.

    Returns:
        A function of the number of differing records d_in ≥ 0; its value maps ε ≥ 0 to a δ.

    Guarantees:
        Sound: at d_in = 1 the exact account of the bits; beyond, group privacy, δ_d(ε) ≤ Σ_{i<d} e^(iε/d) δ(ε/d).

    Raises:
        InvalidInput: a number is outside its range.
        NotPrivate: a bare γ is not private for its problem.
        TooMuchWork: too many releases for the exact account.

    Source: the shape is that of a measurement's privacy map in OpenDP; group privacy: Dwork, Roth 2014.

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
            epsilon = non_negative(epsilon, "epsilon", "a number of nats, at least 0")
            if d_in == 0 or queries == 0:
                return 0.0
            if d_in == 1:
                return one_record(epsilon)
            share = epsilon / d_in * (1 - 2.0**-52)  # rounded down: δ only falls
            delta_one, largest = one_record(share), (d_in - 1) * share
            if delta_one == 0 or largest > 700 or delta_one * d_in >= 1:
                return 0.0 if delta_one == 0 else 1.0
            ulps = 8 + int(largest)  # i·share errs by half an ulp, e^(i·share) by so many of its own
            return min(1.0, up(delta_one * math.fsum(math.exp(i * share) for i in range(d_in)), ulps))

        return delta

    return to_profile


@cache
def _event_and_accountant() -> tuple[Any, Any]:
    """Return the event class and the accountant class that accepts it, defined when the library is first used."""
    with needed_by("The conversion"):
        import attrs

    dp_event: Any = require("dp_accounting.dp_event", "The conversion")
    accountant: Any = require("dp_accounting.pld.pld_privacy_accountant", "The conversion")

    class DarrmDpEvent(dp_event.DpEvent):  # type: ignore[misc]  # the library has no types
        """One release of a γ, by its exact privacy profile."""

        release: Release = attrs.field()
        fresh: bool = attrs.field()

    event_class = attrs.frozen(DarrmDpEvent)

    class DarrmPldAccountant(accountant.PLDAccountant):  # type: ignore[misc]  # the library has no types
        """The library's accountant, which also takes releases of a γ."""

        def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:  # noqa: FBT001 - the library's
            if not isinstance(event, event_class):
                return super()._maybe_compose(event, count, do_compose)
            if do_compose and count:
                pld = as_pld(
                    event.release,
                    queries=count,
                    fresh=event.fresh,
                    discretisation=self._value_discretization_interval,
                )
                self._pld: Any = self._pld.compose(pld)
            return None

    return event_class, DarrmPldAccountant
