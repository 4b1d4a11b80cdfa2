"""Errors as RFC 9457 problem details: one place that turns what went wrong into a status and a text."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from api.schemas import ACCEPTED, field_of
from darrm_opt.errors import BackendUnavailable, DarrmError, InvalidInput, NotPrivate
from solver_cache.errors import CacheError

MEDIA_TYPE = "application/problem+json"

_LOG = logging.getLogger("api")


class ShuttingDown(DarrmError):
    """The server stops; what it was solving was given up."""


class FieldProblem(BaseModel):
    """What is wrong with one field of a request."""

    field: str = Field(description="Name of the field, as in the request.", examples=["epsilon"])
    detail: str = Field(description="What is wrong with it, and what is accepted.")


class ProblemDetails(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:darrm-opt:problem:invalid-input",
                    "title": "A field of the request is not valid.",
                    "status": 422,
                    "detail": "K = 0 is not valid: expected a whole number of voters, at least 1.",
                    "field": "K",
                    "errors": [
                        {
                            "field": "K",
                            "detail": "K = 0 is not valid: expected a whole number of voters, at least 1.",
                        }
                    ],
                }
            ]
        }
    )

    type: str = Field(description="Kind of problem; 'about:blank' where the status says it all.")
    title: str = Field(description="The kind of problem in words, the same each time.")
    status: int = Field(description="HTTP status.", ge=400, le=599)
    detail: str = Field(description="What happened this time, and what to do about it.")
    field: str | None = Field(default=None, description="The field of the request that is at fault, if one is.")
    errors: list[FieldProblem] | None = Field(default=None, description="Every field at fault, the first one first.")


_TITLES = {
    "invalid-input": "A field of the request is not valid.",
    "backend-unavailable": "The solver asked for cannot be used here.",
    "not-private": "The noise function is not private.",
    "cache-unavailable": "The place where answers are kept cannot be used.",
    "shutting-down": "The server is shutting down.",
    "solve-failed": "No certified answer was found.",
    "internal-error": "Something unforeseen went wrong.",
}


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with problem details."""
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(DarrmError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of these error statuses for a route."""
    return {status: {"model": ProblemDetails, "description": _DESCRIPTIONS[status]} for status in statuses}


_DESCRIPTIONS = {
    422: "The body is not JSON, or a field is missing, unknown, out of range, or asks for a solver that is not installed here.",
    500: "Something unforeseen went wrong, or the solver failed.",
    503: "The place where answers are kept cannot be used at the moment, or the server is shutting down.",
}


def document(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI schema whose error answers have the media type that they are sent with."""
    for path in schema.get("paths", {}).values():
        for operation in path.values():
            for status, answer in operation.get("responses", {}).items():
                if status >= "400" and "application/json" in answer.get("content", {}):
                    answer["content"] = {MEDIA_TYPE: answer["content"]["application/json"]}
    return schema


def _problem(status: int, name: str, detail: str, errors: list[FieldProblem] | None = None) -> JSONResponse:
    details = ProblemDetails(
        type=f"urn:darrm-opt:problem:{name}",
        title=_TITLES[name],
        status=status,
        detail=detail,
        field=errors[0].field if errors else None,
        errors=errors,
    )
    return JSONResponse(details.model_dump(exclude_none=True), status, media_type=MEDIA_TYPE)


async def _refused(_: Request, err: Exception) -> JSONResponse:
    """Answer an error that the core or the cache raised on purpose."""
    if isinstance(err, InvalidInput):
        return _problem(422, "invalid-input", str(err), [FieldProblem(field=field_of(err.argument), detail=str(err))])
    if isinstance(err, BackendUnavailable):
        return _problem(422, "backend-unavailable", str(err), [FieldProblem(field="backend", detail=str(err))])
    if isinstance(err, NotPrivate):
        return _problem(422, "not-private", str(err), [FieldProblem(field="gamma", detail=str(err))])
    if isinstance(err, ShuttingDown):
        return _problem(503, "shutting-down", str(err))
    _LOG.error("%s", err)
    if isinstance(err, CacheError):  # its place is the operator's business
        return _problem(503, "cache-unavailable", "Try again later; the server's log says what is wrong.")
    return _problem(500, "solve-failed", str(err))


async def _malformed(_: Request, err: Exception) -> JSONResponse:
    """Answer a request that does not have the shape of one."""
    found: dict[str, str] = {}
    for error in err.errors() if isinstance(err, RequestValidationError) else ():
        field, detail = _told(error)
        found.setdefault(field, detail)  # a union complains once for each of its members
    errors = [FieldProblem(field=field, detail=detail) for field, detail in found.items()]
    return _problem(422, "invalid-input", " ".join(found.values()), errors)


def _told(error: dict[str, Any]) -> tuple[str, str]:
    """Return the field and the text for one complaint of pydantic or of `schemas.from_query`."""
    where, *path = error["loc"]
    if error["type"] == "json_invalid":
        return "body", f"The body is not JSON: {error['ctx']['error']} at character {path[0]}."
    if not path:
        return str(where), f"The {where} must be a JSON object, sent as application/json."
    field = str(path[0])
    if error["type"] == "extra_forbidden":
        return field, f"{field} is not a field of this request."
    if error["type"] == "repeated":
        return field, f"{field} is given more than once."
    accepted = ACCEPTED[field]
    if error["type"] == "missing":
        return field, f"{field} is missing: expected {accepted}."
    return field, str(InvalidInput(field, error["input"], accepted))


async def _http(_: Request, err: Exception) -> JSONResponse:
    """Answer what HTTP itself has a status for: no such path, no such method."""
    if not isinstance(err, HTTPException):
        return await _unforeseen(_, err)
    status, detail, headers = err.status_code, err.detail, err.headers
    if status == HTTPStatus.BAD_REQUEST:  # raised by FastAPI alone: no text, nested too deeply, a number too long
        unread = "The body cannot be read as JSON in UTF-8."
        return _problem(422, "invalid-input", unread, [FieldProblem(field="body", detail=unread)])
    phrase = HTTPStatus(status).phrase
    details = ProblemDetails(type="about:blank", title=phrase, status=status, detail=detail or phrase)
    return JSONResponse(details.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)


async def _unforeseen(_: Request, __: Exception) -> JSONResponse:
    """Answer a bug; the server logs it with its traceback."""
    return _problem(500, "internal-error", "The server's log has the details.")
