"""Protocol of the backends that answer a client: a service over HTTP, or a table file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from darrm_client.errors import Deadline


class ClientBackend(Protocol):
    """Backend of the client: answers as plain data, in the form of the REST interface. The caller verifies them."""

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``, waiting for it if need be."""

    def submit(self, body: dict[str, Any], deadline: Deadline) -> Any:
        """Queue a design as a job, unless it is there already; return the job."""

    def job(self, id: str, deadline: Deadline) -> Any:
        """Return a job."""

    def jobs(self, state: str | None, after: str | None, deadline: Deadline) -> Any:
        """Return a page of the jobs, the newest first, and where the next one begins."""

    def result(self, id: str, deadline: Deadline) -> Any:
        """Return the answer of a job that is done."""

    def cancel(self, id: str, deadline: Deadline) -> Any:
        """Cancel a job; return it as it then stands."""

    def add_webhook(self, id: str, url: str, deadline: Deadline) -> Any:
        """Have the end of a job told to an address; return the webhook."""

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        """Yield what happens to a job, (name, content), until it is over."""

    def designs(self, method: str, path: str, deadline: Deadline) -> Any:
        """Return the answer to a request at ``/v1/designs`` and ``path`` behind it."""

    def close(self) -> None:
        """Let go of what is open."""
