"""Jobs and stored designs of a service: submit, watch and fetch; list, tag and compare; and what a client asks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from darrm_client.errors import Deadline, DeadlineExceeded, JobFailed
from darrm_opt.answers import design
from darrm_opt.answers.verification import VerifiedAnswer, member, members, parse_problem, verify_answer, verify_gamma
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solver import Shape
from darrm_opt.errors import VerificationFailed
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec

FINAL_STATES = ("done", "failed", "cancelled")
FIRST_POLL_INTERVAL = 0.1  # first interval between polls of a job; each is 1.5 times the one before

MAX_POLL_INTERVAL = 5.0


class ClientBackend(Protocol):
    """Backend of the client: answers as plain data in the form of the REST interface, which the caller verifies."""

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``, waiting for it if necessary."""

    def call(self, method: str, path: str, body: Any, deadline: Deadline) -> Any:
        """Return the answer to a request about jobs or stored designs, such as ``GET /v1/jobs/<id>``."""

    def result(self, id: str, deadline: Deadline) -> Any:
        """Return the answer of a finished job."""

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        """Yield the events of a job as (name, content) until it is over."""

    def close(self) -> None:
        """Close connections and files."""


@dataclass(frozen=True)
class JobStatus:
    """Status of a job.

    Attributes:
        id: id of the job, and content key of its γ.
        state: "queued", "running", "done", "failed" or "cancelled".
        progress: progress of the solve, as the service reports it; None if unknown.
        reason: why it failed, in words; else empty.
    """

    id: str
    state: str
    progress: Any = None
    reason: str = ""

    @property
    def over(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in FINAL_STATES


@dataclass(frozen=True)
class JobWebhook:
    """Webhook of a job.

    Attributes:
        id: header ``webhook-id`` of every delivery.
        job: id of the job.
        url: destination.
        state: "pending", "delivered" or "failed".
        secret: secret for verifying its signatures (`darrm_client.verify_webhook`).
    """

    id: str
    job: str
    url: str
    state: str
    secret: str = field(repr=False)


class JobsClient:
    """Jobs of a service. Submitting is idempotent: the same problem is the same job."""

    def __init__(self, backend: ClientBackend, timeout: float | None) -> None:
        self._backend, self._timeout = backend, timeout

    def submit(
        self, problem: Problem, objective: AnyObjective | str = "rectangular", shape: Shape = "free"
    ) -> JobStatus:
        """Queue a design, unless it exists; return its job at once."""
        return self._submit(DesignSpec(problem, objective, shape), self._deadline())

    def get(self, id: str) -> JobStatus:
        """Return a job."""
        return parse_job(self._backend.call("GET", job_path(id), None, self._deadline()))

    def list(self, state: str | None = None) -> Iterator[JobStatus]:
        """Yield the jobs, newest first, optionally only those in one state."""
        return map(parse_job, _pages(self._backend, "jobs", {"state": state}, self._timeout))

    def wait(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        timeout: float | None = None,
    ) -> VerifiedAnswer:
        """Submit a design and wait until it is done; return it, proved for the problem asked.

        After ``timeout`` [s], or the client's, raises `DeadlineExceeded`; the job continues, and waiting again
        resumes.
        """
        deadline = self._deadline(timeout)
        request = DesignSpec(problem, objective, shape)
        job = self._submit(request, deadline)
        wait_for_job(self._backend, job, deadline)
        return verify_answer(self._backend.result(job.id, deadline), request)

    def cancel(self, id: str) -> JobStatus:
        """Cancel a job that is not over; return its current state."""
        return parse_job(self._backend.call("DELETE", job_path(id), None, self._deadline()))

    def add_webhook(self, id: str, url: str) -> JobWebhook:
        """Have the service send a signed POST to ``url`` when a job ends, or at once if it has ended.

        The receiver verifies it with `darrm_client.verify_webhook`. ``https://…`` must be reachable for the service.
        """
        answer = self._backend.call("POST", f"{job_path(id)}/webhooks", {"url": url}, self._deadline())
        values = [member(answer, name) for name in ("id", "job", "url", "state", "secret")]
        if not all(isinstance(value, str) for value in values):
            raise VerificationFailed("The answer is not a webhook.")
        return JobWebhook(*values)

    def events(self, id: str, *, timeout: float | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the events of a job as (name, content) until it is over, reconnecting if necessary."""
        return self._backend.events(id, self._deadline(timeout))

    def _submit(self, request: DesignSpec, deadline: Deadline) -> JobStatus:
        return parse_job(self._backend.call("POST", "/v1/jobs", design(request), deadline))

    def _deadline(self, timeout: float | None = None) -> Deadline:
        return Deadline.after(self._timeout if timeout is None else timeout)


def job_path(id: str) -> str:
    """Return the path of a job."""
    return f"/v1/jobs/{quote(id, safe='')}"


def _pages(
    backend: ClientBackend, name: str, filters: dict[str, Any], timeout: float | None
) -> Iterator[dict[str, Any]]:
    """Yield the entries of ``/v1/<name>``, page by page, each of which names the start of the next."""
    after: Any = None
    while True:
        query = urlencode({key: value for key, value in {**filters, "after": after}.items() if value is not None})
        found = backend.call("GET", f"/v1/{name}?{query}", None, Deadline.after(timeout))
        yield from members(member(found, name), list)
        previous, after = after, found.get("next")
        if not isinstance(after, str) or after == previous:  # a page may have no entries and yet a next one
            return


def parse_job(record: Any) -> JobStatus:
    """Return a job from plain data."""
    key, state = member(record, "id"), member(record, "state")
    if not isinstance(key, str) or not isinstance(state, str):
        raise VerificationFailed("The answer is not a job.")
    return JobStatus(key, state, record.get("progress"), str(record.get("reason") or ""))


def wait_for_job(backend: ClientBackend, job: JobStatus, deadline: Deadline, retry_after: float | None = None) -> None:
    """Poll a job at growing intervals until it is done, first after ``retry_after`` [s] if given."""
    interval = FIRST_POLL_INTERVAL
    while not job.over:
        delay = interval if retry_after is None else max(interval, min(retry_after, MAX_POLL_INTERVAL))
        message = f"The job {job.id} is {job.state} after {deadline.seconds:g} s; wait again to continue."
        if delay >= deadline.remaining:
            raise DeadlineExceeded(message)
        time.sleep(delay)
        interval, retry_after = min(1.5 * interval, MAX_POLL_INTERVAL), None
        try:
            job = parse_job(backend.call("GET", job_path(job.id), None, deadline))
        except DeadlineExceeded as err:
            raise DeadlineExceeded(message) from err
    if job.state != "done":
        failed = f"failed: {job.reason or 'no reason given'}"
        raise JobFailed(f"The job {job.id} {'was cancelled.' if job.state == 'cancelled' else failed}")


class DesignsClient:
    """Stored designs, as `DarrmClient.designs`.

    All users of a service share tags, unless its designs are private.
    """

    def __init__(self, backend: ClientBackend, timeout: float | None) -> None:
        self._backend, self._timeout = backend, timeout

    def list(
        self, *, K: int | None = None, epsilon: float | None = None, m: float | None = None, tag: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield stored designs, newest first, as in the REST interface: numbers and tags, without γ.

        Each argument is a filter. A table file has no tags: raises `AnswerNotFound`.
        """
        filters = {"K": K, "epsilon": "inf" if epsilon == math.inf else epsilon, "m": m, "tag": tag}
        return _pages(self._backend, "designs", filters, self._timeout)

    def tag(self, id: str, tag: str) -> dict[str, Any]:
        """Add a tag to a stored design; return its numbers and tags; raises as `list`."""
        return dict(self._call("PUT", id, "tags", tag))

    def untag(self, id: str, tag: str) -> dict[str, Any]:
        """Remove a tag from a stored design; return its numbers and tags; raises as `list`."""
        return dict(self._call("DELETE", id, "tags", tag))

    def compare(self, id: str, other: str) -> dict[str, Any]:
        """Return two stored designs side by side, each γ proved by this process for its stated problem."""
        answer = self._call("GET", id, "compare", other)
        for name in ("first", "second"):
            design = member(member(answer, name), "design")
            verify_gamma(member(design, "gamma"), parse_problem(member(design, "problem")))
        return dict(answer)

    def _call(self, method: str, *words: str) -> Any:
        path = "/".join(quote(word, safe="") for word in words)
        return self._backend.call(method, f"/v1/designs/{path}", None, Deadline.after(self._timeout))
