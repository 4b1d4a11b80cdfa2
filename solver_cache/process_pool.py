"""Process pool of the service and of precomputation: an asyncio interface to tasks in worker processes.

Each process has a pipe and runs one task at a time (`solver_cache.task_loop`), within limits of time and memory; the
event loop never blocks. A process starts on first use, is reused, and is replaced after a crash or a kill, when it
has grown, or when it is old. An old process serves until its successor is ready, because a start takes a second, or
many on a busy machine. A thread of the parent reads its messages, so that not even a partial one blocks the event
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from darrm_opt.errors import SolveFailed
from darrm_opt.optional_packages import posix_only
from solver_cache.task_loop import NICENESS, REPORT_SECONDS, PoolFunction, no_op, unpack_error

_LOG = logging.getLogger("solver_cache.process_pool")

STOP_SECONDS = 1.0  # time for a cancelled task to stop before its process is killed
WATCH_SECONDS = 0.25  # interval between checks of a running task's memory and time

MEBIBYTE = 2**20

CLOSED = "The process pool is shutting down."

Result = TypeVar("Result")

_BOOTSTRAP = """\
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
sys.path[:] = connection.recv()
from solver_cache.task_loop import run_tasks
run_tasks(connection, float(sys.argv[2]), int(sys.argv[3]))
"""
"""Program of a new interpreter.

A fork would copy locks that other threads hold; `multiprocessing` spawns by running the main script again, which only
scripts written for it survive. -P prevents imports from the current folder.
"""

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""One process per processor: more threads would compete. NumPy reads it when first imported."""


class RunOptions(TypedDict, total=False):
    """Options of `ProcessPool.run`, for functions that pass a task on to a pool."""

    time_limit: float | None
    processor_limit: float
    progress: Callable[[Any], None] | None


class ProcessLost(SolveFailed):
    """The process of a task ended; the text says how."""


class TaskTimeout(SolveFailed):
    """A task exceeded its time limit, and its process was killed."""


class MemoryExceeded(SolveFailed):
    """A task exceeded its memory bound, and its process was killed."""


class PoolClosed(SolveFailed):
    """The pool is closed, or was closed during the task."""


