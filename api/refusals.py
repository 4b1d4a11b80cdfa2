"""What a route refuses, named for what the client can do about it. `api.problems` gives each its status."""

from __future__ import annotations

from darrm_opt.errors import DarrmError

GONE = 499
"""The status of a request whose client was gone before there was an answer: for the log and the counts alone."""


class ShuttingDown(DarrmError):
    """The server stops; what it was solving was given up."""


class Busy(DarrmError):
    """More work waits already than this server takes; it helps to ask again later."""


class TooManyJobs(DarrmError):
    """One client has had many jobs queued lately; it helps to ask again later.

    Attributes:
        seconds: when [s].
    """

    def __init__(self, message: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(message)


class JobCancelled(DarrmError):
    """Somebody cancelled the job that one waited for."""


class NotAcceptable(DarrmError):
    """The Accept header leaves none of the forms that the answer has."""


class NotKept(DarrmError):
    """No such answer is kept, and none is made here."""


class ClientGone(DarrmError):
    """Whoever asked went away before there was an answer; nobody reads this."""


class TooMuchAsked(DarrmError):
    """A request asks for more work than this server gives to one; asking again does not help.

    Attributes:
        seconds: expected solving time [s]; None where it was not estimated.
        field: the field that makes it too much; "" for the whole.
    """

    def __init__(self, message: str, seconds: float | None = None, field: str = "") -> None:
        self.seconds = seconds
        self.field = field
        super().__init__(message)
