"""Metrics for Prometheus, with a bounded number of series.

Every label has a fixed set of values (route templates, lists of methods and outcomes), so that no request can create
a series. Each of several workers counts in a file of its own in the folder `MULTIPROCESS_DIR`; the worker that serves
the metrics adds them up.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from api.observability import traces
from darrm_opt import __version__
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.solution import Status
from darrm_opt.errors import BackendUnavailable

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from api.server.connections import OpenConnections
    from solver_cache.process_pool import PoolState

CONTENT_TYPE = CONTENT_TYPE_LATEST

MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable in which prometheus_client, on import, finds the folder that workers share."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

SOLVE_METHODS = frozenset({"enumerate", "cuts"})

OUTCOMES = (*(status.value for status in Status), "failed", "cancelled")
"""Outcomes of a solve: the status of its solution, or none; any other is counted as "failed"."""

LOOKUP_RESULTS = ("hit", "miss", "damaged", "stale", "nearest", "memory")
"""Results of a lookup: stored; not stored; stored but invalid; another version; a stored answer to a stricter
problem; in the response cache of this process."""

REPLACEMENT_REASONS = ("crashed", "killed", "retired")
"""Why a solver process is replaced: it ended by itself; it was stuck, too slow or too large; it was old."""

REGISTRY = CollectorRegistry(auto_describe=True)  # registry without the default metrics of libraries

disable_created_metrics()  # type: ignore[no-untyped-call]  # saves a third of the series, which several workers lack anyway

_REQUESTS = Counter(
    "darrm_requests",
    "Requests answered, by method, route (its template, unmatched, refused: before a route, or wire: before a whole "
    "request) and status (499: the client disconnected).",
    ("method", "route", "status"),
    registry=REGISTRY,
)

_SECONDS = Histogram(
    "darrm_request_seconds",
    "Time to answer a request, by route [s].",
    ("route",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)

_SOLVES = Counter(
    "darrm_solves",
    "Finished solves, by method and outcome: the status of the answer, failed, or cancelled.",
    ("method", "outcome"),
    registry=REGISTRY,
)

_SOLVE_SECONDS = Histogram(
    "darrm_solve_seconds",
    "Time of a solve, by method [s].",
    ("method",),
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)

_LOOKUPS = Counter(
    "darrm_cache_lookups",
    "Lookups of an answer, by result: memory, hit, nearest, miss, stale (of another version), damaged.",
    ("found",),
    registry=REGISTRY,
)

_REPLACED = Counter(
    "darrm_pool_restarts",
    "Solver processes replaced, by pool and reason: crashed, killed (stuck, too slow or too large), retired.",
    ("pool", "why"),
    registry=REGISTRY,
)

_WEBHOOKS = Counter(
    "darrm_webhooks",
    "Attempts to deliver a webhook, by outcome: delivered, retried, failed (given up).",
    ("outcome",),
    registry=REGISTRY,
)

ACCESS_LOG_LOST = Counter("darrm_access_log_lost", "Lost lines of the access log.", registry=REGISTRY)

EVICTED = Counter("darrm_evicted", "Answers removed because the store exceeded its limits.", registry=REGISTRY)

_live_gauge = partial(Gauge, registry=REGISTRY, multiprocess_mode="livesum")

_BUSY = _live_gauge("darrm_pool_busy", "Busy solver processes, by pool.", ("pool",))

_WAITING = _live_gauge("darrm_pool_waiting", "Tasks waiting for a solver process, by pool.", ("pool",))

IN_FLIGHT = _live_gauge("darrm_requests_open", "Requests being answered now.")

_LAG = Histogram(
    "darrm_loop_lag_seconds",
    "Delay of the event loop; every request waits at least this long [s].",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)

_GAUGES = {
    name: _live_gauge(name, description)
    for name, description in (
        ("darrm_connections_open", "Open connections."),
        ("darrm_streams_open", "Open event streams."),
        ("darrm_received_bytes", "Bytes of unanswered requests."),
        ("darrm_unread_bytes", "Bytes of unread answers."),
        ("process_resident_memory_bytes", "Resident memory of the workers [bytes]."),
        ("process_virtual_memory_bytes", "Virtual memory of the workers [bytes]."),
        ("process_open_fds", "Open file descriptors of the workers."),
        ("process_max_fds", "Maximum number of open file descriptors of the workers."),
    )
}
_GAUGES["process_start_time_seconds"] = Gauge(
    "process_start_time_seconds",
    "Start time of the oldest worker [s since 1970-01-01 UTC].",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
"""Gauges set every second."""

STORE_GAUGES = {
    "darrm_stored_bytes": "Total size of stored answers [bytes].",
    "darrm_max_stored_bytes": "Size limit, beyond which the least recently read are removed [bytes]; +Inf without one.",
    "darrm_jobs_queued": "Queued jobs in the database.",
    "darrm_jobs_running": "Running jobs in the database.",
    "darrm_jobs_oldest_seconds": "Waiting time of the oldest queued job [s].",
}
"""Gauges read from the store for each scrape, with their help texts."""

_PROCESSOR = Counter("process_cpu_seconds", "Processor time of the workers [s].", registry=REGISTRY)

_PROCESS = ProcessCollector(registry=None)  # collector of this process; empty without /proc


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count a request."""
    _series(_REQUESTS, method if method in METHODS else "other", route, status).inc()
    _series(_SECONDS, route).observe(seconds)


