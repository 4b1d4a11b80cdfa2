"""Responses: how answers are rendered, and how statuses and headers are documented."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from api.errors.problem_details import CONTENT
from api.schemas import GammaAnswer, PendingAnswer, formats
from api.schemas.jobs import job_location
from api.service.design_service import Pending

IMMUTABLE = "max-age=31536000, immutable"
"""Cache-Control of an answer by its id, which never changes."""


def negotiated_form(request: Request, media_types: tuple[str, ...] = formats.TABLES) -> str:
    """Return the media type that the client prefers.

    Raises:
        NotAcceptable: it accepts none of those offered.
    """
    return formats.negotiate(", ".join(request.headers.getlist("accept")), media_types)


def require_json(request: Request) -> None:
    """Reject a client that does not accept JSON; raises as `negotiated_form`."""
    negotiated_form(request, (formats.JSON,))


def table_response(answer: BaseModel, form: str, name: str, columns: formats.Columns) -> Response:
    """Return the response with an answer that is a table."""
    return formats.encoded_response(formats.encode(answer, form, lambda: columns), form, name)


def json_response(answer: BaseModel) -> Response:
    """Return the response with an answer that is no table."""
    return Response(answer.model_dump_json(), media_type=formats.JSON)


def pending_answer(pending: Pending) -> PendingAnswer:
    """Return the body of a pending answer."""
    job = pending.job
    nearest = None if pending.nearest is None else GammaAnswer.model_validate(pending.nearest)
    return PendingAnswer(
        id=job.id,
        kind=job.kind,
        state=job.state,
        location=job_location(job.id),
        retry_after=pending.retry_after,
        nearest=nearest,
    )


def pending_response(pending: Pending) -> Response:
    """Return the response of a pending answer: 202, with the job's location."""
    answer = pending_answer(pending)
    headers = {"Location": answer.location, "Retry-After": str(answer.retry_after), "Cache-Control": "no-store"}
    return Response(answer.model_dump_json(), 202, headers, formats.JSON)


COMMON_STATUSES = (400, 401, 403, 408, 413, 421, 429, 431, 500, 503)
"""Error statuses of every route under /v1: access and limits before it, failures behind it."""

RETRY_AFTER = {"Retry-After": {"description": "When to ask again [s].", "schema": {"type": "integer", "minimum": 0}}}
"""Documentation of the Retry-After header."""

_DESCRIPTIONS = {
    400: "The request is not HTTP.",
    401: "The server requires an API key, and none or an invalid one was sent.",
    403: "The key's role does not allow it; or a page of another site had a browser ask, and its origin is not listed.",
    404: "No such answer is stored; or solving is off here, and no stored answer implies the one that was asked.",
    406: "The Accept header excludes every media type of the answer.",
    409: "The job failed or was cancelled; submit it again to retry.",
    408: "The request took too long to arrive.",
    413: "The body is larger than this server accepts.",
    422: "The body is not JSON; a field is missing, unknown or out of range, or asks for a solver that is not "
    "installed here or for more work than this server does for one request; or a posted γ is not private.",
    421: "The server is not called by that name.",
    429: "Too many requests, or too much new work, from one client.",
    431: "The request line and headers are too large.",
    500: "An unexpected error occurred, or the solver failed.",
    503: "The store of answers is unavailable, or the server is busy or shutting down.",
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of these error statuses for a route, and of those that every route has."""
    return {
        status: {
            "content": CONTENT,
            "description": _DESCRIPTIONS[status],
            **({"headers": RETRY_AFTER} if status in {429, 503} else {}),
        }
        for status in sorted({*statuses, *COMMON_STATUSES})
    }


PENDING_RESPONSE: dict[int | str, dict[str, Any]] = {
    202: {
        "model": PendingAnswer,
        "description": "The answer is pending: a job works on it. Ask for the job, or again for the answer.",
        "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}, **RETRY_AFTER},
    }
}
"""Documentation of a pending answer."""

DESIGN_RESPONSES = {**PENDING_RESPONSE, **error_responses(404, 406, 409, 422)}
"""Documentation of every response but the answer, for routes whose answer needs a γ."""

JOB_RESPONSES = {**PENDING_RESPONSE, **error_responses(406, 409, 422)}
"""Documentation of every response but the answer, for routes whose answer may take long."""

NOT_MODIFIED_RESPONSE: dict[int | str, dict[str, Any]] = {
    304: {"description": "If-None-Match names the answer that would be sent."},
}
"""Documentation of an answer that the client has already."""

ETAG_HEADER = {"ETag": {"description": "Entity tag of these exact bytes.", "schema": {"type": "string"}}}

IF_NONE_MATCH_PARAMETER = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "Entity tags of the answers that the client has.",
    "schema": {"type": "string"},
}
