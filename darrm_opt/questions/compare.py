"""Comparison: every mechanism for a majority, at the same total privacy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from darrm_opt.answers import Report, voters_body
from darrm_opt.answers.decode import comparison_of
from darrm_opt.answers.running_time import COMPARISON_SOLVES, comparison_account_seconds, estimate_running_time
from darrm_opt.bagging import Bags
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.design.report import (
    assumed_text,
    columns,
    count_text,
    guarantee,
    text_above,
    trained_text,
    voters_text,
)
from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.mechanisms import calibrated_names
from darrm_opt.planning.compare import Comparison, ComparisonRow, amplified, compare
from darrm_opt.planning.question import Question
from darrm_opt.problem import FRESH, Problem
from darrm_opt.questions.question import Answer, answer_field, answer_json, question_field
from darrm_opt.questions.sampled import SampledTotalQuestion, options_report
from darrm_opt.questions.voters import DrawAnswer, EachAnswer, VotersAnswer, draw_record, prior_of
from darrm_opt.record import DesignSpec


class MechanismAnswer(Answer):
    """One mechanism, calibrated to the budget."""

    name: str = answer_field(
        "The mechanism: optimal_sequence (one γ for all releases), optimal (γ_opt of one target), fewer_voters, "
        f"majority, or one with a parameter: {', '.join(calibrated_names())}."
    )
    parameter: str = answer_field("Name of its parameter.")
    value: float | int | None = answer_field("Value of the parameter; null where nothing fits the budget.")
    gamma: list[float] | None = answer_field("The γ of the mechanism [probability]; null likewise.")
    epsilon: float | None = answer_field("Total ε that it spends at the total δ [nats]; null likewise.")
    utility: float | None = answer_field("Share of the noiseless utility kept, by the objective; null likewise.", None)
    disagreement: float | None = answer_field(
        "Pr[release ≠ majority that was voted] over the prior [probability]; null likewise."
    )
    tv_error: float | None = answer_field(
        "|Pr[release = 1] − Pr[majority = 1]| over the prior [probability]; null where it has no closed form."
    )


class CompareAnswer(Answer):
    """Every mechanism within one budget, the most useful first."""

    voters: VotersAnswer = answer_field("The voters, as they were understood.")
    fresh: bool = answer_field(f"Whether the voters were taken to be fresh. {FRESH}")
    queries: int = answer_field("Number of releases [releases].")
    total: EachAnswer = answer_field("(ε, δ) of all releases together.")
    objective: str = answer_field("Objective of γ_opt.")
    draw: DrawAnswer | None = answer_field(
        "The draw; null where a record reaches the affected voters for certain.", None
    )
    rows: list[MechanismAnswer] = answer_field(
        "One for each mechanism, the most useful first; those that do not fit last."
    )
    without_noise: str = answer_field(
        "What needs no noise within the total, in words, as the plan says it; empty if nothing does.", ""
    )
    not_compared: dict[str, str] = answer_field("What has no place in the table, and why.")


class Compare(SampledTotalQuestion):
    """Compare the mechanisms that release a majority, for the same voters, total privacy and number of queries.

    With `records`, fresh private voters each draw a sample of their own for every query, which amplifies their privacy.
    """

    path: ClassVar[str] = "compare"
    summary: ClassVar[str] = "Mechanisms compared at equal total privacy"
    answers: ClassVar[Any] = CompareAnswer

    K: int = question_field()
    total_delta: float = question_field(otherwise="above 0, as Gaussian noise, and rounding, leak a little")
    objective: str = question_field("rectangular", short="Objective")
    prior: str | None = question_field(
        None,
        words="Prior, for the accuracy: the text of an objective with a prior, such as histogram(9,1,0,2) for "
        "measured votes",
        otherwise="by default the objective's own",
    )

    def problem(self) -> Problem:
        """Return the problem of these voters, as one sampled answer shows them, at some target of no account."""
        return amplified(super().problem(), self.as_sampling(), fresh=self.fresh)

    @property
    def seconds(self) -> float:
        problem = self.problem()
        accounts = comparison_account_seconds(problem, self.queries, self.total, self.bags(), fresh=self.fresh)
        return COMPARISON_SOLVES * estimate_running_time(DesignSpec(problem, self.objective)).seconds + accounts

    def check(self) -> None:
        """Refuse a prior that says nothing of these votes, and a draw for other voters."""
        if self.prior is None and not isinstance(as_objective(self.objective), Objective):
            raise InvalidInput("prior", None, FIELDS["prior"].accepted, f"{self.objective} has no prior of its own.")
        self.refuse_two_draws()
        problem, bags = self.problem(), self.bags()
        DesignSpec(problem, self.objective)
        if self.prior is not None:
            prior_of(self.prior, self.K)
        if bags is not None:
            bags.check_voters(problem)

    def answer(self, report: Report = lambda _: None) -> Comparison:
        report(None)
        return compare(
            self.problem(),
            self.queries,
            self.total,
            objective=self.objective,
            prior=None if self.prior is None else prior_of(self.prior).prior,
            bags=self.bags(),
            fresh=self.fresh,
            progress=options_report(report),
        )

    def record_of(self, answer: Comparison) -> dict[str, Any]:
        # Every double of γ: a reader proves it again, and a rounded one could fail.
        gammas = [None if row.noise is None else row.noise.values.tolist() for row in answer.rows]
        rows = [answer_json(MechanismAnswer, row, gamma=gamma) for row, gamma in zip(answer.rows, gammas, strict=True)]
        stated = {
            "voters": voters_body(answer.problem),  # without a target, at which no mechanism is compared
            "total": asdict(answer.total),
            "draw": draw_record(answer.bags, answer.problem.K),
        }
        return answer_json(CompareAnswer, answer, **stated, rows=rows)

    def text_of(self, answer: Comparison) -> str:
        problem, fresh, bags = answer.problem, answer.fresh, answer.bags
        heads = ["mechanism", "parameter", "ε spent", "utility", "disagreement", "tv error"]
        sampled = "Each voter draws its own records: what follows is of one sampled answer."
        lines = [
            *([] if self.records is None else [sampled]),
            (
                f"{voters_text(problem, self.profile if self.records is None else None)}"
                f"{trained_text(problem, fresh=fresh)}; {count_text(answer.queries, 'release')}, "
                f"{guarantee(answer.total)} in all."
            ),
            *([] if bags is None else [_drawn_text(bags, problem.K)]),
            "",
            columns(heads, map(_row, answer.rows)),
            "",
        ]
        left_out = [f"{name} is left out: {reason}." for name, reason in answer.not_compared.items()]
        assumption = assumed_text([problem.voter], answer.queries, fresh=fresh)
        return "\n".join([*lines, *filter(None, [answer.without_noise, *left_out, assumption])])

    def figure_of(self, answer: Comparison) -> Any:
        from darrm_opt.figures import mechanisms_figure

        return mechanisms_figure(answer)

    def verify(self, given: Any) -> Comparison:
        """Return a comparison for this question, each γ in it a noise function; its totals are the other side's."""
        voters = self.problem()
        wanted = self.K, voters.voter, self.queries, self.total, voters.affected, self.prior
        asked: dict[str, Any] = {"objective": self.objective, "fresh": self.fresh, "bags": self.bags()}
        question = Question.of(*wanted, **asked)
        return comparison_of(given, question, self.prior)


def _drawn_text(bags: Bags, K: int) -> str:
    sampling = f"with{'' if bags.replacement else 'out'} replacement" + (", disjoint" * (bags.sampling == "disjoint"))
    return (
        f"Each voter is trained on {bags.subsample_size} of {bags.n} records, {sampling}: "
        f"one record reaches {bags.affected_distribution(K).mean:.4g} voters on average."
    )


def _row(row: ComparisonRow) -> list[str]:
    return [
        row.name,
        "does not fit" if row.epsilon is None else f"{row.parameter} = {row.value:.6g}",
        "-" if row.epsilon is None else text_above(row.epsilon, ".6f"),
        *("-" if value is None else f"{value:.6f}" for value in (row.utility, row.disagreement, row.tv_error)),
    ]
