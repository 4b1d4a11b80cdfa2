"""Sampling: which records take part in a query, if every query has a fresh and secret sample.

Private in-context learning, private kNN, few-shot generation and retrieval draw records anew for every query and share
them among K voters. A record is then in a query only with probability q, and releases cost less (`sampled`). `Sampling`
states how the records are drawn and what neighbours are; only the schemes below have an account:

    without-replacement          s of n records, of which each voter gets s/K; neighbours replace one record
    poisson                      each record independently with rate q, and assigned to a random voter
    random-allocation            each record in exactly k of t consecutive queries, by its own coins, and assigned to a
                                 random voter in each of them; then the next t queries (`allocation`)
    each-voter                   every voter draws its own s of n records
    each-voter-with-replacement  every voter draws its own s records, each of all n

Proofs: docs/proofs.md, "Ensembles that are drawn anew for every query". `amplify_by_subsampling` is for one step on a
random batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import DarrmError, InvalidInput, Rule
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP, float_above, one_minus_power, up
from darrm_opt.untrusted import UNREADABLE, check_written
from darrm_opt.voters import PrivacyProfile

Scheme = Literal["without-replacement", "poisson", "random-allocation", "each-voter", "each-voter-with-replacement"]

Neighbours = Literal["replace-one", "add-remove"]

EACH_VOTER = ("each-voter", "each-voter-with-replacement")  # schemes in which one record can reach every voter
ALLOCATION = "random-allocation"  # the scheme with dependent queries: a record in one query is less probable in others
BY_COINS = ("poisson", ALLOCATION)  # schemes in which each record tosses its own coins: neighbours add or remove one

NOT_COVERED = {
    "poisson-by-position": "One more record moves all later records to other voters: give each sampled record to "
    "a voter by its own coin.",
    "poisson-dealt-evenly": "One more record moves another one to another voter: give each sampled record to a voter "
    "by its own coin.",
    "similarity": "Records chosen by their similarity to the query are not a secret sample, and every record can be "
    "in every query: account for it without sampling.",
    "shuffle": "Records dealt in rounds of one size depend on each other: deal each by its own coin "
    "(random-allocation).",
}
"""Common schemes without an account here, and why."""

MAX_COUNT = 10**12  # maximum number of records, queries and labels: integers that are exact as doubles
FIELDS = ("records", "sample", "rate", "scheme", "neighbours", "labels")  # fields of the record
ALLOCATION_FIELDS = (*FIELDS, "among", "times")  # fields of the record with "random-allocation"


@dataclass(frozen=True)
class Sampling:
    """How the records of one query are drawn: afresh, in secret, and independently of all earlier ones.

    A drawn record reaches one voter, who may move ``affected`` votes of the mechanism (1 if the shares of the voters
    are disjoint); with a scheme of `EACH_VOTER` it reaches any number of voters.

    Args:
        records: n ≥ 1, public.
        sample: records drawn for a query, 1..n: exactly, or on average with "poisson"; for one voter, with a scheme of
            `EACH_VOTER`.
        rate: q in (0, 1], instead of ``sample``, with "poisson" only.
        among: t ≥ 1 consecutive queries among which each record is spread, instead of ``sample``, with
            "random-allocation" only.
        times: k in 1..t, the number of these queries that it is in, with "random-allocation" only.
        scheme: one of `Scheme`.
        neighbours: "replace-one" (the only choice if samples have equal size), or "add-remove", the default with, and
            only with, the schemes of `BY_COINS`.
        labels: T ≥ 1 labels per sample, such as the tokens of one text: they are released together.

    Raises:
        InvalidInput: a value out of range, or a scheme without an account.

    >>> Sampling(67_349, 40).neighbours, round(Sampling(67_349, 40).chance, 7)
    ('add-remove', 0.0005939)
    """

    records: int
    sample: int | None = None
    rate: float | None = None
    scheme: Scheme = field(default="poisson", kw_only=True)
    neighbours: Neighbours | None = field(default=None, kw_only=True)
    labels: int = field(default=1, kw_only=True)
    among: int | None = field(default=None, kw_only=True)
    times: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        whole_number(self.records, "records", "a whole number of records, at least 1", most=MAX_COUNT)
        # a known scheme without an account is rejected with the reason, not as a misspelling.
        if self.scheme not in get_args(Scheme):
            raise InvalidInput(
                "sampling", self.scheme, "one of " + ", ".join(get_args(Scheme)), NOT_COVERED.get(self.scheme, "")
            )
        if self.neighbours is None:
            object.__setattr__(self, "neighbours", "add-remove" if self.scheme in BY_COINS else "replace-one")
        if self.neighbours not in get_args(Neighbours):
            raise InvalidInput("neighbours", self.neighbours, "'replace-one' or 'add-remove'")
        if self.neighbours == "replace-one" and self.scheme == ALLOCATION:
            raise InvalidInput("neighbours", self.neighbours, f"'add-remove' with {self.scheme}", NO_ACCOUNT)
        # Only with coins does the draw of the other records not depend on one that is added or removed.
        if self.neighbours == "add-remove" and self.scheme not in BY_COINS:
            raise InvalidInput(
                "neighbours", self.neighbours, f"'replace-one' with {self.scheme}", "The size of a sample is fixed."
            )
        self._check_size()
        whole_number(self.labels, "labels", "a whole number of labels of one sample, at least 1", most=MAX_COUNT)
        if self.labels > 1 and (self.scheme in EACH_VOTER or self.scheme == ALLOCATION):
            raise InvalidInput("labels", self.labels, f"1 with {self.scheme}", NO_ACCOUNT)

    def _check_size(self) -> None:
        if self.scheme == ALLOCATION:
            for name in ("sample", "rate"):
                if getattr(self, name) is not None:
                    raise InvalidInput(name, getattr(self, name), f"None with {self.scheme}", "Use among and times.")
            spread = "queries among which each record is spread, at least 1, as in random-allocation,among=100"
            among = whole_number(self.among, "among", spread, most=MAX_COUNT)
            whole_number(self.times, "times", f"a number of these queries, 1 to {among}", most=among)
            return
        # If ignored, they would be a claim about the draw that no account uses.
        if self.among is not None or self.times != 1:
            name = "times" if self.among is None else "among"
            raise InvalidInput(
                name, getattr(self, name), Rule(f"cannot be combined with {self.scheme}"), f"It is for {ALLOCATION}."
            )
        if (self.sample is None) == (self.rate is None):
            raise InvalidInput("sample", self.sample, "either a number of records or a rate")
        if self.sample is not None:
            accepted = f"a whole number of records, 1 to {self.records}"
            whole_number(self.sample, "sample", accepted, most=self.records)
        if self.rate is not None:
            accepted = "a probability above 0, at most 1, with the scheme poisson"
            rate = real_number(self.rate, "rate", accepted)
            # Only coins have a rate: the other schemes draw a fixed number, and their proofs use s/n.
            if self.scheme != "poisson" or not 0 < rate <= 1:
                raise InvalidInput("rate", self.rate, accepted)
            object.__setattr__(self, "rate", rate)

    @property
    def chance(self) -> float:
        """Probability q that a record is in a query, or in the share of one voter with `EACH_VOTER`; rounded up.

        Every account grows with it.
        """
        if self.rate is not None:
            return self.rate
        if self.among is not None:
            return float_above(Fraction(self.times, self.among))
        share = Fraction(self.sample or 1, self.records)
        if self.scheme == "each-voter-with-replacement":
            share = one_minus_power(1 - Fraction(1, self.records), self.sample or 1)
        return min(1.0, float_above(share))

    def voter(self, privacy: Privacy) -> Privacy:
        """Return the (ε, Δ), or the profile, of one answer of a private voter that draws its own sample.

        Args:
            privacy: (ε, Δ) of one answer, or its profile, for replacing one record of the voter's sample.

        Guarantees:
            Sound for replacing one of all records; rounded up. Given the data, voters and queries are independent, so
            such voters are fresh, and a record can reach all of them.

        Raises:
            InvalidInput: another scheme than "each-voter".
        """
        if self.scheme != "each-voter":  # whose samples have one label
            raise InvalidInput("sampling", self.scheme, "each-voter with one label, for private voters")
        if len(privacy.points) == 1:
            return amplify_by_subsampling(privacy, self.chance)
        # Each point holds for the answer, and so its amplified one for the sampled answer.
        amplified = [amplify_by_subsampling(Privacy(*point), self.chance) for point in privacy.points]
        return PrivacyProfile([(one.epsilon, one.delta) for one in amplified])

    @property
    def words(self) -> str:
        """Description of the draw, for texts."""
        if self.among is not None:
            which = f"each of {self.records:,} records in {self.times:,} of every {self.among:,} queries"
            return f"{which}, by its own coins"
        count = f"{self.sample:,}" if self.sample is not None else f"a share {self.rate:g}"
        who = " by each voter" if self.scheme in EACH_VOTER else ""
        how = {"poisson": "by their own coins", "each-voter-with-replacement": "with replacement"}
        text = f"{count} of {self.records:,} records drawn anew{who} for every query, "
        serves = f", for {self.labels} labels each" if self.labels > 1 else ""
        return text + how.get(self.scheme, "without replacement") + serves

    def record(self) -> dict[str, Any]:
        """Return it as plain data, for a log or a mechanism's record."""
        return {name: getattr(self, name) for name in (FIELDS if self.among is None else ALLOCATION_FIELDS)}

    @classmethod
    def from_record(cls, record: Any) -> Sampling:
        """Return the sampling of a record.

        Raises:
            InvalidInput: not such a record, or a field out of range.
        """
        accepted = "a record with the fields " + ", ".join(FIELDS)
        if not isinstance(record, dict) or set(record) not in (set(FIELDS), set(ALLOCATION_FIELDS)):
            raise InvalidInput("sampling", type(record).__name__, accepted)
        try:
            sampling = cls(**record)
            check_written(record, sampling.record())
        except DarrmError:
            raise
        except UNREADABLE as err:
            raise InvalidInput("sampling", str(err), accepted) from err
        return sampling


