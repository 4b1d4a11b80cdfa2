"""Mechanisms between two classes that are given by their γ, sampled with exactly its stored values."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.accounts import MAX_RELEASES, STATED
from darrm_opt.accounting.freshness import check_fresh, effective_voters
from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.release_profile import Release
from darrm_opt.baselines import subsampling_mixture
from darrm_opt.design.certificate import Certificate
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CountTable, VoteMechanism, checked_parameter, checked_shape
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.randomness import ExactCoins, RandomSource
from darrm_opt.record import problem_from_record, problem_record
from darrm_opt.tables.votes import Labels, VoteTable

BLOCK = 1 << 15  # rows drawn at once, within the processor's cache


class NoiseFunctionMechanism(VoteMechanism):
    """Any γ, for voters that are not private: the majority of K votes between two classes, or a fair coin.

    Source: Algorithm 1 of the paper.
    """

    name = "gamma"
    kind = "darrm noise function"
    abstains = False

    def __init__(self, noise: NoiseFunction, *, affected: int = 1) -> None:
        self.K, self.classes, self.affected = checked_shape(noise.K, 2, affected)
        self._noise = noise

    @property
    def description(self) -> str:
        return f"the majority of {self.K} votes or a fair coin, by γ"

    @property
    def gamma(self) -> NoiseFunction:
        return self._noise

    @cached_property
    def _coins(self) -> tuple[ExactCoins, NDArray[np.uint8]]:
        """The coins of each number of ones, and the majorities."""
        ones, chances = np.arange(self.K + 1), self._noise.values.copy()
        chances[2 * ones == self.K] = 0.0  # a tie is a fair coin whatever γ(K/2) is
        return ExactCoins(chances), (2 * ones > self.K).astype(np.uint8)

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        """Return a bit for each row, the leader with probability exactly (1 + γ)/2; a tie is a fair coin.

        Steps and randomness do not depend on the votes.
        """
        coins, majority = self._coins
        labels = np.empty(len(counts), dtype=np.int16)
        for start in range(0, len(counts), BLOCK):
            ones = counts[start : start + BLOCK, 1]
            keep, fair = coins.toss(ones, source)
            # Algorithm 1 without a branch: the majority where keep = 1, else the fair coin.
            labels[start : start + BLOCK] = fair ^ (keep & (fair ^ majority.take(ones)))
        return labels

    def bounds(self, releases: int) -> Releases:
        return [(ReleaseGuarantee(laws=partial(_bit_pairs, self._noise, self.affected)), releases)]

    def at_sensitivity(self, votes: int) -> ReleaseGuarantee:
        return ReleaseGuarantee(laws=partial(_bit_pairs, self._noise, votes))

    def class_chances(self, counts: CountTable) -> Array:
        lead = np.where(counts[:, 0] == counts[:, 1], 0.0, self._noise.values[counts[:, 0]])
        return np.stack([(1 + lead) / 2, (1 - lead) / 2], axis=1)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "format": 1, "gamma": self._noise.values.tolist(), "affected": self.affected}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> VoteMechanism:
        if record.get("format") != 1:
            raise InvalidInput("mechanism", record.get("format"), f"a {cls.kind} of format 1")
        if "problem" in record:
            problem = problem_from_record(record["problem"])
            release = Release(NoiseFunction(record["gamma"], problem.K), problem)
            return CertifiedNoiseFunction(release, fresh=record["fresh"])
        return NoiseFunctionMechanism(NoiseFunction(record["gamma"]), affected=record["affected"])


class CertifiedNoiseFunction(NoiseFunctionMechanism):
    """A γ that is proved private for its problem; its voters may be private.

    Source: Algorithm 1 and Lemma 3.4 of the paper.
    """

    takes_samples = False
    effort = STATED

    def __init__(self, release: Release, *, fresh: bool = False) -> None:
        super().__init__(release.noise, affected=int(release.problem.affected))
        self.release, self.fresh = release, check_fresh(fresh)

    @property
    def problem(self) -> Problem:
        """The problem, whose target is proved of one release."""
        return self.release.problem

    @property
    def certificate(self) -> Certificate:
        """Proof that it is private, as of its construction."""
        return self.release.certificate

    @property
    def description(self) -> str:
        return f"{super().description}, each release {guarantee(self.problem.target)}"

    @property
    def models(self) -> tuple[Privacy, int] | None:
        charged_once = effective_voters(self.problem, MAX_RELEASES, fresh=self.fresh) is not self.problem
        return (self.problem.voter, int(self.problem.affected)) if charged_once else None

    @property
    def private_voters(self) -> tuple[Privacy, ...]:
        return (self.problem.voter,) if self.problem.voter.epsilon < math.inf else ()

    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of the releases: the target of each and its exact profile, or the models."""
        return self.release.guarantees(releases, fresh=self.fresh)

    def record(self) -> dict[str, Any]:
        fields = {"gamma": self.release.noise.values.tolist(), "fresh": self.fresh}
        return {"kind": self.kind, "format": 1, "problem": problem_record(self.problem), **fields}

    def __eq__(self, other: object) -> bool:
        """Return whether γ and problem are equal; ``fresh`` is a claim about the voters and is not compared."""
        return isinstance(other, CertifiedNoiseFunction) and self.release == other.release

    def __hash__(self) -> int:
        return hash(self.release)


