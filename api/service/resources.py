"""Service resources: threads, processes and job workers of one service, with a common lifetime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from api.access.client_shares import ClientQuota, FairQueue
from api.access.clients import CLIENT_PREFIX, current_client, current_name, designs_owner, designs_viewer
from api.errors.problem_details import ShuttingDown
from api.service.jobs import JobAdmission, JobEvents, JobWorker, read_task
from api.service.upkeep import Upkeep
from api.settings import Settings
from api.tasks.design import STORED, DesignTask, load_libraries
from api.tasks.task import ProgressCallback, RunInThread, Task, TaskContext
from darrm_opt.errors import SolveFailed
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import canonical_json
from solver_cache.database.connection import Database
from solver_cache.database.jobs import DAMAGED_ROW, Job, Jobs
from solver_cache.location import ELSEWHERE, CacheError
from solver_cache.process_pool import PoolState, ProcessPool, RunOptions
from solver_cache.store import Store
from solver_cache.task_loop import PoolFunction

if TYPE_CHECKING:
    from api.access.keys import KeyRing
    from api.service.webhooks import Webhooks

Result = TypeVar("Result")

PROMPT_SECONDS = 0.05
"""Time up to which work, such as a certificate, is prompt: it never waits for work that takes a second."""

QUEUE_LIMIT_SECONDS = 20.0  # time limit of work on a queue, however busy the machine

ESTIMATE_ERROR, LOADING_SECONDS = 3.0, 2.0
"""Multiple of a queue's time at which work moves to the next queue; and its minimum [s], in which libraries load."""

QUICK_NICENESS, SOLVER_NICENESS = 10, 15
"""Niceness of the processes for short work and for long jobs: prompt work has priority."""


_LOG = logging.getLogger("api")

STORE_THREADS = 4
STORE_SECONDS = 10.0  # time limit of a call, including its wait for a thread
ANSWER_SECONDS = 1.0  # time limit of a health check of the store, and interval between checks while it hangs


class WorkQueue:
    """Queue of work of one length, with its own processes and fair turns for clients. For one event loop."""

    def __init__(self, pool: ProcessPool, places: int, seconds: float) -> None:
        self.pool, self.seconds = pool, seconds
        # processor time beyond which work is too long for this queue [s]
        self.processor_limit = max(ESTIMATE_ERROR * seconds, LOADING_SECONDS)
        self._turns = FairQueue(places)
        self._places, self._work_seconds = places, 0.0

    @property
    def expected_seconds(self) -> float:
        """Expected time of running and waiting work [s]."""
        return self._work_seconds / self._places

    @contextmanager
    def expecting(self, seconds: float) -> Iterator[None]:
        """Count work of expected length during the block."""
        self._work_seconds += seconds
        try:
            yield
        finally:
            self._work_seconds -= seconds

    async def run(self, task: PoolFunction, argument: Any, **options: Unpack[RunOptions]) -> Any:
        """Run a task when it is the client's turn; the server itself takes turns too. See `ProcessPool.run`."""
        async with self._turns.place(current_name()):
            return await self.pool.run(task, argument, **options)


