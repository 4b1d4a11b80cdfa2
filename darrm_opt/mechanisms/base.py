"""Mechanisms: from vote counts to a class or ⊥, and the registry of their names.

A mechanism is one file: its law, how it is drawn, its parameter, what is proved of one release, its record, its words.
`VoteMechanism` says what each has; `mechanism_class` finds one by its name, ours or that of an installed package, which
brings its own by an entry point in the group `ENTRY_POINTS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getattr_static
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.accounts import SEARCHED, Effort
from darrm_opt.accounting.calibrate import Calibration, Quota, calibrate, near_value, never_stop
from darrm_opt.accounting.gaussian import gaussian_epsilon
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee, Releases
from darrm_opt.accounting.law_pairs import PROBABILITY_ERROR, LawPairs
from darrm_opt.accounting.propose_test_release import VoteBatch
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import ReleaseTotal, cost, estimated_epsilon, most_releases
from darrm_opt.arguments import field_number, real_number, whole_number
from darrm_opt.errors import BackendUnavailable, DarrmError, InvalidInput, Rule
from darrm_opt.mechanisms.sampled_votes import listed_pairs, listed_triples
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource
from darrm_opt.tables.record import USE_FIELDS
from darrm_opt.tables.votes import Labels, VoteTable, count_checked, label_type
from darrm_opt.untrusted import UNREADABLE, check_written

CountTable = NDArray[np.intp]
"""Vote counts, decreasing in each row, shape (N, C)."""

ENTRY_POINTS = "darrm_opt.mechanisms"
"""Group of entry points by which an installed package brings mechanisms of its own: name = "module:Class"."""

MAX_CLASSES = 2**20
"""Most classes of a mechanism without a table: more than any vocabulary has. Its account does not depend on them."""

CUT = 1e-18
"""Chance of noise that is cut off from one answer's laws where nobody says how much may be."""

PRECISION, PURE_PRECISION = 1e-5, 1e-12
"""Relative precision of a calibration, from the private side; finer at δ = 0, where ε adds up."""

LABEL_SHARE = 0.64
"""Share of μ² of noisy counts that a noisy label costs, about."""

MANY_RELEASES = 50
"""Releases from which a calibration starts from an estimate."""

FINER = 4.0
"""How much finer a calibration is where its first value is nearly right, and the second exactly."""

SAMPLED_PRECISION, SLOW = 1e-3, ("pld",)
"""The same where records are sampled and δ > 0, and the accounts that take most of the time there."""

CONFIDENT = "confident_gnmax"
"""Name of a noisy maximum where a class leaves only if the largest count passes a noisy check."""

TESTED = "gnmax"
"""Name of the mechanism whose batches may be tested, and earn their total."""

CHECKS = ("threshold", "check_sigma", "cap")
"""Numbers of such a check."""

BUILT_IN = {
    name: f"darrm_opt.mechanisms.{place}"
    for name, place in {
        "permute_and_flip": "selection:PermuteAndFlip",
        "exponential": "selection:ExponentialMechanism",
        "laplace": "noisy_maximum:LaplaceMaximum",
        "gnmax": "noisy_maximum:NoisyMaximum",
        "randomized_response": "noise_function:RandomizedResponse",
        "subsampling": "noise_function:Subsampling",
        "plain_vote": "plain_vote:PlainVote",
        "gamma": "noise_function:NoiseFunctionMechanism",
        "table": "table:TableMechanism",
        "group_table": "table:GroupTableMechanism",
    }.items()
}
"""Our own mechanisms: where each name stands."""


