"""Process pool of the service and of precomputation: an asyncio interface to tasks in processes of their own.

Each process has a pipe and does one task at a time (`solver_cache.task_loop`), in bounds of time and memory; the event
loop never waits for a solve. It starts on first use, is reused for the next task, and is replaced after a crash or a
kill, when it has grown, or when it is old; an old one goes on until its successor is ready, as a start takes a second,
or many on a busy machine. Its parent listens to it in a thread of its own, so that not even half a message holds up the
event loop. A program without an event loop runs one in a thread (`solver_cache.precompute.executor`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
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
from dataclasses import dataclass
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from darrm_opt.errors import SolveFailed
from darrm_opt.optional_packages import posix_only
from solver_cache.task_loop import NICENESS, REPORT_SECONDS, PoolFunction, no_op, unpack_error

_LOG = logging.getLogger("solver_cache.process_pool")

STOP_SECONDS = 1.0
"""Time for a cancelled task to stop before its process is killed [s]."""

WATCH_SECONDS = 0.25
"""Time between checks of a working process's memory and time [s]."""

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

A fork would copy locks that other threads hold; `multiprocessing`, when it spawns, runs the program's main script once
more, which only scripts written for it survive. With -P nothing is imported from the current folder."""

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""As many processes as processors: threads would only quarrel. Read when NumPy is first imported."""


class RunOptions(TypedDict, total=False):
    """Options of `ProcessPool.run` that whoever passes a task on to a pool has as well."""

    time_limit: float | None
    processor_limit: float
    progress: Callable[[Any], None] | None


class ProcessLost(SolveFailed):
    """The process of a task is gone; the text says how it ended."""


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
        # Detached and shielded: a start goes on if its caller is cancelled, else a process would be lost half-made.
        acquiring, process = self._detach(self._acquire()), None
        try:
            process = await asyncio.shield(acquiring)
            self._counts["tasks"] += 1
            return await self._watch(process, process.run(task, argument, progress), *limits)
        finally:
            # The usual end needs no wait, so that the next task begins in the same turn of the loop.
            if process is not None and self._is_reusable(process):
                self._idle.append(process)
                self._put_successor(process)
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
        self._counts["killed"] += not process.killed  # one that is slow to go is killed again
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
            # The caller may be gone before its process was there: it is waited for, lest it be forgotten.
            process = await acquiring
        except Exception:  # noqa: BLE001 — there is none; whoever wanted it was told why
            process = None
        try:
            if process is None:
                return
            # A task may be in a library's loop that looks at nothing: after a grace only a kill ends it.
            if not await process.stop(STOP_SECONDS):
                _LOG.info("solver process %d did not stop within %g s and is killed", process.pid, STOP_SECONDS)
                self._kill(process, PoolClosed("The work was stopped."))
            elif not (process.lost or self._is_reusable(process)):
                self._counts["retired"] += 1
                process.end(PoolClosed("The process is replaced."))
            if process.lost or process.killed:
                await self._forget(process)
                # It was started for this process, and is ready: no task need wait for another start.
                if (successor := self._successors.get(process)) is not None:
                    del self._successors[process]
                    self._idle.append(successor)
            else:
                self._idle.append(process)
        finally:
            # Last, whatever happened: the place is free only when its process rests or is gone.
            self._release()

    def _is_reusable(self, process: PoolProcess) -> bool:
        """Tell whether the process can wait for the next task as it is."""
        return process.idle and process.memory <= self._memory / 2 and not self._closed

    def _put_successor(self, process: PoolProcess) -> None:
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
            self._put_successor(process)

    def _release(self) -> None:
        self._busy -= 1
        self._free.release()

    async def _forget(self, process: PoolProcess) -> None:
        await process.ended()
        if process in self._alive:
            self._alive.discard(process)
            self._counts["crashed"] += not process.killed


def start_process(name: str, report_seconds: float, niceness: int) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start an interpreter that runs tasks (`run_tasks`); return it and the end of its pipe.

    Takes some milliseconds and blocks.
    """
    posix_only("A pool of solver processes")
    ours, theirs = Pipe()
    command = [sys.executable, "-P", "-c", _BOOTSTRAP, str(theirs.fileno()), str(report_seconds), str(niceness), name]
    try:
        process = subprocess.Popen(  # noqa: S603 — ourselves
            command,
            env=_ONE_THREAD | os.environ,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    finally:
        theirs.close()  # or its end would never be noticed
    ours.send(sys.path)
    with contextlib.suppress(OSError):
        # where memory runs out all the same, it is that process that goes, not its parent
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("500", encoding="ascii")
    return process, ours


def lost(process: subprocess.Popen[bytes]) -> ProcessLost:
    """Return the error that says how a process ended."""
    code = process.returncode
    killed = code is not None and code < 0
    ending = f"was killed by {signal.Signals(-code).name}" if killed else f"ended by itself with exit code {code}"
    return ProcessLost(f"The solver process {ending}.")


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that closed its pipe, so that it never stays as a zombie; it is killed if it goes on."""
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


AHEAD = 2
"""Tasks that `map_in_processes` gives a process at a time: it has the next one while its answer is awaited."""


