"""Design service: answers from the store, from short computations, or from jobs that a client can wait for."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from api.access.client_shares import ClientQuota
from api.access.clients import current_client, current_name, current_owner, designs_owner, designs_viewer, may_solve
from api.errors.problem_details import JobCancelled, NotCached, ShuttingDown, WorkLimitExceeded
from api.observability import access_log, metrics, traces
from api.service.jobs import read_task
from api.service.resources import ServiceResources, WorkQueue
from api.settings import Settings
from api.tasks.design import DesignTask
from api.tasks.task import UNREADABLE, Task
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput, SolveFailed
from darrm_opt.questions.design import Design
from darrm_opt.record import canonical_json
from solver_cache.database.jobs import Job
from solver_cache.location import CacheError, ReadOnlyCache
from solver_cache.model import State
from solver_cache.process_pool import TaskTimeout
from solver_cache.store import Store

if TYPE_CHECKING:
    from api.access.keys import KeyRing

_LOG = logging.getLogger("api.jobs")

Result = TypeVar("Result")

RETRY_SECONDS = 1  # Retry-After for a pending answer [s]

ACCOUNT_TIMES = 10
"""Voters of an account, a ranking or a table of classes, as a multiple of those of a γ. Estimated time limits them
too; this bounds memory, which some calibrations need in proportion to K²."""

FINAL = frozenset(status.value for status in Status if status.is_final)  # statuses with which a γ is stored

MAX_QUEUE_SECONDS = 1.0
"""Expected work of a queue from which a γ becomes a job: its client gets a response (202) sooner."""

MISJUDGED_SECONDS = 600.0  # time for which a client's work counts as long after an estimate proved wrong
MAX_GRANTED = 100_000  # visible designs remembered for clients: some 20 MB

GRANTED_SECONDS = 60.0
"""Time for which they are remembered: eviction may take one from its client, which then requests it again."""

MAX_MISJUDGED = 1000  # clients and kinds of work remembered as misjudged


MAX_SCENARIO_VOTERS = 100_000
"""Maximum scenarios × voters of an objective over scenarios.

Drawing them, before anything is queued, takes at most a tenth of a second.
"""


def check_scenarios(objective: AnyObjective, K: int) -> None:
    """Raise WorkLimitExceeded for an objective with too many scenarios."""
    if isinstance(objective, ScenarioObjective):
        parameters = dict(objective.parameters)
        count = int(parameters.get("points", parameters.get("scenarios", 0)))
        if count * K > MAX_SCENARIO_VOTERS:
            accepted = f"at most {MAX_SCENARIO_VOTERS // K} scenarios or points for {K} voters"
            raise WorkLimitExceeded(f"objective = '{objective}' is not valid: expected {accepted}.", field="objective")


def design_task(asked: Design) -> DesignTask:
    """Return the task of a design."""
    check_scenarios(as_objective(asked.objective), asked.K)
    return DesignTask(asked.spec(), asked.method, asked.backend, asked.time_limit, asked.gap)


@dataclass(frozen=True)
class Pending:
    """Answer that is not ready."""

    job: Job  # its id will be the id of the answer
    # a stored answer whose guarantee implies the one requested, for use meanwhile
    nearest: dict[str, Any] | None = None


class SingleFlight:
    """One computation for all concurrent callers with the same key. For use within one event loop."""

    def __init__(self) -> None:
        self._flights: dict[str, asyncio.Task[Any]] = {}

    async def do(self, key: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of ``work``, shared by all callers with the same key while it runs.

        It continues even if the first caller is gone.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.ensure_future(work())
            flight.add_done_callback(lambda task: (self._flights.pop(key), task.cancelled() or task.exception()))
        result: Result = await asyncio.shield(flight)
        return result


class SlowWork:
    """Kinds of work of a client whose estimates recently proved wrong, and which skip the queue they delayed."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str, WorkQueue], float] = {}

    def add(self, kind: str, queue: WorkQueue) -> None:
        """Record that a kind of work of the current client is too long for a queue."""
        self._until.pop((current_name(), kind, queue), None)
        self._until[current_name(), kind, queue] = time.monotonic() + MISJUDGED_SECONDS
        if len(self._until) > MAX_MISJUDGED:
            del self._until[next(iter(self._until))]

    def has(self, kind: str, queue: WorkQueue) -> bool:
        """Whether a kind of work of the current client recently proved too long for a queue."""
        return time.monotonic() < self._until.get((current_name(), kind, queue), 0.0)


