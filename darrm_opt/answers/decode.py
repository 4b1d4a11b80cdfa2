"""Answers of the REST interface converted to the library's types, each γ proved.

Bounds, totals and accuracies are claims of the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.answers.running_time import RunningTime
from darrm_opt.answers.verification import (
    member,
    members,
    parse_gamma,
    parse_problem,
    reads,
    verify_budget,
    verify_gamma,
)
from darrm_opt.errors import VerificationFailed
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.planning.compare import Comparison, ComparisonRow, measure_of
from darrm_opt.planning.option import Option, Plan, Suggestion
from darrm_opt.planning.question import Question
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec


@reads
def comparison_of(answer: Any, question: Question, prior: str | None) -> Comparison:
    """Return a comparison for the question, each γ in it a noise function for K voters; totals are not verified."""
    goal, votes, problem = question.gamma_objective, question.votes, question.voters
    if votes is None:
        raise VerificationFailed("The comparison is for more than two classes.")
    verify_budget(answer, question)
    names = ("name", "parameter", "value", "epsilon", "utility", "disagreement", "tv_error")
    rows = [
        ComparisonRow(
            **{name: member(row, name) for name in names},
            # Parsed, not proved: a comparison is information; a released γ is proved elsewhere.
            noise=None if member(row, "gamma") is None else parse_gamma(row["gamma"], problem.K),
        )
        for row in members(member(answer, "rows"), list)
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
def plan_of(answer: Any, question: Question) -> Plan:
    """Return a plan in which each γ is proved private for its option's target."""
    verify_budget(answer, question)
    # The privacy of models that answer many queries with the same randomness does not count.
    voters = effective_voters(question.voters, question.queries, fresh=question.fresh)
    options = members(member(answer, "options"), list)
    return _plan_of(answer, question, tuple(_option_of(option, question, voters) for option in options))


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


def _option_of(option: Any, question: Question, voters: Problem) -> Option:
    """Return an option of a plan between two classes, which answers all its queries; ``voters`` are those of its γ."""
    noise, problem = None, None
    if member(option, "gamma") is not None:
        problem = parse_problem(member(option, "problem"))
        if (problem.K, problem.voter, problem.affected) != (voters.K, voters.voter, voters.affected):
            raise VerificationFailed("The plan has a γ for other voters than requested.")
        noise = verify_gamma(option["gamma"], problem)
    name, why, spent = member(option, "mechanism"), str(member(option, "why")), member(option, "spent")
    if spent is None:
        return Option.unfit(name, question, why, option.get("outcome") or "does not fit")
    return Option.fitting(
        name,
        question,
        why,
        (float(member(option, "accuracy")), 1.0),
        Privacy(**spent),
        str(member(option, "account")),
        noise=noise,
        queries=member(option, "queries"),
        voters=member(option, "voters"),
        problem=problem,
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