def map_in_processes(
    task: PoolFunction, arguments: Iterable[Any], workers: int, name: str = "worker"
) -> Iterator[tuple[Any, Any]]:
    """Yield each argument and what ``task(argument, report)`` returns for it, in order; processes work on them in turn.

    Raises:
        ProcessLost: a process ended by itself; what was yielded before stands.
    """
    numbered = enumerate(arguments)
    pending: deque[tuple[int, Any]] = deque()
    with contextlib.ExitStack() as stack:
        pipes = []
        for _ in range(workers):
            process, pipe = start_process(name, math.inf, NICENESS)
            stack.callback(reap, process)
            stack.callback(process.kill)
            stack.callback(pipe.close)
            pipes.append((process, pipe))

        def exchange(number: int, message: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
            process, pipe = pipes[number % workers]
            try:
                if message is not None:
                    pipe.send(message)
                    return message
                answer: tuple[Any, ...] = pipe.recv()
            except (OSError, EOFError) as err:
                reap(process)
                raise lost(process) from err
            return answer

        while True:
            for number, argument in itertools.islice(numbered, AHEAD * workers - len(pending)):
                exchange(number, (number, task, argument))
                pending.append((number, argument))
            if not pending:
                return
            number, argument = pending.popleft()
            _, kind, content = exchange(number)
            if kind != "done":
                err, trace = (unpack_error(content), content[1]) if kind == "failed" else (None, kind)
                raise err or SolveFailed(f"The task failed: {trace.strip().splitlines()[-1]}")
            yield argument, content


class PoolProcess:
    """One process, its pipe, and the thread that listens to it."""

    def __init__(self, name: str, report_seconds: float, niceness: int, loop: asyncio.AbstractEventLoop) -> None:
        """Start it; takes some milliseconds and blocks."""
        self._loop = loop
        self._process, self._connection = start_process(name, report_seconds, niceness)
        self.pid = self._process.pid
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
        """Resident memory [bytes]; 0 where the system does not say."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * mmap.PAGESIZE

    @property
    def processor_seconds(self) -> float:
        """Processor time that it has taken [s]; 0 where the system does not say."""
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
        """Begin a task; the future gets its answer or its error."""
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
        """Cancel the task, if there is one; return whether it stopped within ``grace`` seconds."""
        self._progress = None
        if self._answer is not None:
            self._answer.cancel()  # nobody waits for it any more; does nothing to one that is there
        if not self._resting.is_set() and not self.lost:
            self._send((self._number,))
        try:
            await asyncio.wait_for(self._resting.wait(), grace)
        except TimeoutError:
            return False
        return True

    def end(self, reason: SolveFailed) -> None:
        """Kill it; a running task ends with ``reason``."""
        if not self.lost:
            self.killed = True
            self._reason = self._reason or reason
            self._process.kill()

    async def ended(self) -> None:
        """Wait until it is gone, and close its pipe."""
        await self._gone.wait()
        if not self.reaped:
            self.reaped = True
            self._connection.close()

    def _send(self, message: tuple[Any, ...]) -> None:
        # The process reads at all times, so this does not wait, unless it is stopped and the message large.
        self._loop.run_in_executor(None, self._send_now, message)

    def _send_now(self, message: tuple[Any, ...]) -> None:
        try:
            with self._send_lock:
                self._connection.send(message)
        except (OSError, ValueError):
            pass  # it is gone; the listener says so
        except Exception as err:  # noqa: BLE001 — what cannot be pickled is the task's failure
            self._notify((message[0], "failed", (None, f"its argument cannot be sent: {err!r}")))

    def _listen(self) -> None:
        """Pass on the process's messages until it is gone (in a thread)."""
        try:
            while True:
                self._notify(_with_error(self._connection.recv()))
        except (EOFError, OSError):
            pass
        except Exception:  # noqa: BLE001 — bytes that are no message, whatever unpickling makes of them
            _LOG.error("solver process %d said what cannot be read", self.pid, exc_info=True)
            self._process.kill()
        reap(self._process)
        self._notify(None)

    def _notify(self, message: tuple[Any, ...] | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._receive, message)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            _LOG.debug("solver process %d spoke after the end", self.pid)

    def _receive(self, message: tuple[Any, ...] | None) -> None:
        if message is None:
            self._mark_lost()
            return
        number, kind, content = message
        # What an earlier task said before it noticed that it was cancelled.
        if number != self._number or self._answer is None:
            return
        if kind == "progress":
            if self._progress is not None:
                self._progress(content)
            return
        # Before the answer: who waits for it may look at once whether the process is free.
        self._resting.set()
        if self._answer.done():
            return
        if kind == "done":
            self._answer.set_result(content)
        elif kind == "failed":
            err, trace = content
            if not isinstance(err, SolveFailed):
                _LOG.debug("a task failed:\n%s", trace)
            # An error that cannot be rebuilt here is told by the last line of its trace.
            self._answer.set_exception(err or SolveFailed(f"The task failed: {trace.strip().splitlines()[-1]}"))
        else:
            self._answer.cancel()

    def _mark_lost(self) -> None:
        self.lost = True
        self._gone.set()
        self._resting.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._reason or lost(self._process))


def _with_error(message: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a message with its error unpacked: in a thread, as that may import a library, which takes seconds."""
    number, kind, content = message
    return (number, kind, (unpack_error(content), content[1])) if kind == "failed" else message
