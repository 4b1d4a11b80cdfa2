"""Exception handlers: every error of the application becomes problem details (RFC 9457)."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from api.errors.problem_details import (
    MEDIA_TYPE,
    PROBLEM_TYPES,
    URN,
    FieldProblem,
    ProblemDetails,
    TooManyJobs,
    WorkLimitExceeded,
    problem_type_of,
)
from api.schemas.fields import DECLARED, LIMITS, SAMPLES_ARE_TAKEN, field_of
from darrm_opt.answers import SAMPLING
from darrm_opt.arguments import text_advice
from darrm_opt.decimals import number_in, out_of_range
from darrm_opt.errors import BackendUnavailable, DarrmError, DeltaTooSmall, InvalidInput, NotPrivate, similar_names
from darrm_opt.fields import Field as Declared
from darrm_opt.mechanisms.base import mechanism_classes

_LOG = logging.getLogger("api")


def add_exception_handlers(app: FastAPI) -> None:
    """Add handlers for all errors of ``app``."""
    app.exception_handler(RequestValidationError)(_handle_validation_error)
    app.exception_handler(DarrmError)(_handle_darrm_error)
    app.exception_handler(HTTPException)(_handle_http_exception)
    app.exception_handler(Exception)(_handle_unexpected)


def problem_of(err: DarrmError) -> ProblemDetails:
    """Return the problem details of an error of the core, the store or the service."""
    name = problem_type_of(err).name
    # does not reveal the location of the store
    text = "Try again later; the server's log has the details." if name == "cache-unavailable" else str(err)
    field, extensions = "", dict[str, Any]()
    match err:
        case WorkLimitExceeded():
            field, extensions = err.field, {"estimated_seconds": err.seconds}
        case InvalidInput():
            field = field_of(err.argument)
        case BackendUnavailable():
            field = "backend"
        case NotPrivate():
            field, extensions = "gamma", {"worst_corners": err.worst, "excess": err.excess}
        case DeltaTooSmall():
            field = "total_delta"
    return _details(name, text, [FieldProblem(field=field, detail=text)] if field else None, **extensions)


def _details(name: str, detail: str, errors: list[FieldProblem] | None = None, **extensions: Any) -> ProblemDetails:
    kind = PROBLEM_TYPES[name]
    return ProblemDetails(
        type=f"{URN}{name}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        field=errors[0].field if errors else None,
        errors=errors,
        **extensions,
    )


def _response(details: ProblemDetails, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(details.model_dump(exclude_none=True), details.status, headers, MEDIA_TYPE)


async def _handle_darrm_error(_: Request, err: DarrmError) -> JSONResponse:
    details = problem_of(err)
    if details.type.endswith(("solve-failed", "cache-unavailable")):
        _LOG.error("%s", err)
    if isinstance(err, TooManyJobs):
        return _response(details, {"Retry-After": str(math.ceil(err.seconds))})
    return _response(details, {"Retry-After": "5"} if details.status == HTTPStatus.SERVICE_UNAVAILABLE else None)


MAX_REPORTED_ERRORS = 20  # errors listed for one request, so that a response is never many times its request
MAX_FIELD_LENGTH = 80  # characters of a field name that are quoted


def validation_problem(err: RequestValidationError) -> ProblemDetails:
    """Return the problem details of a request that fails validation."""
    details: dict[str, str] = {}
    others: set[str] = set()
    for error in err.errors():
        if len(details) < MAX_REPORTED_ERRORS:
            field, detail = _field_and_detail(error)
            details.setdefault(field, detail)  # a union reports an error for each member
        else:  # counted alone: a text for each of a thousand takes long
            others.add(str(error["loc"][:2][-1]))
    errors = [FieldProblem(field=field, detail=detail) for field, detail in details.items()]
    count = len(others - details.keys())
    remainder = [f"And {count} more errors."] if count else []
    return _details("invalid-input", " ".join([*(error.detail for error in errors), *remainder]), errors)


async def _handle_validation_error(_: Request, err: RequestValidationError) -> JSONResponse:
    return _response(validation_problem(err))


_OBJECT_ERRORS = frozenset({"model_type", "model_attributes_type", "dataclass_type", "dict_type"})
"""Error types of pydantic for a value that should be an object."""

_NAME_ERRORS = {"extra_forbidden": "is not a field of this request", "repeated": "is given more than once"}


def _field_and_detail(error: dict[str, Any]) -> tuple[str, str]:
    """Return the field and the text for one error of pydantic or `api.routes.requests`."""
    location, *path = error["loc"]
    if error["type"] in _WHOLE_ERRORS or not path:
        return str(location), _detail_of_whole(str(location), error)
    field = str(path[0])
    if len(field) > MAX_FIELD_LENGTH:
        field = f"{field[:MAX_FIELD_LENGTH]}…"
    is_inner = len(path) > 2 and isinstance(path[1], int) and isinstance(path[2], str)  # of an object in a list
    argument = f"{field}[{path[1]}].{path[2][:MAX_FIELD_LENGTH]}" if is_inner else field
    if error["type"] in _NAME_ERRORS:
        advice = ""
        if error["type"] == "extra_forbidden":
            known = error.get("ctx", {}).get("inner" if is_inner else "fields", ())
            advice = SAMPLES_ARE_TAKEN if argument in SAMPLING else _meant(argument.rpartition(".")[2], known)
        return field, f"{argument} {_NAME_ERRORS[error['type']]}. {advice}".rstrip()
    context, value = error.get("ctx", {}), error["input"]
    if "text" in context:  # by the name of the field alone
        text = str(context["text"])
        return field, argument + text.removeprefix(path[2]) if is_inner and text.startswith(path[2]) else text
    name = path[2] if is_inner and path[2] in DECLARED else field
    accepted = _accepted(DECLARED[name], context)
    if error["type"] in _OBJECT_ERRORS and len(path) > 1:  # an item that is not an object
        argument, accepted = f"{field}[{path[1]}]", accepted.partition(", each ")[2] or accepted
    if error["type"] == "missing":
        return field, f"{argument} is missing: expected {accepted}."
    if context.keys() & {*LIMITS, "bound"}:  # a number, which is text in a query
        value = number_in(value) if isinstance(value, str) else value
        value = value if DECLARED[name].kind == "whole" or value is None else float(value)
    is_typed = location == "query"  # all of which is text
    advice = (out_of_range(value) if is_typed else text_advice(value)) if isinstance(value, str) else ""
    return field, str(InvalidInput(argument, value, accepted, advice))


def _meant(name: str, known: Collection[str]) -> str:
    """Return a suggestion, among the ``known`` fields, for a misspelt one; none for a field of another request."""
    if "parameter" in known and name in {mechanism.parameter for mechanism in mechanism_classes().values()}:
        return "Did you mean parameter?"
    if name in DECLARED:
        return ""
    matches = similar_names(name, known)
    return f"Did you mean {', '.join(matches)}?" if matches else ""


def _accepted(field: Declared, context: dict[str, Any]) -> str:
    """Return what a field accepts, within the limits of this request."""
    limits = {ours: context[theirs] for theirs, ours in LIMITS.items() if theirs in context}
    return str(context.get("expected") or field.of(**limits).accepted)


_WHOLE_ERRORS = frozenset({"json_invalid", "coded", "too_many_fields", "too_many_entries"})
"""Errors of a whole body or query."""


def _detail_of_whole(location: str, error: dict[str, Any]) -> str:
    match error["type"]:
        case "json_invalid":
            return f"The body is not JSON: {error['ctx']['error']} at character {error['loc'][1]}."
        case "coded":
            coding = error["input"][:MAX_FIELD_LENGTH]
            return f"The body must be sent without Content-Encoding: {coding}."
        case "too_many_fields":
            return f"The {location} has more than {error['input']} fields."
        case "too_many_entries":
            return f"The {location} has more than {error['input']} entries of lists and objects together."
    return f"The {location} must be a JSON object, sent as application/json."


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes that match a path."""
    routes, path = request.app.state.routes, request.url.path
    # an exact path takes precedence over patterns
    matches = [route for route in routes if route.path == path] or [
        route for route in routes if route.path_regex.match(path)
    ]
    return sorted(set[str]().union(*(route.methods for route in matches)))


