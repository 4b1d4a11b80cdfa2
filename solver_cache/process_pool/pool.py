"""Process pool: an asyncio interface to tasks in processes of their own; the event loop never waits for a solve.

Each process has a pipe and does one task at a time (`solver_cache.process_pool.task_loop`). It starts on first use, is
reused for the next task, and is replaced after a crash or a kill, when it has grown, or when it is old; an old one goes
on until its successor is ready, as a start takes a second, or many on a busy machine. Its parent listens to it in a
thread of its own, so that not even half a message holds up the event loop. A program without an event loop runs one in
a thread (`solver_cache.precompute.executor`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from darrm_opt.errors import SolveFailed
from solver_cache.process_pool.process import PoolProcess, ProcessLost
from solver_cache.process_pool.task_loop import NICENESS, REPORT_SECONDS, PoolFunction, no_op

_LOG = logging.getLogger("solver_cache.process_pool")

STOP_SECONDS = 1.0
"""Time for a cancelled task to stop before its process is killed [s]."""

WATCH_SECONDS = 0.25
"""Time between checks of a working process's memory and time [s]."""

MEBIBYTE = 2**20

CLOSED = "The process pool is shutting down."

Result = TypeVar("Result")


class TaskTimeout(SolveFailed):
    """A task exceeded its time limit, and its process was killed."""


class MemoryExceeded(SolveFailed):
    """A task exceeded its memory bound, and its process was killed."""


class PoolClosed(SolveFailed):
    """The pool is closed, or was closed during the task."""


@dataclass(frozen=True)
class PoolState:
    """State of a pool, for metrics and readiness."""

    size: int  # processes at most
    alive: int  # processes there are
    busy: int  # those at work
    waiting: int  # tasks that wait for one
    started: int  # processes started so far
    crashed: int  # those that ended by themselves
    killed: int  # those that were killed: a task that would not stop, took too long or grew too large
    retired: int  # those that were replaced because they had served long or grown
    tasks: int  # tasks begun so far


