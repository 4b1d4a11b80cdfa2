"""Noise functions: designed, certified, kept."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Path, Request, Response

from api import formats, kept, problems
from api.desk import Pending
from api.refusals import NotKept
from api.routes.at import desk_of
from api.routes.reading import new_router
from api.routes.rendering import (
    ACCEPTED_LATER,
    CHECKED,
    IF_NONE_MATCH,
    IMMUTABLE,
    TAG,
    UNCHANGED,
    form_of,
    later,
    sent,
    tabled,
)
from api.schemas import DesignRequest, GammaAnswer, from_query, query_parameters
from api.served import Body, Served, question_of

router = new_router("design")

_read = from_query(DesignRequest)

_GAMMA = formats.content("The certified γ; as CSV or npz, the columns l and gamma.")
_PARAMETERS = query_parameters(DesignRequest)

KEY = re.compile(r"[0-9a-f]{64}")
"""What an id looks like."""


@router.get(
    "/gamma",
    summary="The certified γ_opt of one problem",
    openapi_extra={"parameters": [*_PARAMETERS["parameters"], IF_NONE_MATCH]},
    response_model=GammaAnswer,
    responses={
        200: {**_GAMMA, "headers": TAG},
        **ACCEPTED_LATER,
        **UNCHANGED,
        **problems.responses(404, 406, 409, 422),
    },
)
async def get_gamma(request: Request) -> Response:
    """Design the noise function with the largest utility among all private ones."""
    form = form_of(request)  # one that was answered lately does not come here: `api.shortcut`
    return await _designed(_read(request), form, request, question_of(request.scope))


@router.post(
    "/gamma",
    summary="The certified γ_opt of one problem",
    response_model=GammaAnswer,
    responses={200: _GAMMA, **ACCEPTED_LATER, **problems.responses(404, 406, 409, 422)},
)
async def post_gamma(asked: DesignRequest, request: Request) -> Response:
    """Design the noise function with the largest utility among all private ones."""
    return await _designed(asked, form_of(request), request)


@router.get(
    "/gamma/{id}",
    summary="A kept γ by its id",
    openapi_extra={"parameters": [IF_NONE_MATCH]},
    response_model=GammaAnswer,
    responses={
        200: {
            **_GAMMA,
            "headers": TAG | {"Cache-Control": {"description": "It never changes.", "schema": {"type": "string"}}},
        },
        **UNCHANGED,
        **problems.responses(404, 406, 422),
    },
)
async def get_gamma_by_id(
    id: Annotated[  # noqa: A002 — the name in the path
        str, Path(description="Content key of the problem, objective and shape, as every answer has it.")
    ],
    request: Request,
) -> Response:
    """Read an answer that is kept; it is proved again, and nothing is solved."""
    form = form_of(request)
    lately = _served(request).get(id, form)
    if lately is None:
        desk = desk_of(request)
        record = await desk.apart(kept.kept_record, id, desk.store) if KEY.fullmatch(id) else None
        if record is None:
            raise NotKept(f"No γ is kept under the id {id[:80]}. Ask for its problem at /v1/gamma.")
        lately = _remembered({"id": id, "cached": True, "nearest": None, **record}, form, _served(request))
    return sent(lately, request, IMMUTABLE)


async def _designed(asked: DesignRequest, form: str, request: Request, question: tuple[str, ...] = ()) -> Response:
    found = await desk_of(request).gamma(asked)
    if isinstance(found, Pending):
        return later(found)
    if found["cached"] and found["nearest"] is None and found["status"] == "optimal":  # it will never change
        body = _remembered(found, form, _served(request), question)
        return sent(body, request, CHECKED) if question else formats.response(body.content, form, "gamma")
    return tabled(GammaAnswer.model_validate(found), form, "gamma", gamma_columns(found))


def _remembered(found: dict[str, Any], form: str, served: Served, question: tuple[str, ...] = ()) -> Body:
    """Return a kept answer encoded, and keep that under its id, and under the question if there is one."""
    answer = GammaAnswer.model_validate(found)
    body = Body.of(formats.encoded(answer, form, lambda: gamma_columns(found)), form)
    served.put(body, answer.id, form)
    if question:
        served.put(body, *question)
    return body


def gamma_columns(found: dict[str, Any]) -> formats.Columns:
    """Return the table of an answer."""
    return {"l": range(len(found["gamma"])), "gamma": found["gamma"]}


def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served
