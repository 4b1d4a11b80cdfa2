"""Protocol of the client's backends: a service over HTTP, or a table file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from darrm_client.errors import Deadline


class ClientBackend(Protocol):
    """Backend of the client: answers as plain data in the form of the REST interface, which the caller verifies."""

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``, waiting for it if necessary."""

    def submit(self, body: dict[str, Any], deadline: Deadline) -> Any:
        """Queue a design as a job, unless it exists; return the job."""

    def job(self, id: str, deadline: Deadline) -> Any:
        """Return a job."""

    def jobs(self, state: str | None, after: str | None, deadline: Deadline) -> Any:
        """Return a page of jobs, newest first, and the start of the next page."""

    def result(self, id: str, deadline: Deadline) -> Any:
        """Return the answer of a finished job."""

    def cancel(self, id: str, deadline: Deadline) -> Any:
        """Cancel a job; return its current state."""

    def add_webhook(self, id: str, url: str, deadline: Deadline) -> Any:
        """Add a webhook for the end of a job; return the webhook."""

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        """Yield the events of a job as (name, content) until it is over."""

    def designs(self, method: str, path: str, deadline: Deadline) -> Any:
        """Return the answer to a request to ``/v1/designs`` + ``path``."""

    def close(self) -> None:
        """Close connections and files."""
