"""Executors: the protocol, and processes of this machine; a process that dies loses only its current assignment."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from darrm_opt.errors import DarrmError
from darrm_opt.process import usable_processors
from solver_cache.precompute.worker import Assignment, Event, Work, perform, report_events, warm_up
from solver_cache.process_pool import PoolThread, ProcessLost


@dataclass(frozen=True)
class AssignmentEnded:
    """End of an assignment: all its events were reported."""


@dataclass(frozen=True)
class AssignmentLost:
    """Loss of an assignment: its worker was killed or is unreachable."""

    reason: str


End = AssignmentEnded | AssignmentLost  # last event of an assignment


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
        self.workers = workers or usable_processors()  # number of processes
        self._work, self._tasks = work, 0
        self._reports: queue.SimpleQueue[AssignmentReport] = queue.SimpleQueue()
        self._thread = PoolThread(self.workers, memory=None, name="precompute", report_seconds=0.0, warm_up=warm_up)
        self._thread.submit(self._thread.pool.prestart())  # its outcome does not matter

    @property
    def processes(self) -> tuple[int, ...]:
        """Ids of the live processes."""
        return self._thread.pool.processes

    @property
    def capacity(self) -> int:
        """Free slots: per process one running, and two that are ready when it ends."""
        return 3 * self.workers - self._tasks

    def submit(self, assignment: Assignment) -> None:
        """Submit an assignment."""
        self._tasks += 1
        report = partial(self._report, assignment.number)
        # Without retries: the scheduler decides about them.
        call = self._thread.pool.run(report_events, (self._work, assignment), progress=report, retries=0)
        self._thread.submit(call).add_done_callback(lambda future: report([_end_of(future)]))

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
        self._thread.close()

    def _report(self, number: int, events: list[Event | End]) -> None:
        self._reports.put(AssignmentReport(number, events))


def _end_of(future: Future[Any]) -> End:
    try:
        future.result()
    except ProcessLost as err:
        return AssignmentLost(str(err))
    except Exception as err:  # noqa: BLE001 — such as an unreachable shared store
        return AssignmentLost(f"{type(err).__name__}: {err}")
    return AssignmentEnded()