class VoteMechanism(ABC):
    """What turns vote counts into a class or ⊥.

    Attributes:
        name: by which it is asked for.
        kind: what its record says it is.
        parameter: name of its one parameter; "" if it has none that is calibrated.
        meaning: what the parameter is, in words.
        increases: whether a larger parameter is more useful and less private; else the other way round.
        limits: least and largest value of the parameter that is tried; the least is above 0 unless it `increases`.
        advice: what to do, for a plan.
        title: its name in a figure.
        has_check: whether `of` takes a check.
        claims: fields that its record may have besides, which `from_record` proves.
        defaults: fields that its record may lack.
        K: voters.
        classes: C.
        affected: votes that one record can move.
        cap: most classes that leave over all releases; after them every answer is ⊥, whatever the votes. None: no cap.
        fresh: whether totals suppose that private voters are fresh (`accounting.freshness.FRESH`).
        effort: how long its accounts may take.
        takes_samples: whether totals are known where records are drawn anew for every release.
        models: privacy of each model and how many one record reaches, where these, charged once, cover all releases:
            of private voters that were trained once. None: each release is charged.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    parameter: ClassVar[str] = ""
    meaning: ClassVar[str] = ""
    increases: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (0.0, math.inf)
    advice: ClassVar[str] = ""
    title: ClassVar[str] = ""
    has_check: ClassVar[bool] = False
    claims: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[tuple[str, ...]] = ()

    K: int
    classes: int
    affected: int
    cap: int | None = None
    fresh: bool = False
    takes_samples: bool = True
    effort: ClassVar[Effort] = SEARCHED

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.parameter and not cls.increases and not cls.limits[0] > 0:
            accepted = f"a least {cls.parameter} above 0"
            raise InvalidInput("limits", cls.limits, accepted, f"{cls.__name__} reveals more the smaller it is.")

    @property
    def models(self) -> tuple[Privacy, int] | None:
        """None: each release is charged."""
        return None

    @property
    def concentration(self) -> Fraction | None:
        """ρ such that one release is ρ-zCDP by its noise; None where that is not known."""
        return None

    @property
    def private_voters(self) -> tuple[Privacy, ...]:
        """(ε, Δ) of the voters that its proofs suppose to be private; none where votes may be anything."""
        return ()

    def count(self, votes: NDArray[Any]) -> VoteTable:
        """Return the votes that `draw_many` takes: those for each class, shape (N, C).

        Args:
            votes: the class of each voter, checked, shape (N, K).
        """
        return count_checked(votes, self.classes)

    @abstractmethod
    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION`, for vote counts.

        Args:
            counts: votes for each class.
            source: random bits.
        """

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        """Return a class or `ABSTENTION` for each row of vote counts, each with exactly the law of `draw`.

        A mechanism may draw all rows at once; this draws one after the other.

        Args:
            counts: votes for each class, shape (N, C).
            source: random bits.

        Returns:
            Shape (N,).
        """
        return np.array([self.draw(tuple(row), source) for row in counts.tolist()], dtype=label_type(self.classes))

    @abstractmethod
    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of a number of releases, for every account (`darrm_opt.accounting.accounts`).

        Args:
            releases: how many.
        """

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee | None:
        """Return the guarantee of one release if a record moves a number of votes; None if nothing is proved.

        Args:
            votes: 1..K.
        """
        if votes != self.affected and not self.parameter:
            return None
        mechanism = self if votes == self.affected else with_shape(self, self.K, votes)
        parts = mechanism.bounds(1)
        # Where a release counts as several, as a label and its check, one of them is not what it costs.
        bounds = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None
        if (bounds is None or bounds.laws is None) and (laws := mechanism.listed()) is not None:
            return ReleaseGuarantee(None if bounds is None else bounds.privacy, lambda: laws)
        return bounds

    def batch(self, queries: int) -> VoteBatch:  # noqa: ARG002 — of those that have the account
        """Return a fixed batch of queries, for what its labels reveal beside their votes.

        Args:
            queries: Q ≥ 1.

        Raises:
            InvalidInput: the mechanism has no such account.
        """
        raise InvalidInput("mechanism", self.name, "a mechanism that has an account by its votes")

    def listed(self) -> LawPairs | None:
        """Return all pairs of laws of one release, in both orders, where they are few; None otherwise.

        Returns:
            Those of a query, where that is a check and a label.
        """
        return listed_pairs(self.class_chances, self.K, self.classes, self.affected, PROBABILITY_ERROR)

    def sampled_laws(self, sampling: Sampling, cut: float = CUT) -> Sequence[LawTriples] | None:
        """Return the laws of one answer without a record and with it, in one of two values.

        Args:
            sampling: how the records are drawn.
            cut: chance of noise that may be cut off, for laws that are those given that none is.

        Returns:
            None where they are too many, or not known.
        """
        del cut
        return listed_triples(
            self.class_chances, self.K, self.classes, self.affected, sampling.neighbours, PROBABILITY_ERROR
        )

    def class_chances(self, counts: CountTable) -> Array | None:
        """Return Pr[each class is released], and Pr[⊥] last if it can be, of what `draw` draws.

        Optional, and a claim as `bounds` is: totals of sampled records, and accounts of a release for which `bounds`
        states no laws, are computed from it. A permutation of the classes permutes the chances.

        Args:
            counts: decreasing vote counts, shape (N, C).

        Returns:
            Shape (N, C) or (N, C + 1), each to a relative error of `PROBABILITY_ERROR`; None where that is not
            computed.
        """
        del counts
        return None

    @abstractmethod
    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[one of the leaders is released], of what is drawn, shape (N,).

        Args:
            counts: decreasing vote counts, shape (N, C).
        """

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data, for a log: its parameter, where that is all it has."""
        fields = ("K", "classes", self.parameter, "affected")
        return {"kind": self.kind, "format": 1, **{field: getattr(self, field) for field in fields}}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> VoteMechanism:
        """Return the mechanism of a record of its kind, proved here; `mechanism_from_record` checks what it wrote.

        Raises:
            InvalidInput: not such a record.
        """
        if record.get("format") != 1:
            raise InvalidInput("mechanism", record.get("format"), f"a {cls.kind} of format 1")
        return cls.of(record["K"], record["classes"], record[cls.parameter], record["affected"])

    @classmethod
    def of(cls, K: int, classes: int, value: float, affected: int = 1, **check: float | None) -> Self:
        """Return the mechanism at a value of its parameter, with a check of the largest count where one is given.

        Args:
            K: voters.
            classes: C ≥ 2.
            value: of the parameter.
            affected: votes that one record can move.
            **check: numbers of `CHECKS`; None: not given.

        Raises:
            InvalidInput: a number is outside its range, or the mechanism has no parameter, or no check.
        """
        if not cls.parameter:
            raise InvalidInput("mechanism", cls.name, "a mechanism with a parameter")
        for name, number in check.items():
            if number is not None:
                raise InvalidInput(name, number, Rule(f"cannot be combined with {cls.name}"))
        make: Callable[..., Self] = cls  # every class with a parameter takes (K, classes, value, affected=...)
        return make(K, classes, value, affected=affected)

    @classmethod
    def of_information(cls, K: int, classes: int, information: float, affected: int = 1) -> Self:
        """Return the mechanism at a parameter such that more ``information`` is more useful and less private.

        Args:
            K: voters.
            classes: C ≥ 2.
            information: the parameter, or its inverse where a larger one is less useful; up to `most_information`.
            affected: votes that one record can move.
        """
        value = information if cls.increases else min(cls.range_for(K, classes)[1], 1 / information)
        return cls.of(K, classes, value, affected)

    @classmethod
    def most_information(cls, K: int, classes: int) -> float:
        """Return the most that `of_information` takes.

        Args:
            K: voters.
            classes: C ≥ 2.
        """
        low, high = cls.range_for(K, classes)
        return high if cls.increases else 1 / low

    @classmethod
    def range_for(cls, K: int, classes: int) -> tuple[float, float]:
        """Return the least and the largest value of the parameter.

        Args:
            K: voters.
            classes: C ≥ 2.
        """
        del K, classes
        return cls.limits

    @classmethod
    def calibrated(
        cls,
        K: int,
        classes: int,
        total: Privacy,
        releases: int,
        *,
        affected: int = 1,
        sampling: Sampling | None = None,
        precision: float = PRECISION,
        quick: bool = False,
        skip: Sequence[str] = (),
        spent: Callable[[Self], float] | None = None,
        estimate: Callable[[Self], float | None] | None = None,
        stop: Callable[[], bool] = never_stop,
    ) -> Self:
        """Return the mechanism at the most useful value of its parameter at which a number of releases fit in a total.

        Args:
            K: voters.
            classes: C ≥ 2.
            total: (ε, δ) of all releases, ε > 0 and finite.
            releases: Q ≥ 1.
            affected: votes that one record can move.
            sampling: how the records are drawn anew for every release; None: every record is in every release.
            precision: relative distance of the parameter, or of the cost, from the best.
            quick: with ``sampling``, leave out the accounts that take longest: some per cent less may be found.
            skip: accounts that are not asked, such as "bits", whose time grows with the releases.
            spent: what all releases of a mechanism cost together at the total's δ [nats]; None: by its accounts.
            estimate: about that, where it is known sooner.
            stop: called between the steps of the search; if it returns True, the best value so far is returned.

        Guarantees:
            ``calibrated(...).epsilon(releases, total.delta, sampling) <= total.epsilon``, or what ``spent`` says.

        Raises:
            InvalidInput: a number is outside its range, or no value of the parameter fits.
        """
        if not 0 < total.epsilon < math.inf:
            raise InvalidInput("epsilon", total.epsilon, "a finite number of nats above 0")
        K, classes, affected = checked_shape(K, classes, affected)
        releases = whole_number(releases, "releases", "a whole number of releases, at least 1")
        # Samples allow more than a release that every record is in: no mechanism's range is made for them.
        low, high = cls.range_for(K, classes) if sampling is None else cls.limits
        most = high if cls.increases else 1 / low

        def make(information: float, skip: Sequence[str] = skip) -> tuple[Self, float]:
            mechanism = cls.of_information(K, classes, information, affected)
            if spent is not None:
                return mechanism, spent(mechanism)
            return mechanism, cost(mechanism, releases, total.delta, sampling, skip=skip).epsilon

        precision = precision if total.delta or spent is not None else PURE_PRECISION
        share = total.epsilon / affected / (5 * math.sqrt(releases) if total.delta else 2 * releases)
        share = max(share, 2.0**-1000)  # of less, products and quotients are 0, subnormal or infinite
        if sampling is not None:
            share = min(1.0, share / sampling.chance)
            if total.delta:
                # Convolutions take most of the time: without them first, which is nearly right.
                first: Calibration[Self] | None = calibrate(
                    partial(make, skip=SLOW), total.epsilon, most, guess=min(most, share), precision=SAMPLED_PRECISION
                )
                if quick and first is not None:
                    return first.result
                share = share if first is None else first.value
                precision = max(precision, SAMPLED_PRECISION)
        power = None
        if sampling is None and (near := cls._near(K, classes, total, releases, affected, most, estimate)) is not None:
            share, power = near
            precision = precision if spent is not None else precision / FINER
        found: Calibration[Self] | None = calibrate(
            make,
            total.epsilon,
            most,
            guess=min(most, share),
            precision=precision,
            power=power,
            stop=stop,
        )
        if found is None:
            argument, value = ("epsilon", total.epsilon) if total.delta else ("delta", 0.0)
            raise InvalidInput(argument, value, f"a total within which {releases} releases of {cls.name} are proved")
        return found.result

    @classmethod
    def _near(
        cls,
        K: int,
        classes: int,
        total: Privacy,
        releases: int,
        affected: int,
        most: float,
        estimate: Callable[[Self], float | None] | None,
    ) -> tuple[float, float] | None:
        """Return about the calibrated information, and the power of it that costs follow there, by an estimate.

        By default that of many releases, of which each account takes longer.
        """
        if not total.delta or (estimate is None and releases < MANY_RELEASES):
            return None

        def about(information: float) -> float | None:
            mechanism = cls.of_information(K, classes, information, affected)
            if estimate is not None:
                return estimate(mechanism)
            return estimated_epsilon(mechanism.bounds(releases), total.delta)

        # Of r moved votes a noisy label shows about `LABEL_SHARE` of what its noisy counts do, whose μ is √2·r/σ.
        shift = math.sqrt(LABEL_SHARE * 2 * releases) * affected
        first = total.epsilon / math.sqrt(-2 * math.log(total.delta)) / shift
        as_counts = None
        with suppress(BackendUnavailable):  # the exact profile needs SciPy; a guess does not
            as_counts = near_value(
                lambda each: gaussian_epsilon(each * shift, total.delta), total.epsilon, most, guess=first
            )
        guess = first if as_counts is None else as_counts[0]
        return near_value(about, total.epsilon, most, guess=min(most / 2, guess))

    @property
    def value(self) -> float:
        """Value of the parameter."""
        return float(getattr(self, self.parameter))

    @property
    @abstractmethod
    def description(self) -> str:
        """What it does, in a few words."""

    @property
    def words(self) -> str:
        """What the parameter's value means, for a plan."""
        return f"{self.parameter} = {self.value:.4g}."

    @property
    def gamma(self) -> NoiseFunction:
        """γ between two classes: 2·Pr[the leader is released] − 1.

        Raises:
            InvalidInput: there are more classes.
        """
        if self.classes != 2:
            raise InvalidInput("classes", self.classes, "2 classes")
        ahead = range(self.K // 2 + 1, self.K + 1)
        chances = self.leader_chances(np.array([[ones, self.K - ones] for ones in ahead]))
        return NoiseFunction.from_upper_half((2 * chances - 1).clip(0.0, 1.0), self.K)

    def cost(self, releases: int, delta: float, sampling: Sampling | None = None) -> ReleaseTotal:
        """Return what a number of releases cost together at δ, by the least of all accounts.

        Args:
            releases: how many.
            delta: δ of all together [probability].
            sampling: how the records are drawn anew for every release; None: every record is in every release.
        """
        return cost(self, releases, delta, sampling)

    def epsilon(self, releases: int, delta: float, sampling: Sampling | None = None) -> float:
        """Return ε of a number of releases together at δ, proved, rounded up [nats].

        Args:
            releases: how many.
            delta: δ of all together [probability].
            sampling: as for `cost`.
        """
        return self.cost(releases, delta, sampling).epsilon

    def fits(self, budget: Privacy, releases: int, sampling: Sampling | None = None) -> bool:
        """Return whether a number of releases are proved to fit in a total (ε, δ).

        Args:
            budget: the total.
            releases: how many.
            sampling: as for `cost`.
        """
        within = cost(self, releases, budget.delta, sampling, enough=budget.epsilon)
        return within.epsilon <= budget.epsilon

    def most_releases(self, budget: Privacy, sampling: Sampling | None = None) -> Quota:
        """Return how many releases are proved to fit in a total (ε, δ), and by which account.

        Args:
            budget: the total.
            sampling: as for `cost`.
        """
        return most_releases(self, budget, sampling)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoteMechanism) and self.record() == other.record()

    def __hash__(self) -> int:
        return hash((type(self), self.K, self.classes))


