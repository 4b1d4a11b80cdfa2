"""Dask cluster: workers on this or other machines, through a scheduler.

Dask itself gives an assignment to another worker when one dies. What it gives up (an assignment that took several
workers with it, a scheduler that is gone) comes back as lost, and the run decides. A scheduler that comes back at its
address is joined again. Where no worker is left, and none comes, the run ends.
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
from solver_cache.precompute.worker import Assignment, Event, Work, perform

RETRY_SECONDS = 60.0
"""Longest wait for a Dask scheduler that does not answer, or that has no worker for what it was given [s]."""

TASKS_PER_THREAD = 2
"""Tasks that a cluster is given for each of its threads: one at work, one on its way."""

SHUTDOWN_SECONDS = 30.0
"""Time limit for ending a scheduler and workers that were started here [s]."""

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
            # A cluster on this machine is for this run alone, and ends with it.
            self._local = _local(workers or usable_processors())
            scheduler = str(self._local.scheduler_address)
        elif "://" not in scheduler:
            raise InvalidInput("scheduler", scheduler, "an address such as tcp://HOST:8786")
        self.address = scheduler  # of Dask
        self._client: Any = self._connect()
        self._count_threads()

    @property
    def workers(self) -> int:
        """Threads of the cluster when it was last looked at."""
        return self._threads

    @property
    def capacity(self) -> int:
        """How many more assignments keep every thread busy."""
        return TASKS_PER_THREAD * self._threads - len(self._futures)

    def submit(self, assignment: Assignment) -> None:
        """Take an assignment."""
        number = assignment.number
        try:
            future = self._client.submit(
                _perform_all,
                self._work,
                pickle.dumps(assignment),
                pure=False,
                # A name of its own each time: Dask would give the result of an earlier future of the same key.
                key=f"precompute-{id(self)}-{time.time_ns()}-{number}",
            )
        except Exception as err:  # noqa: BLE001 — the scheduler is gone: `poll` joins it again
            _LOG.warning("a batch could not be handed to %s: %s", self.address, err)
            self._futures[number] = None
            self._finished.put((number, None))
            return
        self._futures[number] = future
        future.add_done_callback(lambda future: self._finished.put((number, future)))

    def poll(self, seconds: float) -> list[AssignmentReport]:
        """Return what happened; assignments of a scheduler that is gone are lost.

        Raises:
            ExecutorLost: the scheduler does not come back, or has had no worker for as long.
        """
        reports: list[AssignmentReport] = []
        try:
            number, future = self._finished.get(timeout=seconds)
            while True:
                # An assignment that was given out anew has another future: the first one's end is old news.
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
        """Leave; workers that were started here end."""
        for future in self._futures.values():
            if future is not None:
                future.release()
        self._futures.clear()
        _close(self._client)
        if self._local is not None:
            _close(self._local, SHUTDOWN_SECONDS)

    def _reconnect(self) -> list[AssignmentReport]:
        """Give up every assignment that is out, and wait until the scheduler answers again."""
        loss = AssignmentLost(f"the scheduler {self.address} was lost")
        reports = [AssignmentReport(number, [loss]) for number in self._futures]
        self._futures.clear()
        _LOG.warning("the scheduler %s is lost; waiting for it", self.address)
        _close(self._client)
        self._client = self._connect()
        self._count_threads()
        return reports

    def _connect(self) -> Any:
        import distributed

        end, pause = time.monotonic() + self._retry_seconds, 0.2
        while True:
            try:
                return distributed.Client(self.address, timeout=min(5.0, self._retry_seconds), set_as_default=False)  # type: ignore[no-untyped-call]
            except ValueError as err:
                raise InvalidInput("scheduler", self.address, "an address such as tcp://HOST:8786", f"{err}.") from err
            except OSError as err:
                if time.monotonic() + pause > end:
                    message = f"The scheduler {self.address} does not answer: {err}. Running again continues."
                    raise ExecutorLost(message) from err
                time.sleep(pause)
                pause = min(2 * pause, 5.0)

    def _count_threads(self) -> None:
        """Look how many threads there are, and for how long there has been none."""
        try:
            threads = sum(self._client.nthreads().values())
        except Exception:  # noqa: BLE001 — as it was; `poll` finds out whether the scheduler is gone
            return
        self._threads = max(1, threads)
        now = time.monotonic()
        since = None if threads else self._without_workers_since or now
        self._without_workers_since = since
        if since is not None and now - since > self._retry_seconds:
            waited = f"{self._retry_seconds:g} s"
            raise ExecutorLost(f"The scheduler {self.address} has had no worker for {waited}. Running again continues.")


def _local(workers: int) -> Any:
    """Start a scheduler and workers on this machine, without a dashboard and profiles of workers."""
    import dask
    import distributed

    # workers load what they need before there is an assignment for them
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
    """Do an assignment, on a worker, in a name of its own: a worker that was thought lost may still be at it."""
    # Assignment and events travel as bytes, into which Dask does not look: it would go through every problem and
    # answer.
    assignment: Assignment = pickle.loads(pickled)  # noqa: S301 — from our own client, as everything that a worker runs
    own = replace(assignment, owner=f"{assignment.owner}:{uuid.uuid4().hex[:8]}") if assignment.owner else assignment
    return pickle.dumps(list(work(own)))


def _events_of(future: Any) -> list[Event | End]:
    """Return what an assignment came to."""
    if future is None:
        return [AssignmentLost("it could not be handed out")]
    if future.status == "finished":
        try:
            events: list[Event] = pickle.loads(future.result(timeout=30))  # noqa: S301 — from our own workers
            return [*events, AssignmentEnded()]
        except Exception as err:  # noqa: BLE001 — the worker that held the result went away with it
            return [AssignmentLost(f"{type(err).__name__}: {err}")]
    if future.status == "error":
        error = future.exception()
        return [AssignmentLost(f"{type(error).__name__}: {error}")]
    return [AssignmentLost(f"it was {future.status} by the cluster")]


def _close(resource: Any, seconds: float = 2.0) -> None:
    try:
        resource.close(timeout=seconds)
    except Exception as err:  # noqa: BLE001 — what is gone cannot be closed, and what is slow ends by itself
        _LOG.debug("while leaving: %s", err)
