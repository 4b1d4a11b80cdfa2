"""Problem details (RFC 9457): exceptions of the service, the table of all HTTP errors, and the response body.

Exceptions are named for what the client can do about them; the table gives each type its status and title. The body
is a model for routes, and bytes before a route is reached.
"""

from __future__ import annotations

import json
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from pydantic import BaseModel, Field

from api.observability.logs import REQUEST_ID
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
    """The server is shutting down; its jobs return to the queue."""


class Overloaded(DarrmError):
    """The server has as much work as it accepts; retry later."""


class TooManyJobs(DarrmError):
    """One client has too much new work; retry later."""

    def __init__(self, message: str, seconds: float) -> None:
        self.seconds = seconds  # Retry-After [s]
        super().__init__(message)


class JobCancelled(DarrmError):
    """The job that the client waited for was cancelled."""


class NotAcceptable(DarrmError):
    """The Accept header excludes every media type of the answer."""


class NotCached(DarrmError):
    """The answer is not stored, and this server does not design it."""


class ClientDisconnected(DarrmError):
    """The client disconnected before the answer was ready."""


class WorkLimitExceeded(DarrmError):
    """The request needs more work than the server's limit for one request; a retry does not help."""

    def __init__(self, message: str, seconds: float | None = None, field: str = "") -> None:
        self.seconds = seconds  # expected solving time [s]; None: not estimated
        self.field = field  # field at fault; "" for the whole request
        super().__init__(message)


URN = "urn:darrm-opt:problem:"  # prefix of the URIs of problem types
CLIENT_CLOSED_REQUEST = 499  # status, in log and metrics only, of a request whose client disconnected early


class ProblemType(NamedTuple):
    """One kind of error."""

    name: str  # last part of its URI
    status: int
    title: str  # constant text
    exceptions: tuple[type[DarrmError], ...] = ()  # with their subclasses


_TABLE = (
    # Before a route: protocol and middleware.
    ProblemType("bad-request", 400, "The request is not HTTP."),
    ProblemType("key-needed", 401, "A valid API key is needed."),
    ProblemType("cross-site", 403, "Pages of other sites cannot use this server."),
    ProblemType("not-permitted", 403, "The key's role does not permit this request."),
    ProblemType("too-slow", 408, "The request took too long to arrive."),
    ProblemType("body-too-large", 413, "The request body is too large."),
    ProblemType("wrong-host", 421, "The host name does not belong to this server."),
    ProblemType("too-many-requests", 429, "Too many requests from one client."),
    ProblemType("head-too-large", 431, "The request line and headers are too large."),
    ProblemType("not-ready", 503, "The server is not ready."),
    # The request itself.
    ProblemType("invalid-input", 422, "A field of the request is invalid.", (InvalidInput,)),
    ProblemType("backend-unavailable", 422, "The requested solver is not available.", (BackendUnavailable,)),
    ProblemType("not-private", 422, "The noise function is not private.", (NotPrivate,)),
    ProblemType("not-proven", 422, "The noise function can be neither proved private nor refuted.", (NotProven,)),
    ProblemType("no-account", 422, "No finite privacy loss can be stated.", (DeltaTooSmall,)),
    ProblemType(
        "too-much-work",
        422,
        "The request needs more work than the limit for one request.",
        (WorkLimitExceeded, TooMuchWork, TaskTimeout, MemoryExceeded),
    ),
    ProblemType("not-acceptable", 406, "The answer is not available in an accepted media type.", (NotAcceptable,)),
    # The answer.
    ProblemType("not-stored", 404, "The answer is not stored.", (NotCached,)),
    ProblemType("cancelled", 409, "The job was cancelled.", (JobCancelled,)),
    ProblemType("too-many-jobs", 429, "Too much new work from one client.", (TooManyJobs,)),
    ProblemType("busy", 503, "The server is busy.", (Overloaded,)),
    ProblemType("shutting-down", 503, "The server is shutting down.", (ShuttingDown, PoolClosed)),
    ProblemType("cache-unavailable", 503, "The store of answers is unavailable.", (CacheError,)),
    ProblemType("gone", CLIENT_CLOSED_REQUEST, "The client has disconnected.", (ClientDisconnected,)),
    ProblemType("solve-failed", 500, "No certified answer was found.", (DarrmError,)),
    ProblemType("internal-error", 500, "An unexpected error occurred."),
)

PROBLEM_TYPES = {kind.name: kind for kind in _TABLE}
_BY_EXCEPTION = {exception: kind for kind in _TABLE for exception in kind.exceptions}


def problem_type_of(err: DarrmError) -> ProblemType:
    """Return the type of an error: that of its class, or of the nearest base class in the table.

    >>> problem_type_of(InvalidInput("K", 0, "at least 1")).name, problem_type_of(DarrmError("?")).status
    ('invalid-input', 500)
    """
    return next(_BY_EXCEPTION[kind] for kind in type(err).__mro__ if kind in _BY_EXCEPTION)


MEDIA_TYPE = "application/problem+json"

CONTENT = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
"""Documentation of an error body.

A ``model`` per status and route would make FastAPI build hundreds of unused validators before the first response.
"""


class FieldProblem(BaseModel):
    """What is wrong with one field of a request."""

    field: str = Field(description="Name of the field, as in the request.", examples=["epsilon"])
    detail: str = Field(description="What is wrong with it, and what is accepted.")


class ProblemDetails(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = Field(description="Type of the problem; 'about:blank' if the status suffices.")
    title: str = Field(description="Title of the type, always the same.")
    status: int = Field(description="HTTP status.", ge=400, le=599)
    detail: str = Field(description="Explanation of this occurrence, with advice.")
    field: str | None = Field(default=None, description="Field of the request at fault, if any.")
    errors: list[FieldProblem] | None = Field(default=None, description="Every field at fault, the first one first.")
    worst_corners: dict[str, int] | None = Field(
        default=None, description="Counterexample for a γ that is not private: voters at each corner [voters]."
    )
    excess: float | None = Field(
        default=None, description="Excess δ of that counterexample at the target ε [probability]."
    )
    estimated_seconds: float | None = Field(default=None, description="Expected solving time of the request [s].")
    request_id: str | None = Field(
        default_factory=lambda: REQUEST_ID.get(),  # noqa: PLW0108 — pydantic passes data to what accepts an argument
        description="Id of the request in the server's log.",
    )


class Rejection(NamedTuple):
    """Error response to a request before it reaches a route."""

    name: str  # name of its problem type
    detail: str  # explanation, with advice
    headers: tuple[tuple[bytes, bytes], ...] = ()  # in lower case
    closing: bool = False  # close the connection, which may have an unread body

    @property
    def status(self) -> int:
        """HTTP status."""
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
        """Return the headers of the response with that body."""
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body)), *self.headers]
        return [*headers, (b"connection", b"close")] if self.closing else headers

    @lru_cache(maxsize=64)  # noqa: B019 — few and small; a flood of rejections must be cheap
    def raw(self) -> bytes:
        """Return the whole response as bytes of HTTP/1.1, for use without an application."""
        body, phrase = self.body(), HTTPStatus(self.status).phrase.encode()
        lines = b"".join(b"%b: %b\r\n" % header for header in self.all_headers(body))
        return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (self.status, phrase, lines, body)


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """Return the Retry-After header: whole seconds, rounded up, at least one.

    >>> retry_after(0.01), retry_after(2.5)
    ((b'retry-after', b'1'), (b'retry-after', b'3'))
    """
    return (b"retry-after", b"%d" % max(1, -int(-seconds // 1)))
