"""Answers of the REST interface in the types of the library, as its own functions return them.

A function takes an answer that `darrm_opt.answers.verification` let pass, and what was asked. Utilities, errors over p
and certificates are computed here, of the γ that was proved; bounds, totals and accuracies are the other side's word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from darrm_opt.accuracy import ErrorCurve, error_curve
from darrm_opt.answers.running_time import CostEstimate
from darrm_opt.answers.verification import VerifiedAnswer, member, members, parse_gamma, parse_problem
from darrm_opt.bagging import Bags
from darrm_opt.design.certificate import verify
from darrm_opt.design.objective import as_objective
from darrm_opt.design.solution import Statistics, Status
from darrm_opt.design.sweep import LeastParameter, Neighbour, with_agreement
from darrm_opt.errors import VerificationFailed
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.compare import Comparison, ComparisonRow, measure_of
from darrm_opt.planning.option import Option, Plan, Suggestion
from darrm_opt.planning.question import Question
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec

Arguments = ParamSpec("Arguments")

Typed = TypeVar("Typed")


def _reads(read: Callable[Arguments, Typed]) -> Callable[Arguments, Typed]:
    """Have a function raise `VerificationFailed` where an answer has something else than its type has."""

    def strictly(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Typed:
        try:
            return read(*args, **kwargs)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            raise VerificationFailed(f"The answer cannot be read ({type(err).__name__}: {err}).") from err

    strictly.__doc__, strictly.__name__ = read.__doc__, read.__name__
    return strictly


@dataclass(frozen=True)
class ErrorCurves:
    """Errors of γ_opt and of the baselines over p."""

    problem: Problem  # for which every γ was proved private
    noise: dict[str, NoiseFunction]  # each γ by its name: "optimal", and the baselines
    curves: dict[str, ErrorCurve]  # the errors of each, by the same names, computed by this process
    left_out: dict[str, str]  # baselines that have no curve, and why


@_reads
def error_curves_of(answer: dict[str, Any], problem: Problem) -> ErrorCurves:
    """Return the error curves of an answer that `verify_curves` let pass."""
    noise = {name: parse_gamma(curve["gamma"], problem.K) for name, curve in answer["curves"].items()}
    p = [float(value) for value in member(answer, "p")]
    curves = {name: error_curve(gamma, p) for name, gamma in noise.items()}
    return ErrorCurves(problem, noise, curves, dict(answer.get("left_out") or {}))


@dataclass(frozen=True)
class AverageErrors:
    """Errors of one way of releasing, averaged over the objective's prior, one for each point of a trade-off."""

    tv_error: tuple[float | None, ...]  # [probability]; None where it has no closed form, or the way has no meaning
    disagreement: tuple[float | None, ...]  # [probability]; None where the way has no meaning


@dataclass(frozen=True)
class Tradeoff:
    """γ_opt at many allowances."""

    points: tuple[VerifiedAnswer, ...]  # the certified γ of each, in the order asked
    # average errors by name: "optimal" and the baselines; None for an objective without a prior
    errors: dict[str, AverageErrors] | None


@_reads
def tradeoff_of(answer: dict[str, Any], specs: Sequence[DesignSpec]) -> Tradeoff:
    """Return the trade-off of an answer that `verify_tradeoff` let pass, for its questions in order."""
    curves = answer.get("curves")
    errors = None if curves is None else {name: _averages(curve, len(specs)) for name, curve in curves.items()}
    points = zip(answer["points"], specs, strict=True)
    return Tradeoff(tuple(_answer_of(point, spec) for point, spec in points), errors)


def _averages(curve: Any, count: int) -> AverageErrors:
    measures = [tuple(members(member(curve, name), list)) for name in ("tv_error", "disagreement")]
    if any(len(values) != count for values in measures):
        raise VerificationFailed("The answer does not have one average error for each allowance.")
    return AverageErrors(*measures)


