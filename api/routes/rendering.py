"""From answers to responses: forms, entity tags, and answers that are not there yet."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from api import formats, problems
from api.desk import Pending
from api.schemas import GammaAnswer, PendingAnswer
from api.served import Body, same

IMMUTABLE = "max-age=31536000, immutable"
"""Of an answer by its id: it never changes."""

CHECKED = "no-cache"
"""Of an answer by its question: another version may answer it differently, so ask whether the tag still holds."""

ACCEPTED_LATER: dict[int | str, dict[str, Any]] = {
    202: {
        "model": PendingAnswer,
        "description": "Not there yet: a job works on it. Ask for the job, or again for the answer.",
        "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}, **problems.RETRY_AFTER},
    }
}
"""Documentation of an answer that is not there yet."""

UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {"description": "If-None-Match names the answer that would be sent."},
}
"""Documentation of an answer that the client has."""

TAG = {"ETag": {"description": "Names these very bytes.", "schema": {"type": "string"}}}

IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "Entity tags of answers that the client has.",
    "schema": {"type": "string"},
}


def form_of(request: Request, offered: tuple[str, ...] = formats.TABLES) -> str:
    """Return the form that the client wants.

    Raises:
        NotAcceptable: it wants none of those offered.
    """
    return formats.chosen(", ".join(request.headers.getlist("accept")), offered)


def plain(request: Request) -> None:
    """Refuse a client that does not take JSON; raises as `form_of`."""
    form_of(request, (formats.JSON,))


def sent(body: Body, request: Request, caching: str, name: str = "gamma") -> Response:
    """Return the response with a body that may be kept by the client, or 304 where the client has it."""
    headers = {"ETag": body.etag, "Cache-Control": caching}
    if same(request.headers.getlist("if-none-match"), body.etag):
        return Response(status_code=304, headers={**headers, "Vary": "Accept"})
    return formats.response(body.content, body.form, name, headers)


def tabled(answer: BaseModel, form: str, name: str, columns: formats.Columns) -> Response:
    """Return the response with an answer that is a table."""
    return formats.response(formats.encoded(answer, form, lambda: columns), form, name)


def jsoned(answer: BaseModel) -> Response:
    """Return the response with an answer that is no table."""
    return Response(answer.model_dump_json(), media_type=formats.JSON)


def pending_answer(found: Pending) -> PendingAnswer:
    """Return what is said of an answer that is not there yet."""
    job = found.job
    nearest = None if found.nearest is None else GammaAnswer.model_validate(found.nearest)
    return PendingAnswer(
        id=job.id, state=job.state, location=f"/v1/jobs/{job.id}", retry_after=found.retry_after, nearest=nearest
    )


def later(found: Pending) -> Response:
    """Return the response where the answer is not there yet: 202, and where to ask."""
    told = pending_answer(found)
    headers = {"Location": told.location, "Retry-After": str(told.retry_after), "Cache-Control": "no-store"}
    return Response(told.model_dump_json(), 202, headers, formats.JSON)
