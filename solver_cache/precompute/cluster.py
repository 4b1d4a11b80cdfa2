"""Dask cluster: workers on this or other machines, through a scheduler.

Dask reassigns work when a worker dies. Work that it gives up (an assignment that killed several workers, a lost
scheduler) is reported as lost, and the run decides. A scheduler that returns at its address is rejoined. Without
workers, and none returning, the run ends.
"""

from __future__ import annotations

import logging
import pickle
import queue
import time
import uuid
from dataclasses import replace
from typing import Any

from darrm_opt.errors import InvalidInput
from darrm_opt.optional_packages import require
from solver_cache.precompute.executor import AssignmentEnded, AssignmentLost, AssignmentReport, End, ExecutorLost
from solver_cache.precompute.worker import Assignment, Event, Work, perform, retried

RETRY_SECONDS = 60.0  # longest wait for a Dask scheduler that does not respond, or has no worker
TASKS_PER_THREAD = 2  # tasks per thread of the cluster: one running, one on its way
SHUTDOWN_SECONDS = 30.0  # time limit for ending a local scheduler and its workers

_LOG = logging.getLogger("solver_cache.precompute")


class Cluster:
    """An `Executor` on Dask."""

    streams = False

    def __init__(
        self,
        scheduler: str | None = None,
        workers: int | None = None,
        work: Work = perform,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        require("distributed", "A run on Dask")
        from darrm_opt.process import usable_processors

        self._work, self._retry_seconds = work, retry_seconds
        self._finished: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._futures: dict[int, Any] = {}
        self._threads = 1
        self._without_workers_since: float | None = None
        self._local: Any = None
        if scheduler is None:
            # a local cluster ends with the run.
            self._local = _local(workers or usable_processors())
            scheduler = str(self._local.scheduler_address)
        elif "://" not in scheduler:
            raise InvalidInput("scheduler", scheduler, "an address such as tcp://HOST:8786")
        self.address = scheduler
        self._client: Any = self._connect()
        self._count_threads()

    @property
    def workers(self) -> int:
        """Threads of the cluster when last counted."""
        return self._threads

    @property
    def capacity(self) -> int:
        """How many more assignments keep every thread busy."""
        return TASKS_PER_THREAD * self._threads - len(self._futures)

    def submit(self, assignment: Assignment) -> None:
        """Submit an assignment."""
        number = assignment.number
        try:
            future = self._client.submit(
                _perform_all,
                self._work,
                pickle.dumps(assignment),
                pure=False,
                # Unique: Dask returns the result of an earlier future with the same key.
                key=f"precompute-{id(self)}-{time.time_ns()}-{number}",
            )
        except Exception as err:  # noqa: BLE001 — the scheduler is lost: `poll` reconnects
            _LOG.warning("a batch cannot be submitted to %s: %s", self.address, err)
            self._futures[number] = None
            self._finished.put((number, None))
            return
        self._futures[number] = future
        future.add_done_callback(lambda future: self._finished.put((number, future)))

    def poll(self, seconds: float) -> list[AssignmentReport]:
        """Return what happened; the assignments of a lost scheduler are lost.

        Raises:
            ExecutorLost: the scheduler does not return, or has had no worker for `RETRY_SECONDS`.
        """
        reports: list[AssignmentReport] = []
        try:
            number, future = self._finished.get(timeout=seconds)
            while True:
                # Ignore the first future of an assignment that was submitted again.
                if number in self._futures and self._futures[number] is future:
                    del self._futures[number]
                    reports.append(AssignmentReport(number, _events_of(future)))
                number, future = self._finished.get_nowait()
        except queue.Empty:
            pass
        if self._client.status != "running":
            reports += self._reconnect()
        if reports:
            self._without_workers_since = None
        else:
            self._count_threads()
        return reports

    def close(self) -> None:
        """Disconnect, and end local workers."""
        for future in self._futures.values():
            if future is not None:
                future.release()
        self._futures.clear()
        _close(self._client)
        if self._local is not None:
            _close(self._local, SHUTDOWN_SECONDS)

    def _reconnect(self) -> list[AssignmentReport]:
        """Report every assignment as lost, and wait for the scheduler."""
        loss = AssignmentLost(f"the scheduler {self.address} was lost")
        reports = [AssignmentReport(number, [loss]) for number in self._futures]
        self._futures.clear()
        _LOG.warning("the scheduler %s is lost; reconnecting", self.address)
        _close(self._client)
        self._client = self._connect()
        self._count_threads()
        return reports

    def _connect(self) -> Any:
        import distributed

        def connect() -> Any:
            return distributed.Client(self.address, timeout=min(5.0, self._retry_seconds), set_as_default=False)  # type: ignore[no-untyped-call]

        try:
            return retried(connect, self._retry_seconds, OSError)
        except ValueError as err:
            raise InvalidInput("scheduler", self.address, "an address such as tcp://HOST:8786", f"{err}.") from err
        except OSError as err:
            message = f"The scheduler {self.address} does not respond: {err}. Run again to continue."
            raise ExecutorLost(message) from err

    def _count_threads(self) -> None:
        """Count the threads; raise ExecutorLost if there have been none for too long."""
        try:
            threads = sum(self._client.nthreads().values())
        except Exception:  # noqa: BLE001 — unchanged; `poll` notices a lost scheduler
            return
        self._threads = max(1, threads)
        now = time.monotonic()
        since = None if threads else self._without_workers_since or now
        self._without_workers_since = since
        if since is not None and now - since > self._retry_seconds:
            waited = f"{self._retry_seconds:g} s"
            raise ExecutorLost(f"The scheduler {self.address} has had no worker for {waited}. Run again to continue.")


def _local(workers: int) -> Any:
    """Start a scheduler and workers on this machine, without dashboard and profiling."""
    import dask
    import distributed

    # loaded before the first assignment
    preload = ["darrm_opt.design.solver", "solver_cache.precompute.worker"]
    with dask.config.set({"distributed.worker.profile.enabled": False, "distributed.worker.preload": preload}):
        return distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.ERROR,
        )


def _perform_all(work: Work, pickled: bytes) -> bytes:
    """Perform an assignment on a worker, under a unique owner: a worker thought lost may still be running it."""
    # As bytes: Dask would traverse every problem and answer.
    assignment: Assignment = pickle.loads(pickled)  # noqa: S301 — from our own client
    own = replace(assignment, owner=f"{assignment.owner}:{uuid.uuid4().hex[:8]}") if assignment.owner else assignment
    return pickle.dumps(list(work(own)))


def _events_of(future: Any) -> list[Event | End]:
    """Return the events of a finished assignment."""
    if future is None:
        return [AssignmentLost("it could not be submitted")]
    if future.status == "finished":
        try:
            events: list[Event] = pickle.loads(future.result(timeout=30))  # noqa: S301 — from our own workers
            return [*events, AssignmentEnded()]
        except Exception as err:  # noqa: BLE001 — the worker that held the result is gone
            return [AssignmentLost(f"{type(err).__name__}: {err}")]
    if future.status == "error":
        error = future.exception()
        return [AssignmentLost(f"{type(error).__name__}: {error}")]
    return [AssignmentLost(f"it was {future.status} by the cluster")]


def _close(resource: Any, seconds: float = 2.0) -> None:
    try:
        resource.close(timeout=seconds)
    except Exception as err:  # noqa: BLE001 — gone, or ending slowly
        _LOG.debug("while leaving: %s", err)
