"""Fields of questions whose queries may have a fresh sample of the records each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from darrm_opt.accounting.sampling import Sampling, Scheme
from darrm_opt.answers import sampling_of
from darrm_opt.questions.question import Answer, Question, answer_field, question_field


@dataclass(frozen=True, kw_only=True)
class SampledQuestion(Question):
    """Question about queries that may have a fresh sample of the records each."""

    records: int | None = question_field(None)
    sample: int | None = question_field(None)
    sampling: str | None = question_field(
        None, words=f"How: {', '.join(get_args(Scheme))}", otherwise="by default poisson"
    )
    neighbours: str | None = question_field(None)
    labels: int | None = question_field(None)
    among: int | None = question_field(None)
    times: int | None = question_field(None)

    def as_sampling(self) -> Sampling | None:
        """Return how records are drawn anew for every query; None where they are not."""
        return sampling_of(self.record())


@dataclass(frozen=True, kw_only=True)
class SamplingAnswer(Answer):
    """How records are drawn anew for every query."""

    records: int = answer_field("Records of which every query has a sample.")
    sample: int | None = answer_field("Records drawn for one query, or by each voter; null where a rate is given.")
    rate: float | None = answer_field("Chance of each record, with poisson; null where a number is given.")
    scheme: str = answer_field(f"One of {', '.join(get_args(Scheme))}.")
    neighbours: str = answer_field("add-remove or replace-one.")
    labels: int = answer_field("Labels that one sample serves.")


@dataclass(frozen=True, kw_only=True)
class AllocationAnswer(SamplingAnswer):
    """How records are drawn anew for every round of queries, each by coins of its own."""

    among: int = answer_field("Queries in a row among which each record is spread.")
    times: int = answer_field("In how many of those it is.")