async def _handle_http_exception(request: Request, err: HTTPException) -> JSONResponse:
    status, detail, headers = err.status_code, err.detail, err.headers
    if status == HTTPStatus.BAD_REQUEST:  # from FastAPI: not text, nested too deeply, a number too long
        # or from `api.routes.requests`, which FastAPI turns into 400
        if isinstance(err.__cause__, RequestValidationError):
            return _response(validation_problem(err.__cause__))
        unreadable = "The body cannot be read as JSON in UTF-8."
        return _response(_details("invalid-input", unreadable, [FieldProblem(field="body", detail=unreadable)]))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(_allowed_methods(request)) or dict(headers or {}).get("Allow", "")}
    phrase = HTTPStatus(status).phrase
    text = _ADVICE.get(status, detail or phrase) if detail in {phrase, "", None} else detail
    details = ProblemDetails(type="about:blank", title=phrase, status=status, detail=text)
    return _response(details, dict(headers or {}))


_ADVICE = {
    404: "The path does not exist. /openapi.json lists the routes.",
    405: "This path does not accept this method; the header Allow lists those that it does.",
}


async def _handle_unexpected(_: Request, __: Exception) -> JSONResponse:
    """Answer an unexpected error, which the server logs with its traceback."""
    return _response(_details("internal-error", "The server's log has the details."))
