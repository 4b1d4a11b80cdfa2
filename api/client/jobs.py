"""Jobs: designs that can be submitted now, watched, and had later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api.client.asking import design
from api.client.checks import member, members
from api.client.errors import Distrusted, JobOver, TimedOut
from api.client.received import Received, proved
from api.client.source import Source
from api.client.transport import Deadline
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solver import Shape
from darrm_opt.problem import Problem
from solver_cache.key import Request

OVER = ("done", "failed", "cancelled")
"""States in which nothing happens any more."""

FIRST_LOOK = 0.1
"""How soon a job is looked at again [s]; each look is half as much later again."""

MAX_LOOK = 5.0
"""Longest time between two looks [s]."""


@dataclass(frozen=True)
class JobSeen:
    """A job, as it stood when it was looked at.

    Attributes:
        id: of the job, and content key of the γ to come.
        state: "queued", "running", "done", "failed" or "cancelled".
        progress: how far the solve is, as the service tells it; None before anything is known.
        reason: why it failed, in words; else empty.
    """

    id: str
    state: str
    progress: Any = None
    reason: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing happens to it any more, unless it is submitted again."""
        return self.state in OVER


class JobsClient:
    """The jobs of a service. Submitting is idempotent: the same problem is the same job.

    Args:
        source: where they are.
        timeout: for one call unless told otherwise [s]; None for no bound.
    """

    def __init__(self, source: Source, timeout: float | None) -> None:
        self._source = source
        self._timeout = timeout

    def submit(self, problem: Problem, objective: AnyObjective | str = "rectangular", shape: Shape = "free") -> JobSeen:
        """Queue a design, unless it is there already; return its job at once."""
        return seen(self._source.submit(design(Request(problem, objective, shape)), self._deadline(None)))

    def get(self, id: str) -> JobSeen:  # noqa: A002 — the noun's field
        """Return a job.

        Raises:
            NotKept: there is none with that id.
        """
        return seen(self._source.job(id, self._deadline(None)))

    def list(self, state: str | None = None) -> Iterator[JobSeen]:
        """Yield the jobs, the newest first; only those in a state, if one is given."""
        after: str | None = None
        while True:
            told = self._source.jobs(state, after, self._deadline(None))
            found = [seen(job) for job in members(member(told, "jobs"), list)]
            yield from found
            after = told.get("next")
            if not isinstance(after, str) or not found:
                return

    def wait(
        self,
        problem: Problem,
        objective: AnyObjective | str = "rectangular",
        shape: Shape = "free",
        *,
        timeout: float | None = None,
    ) -> Received:
        """Submit a design and wait until it is done; return it, proved.

        Args:
            problem: as in `submit`, like the next two; the problem, and not the id, because the proof is for it.
            objective: what is maximised.
            shape: "free" or "monotone".
            timeout: how long to wait [s]; None for the client's.

        Raises:
            JobOver: it failed or was cancelled.
            TimedOut: it is not done yet; it goes on, and waiting again continues where this stopped.
            NotPrivate: what came back is not private for the problem.
        """
        deadline = self._deadline(timeout)
        request = Request(problem, objective, shape)
        job = seen(self._source.submit(design(request), deadline))
        finished(self._source, job, deadline)
        return proved(self._source.result(job.id, deadline), request)

    def cancel(self, id: str) -> JobSeen:  # noqa: A002
        """Stop a job that is not over; return it as it then stands."""
        return seen(self._source.cancel(id, self._deadline(None)))

    def events(self, id: str, *, timeout: float | None = None) -> Iterator[tuple[str, Any]]:  # noqa: A002
        """Yield what happens to a job, as (name, content), until it is over; a broken stream is opened again.

        Raises:
            TimedOut: it is not over yet.
        """
        return self._source.events(id, self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(self._timeout if timeout is None else timeout)


def seen(told: Any) -> JobSeen:
    """Return a job from plain data.

    Raises:
        Distrusted: it is none.
    """
    key, state = member(told, "id"), member(told, "state")
    if not isinstance(key, str) or not isinstance(state, str):
        raise Distrusted("The answer is no job.")
    return JobSeen(key, state, told.get("progress"), str(told.get("reason") or ""))


def finished(source: Source, job: JobSeen, deadline: Deadline, retry_after: float | None = None) -> None:
    """Wait until a job is done, looking less and less often, first after ``retry_after`` [s] if that is told.

    Raises:
        JobOver: it failed or was cancelled.
        TimedOut: the time is over, the job is not.
    """
    look = FIRST_LOOK
    while not job.over:
        wait = look if retry_after is None else max(look, min(retry_after, MAX_LOOK))
        if wait >= deadline.left:
            raise TimedOut(f"The job {job.id} is {job.state} after {deadline.given:g} s; wait for it again.")
        time.sleep(wait)
        look, retry_after = min(1.5 * look, MAX_LOOK), None
        job = seen(source.job(job.id, deadline))
    if job.state != "done":
        raise JobOver(f"The job {job.id} was cancelled." if job.state == "cancelled" else _failed(job))


def _failed(job: JobSeen) -> str:
    return f"The job {job.id} failed: {job.reason or 'the service did not say why'}"