class ServiceResources:
    """Resources of a service: store and jobs, threads for blocking calls, process pools, and job workers.

    Prompt work (a certificate), short work (the γ of a small problem) and long jobs have separate processes. Use
    `open`, which starts and ends the background work.
    """

    def __init__(self, store: Store, settings: Settings, ring: KeyRing | None = None) -> None:
        self.store, self.settings = store, settings
        self.jobs, self._close_jobs = _open_jobs(store, settings)
        self._writing = StoreCalls("store", store, store.health_check)
        self._reading = StoreCalls("reader", store, partial(store.get, ""))
        # separate threads: reads do not wait for a blocked writer
        self.run_in_thread, self.run_in_reader = self._writing.run, self._reading.run
        size, short, memory = settings.solvers, max(1, settings.solvers // 2), settings.solver_memory
        self.solvers = ProcessPool(size, memory=memory, name="solver", niceness=SOLVER_NICENESS)
        compute = ProcessPool(short, memory=memory, name="compute", warm_up=load_libraries)
        quick = ProcessPool(short, memory=memory, name="quick", warm_up=load_libraries, niceness=QUICK_NICENESS)
        # run jobs, short work and small γ, prompt work
        self._pools = {"solvers": self.solvers, "quick": quick, "compute": compute}
        self.queues = (
            WorkQueue(compute, short, min(PROMPT_SECONDS, settings.short_seconds)),
            WorkQueue(quick, short, settings.short_seconds),
        )
        self._quota = ClientQuota(settings.max_compute)
        self.admission = JobAdmission(self.jobs, settings)
        self.events = JobEvents(self.jobs, self.run_in_reader)
        self.context = TaskContext(
            store,
            settings,
            self.run_in_reader,
            self.run_in_thread,
            self.solvers,
            self.queues[1],
            _own_client,
            partial(designs_viewer, settings),
        )
        designs = (DesignTask.kind,) if settings.solve == "on" else ()
        worker = partial(
            JobWorker,
            self.jobs,
            self.events,
            self.run_in_thread,
            lease=settings.lease_seconds,
            max_running=settings.max_running_jobs_per_client,
        )
        every = dict.fromkeys((*QUESTIONS, *designs), partial(self._do_job, self.solvers))
        # A server for one machine serves one user, who can use all slots.
        self.workers = [worker(every, size=size, shared=settings.keys is not None or settings.public)]
        if settings.short_seconds > 0:
            shorts = dict.fromkeys(designs, partial(self._do_job, quick))
            self.workers.append(worker(shorts, size=short, max_seconds=settings.short_seconds))
        # None without a secret
        self.webhooks = _open_webhooks(self.jobs, settings, self.run_in_thread, ring)
        self.closing = False  # whether the server is shutting down

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: Store, settings: Settings, shutdown: asyncio.Event, ring: KeyRing | None = None
    ) -> AsyncIterator[Self]:
        """Yield running resources, starting with the jobs of dead processes.

        At the end, running jobs return to the queue, every process ends, and the store is closed.
        """
        resources = cls(store, settings, ring)
        # Drained as soon as a stop is requested: open event streams would delay it.
        works = [
            resources.admission.prune(resources.run_in_thread, store.url),
            Upkeep(store, settings, resources.run_in_thread).run(),
            resources._drain_on(shutdown),
            *([] if resources.webhooks is None else [resources.webhooks.deliver()]),
        ]
        background = [asyncio.create_task(work) for work in works]
        try:
            for task in background:
                task.add_done_callback(_log_failure)
            if settings.solve == "on" and settings.prestart:
                # Before the first request, which would wait for a start.
                await asyncio.gather(*(pool.prestart() for pool in resources._pools.values()))
            for worker in resources.workers:
                worker.start()
            yield resources
        finally:
            for task in background:
                task.cancel()
            # In this order: waiters are released, jobs return to the queue, their processes end, then the threads
            # that write.
            resources._drain()
            await asyncio.gather(*(worker.close() for worker in resources.workers))
            with suppress(CacheError):
                await resources.run_in_thread(store.save_reads)
            store.reads.take()  # or closing the store would write them, without a deadline
            await asyncio.gather(*(pool.close() for pool in resources._pools.values()))
            await asyncio.gather(resources._writing.close(), resources._reading.close())
            resources._close_jobs()
            store.close()

    @property
    def pools(self) -> dict[str, PoolState]:
        """State of each process pool: "solvers", "quick" and "compute"."""
        return {name: pool.state for name, pool in self._pools.items()}

    async def _do_job(self, pool: ProcessPool, job: Job, progress: ProgressCallback) -> tuple[str, dict[str, Any]]:
        """Compute the task of a job in a pool; return the result as JSON, and the answer for local waiters."""
        task = read_task(job)
        if task is None:
            raise SolveFailed(DAMAGED_ROW)
        if job.attempts > 1 and (stored := await task.load(self.context)) is not None:
            return canonical_json(STORED), stored  # a worker died between storing the answer and finishing the job
        # Read late: another client may submit the job meanwhile.
        clients = partial(self.run_in_reader, self._clients_with_keys, job.id)
        context = replace(self.context, pool=pool, clients=clients)
        result, answer = await task.compute(context, progress=progress)
        return canonical_json(result), answer

    def _clients_with_keys(self, id: str) -> list[str]:
        return [client for client in self.jobs.clients(id) if client.startswith(CLIENT_PREFIX)]

    async def compute_on(self, queue: WorkQueue, task: Task) -> dict[str, Any]:
        """Return the answer to a task, computed on a queue now."""
        # A γ without room becomes a job instead of an error.
        share = nullcontext() if task.solves else self._quota.reserve(current_client())
        with share, queue.expecting(task.seconds):
            limits = QUEUE_LIMIT_SECONDS, queue.processor_limit
            return (await task.compute(replace(self.context, pool=queue), limits))[1]

    async def _drain_on(self, shutdown: asyncio.Event) -> None:
        await shutdown.wait()
        self._drain()

    def _drain(self) -> None:
        """Release every waiter with 503, and end every event stream."""
        self.closing = True
        self.events.close(ShuttingDown("The server is shutting down; try again when it is back."))

    async def compute(self, task: PoolFunction, argument: Any, seconds: float = 0.0) -> Any:
        """Return ``task(argument, report)``: work that is never a job, on the queue for its length."""
        prompt, short = self.queues
        with self._quota.reserve(current_client()):
            queue = prompt if seconds <= PROMPT_SECONDS else short
            return await queue.run(task, argument, time_limit=QUEUE_LIMIT_SECONDS)

    @property
    def stalled(self) -> str:
        """Why no queued job would be taken; "" while the workers read the queue or are busy."""
        return next((worker.stalled for worker in self.workers if worker.stalled), "")


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("work in the background ended", exc_info=error)


