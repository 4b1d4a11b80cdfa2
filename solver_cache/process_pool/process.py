"""Process of the pool, from the parent's side: its pipe, the thread that listens to it, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from darrm_opt.errors import SolveFailed
from darrm_opt.optional_packages import posix_only
from solver_cache.process_pool.task_loop import PoolFunction, unpack_error

_LOG = logging.getLogger("solver_cache.process_pool")

_BOOTSTRAP = """\
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
sys.path[:] = connection.recv()
from solver_cache.process_pool.task_loop import run_tasks
run_tasks(connection, float(sys.argv[2]), int(sys.argv[3]))
"""
"""Program of a new interpreter.

A fork would copy locks that other threads hold; `multiprocessing`, when it spawns, runs the program's main script once
more, which only scripts written for it survive. With -P nothing is imported from the current folder."""

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""As many processes as processors: threads would only quarrel. Read when NumPy is first imported."""


class ProcessLost(SolveFailed):
    """The process of a task is gone; the text says how it ended."""


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
        if number != self._number or self._answer is None:
            return
        if kind == "progress":
            if self._progress is not None:
                self._progress(content)
            return
        self._resting.set()
        if self._answer.done():
            return
        if kind == "done":
            self._answer.set_result(content)
        elif kind == "failed":
            err, trace = content
            if not isinstance(err, SolveFailed):
                _LOG.debug("a task failed:\n%s", trace)
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
