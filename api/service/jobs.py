"""Jobs in this process: who may queue them, who does them, and who waits for them or follows them.

Each process that serves has a worker or two; they share the jobs of one store under leases. The jobs of a process that
was killed are taken over when their leases run out; those of one that shuts down in order go back into the queue at
once.

Whoever waits is told the latest state of a job alone: a slow subscriber misses the states in between, and one that went
away costs nothing. Jobs done in this process are published by the worker; the others are polled, all in one sweep, as
long as somebody follows them.
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

COUNT_SECONDS = 0.5
"""How long a count of the queue is reused [s]."""

SHARE_RETRY_SECONDS = 5.0
"""When a client whose share of the queue is used up should ask again [s]."""

PRUNE_SECONDS = 3600.0
"""Time between removals of old finished jobs [s]."""

RETENTION = {"off": 600.0, "memory": 3600.0}
"""How long a finished job is stored [s], by store; in a database `DATABASE_RETENTION`."""

DATABASE_RETENTION = 30 * 86400.0
"""How long a finished job stays in a database [s]; its answer stays for good."""

DEFAULT_JOB_RATE = 1.0
"""New jobs of an address or key in the long run, where the settings do not say [1/s]."""


class JobAdmission:
    """Admission of jobs to the queue, as long as there is room, and not all of it for one client.

    A job that exists already is free. A new one is charged to the client that submits it, in a second token bucket
    beside the one of requests (`api.middleware.admission`): a request is answered in a millisecond, a job may take a
    minute.
    """

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs, self._max_queued = jobs, settings.max_queued_jobs
        self._rate, self._burst = settings.job_rate, settings.job_burst
        self._limiter = RateLimiter(shared_table(settings.run_folder))
        self._count_time, self._queued = 0.0, 0

    def submit(
        self, task: Task, client: Client | None = None, seconds: float = 0.0, trace: str = "", *, afresh: bool = False
    ) -> Job:
        """Return the job of a task, queued now unless it exists; blocks."""
        # Looked up first, since asking for what is under way must stay free, however full the queue is: a client that
        # polls by asking again would otherwise use up its own share.
        existing = self._jobs.get(task.key)
        if existing is None or existing.state in {"failed", "cancelled"} or (afresh and existing.state == "done"):
            self._check_queue(client)
            self.charge(client)
        name = "" if client is None else client.name
        return self._jobs.submit(
            task.key, task.kind, task.text, afresh=afresh, client=name, seconds=seconds, trace=trace
        )

    async def prune(self, run_in_thread: RunInThread, url: str) -> None:
        """Remove old finished jobs now and then, until cancelled."""
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
        rate = self._rate
        if rate is None:
            # Who is on this machine already can use its processors without asking.
            rate = 0.0 if client.local else DEFAULT_JOB_RATE
        if rate > 0:
            delay = self._limiter.take(f"jobs of {client.name}", rate, self._burst)
            if delay > 0:
                raise TooManyJobs(
                    f"One client may submit {rate:g} new problems a second in the long run, {self._burst} at once.",
                    delay,
                )

    def _check_queue(self, client: Client | None) -> None:
        # Half of the queue, so that one client alone cannot fill it.
        share = max(1, self._max_queued // 2)
        if client is not None and not client.local and self._jobs.counts(client.name)["queued"] >= share:
            raise TooManyJobs(f"One client may have {share} jobs waiting, and this one has.", SHARE_RETRY_SECONDS)
        # The count of all is reused, and counted up here, since it is asked for at every submission; a full queue is
        # counted anew each time, so that nobody is refused by a count of half a second ago.
        is_full = self._queued >= self._max_queued
        if is_full or time.monotonic() - self._count_time > COUNT_SECONDS:
            self._queued, self._count_time = self._jobs.counts()["queued"], time.monotonic()
        if self._queued >= self._max_queued:
            raise Overloaded(f"{self._queued} jobs are waiting, the maximum of this server.")
        self._queued += 1


def read_task(job: Job) -> Task | None:
    """Return the task of a job; None if its row is damaged, or holds the task of another."""
    try:
        task: Task = (DesignTask if job.kind == DesignTask.kind else AnswerTask).from_json(job.request)
        is_own = (task.kind, task.key) == (job.kind, job.id)
    except UNREADABLE:
        return None
    return task if is_own else None


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
        pause = POLL_SECONDS  # a job that is followed was read just now
        while self._topics:
            await asyncio.sleep(pause)
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
            pause = max(POLL_SECONDS, 3 * (time.monotonic() - start))

    def _look_up(self, ids: list[str]) -> dict[str, Job | None]:
        return {id_: self._jobs.get(id_) for id_ in ids}


RENEW_SECONDS = 0.5
"""Time between renewals of a lease, which is also how soon a cancellation elsewhere is noticed [s]."""

STALLED_SECONDS = 15.0
"""Time without a look at the queue, with room for a job, after which it has stalled [s]: a look takes milliseconds."""

IDLE_SECONDS = 1.0
"""Time between looks at the queue when nobody has called `wake` [s]."""

LONG_SECONDS = 60.0
"""Time, expected or taken so far, from which a job is long [s]: `JobWorker` may keep a place free of such jobs."""

MAX_ATTEMPTS = 5
"""Attempts after which a job that never ended is failed.

