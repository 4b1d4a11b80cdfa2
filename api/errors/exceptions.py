"""Exceptions of the service, each named for what the client can do about it.

`api.errors.problem_types` gives each its HTTP status.
"""

from __future__ import annotations

from darrm_opt.errors import DarrmError, InvalidInput


class ShuttingDown(DarrmError):
    """The server is shutting down; whatever it was solving is put back into the queue."""


class Overloaded(DarrmError):
    """The server has as much work waiting as it accepts; asking again later helps."""


class TooManyJobs(DarrmError):
    """One client has too much new work waiting; asking again later helps.

    Attributes:
        seconds: when to ask again [s].
    """

    def __init__(self, message: str, seconds: float) -> None:
        self.seconds = seconds
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
    """The request needs more work than this server does for one request; asking again does not help.

    Attributes:
        seconds: expected solving time [s]; None where it was not estimated.
        field: the field that makes it too much; "" for the whole request.
    """

    def __init__(self, message: str, seconds: float | None = None, field: str = "") -> None:
        self.seconds = seconds
        self.field = field
        super().__init__(message)


class FieldError(DarrmError):
    """A field whose text has parameters of its own, such as an objective, is not valid.

    Attributes:
        field: name of the field.
    """

    def __init__(self, field: str, complaint: InvalidInput) -> None:
        self.field = field
        super().__init__(str(complaint))
