"""Design service: answers from the store at once, else from jobs and processes that a client can wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from api.access.clients import current_client, current_owner, may_solve
from api.access.rate_limits import ClientQuota
from api.errors.exceptions import JobCancelled, NotCached, ShuttingDown
from api.observability import audit, metrics, traces
from api.schemas import DesignRequest
from api.service.gamma_jobs import GAMMA_JOB
from api.service.job_admission import JobRequest
from api.service.job_events import JobUpdate
from api.service.repository import load_nearest
from api.service.resources import SHORT_LIMIT_SECONDS, ServiceResources
from api.service.work_limits import check_design, check_voters, check_work
from api.settings import Settings
from api.tasks.answers import AnswerTask
from api.tasks.design import DesignTask
from darrm_opt.answers.running_time import estimate_cost
from darrm_opt.design.solver import check_choices
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import SolveFailed
from solver_cache.jobs import PAGE_SIZE, Job, State
from solver_cache.process_pool.pool import TaskTimeout
from solver_cache.store import Store

if TYPE_CHECKING:
    from api.access.keys import KeyRing

Result = TypeVar("Result")

RETRY_SECONDS = 1
"""When a client should ask again for an answer that is not ready [s]."""


@dataclass(frozen=True)
class Pending:
    """An answer that is not ready.

    Attributes:
        job: the job that works on it; its id is the id of the answer to come.
        retry_after: when to ask again [s].
        nearest: a stored answer whose guarantee implies the one that is asked, for use until then; None if there is
            none.
    """

    job: Job
    retry_after: int = RETRY_SECONDS
    nearest: dict[str, Any] | None = None


class SingleFlight:
    """One computation for all concurrent callers of one key. For use within one event loop."""

    def __init__(self) -> None:
        self._flights: dict[str, asyncio.Task[Any]] = {}

    async def do(self, key: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what ``work`` returns, begun once for all who call with one key while it runs.

        It goes on even if the first caller is gone.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.ensure_future(work())
            flight.add_done_callback(lambda task: (self._flights.pop(key), task.cancelled() or task.exception()))
        result: Result = await asyncio.shield(flight)
        return result


SHORT_ERROR = 3.0
"""Multiple of the time of short work after which it is stopped on the short lane, and becomes a job.

A new process takes almost two seconds to load the libraries of some accounts.
"""

MISJUDGED_SECONDS = 600.0
"""How long work of a client counts as long after an estimate of it proved wrong [s]."""

MAX_MISJUDGED = 1000
"""Clients and kinds of work of which that is remembered."""


class MisjudgedWork:
    """Kinds of work of a client whose estimates proved wrong lately: they stay away from the lane of short work."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def add(self, kind: str) -> None:
        """Remember a kind of work of the current client."""
        self._until.pop(_whose(kind), None)
        self._until[_whose(kind)] = time.monotonic() + MISJUDGED_SECONDS
        if len(self._until) > MAX_MISJUDGED:
            del self._until[next(iter(self._until))]

    def has(self, kind: str) -> bool:
        """Return whether estimates of a kind of work of the current client proved wrong lately."""
        return time.monotonic() < self._until.get(_whose(kind), 0.0)


def _whose(kind: str) -> tuple[str, str]:
    client = current_client()
    return "" if client is None else client.name, kind


