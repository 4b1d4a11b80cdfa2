"""Service resources: threads, processes and job workers of one service, which begin and end together."""

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
from api.access.clients import CLIENT_PREFIX, current_client, designs_owner, designs_viewer
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
"""Time up to which work is prompt [s], as a certificate is: it never waits for work that takes a second."""

QUEUE_LIMIT_SECONDS = 20.0
"""Time after which work on a queue is stopped [s], however busy the machine."""

ESTIMATE_ERROR, LOADING_SECONDS = 3.0, 2.0
"""Multiple of a queue's time at which work moves to the next queue; and the least [s], in which libraries load."""

QUICK_NICENESS, SOLVER_NICENESS = 10, 15
"""Niceness of the processes for short work and for long jobs: prompt work goes first."""


_LOG = logging.getLogger("api")

STORE_THREADS = 4
"""Blocking calls at once."""

STORE_SECONDS = 10.0
"""Longest call, with the time in which it waits for a thread [s]."""

ANSWER_SECONDS = 1.0
"""Time in which a store that does not hang answers a question, and between two questions to one that does [s]."""


class WorkQueue:
    """Queue of work of one length: its own processes, at which clients take turns. For use within one event loop."""

    def __init__(self, pool: ProcessPool, places: int, seconds: float) -> None:
        self.pool, self.seconds = pool, seconds
        # processor time after which work proves to be longer than this [s]
        self.processor_limit = max(ESTIMATE_ERROR * seconds, LOADING_SECONDS)
        self._turns = FairQueue(places)
        self._places, self._work_seconds = places, 0.0

    @property
    def expected_seconds(self) -> float:
        """How long what runs or waits is expected to take [s]."""
        return self._work_seconds / self._places

    @contextmanager
    def expecting(self, seconds: float) -> Iterator[None]:
        """Count work of expected length within the block."""
        self._work_seconds += seconds
        try:
            yield
        finally:
            self._work_seconds -= seconds

    async def run(self, task: PoolFunction, argument: Any, **options: Unpack[RunOptions]) -> Any:
        """Return what a task returns, once it is the client's turn; the server itself takes turns too.

        Arguments and errors are those of `ProcessPool.run`.
        """
        client = current_client()
        async with self._turns.place("" if client is None else client.name):
            return await self.pool.run(task, argument, **options)


