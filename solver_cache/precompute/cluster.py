"""A Dask cluster: workers here or on other machines, through a scheduler.

Dask itself gives a task to another worker when one dies. What it gives up (a task that took several workers with it, a
scheduler that is gone) comes back as lost, and the run decides. A scheduler that comes back at its address is joined again.
"""

from __future__ import annotations

import logging
import queue
import time
import uuid
from dataclasses import replace
from typing import Any

from darrm_opt.errors import BackendUnavailable, InvalidInput
from solver_cache.precompute.executor import Ended, ExecutorLost, Lost, News, Work
from solver_cache.precompute.work import Event, Task, perform

PATIENCE = 60.0
"""How long a scheduler that does not answer is waited for [s]."""

AHEAD = 2
"""Tasks that a cluster is given for each of its threads: one at work, one on its way."""

ENDING = 30.0
"""How long a scheduler and workers that were started here may take to end [s]."""

_LOG = logging.getLogger("solver_cache.precompute")


class Cluster:
    """An `Executor` on Dask.

    Args:
        scheduler: its address, ``tcp://HOST:PORT``; None: start a scheduler and workers on this machine.
        workers: how many to start on this machine; None: one for each processor.
        work: what they do.
        patience: how long a scheduler that does not answer is waited for [s].

    Raises:
        BackendUnavailable: Dask is not installed.
        ExecutorLost: no scheduler answers.
        InvalidInput: not an address.
    """

    streams = False

    def __init__(
        self,
        scheduler: str | None = None,
        workers: int | None = None,
        work: Work = perform,
        patience: float = PATIENCE,
    ) -> None:
        try:
            import distributed  # noqa: F401 — whether it is there
        except ImportError as err:
            raise BackendUnavailable("Dask is not installed: pip install 'darrm-opt[dask]'.") from err
        from solver_cache.precompute.processes import processors

        self._work, self._patience = work, patience
        self._over: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._futures: dict[int, Any] = {}
        self._many = 1
        self._local: Any = None
        if scheduler is None:
            self._local = _local(workers or processors())
            scheduler = str(self._local.scheduler_address)
        elif "://" not in scheduler:
            raise InvalidInput("scheduler", scheduler, "an address such as tcp://HOST:8786")
        self._address = scheduler
        self._client: Any = self._joined()
        self._count()

    @property
    def address(self) -> str:
        """The scheduler's address."""
        return self._address

    @property
    def workers(self) -> int:
        """Threads of the cluster when it was last looked at."""
        return self._many

    @property
    def room(self) -> int:
        """How many more tasks keep every thread busy."""
        return AHEAD * self._many - len(self._futures)

    def submit(self, task: Task) -> None:
        """Take a task."""
        number = task.number
        try:
            future = self._client.submit(
                _collected, self._work, task, pure=False, key=f"precompute-{id(self)}-{time.time_ns()}-{number}"
            )
        except Exception as err:  # noqa: BLE001 — the scheduler is gone: `news` joins it again
            _LOG.warning("a batch could not be handed to %s: %s", self._address, err)
            self._futures[number] = None
            self._over.put((number, None))
            return
        self._futures[number] = future
        future.add_done_callback(lambda done: self._over.put((number, done)))

    def news(self, seconds: float) -> list[News]:
        """Return what happened; tasks of a scheduler that is gone are lost."""
        told: list[News] = []
        try:
            number, future = self._over.get(timeout=seconds)
            while True:
                if number in self._futures and self._futures[number] is future:
                    del self._futures[number]
                    told += [News(number, what) for what in _said(future)]
                number, future = self._over.get_nowait()
        except queue.Empty:
            pass
        if self._client.status != "running":
            told += self._rejoin()
        if not told:
            self._count()
        return told

    def close(self) -> None:
        """Leave; workers that were started here end."""
        for future in self._futures.values():
            if future is not None:
                future.release()
        self._futures.clear()
        _closed(self._client)
        if self._local is not None:
            _closed(self._local, ENDING)

    def _rejoin(self) -> list[News]:
        """Give up every task that is out, and wait until the scheduler answers again."""
        lost = [News(number, Lost(f"the scheduler {self._address} was lost")) for number in self._futures]
        self._futures.clear()
        _LOG.warning("the scheduler %s is lost; waiting for it", self._address)
        _closed(self._client)
        self._client = self._joined()
        self._count()
        return lost

    def _joined(self) -> Any:
        import distributed

        end, pause = time.monotonic() + self._patience, 0.2
        while True:
            try:
                return distributed.Client(self._address, timeout=min(5.0, self._patience), set_as_default=False)  # type: ignore[no-untyped-call]
            except ValueError as err:
                raise InvalidInput("scheduler", self._address, "an address such as tcp://HOST:8786", f"{err}.") from err
            except OSError as err:
                if time.monotonic() + pause > end:
                    told = f"The scheduler {self._address} does not answer: {err}. Running again continues."
                    raise ExecutorLost(told) from err
                time.sleep(pause)
                pause = min(2 * pause, 5.0)

    def _count(self) -> None:
        """Look how many threads there are."""
        try:
            threads = sum(self._client.nthreads().values())
        except Exception:  # noqa: BLE001 — as it was; `news` finds out whether the scheduler is gone
            return
        self._many = max(1, threads)


def _local(workers: int) -> Any:
    """Start a scheduler and workers on this machine, without what nobody looks at: the dashboard, and profiles of workers."""
    import dask
    import distributed

    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.ERROR,
        )


def _collected(work: Work, task: Task) -> list[Event]:
    """Do a task, on a worker, in a name of its own: a worker that was thought lost may still be at it."""
    mine = replace(task, owner=f"{task.owner}:{uuid.uuid4().hex[:8]}") if task.owner else task
    return list(work(mine))


def _said(future: Any) -> list[Event | Ended | Lost]:
    """Return what a task came to."""
    if future is None:
        return [Lost("it could not be handed out")]
    if future.status == "finished":
        try:
            return [*future.result(timeout=30), Ended()]
        except Exception as err:  # noqa: BLE001 — the worker that held the result went away with it
            return [Lost(f"{type(err).__name__}: {err}")]
    if future.status == "error":
        broken = future.exception()
        return [Lost(f"{type(broken).__name__}: {broken}")]
    return [Lost(f"it was {future.status} by the cluster")]


def _closed(what: Any, seconds: float = 2.0) -> None:
    try:
        what.close(timeout=seconds)
    except Exception as err:  # noqa: BLE001 — what is gone cannot be closed, and what is slow ends by itself
        _LOG.debug("while leaving: %s", err)
