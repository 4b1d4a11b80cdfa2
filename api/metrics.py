"""What is counted, for Prometheus: few series, and none that a client can multiply.

Every label has a fixed set of values (routes by their template, methods and outcomes by a list), so that no request
can make a new series. With several workers each counts in a file of its own, in a folder that `SHARED` names, and whoever is
asked for the metrics adds them up; `solved`, `looked` and `pooled` are what the rest of the service calls.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from darrm_opt.design.program import Status

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from api.pool import PoolState

CONTENT_TYPE = CONTENT_TYPE_LATEST

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client, when it is imported, learns of the folder that workers share."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

SOLVE_METHODS = frozenset({"enumerate", "cuts"})

OUTCOMES = (*(status.value for status in Status), "failed", "cancelled")
"""How a solve may end: as its solution's status says, or without one; any other word is counted as "failed"."""

FOUND = ("hit", "miss", "damaged", "stale", "nearest", "memory")
"""What a look for an answer may come to: it is kept; it is not; it is kept and does not prove; it is of another version;
one for a neighbouring problem is kept whose guarantee implies the asked one; it is at hand in this process."""

REPLACED = ("crashed", "killed", "retired")
"""Why a solver process is replaced: it ended by itself; it would not stop, took too long or grew too large; its time came."""

REGISTRY = CollectorRegistry(auto_describe=True)
"""Ours alone: nothing that a library counts elsewhere appears in it."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # half as many series again, which several workers lack anyway

_REQUESTS = Counter("darrm_requests", "Requests answered.", ("method", "route", "status"), registry=REGISTRY)
_SECONDS = Histogram(
    "darrm_request_seconds",
    "Time to answer a request [s].",
    ("route",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=REGISTRY,
)
_SOLVES = Counter("darrm_solves", "Solves that ended.", ("method", "outcome"), registry=REGISTRY)
_SOLVE_SECONDS = Histogram(
    "darrm_solve_seconds",
    "Time that a solve took [s].",
    ("method",),
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
_LOOKED = Counter("darrm_cache_lookups", "Looks for an answer, by what was found.", ("found",), registry=REGISTRY)
_REPLACED = Counter(
    "darrm_pool_restarts", "Solver processes that ended and are replaced.", ("pool", "why"), registry=REGISTRY
)
_BUSY = Gauge("darrm_pool_busy", "Solver processes at work.", ("pool",), registry=REGISTRY, multiprocess_mode="livesum")
_WAITING = Gauge(
    "darrm_pool_waiting",
    "Tasks that wait for a solver process.",
    ("pool",),
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_INSIDE = Gauge("darrm_requests_open", "Requests being answered now.", registry=REGISTRY, multiprocess_mode="livesum")


def requested(method: str, route: str, status: int, seconds: float) -> None:
    """Count a request.

    Args:
        method: of HTTP; one that is none of `METHODS` is counted as "other".
        route: template of the path, such as ``/v1/gamma/{id}``; never the path itself.
        status: of the answer.
        seconds: time until the answer was sent [s].
    """
    _requests_of(method if method in METHODS else "other", route, status).inc()
    _seconds_of(route).observe(seconds)


@lru_cache(maxsize=1024)  # finding a series by its labels takes longer than counting in it
def _requests_of(method: str, route: str, status: int) -> Counter:
    return _REQUESTS.labels(method, route, str(status))


@lru_cache(maxsize=256)
def _seconds_of(route: str) -> Histogram:
    return _SECONDS.labels(route)


def solved(method: str, outcome: str, seconds: float) -> None:
    """Count a solve that ended, however it did.

    Args:
        method: how it was solved, such as "cuts".
        outcome: one of `OUTCOMES`; a solution's status says it, where there is a solution.
        seconds: what it took [s].
    """
    method = method if method in SOLVE_METHODS else "other"
    _SOLVES.labels(method, outcome if outcome in OUTCOMES else "failed").inc()
    _SOLVE_SECONDS.labels(method).observe(seconds)


@contextmanager
def solving() -> Iterator[Callable[[str, str], None]]:
    """Count the solve that is done within, also where it fails or is cancelled; yield what says how it was done.

    >>> with solving() as done:
    ...     done("cuts", "optimal")
    """
    began, method, outcome = time.monotonic(), "other", "failed"

    def done(by: str, ended: str) -> None:
        nonlocal method, outcome
        method, outcome = by, ended

    try:
        yield done
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        solved(method, outcome, time.monotonic() - began)


def looked(found: str, times: int = 1) -> None:
    """Count looks for an answer.

    Args:
        found: one of `FOUND`; any other word is counted as "damaged".
        times: how many.
    """
    _looks_of(found if found in FOUND else "damaged").inc(times)


@lru_cache(maxsize=len(FOUND))
def _looks_of(found: str) -> Counter:
    return _LOOKED.labels(found)


def pooled(states: Mapping[str, PoolState], before: Mapping[str, PoolState]) -> None:
    """Note where this process's pools stand, and count what was replaced in them since ``before``."""
    for name, state in states.items():
        _BUSY.labels(name).set(state.busy)
        _WAITING.labels(name).set(state.waiting)
        for why in REPLACED:
            counted = getattr(before[name], why) if name in before else 0
            _REPLACED.labels(name, why).inc(getattr(state, why) - counted)


def inside(change: int) -> None:
    """Note that a request is begun (+1) or answered (−1)."""
    _INSIDE.inc(change)


def text(now: Mapping[str, tuple[str, float]]) -> bytes:
    """Return everything in Prometheus's format, of all workers together.

    Args:
        now: more gauges, by name: what each is and its value, the same in all workers (such as the queue in the database).
    """
    folder = os.environ.get(SHARED)
    if folder is None:
        found = generate_latest(REGISTRY)
    else:
        _bury(Path(folder))
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]  # it is not typed there
        found = generate_latest(together)
    more = CollectorRegistry()
    for name, (about, value) in now.items():
        more.register(_Now(GaugeMetricFamily(name, about, value=value)))
    return found + generate_latest(more)


class _Now:
    """A metric that is collected already."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _bury(folder: Path) -> None:
    """Take the gauges of workers that are gone out of the sum; what they counted stays."""
    for process in {path.stem.rpartition("_")[2] for path in folder.glob("gauge_live*.db")}:
        if process.isdigit() and not _is_alive(int(process)):
            mark_process_dead(int(process), str(folder))  # type: ignore[no-untyped-call]  # as above


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
