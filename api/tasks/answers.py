"""Answers that take long, in a process of the pool: computed for each kind of job, and re-checked when read.

A result that is read from the table of jobs may have been written by anyone who can write there. What a client proves
of an answer that it does not trust (`darrm_opt.answers.verification`) is proved again here. Totals over many releases,
profiles and the rows of a comparison rest on the row having been written by this program, as the upper bound of a γ
does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from api.tasks.design import certify, compute_least, compute_tradeoff, recheck
from darrm_opt.answers.accounting import compare_mechanisms, compose_releases, plan_releases
from darrm_opt.answers.curves import compute_profile
from darrm_opt.answers.plurality import design_options, design_plurality
from darrm_opt.answers.requests import DRAW, budget_body
from darrm_opt.answers.verification import (
    verify_comparison,
    verify_least,
    verify_options,
    verify_plan,
    verify_plurality,
)
from darrm_opt.design.certificate import verify
from darrm_opt.design_spec import CORE, DesignSpec, canonical_json, digest
from darrm_opt.errors import DarrmError
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_from_record, solution_from_record
from darrm_opt.tables.record import problem_from_record as plurality_problem
from solver_cache.process_pool.task_loop import Report, Task

POINT_FIELDS = ("problem", "gamma", "utility", "upper_bound", "gap", "status", "warnings")
"""What an answer with several γ says of each."""


@dataclass(frozen=True)
class AnswerTask:
    """An answer to compute: the same value from the route, through the job, to the process.

    Attributes:
        kind: one of `ANSWER_KINDS`.
        argument: what its task takes; the answer depends on nothing else.
        seconds: how long it is expected to take [s].
        question: what was asked, as people see it in the job.
    """

    kind: str
    argument: dict[str, Any]
    seconds: float
    question: dict[str, Any]

    @property
    def key(self) -> str:
        """The id of its job: the same question has the same job."""
        return digest(canonical_json({"kind": self.kind, "argument": self.argument, "core": CORE}))

    def to_json(self) -> str:
        """Return the task as canonical JSON, the form that is stored with the job."""
        return canonical_json(
            {"kind": self.kind, "argument": self.argument, "seconds": self.seconds, "question": self.question}
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the task that `to_json` wrote.

        Raises:
            LookupError, TypeError, ValueError: it is no such text.
        """
        content = json.loads(text)
        task = cls(
            str(content["kind"]), dict(content["argument"]), float(content["seconds"]), dict(content["question"])
        )
        if task.kind not in ANSWER_KINDS:
            raise ValueError(f"no such kind of job: {task.kind}")
        return task


def load_libraries(_: Any, report: Report) -> None:
    """Compute a small account: loads the libraries of short work, which takes more than a second."""
    report(None)
    privacy = {"epsilon": 0.1, "delta": 1e-6, "slack": 1e-6, "total_delta": None}
    compose_releases({**privacy, "queries": 2, "fresh": False, "problem": None, "gamma": None}, report)


def recheck_answer(argument: tuple[str, dict[str, Any], dict[str, Any]], report: Report) -> str:
    """Return why a stored result does not answer its task: "" if every γ that it answers for is proved private again.

    Args:
        argument: kind, argument and result of the task.
        report: called before the proofs.
    """
    kind, task_argument, result = argument
    report(None)
    try:
        ANSWER_KINDS[kind].recheck(task_argument, result)
    except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        return str(err) or type(err).__name__
    return ""


def _recheck_comparison(argument: dict[str, Any], result: dict[str, Any]) -> None:
    problem = problem_from_record(argument["problem"])
    verify_comparison(result, problem, _body(problem, argument))


def _recheck_plan(argument: dict[str, Any], result: dict[str, Any]) -> None:
    trained_once = not argument["fresh"] and argument["queries"] > 1
    problem = problem_from_record(argument["problem"])
    verify_plan(result, problem, _body(problem, {**argument, **argument["draw"]}), trained_once=trained_once)


def _body(problem: Problem, argument: dict[str, Any]) -> dict[str, Any]:
    """Return the question of a task as a client states it."""
    names = ("queries", "total_epsilon", "total_delta", "objective", "prior", "fresh", "least_accuracy")
    draw = {name: argument[name] for name in DRAW} if argument["n"] is not None else {}
    return budget_body(problem, argument["queries"], Privacy(argument["total_epsilon"], argument["total_delta"])) | {
        **{name: argument[name] for name in names if name in argument},
        **draw,
    }


def _recheck_tradeoff(argument: dict[str, Any], result: dict[str, Any]) -> None:
    for record, answer in zip(argument["problems"], result["solutions"], strict=True):
        spec = DesignSpec(problem_from_record(record), argument["objective"], argument["shape"])
        solution, trouble = recheck(solution_from_record(answer), spec)
        if solution is None:
            raise ValueError(trouble)


def least_to_dict(result: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to the inverse question with each γ beside its number."""
    cached = result.get("cached", [False] * len(result["solutions"]))
    designs = [
        {"id": DesignSpec(problem_from_record(record["problem"]), record["objective"], record["shape"]).key}
        | {"cached": was_cached}
        | {name: record[name] for name in POINT_FIELDS}
        for record, was_cached in zip(result["solutions"], cached, strict=True)
    ]
    fields = {name: result[name] for name in ("parameter", "value", "measure", "wanted", "reached", "is_least")}
    neighbour = None if result["below"] is None else {**result["below"], "design": designs[1]}
    answer = result["solutions"][0]
    return {
        **fields,
        "objective": answer["objective"],
        "shape": answer["shape"],
        "design": designs[0],
        "below": neighbour,
    }


def _recheck_least(argument: dict[str, Any], result: dict[str, Any]) -> None:
    verify_least(least_to_dict(result), argument)


def _recheck_certificate(argument: dict[str, Any], result: dict[str, Any]) -> None:
    if result["bound"] > result["limit"]:
        raise ValueError("it is no proof")
    verify(problem_from_record(argument["problem"]), argument["gamma"])


def _recheck_plurality(argument: dict[str, Any], result: dict[str, Any]) -> None:
    verify_plurality(result, plurality_problem(argument["problem"]))


def _recheck_options(argument: dict[str, Any], result: dict[str, Any]) -> None:
    verify_options(result, plurality_problem(argument["problem"]), argument["queries"])


def _recheck_numbers(_: dict[str, Any], result: dict[str, Any]) -> None:
    """A profile or an account is numbers alone: to check them is to compute them."""
    canonical_json(result)  # none of them infinite


@dataclass(frozen=True)
class AnswerKind:
    """Kind of answer.

    Attributes:
        compute: what its job does, from plain data to plain data.
        recheck: proves a stored result (second) again for what was asked (first), and raises where it is not proved.
    """

    compute: Task
    recheck: Callable[[dict[str, Any], dict[str, Any]], None]


ANSWER_KINDS = {
    "compare": AnswerKind(compare_mechanisms, _recheck_comparison),
    "plan": AnswerKind(plan_releases, _recheck_plan),
    "profile": AnswerKind(compute_profile, _recheck_numbers),
    "tradeoff": AnswerKind(compute_tradeoff, _recheck_tradeoff),
    "least": AnswerKind(compute_least, _recheck_least),
    "compose": AnswerKind(compose_releases, _recheck_numbers),
    "verify": AnswerKind(certify, _recheck_certificate),
    "plurality": AnswerKind(design_plurality, _recheck_plurality),
    "plurality/options": AnswerKind(design_options, _recheck_options),
}
