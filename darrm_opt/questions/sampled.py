"""Fields of questions whose queries may have a fresh sample of the records each, or models one of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import ClassVar, Literal, get_args

from darrm_opt.accounting.sampling import Sampling, Scheme
from darrm_opt.answers import SAMPLING, Report, sampling_of
from darrm_opt.bagging import Bags, bags_of
from darrm_opt.planning.option import MECHANISMS, Option
from darrm_opt.privacy_curves import profile_in_total, remote_curve
from darrm_opt.problem import Privacy, Problem
from darrm_opt.questions.design import PrivateVotersQuestion, stated_problem
from darrm_opt.questions.question import Answer, Question, answer_field, question_field
from darrm_opt.questions.voters import WithinTotalQuestion

Draw = Literal["independent", "disjoint"]  # how subsamples are drawn, the default first

_UNNAMED = tuple(name for name in SAMPLING if name != "sampling")

OF_DRAW = ("n", "subsample_size", "replacement")  # fields of voters that are trained on subsamples


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


class SampledTotalQuestion(PrivateVotersQuestion, WithinTotalQuestion, SampledQuestion):
    """Question about a total, of voters trained on subsamples, or of queries with a fresh sample of records each."""

    tag: ClassVar[str] = "accounting"

    fresh: bool = question_field(default=False)
    n: int | None = question_field(None)
    subsample_size: int | None = question_field(None)
    replacement: bool = question_field(default=True)
    sampling: Draw | Scheme | None = question_field(
        None,
        words="With n and without replacement, how the subsamples are drawn: independent (the default) or disjoint. "
        f"With records, how these are drawn: {', '.join(get_args(Scheme))}; by default poisson",
        longest=None,
    )

    @property
    def voters(self) -> int:
        return self.K or 0

    @property
    def total(self) -> Privacy:
        """The (ε, δ) of all releases together."""
        return Privacy(self.total_epsilon, self.total_delta)

    def problem(self) -> Problem:
        """Return the problem of these voters, at some target of no account."""
        K, profile, delta = self.voters, self.profile, None
        if profile is not None:
            share = K, self.queries, self.total_delta, self.affected
            points = profile_in_total(remote_curve(profile), *share, fresh=self.fresh).points
            profile, delta = [list(point) for point in points], self.total_delta or None
        numbers = K, None, self.epsilon, self.Delta, delta, self.affected
        return stated_problem(*numbers, profile=profile, target_epsilon=1.0)

    @property
    def _reaches_all(self) -> bool:
        """Whether None says the same: of voters that share a sample it says 1."""
        return self.records is None and super()._reaches_all

    def as_sampling(self) -> Sampling | None:
        """Return how records are drawn anew for every query; None where they are not."""
        names = SAMPLING if self.records is not None or self.sampling not in (None, *get_args(Draw)) else _UNNAMED
        return sampling_of({name: getattr(self, name) for name in names})

    def bags(self) -> Bags | None:
        """Return how the voters' subsamples are drawn; None where they are not."""
        draw = self.sampling if self.sampling in get_args(Draw) and self.records is None else "independent"
        return bags_of(self.n, self.subsample_size, draw, replacement=self.replacement)  # type: ignore[arg-type]  # checked

    def refuse_two_draws(self) -> None:
        """Refuse fields of subsamples beside records."""
        if self.records is not None:
            self.refuse(OF_DRAW, "cannot be combined with records", "Its voters are not trained on subsamples.")


def options_report(report: Report) -> Callable[[Option], None]:
    """Return what reports each option of a ranking as a step of the work."""
    steps = itertools.count(1)
    return lambda option: report({"done": next(steps), "of": len(MECHANISMS), "step": option.name})


class SamplingAnswer(Answer):
    """How records are drawn anew for every query."""

    records: int = answer_field("Records of which every query has a sample.")
    sample: int | None = answer_field("Records drawn for one query, or by each voter; null where a rate is given.")
    rate: float | None = answer_field("Chance of each record, with poisson; null where a number is given.")
    scheme: str = answer_field(f"One of {', '.join(get_args(Scheme))}.")
    neighbours: str = answer_field("add-remove or replace-one.")
    labels: int = answer_field("Labels that one sample serves.")


class AllocationAnswer(SamplingAnswer):
    """How records are drawn anew for every round of queries, each by coins of its own."""

    among: int = answer_field("Queries in a row among which each record is spread.")
    times: int = answer_field("In how many of those it is.")
