"""Jobs in this process: admission to the queue, the workers that run them, and their subscribers.

Each server process has one or two workers, which share the jobs of a store under leases. When a process is killed,
others take over its jobs once the leases expire; on a regular shutdown its jobs return to the queue at once.

A subscriber receives only the latest state of a job: a slow one misses intermediate states, and one that is gone
costs nothing. Jobs of this process are published by its workers; others are polled, all at once, while they have
subscribers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from api.access.client_shares import RateLimiter, shared_table
from api.access.clients import Client
from api.errors.problem_details import Overloaded, TooManyJobs
from api.observability import traces
from api.settings import Settings
from api.tasks.answers import AnswerTask
from api.tasks.design import DesignTask
from api.tasks.task import UNREADABLE, ProgressCallback, RunInThread, Task
from darrm_opt.errors import DarrmError
from darrm_opt.record import canonical_json
from solver_cache.database.jobs import Job, Jobs
from solver_cache.location import CacheError
from solver_cache.process_pool import PoolClosed

_LOG = logging.getLogger("api.jobs")

COUNT_SECONDS = 0.5  # time for which a count of the queue is reused
SHARE_RETRY_SECONDS = 5.0  # Retry-After for a client whose share of the queue is used up
PRUNE_SECONDS = 3600.0  # interval between removals of old finished jobs

RETENTION = {"off": 600.0, "memory": 3600.0}
"""Time for which a finished job is stored [s], by store; in a database `DATABASE_RETENTION`."""

DATABASE_RETENTION = 30 * 86400.0  # time for which a finished job stays in a database; its answer stays
DEFAULT_JOB_RATE = 1.0  # default sustained rate of new jobs of an address or key [1/s]


class JobAdmission:
    """Admission of jobs to the queue, with a share for each client.

    An existing job is free. A new one takes a token of its client, from a different bucket than requests
    (`api.middleware.admission`): a request takes milliseconds, a job may take a minute.
    """

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs, self._max_queued = jobs, settings.max_queued_jobs
        self._rate, self._burst = settings.job_rate, settings.job_burst
        self._limiter = RateLimiter(shared_table(settings.run_folder))
        self._count_time, self._queued = 0.0, 0

    def submit(
        self, task: Task, client: Client | None = None, seconds: float = 0.0, trace: str = "", *, afresh: bool = False
    ) -> Job:
        """Return the job of a task, queued unless it exists; blocks."""
        # Looked up first: requests for an existing job stay free, so that a client that polls does not use up its
        # share.
        existing = self._jobs.get(task.key)
        if existing is None or existing.state in {"failed", "cancelled"} or (afresh and existing.state == "done"):
            self._check_queue(client)
            self.charge(client)
        name = "" if client is None else client.name
        return self._jobs.submit(
            task.key, task.kind, task.text, afresh=afresh, client=name, seconds=seconds, trace=trace
        )

    async def prune(self, run_in_thread: RunInThread, url: str) -> None:
        """Remove old finished jobs periodically, until cancelled."""
        retention = RETENTION.get(url, DATABASE_RETENTION)
        while True:
            try:
                await run_in_thread(self._jobs.prune, time.time() - retention)
            except CacheError as err:
                _LOG.warning("old jobs cannot be removed: %s", err)
            await asyncio.sleep(min(retention, PRUNE_SECONDS))

    def charge(self, client: Client | None) -> None:
        """Charge a client for a new problem; raises `TooManyJobs`."""
        if client is None:
            return
        rate = client.rate(self._rate, DEFAULT_JOB_RATE)
        if (delay := self._limiter.take(f"jobs of {client.name}", rate, self._burst)) > 0:
            limit = f"The limit for one client is {rate:g} new problems per second, and {self._burst} in a burst."
            raise TooManyJobs(limit, delay)

    def _check_queue(self, client: Client | None) -> None:
        # One client can fill half of the queue.
        share = max(1, self._max_queued // 2)
        if client is not None and not client.local and self._jobs.counts(client.name)["queued"] >= share:
            raise TooManyJobs(
                f"One client can have {share} queued jobs; this client has reached the limit.", SHARE_RETRY_SECONDS
            )
        # The total is cached and incremented here, because every submission needs it; a full queue is counted again
        # each time, so that an old count rejects nobody.
        is_full = self._queued >= self._max_queued
        if is_full or time.monotonic() - self._count_time > COUNT_SECONDS:
            self._queued, self._count_time = self._jobs.counts()["queued"], time.monotonic()
        if self._queued >= self._max_queued:
            raise Overloaded(f"The queue is full ({self._queued} jobs).")
        self._queued += 1


def read_task(job: Job) -> Task | None:
    """Return the task of a job; None if its row is damaged or states another task."""
    try:
        task: Task = (DesignTask if job.kind == DesignTask.kind else AnswerTask).from_json(job.request)
        is_own = (task.kind, task.key) == (job.kind, job.id)
    except UNREADABLE:
        return None
    return task if is_own else None


POLL_SECONDS = 0.2  # minimum pause between two polls; a slow poll is followed by a pause three times as long


@dataclass(frozen=True)
class JobUpdate:
    """State of a job, with its outcome if it ran in this process."""

    job: Job
    answer: Any = None  # if it ran in this process; None: read it from the store
    error: Exception | None = None  # its error, if it ran in this process


@dataclass
class _Topic:
    """Job with subscribers."""

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
    """Publisher of job states to subscribers."""

    def __init__(self, jobs: Jobs, run_in_thread: RunInThread) -> None:
        self._jobs, self._run_in_thread = jobs, run_in_thread
        self.local: dict[str, Job] = {}  # jobs that run in this process, by id
        self._topics: dict[str, _Topic] = {}
        self._poll_task: asyncio.Task[None] | None = None
        self._close_error: Exception | None = None

    def publish(self, job: Job, answer: Any = None, error: Exception | None = None) -> None:
        """Publish a job's new state."""
        if job.id in self.local:
            self.local[job.id] = job
        topic = self._topics.get(job.id)
        if topic is not None and self._close_error is None:  # keeps the final state for slow subscribers
            topic.publish(JobUpdate(job, answer, error))

    def latest(self, job: Job) -> Job:
        """Return the current state of a job that runs here; its row is up to half a second old."""
        return self.local.get(job.id, job)

    def followed(self, id: str) -> Job | None:
        """Return the last known state of an unfinished job with subscribers here, or None."""
        topic = self._topics.get(id)
        return None if topic is None or topic.latest.job.over else topic.latest.job

    async def wait(self, job: Job, seconds: float | None) -> JobUpdate:
        """Return the job once it is finished, or its state after ``seconds`` (None: no limit)."""
        last_update = JobUpdate(job)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for update in self.subscribe(job):
                    last_update = update
        return last_update

    async def subscribe(self, job: Job) -> AsyncGenerator[JobUpdate]:
        """Yield the job's current state, then each change, until it is finished."""
        with self._topic(job) as topic:
            while True:
                update, change = topic.latest, topic.changed
                yield update
                if update.job.over:
                    return
                await change.wait()

    def close(self, error: Exception) -> None:
        """Fail every unfinished job for current and future subscribers."""
        self._close_error = error
        if self._poll_task is not None:
            self._poll_task.cancel()
        for topic in self._topics.values():
            topic.fail(error)

    @contextlib.contextmanager
    def _topic(self, job: Job) -> Iterator[_Topic]:
        topic = self._topics.setdefault(job.id, _Topic(JobUpdate(job)))
        if topic.latest.job.over and topic.latest.job.updated < job.updated:
            topic.publish(JobUpdate(job))  # submitted again
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
        """Poll the jobs that have subscribers here and run elsewhere."""
        pause = POLL_SECONDS  # the first subscriber has just read its job
        while self._topics:
            await asyncio.sleep(pause)
            start = time.monotonic()
            ids = [id_ for id_, topic in self._topics.items() if not (topic.latest.job.over or id_ in self.local)]
            try:
                jobs = await self._run_in_thread(self._look_up, ids) if ids else {}
            except CacheError as err:
                _LOG.warning("jobs cannot be polled: %s", err)
                jobs = {}
            for id_, job in jobs.items():
                topic = self._topics.get(id_)
                if topic is None or id_ in self.local or topic.latest.job.over:
                    continue
                state = job or replace(topic.latest.job, state="failed", reason="The job is no longer stored.")
                if state != topic.latest.job:
                    topic.publish(JobUpdate(state))
            pause = max(POLL_SECONDS, 3 * (time.monotonic() - start))

    def _look_up(self, ids: list[str]) -> dict[str, Job | None]:
        return {id_: self._jobs.get(id_) for id_ in ids}


