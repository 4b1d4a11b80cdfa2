"""The plain vote of private models: the class with most votes, without noise, for any number of queries.

Anything computed from models is as private as the models that one record reaches. So the charge is for training: one
release is one training, with all answers that follow from it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from darrm_opt.accounting.guarantee import ReleaseGuarantee, Releases
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CountTable, VoteMechanism, checked_shape
from darrm_opt.mechanisms.vote_noise import leaders
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource
from darrm_opt.tables.votes import Labels, VoteTable
from darrm_opt.voters import PrivacyProfile


class PlainVote(VoteMechanism):
    """The plain vote of K models that are private themselves; one release is one training, with all its answers.

    Source: post-processing; the composition of r models.
    """

    name = "plain_vote"
    kind = "darrm plain vote"
    title = "plain vote"

    def __init__(self, K: int, classes: int, model: Privacy, *, affected: int = 1) -> None:
        self.K, self.classes, self.affected = checked_shape(K, classes, affected)
        self.model = model  # privacy of the training of one model: (ε, Δ), or a profile

    @property
    def private_voters(self) -> tuple[Privacy, ...]:
        return (self.model,) if self.model.epsilon < math.inf else ()

    @property
    def description(self) -> str:
        return f"the class of most votes, of models that are each {guarantee(self.model)}"

    def draw_many(self, counts: VoteTable, source: RandomSource) -> Labels:
        return leaders(counts, source)

    def bounds(self, releases: int) -> Releases:
        """Return the guarantees of a number of trainings, of r models each."""
        return [(ReleaseGuarantee(self.model), releases * self.affected)]

    def leader_chances(self, counts: CountTable) -> Array:
        return np.ones(len(counts))

    def record(self) -> dict[str, Any]:
        model: dict[str, Any] = {"epsilon": self.model.epsilon, "delta": self.model.delta}
        if len(self.model.points) > 1:
            model = {"profile": [list(point) for point in self.model.points]}
        shape = {"K": self.K, "classes": self.classes, "affected": self.affected}
        return {"kind": self.kind, "format": 1, **shape, "model": model}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> PlainVote:
        if record.get("format") != 1:
            raise InvalidInput("mechanism", record.get("format"), f"a {cls.kind} of format 1")
        stated = record["model"]
        profile = PrivacyProfile(stated["profile"]) if "profile" in stated else None
        model = profile or Privacy(stated["epsilon"], stated["delta"])
        return cls(record["K"], record["classes"], model, affected=record["affected"])
