"""Problem details (RFC 9457): the exceptions of the service, one table of every HTTP error, and the body of an answer.

Each exception is named for what the client can do about it; the table gives each type its status and title. The body is
a model for routes, and bytes before a route is reached.
"""

from __future__ import annotations

import json
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from pydantic import BaseModel, Field

from api.observability.logs import current_request_id
from darrm_opt.errors import (
    BackendUnavailable,
    DarrmError,
    DeltaTooSmall,
    InvalidInput,
    NotPrivate,
    NotProven,
    TooMuchWork,
)
from solver_cache.location import CacheError
from solver_cache.process_pool import MemoryExceeded, PoolClosed, TaskTimeout


class ShuttingDown(DarrmError):
    """The server is shutting down; whatever it was solving is put back into the queue."""


class Overloaded(DarrmError):
    """The server has as much work waiting as it accepts; asking again later helps."""


class TooManyJobs(DarrmError):
    """One client has too much new work waiting; asking again later helps."""

    def __init__(self, message: str, seconds: float) -> None:
        self.seconds = seconds  # when to ask again [s]
        super().__init__(message)


class JobCancelled(DarrmError):
    """The job that the client waited for was cancelled."""


class NotAcceptable(DarrmError):
    """The Accept header excludes every media type that the answer has."""


class NotCached(DarrmError):
    """The answer is not in the store, and this server does not design it."""


class ClientDisconnected(DarrmError):
    """The client disconnected before the answer was ready; nobody reads this error."""


class WorkLimitExceeded(DarrmError):
    """The request needs more work than this server does for one request; asking again does not help."""

    def __init__(self, message: str, seconds: float | None = None, field: str = "") -> None:
        self.seconds = seconds  # expected solving time [s]; None where it was not estimated
        self.field = field  # the field that makes it too much; "" for the whole request
        super().__init__(message)


class FieldError(DarrmError):
    """A field whose text has parameters of its own, such as an objective, is not valid."""

    def __init__(self, field: str, complaint: InvalidInput) -> None:
        self.field = field  # name of the field
        super().__init__(str(complaint))


class FieldErrors(DarrmError):
    """Several fields are not valid, each by itself."""

    def __init__(self, complaints: list[InvalidInput | FieldError]) -> None:
        self.complaints = complaints
        super().__init__(" ".join(map(str, complaints)))


URN = "urn:darrm-opt:problem:"
"""Prefix of every type's URI."""

CLIENT_CLOSED_REQUEST = 499
"""Status of a request whose client disconnected before the answer: appears in the log and the metrics only."""


class ProblemType(NamedTuple):
    """One kind of error."""

    name: str  # last part of the type's URI
    status: int  # of HTTP
    title: str  # the kind in words, the same each time
    exceptions: tuple[type[DarrmError], ...] = ()  # classes that are answered as this type, subclasses included


_TABLE = (
    # Before a route is reached: the protocol and the middleware.
    ProblemType("bad-request", 400, "The request is not HTTP."),
    ProblemType("key-needed", 401, "A valid API key is needed."),
    ProblemType("cross-site", 403, "Pages of other sites may not ask here."),
    ProblemType("not-permitted", 403, "The key may not do this."),
    ProblemType("too-slow", 408, "The request took too long to arrive."),
    ProblemType("body-too-large", 413, "The body of the request is too large."),
    ProblemType("wrong-host", 421, "This server is not called by that name."),
    ProblemType("too-many-requests", 429, "Too many requests from one client."),
    ProblemType("head-too-large", 431, "The request line and headers are too large."),
    ProblemType("not-ready", 503, "The server cannot give answers at the moment."),
    # The request itself.
    ProblemType("invalid-input", 422, "A field of the request is not valid.", (InvalidInput, FieldError, FieldErrors)),
    ProblemType("backend-unavailable", 422, "The solver asked for cannot be used here.", (BackendUnavailable,)),
    ProblemType("not-private", 422, "The noise function is not private.", (NotPrivate,)),
    ProblemType("not-proven", 422, "The noise function can be neither proved private nor refuted.", (NotProven,)),
    ProblemType("no-account", 422, "No finite privacy loss can be stated.", (DeltaTooSmall,)),
    ProblemType(
        "too-much-work",
        422,
        "The request asks for more work than this server does for one request.",
        (WorkLimitExceeded, TooMuchWork, TaskTimeout, MemoryExceeded),
    ),
    ProblemType("not-acceptable", 406, "The answer has none of the media types that were asked for.", (NotAcceptable,)),
    # The answer.
    ProblemType("not-stored", 404, "No such answer is stored.", (NotCached,)),
    ProblemType("cancelled", 409, "The job was cancelled.", (JobCancelled,)),
    ProblemType("too-many-jobs", 429, "Too much new work from one client.", (TooManyJobs,)),
    ProblemType("busy", 503, "The server is busy.", (Overloaded,)),
    ProblemType("shutting-down", 503, "The server is shutting down.", (ShuttingDown, PoolClosed)),
    ProblemType("cache-unavailable", 503, "The store of answers cannot be used.", (CacheError,)),
    ProblemType("gone", CLIENT_CLOSED_REQUEST, "The client has disconnected.", (ClientDisconnected,)),
    ProblemType("solve-failed", 500, "No certified answer was found.", (DarrmError,)),
    ProblemType("internal-error", 500, "An unexpected error occurred."),
)

PROBLEM_TYPES = {kind.name: kind for kind in _TABLE}
"""Every problem type by its name."""

_BY_EXCEPTION = {exception: kind for kind in _TABLE for exception in kind.exceptions}


def problem_type_of(err: DarrmError) -> ProblemType:
    """Return the type of an error: that of its class, or of the nearest base class in the table.

    >>> problem_type_of(InvalidInput("K", 0, "at least 1")).name, problem_type_of(DarrmError("?")).status
    ('invalid-input', 500)
    """
    return next(_BY_EXCEPTION[kind] for kind in type(err).__mro__ if kind in _BY_EXCEPTION)


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