RENEW_SECONDS = 0.5  # interval between renewals of a lease, which also detect cancellation by another process

STALLED_SECONDS = 15.0
"""Time without a look at the queue, despite room for a job, after which a worker has stalled: a look takes
milliseconds."""

IDLE_SECONDS = 1.0  # interval between looks at the queue without a call of `wake`

LONG_SECONDS = 60.0
"""Expected or elapsed time from which a job is long; `JobWorker` may reserve a slot for shorter jobs."""

MAX_ATTEMPTS = 5
"""Attempts after which a job that never ended fails.

A crash of a solver process is not an attempt: the pool retries its task (`solver_cache.process_pool`). An attempt
ends when the server dies or its store fails, which on a machine that restarts repeatedly is seldom the job's fault.
"""

_MANY_ATTEMPTS = "It was started {} times and never finished: each time the server died or the store failed."

STORE_FAILED = "The store of answers is unavailable. Try again later; the server's log has the details."
"""Reason for subscribers, without the location of the store."""

SAVE_DELAYS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before each attempt to record the end of a job [s]; after the last one its lease expires."""

JobHandler = Callable[[Job, ProgressCallback], Awaitable[tuple[str, Any]]]
"""``await handler(job, progress)``: run a job; return its result as JSON, and the answer for local waiters."""


class JobWorker:
    """Worker that runs jobs of a store, up to ``size`` at once.

    With ``shared`` it reserves one of several slots for jobs that are not long, so that a client's first job waits
    for a minute at most, not for hours of another client's jobs.
    """

    def __init__(
        self,
        jobs: Jobs,
        events: JobEvents,
        run_in_thread: RunInThread,
        handlers: Mapping[str, JobHandler],
        *,
        size: int,
        lease: float,
        max_seconds: float | None = None,
        max_running: int | None = None,
        shared: bool = False,
    ) -> None:
        self._max_running = max_running
        self._long_places = size - 1 if shared and size > 1 else size
        self._long_from: dict[str, float] = {}  # when each running job is, or becomes, a long one
        self._jobs, self._events, self._run_in_thread, self._handlers = jobs, events, run_in_thread, handlers
        self._size, self._lease, self._max_seconds = size, lease, max_seconds
        self._last_look = time.monotonic()
        self._name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._owners = count(1)
        self._stop_events: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake_event = asyncio.Event()
        self._closing = False
        self._take_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start with the queued jobs and those of dead processes."""
        self._take_task = asyncio.create_task(self._take_jobs())

    def wake(self) -> None:
        """Look at the queue now."""
        self._wake_event.set()

    @property
    def stalled(self) -> str:
        """Why it does not take queued jobs although it has room; "" while it does."""
        if self._take_task is None or not self._handlers or len(self._stop_events) >= self._size:
            return ""
        if self._take_task.done() and not self._closing:
            return "the loop that reads the queue has ended"
        return "" if time.monotonic() - self._last_look < STALLED_SECONDS else "the queue cannot be read"

    def stop(self, id: str) -> None:
        """Stop a cancelled job that runs in this process."""
        stop_event = self._stop_events.get(id)
        if stop_event is not None:
            stop_event.set()

    async def close(self) -> None:
        """Stop, and return running jobs to the queue."""
        self._closing = True
        if self._take_task is not None:
            self._wake_event.set()
            await asyncio.wait({self._take_task})
        for stop_event in self._stop_events.values():
            stop_event.set()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _take_jobs(self) -> None:
        """Take jobs while there is room, until the worker closes."""
        while not self._closing:
            # Before the look: a submission between it and the wait sets the event again.
            self._wake_event.clear()
            job = await self._take_one() if len(self._stop_events) < self._size else None
            if job is not None:
                stop_event = self._stop_events[job.id] = asyncio.Event()
                self._events.local[job.id] = job
                self._long_from[job.id] = time.monotonic() + (0 if job.seconds > LONG_SECONDS else LONG_SECONDS)
                task = asyncio.create_task(self._run(job, stop_event))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                continue
            with contextlib.suppress(TimeoutError):
                # Other processes submit jobs without setting the event.
                await asyncio.wait_for(self._wake_event.wait(), IDLE_SECONDS)

    async def _take_one(self) -> Job | None:
        owner = f"{self._name}:{next(self._owners)}"  # unique: an old lease must not count as a new one
        if not self._handlers:
            return None
        try:
            take = partial(
                self._jobs.take,
                kinds=tuple(self._handlers),
                max_seconds=self._longest_to_take(),
                max_running=self._max_running,
            )
            job: Job | None = await self._run_in_thread(take, owner, self._lease)
        except CacheError as err:
            _LOG.warning("jobs cannot be taken: %s", err)
            return None
        self._last_look = time.monotonic()
        return job

    def _longest_to_take(self) -> float | None:
        """Return the maximum expected time of the next job [s]; None: no limit."""
        now = time.monotonic()
        if sum(long_from <= now for long_from in self._long_from.values()) < self._long_places:
            return self._max_seconds
        return min(LONG_SECONDS, math.inf if self._max_seconds is None else self._max_seconds)

    async def _run(self, job: Job, stop_event: asyncio.Event) -> None:
        try:
            self._events.publish(job)
            # A job that kills its worker returns to the queue each time, and must end.
            if job.attempts > MAX_ATTEMPTS:
                await self._fail(job, _MANY_ATTEMPTS.format(job.attempts - 1), None)
            else:
                with traces.job_span(job) as set_outcome:
                    set_outcome(await self._handle(job, stop_event))
        except Exception:  # noqa: BLE001 — an error must not end the worker
            _LOG.exception("job %s: its end cannot be recorded", job.id)
        finally:
            del self._stop_events[job.id], self._long_from[job.id]
            self._events.local.pop(job.id, None)
            self._wake_event.set()

    async def _handle(self, job: Job, stop_event: asyncio.Event) -> str:
        """Run a job, renewing its lease; record its outcome, and return it in a word."""
        latest = job.progress

        def progress(content: Any) -> None:
            nonlocal latest
            latest = canonical_json(content)
            self._events.publish(replace(job, progress=latest))

        # The renewal also detects cancellation by another process, so it is frequent.
        work = asyncio.ensure_future(self._handlers[job.kind](job, progress))
        stop_wait = asyncio.create_task(stop_event.wait())
        has_lease = True
        while (
            has_lease
            and not (await asyncio.wait({work, stop_wait}, timeout=RENEW_SECONDS, return_when="FIRST_COMPLETED"))[0]
        ):
            has_lease = await self._renew_lease(job, latest)
        stop_wait.cancel()
        if not work.done():  # cancelled, taken over, or this worker is closing
            work.cancel()
            await asyncio.wait({work})
            await self._abandon(job)
            return "abandoned"
        try:
            result, answer = work.result()
        except PoolClosed:  # the server is stopping: another worker takes the job at once
            await self._abandon(job)
            return "abandoned"
        except (
            CacheError
        ) as err:  # not the job's fault: subscribers get the error, and the job is retried after its lease
            _LOG.warning("job %s: %s", job.id, err)
            self._events.publish(replace(job, state="failed", reason=STORE_FAILED), error=err)
            return "abandoned"
        except DarrmError as err:
            await self._fail(job, str(err), err)
        except Exception as err:  # noqa: BLE001 — an error in a handler fails only its job
            _LOG.exception("job %s failed", job.id)
            await self._fail(job, "An unexpected error occurred; the server's log has the details.", err)
        else:
            finished_job = replace(job, state="done", progress=latest, result=result)
            await self._record_end(JobUpdate(finished_job, answer), self._jobs.finish, result)
            return "done"
        return "failed"

    async def _renew_lease(self, job: Job, progress: str) -> bool:
        """Renew the lease; return False if it is lost. An unavailable store does not count as a loss."""
        try:
            return bool(await self._run_in_thread(self._jobs.renew, job.id, job.owner, self._lease, progress))
        except CacheError as err:
            _LOG.warning("job %s: its lease cannot be renewed: %s", job.id, err)
            return True

    async def _fail(self, job: Job, reason: str, err: Exception | None) -> None:
        _LOG.warning("job %s failed: %s", job.id, reason)
        failed_job = replace(job, state="failed", reason=reason)
        await self._record_end(JobUpdate(failed_job, error=err), self._jobs.fail, reason)

    async def _abandon(self, job: Job) -> None:
        """Return a job to the queue if this worker is closing; else publish its state, as it has lost the lease."""
        try:
            if self._closing:
                await self._run_in_thread(self._jobs.release, job.id, job.owner)
                return
            current = await self._run_in_thread(self._jobs.get, job.id)
        except CacheError as err:
            _LOG.warning("job %s: %s", job.id, err)
            return
        if current is not None:
            self._events.publish(current)

    async def _record_end(self, update: JobUpdate, write: Callable[[str, str, str], bool], text: str) -> None:
        """Record the end of a job; publish it after the first attempt, even if the store is unavailable."""
        job = update.job
        for attempt, delay in enumerate(SAVE_DELAYS):
            await asyncio.sleep(0 if self._closing else delay)
            was_recorded = None
            try:
                was_recorded = await self._run_in_thread(write, job.id, job.owner, text)
            except CacheError as err:
                _LOG.warning("job %s: its end cannot be recorded: %s", job.id, err)
            # False: the job was cancelled or taken over, so its outcome is not ours to publish. None: the store is
            # unavailable.
            if was_recorded is False:
                _LOG.info("job %s was cancelled or taken over before it ended", job.id)
                await self._abandon(job)
                return
            if attempt == 0:
                self._events.publish(update.job, update.answer, update.error)
            if was_recorded:
                return
