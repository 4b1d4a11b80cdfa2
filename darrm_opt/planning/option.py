"""The answers of the planner, as values: one way of releasing, and all of them weighed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from darrm_opt.accounting.release import Release
from darrm_opt.design.solution import Solution
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.situation import Situation
from darrm_opt.problem import Privacy, Problem

Way = Literal[
    "majority",
    "fewer_voters",
    "optimal",
    "optimal_sequence",
    "gnmax",
    "permute_and_flip",
    "exponential_mechanism",
    "saa",
    "subsampling",
    "randomized_response",
]

WAYS: tuple[Way, ...] = (
    "majority",
    "fewer_voters",
    "optimal",
    "optimal_sequence",
    "gnmax",
    "permute_and_flip",
    "exponential_mechanism",
    "saa",
    "subsampling",
    "randomized_response",
)
"""The ways of releasing, in the order in which they are weighed."""


@dataclass(frozen=True)
class Option:
    """One way of releasing, as far as the total allows.

    Attributes:
        way: which, one of `WAYS`.
        fits: whether any amount of it is within the total.
        accuracy: Pr[release = majority that was voted] under the prior [probability]; None where it does not fit.
        queries: answers allowed; None: without limit.
        spent: (ε, δ) of all of them together, proved; None where it does not fit.
        account: what proves that: "post-processing" of the models, "votes" (the composition of all votes), or of the
            released bits "bits", "profile", "optimal" or "simple". "none" where it does not fit.
        noise: γ of one release; None where the plain majority (of some voters) is released.
        problem: voters and (ε, δ) for which `verify` proves γ; None likewise.
        solution: γ with its certificate, where it is the γ_opt of one target.
        voters: whose majority is released; fewer than K only for "fewer_voters".
        why: in words.
    """

    way: Way
    fits: bool
    accuracy: float | None
    queries: int | None
    spent: Privacy | None
    account: str
    noise: NoiseFunction | None
    problem: Problem | None
    solution: Solution | None
    voters: int
    why: str

    @classmethod
    def unfit(cls, way: Way, situation: Situation, why: str) -> Option:
        """Return an option of which nothing is within the total.

        Args:
            way: which one.
            situation: what was asked.
            why: in words.
        """
        return cls(way, False, None, None, None, "none", None, None, None, situation.K, why)  # noqa: FBT003

    @property
    def release(self) -> Release | None:
        """What `PrivateMajority` takes: γ and the problem for which it is private; None for a plain majority."""
        return None if self.noise is None or self.problem is None else Release(self.noise, self.problem)

    @property
    def plain(self) -> bool:
        """Whether it is the plain majority of all voters, without noise."""
        return self.way == "majority"


@dataclass(frozen=True)
class Remedy:
    """A change of the situation with which it is of use, proved.

    Attributes:
        change: "queries" or "total".
        queries: how many would fit.
        total: within which.
        accuracy: at least this.
        words: the same in words.
    """

    change: Literal["queries", "total"]
    queries: int | None
    total: Privacy
    accuracy: float
    words: str


@dataclass(frozen=True)
class Plan:
    """Every way weighed.

    Attributes:
        situation: what was asked, as it was understood.
        options: the most accurate first; those that do not fit last.
        verdict: "plain majority" (this mechanism is not needed), "noisy majority", or "none" (no option is of use).
        advice: what to do and why, in words.
        remedies: where no option is of use, what would make one.
        warnings: what the person who asked should reconsider; usually empty.
    """

    situation: Situation
    options: tuple[Option, ...]
    verdict: Literal["plain majority", "noisy majority", "none"]
    advice: str
    remedies: tuple[Remedy, ...]
    warnings: tuple[str, ...]

    @property
    def best(self) -> Option | None:
        """What to do; None where no option is of use."""
        return None if self.verdict == "none" else self.options[0]