class ServiceResources:
    """Resources of a service: its store and jobs, threads for calls that block, process pools, and job workers.

    Work goes by its estimate: prompt work, such as a certificate, short work with the γ of small problems, and long
    jobs have processes of their own each. Use `open`, which starts the background work and ends it.
    """

    def __init__(self, store: Store, settings: Settings, ring: KeyRing | None = None) -> None:
        self.store, self.settings = store, settings
        self.jobs, self._close_jobs = _open_jobs(store, settings)
        self._writing = StoreCalls("store", store, store.health_check)
        self._reading = StoreCalls("reader", store, partial(store.get, ""))
        # for calls that block but compute little, and may write; reads do not wait for a writer that is locked out
        self.run_in_thread, self.run_in_reader = self._writing.run, self._reading.run
        size, short, memory = settings.solvers, max(1, settings.solvers // 2), settings.solver_memory
        self.solvers = ProcessPool(size, memory=memory, name="solver", niceness=SOLVER_NICENESS)
        self._computers = ProcessPool(short, memory=memory, name="compute", warm_up=load_libraries)
        self._quick = ProcessPool(short, memory=memory, name="quick", warm_up=load_libraries, niceness=QUICK_NICENESS)
        self.queues = (
            WorkQueue(self._computers, short, min(PROMPT_SECONDS, settings.short_seconds)),
            WorkQueue(self._quick, short, settings.short_seconds),
        )
        self._quota = ClientQuota(settings.max_compute)
        self.admission = JobAdmission(self.jobs, settings)  # what is queued passes it
        self.events = JobEvents(self.jobs, self.run_in_reader)  # where the states of jobs are published
        # what a task uses
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
        # who do the jobs
        every = dict.fromkeys((*QUESTIONS, *designs), partial(self._do_job, self.solvers))
        # A server for the programs of one machine serves one user, who may use all of it.
        self.workers = [worker(every, size=size, shared=settings.keys is not None or settings.public)]
        if settings.short_seconds > 0:
            shorts = dict.fromkeys(designs, partial(self._do_job, self._quick))
            self.workers.append(worker(shorts, size=short, max_seconds=settings.short_seconds))
        # who is told when jobs end; None where the operator has set no secret for that
        self.webhooks = _open_webhooks(self.jobs, settings, self.run_in_thread, ring)
        self.closing = False  # whether the server shuts down

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: Store, settings: Settings, shutdown: asyncio.Event, ring: KeyRing | None = None
    ) -> AsyncIterator[Self]:
        """Yield resources at work; jobs begin with those that a process which was killed left behind.

        In the end, jobs under way go back into the queue, every process ends, and the store is closed.
        """
        resources = cls(store, settings, ring)
        # The stop as soon as it is asked for: event streams that stay open would keep the server from ending.
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
                pools = resources.solvers, resources._computers, resources._quick
                # Before the first request, which would wait for an interpreter to start.
                await asyncio.gather(*(pool.prestart() for pool in pools))
            for worker in resources.workers:
                worker.start()
            yield resources
        finally:
            for task in background:
                task.cancel()
            # In this order: who waits is told, jobs go back into the queue while the store still takes them, then the
            # processes that computed them end, then the threads that write.
            resources._drain()
            await asyncio.gather(*(worker.close() for worker in resources.workers))
            with suppress(CacheError):
                await resources.run_in_thread(store.save_reads)
            store.reads.take()  # else closing the store would write them, without a deadline
            await asyncio.gather(resources.solvers.close(), resources._computers.close(), resources._quick.close())
            await asyncio.gather(resources._writing.close(), resources._reading.close())
            resources._close_jobs()
            store.close()

    @property
    def pools(self) -> dict[str, PoolState]:
        """State of the process pools: "solvers" do jobs, "quick" short work and small γ, "compute" prompt work."""
        return {"solvers": self.solvers.state, "quick": self._quick.state, "compute": self._computers.state}

    async def _do_job(self, pool: ProcessPool, job: Job, progress: ProgressCallback) -> tuple[str, dict[str, Any]]:
        """Have the task of a job compute in a pool; return the result as JSON, and the answer for who waits here."""
        task = read_task(job)
        if task is None:
            raise SolveFailed(DAMAGED_ROW)
        if job.attempts > 1 and (stored := await task.load(self.context)) is not None:
            return canonical_json(STORED), stored  # a worker died after storing the answer, before finishing the job
        # Asked when an answer is stored: another client may submit the job until then.
        clients = partial(self.run_in_reader, self._clients_with_keys, job.id)
        context = replace(self.context, pool=pool, clients=clients)
        result, answer = await task.compute(context, progress=progress)
        return canonical_json(result), answer

    def _clients_with_keys(self, id: str) -> list[str]:
        return [client for client in self.jobs.clients(id) if client.startswith(CLIENT_PREFIX)]

    async def compute_on(self, queue: WorkQueue, task: Task) -> dict[str, Any]:
        """Return the answer to a task, computed on a queue, now."""
        # A γ that finds no room becomes a job, and is not refused.
        share = nullcontext() if task.solves else self._quota.reserve(current_client())
        with share, queue.expecting(task.seconds):
            limits = QUEUE_LIMIT_SECONDS, queue.processor_limit
            return (await task.compute(replace(self.context, pool=queue), limits))[1]

    async def _drain_on(self, shutdown: asyncio.Event) -> None:
        await shutdown.wait()
        self._drain()

    def _drain(self) -> None:
        """Release everyone who waits: 503, and the end of every event stream."""
        self.closing = True
        self.events.close(ShuttingDown("The server is shutting down; ask again when it is back."))

    async def compute(self, task: PoolFunction, argument: Any, seconds: float = 0.0) -> Any:
        """Return ``task(argument, report)``: work that is never a job, on the queue for its length, clients in turn."""
        prompt, short = self.queues
        with self._quota.reserve(current_client()):
            queue = prompt if seconds <= PROMPT_SECONDS else short
            return await queue.run(task, argument, time_limit=QUEUE_LIMIT_SECONDS)

    @property
    def stalled(self) -> str:
        """Why no queued job would be taken up; "" while the workers look at the queue, or have their hands full."""
        return next((worker.stalled for worker in self.workers if worker.stalled), "")


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log the error that ended work in the background, which nobody waits for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("work in the background ended", exc_info=error)


