"""What `darrm precompute` makes of its options, and what it shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.cli.outcome import ExitCode, fail, say
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import real_number, whole_number
from darrm_opt.record import problem_record

if TYPE_CHECKING:
    from solver_cache import Store
    from solver_cache.precompute.executor import Executor
    from solver_cache.precompute.plan import Plan
    from solver_cache.precompute.progress import Progress, RunOutcome, Watcher
    from solver_cache.precompute.scheduler import RunOptions

FIRST_LINE = 2.0
"""Seconds after which a log (stderr is no terminal) gets its first line; each next one at one and a half times the time."""


def options(backend: str, time_limit: Any, attempts: Any, lease: Any, place: str) -> RunOptions:
    """Return how a run goes about it.

    Raises:
        InvalidInput: naming the option, its value and what is accepted.
    """
    from darrm_opt.design.backends import BACKENDS
    from solver_cache.jobs import MAX_LEASE_SECONDS
    from solver_cache.precompute.scheduler import RunOptions

    if backend not in BACKENDS:
        raise InvalidInput("backend", backend, "one of " + ", ".join(BACKENDS))
    if time_limit is not None and not real_number(time_limit, "time_limit", "seconds above 0") > 0:
        raise InvalidInput("time_limit", time_limit, "seconds above 0")
    attempts = whole_number(attempts, "attempts", "a whole number, at least 1")
    seconds = f"seconds above 0, at most {MAX_LEASE_SECONDS:g}"
    if not 0 < real_number(lease, "lease", seconds) <= MAX_LEASE_SECONDS:
        raise InvalidInput("lease", lease, seconds)
    if place in {"memory", "off"}:
        raise InvalidInput("direct", place, "a database that workers can reach", "Let them return answers.")
    return RunOptions(backend, time_limit, float(lease), attempts, place)


def store_of(url: str, *, dry_run: bool) -> Store:
    """Open the store; for a dry run one that is not there yet is taken as empty, and is not made.

    Raises:
        CacheError: it cannot be used.
        InvalidInput: nothing would be kept.
    """
    from api.cli.caching import opened
    from solver_cache.location import parse_url
    from solver_cache.memory.store import MemoryStore
    from solver_cache.store import NoStore

    if url in {NoStore.url, MemoryStore.url} and not dry_run:
        raise InvalidInput("url", url, "a store that lasts", "A table that is not kept is of no use.")
    if dry_run and url not in {NoStore.url, MemoryStore.url}:
        place, _ = parse_url(url)
        if place.get_backend_name() == "sqlite" and not Path(place.database or "").exists():
            return MemoryStore()
    return opened(url, reading=dry_run)


def planned(grid: str, store: Store) -> Plan:
    """Return the plan for a grid file; what is wrong in the file ends the verb, with the place in the file."""
    from darrm_opt.answers.cost_model import solve_seconds
    from solver_cache.precompute.grid import read_grid
    from solver_cache.precompute.plan import make_plan

    try:
        return make_plan(read_grid(grid).specs(), store, solve_seconds)
    except InvalidInput as err:
        fail(f"{grid}: {err}", ExitCode.BAD_INPUT)


def executor(workers: Any, scheduler: str | None, dask: str | None) -> Executor:
    """Return what solves.

    Raises:
        InvalidInput: options that do not go together.
        BackendUnavailable: Dask is not installed.
        ExecutorLost: no scheduler answers.
    """
    many = None if workers is None else whole_number(workers, "workers", "a whole number of processes, at least 1")
    if scheduler is not None and (dask is not None or many is not None):
        raise InvalidInput("scheduler", scheduler, "neither --dask nor --workers beside it", "Its workers solve.")
    if scheduler is None and dask is None:
        from solver_cache.precompute.processes import Processes

        return Processes(many)
    from solver_cache.precompute.cluster import Cluster

    if dask is None:
        return Cluster(scheduler)
    where, colon, count = dask.partition(":")
    if where != "local" or (colon and not (count.isascii() and count.isdigit() and int(count) > 0)):
        raise InvalidInput("dask", dask, "local, or local:COUNT")
    return Cluster(None, int(count) if colon else many)


def described_plan(plan: Plan, url: str) -> dict[str, Any]:
    """Return what is to be done, as plain data."""
    return {
        "problems": plan.problems,
        "kept": plan.kept,
        "repeated": plan.repeated,
        "missing": plan.missing,
        "batches": len(plan.batches),
        "seconds": plan.seconds,
        "work": f"{duration(plan.seconds)} of one processor",
        "store": url,
    }


def outcome_text(outcome: RunOutcome) -> dict[str, Any]:
    """Return what came of a run, as plain data, with one text for all of it."""
    from solver_cache.precompute.scheduler import failure_lines

    at = outcome.progress
    elsewhere = f", {at.elsewhere:,} by others" if at.elsewhere else ""
    lost = f", {at.losses:,} batches lost and tried again" if at.losses else ""
    failed = f", {at.failed:,} failed" if at.failed else ""
    limited = f" Of {at.limited:,} nothing better than their gap can be proved." if at.limited else ""
    text = (
        f"Solved: {at.solved:,} in {duration(at.seconds)} ({at.rate:.3g} a second){elsewhere}{lost}{failed}. "
        f"Worst gap: {at.worst_gap:.1e}.{limited}"
    )
    failures = [
        {
            "id": failure.key,
            "problem": problem_record(failure.spec.problem),
            "objective": str(failure.spec.objective),
            "shape": failure.spec.shape,
            "reason": failure.reason,
            "text": line,
        }
        for failure, line in zip(outcome.failures, failure_lines(outcome.failures), strict=True)
    ]
    counted = {name: getattr(at, name) for name in ("planned", "solved", "elsewhere", "limited", "failed", "losses")}
    return {**counted, "worst_gap": at.worst_gap, "seconds": at.seconds, "failures": failures, "text": text}


def duration(seconds: float) -> str:
    """Return a time [s] as people say it.

    >>> duration(0.25), duration(75), duration(9000), duration(1e6)
    ('0.25 s', '1.2 min', '2.5 h', '12 days')
    """
    for unit, size, least in (("days", 86400, 172800), ("h", 3600, 5400), ("min", 60, 60)):
        if seconds >= least:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def line(at: Progress) -> str:
    """Return where a run stands, in one line."""
    left = "?" if at.remaining is None else duration(at.remaining)
    trouble = "".join(f", {many:,} {what}" for many, what in ((at.failed, "failed"), (at.losses, "lost")) if many)
    return f"{at.over:,} of {at.planned:,}: {at.rate:.1f} a second, {left} left, worst gap {at.worst_gap:.1e}{trouble}"


@contextmanager
def display() -> Iterator[Watcher]:
    """Yield what shows where a run stands: a bar on a terminal, ever rarer lines in a log."""
    if not sys.stderr.isatty():
        yield _Log()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with RichProgress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("", total=None)

        def watch(at: Progress) -> None:
            told = line(at).partition(": ")[2]
            shown.update(task, total=at.planned, completed=at.over, description=told)

        yield watch


class _Log:
    """Says where a run stands, ever more rarely."""

    def __init__(self) -> None:
        self._after = FIRST_LINE

    def __call__(self, at: Progress) -> None:
        if at.seconds >= self._after and at.over < at.planned:
            say(line(at))
            self._after = 1.5 * at.seconds