NO_ACCOUNT = "No account is proved for it."  # reason why a supported scheme is rejected with some neighbours or labels

SUBNORMAL_ERROR = 2 * math.ulp(0.0)
"""Absolute error of an exponential and of a product if both are subnormal; otherwise negligible."""


def amplify_by_subsampling(event: Privacy, rate: float) -> Privacy:
    """Return the privacy of an (ε, δ)-DP step on a random batch: (ln(1 + q(e^ε − 1)), qδ).

    The batch is drawn uniformly without replacement; neighbours replace one record.

    Guarantees: Sound for every q and ε, under replace-one; rounded up.
    Source: Balle, Barthe, Gaboardi 2018 (amplification by sampling without replacement).
    """
    rate = real_number(rate, "rate", "a share of the records, above 0 and at most 1", above=0, most=1)
    if event.epsilon > 1:  # ln(1 + q(e^ε − 1)) = ε + ln(q + (1−q)e^(−ε)), which cannot overflow
        share = rate + (1 - rate) * math.exp(-event.epsilon) + SUBNORMAL_ERROR
        epsilon = up(event.epsilon + math.log(share) + 4 * ULP * event.epsilon, 8)
    else:
        epsilon = up(math.log1p(rate * math.expm1(event.epsilon)), 8)
    return Privacy(min(epsilon, event.epsilon), min(event.delta, up(rate * event.delta, 2)))