@cache
def mechanism_names() -> tuple[str, ...]:
    """Return the names of all mechanisms: ours, then those that installed packages bring."""
    brought = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return (*BUILT_IN, *(name for name in brought if name not in BUILT_IN))


def calibrated_names() -> tuple[str, ...]:
    """Return the names of the mechanisms with a parameter, which can be calibrated to a total."""
    return tuple(name for name, mechanism in mechanism_classes().items() if mechanism.parameter)


@cache
def mechanism_classes() -> dict[str, type[VoteMechanism]]:
    """Return every mechanism by its name, without those of a package that cannot be loaded."""
    return _loaded(mechanism_names())


def _loaded(names: Sequence[str]) -> dict[str, type[VoteMechanism]]:
    classes = {name: mechanism_class(name) for name in names if name in BUILT_IN}
    for name in names:
        if name not in classes:
            with suppress(InvalidInput, ImportError, AttributeError):  # said where it is asked for by its name
                classes[name] = mechanism_class(name)
    return classes


@cache
def mechanism_class(name: str) -> type[VoteMechanism]:
    """Return the mechanism of a name.

    >>> mechanism_class("laplace").parameter
    'scale'
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        found = getattr(import_module(module), attribute)
    else:
        points = [point for point in entry_points(group=ENTRY_POINTS) if point.name == name]
        if not points:
            raise InvalidInput("mechanism", name, "one of " + ", ".join(mechanism_names()))
        found = points[0].load()
    if not (isinstance(found, type) and issubclass(found, VoteMechanism)):
        raise InvalidInput(
            "mechanism", name, "a subclass of darrm_opt.mechanisms.VoteMechanism", "A package brings it."
        )
    if name not in BUILT_IN:
        _check_names(name, found)
    return found


def _check_names(name: str, found: type[VoteMechanism]) -> None:
    """Refuse a mechanism of a package under another name, or that would read records of one of an earlier name."""
    advice = "A package brings it."
    if (own := getattr(found, "name", None)) != name:
        raise InvalidInput("name", own, f"{name!r}, as in its entry point", advice)
    if not isinstance(kind := getattr(found, "kind", None), str):
        raise InvalidInput("kind", kind, f"what the records of {name} say they are", advice)
    names, reader = mechanism_names(), getattr_static(found, "from_record")
    # What inherits kind and reader is read as the class that it is derived from; the common reader makes its own class.
    is_own = reader is getattr_static(VoteMechanism, "from_record")
    for other, earlier in _loaded(names[: names.index(name)]).items():
        if earlier.kind == kind and (is_own or getattr_static(earlier, "from_record") is not reader):
            raise InvalidInput("kind", kind, f"another than that of {other}", advice)


@cache
def mechanism_kinds() -> dict[str, type[VoteMechanism]]:
    """Return what the records of all mechanisms say they are, and who reads them."""
    return {mechanism.kind: mechanism for mechanism in mechanism_classes().values()}


def mechanism_from_record(record: Any) -> VoteMechanism:
    """Return the mechanism of a record, proved here.

    The record is exactly what the mechanism writes, with what its file may say of its use besides (`USE_FIELDS`) and,
    of a table, of its design (`VoteMechanism.claims`).

    Raises:
        InvalidInput: not a record of a known kind, or a field is missing, unknown or not what it must be.
        NotPrivate: what it claims to be private is not.
    """
    kinds = mechanism_kinds()
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        given = type(record).__name__ if kind is None else kind
        raise InvalidInput("mechanism", given, "a record of " + ", ".join(sorted(kinds)))
    try:
        mechanism = kinds[kind].from_record(record)
        written = {name: value for name, value in mechanism.record().items() if name not in mechanism.claims}
        check_written(record, written, (*USE_FIELDS, *mechanism.claims), mechanism.defaults)
    except DarrmError:
        raise
    except UNREADABLE as err:
        raise InvalidInput("mechanism", str(err), f"every field of a {kind}, in its type") from err
    return mechanism


def planned_fields(queries: int, total: Privacy) -> dict[str, Any]:
    """Return what the record of a mechanism says of the queries that it was designed for."""
    return {"queries": queries, "total_epsilon": total.epsilon, "total_delta": total.delta}


def planned_total(record: dict[str, Any]) -> tuple[int, Privacy] | None:
    """Return the queries that a mechanism was designed for and their total, as `planned_fields` wrote them.

    Nothing is believed of them: `VoteMechanism.fits` proves the total.
    """
    names = ("queries", "total_epsilon", "total_delta")
    if not any(name in record for name in names):
        return None
    queries = field_number(record.get("queries"), "queries")
    accepted = "a finite number of nats, at least 0"
    epsilon = real_number(record.get("total_epsilon"), "total_epsilon", accepted, least=0, below=math.inf)
    delta = field_number(record.get("total_delta"), "total_delta")
    return queries, Privacy(epsilon, delta)


def with_shape(mechanism: VoteMechanism, K: int, affected: int) -> VoteMechanism:
    """Return a mechanism for another number of voters, or of votes that a record can move; its check stays."""
    checks = {name: getattr(mechanism, name, None) for name in CHECKS} if mechanism.has_check else {}
    return type(mechanism).of(K, mechanism.classes, mechanism.value, affected, **checks)


def checked_shape(K: int, classes: int, affected: int) -> tuple[int, int, int]:
    """Return voters, classes and votes that a record can move, checked."""
    K, classes = field_number(K, "K"), field_number(classes, "classes", most=MAX_CLASSES)
    affected = whole_number(affected, "affected", f"a whole number of votes in 1..{K}", most=K)
    return K, classes, affected


def checked_parameter(value: float, argument: str, limits: tuple[float, float], accepted: str) -> float:
    """Return a parameter, checked to be within its limits."""
    least, most = limits
    return real_number(value, argument, accepted, least=least, most=most, above=0, below=math.inf)
