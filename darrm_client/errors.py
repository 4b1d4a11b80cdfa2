"""Errors of the client, named for what the caller can do about them; and the deadline of a call.

An error that the core defines (a field out of range, a γ that is not private, a missing solver) is raised as such,
with the service's text.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from darrm_opt.errors import BackendUnavailable, DarrmError, InvalidInput, NotPrivate, NotProven, SolveFailed


class ClientError(DarrmError):
    """No usable answer came back.

    Attributes:
        status: HTTP status of the error; None without a response.
        details: its problem details (RFC 9457); empty if there are none.
    """

    def __init__(self, message: str, status: int | None = None, details: dict[str, Any] | None = None) -> None:
        self.status = status
        self.details = details or {}
        super().__init__(message)


class ServiceUnreachable(ClientError):
    """The service cannot be reached: check the URL, the network, and that the service is running."""


class DeadlineExceeded(ClientError):
    """The call exceeded its time limit: allow more time, or submit a job and wait for it."""


@dataclass(frozen=True)
class Deadline:
    """Deadline of a call."""

    at: float  # monotonic clock [s]; inf: never
    seconds: float  # time limit of the call [s]

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the deadline ``seconds`` [s] from now; None: never."""
        limit = math.inf if seconds is None else seconds
        return cls(time.monotonic() + limit, limit)

    @property
    def remaining(self) -> float:
        """Remaining time [s]."""
        return max(0.0, self.at - time.monotonic())

    def check(self) -> None:
        """Raise DeadlineExceeded if no time remains."""
        if self.remaining == 0:
            raise DeadlineExceeded(f"The service did not respond within {self.seconds:g} s.")


class AccessDenied(ClientError):
    """The service requires a valid key, or does not have the host name of the URL."""


class RequestTooLarge(ClientError):
    """The request exceeds the service's limits; a retry does not help."""

    @property
    def seconds(self) -> float | None:
        """Expected time of the solve [s]; None if the service did not estimate it."""
        value = self.details.get("estimated_seconds")
        return float(value) if isinstance(value, int | float) else None


class ServiceBusy(ClientError):
    """The service is overloaded, shutting down, or limits this client's rate, even after all retries.

    Attributes:
        retry_after: time until the next attempt [s]; None if the service did not specify it.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.retry_after = retry_after
        super().__init__(message, status, details)


class AnswerNotFound(ClientError):
    """The answer or job does not exist, and is not computed here."""


class JobFailed(ClientError):
    """The job failed or was cancelled; the message says why."""


class ServiceFailed(ClientError):
    """The service met an unexpected error; its log has the details."""


class InvalidRequest(InvalidInput):
    """The service rejected a field of the request; the text is the service's.

    Attributes:
        argument: the field, as in JSON.
        fields: every field at fault, with its text.
    """

    def __init__(self, field: str, detail: str, fields: dict[str, str]) -> None:
        super().__init__(field, None, "what the service accepts")
        self.args = (detail,)
        self.fields = fields


RETRIED = frozenset({429, 502, 503, 504})  # statuses of failures that may pass


def error_of(status: int, details: dict[str, Any], retry_after: float | None = None) -> DarrmError:
    """Return the error for a response; its problem details are untrusted.

    >>> error_of(422, {"type": "urn:darrm-opt:problem:invalid-input", "detail": "K = 0 is not valid.", "field": "K"})
    InvalidRequest('K = 0 is not valid.')
    >>> error_of(503, {}, retry_after=3.0).retry_after
    3.0
    """
    kind = str(details.get("type", "")).rpartition(":")[2]
    text = str(details.get("detail") or details.get("title") or f"The service responded with status {status}.")
    if kind in {"not-private", "not-proven"}:
        return (NotPrivate if kind == "not-private" else NotProven)(
            text, _corners(details.get("worst_corners")), _number(details.get("excess"))
        )
    if kind in _OF_THE_CORE:
        return _OF_THE_CORE[kind](text)
    if kind in _BY_KIND:
        return _BY_KIND[kind](text, status, details)
    if status == 422:
        return _invalid(text, details)
    if status in RETRIED or status == 408:
        return ServiceBusy(text, status, details, retry_after)
    return _BY_STATUS.get(status, ServiceFailed)(text, status, details)


_OF_THE_CORE: dict[str, type[DarrmError]] = {"backend-unavailable": BackendUnavailable, "solve-failed": SolveFailed}

_BY_KIND: dict[str, type[ClientError]] = {
    "too-much-work": RequestTooLarge,
    "not-stored": AnswerNotFound,
    "cancelled": JobFailed,
    "job-failed": JobFailed,
}

_BY_STATUS: dict[int, type[ClientError]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: AnswerNotFound,
    409: JobFailed,
    410: AnswerNotFound,
    413: RequestTooLarge,
    421: AccessDenied,
}


def _invalid(text: str, details: dict[str, Any]) -> InvalidRequest:
    errors = details.get("errors")
    fields = {
        str(error.get("field")): str(error.get("detail"))
        for error in (errors if isinstance(errors, list) else ())
        if isinstance(error, dict)
    }
    return InvalidRequest(str(details.get("field") or next(iter(fields), "request")), text, fields)


def _corners(record: Any) -> dict[str, int]:
    if not isinstance(record, dict):
        return {}
    return {str(name): count for name, count in record.items() if isinstance(count, int)}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