class DesignService(ServiceResources):
    """The service behind the routes: answers requests with plain data and never blocks the event loop.

    γ is designed by jobs: one for each problem however many ask, in this process or in others that share the store
    (`api.service.job_worker`); so is every other answer that takes longer than a moment. Arguments and errors are those
    of `ServiceResources`.
    """

    def __init__(self, store: Store, settings: Settings, ring: KeyRing | None = None) -> None:
        super().__init__(store, settings, ring)
        self._flights = SingleFlight()
        self._misjudged = MisjudgedWork()
        self._streams = ClientQuota(settings.max_streams or max(1, settings.max_connections // 4), "event streams")

    async def answer(self, task: AnswerTask, wait_seconds: float | None = None) -> dict[str, Any] | Pending:
        """Return the result of a task: at once where it is short, else from its job, or the job that works on it.

        Work is admitted up to `Settings.max_work_seconds`, and its job stopped after twice that. What was
        expected to be short and takes `SHORT_ERROR` times as much processor time becomes a job, and so does, for
        `MISJUDGED_SECONDS`, whatever this client asks of that kind.

        Args:
            task: what is asked.
            wait_seconds: how long to wait for a job [s]; None for the operator's setting.

        Raises:
            WorkLimitExceeded: it is expected to take longer than this server works for one request; with the estimate.
            Exception: as `design`, and whatever the task raises.
        """
        audit.mention_question(task.key)
        check_work(task.seconds, self._settings)
        seconds, limit = task.seconds, SHORT_ERROR * self._settings.short_seconds
        if seconds <= self._settings.short_seconds and not self._misjudged.has(task.kind):
            try:
                async with self._short_turn():
                    return await self._answer_jobs.compute(
                        task, self._computers, SHORT_LIMIT_SECONDS, processor_limit=limit
                    )
            except TaskTimeout:
                self._misjudged.add(task.kind)
                seconds = limit
        text = task.to_json()

        async def queue(*, afresh: bool) -> Job:
            return await self._queue(task.key, task.kind, text, seconds, afresh=afresh)

        return await self._wait_for(await queue(afresh=False), text, queue, self._answer_jobs.load_result, wait_seconds)

    def design_task(self, request: DesignRequest) -> DesignTask:
        """Return the task that a request states; its key is the id of the answer.

        Raises:
            InvalidInput: a field is out of its range, or K beyond what this server designs.
        """
        check_voters(request.K, self._settings)
        task = request.task()
        audit.mention_question(task.key)
        return task

    async def design(
        self, request: DesignRequest | DesignTask, wait_seconds: float | None = None
    ) -> dict[str, Any] | Pending:
        """Return the certified γ_opt as plain data, or the job that works on it.

        Args:
            request: the problem, or the task that `design_task` made of it.
            wait_seconds: how long to wait for a solve [s]; None for the operator's setting.

        Returns:
            The record of the solution, its "id", and whether it was "cached"; or `Pending`, with the job.

        Raises:
            InvalidInput: a field is out of its range.
            BackendUnavailable: it must be solved, and the solver is not installed.
            NotCached: neither it nor an answer that implies its guarantee is stored, and solving is off.
            Overloaded: too many jobs wait already.
            TooManyJobs: this client has had many jobs queued lately.
            JobCancelled: the job was cancelled.
            SolveFailed: the solve failed; the text says why.
            ShuttingDown: the server is shutting down.
            CacheError: the store cannot be read.
        """
        task = request if isinstance(request, DesignTask) else self.design_task(request)
        try:
            flight = f"{task.key} {may_solve()}"  # what a reader is refused, another who asks meanwhile is not
            outcome = await self._flights.do(flight, lambda: self._load_or_submit(task))
        except NotCached:
            nearest = await self._nearest(task.spec)
            if nearest is None:
                raise
            return nearest
        if not isinstance(outcome, Job):
            return outcome
        audit.mention_job(outcome.id)  # which another request may have queued
        text = task.to_json()

        async def queue(*, afresh: bool) -> Job:
            return await self._queue_design(task, text, afresh=afresh)

        async def load(job: Job) -> dict[str, Any] | None:
            return await self._gamma_jobs.load_result(job, task)

        answer = await self._wait_for(outcome, text, queue, load, wait_seconds)
        return replace(answer, nearest=await self._nearest(task.spec)) if isinstance(answer, Pending) else answer

    async def submit(self, request: DesignRequest) -> Job:
        """Return the job that designs γ_opt, queued now unless it exists already; raises as `design`.

        A job whose result is outdated (its time limit was shorter than today's) is queued again.
        """
        task = self.design_task(request)
        self._check_admissible(task)
        text = task.to_json()
        job = await self._queue_design(task, text)
        if job.state == "done" and await self._gamma_jobs.load_result(job, task) is None:
            job = await self._queue_design(task, text, afresh=True)
        return job

    async def resubmit(self, job: Job) -> Job:
        """Return a finished job, queued again because its result is gone or damaged; raises as `design`."""
        if job.kind == GAMMA_JOB:
            self._check_solving()
        return await self._queue(job.id, job.kind, job.request, job.seconds, afresh=True)

    async def load_result(self, job: Job) -> dict[str, Any] | None:
        """Return the result of a finished job, proved again; None if it is gone or damaged."""
        handler = self._gamma_jobs if job.kind == GAMMA_JOB else self._answer_jobs
        return await handler.load_result(job)

    async def stop(self, id: str) -> Job | None:
        """Stop a running γ job with its best certified γ so far as its result, and return it; None if there is none.

        A job that has no certified γ yet goes on, and so does one that others submitted too; one that waits in the
        queue stays there. One that the client did not submit is none of its own: None.
        """
        audit.mention_job(id)
        job = await self.run_in_reader(self._jobs.get, id, current_owner())
        if job is None or job.state != "running" or job.kind != GAMMA_JOB:
            return job
        result = await self._gamma_jobs.settle(self._events.latest(job))
        if result is None:
            return job
        job = await self.run_in_thread(self._jobs.settle, id, result, current_owner())
        if job is not None and job.over:
            self._events.publish(job)
            for worker in self._workers:
                worker.stop(id)
        return job

    async def get_job(self, id: str) -> Job | None:
        """Return a job in its present state, or None if there is none."""
        audit.mention_job(id)
        return await self.run_in_reader(self._jobs.get, id)

    async def list_jobs(
        self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None
    ) -> Sequence[Job]:
        """Return jobs, the newest first, from behind the id ``after``; where keys are needed, only the client's own."""
        return await self.run_in_reader(self._jobs.list, state, limit, after, current_owner())

    async def cancel(self, id: str) -> Job | None:
        """Cancel an unfinished job and return it. Its work ends within two seconds, whichever process does it.

        A job that others submitted too goes on for them. One that the client did not submit is none of its own: None.
        """
        audit.mention_job(id)
        job = await self.run_in_thread(self._jobs.cancel, id, current_owner())
        if job is not None and job.state == "cancelled":
            for worker in self._workers:
                worker.stop(id)
            self._events.publish(job)
        return job

    def followed(self, id: str) -> Job | None:
        """Return an unfinished job that somebody follows here, without a look at the store; None if nobody does."""
        audit.mention_job(id)
        return self._events.followed(id)

    def subscribe(self, job: Job) -> AsyncGenerator[JobUpdate]:
        """Yield the job in its present state, then whenever it changes, until it is finished or the server stops."""
        return self._events.subscribe(job)

    @property
    def open_streams(self) -> int:
        """How many event streams are open."""
        return self._streams.count

    def reserve_stream(self) -> AbstractContextManager[None]:
        """Hold one of the event streams that a client may have open within the block.

        Raises:
            TooManyJobs: it has as many as one client may have.
            Overloaded: there are as many as this process serves.
        """
        return self._streams.reserve(current_client())

    async def _load_or_submit(self, task: DesignTask) -> dict[str, Any] | Job:
        stored = await self._gamma_jobs.load(task.spec)
        if stored is not None:
            return stored
        self._check_admissible(task)
        return await self._queue_design(task, task.to_json())

    async def _nearest(self, spec: DesignSpec) -> dict[str, Any] | None:
        """Return the best stored answer whose guarantee implies the one that is asked, labelled; None without one."""
        nearest = await self._flights.do(
            f"nearest {spec.key}", lambda: self.run_in_reader(load_nearest, spec, self._store)
        )
        if nearest is not None:
            metrics.count_lookups("nearest")
        return nearest

    def _check_solving(self) -> None:
        if self._settings.solve == "off":
            raise NotCached("This answer is not stored, and solving is off on this server.")
        if not may_solve():
            raise NotCached("This answer is not stored, and a key with the role reader does not have it solved.")

    def _check_admissible(self, task: DesignTask) -> None:
        self._check_solving()
        check_choices(task.spec.problem, task.spec.shape, task.method, task.backend)
        check_design(task.spec, task.method, self._settings)

    async def _queue_design(self, task: DesignTask, text: str, *, afresh: bool = False) -> Job:
        seconds = estimate_cost(task.spec, task.method).seconds
        return await self._queue(task.key, GAMMA_JOB, text, seconds, afresh=afresh)

    async def _queue(self, id: str, kind: str, text: str, seconds: float, *, afresh: bool = False) -> Job:
        if self._closing:
            raise ShuttingDown("The server is shutting down; ask again when it is back.")
        audit.mention_job(id)
        request = JobRequest(id, kind, text, seconds, afresh, traces.current_traceparent())
        job = await self.run_in_thread(self._admission.submit, request, current_client())
        for worker in self._workers:
            worker.wake()
        return job

    async def _wait_for(
        self,
        job: Job,
        text: str,
        queue: Callable[..., Awaitable[Job]],
        load: Callable[[Job], Awaitable[dict[str, Any] | None]],
        wait_seconds: float | None,
    ) -> dict[str, Any] | Pending:
        """Return the answer of a job, or that it is pending after ``wait_seconds``; one that must be redone is, once.

        Args:
            job: in its present state.
            text: the request that is asked now; the job's own may differ in how it is solved.
            queue: queues it again, ``afresh`` even if it is done.
            load: reads its result; None if it does not answer what is asked now.
            wait_seconds: how long to wait [s]; None for the operator's setting.
        """
        wait_seconds = self._settings.wait_seconds if wait_seconds is None else wait_seconds
        for attempt in range(2):
            update = await self._events.wait(job, wait_seconds)
            match update.job.state:
                case "done":
                    answer = update.answer if update.job.request == text else None
                    answer = answer or await load(update.job)
                    if answer is not None:
                        return dict(answer)
                    job = await queue(afresh=True)
                case "failed" if attempt == 0 and update.job.request != text:  # it was submitted for another solver
                    job = await queue(afresh=False)
                case "failed":
                    raise update.error or SolveFailed(update.job.reason)
                case "cancelled":
                    raise JobCancelled("The job that solved this was cancelled; ask again to have it solved.")
                case _:
                    break
        return Pending(update.job)