async def _own_client() -> list[str]:
    owner = designs_owner()
    return [] if owner is None else [owner]


def _open_webhooks(jobs: Jobs, settings: Settings, run_in_thread: RunInThread, ring: KeyRing | None) -> Webhooks | None:
    if settings.webhook_secret is None:
        return None
    from api.service.webhooks import Webhooks, stored_webhooks

    return Webhooks(stored_webhooks(jobs, settings), settings, run_in_thread, ring)


def _open_jobs(store: Store, settings: Settings) -> tuple[Jobs, Callable[[], None]]:
    """Return the jobs of a store, and the function that closes them."""
    # The jobs of a read-only store are in memory; several workers share them in a database in their run folder.
    if settings.workers == 1 or settings.run_folder is None or not store.jobs.database.in_memory:
        return store.jobs, lambda: None
    database = Database(f"sqlite:///{settings.run_folder / 'jobs.sqlite'}")
    return Jobs(database), database.close


class StoreCalls:
    """Threads for blocking calls to the store, with a deadline; calls fail at once while the store hangs.

    A PostgreSQL server whose kernel still answers, or a SQLite file locked by another process, can block a call for
    ever. So a call fails with a `CacheError` after `STORE_SECONDS`. Then the store is checked until it responds;
    while a check exceeds `ANSWER_SECONDS`, every other call fails at once.
    """

    def __init__(self, name: str, store: Store, question: Callable[[], Any]) -> None:
        self._threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix=name)
        self._asking = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-asking")
        self._store, self._question = store, question
        self._hangs = False
        self._watch: asyncio.Task[None] | None = None

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return ``work(*arguments)``, run in a thread. A call that timed out may still take effect later."""
        if self._hangs:
            raise self._error()
        call = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        try:
            done, _ = await asyncio.wait({call}, timeout=STORE_SECONDS)
        finally:
            call.cancel()  # does not start if it still waits for a thread
        if not done:
            if self._watch is None:
                self._watch = asyncio.create_task(self._ask_until_answered())
            raise self._error()
        return call.result()

    async def close(self) -> None:
        """End the threads after their calls; calls that hang are interrupted."""
        if self._watch is not None:
            self._watch.cancel()
            self._store.interrupt()
        for threads in (self._threads, self._asking):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    async def _ask_until_answered(self) -> None:
        """Check the store until it responds; it hangs while a check takes too long."""
        try:
            while True:
                asked = asyncio.get_running_loop().run_in_executor(self._asking, self._question)
                done, _ = await asyncio.wait({asked}, timeout=ANSWER_SECONDS)
                if not done:
                    if not self._hangs:
                        _LOG.error("%s", self._error())
                    self._hangs = True
                    # Hanging calls occupy all threads: interrupt them, and the next may find a new connection.
                    self._store.interrupt()
                    await asyncio.wait({asked})
                # An error is a response; but after a hang, only success ends the watch.
                elif not (self._hangs and asked.exception()):
                    return
                asked.exception()
                await asyncio.sleep(ANSWER_SECONDS)
        finally:
            if self._hangs:
                _LOG.warning("the cache at %s responds again", self._store.url)
            self._hangs, self._watch = False, None

    def _error(self) -> CacheError:
        return CacheError(self._store.url, f"it has not responded for {STORE_SECONDS:g} s", ELSEWHERE)
