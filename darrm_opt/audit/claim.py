"""Claim of privacy of a vote, neighbouring vote counts, and what an audit finds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement
from typing import Any, Literal

from darrm_opt.accounting.sampling import Neighbours
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import checked_shape
from darrm_opt.problem import Privacy, whole_number

Counts = tuple[int, ...]
"""Votes for each class."""

Verdict = Literal["proved", "refuted", "not refuted"]


@dataclass(frozen=True)
class Claim:
    """What is claimed of the releases of a vote.

    Args:
        privacy: (ε, δ) of all releases together, ε finite.
        K: voters; classes: C ≥ 2. Both may be left to a mechanism or a table that names them.
        classes: number of classes.
        releases: Q ≥ 1, each of the same votes, with randomness of its own.
        affected: votes that one record moves ("replace-one"), or that come or go with it ("add-remove").
        neighbours: which vote counts are neighbours. With "add-remove" K counts the larger of the two.
    """

    privacy: Privacy
    K: int
    classes: int
    releases: int = 1
    affected: int = 1
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
    """Two neighbours and an event that is too likely on the first of them.

    Attributes:
        before: vote counts, or the inputs that were given as neighbours.
        after: those of its neighbour.
        event: answers of one release that the event counts: classes, -1 for ⊥, or what a black box answered.
        least: the event is that at least so many of the releases have such an answer.
        chance_before: of the event [probability]; from samples a lower bound.
        chance_after: of the event on the neighbour [probability]; from samples an upper bound.
    """

    before: Any
    after: Any
    event: tuple[Any, ...]
    least: int
    chance_before: float
    chance_after: float


@dataclass(frozen=True)
class SampledBound:
    """What samples of a black box show.

    Attributes:
        epsilon: lower bound of ε of all releases at the claimed δ [nats]; 0 where nothing is shown.
        confidence: chance that the bound is true, at least, over the samples.
        detectable: ε [nats] that an event of the same chance on the neighbour would have had to have for the claim to
            be refuted with chance `power`; None where no chance is enough.
        power: that chance.
        samples: answers drawn, those of the exploration among them.
    """

    epsilon: float
    confidence: float
    detectable: float | None
    power: float
    samples: int


@dataclass(frozen=True)
class Audit:
    """What an audit finds of a claim.

    Attributes:
        claim: what was claimed; None in place of K and classes where neighbours were given as inputs.
        verdict: "proved", "refuted", or "not refuted": then nothing is proved, and nothing is shown against it.
        epsilon: ε of all releases at the claimed δ that is proved [nats]; None where nothing is.
        account: what proves it; "" where nothing does.
        counterexample: what refutes it, or the worst event that was found; None where none was looked for.
        exact: whether the chances of the counterexample were computed; from samples they hold with the confidence.
        sampled: what samples show; None where none were drawn.
    """

    claim: Claim
    verdict: Verdict
    epsilon: float | None = None
    account: str = ""
    counterexample: Counterexample | None = None
    exact: bool = False
    sampled: SampledBound | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data; ``private`` is None where neither was shown."""
        content = asdict(self)
        content["claim"] |= content["claim"].pop("privacy")
        private = {"proved": True, "refuted": False, "not refuted": None}[self.verdict]
        return {"private": private, **content}