def _answer_of(point: dict[str, Any], spec: DesignSpec) -> VerifiedAnswer:
    """Return a γ of several in one answer, under a certificate of this process; its utility is its own."""
    noise = parse_gamma(member(point, "gamma"), spec.problem.K)
    utility = spec.objective.linear_goal(noise.K).utility(noise.upper_half)
    return VerifiedAnswer(
        problem=spec.problem,
        objective=spec.objective,
        shape=spec.shape,
        noise=noise,
        utility=utility,
        upper_bound=max(utility, float(member(point, "upper_bound"))),
        status=Status(member(point, "status")),
        certificate=verify(spec.problem, noise),
        method="elsewhere",
        backend="elsewhere",
        statistics=Statistics(0, 0, 0),
        id=spec.key,
        cached=point.get("cached") is True,
    )


@_reads
def least_of(answer: dict[str, Any], request: dict[str, Any]) -> LeastParameter:
    """Return the least parameter of an answer that `verify_least` let pass, for that request."""
    goal = as_objective(request["objective"])
    if answer["measure"] == "agreement":
        goal = with_agreement(goal)

    def solution(result: dict[str, Any]) -> VerifiedAnswer:
        problem = parse_problem(result["design"]["problem"])
        return _answer_of(result["design"], DesignSpec(problem, goal, request["shape"]))

    below = answer["below"]
    return LeastParameter(
        parameter=request["parameter"],
        value=answer["value"],
        measure=answer["measure"],
        wanted=request[answer["measure"]],
        reached=answer["reached"],
        solution=solution(answer),
        below=below and Neighbour(below["value"], below["reached"], float(member(below, "bound")), solution(below)),
    )


@_reads
def comparison_of(
    answer: dict[str, Any],
    problem: Problem,
    queries: int,
    total: Privacy,
    *,
    objective: str,
    prior: str | None,
    fresh: bool,
    bags: Bags | None,
) -> Comparison:
    """Return the comparison of an answer that `verify_comparison` let pass; arguments as for `compare`."""
    # With a draw, chance decides whom a record reaches: all K is then the default of a request, and no claim.
    affected = None if bags is not None and problem.affected == problem.K else problem.affected
    question = Question.of(
        problem.K, problem.voter, queries, total, affected, prior, objective=objective, fresh=fresh, bags=bags
    )
    goal, votes = question.gamma_objective, question.votes
    if votes is None:
        raise VerificationFailed("The comparison is for more than two classes.")
    names = ("name", "parameter", "value", "epsilon", "utility", "disagreement", "tv_error")
    rows = [
        ComparisonRow(
            **{name: member(row, name) for name in names},
            # Read, not proved: a comparison is for reading; what is released is proved by its own door.
            noise=None if row["gamma"] is None else parse_gamma(row["gamma"], problem.K),
        )
        for row in answer["rows"]
    ]
    return Comparison(
        problem=problem,
        queries=queries,
        total=total,
        objective=str(goal),
        prior=votes,
        rows=tuple(rows),
        not_compared=dict(answer.get("not_compared") or {}),
        measure=measure_of(goal, prior),
        bags=question.bags,
        fresh=fresh,
        without_noise=str(answer.get("without_noise", "")),
    )


@_reads
def plan_of(answer: dict[str, Any], question: Question) -> Plan:
    """Return the plan of an answer that `verify_plan` let pass, for its question."""
    return _plan_of(answer, question, tuple(_option_of(option, question) for option in answer["options"]))


@_reads
def table_plan_of(answer: dict[str, Any], question: Question) -> Plan:
    """Return the plan under a law of votes of an answer, the first option's mechanism proved: what fits, and no more.

    `verify_options` or `verify_group_plan` let it pass.
    """
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
    """Return an option of a plan between two classes, all of whose queries it answers."""
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
class DesignEstimate(CostEstimate):
    """Expected cost of a design, at a service or a table file."""

    id: str = ""  # content key of the answer
    stored: bool = False  # whether the answer is there already; then it takes no time
    allowed: bool = False  # whether the other side would give the answer


@_reads
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
