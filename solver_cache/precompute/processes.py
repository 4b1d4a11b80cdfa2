"""This machine's processes: a pipe to each, so that a process that dies takes nothing with it but what it was doing.

(`concurrent.futures` gives up a whole pool when one of its processes dies, and does not say which task it was at.)
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from solver_cache.precompute.executor import ExecutorEvent, TaskEnded, TaskLost, Work
from solver_cache.precompute.worker import Task, perform

SHUTDOWN_SECONDS = 5.0
"""How long a process may take to end when it is events to [s]."""


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Process:
    process: BaseProcess
    pipe: Connection
    task: Task | None = None


class Processes:
    """An `Executor` of processes, started when they are first needed and replaced when they die.

    Args:
        workers: how many; None: one for each processor.
        work: what they do.
    """

    streams = True

    def __init__(self, workers: int | None = None, work: Work = perform) -> None:
        self._max_workers, self._work = workers or processors(), work
        self._context = multiprocessing.get_context("spawn")  # solvers do not survive a fork
        self._processes: list[_Process] = []
        self._waiting: deque[Task] = deque()

    @property
    def workers(self) -> int:
        """How many processes there are at most."""
        return self._max_workers

    @property
    def capacity(self) -> int:
        """Free processes, and one task in reserve: the next one is claimed while all are busy."""
        busy = sum(each.task is not None for each in self._processes)
        return self._max_workers + 1 - busy - len(self._waiting)

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [each.process.pid for each in self._processes if each.process.pid is not None]

    def submit(self, task: Task) -> None:
        """Take a task."""
        self._waiting.append(task)
        self._dispatch()

    def poll(self, seconds: float) -> list[ExecutorEvent]:
        """Return what happened; a process that died has lost its task."""
        events: list[ExecutorEvent] = []
        pipes = {each.pipe: each for each in self._processes}
        if not pipes:
            return events
        for ready in wait([*pipes], timeout=seconds):
            each = pipes[ready]  # type: ignore[index]  # what was waited for are pipes
            while True:
                try:
                    if not each.pipe.poll():
                        break
                    event: ExecutorEvent = each.pipe.recv()
                except (EOFError, OSError):
                    events += self._handle_death(each)
                    break
                events.append(event)
                if isinstance(event.what, TaskEnded | TaskLost):
                    each.task = None
                    break
        self._dispatch()
        return events

    def close(self) -> None:
        """End the processes: what they are doing is lost."""
        self._waiting.clear()
        for each in self._processes:
            each.process.terminate()
            each.pipe.close()
        for each in self._processes:
            each.process.join(SHUTDOWN_SECONDS)
            if each.process.is_alive():
                each.process.kill()
                each.process.join()
        self._processes.clear()

    def _dispatch(self) -> None:
        while self._waiting:
            free = next((each for each in self._processes if each.task is None), None)
            if free is None:
                if len(self._processes) >= self._max_workers:
                    return
                free = self._start()
            free.task = self._waiting.popleft()
            with contextlib.suppress(OSError):  # it died while it was idle: the next look finds out
                free.pipe.send(free.task)

    def _start(self) -> _Process:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._work), daemon=True, name="precompute")
        process.start()
        theirs.close()  # so that its end is the end of the pipe
        self._processes.append(_Process(process, mine))
        return self._processes[-1]

    def _handle_death(self, each: _Process) -> list[ExecutorEvent]:
        each.process.join(SHUTDOWN_SECONDS)
        if each.process.is_alive():  # its pipe broke, not the process
            each.process.kill()
            each.process.join()
        each.pipe.close()
        self._processes.remove(each)
        if each.task is None:
            return []
        code = each.process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return [ExecutorEvent(each.task.number, TaskLost(f"its process {how}"))]


def _serve(pipe: Connection, work: Work) -> None:
    """Do tasks until nobody is left to give any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the one that hands out
    with contextlib.suppress(EOFError, OSError):
        while True:
            task: Task = pipe.recv()
            try:
                for event in work(task):
                    pipe.send(ExecutorEvent(task.number, event))
            except OSError:
                raise
            except Exception as err:  # noqa: BLE001 — such as a shared store that is gone
                pipe.send(ExecutorEvent(task.number, TaskLost(f"{type(err).__name__}: {err}")))
            else:
                pipe.send(ExecutorEvent(task.number, TaskEnded()))
