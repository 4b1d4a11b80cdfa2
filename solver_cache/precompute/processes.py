"""Local processes: an `Executor` on the process pool, where a process that dies loses only the task it was at."""

from __future__ import annotations

import asyncio
import os
import queue
import threading

from solver_cache.precompute.executor import TaskEnded, TaskLost, TaskReport
from solver_cache.precompute.worker import Event, Task, Work, perform, report_events, warm_up
from solver_cache.process_pool.pool import PoolClosed, ProcessPool
from solver_cache.process_pool.process import ProcessLost


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """An `Executor` of processes, which start at once, while the caller goes on, and are replaced when they die.

    The pool's event loop runs in a thread; its reports reach `poll` through a queue.

    Args:
        workers: how many; None: one for each processor.
        work: what they do.
    """

    streams = True

    def __init__(self, workers: int | None = None, work: Work = perform) -> None:
        self._max_workers, self._work = workers or processors(), work
        self._pool = ProcessPool(self._max_workers, memory=None, name="precompute", report_seconds=0, warm_up=warm_up)
        self._reports: queue.SimpleQueue[TaskReport] = queue.SimpleQueue()
        self._tasks = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="precompute-pool", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._pool.prestart(), self._loop)  # nobody waits: tasks find what there is

    @property
    def workers(self) -> int:
        """How many processes there are at most."""
        return self._max_workers

    @property
    def capacity(self) -> int:
        """Free processes, and a task in reserve for each: it is claimed while all are busy."""
        return 2 * self._max_workers - self._tasks

    def submit(self, task: Task) -> None:
        """Take a task."""
        self._tasks += 1
        asyncio.run_coroutine_threadsafe(self._run(task), self._loop)

    def poll(self, seconds: float) -> list[TaskReport]:
        """Return what happened; a process that died has lost its task."""
        reports: list[TaskReport] = []
        if not self._tasks:
            return reports
        try:
            reports.append(self._reports.get(timeout=seconds))
            while True:
                reports.append(self._reports.get_nowait())
        except queue.Empty:
            self._tasks -= sum(isinstance(report.events[-1], TaskEnded | TaskLost) for report in reports)
            return reports

    def close(self) -> None:
        """End the processes: what they are doing is lost."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self, task: Task) -> None:
        """Run a task in the pool. The scheduler decides about retries, as it knows which problem the process was at."""
        over: TaskEnded | TaskLost = TaskEnded()

        def pass_on(events: list[Event]) -> None:
            self._reports.put(TaskReport(task.number, events))

        try:
            await self._pool.run(report_events, (self._work, task), progress=pass_on, retries=0)
        except PoolClosed:
            return
        except ProcessLost as err:
            over = TaskLost(str(err))
        except Exception as err:  # noqa: BLE001 — such as a shared store that is gone
            over = TaskLost(f"{type(err).__name__}: {err}")
        self._reports.put(TaskReport(task.number, [over]))

    async def _close(self) -> None:
        """End the processes, and whatever else the loop runs."""
        await self._pool.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        await self._loop.shutdown_default_executor()
