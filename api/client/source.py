"""Where answers come from: one protocol, so that a service and a file are used alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from api.client.transport import Deadline


class Source(Protocol):
    """Gives answers as plain data, in the form of the REST interface. What it gives is proved by who asked."""

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``, waiting for it if need be.

        Raises:
            DarrmError: it was refused, or is not to be had in time.
        """

    def submit(self, body: dict[str, Any], deadline: Deadline) -> Any:
        """Queue a design as a job, unless it is there already; return the job."""

    def job(self, id: str, deadline: Deadline) -> Any:  # noqa: A002 — the noun's field
        """Return a job."""

    def jobs(self, state: str | None, after: str | None, deadline: Deadline) -> Any:
        """Return a page of the jobs, the newest first, and where the next one begins."""

    def result(self, id: str, deadline: Deadline) -> Any:  # noqa: A002
        """Return the answer of a job that is done."""

    def cancel(self, id: str, deadline: Deadline) -> Any:  # noqa: A002
        """Cancel a job; return it as it then stands."""

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:  # noqa: A002
        """Yield what happens to a job, (name, content), until it is over."""

    def close(self) -> None:
        """Let go of what is open."""
