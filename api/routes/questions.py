"""Routes of questions: one function for all of `darrm_opt.questions`; and of the tables they store, by their id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from api.errors.problem_details import NotCached
from api.middleware.response_bodies import EncodedAnswer, permanent_response
from api.responses import (
    DESIGN_RESPONSES,
    ETAG_HEADER,
    IF_NONE_MATCH_PARAMETER,
    JOB_RESPONSES,
    JSON,
    NOT_MODIFIED_RESPONSE,
    TABLES,
    error_responses,
    json_response,
    negotiated_form,
    pending_response,
    require_json,
    table_content,
    table_response,
)
from api.routes.requests import Service, StrictRoute, get_and_post, stored_record, until_disconnect
from api.schemas.designs import DesignId, TableAnswer, TableDesignAnswer
from api.schemas.questions import json_type, model_of_question
from api.service.design_service import ACCOUNT_TIMES, DesignService, Pending, check_scenarios
from api.tasks.answers import AnswerTask, answer_model
from darrm_opt.answers.tables import stored_table
from darrm_opt.design.objective import as_objective
from darrm_opt.questions.design import FOUND, Design
from darrm_opt.questions.question import Question
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.questions.table import AnyTable
from darrm_opt.tables.record import GROUP_KIND, KIND


def _seconds(asked: Question, service: DesignService) -> float:
    """Refuse what contradicts itself, and what this server may not solve; return the expected time [s]."""
    if hasattr(asked, "objective") and not isinstance(asked, AnyTable):
        check_scenarios(as_objective(asked.objective), asked.voters)
    asked.check()
    specs = asked.designs()
    present = service.store.present({spec.key for spec in specs}) if specs else set()
    missing = sum(spec.key not in present for spec in specs)
    if asked.solves and service.settings.solve == "off" and (missing or not specs):
        raise NotCached(
            f"{missing} of these {len(specs)} answers are not stored, and solving is off on this server."
            if specs
            else "The search solves many problems, and solving is off on this server."
        )
    return asked.canonical().seconds_beside(present)


router = APIRouter(prefix="/v1", route_class=StrictRoute)


def add(question: type[Question]) -> None:
    """Add the route of a question: POST with a body and, for fields that fit one, GET with a query."""
    model = model_of_question(question)
    designs = question.solves or question.needs is not Question.needs
    responses: Any = DESIGN_RESPONSES if designs else JOB_RESPONSES
    documentation: dict[str, Any] = {
        "tags": [question.tag],
        "summary": question.summary,
        "response_model": json_type(question.answers),
        "responses": responses | ({200: table_content(question.table)} if question.table else {}),
    }
    path, route = f"/{question.path}", _route(question, model)
    if question.by_query:
        get_and_post(router, path, model_of_question(question, query=True), **documentation)(route)
    else:
        router.add_api_route(path, route, methods=["POST"], name=f"post_{route.__name__}", **documentation)


def _route(question: type[Question], model: Any) -> Callable[..., Any]:
    async def route(params: Any, request: Request, service: Service) -> Response:
        form = negotiated_form(request, TABLES if question.table else (JSON,))
        asked = question.of(vars(params))
        service.check_voters(asked.voters, ACCOUNT_TIMES if question.takes_more_voters else 1)
        design, cached = asked.needs(), False
        if isinstance(design, Design):  # found as by `POST /v1/gamma`: stored, or a job
            gamma = await service.design(design)
            if isinstance(gamma, Pending):
                return pending_response(gamma)
            cached = gamma["cached"]
            asked = replace(asked, found={name: gamma[name] for name in FOUND})
        if question.limited_by:
            asked = replace(asked, limit=getattr(service.settings, question.limited_by))
        if not isinstance(design, Design):
            in_thread = service.run_in_thread if question.designs is Question.designs else service.run_in_reader
            seconds = await in_thread(_seconds, asked, service)
        else:  # whose task has read the problem and the objective
            asked.check()
            seconds = asked.seconds
        answered = asked.canonical()
        stated = params.model_dump(mode="json", exclude_defaults=True)
        task = AnswerTask(answered.path, answered.argument(), seconds, stated)
        result = await until_disconnect(request, service.answer(task))
        if isinstance(result, Pending):
            return pending_response(result)
        if design is not None and "cached" in result:
            result = {**result, "cached": cached}
        answer = answer_model(task, result)
        if not question.table:
            return json_response(answer)
        columns = {} if form == JSON else asked.columns(answer.model_dump())
        return table_response(answer, form, question.path, columns)

    route.__name__ = question.path.replace("/", "_").replace("-", "_")
    route.__doc__ = question.__doc__
    route.__annotations__ |= {"params": model, "request": Request, "service": Service, "return": Response}
    return route


for _question in QUESTIONS.values():
    add(_question)


def _add_table(path: str, kind: str, model: type[BaseModel], summary: str) -> None:
    async def route(id: DesignId, request: Request, service: Service) -> Response:
        """Read a stored table; it is proved again, and nothing is solved."""
        require_json(request)
        answer = model.model_validate(stored_table(id, await stored_record(id, service, kind, f"/v1/{path}")))
        return permanent_response(EncodedAnswer.of(answer.model_dump_json().encode(), JSON, id), request)

    router.add_api_route(
        f"/{path}/{{id}}",
        route,
        methods=["GET"],
        name=f"get_{path}_by_id",
        tags=["design"],
        summary=summary,
        openapi_extra={"parameters": [IF_NONE_MATCH_PARAMETER]},
        response_model=model,
        responses={200: {"headers": ETAG_HEADER}, **NOT_MODIFIED_RESPONSE, **error_responses(404, 406, 422)},
    )


# after `/plurality/options`, which is no id
_add_table("plurality", KIND, TableAnswer, "A stored table, by its id")
_add_table("table", GROUP_KIND, TableDesignAnswer, "A stored table for groups of voters, by its id")
