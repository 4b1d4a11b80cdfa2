"""Mechanisms: from vote counts to a class or ⊥, and the registry of their names.

A mechanism is one file: its law, sampler, parameter, guarantee of one release, record and descriptions, as
`VoteMechanism` defines them. `mechanism_class` finds it by name; an installed package adds its own in the entry point
group `ENTRY_POINTS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getattr_static
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.accounts import SEARCHED, Effort
from darrm_opt.accounting.calibrate import Calibration, Quota, calibrate, never_stop
from darrm_opt.accounting.guarantee import LawTriples, ReleaseGuarantee, Releases
from darrm_opt.accounting.law_pairs import PROBABILITY_ERROR, LawPairs
from darrm_opt.accounting.propose_test_release import VoteBatch
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import ReleaseTotal, cost, estimated_epsilon, most_releases
from darrm_opt.arguments import field_number, real_number, whole_number
from darrm_opt.errors import DarrmError, InvalidInput, Rule, TooMuchWork
from darrm_opt.fields import FIELDS
from darrm_opt.mechanisms.sampled_votes import listed_pairs, listed_triples
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource
from darrm_opt.tables.problem import ABSTENTION
from darrm_opt.tables.record import USE_FIELDS
from darrm_opt.tables.votes import Labels, VoteTable, count_checked, label_type
from darrm_opt.untrusted import UNREADABLE, check_written

CountTable = NDArray[np.intp]  # vote counts, decreasing in each row, shape (N, C)
ENTRY_POINTS = "darrm_opt.mechanisms"  # entry point group for mechanisms of installed packages: name = "module:Class"

MAX_CLASSES = 2**20
"""Maximum number of classes of a mechanism without a table, above any vocabulary; the accounts do not depend on it."""

CUT = 1e-18  # default probability of the noise that is cut off from the laws of one answer

PRECISION, PURE_PRECISION = 1e-5, 1e-12
"""Relative precision of a calibration, from the private side; finer at δ = 0, where ε adds up."""

MANY_RELEASES = 50  # number of releases from which a calibration starts from an estimate
FINER = 4.0  # factor by which the precision is refined if an estimate gives a start near the result

SAMPLED_PRECISION, SLOW = 1e-3, ("pld",)
"""Relative precision with sampled records and δ > 0, and the slowest accounts there."""

CONFIDENT = "confident_gnmax"
"""Name of the noisy maximum that releases a class only if the largest count passes a noisy check."""

TESTED = "gnmax"  # name of the mechanism whose batches can be tested (`accounting.propose_test_release`)
CHECKS = ("threshold", "check_sigma", "cap")  # parameters of the check

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
"""Built-in mechanisms: the module and class of each name."""


OPTIONS = (
    *("output", "plot", "votes", "missing", "bags", "check", "leader_share", "unpublished", "json", "help", "h"),
    *("command", "pairs", "samples", "confidence"),
)
"""Options of `darrm cost` and `darrm audit` that are no fields."""

TAKEN_OPTIONS = frozenset(FIELDS) - {"parameter"} | frozenset(OPTIONS)
"""Names that a parameter of an installed package cannot have: a command would have two options of the name."""


class VoteMechanism(ABC):
    """A mechanism that maps vote counts to a class or ⊥.

    Attributes:
        name: its name in requests.
        kind: its kind in records.
        parameter: name of its one parameter; "" if it has none to calibrate.
        meaning: description of the parameter.
        increases: whether a larger parameter is more useful and less private; otherwise it is the reverse.
        limits: smallest and largest value of the parameter; the smallest is above 0 unless it `increases`.
        advice: recommendation, for a plan.
        title: its name in a figure.
        has_check: whether `of` takes a check.
        abstains: whether ⊥ may be drawn; logs store the answers of a γ as bits.
        claims: additional fields of its record, which `from_record` proves.
        defaults: optional fields of its record.
        K: voters.
        classes: C.
        affected: votes that one record can move.
        cap: maximum number of classes released in all; afterwards every answer is ⊥, whatever the votes. None: no cap.
        fresh: whether totals assume that private voters are fresh (`accounting.freshness.FRESH`).
        effort: limits on the running time of its accounts.
        takes_samples: whether totals are known if records are drawn anew for every release.
        models: for private voters trained once: the privacy of each model and the number of models that one record
            reaches. Charged once, they cover all releases. None: each release is charged.
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
    abstains: ClassVar[bool] = True
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
        """ρ such that one release is ρ-zCDP by its noise; None if unknown."""
        return None

    @property
    def private_voters(self) -> tuple[Privacy, ...]:
        """(ε, Δ) of the voters that its proofs assume to be private; none if votes may be anything."""
        return ()

    def count(self, votes: NDArray[Any]) -> VoteTable:
        """Return the input of `draw_many`: the votes for each class, shape (N, C).

        Args:
            votes: the class of each voter, validated, shape (N, K).
        """
        return count_checked(votes, self.classes)

    @property
    def _columns(self) -> int:
        """Number of counts."""
        return self.classes

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return a class 0..C−1, or `ABSTENTION`; a mechanism defines this or `draw_many`.

        Args:
            counts: votes for each class, K in all.
            source: random bits.

        Raises:
            InvalidInput: the counts are others.
            NotImplementedError: the class of the mechanism defines neither.
        """
        if type(self).draw_many is VoteMechanism.draw_many:
            raise NotImplementedError(f"{type(self).__name__} defines neither draw nor draw_many")
        return int(self.draw_many(checked_counts(counts, self._columns, self.K)[np.newaxis], source)[0])

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        """Return a class or `ABSTENTION` for each row, each with exactly the law of `draw`.

        Args:
            counts: votes for each class, K in all, shape (N, C).
            source: random bits.
        """
        # As they are drawn: a conversion could make a class of what is none. `checked_labels` converts.
        return np.array([self.draw(tuple(row), source) for row in counts.tolist()])

    def checked_labels(self, labels: Any, count: int) -> Labels:
        """Return drawn labels, if each is a class or `ABSTENTION`; no others are ever released.

        Args:
            labels: as `draw_many` returns them.
            count: number of rows.

        Returns:
            Shape (count,), of the type for the classes (`label_type`).

        Raises:
            InvalidInput: they are others; they are not shown.
        """
        drawn, least = np.asarray(labels), ABSTENTION if self.abstains else 0
        is_number = drawn.dtype.kind in "iu" or not drawn.size
        if drawn.shape != (count,) or not is_number or np.any((drawn < least) | (drawn >= self.classes)):
            none = f", or {ABSTENTION} for none," if self.abstains else ""
            accepted = f"one that draws a class of 0 to {self.classes - 1}{none} for each vote"
            advice = "What it drew is charged, as it depends on the votes, and is neither released nor shown."
            raise InvalidInput("mechanism", self.name, accepted, advice)
        return drawn.astype(label_type(self.classes), copy=False)

    @abstractmethod
    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of a number of releases, for every account (`darrm_opt.accounting.accounts`)."""

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee | None:
        """Return the guarantee of one release if a record moves ``votes`` votes, 1..K; None if nothing is proved."""
        if votes != self.affected and not self.parameter:
            return None
        mechanism = self if votes == self.affected else with_shape(self, self.K, votes)
        parts = mechanism.bounds(1)
        # If a release is charged as several (a label and its check), no single part is its cost.
        bounds = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None
        if (bounds is None or bounds.laws is None) and (laws := mechanism.listed()) is not None:
            return ReleaseGuarantee(None if bounds is None else bounds.privacy, lambda: laws)
        return bounds

    def batch(self, queries: int) -> VoteBatch:  # noqa: ARG002 — of those that have the account
        """Return a fixed batch of ``queries`` ≥ 1, whose privacy can be accounted from its votes.

        Raises:
            InvalidInput: the mechanism has no such account.
        """
        raise InvalidInput("mechanism", self.name, "a mechanism with an account by its votes")

    def listed(self) -> LawPairs | None:
        """Return all pairs of laws of one query (check and label together), in both orders; None if too many."""
        return listed_pairs(self.class_chances, self.K, self.classes, self.affected, PROBABILITY_ERROR)

    def sampled_laws(self, sampling: Sampling, cut: float = CUT) -> Sequence[LawTriples] | None:
        """Return the laws of one answer without a record and with it, in one or two of its values; None if unknown.

        Args:
            sampling: how the records are drawn.
            cut: probability of the noise that may be cut off; the laws are conditional on the noise that remains.

        Returns:
            None also if they are too many.
        """
        del cut
        return listed_triples(
            self.class_chances, self.K, self.classes, self.affected, sampling.neighbours, PROBABILITY_ERROR
        )

    def class_chances(self, counts: CountTable) -> Array | None:
        """Return Pr[each class is released], and Pr[⊥] last if it is possible.

        Optional. A claim, as `bounds` is: totals of sampled records, and accounts of a release for which `bounds`
        states no laws, are computed from it. A permutation of the classes permutes the probabilities.

        Args:
            counts: decreasing vote counts, shape (N, C).

        Returns:
            Shape (N, C) or (N, C + 1), each to a relative error of `PROBABILITY_ERROR`; None if it is not computed.
        """
        del counts
        return None

    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[one of the leaders is released], shape (N,); by default from `class_chances`.

        Args:
            counts: decreasing vote counts, shape (N, C).

        Raises:
            TooMuchWork: the mechanism computes neither for these counts.
        """
        chances = self.class_chances(counts)
        if chances is None:
            raise TooMuchWork(f"{self.name} computes no chances of these counts.")
        return np.asarray(np.minimum(chances[:, 0] * (counts == counts[:, :1]).sum(axis=1), 1.0))

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data, for a log; here, of its parameter and, if it has one, its check."""
        fields = ("K", "classes", self.parameter, "affected", *(CHECKS if self.has_check else ()))
        return {"kind": self.kind, "format": 1, **{field: getattr(self, field) for field in fields}}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> VoteMechanism:
        """Return the mechanism of a record of its kind, proved here; `mechanism_from_record` checks the round trip.

        Raises:
            InvalidInput: not such a record.
        """
        if record.get("format") != 1:
            raise InvalidInput("mechanism", record.get("format"), f"a {cls.kind} of format 1")
        checks = {name: record[name] for name in CHECKS} if cls.has_check else {}
        return cls.of(record["K"], record["classes"], record[cls.parameter], record["affected"], **checks)

    @classmethod
    def of(cls, K: int, classes: int, value: float, affected: int = 1, **check: float | None) -> Self:
        """Return the mechanism at a value of its parameter, with a check of the largest count if one is given.

        Args:
            K: voters.
            classes: C ≥ 2.
            value: of the parameter.
            affected: votes that one record can move.
            **check: values of `CHECKS`; None: not given.

        Raises:
            InvalidInput: a value is out of range, or the mechanism has no parameter or no check.
        """
        if not cls.parameter:
            raise InvalidInput("mechanism", cls.name, "a mechanism with a parameter")
        for name, number in check.items():
            if number is not None and not cls.has_check:
                raise InvalidInput(name, number, Rule(f"cannot be combined with {cls.name}"))
        make: Callable[..., Self] = cls  # every class with a parameter takes (K, classes, value, affected=...)
        return make(K, classes, value, affected=affected, **(check if cls.has_check else {}))

    @classmethod
    def of_information(cls, K: int, classes: int, information: float, affected: int = 1) -> Self:
        """Return the mechanism at a parameter for which more ``information`` is more useful and less private.

        Args:
            K: as for `of`, like `classes` and `affected`.
            information: the parameter, or its inverse if a larger one is less useful; at most `most_information`.
        """
        value = information if cls.increases else min(cls.range_for(K, classes)[1], 1 / information)
        return cls.of(K, classes, value, affected)

    @classmethod
    def most_information(cls, K: int, classes: int) -> float:
        """Return the largest ``information`` of `of_information` for ``K`` voters and ``classes``."""
        low, high = cls.range_for(K, classes)
        return high if cls.increases else 1 / low

    @classmethod
    def range_for(cls, K: int, classes: int) -> tuple[float, float]:
        """Return the smallest and largest value of the parameter for ``K`` voters and ``classes``."""
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
        """Return the mechanism at the most useful parameter for which a number of releases fit in a total.

        Args:
            K: as for `of`, like `classes` and `affected`.
            total: (ε, δ) of all releases, ε > 0 and finite.
            releases: Q ≥ 1.
            sampling: how the records are drawn anew for every release; None: every record is in every release.
            precision: relative distance of the parameter, or of the cost, from the best.
            quick: with ``sampling``, skip the slowest accounts; the result may be some per cent less useful.
            skip: accounts to leave out, such as "bits", whose time grows with the releases.
            spent: cost of all releases of a mechanism at the total's δ [nats]; None: by its accounts.
            estimate: a faster approximation of ``spent``.
            stop: called between the steps of the search; if it returns True, the best value so far is returned.

        Guarantees:
            ``calibrated(...).epsilon(releases, total.delta, sampling) <= total.epsilon``, or with ``spent`` its cost.

        Raises:
            InvalidInput: a value is out of range, or no value of the parameter fits.
        """
        if not 0 < total.epsilon < math.inf:
            raise InvalidInput("epsilon", total.epsilon, "a finite number of nats above 0")
        K, classes, affected = checked_shape(K, classes, affected)
        releases = whole_number(releases, "releases", "a whole number of releases, at least 1")
        # The ranges of the mechanisms are for unsampled records; samples allow more information.
        low, high = cls.range_for(K, classes) if sampling is None else cls.limits
        most = high if cls.increases else 1 / low

        def make(information: float, skip: Sequence[str] = skip) -> tuple[Self, float]:
            mechanism = cls.of_information(K, classes, information, affected)
            if spent is not None:
                return mechanism, spent(mechanism)
            return mechanism, cost(mechanism, releases, total.delta, sampling, skip=skip).epsilon

        precision = precision if total.delta or spent is not None else PURE_PRECISION
        share = total.epsilon / affected / (5 * math.sqrt(releases) if total.delta else 2 * releases)
        share = max(share, 2.0**-1000)  # below, products and quotients are 0, subnormal or infinite
        if sampling is not None:
            share = min(1.0, share / sampling.chance)
            if total.delta:
                # Convolutions are the slowest part: a first search without them is nearly right.
                first: Calibration[Self] | None = calibrate(
                    partial(make, skip=SLOW), total.epsilon, most, guess=min(most, share), precision=SAMPLED_PRECISION
                )
                if quick and first is not None:
                    return first.result
                share = share if first is None else first.value
                precision = max(precision, SAMPLED_PRECISION)
        start = None
        if sampling is None and total.delta and (estimate is not None or releases >= MANY_RELEASES):
            # by default that of many releases, which is faster than every account
            near = estimate or (lambda mechanism: estimated_epsilon(mechanism.bounds(releases), total.delta))

            def start(information: float) -> float | None:
                return near(cls.of_information(K, classes, information, affected))

        found: Calibration[Self] | None = calibrate(
            make,
            total.epsilon,
            most,
            guess=min(most, share),
            precision=precision,
            estimate=start,
            finer=FINER if spent is None else 1.0,
            stop=stop,
        )
        if found is None:
            argument, value = ("epsilon", total.epsilon) if total.delta else ("delta", 0.0)
            raise InvalidInput(argument, value, f"a total within which {releases} releases of {cls.name} are proved")
        return found.result

    @property
    def value(self) -> float:
        """Value of the parameter."""
        return float(getattr(self, self.parameter))

    @property
    @abstractmethod
    def description(self) -> str:
        """Short description."""

    @property
    def words(self) -> str:
        """Meaning of the parameter's value, for a plan."""
        return f"{self.parameter} = {self.value:.4g}."

    @property
    def gamma(self) -> NoiseFunction:
        """γ between two classes: 2·Pr[the leader is released] − 1.

        Raises:
            InvalidInput: there are more than two classes.
        """
        if self.classes != 2:
            raise InvalidInput("classes", self.classes, "2 classes")
        return self._gamma()

    def _gamma(self) -> NoiseFunction:
        ahead = range(self.K // 2 + 1, self.K + 1)
        chances = self.leader_chances(np.array([[ones, self.K - ones] for ones in ahead]))
        return NoiseFunction.from_upper_half((2 * chances - 1).clip(0.0, 1.0), self.K)

    def cost(self, releases: int, delta: float, sampling: Sampling | None = None) -> ReleaseTotal:
        """Return the cost of a number of releases at δ, by the tightest account.

        Args:
            releases: number of releases.
            delta: δ of all releases together [probability].
            sampling: how the records are drawn anew for every release; None: every record is in every release.
        """
        return cost(self, releases, delta, sampling)

    def epsilon(self, releases: int, delta: float, sampling: Sampling | None = None) -> float:
        """Return a proved ε of a number of releases at δ, rounded up [nats].

        Args:
            releases: as for `cost`, like `sampling`.
            delta: δ of all releases together [probability].
        """
        return self.cost(releases, delta, sampling).epsilon

    def fits(self, budget: Privacy, releases: int, sampling: Sampling | None = None) -> bool:
        """Return whether a number of releases is proved to fit in a total (ε, δ).

        Args:
            budget: the total.
            releases: as for `cost`, like `sampling`.
        """
        within = cost(self, releases, budget.delta, sampling, enough=budget.epsilon)
        return within.epsilon <= budget.epsilon

    def most_releases(self, budget: Privacy, sampling: Sampling | None = None) -> Quota:
        """Return the number of releases proved to fit in a total (ε, δ), and the account that proves it.

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
    """Return the names of all mechanisms: built-in ones, then those of installed packages."""
    brought = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return (*BUILT_IN, *(name for name in brought if name not in BUILT_IN))


def calibrated_names() -> tuple[str, ...]:
    """Return the names of the mechanisms with a parameter to calibrate."""
    return tuple(name for name, mechanism in mechanism_classes().items() if mechanism.parameter)


@cache
def mechanism_classes() -> dict[str, type[VoteMechanism]]:
    """Return every mechanism by its name, except those that cannot be loaded."""
    return _loaded(mechanism_names())


def is_brought(name: str) -> bool:
    """Return whether a name is that of a mechanism of an installed package."""
    return name not in BUILT_IN and name in mechanism_names()


@contextmanager
def faults_left_out(name: str) -> Iterator[None]:
    """Go on after any error of a mechanism of an installed package, for what can do without it."""
    try:
        yield
    except Exception:
        if not is_brought(name):
            raise


def _loaded(names: Sequence[str]) -> dict[str, type[VoteMechanism]]:
    classes = {name: mechanism_class(name) for name in names if name in BUILT_IN}
    for name in names:
        if name not in classes:
            with suppress(InvalidInput):  # `mechanism_class` reports the error
                classes[name] = mechanism_class(name)
    return classes


@cache
def mechanism_class(name: str) -> type[VoteMechanism]:
    """Return the mechanism of a name.

    Raises:
        InvalidInput: there is none of this name, or that of an installed package cannot be imported or used.

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
        try:
            found = points[0].load()
        except Exception as err:  # whatever a module raises that cannot be imported
            accepted = f"a mechanism that can be imported: an installed package names {points[0].value}"
            raise InvalidInput("mechanism", name, accepted, f"{type(err).__name__}: {err}") from err
    if not (isinstance(found, type) and issubclass(found, VoteMechanism)):
        raise InvalidInput(
            "mechanism", name, "a subclass of darrm_opt.mechanisms.VoteMechanism", "An installed package defines it."
        )
    if name not in BUILT_IN:
        _check_names(name, found)
    return found


def _check_names(name: str, found: type[VoteMechanism]) -> None:
    """Reject a mechanism of a package with missing parts, another name, or a parameter or kind that is taken."""
    advice = "An installed package defines it."
    if (own := getattr(found, "name", None)) != name:
        raise InvalidInput("name", own, f"{name!r}, as in its entry point", advice)
    if not isinstance(kind := getattr(found, "kind", None), str):
        raise InvalidInput("kind", kind, f"the kind in the records of {name}", advice)
    missing = sorted(found.__abstractmethods__)
    if found.draw is VoteMechanism.draw and found.draw_many is VoteMechanism.draw_many:
        missing.append("draw or draw_many")
    if missing:
        raise InvalidInput("mechanism", name, f"a class that defines {', '.join(missing)}", advice)
    if found.parameter and (found.parameter in TAKEN_OPTIONS or hasattr(VoteMechanism, found.parameter)):
        accepted = "a name that no option of a command and no attribute of VoteMechanism has"
        raise InvalidInput("parameter", found.parameter, accepted, f"{advice} Rename the parameter of {name}.")
    names, reader = mechanism_names(), getattr_static(found, "from_record")
    # a class that inherits kind and reader is read as its parent; the common reader makes its own class.
    is_own = reader is getattr_static(VoteMechanism, "from_record")
    for other, earlier in _loaded(names[: names.index(name)]).items():
        if earlier.kind == kind and (is_own or getattr_static(earlier, "from_record") is not reader):
            raise InvalidInput("kind", kind, f"a kind other than that of {other}", advice)


@cache
def mechanism_kinds() -> dict[str, type[VoteMechanism]]:
    """Return the class of each kind of record."""
    return {mechanism.kind: mechanism for mechanism in mechanism_classes().values()}


def mechanism_from_record(record: Any) -> VoteMechanism:
    """Return the mechanism of a record, proved here.

    The record must be exactly what the mechanism writes; in addition it may have fields of its use (`USE_FIELDS`) and,
    for a table, of its design (`VoteMechanism.claims`).

    Raises:
        InvalidInput: not a record of a known kind, or a field is missing, unknown or invalid.
        NotPrivate: a claim of privacy is false.
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
        raise InvalidInput("mechanism", str(err), f"every field of a {kind}, of its type") from err
    return mechanism


def with_shape(mechanism: VoteMechanism, K: int, affected: int) -> VoteMechanism:
    """Return a mechanism for another number of voters, or of votes that a record can move; it keeps its check."""
    checks = {name: getattr(mechanism, name, None) for name in CHECKS} if mechanism.has_check else {}
    return type(mechanism).of(K, mechanism.classes, mechanism.value, affected, **checks)


def checked_shape(K: int, classes: int, affected: int) -> tuple[int, int, int]:
    """Return valid numbers of voters, classes and votes that a record can move."""
    K, classes = field_number(K, "K"), field_number(classes, "classes", most=MAX_CLASSES)
    affected = whole_number(affected, "affected", f"a whole number of votes in 1..{K}", most=K)
    return K, classes, affected


def checked_counts(counts: Sequence[int], columns: int, K: int) -> NDArray[np.int64]:
    """Return valid counts of one vote: as many as there are ``columns``, K in all. They are not shown otherwise."""
    votes = np.asarray(counts)
    if votes.shape != (columns,) or votes.dtype.kind not in "iu" or votes.min() < 0 or votes.sum() != K:
        accepted = f"{columns} whole numbers of votes, {K} in all"
        raise InvalidInput("counts", votes.shape, accepted, "The counts are omitted here.")
    return votes.astype(np.int64)


def checked_parameter(value: float, argument: str, limits: tuple[float, float], accepted: str) -> float:
    """Return a parameter within its limits."""
    least, most = limits
    return real_number(value, argument, accepted, least=least, most=most, above=0, below=math.inf)