This is not about a solver process that crashes: the pool notices, and begins its task once more
(`solver_cache.process_pool`). Here the whole server was gone, or its store, which on a machine that is restarted again
and again is seldom the job's fault.
"""

_MANY_ATTEMPTS = "It was begun {} times and never ended: each time the server died, or its store failed."

STORE_FAILED = "The store of answers cannot be used. Try again later; the server's log says what is wrong."
"""Reason of a job for its subscribers, who do not learn where the store is."""

SAVE_DELAYS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before each attempt to record how a job ended [s]. After the last one its lease runs out."""

JobHandler = Callable[[Job, ProgressCallback], Awaitable[tuple[str, Any]]]
"""``await handler(job, progress)``: do a job; return its result as JSON, and the answer for waiters in this process."""


class JobWorker:
    """Worker that does the jobs of a store, several at a time.

    With ``shared`` it never does long jobs in all of its places, if it has several: a client's first job then waits
    for a minute at most, and not for two of another's hours.
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
        self._long_from: dict[str, float] = {}  # when each job that is under way is, or becomes, a long one
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
        """Begin with the jobs that are queued, or that a process which died left behind."""
        self._take_task = asyncio.create_task(self._take_jobs())

    def wake(self) -> None:
        """Look at the queue now: there may be a job in it."""
        self._wake_event.set()

    @property
    def stalled(self) -> str:
        """Why it takes up no queued job, though it has room for one; "" while it does."""
        if self._take_task is None or not self._handlers or len(self._stop_events) >= self._size:
            return ""
        if self._take_task.done() and not self._closing:
            return "the queue is looked at no more"
        return "" if time.monotonic() - self._last_look < STALLED_SECONDS else "the queue cannot be looked at"

    def stop(self, id: str) -> None:
        """Stop a cancelled job, if it runs in this process."""
        stop_event = self._stop_events.get(id)
        if stop_event is not None:
            stop_event.set()

    async def close(self) -> None:
        """Stop, and put running jobs back into the queue."""
        self._closing = True
        if self._take_task is not None:
            self._wake_event.set()
            await asyncio.wait({self._take_task})
        for stop_event in self._stop_events.values():
            stop_event.set()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _take_jobs(self) -> None:
        """Take a job whenever there is room for one more, until the worker closes."""
        while not self._closing:
            # Before the look: who submits between it and the wait sets the event again.
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
                # Other processes submit too, and cannot set the event: so it looks now and then.
                await asyncio.wait_for(self._wake_event.wait(), IDLE_SECONDS)

    async def _take_one(self) -> Job | None:
        owner = f"{self._name}:{next(self._owners)}"  # never the same twice: an old lease must not pass for a new one
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
            _LOG.warning("cannot take a job: %s", err)
            return None
        self._last_look = time.monotonic()
        return job

    def _longest_to_take(self) -> float | None:
        """Return the expected time of the longest job that may be taken now [s]; None for any."""
        now = time.monotonic()
        if sum(long_from <= now for long_from in self._long_from.values()) < self._long_places:
            return self._max_seconds
        return min(LONG_SECONDS, math.inf if self._max_seconds is None else self._max_seconds)

    async def _run(self, job: Job, stop_event: asyncio.Event) -> None:
        try:
            self._events.publish(job)
            # A job that kills its worker comes back from the queue each time: it ends here, with the reason.
            if job.attempts > MAX_ATTEMPTS:
                await self._fail(job, _MANY_ATTEMPTS.format(job.attempts - 1), None)
            else:
                with traces.job_span(job) as set_outcome:
                    set_outcome(await self._handle(job, stop_event))
        except Exception:  # noqa: BLE001 — a bug must not end the worker
            _LOG.exception("job %s: its end could not be recorded", job.id)
        finally:
            del self._stop_events[job.id], self._long_from[job.id]
            self._events.local.pop(job.id, None)
            # There is room for one more.
            self._wake_event.set()

    async def _handle(self, job: Job, stop_event: asyncio.Event) -> str:
        """Have the job's handler do it, renewing the lease meanwhile; record its outcome, and return that in a word."""
        latest = job.progress

        def progress(content: Any) -> None:
            nonlocal latest
            latest = canonical_json(content)
            self._events.publish(replace(job, progress=latest))

        # The renewal is also how a cancellation in another process is noticed: it finds the lease gone. So the lease is
        # looked at far more often than it runs out.
        work = asyncio.ensure_future(self._handlers[job.kind](job, progress))
        stop_wait = asyncio.create_task(stop_event.wait())
        has_lease = True
        while (
            has_lease
            and not (await asyncio.wait({work, stop_wait}, timeout=RENEW_SECONDS, return_when="FIRST_COMPLETED"))[0]
        ):
            has_lease = await self._renew_lease(job, latest)
        stop_wait.cancel()
        if not work.done():  # cancelled, taken over by another worker, or this one closes
            work.cancel()
            await asyncio.wait({work})
            await self._abandon(job)
            return "abandoned"
        try:
            result, answer = work.result()
        except PoolClosed:  # the server stops, which is not the job's fault: another worker takes it up at once
            await self._abandon(job)
            return "abandoned"
        except CacheError as err:  # not the job's fault: subscribers get the error, and after its lease it is retaken
            _LOG.warning("job %s: %s", job.id, err)
            self._events.publish(replace(job, state="failed", reason=STORE_FAILED), error=err)
            return "abandoned"
        except DarrmError as err:
            await self._fail(job, str(err), err)
        except Exception as err:  # noqa: BLE001 — nor may one in a handler, which fails its job
            _LOG.exception("job %s failed", job.id)
            await self._fail(job, "An unexpected error occurred; the server's log has the details.", err)
        else:
            finished_job = replace(job, state="done", progress=latest, result=result)
            await self._record_end(JobUpdate(finished_job, answer), self._jobs.finish, result)
            return "done"
        return "failed"

    async def _renew_lease(self, job: Job, progress: str) -> bool:
        """Tell whether the lease is still ours; while the store cannot be used, it is taken to be."""
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
        """Give up a job: into the queue if this worker closes; else its lease has passed to another or to nobody."""
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
        """Record how a job ended, and publish it after the first attempt: clients need not wait for a broken store."""
        job = update.job
        for attempt, delay in enumerate(SAVE_DELAYS):
            await asyncio.sleep(0 if self._closing else delay)
            was_recorded = None
            try:
                was_recorded = await self._run_in_thread(write, job.id, job.owner, text)
            except CacheError as err:
                _LOG.warning("job %s: its end cannot be recorded: %s", job.id, err)
            # False: the row is no longer ours, so the job was cancelled, or its lease ran out and another does it. Its
            # outcome is then not ours to publish. None: the store could not be asked, and nothing is known.
            if was_recorded is False:
                _LOG.info("job %s was cancelled or taken over before it ended", job.id)
                await self._abandon(job)
                return
            if attempt == 0:
                self._events.publish(update.job, update.answer, update.error)
            if was_recorded:
                return