@lru_cache(maxsize=1024)  # finding a series takes longer than counting
def _series(metric: Any, *labels: Any) -> Any:
    return metric.labels(*labels)


def count_solve(method: str, outcome: str, seconds: float) -> None:
    """Count a finished solve and its time."""
    method = method if method in SOLVE_METHODS else "other"
    _SOLVES.labels(method, outcome if outcome in OUTCOMES else "failed").inc()
    _SOLVE_SECONDS.labels(method).observe(seconds)


@contextmanager
def track_solve() -> Iterator[Callable[[str, str], None]]:
    """Count the solve in the block, even if it fails; yields the function that sets its method and outcome.

    >>> with track_solve() as done:
    ...     done("cuts", "optimal")
    """
    start, method, outcome = time.monotonic(), "other", "failed"

    def done(solve_method: str, solve_outcome: str) -> None:
        nonlocal method, outcome
        method, outcome = solve_method, solve_outcome

    with traces.solve_span() as end_span:
        try:
            yield done
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            end_span(method, outcome)
            count_solve(method, outcome, time.monotonic() - start)


def count_lookups(result: str, times: int = 1) -> None:
    """Count lookups of an answer."""
    _series(_LOOKUPS, result if result in LOOKUP_RESULTS else "damaged").inc(times)


def count_webhook(outcome: Literal["delivered", "retried", "failed"]) -> None:
    """Count an attempt to deliver a webhook: "retried" will be retried, "failed" is given up."""
    _WEBHOOKS.labels(outcome).inc()


def record_pools(states: Mapping[str, PoolState], earlier: Mapping[str, PoolState]) -> None:
    """Set the gauges of this process's pools, and count the processes replaced since ``earlier``."""
    for name, state in states.items():
        _BUSY.labels(name).set(state.busy)
        _WAITING.labels(name).set(state.waiting)
        for reason in REPLACEMENT_REASONS:
            previous = getattr(earlier[name], reason) if name in earlier else 0
            _REPLACED.labels(name, reason).inc(getattr(state, reason) - previous)


def describe() -> dict[str, str]:
    """Return the help text of each metric, by its name in Prometheus's format."""
    later = [GaugeMetricFamily(name, text) for name, text in STORE_GAUGES.items()]
    families = [*REGISTRY.collect(), *later, _build()]
    return {f"{each.name}_total" if each.type == "counter" else each.name: each.documentation for each in families}


