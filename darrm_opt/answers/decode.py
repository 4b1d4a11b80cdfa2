"""Answers of the REST interface converted to the library's types.

The functions take an answer that `darrm_opt.answers.verification` accepted, and its question. Bounds, totals and
accuracies are claims of the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from darrm_opt.answers.running_time import RunningTime
from darrm_opt.answers.verification import member, parse_gamma, parse_problem, reads
from darrm_opt.errors import VerificationFailed
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.planning.compare import Comparison, ComparisonRow, measure_of
from darrm_opt.planning.option import Option, Plan, Suggestion
from darrm_opt.planning.question import Question
from darrm_opt.problem import Privacy
from darrm_opt.record import DesignSpec


@reads
def comparison_of(answer: dict[str, Any], question: Question, prior: str | None) -> Comparison:
    """Return the comparison of an answer accepted by `verify_comparison`."""
    goal, votes, problem = question.gamma_objective, question.votes, question.voters
    if votes is None:
        raise VerificationFailed("The comparison is for more than two classes.")
    names = ("name", "parameter", "value", "epsilon", "utility", "disagreement", "tv_error")
    rows = [
        ComparisonRow(
            **{name: member(row, name) for name in names},
            # Parsed, not proved: a comparison is information; a released γ is proved elsewhere.
            noise=None if row["gamma"] is None else parse_gamma(row["gamma"], problem.K),
        )
        for row in answer["rows"]
    ]
    return Comparison(
        problem=problem,
        queries=question.queries,
        total=question.total,
        objective=str(goal),
        prior=votes,
        rows=tuple(rows),
        not_compared=dict(answer.get("not_compared") or {}),
        measure=measure_of(goal, prior),
        bags=question.bags,
        fresh=question.fresh,
        without_noise=str(answer.get("without_noise", "")),
    )


@reads
def plan_of(answer: dict[str, Any], question: Question) -> Plan:
    """Return the plan of an answer accepted by `verify_plan`."""
    return _plan_of(answer, question, tuple(_option_of(option, question) for option in answer["options"]))


@reads
def table_plan_of(answer: dict[str, Any], question: Question) -> Plan:
    """Return the plan, under a law of votes, of an answer accepted by `verify_options` or `verify_group_plan`."""
    record, total = answer["mechanism"], question.total
    mechanism = None if record is None else mechanism_from_record(record)
    names = ("name", "right", "wrong", "abstained", "utility", "account", "parameters", "gap")
    options = tuple(
        Option(
            **{name: member(option, name) for name in names},
            voters=question.K,
            why="",
            queries=question.queries,
            spent=Privacy(member(option, "epsilon"), total.delta),
            mechanism=None if place else mechanism,
        )
        for place, option in enumerate(answer["options"])
    )
    return _plan_of(answer, question, options)


def _plan_of(answer: dict[str, Any], question: Question, options: tuple[Option, ...]) -> Plan:
    return Plan(
        question=question,
        options=options,
        verdict=member(answer, "verdict"),
        advice=str(member(answer, "advice")),
        suggestions=tuple(
            Suggestion(**{**suggestion, "total": Privacy(**suggestion["total"])})
            for suggestion in member(answer, "suggestions")
        ),
        warnings=tuple(member(answer, "warnings")),
    )


def _option_of(option: dict[str, Any], question: Question) -> Option:
    """Return an option of a plan between two classes, which answers all its queries."""
    name, why, spent = member(option, "mechanism"), str(member(option, "why")), member(option, "spent")
    if spent is None:
        return Option.unfit(name, question, why, option.get("outcome") or "does not fit")
    gamma, problem = option["gamma"], option.get("problem")
    return Option.fitting(
        name,
        question,
        why,
        (float(member(option, "accuracy")), 1.0),
        Privacy(**spent),
        str(member(option, "account")),
        noise=None if gamma is None else parse_gamma(gamma, question.K),
        queries=member(option, "queries"),
        voters=member(option, "voters"),
        problem=None if problem is None else parse_problem(problem),
    )


@dataclass(frozen=True)
class DesignEstimate(RunningTime):
    """Expected cost of a design, at a service or a table file."""

    id: str = ""  # content key of the answer
    stored: bool = False  # whether the answer exists already; then it takes no time
    allowed: bool = False  # whether the other side would compute the answer


@reads
def estimate_of(answer: dict[str, Any], spec: DesignSpec) -> DesignEstimate:
    """Return the estimate of an answer."""
    return DesignEstimate(
        constraints=int(member(answer, "constraints")),
        method=member(answer, "method"),
        seconds=float(member(answer, "seconds")),
        basis=str(answer.get("basis", "")),
        id=spec.key,
        stored=member(answer, "stored") is True,
        allowed=member(answer, "allowed") is True,
    )
