"""Claims of privacy about a vote, neighbouring vote counts, and the findings of an audit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from typing import Any, Literal

from darrm_opt.accounting.sampling import Neighbours
from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import checked_shape
from darrm_opt.problem import Privacy

Counts = tuple[int, ...]

Verdict = Literal["proved", "refuted", "not refuted"]


@dataclass(frozen=True)
class Claim:
    """Privacy claim about the releases of a vote."""

    privacy: Privacy  # (ε, δ) of all releases together, ε finite
    K: int  # voters; for "add-remove" those of the larger neighbour
    classes: int  # C ≥ 2
    releases: int = 1  # Q ≥ 1, all of the same votes, each with fresh randomness
    affected: int = 1  # votes that one record changes ("replace-one"), adds or removes ("add-remove")
    neighbours: Neighbours = "replace-one"

    def __post_init__(self) -> None:
        checked_shape(self.K, self.classes, self.affected)
        whole_number(self.releases, "releases", "a whole number of releases, at least 1")
        if self.privacy.epsilon == math.inf:
            raise InvalidInput("epsilon", self.privacy.epsilon, "a finite number of nats, at least 0")
        if self.neighbours not in ("replace-one", "add-remove"):
            raise InvalidInput("neighbours", self.neighbours, "'replace-one' or 'add-remove'")

    def neighbours_of(self, counts: Counts) -> Iterator[Counts]:
        """Yield every neighbour of the counts of K votes, each once."""
        for size in range(1, min(self.affected, sum(counts)) + 1):
            for lost in combinations_with_replacement(range(self.classes), size):
                rest = [count - lost.count(place) for place, count in enumerate(counts)]
                if min(rest) < 0:
                    continue
                if self.neighbours == "add-remove":
                    if any(rest):
                        yield tuple(rest)
                    continue
                others = [place for place in range(self.classes) if place not in lost]
                for gained in combinations_with_replacement(others, size):
                    yield tuple(count + gained.count(place) for place, count in enumerate(rest))


@dataclass(frozen=True)
class Counterexample:
    """Two neighbours and an event that is too likely on the first."""

    before: Any  # vote counts, or a given input
    after: Any  # those of its neighbour
    event: tuple[Any, ...]  # answers of one release that count as hits: classes, -1 for ⊥, or a black box's answers
    least: int  # the event is that at least this many releases hit
    chance_before: float  # probability of the event; from samples a lower bound
    chance_after: float  # its probability on the neighbour; from samples an upper bound


@dataclass(frozen=True)
class SampledBound:
    """Result of sampling a black box."""

    epsilon: float  # lower bound on ε of all releases at the claimed δ [nats]; 0 if nothing is shown
    confidence: float  # probability, over the samples, that the bound is true, at least
    # ε [nats] of an event with the same probability on the neighbour at which the claim would have been refuted with
    # probability ``power``; None if there is none
    detectable: float | None
    power: float
    samples: int  # answers drawn, including the exploration


@dataclass(frozen=True)
class Audit:
    """Result of auditing a claim."""

    claim: Claim
    verdict: Verdict  # "not refuted": neither proved nor refuted
    epsilon: float | None = None  # proved ε of all releases at the claimed δ [nats]; None if there is none
    account: str = ""  # its proof, by name
    counterexample: Counterexample | None = None  # the refutation, or the worst event; None if none was searched
    # whether the counterexample's probabilities were computed; from samples they hold with the confidence
    exact: bool = False
    sampled: SampledBound | None = None  # None if no samples were drawn

    def as_dict(self) -> dict[str, Any]:
        """Return the audit as plain data; ``private`` is None if neither was shown."""
        content = asdict(self)
        content["claim"] |= content["claim"].pop("privacy")
        private = {"proved": True, "refuted": False, "not refuted": None}[self.verdict]
        return {"private": private, **content}
