"""Where requests become answers: from the store at once, else from a solver process that somebody can wait for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from api.access.clients import current_client
from api.access.rate_limits import ClientQuota
from api.errors.exceptions import JobCancelled, NotCached, ShuttingDown
from api.observability import metrics
from api.process_pool.pool import PoolState, ProcessPool
from api.process_pool.task_loop import Task
from api.schemas import DesignRequest
from api.server.shutdown import Shutdown
from api.service.gamma_jobs import GAMMA_JOB, GRACE_SECONDS, GammaJobHandler
from api.service.job_admission import JobAdmission, check_design, check_voters
from api.service.job_events import JobEvents, JobUpdate
from api.service.job_worker import JobWorker, ProgressCallback
from api.service.repository import load_nearest
from api.settings import Settings
from api.tasks.design import gamma_argument
from darrm_opt.design.solver import check_choices
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.errors import SolveFailed
from solver_cache.jobs import PAGE_SIZE, Job, State, open_jobs
from solver_cache.store import Store

_LOG = logging.getLogger("api")

Result = TypeVar("Result")

STORE_THREADS = 4
"""Looks into the store at once."""

RETRY_SECONDS = 1
"""When to ask again for an answer that is not there yet [s]."""


@dataclass(frozen=True)
class Pending:
    """The answer is not there yet.

    Attributes:
        job: what works on it; its id is the id of the answer to come.
        retry_after: when to ask again [s].
        nearest: a kept answer whose guarantee implies the one that is asked, for the time until then; None if none is.
    """

    job: Job
    retry_after: int = RETRY_SECONDS
    nearest: dict[str, Any] | None = None


class DesignService:
    """Answers requests with plain data; nothing blocks the event loop. Open it with `start`, end it with `close`.

    γ is designed by jobs: one for each problem however many ask, in this process or in others that share the store
    (`api.runner`). Everything else is performed by processes of its own, so that it never waits for a long solve.

    Args:
        store: where answers are kept; the desk closes it.
        settings: limits, and how many solves may run at once.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._jobs = open_jobs(store)
        self._threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="store")
        self._once = SingleFlight()
        self._intake = JobAdmission(self._jobs, settings)
        self._shares = ClientQuota(settings.errands)
        self._chores: list[asyncio.Task[None]] = []
        self._closing = False

    @property
    def store(self) -> Store:
        """Where answers are kept; it blocks, so use it in a thread (`apart`)."""
        return self._store

    @property
    def settings(self) -> Settings:
        """What the operator set."""
        return self._settings

    @property
    def pools(self) -> dict[str, PoolState]:
        """Where the solver processes stand: "solvers" do jobs, "errands" everything else."""
        return {"solvers": self._solvers.state, "errands": self._errands.state}

    async def start(self, stopping: Shutdown) -> None:
        """Begin to do jobs, first those that another process, or this one before it was ended, left behind.

        Args:
            stopping: whether the server was told to stop; whoever waits then is let go.
        """
        many, memory = self._settings.solvers, self._settings.solver_memory
        self._solvers = ProcessPool(many, memory=memory, name="solver")
        self._errands = ProcessPool(max(1, many // 2), memory=memory, name="errand")
        self._board = JobEvents(self._jobs, self.apart)
        self._designer = GammaJobHandler(self._store, self._settings, self.apart, self._solvers)
        doers = {GAMMA_JOB: self._designer.do}
        self._runner = JobWorker(self._jobs, self._board, self.apart, doers, size=many, lease=self._settings.lease)
        self._chores = [
            asyncio.create_task(self._intake.prune(self.apart, self._store.url)),
            asyncio.create_task(self._leave(stopping)),
        ]
        if self._settings.solve == "on":
            if self._settings.warm:
                await asyncio.gather(self._solvers.warm(), self._errands.warm())
            self._runner.start()

    async def _leave(self, stopping: Shutdown) -> None:
        await stopping.wait()
        self._drain()

    def _drain(self) -> None:
        """Let go of everyone who waits: 503, and the end of every stream of events."""
        self._closing = True
        self._board.close(ShuttingDown("The server is shutting down; ask again when it is back."))

    async def close(self) -> None:
        """Put what is being done back into the queue, end every process, and close the store."""
        for chore in self._chores:
            chore.cancel()
        if self._chores:
            self._drain()
            await self._runner.close()
            await asyncio.gather(self._solvers.close(), self._errands.close())
        await asyncio.to_thread(self._threads.shutdown)
        self._store.close()

    async def apart(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return ``work(*arguments)``, done in a thread: for what blocks, but does not compute for long."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def perform(self, task: Task, argument: Any, progress: ProgressCallback | None = None) -> Any:
        """Return ``task(argument, report)``, done in a process of its own, within the server's time limit.

        Args:
            task: a function at the top of a module (`api.answering`).
            argument: plain data.
            progress: called with whatever the task reports.

        Raises:
            Exception: whatever the task raises.
            SolveFailed: its process was lost twice, took too long or grew too large.
            Busy, TooManyJobs: too many wait already, or too many of one client.
        """
        limit = self._settings.time_limit
        with self._shares.one(current_client()):
            return await self._errands.run(task, argument, time_limit=2 * limit + GRACE_SECONDS, progress=progress)

    async def gamma(self, asked: DesignRequest, patience: float | None = None) -> dict[str, Any] | Pending:
        """Return the certified γ_opt as plain data, or what works on it.

        Args:
            asked: the problem.
            patience: how long to wait for a solve [s]; None for what the operator set.

        Returns:
            The record of the solution, its "id", and whether it was "cached"; or `Pending`, with the job.

        Raises:
            InvalidInput: a field is out of its range.
            BackendUnavailable: it must be solved, and the solver is not there.
            NotKept: neither it nor one that implies its guarantee is kept, and solving is off.
            Busy: too many jobs wait already.
            TooManyJobs: whoever asks has had many queued lately.
            JobCancelled: somebody cancelled the job.
            SolveFailed: the solve failed; the text says why.
            ShuttingDown: the server stops.
            CacheError: the store cannot be read.
        """
        request = self._request(asked)
        try:
            there = await self._once.do(request.key, lambda: self._kept_or_queued(request, asked))
        except NotCached:
            near = await self._nearest(request)
            if near is None:
                raise
            return near
        if not isinstance(there, Job):
            return there
        found = await self._awaited(there, request, asked, patience)
        return replace(found, nearest=await self._nearest(request)) if isinstance(found, Pending) else found

    async def _nearest(self, request: DesignSpec) -> dict[str, Any] | None:
        """Return the best kept answer whose guarantee implies the one that is asked, labelled; None if there is none."""
        found = await self._once.do(f"nearest {request.key}", lambda: self.apart(load_nearest, request, self._store))
        if found is not None:
            metrics.count_lookups("nearest")
        return found

    async def submit(self, asked: DesignRequest) -> Job:
        """Return the job that designs γ_opt, queued now unless it is there already; raises as `gamma`.

        A job whose answer is no longer of use (its time limit was shorter than today's) is queued again.
        """
        request = self._request(asked)
        self._check_solving()
        check_choices(request.problem, request.shape, asked.method, asked.backend)
        check_design(request, asked.method, self._settings)
        job = await self._submitted(request, asked)
        if job.state == "done" and await self.result(job) is None:
            job = await self.again(job)
        return job

    async def again(self, job: Job) -> Job:
        """Return a job that is over as queued once more: its result is no longer of use; raises as `gamma`."""
        self._check_solving()
        return await self._queued(job.id, job.request, afresh=True)

    async def result(self, job: Job) -> dict[str, Any] | None:
        """Return what came of a job that is done, proved again; None if that is no longer there or of use."""
        return await self._designer.result(job)

    async def job(self, id: str) -> Job | None:  # noqa: A002 — the noun's field
        """Return a job as it stands, or None where there is none."""
        return await self.apart(self._jobs.get, id)

    async def list_jobs(
        self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None
    ) -> Sequence[Job]:
        """Return jobs, the newest first, from behind the one called ``after``."""
        return await self.apart(self._jobs.list, state, limit, after)

    async def cancel(self, id: str) -> Job | None:  # noqa: A002
        """Cancel a job that is not over; return it as it then stands. Its work ends within two seconds, wherever it is."""
        job = await self.apart(self._jobs.cancel, id)
        if job is not None and job.state == "cancelled":
            self._runner.stop(id)
            self._board.post(job)
        return job

    def follow(self, job: Job) -> AsyncGenerator[JobUpdate]:
        """Yield the job as it stands, then whenever it has changed, until it is over or the server stops."""
        return self._board.follow(job)

    def _request(self, asked: DesignRequest) -> DesignSpec:
        check_voters(asked.K, self._settings)
        return asked.request()

    async def _kept_or_queued(self, request: DesignSpec, asked: DesignRequest) -> dict[str, Any] | Job:
        kept = await self._designer.recalled(request)
        if kept is not None:
            return kept
        self._check_solving()
        check_choices(request.problem, request.shape, asked.method, asked.backend)
        check_design(request, asked.method, self._settings)
        return await self._submitted(request, asked)

    def _check_solving(self) -> None:
        if self._settings.solve == "off":
            raise NotCached("This answer is not kept, and solving is off on this server.")

    async def _submitted(self, request: DesignSpec, asked: DesignRequest) -> Job:
        text = canonical_json(gamma_argument(request, asked.method, asked.backend))
        return await self._queued(request.key, text)

    async def _queued(self, id: str, text: str, *, afresh: bool = False) -> Job:  # noqa: A002
        if self._closing:
            raise ShuttingDown("The server is shutting down; ask again when it is back.")
        job = await self.apart(self._intake.submit, id, text, afresh, current_client())
        self._runner.poke()
        return job

    async def _awaited(
        self, job: Job, request: DesignSpec, asked: DesignRequest, patience: float | None
    ) -> dict[str, Any] | Pending:
        patience = self._settings.patience if patience is None else patience
        text = canonical_json(gamma_argument(request, asked.method, asked.backend))
        for attempt in range(2):
            news = await self._board.over(job, patience)
            match news.job.state:
                case "done":
                    answer = news.answer or await self._designer.result(news.job)
                    if answer is not None:
                        return dict(answer)
                    job = await self._queued(request.key, text, afresh=True)
                case "failed" if attempt == 0 and news.job.request != text:  # another had asked, for another solver
                    job = await self._queued(request.key, text)
                case "failed":
                    raise news.error or SolveFailed(news.job.reason)
                case "cancelled":
                    raise JobCancelled("The job that solved this was cancelled; ask again to have it solved.")
                case _:
                    break
        return Pending(news.job)


class SingleFlight:
    """What is being done now, by name. Made and used within one event loop."""

    def __init__(self) -> None:
        self._asking: dict[str, asyncio.Task[Any]] = {}

    async def do(self, name: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what ``work`` returns, begun once for all who ask under one name while it goes on.

        It goes on also when whoever asked first is gone.
        """
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.ensure_future(work())
            task.add_done_callback(lambda done: (self._asking.pop(name), done.cancelled() or done.exception()))
        result: Result = await asyncio.shield(task)
        return result