def _may_be_short(task: Task) -> bool:
    """Whether a task may run on a queue: the answer of a task with its own limits stays with its job."""
    if isinstance(task, DesignTask) and (task.time_limit is not None or task.gap is not None):
        return False
    try:
        return task.seconds < math.inf
    except InvalidInput:  # invalid: `check` raises the error
        return False


class DesignService(ServiceResources):
    """Service behind the routes: answers requests with plain data and never blocks the event loop.

    Every question is a task (`api.tasks.task`). A γ, and any other answer that takes longer than a moment, is the
    result of a job, shared by all requests for it in all processes that share the store (`api.service.jobs`).
    """

    def __init__(self, store: Store, settings: Settings, ring: KeyRing | None = None) -> None:
        super().__init__(store, settings, ring)
        self._flights = SingleFlight()
        self._misjudged = SlowWork()
        self._granted: OrderedDict[tuple[str, str], float] = OrderedDict()  # until when
        streams = self.settings.max_streams or max(1, self.settings.max_connections // 4)
        self.streams = ClientQuota(streams, "event streams")

    def check_voters(self, K: int, times: int = 1) -> None:
        """Raise InvalidInput for more voters than ``times`` the operator's limit."""
        most = times * self.settings.max_voters
        if most < K:
            advice = "Solve it with the command line, or ask the operator to raise DARRM_MAX_VOTERS."
            raise InvalidInput("K", K, f"at most {most} voters on this server", advice)

    def check_work(self, seconds: float, field: str = "") -> None:
        """Raise WorkLimitExceeded for more estimated time [s] than the operator allows for one request."""
        most = self.settings.max_work_seconds
        if seconds > most:
            raise WorkLimitExceeded(
                f"The expected solving time is {seconds:.3g} s; the limit of this server is {most:g} s per request. "
                "Request less at a time, or ask the operator to raise DARRM_MAX_WORK_SECONDS.",
                seconds,
                field,
            )

    def _check(self, task: Task) -> None:
        """Raise for an invalid task, or for more work than the operator allows."""
        task.check(self.settings)
        self.check_work(task.seconds)

    def design_task(self, asked: Design) -> DesignTask:
        """Return the task of a design with an admitted number of voters."""
        self.check_voters(asked.K)
        return design_task(asked)

    async def design(self, asked: Design, wait_seconds: float | None = None) -> dict[str, Any] | Pending:
        """Return the certified γ_opt of a design: the record of the solution, its "id", and whether it was "cached"."""
        return await self.answer(self.design_task(asked), wait_seconds)

    async def answer(self, task: Task, wait_seconds: float | None = None) -> dict[str, Any] | Pending:
        """Return the answer to a task, stored, computed at once or from its job; else its pending job.

        Work expected to be short is computed at once, on the queue for its length; a γ only if the queue is shorter
        than the client's wait. Work that exceeds the processor time of a queue (`WorkQueue.processor_limit`) moves to
        the next queue and finally becomes a job, as does this client's work of that kind for `MISJUDGED_SECONDS`, and
        a γ cut short by the server's time limit. A job is awaited for ``wait_seconds`` [s]; None: the operator's
        setting. Errors are those of `api.errors.problem_details`.
        """
        answer = await self._answer(task, wait_seconds)
        if not isinstance(answer, Pending):
            await self.grant(task, answer)
        return answer

    async def _answer(self, task: Task, wait_seconds: float | None) -> dict[str, Any] | Pending:
        access_log.mention_question(task.key)
        seconds = None
        # Roles differ in what they may solve, and a job belongs to each client that submits it.
        flight = f"{task.key} {may_solve()} {designs_owner()}"
        try:
            for queue in self.queues if _may_be_short(task) else ():
                if task.seconds > queue.seconds or self._misjudged.has(task.kind, queue):
                    continue
                try:
                    if not task.solves:
                        self._check(task)
                        return await task.load(self.context) or await self.compute_on(queue, task)
                    designed = await self._design_on(queue, task, wait_seconds)
                except TaskTimeout:
                    self._misjudged.add(task.kind, queue)
                    seconds = queue.processor_limit
                else:
                    if designed is not None:
                        return designed
                    break
            outcome = await self._flights.do(flight, lambda: self._load_or_queue(task, seconds))
        except NotCached:
            nearest = await self._nearest(task)
            if nearest is None:
                raise
            return nearest
        if not isinstance(outcome, Job):
            return outcome
        access_log.mention_job(outcome.id)  # another request may have queued it
        answer = await self._wait_for(outcome, task, wait_seconds, seconds)
        return replace(answer, nearest=await self._nearest(task)) if isinstance(answer, Pending) else answer

    async def submit(self, asked: Design) -> Job:
        """Return the job that designs γ_opt, queued unless it exists; raises as `answer`.

        A job with an outdated result (its time limit was shorter than today's) is queued again.
        """
        task = self.design_task(asked)
        access_log.mention_question(task.key)
        self._check_solving()
        self._check(task)
        job = await self._queue(task)
        if job.state == "done" and await self.load_result(job, task) is None:
            job = await self._queue(task, afresh=True)
        return job

    async def resubmit(self, job: Job) -> Job | None:
        """Queue a finished job without a result again; None if its request is damaged; raises as `answer`."""
        if job.kind == DesignTask.kind:
            self._check_solving()
        task = read_task(job)
        return None if task is None else await self._queue(task, job.seconds, afresh=True)

    async def load_result(self, job: Job, asked: Task | None = None) -> dict[str, Any] | None:
        """Return the result of a finished job, proved again; None if it is gone, damaged, or not what is ``asked``."""
        task = read_task(job)
        if task is None:
            return None
        try:
            result = await task.verify(json.loads(job.result), self.context, asked)
        except UNREADABLE as err:  # untrusted: from the database
            if isinstance(err, CacheError):
                raise
            _LOG.warning("job %s: its result cannot be read: %s", job.id, err)
            return None
        if result is not None:
            await self.grant(task, result)
            if not task.solves:
                metrics.count_lookups("hit")
        return result

    async def stop(self, id: str) -> Job | None:
        """Stop a running γ job with its best certified γ so far as its result; return it, or None if it does not exist.

        A job without a certified γ continues, as does one that others submitted too; a queued job stays queued.
        Another client's job does not exist.
        """
        access_log.mention_job(id)
        job = await self.run_in_reader(self.jobs.get, id, current_owner())
        # Only a running job has a γ so far.
        task = None if job is None or job.state != "running" else read_task(job)
        if job is None or task is None:
            return job
        result = await task.settle(self.events.latest(job).progress, self.context)
        if result is None:
            return job
        job = await self.run_in_thread(self.jobs.settle, id, canonical_json(result), current_owner())
        if job is not None and job.over:
            self.events.publish(job)
            # After the row is final: a worker that ends earlier would record its own end.
            for worker in self.workers:
                worker.stop(id)
        return job

    async def get_job(self, id: str) -> Job | None:
        """Return a job, or None if it does not exist; with private designs, only the client's own."""
        access_log.mention_job(id)
        return await self.run_in_reader(self.jobs.get, id, self.viewer)

    async def list_jobs(self, state: State | None, limit: int, after: str | None) -> Sequence[Job]:
        """Return jobs, newest first, after the id ``after``; with keys, only the client's own."""
        return await self.run_in_reader(self.jobs.list, state, limit, after, current_owner())

    async def cancel(self, id: str) -> Job | None:
        """Cancel an unfinished job and return it. Its work ends within two seconds, in any process.

        A job that others submitted too continues for them. Another client's job does not exist: None.
        """
        access_log.mention_job(id)
        job = await self.run_in_thread(self.jobs.cancel, id, current_owner())
        if job is not None and job.state == "cancelled":
            for worker in self.workers:
                worker.stop(id)
            self.events.publish(job)
        return job

    def followed(self, id: str) -> Job | None:
        """Return an unfinished job with subscribers here, without reading the store, or None.

        None with private designs: only the store knows the owner.
        """
        access_log.mention_job(id)
        return self.events.followed(id) if self.viewer is None else None

    @property
    def viewer(self) -> str | None:
        """Client of the current request if it may see only its own designs; None if it may see all."""
        return designs_viewer(self.settings)

    async def may_see(self, key: str) -> bool:
        """Whether the client of the current request may see an answer, if it is stored."""
        viewer = self.viewer
        if viewer is None or self._is_granted(viewer, key):
            return True
        is_visible = await self.run_in_reader(self.store.designs.get, key, viewer) is not None
        if is_visible:
            self._remember(viewer, key)
        return is_visible

    async def grant(self, task: Task, answer: dict[str, Any]) -> None:
        """Let the client see the designs in an answer, which it has requested in full, by their ids."""
        owner = designs_owner() if self.settings.private_designs else None
        if owner is None or self._is_granted(owner, task.key):
            return
        keys = task.design_keys(answer)
        try:
            is_granted = not keys or await self.run_in_thread(self.store.designs.grant, keys, owner)
        except CacheError as err:  # the answer itself is valid
            if not isinstance(err, ReadOnlyCache):
                _LOG.warning("a client of the answer to %s cannot be stored: %s", task.key, err)
            return
        if is_granted:
            self._remember(owner, task.key)

    def _remember(self, client: str, key: str) -> None:
        self._granted[client, key] = time.monotonic() + GRANTED_SECONDS
        self._granted.move_to_end((client, key))
        if len(self._granted) > MAX_GRANTED:
            self._granted.popitem(last=False)

    def _is_granted(self, client: str, key: str) -> bool:
        return time.monotonic() < self._granted.get((client, key), 0.0)

    async def _design_on(self, queue: WorkQueue, task: Task, wait_seconds: float | None) -> dict[str, Any] | None:
        """Return a stored γ, or design one on a queue for all callers; None if that takes too long."""
        wait_seconds = self.settings.wait_seconds if wait_seconds is None else wait_seconds

        async def design() -> dict[str, Any]:
            stored = await task.load(self.context)
            if stored is not None:
                return stored
            self._check_solving()
            self._check(task)
            self.admission.charge(current_client())
            return await self.compute_on(queue, task)

        if self.closing or queue.expected_seconds >= min(wait_seconds, MAX_QUEUE_SECONDS):
            return None
        try:
            flight = f"queue {task.text} {may_solve()}"  # not the key alone: another request may name another solver
            designed = await asyncio.wait_for(self._flights.do(flight, design), wait_seconds)
        except TimeoutError:
            return None
        if designed["status"] in FINAL:
            return designed
        # Usually cut short by the server's time limit: only a job keeps such an answer.
        self._misjudged.add(task.kind, queue)
        return None

    async def _load_or_queue(self, task: Task, seconds: float | None) -> dict[str, Any] | Job:
        stored = await task.load(self.context)
        if stored is not None:
            return stored
        if task.solves:
            self._check_solving()
        self._check(task)
        return await self._queue(task, seconds)

    async def _nearest(self, task: Task) -> dict[str, Any] | None:
        flight = f"nearest {task.key} {self.viewer}"
        nearest = await self._flights.do(flight, lambda: task.nearest(self.context))
        if nearest is not None:
            metrics.count_lookups("nearest")
        return nearest

    def _check_solving(self) -> None:
        if self.settings.solve == "off":
            raise NotCached("This answer is not stored, and solving is off on this server.")
        if not may_solve():
            raise NotCached("This answer is not stored, and the role reader cannot request a solve.")

    async def _queue(self, task: Task, seconds: float | None = None, *, afresh: bool = False) -> Job:
        if self.closing:
            raise ShuttingDown("The server is shutting down; ask again when it is back.")
        access_log.mention_job(task.key)
        seconds = task.seconds if seconds is None else seconds
        submit = partial(self.admission.submit, afresh=afresh)
        job: Job = await self.run_in_thread(submit, task, current_client(), seconds, traces.current_traceparent())
        for worker in self.workers:
            worker.wake()
        return job

    async def _wait_for(
        self, job: Job, task: Task, wait_seconds: float | None, seconds: float | None
    ) -> dict[str, Any] | Pending:
        """Return the answer of a job, or Pending after ``wait_seconds``; redo the job once if necessary."""
        wait_seconds = self.settings.wait_seconds if wait_seconds is None else wait_seconds
        for attempt in range(2):
            update = await self.events.wait(job, wait_seconds)
            match update.job.state:
                case "done":
                    # The same key may have another solver or time limit.
                    answer = update.answer if update.job.request == task.text else None
                    answer = answer or await self.load_result(update.job, task)
                    if answer is not None:
                        return dict(answer)
                    # Its result is gone, or worse than this request allows: run it again, once.
                    job = await self._queue(task, seconds, afresh=True)
                case "failed" if attempt == 0 and update.job.request != task.text:  # submitted with another solver
                    job = await self._queue(task, seconds)
                case "failed":
                    raise update.error or SolveFailed(update.job.reason)
                case "cancelled":
                    raise JobCancelled("The job was cancelled; repeat the request to solve it again.")
                case _:
                    break
        return Pending(update.job)