async def _own_client() -> list[str]:
    owner = designs_owner()
    return [] if owner is None else [owner]


def _open_webhooks(jobs: Jobs, settings: Settings, run_in_thread: RunInThread, ring: KeyRing | None) -> Webhooks | None:
    """Return the webhooks of the jobs; None where there is no secret to sign them with."""
    if settings.webhook_secret is None:
        return None
    from api.service.webhooks import Webhooks, stored_webhooks

    return Webhooks(stored_webhooks(jobs, settings), settings, run_in_thread, ring)


def _open_jobs(store: Store, settings: Settings) -> tuple[Jobs, Callable[[], None]]:
    """Return the jobs of a store, and what closes them."""
    # A store that is opened for reading only has its jobs in memory; the workers of one server share them in a database
    # of their own, in the folder that they share while they run.
    if settings.workers == 1 or settings.run_folder is None or not store.jobs.database.in_memory:
        return store.jobs, lambda: None
    database = Database(f"sqlite:///{settings.run_folder / 'jobs.sqlite'}")
    return Jobs(database), database.close


class StoreCalls:
    """Threads for calls to the store, which block: each with a deadline, and refused while the store hangs.

    A PostgreSQL whose kernel still answers, and a SQLite file that another process has locked, keep a call waiting for
    as long as they like. So a call that takes `STORE_SECONDS` is given up with a `CacheError`. The store is then asked
    until it answers; while that takes longer than a moment it hangs, and every other call fails at once.
    """

    def __init__(self, name: str, store: Store, question: Callable[[], Any]) -> None:
        self._threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix=name)
        self._asking = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-asking")
        self._store, self._question = store, question
        self._hangs = False
        self._watch: asyncio.Task[None] | None = None

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return ``work(*arguments)``, done in a thread.

        A call that is given up may still take effect later.
        """
        if self._hangs:
            raise self._error()
        call = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        try:
            done, _ = await asyncio.wait({call}, timeout=STORE_SECONDS)
        finally:
            call.cancel()  # nobody waits for it; it does not begin if it still waits for a thread
        if not done:
            if self._watch is None:
                self._watch = asyncio.create_task(self._ask_until_answered())
            raise self._error()
        return call.result()

    async def close(self) -> None:
        """End the threads, once their calls have ended; those that hang are cut off."""
        if self._watch is not None:
            self._watch.cancel()
            self._store.interrupt()
        for threads in (self._threads, self._asking):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    async def _ask_until_answered(self) -> None:
        """Ask the store until it answers, or fails by itself; if that takes longer than a moment, it hangs."""
        try:
            while True:
                asked = asyncio.get_running_loop().run_in_executor(self._asking, self._question)
                done, _ = await asyncio.wait({asked}, timeout=ANSWER_SECONDS)
                if not done:
                    if not self._hangs:
                        _LOG.error("%s", self._error())
                    self._hangs = True
                    # Calls that hang hold the threads of all others: these are ended with an error, and the next may
                    # find a network again.
                    self._store.interrupt()
                    await asyncio.wait({asked})
                # An error of its own is an answer; after a hang only one without an error ends the watch.
                elif not (self._hangs and asked.exception()):
                    return
                asked.exception()
                await asyncio.sleep(ANSWER_SECONDS)
        finally:
            if self._hangs:
                _LOG.warning("the cache at %s answers again", self._store.url)
            self._hangs, self._watch = False, None

    def _error(self) -> CacheError:
        return CacheError(self._store.url, f"it has not answered for {STORE_SECONDS:g} s", ELSEWHERE)
