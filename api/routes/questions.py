"""Routes of questions: one function for all of `darrm_opt.questions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from api.responses import JOB_RESPONSES, require_json
from api.routes.requests import Service, StrictRoute, get_and_post, respond
from api.schemas.design import check_scenarios
from api.schemas.questions import model_of_answer, model_of_question
from api.service.design_service import ACCOUNT_TIMES
from darrm_opt.design.objective import as_objective
from darrm_opt.questions import QUESTIONS
from darrm_opt.questions.question import Question


def _seconds(asked: Question) -> float:
    """Refuse what contradicts itself; return the expected time [s]."""
    if hasattr(asked, "objective"):
        check_scenarios(as_objective(asked.objective), asked.voters)
    asked.check()
    return asked.seconds


router = APIRouter(prefix="/v1", route_class=StrictRoute)


def add(question: type[Question]) -> None:
    """Add the route of a question: GET with a query, and POST with a body."""
    model = model_of_question(question)
    get_and_post(
        router,
        f"/{question.path}",
        model,
        tags=[question.tag],
        summary=question.summary,
        response_model=model_of_answer(question.answers),
        responses=JOB_RESPONSES,
    )(_route(question, model))


def _route(question: type[Question], model: Any) -> Callable[..., Any]:
    async def route(params: Any, request: Request, service: Service) -> Response:
        require_json(request)
        asked = question(**params.model_dump())
        service.check_voters(asked.voters, ACCOUNT_TIMES)
        seconds = await service.run_in_thread(_seconds, asked)
        answered = asked.canonical()
        return await respond(request, service, answered.path, answered.record(), seconds, params)

    route.__name__, route.__doc__ = question.path.replace("/", "_"), question.__doc__
    route.__annotations__ |= {"params": model, "request": Request, "service": Service, "return": Response}
    return route


for _question in QUESTIONS.values():
    add(_question)
