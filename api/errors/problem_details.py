"""Problem details (RFC 9457): the body of every error, as a model for routes and as bytes before a route is reached."""

from __future__ import annotations

import json
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from api.errors.problem_types import PROBLEM_TYPES, URN
from api.observability.logs import current_request_id

MEDIA_TYPE = "application/problem+json"

CONTENT = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
"""Documentation of the body of an error.

A ``model`` for each status of each route would make FastAPI build hundreds of validators that are never used, before
the first answer.
"""


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
    worst_corners: dict[str, int] | None = Field(
        default=None, description="Where a γ is not private: voters at each corner [voters], the counterexample."
    )
    excess: float | None = Field(
        default=None, description="How far a γ is from private there, as extra δ at the target ε [probability]."
    )
    estimated_seconds: float | None = Field(
        default=None, description="What the request would have cost: expected solving time [s]."
    )
    request_id: str | None = Field(
        default_factory=current_request_id, description="Id of the request, by which the server's log tells of it."
    )


class Rejection(NamedTuple):
    """An error that is answered before a route is reached: too much, too often, too slow, no key."""

    name: str  # of a problem type
    detail: str  # what happened this time, and what to do about it
    headers: tuple[tuple[bytes, bytes], ...] = ()  # more headers, in lower case
    closing: bool = False  # whether the connection must end with it, as there may be a body that nobody will read

    @property
    def status(self) -> int:
        """The HTTP status."""
        return PROBLEM_TYPES[self.name].status

    def body(self, request_id: str | None = None) -> bytes:
        """Return the problem details as JSON."""
        content: dict[str, str | int] = {
            "type": f"{URN}{self.name}",
            "title": PROBLEM_TYPES[self.name].title,
            "status": self.status,
            "detail": self.detail,
        }
        if request_id is not None:
            content["request_id"] = request_id
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()

    def all_headers(self, body: bytes) -> list[tuple[bytes, bytes]]:
        """Return the headers of the answer with that body."""
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body)), *self.headers]
        return [*headers, (b"connection", b"close")] if self.closing else headers

    @lru_cache(maxsize=64)  # noqa: B019 — they are few and small, and a flood of refusals should cost little
    def raw(self) -> bytes:
        """Return the whole answer as bytes of HTTP/1.1, for use before there is an application."""
        body, phrase = self.body(), HTTPStatus(self.status).phrase.encode()
        lines = b"".join(b"%b: %b\r\n" % header for header in self.all_headers(body))
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (self.status, phrase, lines, body)


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """Return the Retry-After header: whole seconds, rounded up, at least one.

    >>> retry_after(0.01), retry_after(2.5)
    ((b'retry-after', b'1'), (b'retry-after', b'3'))
    """
    return (b"retry-after", b"%d" % max(1, -int(-seconds // 1)))
