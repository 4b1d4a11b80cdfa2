"""Job events: the latest state of each job, for everyone in this process who waits for it or follows it.

Only the latest state of a job is held: a slow subscriber misses the states in between, and one that went away costs
nothing. Jobs done in this process are published by the worker; the others are polled, all in one sweep, as long as
somebody follows them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from api.tasks.task import RunInThread
from solver_cache.database.jobs import Jobs
from solver_cache.errors import CacheError
from solver_cache.jobs import Job

_LOG = logging.getLogger("api.jobs")

POLL_SECONDS = 0.2
"""Shortest pause between two sweeps [s]; a long sweep is followed by a pause three times as long."""


@dataclass(frozen=True)
class JobUpdate:
    """A state of a job, and what this process knows beyond what is stored."""

    job: Job  # the job in that state
    answer: Any = None  # its answer, if it was done in this process; None if it must be read
    error: Exception | None = None  # the error it failed with, if in this process


@dataclass
class _Topic:
    """One job with subscribers."""

    latest: JobUpdate
    subscribers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def publish(self, update: JobUpdate) -> None:
        self.latest = update
        self.changed.set()
        self.changed = asyncio.Event()

    def fail(self, error: Exception) -> None:
        if not self.latest.job.over:
            self.publish(JobUpdate(replace(self.latest.job, state="failed", reason=str(error)), error=error))


class JobEvents:
    """Publisher and subscribers of jobs."""

    def __init__(self, jobs: Jobs, run_in_thread: RunInThread) -> None:
        self._jobs, self._run_in_thread = jobs, run_in_thread
        self.local: dict[str, Job] = {}  # the jobs that this process does, and publishes itself, by id
        self._topics: dict[str, _Topic] = {}
        self._poll_task: asyncio.Task[None] | None = None
        self._close_error: Exception | None = None

    def publish(self, job: Job, answer: Any = None, error: Exception | None = None) -> None:
        """Send a job's new state to its subscribers."""
        if job.id in self.local:
            self.local[job.id] = job
        topic = self._topics.get(job.id)
        if topic is not None and self._close_error is None:  # else a subscriber that is slow would miss the end
            topic.publish(JobUpdate(job, answer, error))

    def latest(self, job: Job) -> Job:
        """Return the job as it now is, if it is done here: its row is up to half a second old."""
        return self.local.get(job.id, job)

    def followed(self, id: str) -> Job | None:
        """Return a job that somebody follows here as it was last seen; None if nobody does, or it is finished."""
        topic = self._topics.get(id)
        return None if topic is None or topic.latest.job.over else topic.latest.job

    async def wait(self, job: Job, seconds: float | None) -> JobUpdate:
        """Return the job once it is finished, or in its state after ``seconds`` (None: no limit)."""
        last_update = JobUpdate(job)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for update in self.subscribe(job):
                    last_update = update
        return last_update

    async def subscribe(self, job: Job) -> AsyncGenerator[JobUpdate]:
        """Yield the job in its present state, then whenever it changes, until it is finished."""
        with self._topic(job) as topic:
            while True:
                update, change = topic.latest, topic.changed
                yield update
                if update.job.over:
                    return
                await change.wait()

    def close(self, error: Exception) -> None:
        """Fail every unfinished job for its subscribers, and for those to come: there will be no more updates."""
        self._close_error = error
        if self._poll_task is not None:
            self._poll_task.cancel()
        for topic in self._topics.values():
            topic.fail(error)

    @contextlib.contextmanager
    def _topic(self, job: Job) -> Iterator[_Topic]:
        topic = self._topics.setdefault(job.id, _Topic(JobUpdate(job)))
        if topic.latest.job.over and topic.latest.job.updated < job.updated:
            topic.publish(JobUpdate(job))  # it was submitted again
        topic.subscribers += 1
        if self._close_error is not None:
            topic.fail(self._close_error)
        elif self._poll_task is None or self._poll_task.done():
            self._poll_task = asyncio.create_task(self._poll())
        try:
            yield topic
        finally:
            topic.subscribers -= 1
            if topic.subscribers == 0 and self._topics.get(job.id) is topic:
                del self._topics[job.id]

    async def _poll(self) -> None:
        """Look up the jobs that are followed here and done elsewhere, while there are any."""
        while self._topics:
            start = time.monotonic()
            ids = [id_ for id_, topic in self._topics.items() if not (topic.latest.job.over or id_ in self.local)]
            try:
                jobs = await self._run_in_thread(self._look_up, ids) if ids else {}
            except CacheError as err:
                _LOG.warning("cannot look up jobs: %s", err)
                jobs = {}
            for id_, job in jobs.items():
                topic = self._topics.get(id_)
                if topic is None or id_ in self.local or topic.latest.job.over:
                    continue
                state = job or replace(topic.latest.job, state="failed", reason="The job is no longer stored.")
                if state != topic.latest.job:
                    topic.publish(JobUpdate(state))
            await asyncio.sleep(max(POLL_SECONDS, 3 * (time.monotonic() - start)))

    def _look_up(self, ids: list[str]) -> dict[str, Job | None]:
        return {id_: self._jobs.get(id_) for id_ in ids}
