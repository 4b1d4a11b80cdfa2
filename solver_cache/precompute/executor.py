"""Executors: the protocol, and processes of this machine; a process that dies loses only its current assignment.

A thread per process sends assignments and forwards reports; a quick assignment is sent while the process is still
busy, so that it never waits. The service, whose event loop must not block, uses `solver_cache.process_pool`.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

from darrm_opt.errors import DarrmError, SolveFailed
from darrm_opt.optional_packages import posix_only
from darrm_opt.process import usable_processors
from solver_cache.precompute.worker import Assignment, Event, Work, perform, report_events, warm_up
from solver_cache.process_pool import ProcessLost, lost, reap, start_process
from solver_cache.task_loop import NICENESS, PoolFunction, unpack_error

AHEAD_SECONDS = 1.0
"""Longest expected work of an assignment that is sent ahead, and of the one before it: it cannot be taken back."""


@dataclass(frozen=True)
class AssignmentEnded:
    """End of an assignment: all its events were reported."""


@dataclass(frozen=True)
class AssignmentLost:
    """Loss of an assignment: its worker was killed or is unreachable."""

    reason: str


End = AssignmentEnded | AssignmentLost
"""Last event of an assignment."""


@dataclass(frozen=True)
class AssignmentReport:
    """Events of an assignment, in order; the last event of the last report is an `End`."""

    number: int
    events: Sequence[Event | End]


class ExecutorLost(DarrmError):
    """No worker is left. Stored answers stay; run again to continue."""


class Executor(Protocol):
    """Runs assignments.

    Attributes:
        streams: whether events are reported during an assignment, those of a careful one at once: so a lost worker
            was working on the first problem without an event. Else events are reported at its end.
    """

    streams: bool

    @property
    def workers(self) -> int:
        """Number of assignments that run at once."""

    @property
    def capacity(self) -> int:
        """How many more assignments keep all workers busy."""

    def submit(self, assignment: Assignment) -> None:
        """Submit an assignment."""

    def poll(self, seconds: float) -> list[AssignmentReport]:
        """Return what happened since the last call; wait up to ``seconds`` for something."""

    def close(self) -> None:
        """End its workers."""


class Processes:
    """An `Executor` of local processes, which start in the background and are replaced when they die."""

    streams = True

    def __init__(self, workers: int | None = None, work: Work = perform) -> None:
        posix_only("A pool of solver processes")
        self._work, self._tasks = work, 0
        self._waiting: deque[Assignment] = deque()
        self._changed, self._closed = threading.Condition(), False
        self._reports: queue.SimpleQueue[AssignmentReport] = queue.SimpleQueue()
        self._processes = [
            _Process(f"precompute-{number}") for number in range(1, (workers or usable_processors()) + 1)
        ]
        self._threads = [
            threading.Thread(target=self._serve, args=(each,), name=f"{each.name}-listener", daemon=True)
            for each in self._processes
        ]
        for thread in self._threads:
            thread.start()

    @property
    def workers(self) -> int:
        """Number of processes."""
        return len(self._processes)

    @property
    def processes(self) -> tuple[int, ...]:
        """Ids of the live processes."""
        return tuple(each.pid for each in self._processes if each.pid)

    @property
    def capacity(self) -> int:
        """Free slots: per process one running, one sent ahead, and one claimed in reserve."""
        return 3 * self.workers - self._tasks

    def submit(self, assignment: Assignment) -> None:
        """Submit an assignment."""
        self._tasks += 1
        with self._changed:
            self._waiting.append(assignment)
            self._changed.notify()

    def poll(self, seconds: float) -> list[AssignmentReport]:
        """Return what happened; a process that died has lost its assignment."""
        reports: list[AssignmentReport] = []
        if not self._tasks:
            return reports
        try:
            reports.append(self._reports.get(timeout=seconds))
            while True:
                reports.append(self._reports.get_nowait())
        except queue.Empty:
            self._tasks -= sum(isinstance(report.events[-1], End) for report in reports)
            return reports

    def close(self) -> None:
        """End the processes, with their work."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for process in self._processes:
            process.end()
        for thread in self._threads:
            thread.join()

    def _serve(self, process: _Process) -> None:
        """Send assignments to a process until it ends (in a thread). The scheduler decides about retries."""
        process.run(warm_up, None, lambda _: None)  # its outcome does not matter
        following: Assignment | None = None

        def send_ahead(before: Assignment) -> tuple[Work, Assignment] | None:
            nonlocal following
            following = following or self._next_quick(before)
            return (self._work, following) if following else None

        while not process.ended and (assignment := following or self._next()) is not None:
            following, report = None, partial(self._report, assignment.number)
            report([process.run(report_events, (self._work, assignment), report, partial(send_ahead, assignment))])
        process.close()

    def _next(self) -> Assignment | None:
        """Wait for an assignment; None once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return None if self._closed else self._waiting.popleft()

    def _next_quick(self, before: Assignment) -> Assignment | None:
        """Return an assignment to send ahead to a busy process, if enough is left for the others."""
        with self._changed:
            if 2 * len(self._waiting) < self.workers or max(before.seconds, self._waiting[0].seconds) > AHEAD_SECONDS:
                return None
            return self._waiting.popleft()

    def _report(self, number: int, events: list[Event | End]) -> None:
        self._reports.put(AssignmentReport(number, events))


class _Process:
    """Process that runs one task at a time and is replaced when it dies. For one thread, except `end` and `pid`."""

    def __init__(self, name: str) -> None:
        self.name, self.ended = name, False
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._sent_ahead = False
        self._lock = threading.Lock()  # so that none starts after `end`

    @property
    def pid(self) -> int:
        """Process id; 0 without a process."""
        running = self._running
        return running[0].pid if running is not None and running[0].poll() is None else 0

    def run(
        self,
        function: PoolFunction,
        argument: Any,
        report: Callable[[list[Event | End]], None],
        send_ahead: Callable[[], Any | None] = lambda: None,
    ) -> End:
        """Run a function; return how it ended.

        The argument that `send_ahead` returns is sent meanwhile, and must be that of the next call: a process that
        dies has not started it, and the next call sends it to a new process.
        """
        try:
            if self._sent_ahead and self._running is not None:
                connection = self._running[1]
            else:
                connection = self._begun()
                connection.send((1, function, argument))
            self._sent_ahead = False
            while True:
                if not self._sent_ahead and (following := send_ahead()) is not None:
                    with contextlib.suppress(Exception):  # the next call fails likewise and reports it
                        connection.send((1, function, following))
                        self._sent_ahead = True
                _, what, content = connection.recv()
                if what != "progress":
                    break
                report(content)
        except Exception as err:  # noqa: BLE001 — it died, could not start, or sent an unreadable message
            end = self.close()
            return AssignmentLost(
                end if end and isinstance(err, EOFError | OSError) else f"{type(err).__name__}: {err}"
            )
        if what == "done":
            return AssignmentEnded()
        failure = unpack_error(content) or SolveFailed(f"The task failed: {content[1].strip().splitlines()[-1]}")
        return AssignmentLost(f"{type(failure).__name__}: {failure}")  # such as an unreachable shared store

    def end(self) -> None:
        """Kill it, and start no other."""
        with self._lock:
            self.ended = True
            if (running := self._running) is not None:
                running[0].kill()

    def close(self) -> str:
        """Wait until it has ended; return how, or an empty text without a process."""
        if self._running is None:
            return ""
        (process, connection), self._running, self._sent_ahead = self._running, None, False
        connection.close()
        reap(process)
        return str(lost(process))

    def _begun(self) -> Connection:
        """Return the pipe of the process, or of a new one if it died while idle."""
        with self._lock:
            if self.ended:
                raise ProcessLost("The processes are shutting down.")
            if self._running is None or self._running[0].poll() is not None:
                self.close()
                self._running = start_process(self.name, 0.0, NICENESS)
            return self._running[1]
