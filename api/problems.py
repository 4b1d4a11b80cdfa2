"""Errors as RFC 9457 problem details: one place that turns what went wrong into a status and a text."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from itertools import islice
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from api.problem_details import MEDIA_TYPE, FieldProblem, ProblemDetails
from api.refusals import GONE, TooManyJobs, TooMuchAsked
from api.schemas.design import InField
from api.schemas.fields import ACCEPTED, field_of
from darrm_opt.errors import BackendUnavailable, DarrmError, InvalidInput, NotPrivate

_LOG = logging.getLogger("api")

_TITLES = {
    "invalid-input": "A field of the request is not valid.",
    "backend-unavailable": "The solver asked for cannot be used here.",
    "not-private": "The noise function is not private.",
    "not-proven": "The noise function can be neither proved private nor refuted.",
    "too-much-work": "The request asks for more work than this server gives to one.",
    "no-account": "No finite privacy loss can be stated.",
    "not-kept": "No such answer is kept.",
    "not-acceptable": "The answer has none of the forms that were asked for.",
    "busy": "The server has more to do than it takes.",
    "too-many-jobs": "Too much new work from one client.",
    "cancelled": "The job was cancelled.",
    "cache-unavailable": "The place where answers are kept cannot be used.",
    "shutting-down": "The server is shutting down.",
    "gone": "Nobody waits for the answer.",
    "solve-failed": "No certified answer was found.",
    "internal-error": "Something unforeseen went wrong.",
}


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with problem details."""
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(DarrmError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


EVERYWHERE = (400, 401, 408, 413, 421, 429, 431, 500, 503)
"""What any route under /v1 may answer: access and limits come before it, failures behind it."""


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of these error statuses for a route, and of those that every route has."""
    return {
        status: {
            "model": ProblemDetails,
            "description": _DESCRIPTIONS[status],
            **({"headers": RETRY_AFTER} if status in {429, 503} else {}),
        }
        for status in sorted({*statuses, *EVERYWHERE})
    }


RETRY_AFTER = {"Retry-After": {"description": "When to ask again [s].", "schema": {"type": "integer", "minimum": 0}}}
"""Documentation of the header that says when to come back."""

_DESCRIPTIONS = {
    400: "The request is not HTTP.",
    401: "The server asks for an API key, and none or a wrong one was sent.",
    404: "No such answer is kept; or solving is off here, and no kept answer implies the one that was asked.",
    406: "The Accept header leaves none of the forms that the answer has.",
    409: "The job failed or was cancelled; submitted again, it is tried again.",
    408: "The request took too long to arrive.",
    413: "The body is larger than this server reads.",
    422: "The body is not JSON; a field is missing, unknown or out of range, or asks for a solver that is not installed "
    "here or for more work than this server gives to one request; or a posted γ is not private.",
    421: "The server is not called by that name.",
    429: "Too many requests, or too much new work, from one client.",
    431: "The request line and headers are too large.",
    500: "Something unforeseen went wrong, or the solver failed.",
    503: "The place where answers are kept cannot be used at the moment, or the server is busy or shutting down.",
}


def document(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI schema whose error answers have the media type that they are sent with."""
    for path in schema.get("paths", {}).values():
        for operation in path.values():
            for status, answer in operation.get("responses", {}).items():
                if status >= "400" and answer.get("content"):
                    answer["content"] = {MEDIA_TYPE: next(iter(answer["content"].values()))}
    return schema


def details_of(err: DarrmError) -> ProblemDetails:
    """Return the problem details of an error that the core, the cache or a route raised on purpose."""
    status, name = next(_KINDS[kind.__name__] for kind in type(err).__mro__ if kind.__name__ in _KINDS)
    # the place of the cache is the operator's business
    text = "Try again later; the server's log says what is wrong." if name == "cache-unavailable" else str(err)
    field = _field(err)
    return _details(status, name, text, [FieldProblem(field=field, detail=text)] if field else None, **_more(err))


_KINDS = {
    "InvalidInput": (422, "invalid-input"),
    "InField": (422, "invalid-input"),
    "BackendUnavailable": (422, "backend-unavailable"),
    "NotPrivate": (422, "not-private"),
    "NotProven": (422, "not-proven"),
    "BelowLeakFloor": (422, "no-account"),
    "TooMuchAsked": (422, "too-much-work"),
    "TooMuchWork": (422, "too-much-work"),
    "Overdue": (422, "too-much-work"),
    "TooMuchMemory": (422, "too-much-work"),
    "NotKept": (404, "not-kept"),
    "NotAcceptable": (406, "not-acceptable"),
    "JobCancelled": (409, "cancelled"),
    "Busy": (503, "busy"),
    "TooManyJobs": (429, "too-many-jobs"),
    "ShuttingDown": (503, "shutting-down"),
    "ClientGone": (GONE, "gone"),
    "PoolClosed": (503, "shutting-down"),
    "CacheError": (503, "cache-unavailable"),
    "DarrmError": (500, "solve-failed"),
}
"""Status and kind by the error's name, or that of the class it comes from: importing all of them would take long."""


def _field(err: DarrmError) -> str:
    """Return the field at fault, "" where none is."""
    match err:
        case InField() | TooMuchAsked():
            return err.field
        case InvalidInput():
            return field_of(err.argument)
        case BackendUnavailable():
            return "backend"
        case NotPrivate():
            return "gamma"
    return "total_delta" if type(err).__name__ == "BelowLeakFloor" else ""


def _more(err: DarrmError) -> dict[str, Any]:
    """Return what else can be said of an error."""
    match err:
        case TooMuchAsked():
            return {"estimated_seconds": err.seconds}
        case NotPrivate():
            return {"worst_corners": err.worst, "excess": err.excess}
    return {}


def _details(
    status: int, name: str, detail: str, errors: list[FieldProblem] | None = None, **more: Any
) -> ProblemDetails:
    return ProblemDetails(
        type=f"urn:darrm-opt:problem:{name}",
        title=_TITLES[name],
        status=status,
        detail=detail,
        field=errors[0].field if errors else None,
        errors=errors,
        **more,
    )


def _rendered(details: ProblemDetails, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(details.model_dump(exclude_none=True), details.status, headers, MEDIA_TYPE)


async def _refused(_: Request, err: Exception) -> JSONResponse:
    """Answer an error that was raised on purpose."""
    if not isinstance(err, DarrmError):
        return await _unforeseen(_, err)
    details = details_of(err)
    if details.type.endswith(("solve-failed", "cache-unavailable")):
        _LOG.error("%s", err)
    if isinstance(err, TooManyJobs):
        return _rendered(details, {"Retry-After": str(math.ceil(err.seconds))})
    return _rendered(details, {"Retry-After": "5"} if details.status == HTTPStatus.SERVICE_UNAVAILABLE else None)


MAX_TOLD = 20
"""Faults of one request that are told; of more their number. An answer must not be many times what was asked."""

MAX_FIELD = 80
"""A longer name, which is none of a field, is told by its beginning [characters]."""


def malformed(err: RequestValidationError) -> ProblemDetails:
    """Return the problem details of a request that does not have the shape of one."""
    found: dict[str, str] = {}
    for error in err.errors():
        field, detail = _told(error)
        found.setdefault(field, detail)  # a union complains once for each of its members
    errors = [FieldProblem(field=field, detail=detail) for field, detail in islice(found.items(), MAX_TOLD)]
    more = [f"And {len(found) - MAX_TOLD} more faults."] if len(found) > MAX_TOLD else []
    return _details(422, "invalid-input", " ".join([*(error.detail for error in errors), *more]), errors)


async def _malformed(_: Request, err: Exception) -> JSONResponse:
    return _rendered(malformed(err)) if isinstance(err, RequestValidationError) else await _unforeseen(_, err)


_NAMED_WRONGLY = {"extra_forbidden": "is not a field of this request", "repeated": "is given more than once"}


def _told(error: dict[str, Any]) -> tuple[str, str]:
    """Return the field and the text for one complaint of pydantic, `schemas.query` or `routes.reading`."""
    where, *path = error["loc"]
    if error["type"] == "json_invalid":
        return "body", f"The body is not JSON: {error['ctx']['error']} at character {path[0]}."
    if error["type"] == "coded":
        return "body", f"The body must be sent as it is, without Content-Encoding: {error['input'][:MAX_FIELD]}."
    if not path:
        return str(where), f"The {where} must be a JSON object, sent as application/json."
    field = str(path[0])
    if len(field) > MAX_FIELD:
        field = f"{field[:MAX_FIELD]}…"
    if error["type"] in _NAMED_WRONGLY:
        return field, f"{field} {_NAMED_WRONGLY[error['type']]}."
    accepted = ACCEPTED[field]
    if error["type"] == "missing":
        return field, f"{field} is missing: expected {accepted}."
    return field, str(InvalidInput(field, error["input"], accepted))


def _methods(request: Request) -> list[str]:
    """Return the methods that a path has, in all the routes that it fits: the first alone would not name them all."""
    paths, asked = request.app.openapi()["paths"], request.url.path
    if asked in paths:  # its own, though it may fit a pattern too
        return sorted(method.upper() for method in paths[asked])
    fitting = [operations for path, operations in paths.items() if compile_path(path)[0].match(asked)]
    return sorted({method.upper() for operations in fitting for method in operations})


async def _http(request: Request, err: Exception) -> JSONResponse:
    """Answer what HTTP itself has a status for: no such path, no such method."""
    if not isinstance(err, HTTPException):
        return await _unforeseen(request, err)
    status, detail, headers = err.status_code, err.detail, err.headers
    if status == HTTPStatus.BAD_REQUEST:  # raised by FastAPI alone: no text, nested too deeply, a number too long
        if isinstance(err.__cause__, RequestValidationError):  # or what `api.routes.reading` has to say of the body
            return _rendered(malformed(err.__cause__))
        unread = "The body cannot be read as JSON in UTF-8."
        return _rendered(_details(422, "invalid-input", unread, [FieldProblem(field="body", detail=unread)]))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(_methods(request)) or dict(headers or {}).get("Allow", "")}
    phrase = HTTPStatus(status).phrase
    told = _ADVICE.get(status, detail or phrase) if detail in {phrase, "", None} else detail
    details = ProblemDetails(type="about:blank", title=phrase, status=status, detail=told)
    return _rendered(details, dict(headers or {}))


_ADVICE = {
    404: "There is nothing at this path. /openapi.json lists the routes.",
    405: "This path has other methods, which the header Allow lists.",
}


async def _unforeseen(_: Request, __: Exception) -> JSONResponse:
    """Answer a bug; the server logs it with its traceback."""
    return _rendered(_details(500, "internal-error", "The server's log has the details."))