class Subsampling(NoiseFunctionMechanism):
    """The majority of a few voters, drawn anew for each query: γ_Sub, mixed for every mean number of voters.

    Source: Lemma 3.1 of the paper; `darrm_opt.baselines.subsampling_mixture`.
    """

    name = "subsampling"
    title = r"$\gamma_{\mathrm{Sub}}$ (subsampling)"
    parameter = "voters"
    meaning = "Mean number of voters drawn"
    limits = (0.0, 1e6)
    advice = "Release the majority of a few voters, drawn anew for each query"

    def __init__(self, K: int, classes: int, voters: float, *, affected: int = 1) -> None:
        _two_classes(self.name, classes)
        super().__init__(subsampling_mixture(K, voters), affected=affected)
        self.voters = float(voters)  # mean number of voters drawn, above 0, at most the largest odd number up to K

    @classmethod
    def range_for(cls, K: int, classes: int) -> tuple[float, float]:
        """Return the range of the mean number of voters: up to the largest odd number."""
        del classes
        return 0.0, K - 1.0 + K % 2

    @property
    def words(self) -> str:
        # Between 0 and 1 the mixture is of no voter and of one.
        if self.voters < 1:
            return (
                f"With probability {self.voters:.4g} one voter's answer, else a fair coin; drawn anew for each query."
            )
        return f"The majority of {self.voters:.4g} voters on average, drawn anew for each query."


class RandomizedResponse(NoiseFunctionMechanism):
    """Randomised response of the majority: a constant γ, γ_const.

    Source: Lemma A.1 of the paper.
    """

    name = "randomized_response"
    title = r"$\gamma_{\mathrm{const}}$ (randomised response)"
    parameter = "share"
    meaning = "γ, the same for all votes"
    limits = (0.0, 1.0)
    advice = "Release the majority by randomised response"

    def __init__(self, K: int, classes: int, share: float, *, affected: int = 1) -> None:
        _two_classes(self.name, classes)
        self.share = checked_parameter(share, "share", self.limits, "a probability above 0, at most 1")  # γ in (0, 1]
        super().__init__(NoiseFunction.from_upper_half(np.full((K + 1) // 2, self.share), K), affected=affected)

    @property
    def words(self) -> str:
        return (
            f"The majority is right with probability {(1 + self.share) / 2:.4g}, however clear the vote is "
            f"(γ = {self.share:.4g})."
        )


@lru_cache(maxsize=64)
def _bit_pairs(noise: NoiseFunction, affected: int) -> BitPairs:
    return BitPairs.of_gamma(noise, affected)


def _two_classes(name: str, classes: int) -> None:
    if classes != 2:
        raise InvalidInput("classes", classes, "2", f"The mechanism {name} is for two classes.")
