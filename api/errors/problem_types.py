"""Problem types (RFC 9457): the exceptions of the service, and one table of every HTTP error.

Each exception is named for what the client can do about it; the table gives each type its status and title.
"""

from __future__ import annotations

from typing import NamedTuple

from darrm_opt.accounting.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.errors import BackendUnavailable, DarrmError, InvalidInput, NotPrivate, NotProven
from solver_cache.errors import CacheError
from solver_cache.process_pool.pool import MemoryExceeded, PoolClosed, TaskTimeout


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
    ProblemType("invalid-input", 422, "A field of the request is not valid.", (InvalidInput, FieldError)),
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