def render(gauges: Mapping[str, float]) -> bytes:
    """Return the metrics of all workers, with ``gauges`` of `STORE_GAUGES`, in Prometheus's text format."""
    folder = os.environ.get(MULTIPROCESS_DIR)
    if folder is None:
        content = generate_latest(REGISTRY)
    else:
        _remove_dead_workers(Path(folder))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]  # untyped
        content = generate_latest(registry)
    # Apart from the workers' files, which are added up.
    extra = CollectorRegistry()
    extra.register(_CollectedMetric(_build()))
    for name, value in gauges.items():
        extra.register(_CollectedMetric(GaugeMetricFamily(name, STORE_GAUGES[name], value=value)))
    return content + generate_latest(extra)


@lru_cache(maxsize=1)  # constant
def _build() -> Metric:
    """Return the gauge that is always 1, with the build in its labels."""
    try:
        has_kernel = "yes" if kernel() is not None else "no"
    except BackendUnavailable:
        has_kernel = "no"
    build = GaugeMetricFamily(
        "darrm_build_info",
        "Always 1; version of the service and of Python, and whether the kernel is compiled.",
        labels=("version", "python", "kernel"),
    )
    build.add_metric((__version__, platform.python_version(), has_kernel), 1.0)
    return build


class _CollectedMetric:
    """Collector of one given metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _remove_dead_workers(folder: Path) -> None:
    for process in {path.stem.rpartition("_")[2] for path in folder.glob("gauge_live*.db")}:
        if process.isdigit() and not _is_alive(int(process)):
            mark_process_dead(int(process), str(folder))  # type: ignore[no-untyped-call]  # as above


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as err:
        return not isinstance(err, ProcessLookupError)
    return True


COLLECT_SECONDS = 1.0  # interval between collections of `ServiceMetrics`
LAG_SECONDS = 0.1  # interval between measurements of the event loop


class ServiceMetrics:
    """Metrics that parts of the service count: lookups, solver processes, open connections and streams."""

    def __init__(
        self,
        pools: Callable[[], Mapping[str, PoolState]],
        lookups: Callable[[], Mapping[str, int]],
        streams: Callable[[], int],
        connections: OpenConnections | None = None,
    ) -> None:
        # pool states, lookups by decision, and open event streams
        self._pools, self._lookups, self._streams = pools, lookups, streams
        self._connections = connections  # None: not counted
        self._last_pools: Mapping[str, PoolState] = {}
        self._last_lookups: Mapping[str, int] = {}
        self._processor_seconds = 0.0

    def collect(self) -> None:
        """Add the changes since the last call."""
        pools, lookups = self._pools(), self._lookups()
        record_pools(pools, self._last_pools)
        for result, times in lookups.items():
            count_lookups(result, times - self._last_lookups.get(result, 0))
        self._last_pools, self._last_lookups = pools, lookups
        _GAUGES["darrm_streams_open"].set(self._streams())
        if (connections := self._connections) is not None:
            _GAUGES["darrm_connections_open"].set(connections.count)
            _GAUGES["darrm_received_bytes"].set(connections.received)
            _GAUGES["darrm_unread_bytes"].set(connections.unread)
        for metric in _PROCESS.collect():
            (sample,) = metric.samples
            if sample.name in _GAUGES:
                _GAUGES[sample.name].set(sample.value)
            else:  # processor time
                _PROCESSOR.inc(max(0.0, sample.value - self._processor_seconds))
                self._processor_seconds = sample.value

    @asynccontextmanager
    async def collected(self) -> AsyncIterator[None]:
        """Collect every second during the block, so that any worker can serve current values."""
        tasks = [asyncio.create_task(self._collect_forever()), asyncio.create_task(_observe_lag())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def _collect_forever(self) -> None:
        while True:
            self.collect()
            await asyncio.sleep(COLLECT_SECONDS)


async def _observe_lag() -> None:
    while True:
        due = time.monotonic() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        _LAG.observe(max(0.0, time.monotonic() - due))
