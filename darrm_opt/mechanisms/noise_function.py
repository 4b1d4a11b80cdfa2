"""Mechanisms between two classes that are given by their γ: drawn exactly, for the doubles in it.

`NoiseFunctionMechanism` is any γ of voters that are not private; `Subsampling` and `RandomizedResponse` are the closed
forms of the paper (`darrm_opt.baselines`), each with one parameter.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from darrm_opt.accounting.cost import Parts, ReleaseBounds
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.baselines import subsampling_mixture
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CountTable, VoteMechanism, checked_parameter, checked_shape
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.randomness import ExactCoins, RandomSource


class NoiseFunctionMechanism(VoteMechanism):
    """A γ of voters that are not private: the majority of K votes between two classes, or a fair coin.

    Args:
        noise: γ of K voters.
        affected: votes that one record can move, 1..K.

    Raises:
        InvalidInput: a number is outside its range.

    Source: Algorithm 1 of the paper.
    """

    name = "gamma"
    kind = "darrm noise function"

    def __init__(self, noise: NoiseFunction, *, affected: int = 1) -> None:
        self.K, self.classes, self.affected = checked_shape(noise.K, 2, affected)
        self._noise = noise

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        return f"the majority of {self.K} votes or a fair coin, by γ"

    @property
    def gamma(self) -> NoiseFunction:
        """γ."""
        return self._noise

    def draw(self, counts: tuple[int, ...], source: RandomSource) -> int:
        """Return 0 or 1, the leader with probability exactly (1 + γ)/2; a tie is a fair coin.

        Args:
            counts: votes for each class.
            source: random bits.
        """
        tie = counts[0] == counts[1]
        coins = ExactCoins([0.0 if tie else float(self._noise.values[counts[1]])])
        keep, fair = (int(bit[0]) for bit in coins.toss(np.zeros(1, dtype=np.intp), source))
        return int(counts[1] > counts[0]) if keep else fair

    def bounds(self, releases: int) -> Parts:
        """Return what is proved of so many releases.

        Args:
            releases: how many.
        """
        return [(ReleaseBounds(laws=partial(_bit_pairs, self._noise, self.affected)), releases)]

    def moved(self, votes: int) -> ReleaseBounds:
        """Return what is proved of one release where a record moves so many votes.

        Args:
            votes: 1..K.
        """
        return ReleaseBounds(laws=partial(_bit_pairs, self._noise, votes))

    def class_chances(self, counts: CountTable) -> Array:
        """Return Pr[each class is released], shape (N, 2).

        Args:
            counts: decreasing vote counts, shape (N, 2).
        """
        lead = np.where(counts[:, 0] == counts[:, 1], 0.0, self._noise.values[counts[:, 0]])
        return np.stack([(1 + lead) / 2, (1 - lead) / 2], axis=1)

    def leader_chances(self, counts: CountTable) -> Array:
        """Return Pr[a leader is released], shape (N,)."""
        return np.asarray(
            np.where(counts[:, 0] == counts[:, 1], 1.0, (1 + self._noise.values[counts[:, 0]]) / 2), dtype=np.float64
        )

    def record(self) -> dict[str, Any]:
        """Return the mechanism as plain data."""
        return {"kind": self.kind, "format": 1, "gamma": self._noise.values.tolist(), "affected": self.affected}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> VoteMechanism:
        """Return the mechanism of a record."""
        if record.get("format") != 1:
            raise InvalidInput("mechanism", record.get("format"), f"a {cls.kind} of format 1")
        return NoiseFunctionMechanism(NoiseFunction(record["gamma"]), affected=record["affected"])


class Subsampling(NoiseFunctionMechanism):
    """The majority of a few voters, drawn anew for each query: γ_Sub, mixed for every mean number of voters.

    Args:
        K: voters, ≥ 1.
        classes: 2.
        voters: mean number of voters drawn, above 0, at most the largest odd number up to K.
        affected: votes that one record can move, 1..K.

    Source: Lemma 3.1 of the paper, mixed (`darrm_opt.baselines.subsampling_mixture`).
    """

    name = "subsampling"
    title = r"$\gamma_{\mathrm{Sub}}$ (subsampling)"
    parameter = "voters"
    limits = (0.0, 1e6)
    advice = "Release the majority of a few voters, drawn anew for each query"

    def __init__(self, K: int, classes: int, voters: float, *, affected: int = 1) -> None:
        _two_classes(self.name, classes)
        super().__init__(subsampling_mixture(K, voters), affected=affected)
        self.voters = float(voters)

    @classmethod
    def range_for(cls, K: int, classes: int) -> tuple[float, float]:
        """Return the range of the mean number of voters: up to the largest odd number."""
        del classes
        return 0.0, K - 1.0 + K % 2

    @property
    def words(self) -> str:
        """What the parameter means, for a plan."""
        return f"The majority of {self.voters:.4g} voters on average, drawn anew for each query."


class RandomizedResponse(NoiseFunctionMechanism):
    """Randomised response of the majority: γ_const, the same for every number of ones.

    Args:
        K: voters, ≥ 1.
        classes: 2.
        share: γ in (0, 1].
        affected: votes that one record can move, 1..K.

    Source: Lemma A.1 of the paper.
    """

    name = "randomized_response"
    title = r"$\gamma_{\mathrm{const}}$ (randomised response)"
    parameter = "share"
    limits = (0.0, 1.0)
    advice = "Release the majority by randomised response"

    def __init__(self, K: int, classes: int, share: float, *, affected: int = 1) -> None:
        _two_classes(self.name, classes)
        self.share = checked_parameter(share, "share", self.limits, "a probability above 0, at most 1")
        super().__init__(NoiseFunction.from_upper_half(np.full((K + 1) // 2, self.share), K), affected=affected)

    @property
    def words(self) -> str:
        """What the parameter means, for a plan."""
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
