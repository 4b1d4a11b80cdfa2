"""Claim of privacy of a vote, neighbouring vote counts, and what an audit finds."""

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
"""Votes for each class."""

Verdict = Literal["proved", "refuted", "not refuted"]


@dataclass(frozen=True)
class Claim:
    """What is claimed of the releases of a vote."""

    privacy: Privacy  # (ε, δ) of all releases together, ε finite
    K: int  # voters; with "add-remove" of the larger of two neighbours
    classes: int  # C ≥ 2
    releases: int = 1  # Q ≥ 1, each of the same votes, with randomness of its own
    affected: int = 1  # votes that one record moves ("replace-one"), or that come or go with it ("add-remove")
    neighbours: Neighbours = "replace-one"  # which vote counts are neighbours

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
    """Two neighbours and an event that is too likely on the first of them."""

    before: Any  # vote counts, or the inputs that were given as neighbours
    after: Any  # those of its neighbour
    event: tuple[Any, ...]  # answers of one release that it counts: classes, -1 for ⊥, or what a black box answered
    least: int  # the event is that at least so many of the releases have such an answer
    chance_before: float  # of the event [probability]; from samples a lower bound
    chance_after: float  # of the event on the neighbour [probability]; from samples an upper bound


@dataclass(frozen=True)
class SampledBound:
    """What samples of a black box show."""

    epsilon: float  # lower bound of ε of all releases at the claimed δ [nats]; 0 where nothing is shown
    confidence: float  # chance that the bound is true, at least, over the samples
    # ε [nats] that an event of the same chance on the neighbour would have had to have for the claim to be refuted with
    # chance ``power``; None where no chance is enough
    detectable: float | None
    power: float
    samples: int  # answers drawn, those of the exploration among them


@dataclass(frozen=True)
class Audit:
    """What an audit finds of a claim."""

    claim: Claim
    verdict: Verdict  # "not refuted": then nothing is proved, and nothing is shown against it
    epsilon: float | None = None  # ε of all releases at the claimed δ that is proved [nats]; None where nothing is
    account: str = ""  # what proves it; "" where nothing does
    counterexample: Counterexample | None = None  # what refutes it, or the worst event; None where none was looked for
    # whether the counterexample's chances were computed; from samples they hold with the confidence
    exact: bool = False
    sampled: SampledBound | None = None  # what samples show; None where none were drawn

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data; ``private`` is None where neither was shown."""
        content = asdict(self)
        content["claim"] |= content["claim"].pop("privacy")
        private = {"proved": True, "refuted": False, "not refuted": None}[self.verdict]
        return {"private": private, **content}
