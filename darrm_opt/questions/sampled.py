"""Fields of questions whose queries may have a fresh sample of the records each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from darrm_opt.accounting.sampling import Sampling, Scheme
from darrm_opt.answers import sampling_of
from darrm_opt.questions.question import Answer, Question, asked, told


@dataclass(frozen=True, kw_only=True)
class SampledQuestion(Question):
    """Question about queries that may have a fresh sample of the records each."""

    records: int | None = asked(None)
    sample: int | None = asked(None)
    sampling: str | None = asked(None, words=f"How: {', '.join(get_args(Scheme))}", otherwise="by default poisson")
    neighbours: str | None = asked(None)
    labels: int | None = asked(None)
    among: int | None = asked(None)
    times: int | None = asked(None)

    def drawn(self) -> Sampling | None:
        """Return how records are drawn anew for every query; None where they are not."""
        return sampling_of(self.record())


@dataclass(frozen=True, kw_only=True)
class SamplingAnswer(Answer):
    """How records are drawn anew for every query."""

    records: int = told("Records of which every query has a sample.")
    sample: int | None = told("Records drawn for one query, or by each voter; null where a rate is given.")
    rate: float | None = told("Chance of each record, with poisson; null where a number is given.")
    scheme: str = told(f"One of {', '.join(get_args(Scheme))}.")
    neighbours: str = told("add-remove or replace-one.")
    labels: int = told("Labels that one sample serves.")


@dataclass(frozen=True, kw_only=True)
class AllocationAnswer(SamplingAnswer):
    """How records are drawn anew for every round of queries, each by coins of its own."""

    among: int = told("Queries in a row among which each record is spread.")
    times: int = told("In how many of those it is.")
