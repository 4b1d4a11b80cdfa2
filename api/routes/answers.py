"""Answers that may be jobs: how the result of a task becomes the answer to its question, at once or from its job.

Each kind of job has one function here, so that ``POST /v1/compare`` and ``GET /v1/jobs/{id}/result`` answer alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from api.routes.requests import question_of, until_disconnect
from api.routes.responses import json_response, pending_response
from api.schemas import (
    CompareAnswer,
    ComposeAnswer,
    LeastAnswer,
    PlanAnswer,
    PluralityAnswer,
    ProfileAnswer,
    TradeoffAnswer,
    VerifyAnswer,
)
from api.schemas.plurality import PluralityOptionsAnswer
from api.service.design_service import DesignService, Pending
from api.tasks.answers import POINT_FIELDS, AnswerTask, least_to_dict
from darrm_opt.design_spec import DesignSpec
from darrm_opt.record import problem_from_record


async def find_answer(
    request: Request, service: DesignService, kind: str, argument: dict[str, Any], seconds: float, params: BaseModel
) -> BaseModel | Pending:
    """Return the answer to a request, or the job that works on it; raises as `DesignService.answer`.

    Args:
        request: whose client may disconnect.
        service: which answers.
        kind: one of `api.tasks.answers.ANSWER_KINDS`.
        argument: what its task takes.
        seconds: how long it is expected to take [s].
        params: what was asked, as people see it in the job.
    """
    task = AnswerTask(kind, argument, seconds, question_of(params))
    result = await until_disconnect(request, service.answer(task))
    return result if isinstance(result, Pending) else answer_of(task, result)


async def respond(
    request: Request, service: DesignService, kind: str, argument: dict[str, Any], seconds: float, params: BaseModel
) -> Response:
    """Return the JSON of the answer, or 202 with the job that works on it; arguments as for `find_answer`."""
    answer = await find_answer(request, service, kind, argument, seconds, params)
    return pending_response(answer) if isinstance(answer, Pending) else json_response(answer)


def answer_of(task: AnswerTask, result: dict[str, Any]) -> BaseModel:
    """Return the answer that the result of a task makes.

    Raises:
        ValueError: it makes none: the row that holds it is damaged.
    """
    return _ANSWERS[task.kind](task, result)


def _comparison(_: AnswerTask, result: dict[str, Any]) -> BaseModel:
    return CompareAnswer.model_validate(result)


def _plan(_: AnswerTask, result: dict[str, Any]) -> BaseModel:
    return PlanAnswer.model_validate(result)


def _plurality(_: AnswerTask, result: dict[str, Any]) -> BaseModel:
    return PluralityAnswer.model_validate(result)


def _plurality_options(_: AnswerTask, result: dict[str, Any]) -> BaseModel:
    return PluralityOptionsAnswer.model_validate(result)


def _composition(task: AnswerTask, result: dict[str, Any]) -> BaseModel:
    argument = task.argument
    return ComposeAnswer.model_validate(
        {
            "each": {"epsilon": argument["epsilon"], "delta": argument["delta"]},
            "queries": argument["queries"],
            "fresh": argument["fresh"],
            "problem": argument["problem"],
            "gamma": argument["gamma"],
            "accounts": result,
        }
    )


def _profile(task: AnswerTask, result: dict[str, Any]) -> BaseModel:
    argument = task.argument
    fields = {
        "problem": argument["problem"],
        "gamma": argument["gamma"],
        "nearest": argument["nearest"],
        "id": argument["id"],
    }
    return ProfileAnswer.model_validate({**fields, "warnings": argument["warnings"], **result})


def _certificate(task: AnswerTask, result: dict[str, Any]) -> BaseModel:
    record = task.argument["problem"]
    return VerifyAnswer.model_validate(
        {
            "private": True,
            "problem": record,
            "certificate": result,
            "warnings": list(problem_from_record(record).warnings(task.argument["gamma"])),
        }
    )


def _tradeoff(task: AnswerTask, result: dict[str, Any]) -> BaseModel:
    argument, records = task.argument, result["solutions"]
    specs = [
        DesignSpec(problem_from_record(record), argument["objective"], argument["shape"])
        for record in argument["problems"]
    ]
    points = [
        {"id": spec.key, "cached": cached, **{name: record[name] for name in POINT_FIELDS}}
        for spec, cached, record in zip(specs, result["cached"], records, strict=True)
    ]
    problems = [record["problem"] for record in records]
    return TradeoffAnswer.model_validate(
        {
            "over": argument["over"],
            "objective": records[0]["objective"],
            "shape": records[0]["shape"],
            **{name: [problem[name] for problem in problems] for name in ("m", "target_epsilon", "delta")},
            "utility": [record["utility"] for record in records],
            "points": points,
            "curves": result["curves"],
        }
    )


def _least(_: AnswerTask, result: dict[str, Any]) -> BaseModel:
    return LeastAnswer.model_validate(least_to_dict(result))


_ANSWERS: dict[str, Callable[[AnswerTask, dict[str, Any]], BaseModel]] = {
    "compare": _comparison,
    "plan": _plan,
    "profile": _profile,
    "tradeoff": _tradeoff,
    "least": _least,
    "compose": _composition,
    "verify": _certificate,
    "plurality": _plurality,
    "plurality/options": _plurality_options,
}
