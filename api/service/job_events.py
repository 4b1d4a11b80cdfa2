"""Where jobs stand, for everyone in this process who waits for one or watches one.

Only the latest is kept of each job: whoever is slow misses what was in between, and one who went away costs nothing. Jobs
done here are posted by who does them; the others are looked up, all in one sweep, as long as somebody follows them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from solver_cache.errors import CacheError
from solver_cache.jobs import Job, Jobs

_LOG = logging.getLogger("api.jobs")

POLL_SECONDS = 0.2
"""Least time between two sweeps [s]; a long one is followed by a pause three times as long."""

RunInThread = Callable[..., Awaitable[Any]]
"""``await apart(function, *arguments)``: a blocking call, made in a thread."""


@dataclass(frozen=True)
class JobUpdate:
    """A job, and what this process knows beyond what is kept.

    Attributes:
        job: as it stands.
        answer: what came of it, if it was done here; None if it must be read.
        error: what it failed with, if it was here.
    """

    job: Job
    answer: Any = None
    error: Exception | None = None


@dataclass
class _Topic:
    """One job that is followed."""

    news: JobUpdate
    followers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def post(self, news: JobUpdate) -> None:
        self.news = news
        self.changed.set()
        self.changed = asyncio.Event()


class JobEvents:
    """The jobs that somebody follows.

    Args:
        jobs: where they are kept.
        apart: how a blocking call is made.

    Attributes:
        here: ids of the jobs that this process does, and posts itself.
    """

    def __init__(self, jobs: Jobs, apart: RunInThread) -> None:
        self._jobs, self._apart = jobs, apart
        self.here: set[str] = set()
        self._topics: dict[str, _Topic] = {}
        self._sweeping: asyncio.Task[None] | None = None

    def post(self, job: Job, answer: Any = None, error: Exception | None = None) -> None:
        """Tell whoever follows the job."""
        topic = self._topics.get(job.id)
        if topic is not None:
            topic.post(JobUpdate(job, answer, error))

    async def over(self, job: Job, patience: float | None) -> JobUpdate:
        """Return the job once it is over, or as it stands after ``patience`` seconds (None: for ever)."""
        latest = JobUpdate(job)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                async for news in self.follow(job):
                    latest = news
        return latest

    async def follow(self, job: Job) -> AsyncGenerator[JobUpdate]:
        """Yield the job as it stands, then whenever it has changed, until it is over."""
        with self._topic(job) as topic:
            while True:
                news, changed = topic.news, topic.changed
                yield news
                if news.job.over:
                    return
                await changed.wait()

    def close(self, error: Exception) -> None:
        """Tell everyone who still waits that nothing more will come."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for topic in self._topics.values():
            if not topic.news.job.over:
                topic.post(JobUpdate(replace(topic.news.job, state="failed", reason=str(error)), error=error))

    @contextlib.contextmanager
    def _topic(self, job: Job) -> Iterator[_Topic]:
        topic = self._topics.setdefault(job.id, _Topic(JobUpdate(job)))
        if topic.news.job.over and topic.news.job.updated < job.updated:
            topic.post(JobUpdate(job))  # it was submitted again
        topic.followers += 1
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep())
        try:
            yield topic
        finally:
            topic.followers -= 1
            if topic.followers == 0 and self._topics.get(job.id) is topic:
                del self._topics[job.id]

    async def _sweep(self) -> None:
        """Look up the jobs that are followed here and done elsewhere, while there are any."""
        while self._topics:
            began = time.monotonic()
            wanted = [name for name, topic in self._topics.items() if not (topic.news.job.over or name in self.here)]
            try:
                found = await self._apart(self._look_up, wanted) if wanted else {}
            except CacheError as err:
                _LOG.warning("cannot see how jobs stand: %s", err)
                found = {}
            for name, job in found.items():
                topic = self._topics.get(name)
                if topic is None or name in self.here or topic.news.job.over:
                    continue
                stands = job or replace(topic.news.job, state="failed", reason="The job is no longer kept.")
                if stands != topic.news.job:
                    topic.post(JobUpdate(stands))
            await asyncio.sleep(max(POLL_SECONDS, 3 * (time.monotonic() - began)))

    def _look_up(self, ids: list[str]) -> dict[str, Job | None]:
        return {name: self._jobs.get(name) for name in ids}