class ProcessPool:
    """Pool of processes that run tasks. For use within one event loop."""

    def __init__(
        self,
        size: int,
        *,
        memory: int | None = 2048,
        max_tasks: int = 500,
        name: str = "solver",
        report_seconds: float = REPORT_SECONDS,
        warm_up: PoolFunction = no_op,
        niceness: int = NICENESS,
    ) -> None:
        self._size, self._max_tasks, self._name, self._report_seconds = size, max_tasks, name, report_seconds
        self._warm_up, self._niceness = warm_up, niceness
        self._memory = math.inf if memory is None else memory * MEBIBYTE
        self._free = asyncio.Semaphore(size)
        self._idle: deque[PoolProcess] = deque()
        self._alive: set[PoolProcess] = set()
        self._detached: set[asyncio.Task[Any]] = set()  # what goes on although nobody waits for it
        self._successors: dict[PoolProcess, PoolProcess | None] = {}  # of old processes; None while it starts
        self._counts: Counter[str] = Counter()
        self._busy = self._waiting = 0
        self._closed = False

    @property
    def state(self) -> PoolState:
        """The present state."""
        counts = {name: self._counts[name] for name in ("started", "crashed", "killed", "retired", "tasks")}
        return PoolState(self._size, len(self._alive), self._busy, self._waiting, **counts)

    @property
    def processes(self) -> tuple[int, ...]:
        """Ids of the live processes."""
        return tuple(sorted(process.pid for process in self._alive.copy()))  # other threads may ask

    async def prestart(self) -> None:
        """Start every process now, rather than on first use."""
        await asyncio.gather(*(self.run(self._warm_up, None) for _ in range(self._size)))

    async def run(
        self,
        task: PoolFunction,
        argument: Any,
        *,
        time_limit: float | None = None,
        processor_limit: float = math.inf,
        progress: Callable[[Any], None] | None = None,
        retries: int = 1,
    ) -> Any:
        """Return what ``task(argument, report)`` returns in a process of the pool.

        Whoever waits can be cancelled at any time: the task is then told to stop, and its process is killed if it does
        not within `STOP_SECONDS`.
        """
        while True:
            try:
                return await self._run_once(task, argument, (time_limit or math.inf, processor_limit), progress)
            except ProcessLost as err:
                if retries == 0 or self._closed:
                    raise
                retries -= 1
                _LOG.warning("%s; its task is begun once more", err)

    async def close(self) -> None:
        """End every process; running tasks raise `PoolClosed`. No process is left when this returns."""
        self._closed = True
        while self._alive or self._detached:
            for process in self._alive:
                process.end(PoolClosed(CLOSED))
            await asyncio.gather(*self._detached, *map(self._forget, tuple(self._alive)), return_exceptions=True)
            await asyncio.sleep(0)  # from Python 3.12 on, gathering what is done gives its callbacks no turn
        self._idle.clear()

    async def _run_once(
        self, task: PoolFunction, argument: Any, limits: tuple[float, float], progress: Callable[[Any], None] | None
    ) -> Any:
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        self._busy += 1
        acquiring, process = self._detach(self._acquire()), None
        try:
            process = await asyncio.shield(acquiring)
            self._counts["tasks"] += 1
            return await self._watch(process, process.run(task, argument, progress), *limits)
        finally:
            if process is not None and self._is_reusable(process):
                self._idle.append(process)
                self._succeed(process)
                self._release()
            else:
                self._detach(self._recycle(acquiring))

    def _detach(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin work that continues even if the caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        return task

    async def _watch(
        self, process: PoolProcess, answer: asyncio.Future[Any], time_limit: float, processor_limit: float
    ) -> Any:
        """Wait for the answer; kill the process if it takes too long or grows too large."""
        began, processor_seconds = time.monotonic(), process.processor_seconds
        while not (await asyncio.wait({answer}, timeout=WATCH_SECONDS))[0]:
            if time.monotonic() - began > time_limit:
                self._kill(process, TaskTimeout(f"Nothing was returned within {time_limit:g} s; the work was stopped."))
            elif process.processor_seconds - processor_seconds > processor_limit:
                spent = f"{processor_limit:g} s of processor time"
                self._kill(process, TaskTimeout(f"Nothing was returned within {spent}; the work was stopped."))
            elif process.memory > self._memory:
                bound = f"{self._memory // MEBIBYTE:.0f} MiB"
                self._kill(process, MemoryExceeded(f"The solve needs more memory than the {bound} that it may take."))
        return answer.result()

    def _kill(self, process: PoolProcess, reason: SolveFailed) -> None:
        self._counts["killed"] += 1
        process.end(reason)

    async def _acquire(self) -> PoolProcess:
        """Return an idle process, or a new one."""
        while self._idle:
            process = self._idle.pop()
            if not process.lost:
                return process
            await self._forget(process)
        return await self._start()

    async def _start(self) -> PoolProcess:
        if self._closed:
            raise PoolClosed(CLOSED)
        self._counts["started"] += 1
        process = await PoolProcess.start(
            f"{self._name}-{self._counts['started']}", self._report_seconds, self._niceness
        )
        self._alive.add(process)
        return process

    async def _recycle(self, acquiring: asyncio.Task[PoolProcess]) -> None:
        """Make the process ready for the next task: stop what it still does, and replace it if need be."""
        try:
            process = await acquiring
        except Exception:  # noqa: BLE001 — there is none; whoever wanted it was told why
            process = None
        try:
            if process is None:
                return
            if not await process.stop(STOP_SECONDS):
                _LOG.info("solver process %d did not stop within %g s and is killed", process.pid, STOP_SECONDS)
                self._kill(process, PoolClosed("The work was stopped."))
            elif not (process.lost or self._is_reusable(process)):
                self._counts["retired"] += 1
                process.end(PoolClosed("The process is replaced."))
            if process.lost or process.killed:
                await self._forget(process)
                if (successor := self._successors.get(process)) is not None:
                    del self._successors[process]
                    self._idle.append(successor)
            else:
                self._idle.append(process)
        finally:
            self._release()

    def _is_reusable(self, process: PoolProcess) -> bool:
        """Tell whether the process can wait for the next task as it is."""
        return process.idle and process.memory <= self._memory / 2 and not self._closed

    def _succeed(self, process: PoolProcess) -> None:
        """Put the successor of an old process that rests into its place; start it, if that has not begun."""
        if process.tasks < self._max_tasks:
            return
        if process not in self._successors:
            self._successors[process] = None
            self._detach(self._start_successor(process))
        elif (successor := self._successors[process]) is not None:
            del self._successors[process]
            self._idle.remove(process)
            self._idle.append(successor)
            self._counts["retired"] += 1
            process.end(PoolClosed("The process is replaced."))
            self._detach(self._forget(process))

    async def _start_successor(self, process: PoolProcess) -> None:
        successor = None
        try:
            successor = await self._start()
            await successor.run(self._warm_up, None, None)
        except Exception as err:  # noqa: BLE001 — whatever it is, the old process goes on
            _LOG.warning("a process could not be replaced: %s", err)
        if successor is None or successor.lost or process.lost or process.killed:  # who is gone has been replaced
            del self._successors[process]
            if successor is not None:
                successor.end(PoolClosed("The process is not needed."))
                await self._forget(successor)
            return
        self._successors[process] = successor
        if process in self._idle:
            self._succeed(process)

    def _release(self) -> None:
        self._busy -= 1
        self._free.release()

    async def _forget(self, process: PoolProcess) -> None:
        await process.ended()
        if process in self._alive:
            self._alive.discard(process)
            self._counts["crashed"] += not process.killed