@dataclass(frozen=True)
class PoolState:
    """State of a pool, for metrics and readiness."""

    size: int  # maximum number of processes
    alive: int  # live processes
    busy: int  # busy processes
    waiting: int  # tasks waiting for a process
    started: int  # processes started so far
    crashed: int  # processes that ended by themselves
    killed: int  # processes killed for a task that did not stop, or exceeded its time or memory
    retired: int  # processes replaced because of their age or size
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
        self._detached: set[asyncio.Task[Any]] = set()  # work that continues after its caller is gone
        self._successors: dict[PoolProcess, PoolProcess | None] = {}  # of old processes; None while starting
        self._counts: Counter[str] = Counter()
        self._busy = self._waiting = 0
        self._closed = False

    @property
    def state(self) -> PoolState:
        """Current state."""
        counts = {name: self._counts[name] for name in ("started", "crashed", "killed", "retired", "tasks")}
        return PoolState(self._size, len(self._alive), self._busy, self._waiting, **counts)

    @property
    def processes(self) -> tuple[int, ...]:
        """Ids of the live processes."""
        return tuple(sorted(each.pid for each in self._alive.copy() if not each.lost))  # other threads may read it

    async def prestart(self) -> None:
        """Start every process now."""
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

        If the caller is cancelled, so is the task; its process is killed unless it stops within `STOP_SECONDS`. A
        task whose process is lost is run again up to ``retries`` times.
        """
        while True:
            try:
                return await self._run_once(task, argument, (time_limit or math.inf, processor_limit), progress)
            except ProcessLost as err:
                if retries == 0 or self._closed:
                    raise
                retries -= 1
                _LOG.warning("%s; its task is retried", err)

    async def close(self) -> None:
        """End every process; running tasks raise `PoolClosed`. No process is left on return."""
        self._closed = True
        while self._alive or self._detached:
            for process in self._alive:
                process.end(PoolClosed(CLOSED))
            await asyncio.gather(*self._detached, *map(self._forget, tuple(self._alive)), return_exceptions=True)
            await asyncio.sleep(0)  # from Python 3.12 on, gathering finished tasks does not run their callbacks
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
        # Detached and shielded: a start continues if its caller is cancelled, or its process would leak.
        acquiring, process = self._detach(self._acquire()), None
        try:
            process = await asyncio.shield(acquiring)
            self._counts["tasks"] += 1
            return await self._watch(process, process.run(task, argument, progress), *limits)
        finally:
            # The usual case does not wait, so that the next task begins in this turn of the loop.
            if process is not None and self._is_reusable(process):
                self._idle.append(process)
                self._put_successor(process)
                self._release()
            else:
                self._detach(self._recycle(acquiring))

    def _detach(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start work that continues if the caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        return task

    async def _watch(
        self, process: PoolProcess, answer: asyncio.Future[Any], time_limit: float, processor_limit: float
    ) -> Any:
        """Wait for the answer; kill the process at a limit of time or memory."""
        began, processor_seconds = time.monotonic(), process.processor_seconds
        while not (await asyncio.wait({answer}, timeout=WATCH_SECONDS))[0]:
            if time.monotonic() - began > time_limit:
                self._kill(
                    process, TaskTimeout(f"The task exceeded its time limit of {time_limit:g} s and was stopped.")
                )
            elif process.processor_seconds - processor_seconds > processor_limit:
                spent = f"{processor_limit:g} s of processor time"
                self._kill(process, TaskTimeout(f"The task exceeded its limit of {spent} and was stopped."))
            elif process.memory > self._memory:
                bound = f"{self._memory // MEBIBYTE:.0f} MiB"
                self._kill(process, MemoryExceeded(f"The task exceeded its memory limit of {bound} and was stopped."))
        return answer.result()

    def _kill(self, process: PoolProcess, reason: SolveFailed) -> None:
        self._counts["killed"] += not process.killed  # a process that is slow to end is killed again
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
        """Stop what the process still does, and replace it if necessary."""
        try:
            # The caller may be cancelled before its process has started.
            process = await acquiring
        except Exception:  # noqa: BLE001 — reported to the caller
            process = None
        try:
            if process is None:
                return
            # a task inside a library call does not notice cancellation: only a kill ends it.
            if not await process.stop(STOP_SECONDS):
                _LOG.info("solver process %d did not stop within %g s; killing it", process.pid, STOP_SECONDS)
                self._kill(process, PoolClosed("The work was stopped."))
            elif not (process.lost or self._is_reusable(process)):
                self._counts["retired"] += 1
                process.end(PoolClosed("The process is replaced."))
            if process.lost or process.killed:
                await self._forget(process)
                # Its successor is ready: no task waits for another start.
                if (successor := self._successors.get(process)) is not None:
                    del self._successors[process]
                    self._idle.append(successor)
            else:
                self._idle.append(process)
        finally:
            # Last: a slot is free only once its process is idle or gone.
            self._release()

    def _is_reusable(self, process: PoolProcess) -> bool:
        """Whether the process can take the next task as it is."""
        return process.idle and process.memory <= self._memory / 2 and not self._closed

    def _put_successor(self, process: PoolProcess) -> None:
        """Replace an old idle process by its successor, or start the successor."""
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
        except Exception as err:  # noqa: BLE001 — the old process continues
            _LOG.warning("a process cannot be replaced: %s", err)
        if (
            successor is None or successor.lost or process.lost or process.killed
        ):  # a lost process has been replaced already
            del self._successors[process]
            if successor is not None:
                successor.end(PoolClosed("The process is not needed."))
                await self._forget(successor)
            return
        self._successors[process] = successor
        if process in self._idle:
            self._put_successor(process)

    def _release(self) -> None:
        self._busy -= 1
        self._free.release()

    async def _forget(self, process: PoolProcess) -> None:
        await process.ended()
        if process in self._alive:
            self._alive.discard(process)
            self._counts["crashed"] += not process.killed


class PoolThread:
    """A `ProcessPool` for callers without an event loop: it runs in a thread."""

    def __init__(self, size: int, **options: Any) -> None:
        posix_only("A pool of solver processes")
        self.pool = ProcessPool(size, **options)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pool", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a call of the pool, such as ``self.pool.run(task, argument)``; return its future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """End every process; running tasks raise `PoolClosed`."""
        self.submit(self.pool.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._runner.close()


AHEAD = 2  # tasks per process of `map_in_processes`: the next one is queued while the answer is awaited


def map_in_processes(
    task: PoolFunction, arguments: Iterable[Any], workers: int, name: str = "worker"
) -> Iterator[tuple[Any, Any]]:
    """Yield each argument with the result of ``task(argument, report)``, in order, from several processes.

    Raises:
        ProcessLost: a process ended by itself.
    """
    pending: deque[tuple[Any, Future[Any]]] = deque()
    with contextlib.closing(PoolThread(workers, memory=None, name=name)) as thread:
        for argument in arguments:
            pending.append((argument, thread.submit(thread.pool.run(task, argument, retries=0))))
            if len(pending) == AHEAD * workers:
                first, result = pending.popleft()
                yield first, result.result()
        for first, result in pending:
            yield first, result.result()


class PoolProcess:
    """One process, its pipe, and the thread that reads it."""

    def __init__(self, name: str, report_seconds: float, niceness: int, loop: asyncio.AbstractEventLoop) -> None:
        """Start an interpreter that runs `run_tasks`; blocks for milliseconds."""
        posix_only("A pool of solver processes")
        self._loop = loop
        self._connection, theirs = Pipe()
        numbers = str(theirs.fileno()), str(report_seconds), str(niceness)
        try:
            self._process = subprocess.Popen(  # noqa: S603 — our own interpreter
                [sys.executable, "-P", "-c", _BOOTSTRAP, *numbers, name],
                env=_ONE_THREAD | os.environ,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        finally:
            theirs.close()  # so that the end of the process closes the pipe
        self._connection.send(sys.path)
        self.pid = self._process.pid
        with contextlib.suppress(OSError):
            # when memory runs out, the kernel kills this process, not its parent
            Path(f"/proc/{self.pid}/oom_score_adj").write_text("500", encoding="ascii")
        self.tasks = 0
        self.lost = self.killed = self.reaped = False
        self._numbers = count(1)
        self._number = 0
        self._answer: asyncio.Future[Any] | None = None
        self._progress: Callable[[Any], None] | None = None
        self._resting, self._gone = asyncio.Event(), asyncio.Event()
        self._resting.set()
        self._reason: SolveFailed | None = None
        self._send_lock = threading.Lock()
        threading.Thread(target=self._listen, name=f"{name}-listener", daemon=True).start()

    @classmethod
    async def start(cls, name: str, report_seconds: float, niceness: int) -> PoolProcess:
        """Return a new process, started in a thread."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(None, cls, name, report_seconds, niceness, loop))

    @property
    def memory(self) -> int:
        """Resident memory [bytes]; 0 if unknown."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * mmap.PAGESIZE

    @property
    def processor_seconds(self) -> float:
        """Processor time [s]; 0 if unknown."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
            return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError):
            return 0.0

    @property
    def idle(self) -> bool:
        """Whether it is alive and has no task."""
        return self._resting.is_set() and not self.lost and not self.killed

    def run(self, task: PoolFunction, argument: Any, progress: Callable[[Any], None] | None) -> asyncio.Future[Any]:
        """Start a task; return the future of its answer."""
        self._number, self._progress = next(self._numbers), progress
        self._answer = self._loop.create_future()
        self._resting.clear()
        self.tasks += 1
        if self.lost:
            self._mark_lost()
        else:
            self._send((self._number, task, argument))
        return self._answer

    async def stop(self, grace: float) -> bool:
        """Cancel the task, if any; return whether it stopped within ``grace`` seconds."""
        self._progress = None
        if self._answer is not None:
            self._answer.cancel()  # no effect on a finished one
        if not self._resting.is_set() and not self.lost:
            self._send((self._number,))
        try:
            await asyncio.wait_for(self._resting.wait(), grace)
        except TimeoutError:
            return False
        return True

    def end(self, reason: SolveFailed) -> None:
        """Kill it; a running task fails with ``reason``."""
        if not self.lost:
            self.killed = True
            self._reason = self._reason or reason
            self._process.kill()

    async def ended(self) -> None:
        """Wait until it has ended, and close its pipe."""
        await self._gone.wait()
        if not self.reaped:
            self.reaped = True
            self._connection.close()

    def _send(self, message: tuple[Any, ...]) -> None:
        # The process always reads, so this blocks only for a large message to a suspended process.
        self._loop.run_in_executor(None, self._send_now, message)

    def _send_now(self, message: tuple[Any, ...]) -> None:
        try:
            with self._send_lock:
                self._connection.send(message)
        except (OSError, ValueError):
            pass  # it has ended; the listener reports it
        except Exception as err:  # noqa: BLE001 — it cannot be pickled: the task has failed
            self._notify((message[0], "failed", (None, f"its argument cannot be sent: {err!r}")))

    def _listen(self) -> None:
        """Forward the messages of the process until it ends (in a thread)."""
        try:
            while True:
                self._notify(_with_error(self._connection.recv()))
        except (EOFError, OSError):
            pass
        except Exception:  # noqa: BLE001 — invalid bytes can raise anything when unpickled
            _LOG.error("solver process %d sent an unreadable message", self.pid, exc_info=True)
            self._process.kill()
        try:  # leave no zombie
            self._process.wait(1)
        except subprocess.TimeoutExpired:  # it closed its pipe, but continues
            self._process.kill()
            self._process.wait()
        self._notify(None)

    def _notify(self, message: tuple[Any, ...] | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._receive, message)
        except RuntimeError:  # the loop is closed
            _LOG.debug("solver process %d sent a message after the end", self.pid)

    def _receive(self, message: tuple[Any, ...] | None) -> None:
        if message is None:
            self._mark_lost()
            return
        number, kind, content = message
        # a message of an earlier task, sent before it noticed its cancellation
        if number != self._number or self._answer is None:
            return
        if kind == "progress":
            if self._progress is not None:
                self._progress(content)
            return
        # Before the answer: its receiver may check at once whether the process is idle.
        self._resting.set()
        if self._answer.done():
            return
        if kind == "done":
            self._answer.set_result(content)
        elif kind == "failed":
            err, trace = content
            if not isinstance(err, SolveFailed):
                _LOG.debug("a task failed:\n%s", trace)
            # an error that cannot be rebuilt here is reported by the last line of its trace.
            self._answer.set_exception(err or SolveFailed(f"The task failed: {trace.strip().splitlines()[-1]}"))
        else:
            self._answer.cancel()

    def _mark_lost(self) -> None:
        self.lost = True
        self._gone.set()
        self._resting.set()
        if self._answer is not None and not self._answer.done():
            code = self._process.returncode
            end = (
                f"ended by itself with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
            )
            self._answer.set_exception(self._reason or ProcessLost(f"The solver process {end}."))


def _with_error(message: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a message with its error unpacked: in a thread, because importing its class may take seconds."""
    number, kind, content = message
    return (number, kind, (unpack_error(content), content[1])) if kind == "failed" else message
