"""Worker: solves the problems of a batch and reports each result; claims of the owner that stores answers.

`perform` is a generator, so each executor decides how events travel: one by one, or all at the end. A worker with an
`Assignment.store_url` works directly on a shared store: it claims all problems at once, solves them one by one, and
stores the answers every `SAVE_SECONDS` seconds.

`Claims` belong to one owner: a run, or such a worker. Keys are claimed and answers stored in large transactions. A
store that does not respond is retried.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from darrm_opt.design.constraint import Counts
from darrm_opt.design.solution import Solution, Status
from darrm_opt.design.solver import solve, solve_warm
from darrm_opt.errors import DarrmError
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec
from darrm_opt.tables.record import KIND, TableSpec
from darrm_opt.tables.solver import solve_table
from solver_cache.location import CacheError, ReadOnlyCache
from solver_cache.model import Answer as StoredAnswer
from solver_cache.model import ClaimResult, Row, Spec, row_of
from solver_cache.store import Store, open_store
from solver_cache.validate import validate_row

LEASE = 30.0
"""Lease of a claim: how long the keys of a killed run stay claimed. It must outlast anything that delays a
renewal, such as a restart of the database."""

RETRY_SECONDS = 60.0  # time limit for retries while the store does not respond

_LOG = logging.getLogger("solver_cache.precompute")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Assignment:
    """Batch assigned to a worker."""

    number: int  # unique within a run
    specs: tuple[Spec, ...]  # problems, in order
    lead: DesignSpec | None = None  # the problem whose rows they start from; None: cold starts
    backend: str = "highs"  # the LP solver
    time_limit: float | None = None  # per problem [s]; a problem that exceeds it fails
    store_url: str = ""  # shared store; empty: answers are returned
    owner: str = ""  # owner of the worker's claims
    lease: float = LEASE  # of a claim [s]
    # report each event at once, rather than in groups (`event_groups`)
    careful: bool = False


@dataclass(frozen=True)
class Answer:
    """Event: a problem was solved, and the row is to be stored."""

    key: str  # its key
    row: Row  # the answer
    gap: float  # optimality gap
    limited: bool = False  # nothing better can be proved private


@dataclass(frozen=True)
class SolveFinished:
    """Event: a problem was solved by a worker that will store the answer itself."""

    key: str


@dataclass(frozen=True)
class AnswerStored:
    """Event: the answer is in the shared store; ``gap`` is None if another owner stored it."""

    key: str
    gap: float | None
    limited: bool = False


@dataclass(frozen=True)
class ClaimedElsewhere:
    """Event: another owner has claimed the problem."""

    key: str


@dataclass(frozen=True)
class AttemptFailed:
    """Event: the problem was not solved; ``transient`` if another attempt may succeed."""

    key: str
    reason: str
    transient: bool


Event = Answer | SolveFinished | AnswerStored | ClaimedElsewhere | AttemptFailed

Work = Callable[[Assignment], Iterator[Event]]
"""Signature of `perform` and of wrappers in tests; module-level, so that it can be pickled."""

SAVE_SECONDS = 0.25
"""Interval between saves, and between reports of quick answers: the most solved work that a crash loses."""

QUICK_SECONDS = 0.01  # a slower answer is reported at once


def event_groups(events: Iterable[Event], *, careful: bool) -> Iterator[list[Event]]:
    """Group answers that follow each other quickly: a report costs more than a small problem."""
    group, reported = list[Event](), time.monotonic()
    last = reported
    for event in events:
        group.append(event)
        now = time.monotonic()
        if careful or not isinstance(event, Answer) or now - last > QUICK_SECONDS or now - reported > SAVE_SECONDS:
            yield group
            group, reported = [], now
        last = now
    if group:
        yield group


def warm_up(_argument: None, _report: Callable[[Any], None]) -> None:
    """Load, in a pool process, what every assignment needs, by solving a small problem."""
    solve(Problem.from_allowance(K=3, m=1, epsilon=0.1))


def report_events(argument: tuple[Work, Assignment], report: Callable[[list[Event]], None]) -> None:
    """Perform an assignment in a pool process; report its events in groups."""
    work, assignment = argument
    for events in event_groups(work(assignment), careful=assignment.careful):
        report(events)


def perform(assignment: Assignment) -> Iterator[Event]:
    """Solve the problems of an assignment, yielding each event at once."""
    solver = _Solver(assignment)
    if not assignment.store_url:
        for spec in assignment.specs:
            yield solver.solve(spec)
        return
    with closing(open_store(assignment.store_url)) as store:
        claims = Claims(store, assignment.owner, assignment.lease)
        try:
            with _renewing(claims):
                yield from _solve_in_store(assignment, solver, claims)
        finally:
            claims.release()


def _solve_in_store(assignment: Assignment, solver: _Solver, claims: Claims) -> Iterator[Event]:
    """Claim the problems of an assignment, solve them and store the answers."""
    specs = {spec.key: spec for spec in assignment.specs}
    # One transaction, before the first solve.
    results = claims.take(specs)
    for key, result in results.items():
        if result != "taken":
            yield AnswerStored(key, None) if result == "stored" else ClaimedElsewhere(key)
    solved, began = list[Answer](), time.monotonic()
    for key in (key for key, result in results.items() if result == "taken"):
        event = solver.solve(specs[key])
        if isinstance(event, Answer):
            solved.append(event)
            yield SolveFinished(key)
        else:
            claims.release([key])
            yield event
        # One transaction for many answers; time bounds what a crash may lose.
        if time.monotonic() - began >= SAVE_SECONDS:
            yield from _save(solved, claims)
            solved, began = [], time.monotonic()
    yield from _save(solved, claims)


def _save(solved: list[Answer], claims: Claims) -> Iterator[Event]:
    """Store answers, except those whose claims were lost."""
    stored = claims.complete([answer.row for answer in solved]) if solved else set()
    for answer in solved:
        if answer.key in stored:
            yield AnswerStored(answer.key, answer.gap, answer.limited)
        else:
            yield ClaimedElsewhere(answer.key)


class _Solver:
    """Solver of an assignment's problems, with the rows that they start from."""

    def __init__(self, assignment: Assignment) -> None:
        self._task = assignment
        self._options: dict[str, Any] = {"backend": assignment.backend, "time_limit": assignment.time_limit}
        self._rows: Counts | None = None
        self._sought = False

    def solve(self, spec: Spec) -> Answer | AttemptFailed:
        """Return the answer to a problem, or why it failed."""
        try:
            solution = self._solve_from_lead(spec)
        except DarrmError as err:
            return AttemptFailed(spec.key, str(err), transient=False)
        except Exception as err:  # noqa: BLE001 — a bug, or no memory: go on with the next problem
            return AttemptFailed(spec.key, f"{type(err).__name__}: {err}", transient=True)
        if not solution.status.is_final:
            reason = f"The solve ended with status '{solution.status.value}'. {solution.status.advice}"
            return AttemptFailed(spec.key, reason, transient=False)
        row, gap = row_of(solution, spec, timed=False), max(0.0, solution.upper_bound - solution.utility)
        return Answer(row.key, row, gap, solution.status is not Status.OPTIMAL)

    def _solve_from_lead(self, spec: Spec) -> StoredAnswer:
        if isinstance(spec, TableSpec):
            # For voters that are not private there is only this LP solver.
            options = self._options | ({"backend": "highs"} if spec.kind == KIND else {})
            return solve_table(spec.problem, spec.objective, **options)
        if (lead := self._task.lead) is None:
            return self._cold(spec)
        # The others of the group start from its rows, nearly all of which bind there too.
        if spec == lead:
            solution, self._rows = self._warm(spec, None)
            return solution
        # Another assignment has the lead: solve it again for its rows, once per batch.
        if self._rows is None and not self._sought:
            self._sought, self._rows = True, self._rows_of(lead)
        return self._cold(spec) if self._rows is None else self._warm(spec, self._rows)[0]

    def _cold(self, spec: DesignSpec) -> Solution:
        return solve(spec.problem, spec.objective, spec.shape, **self._options)

    def _warm(self, spec: DesignSpec, rows: Counts | None) -> tuple[Solution, Counts]:
        return solve_warm(spec.problem, spec.objective, spec.shape, rows=rows, **self._options)

    def _rows_of(self, lead: DesignSpec) -> Counts | None:
        """Solve a lead of another assignment; return its rows, or None if it cannot be solved."""
        try:
            solution, rows = self._warm(lead, None)
        except DarrmError:
            return None
        return rows if solution.status.is_final else None


@contextmanager
def _renewing(claims: Claims) -> Iterator[None]:
    """Renew claims in a thread during the block."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(claims.lease / 4):
            claims.renew()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Claims:
    """Claims of one owner. Not thread-safe, except `renew`.

    A method raises CacheError if the store does not respond to its retries.
    """

    def __init__(self, store: Store, owner: str, lease: float = LEASE, retry_seconds: float = RETRY_SECONDS) -> None:
        self._store, self._owner, self.lease, self._retry_seconds = store, owner, lease, retry_seconds
        self._held: set[str] = set()
        self._renewed = time.monotonic()

    def take(self, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim keys; return the result for each, as `solver_cache.store.Store.claim`."""
        results: dict[str, ClaimResult] = dict.fromkeys(keys, "taken")
        if missing := [key for key in keys if key not in self._held]:  # the others are still held from a lost worker
            results |= self._retried(lambda: self._store.claim(self._owner, self.lease, missing))
        self._held |= {key for key in missing if results[key] == "taken"}
        return results

    def complete(self, rows: Sequence[Row]) -> set[str]:
        """Store answers, which ends their claims; return the keys of those stored.

        Keys whose claims have passed to another owner are left alone. A valid stored answer stays.
        """
        stored = self._retried(lambda: self._store.complete(self._owner, rows))
        self._held -= {row.key for row in rows}
        for row in rows:
            before = stored.get(row.key, row)
            if before != row and validate_row(before).decision != "hit":
                self._retried(partial(self._store.put, row, replacing=before))
        return {*stored}

    def renew(self) -> None:
        """Renew every claim if it is time; an unreachable store is retried next time."""
        if time.monotonic() - self._renewed < self.lease / 3:
            return
        self._renewed = time.monotonic()
        try:
            self._store.renew_claims(self._owner, self.lease, tuple(self._held))
        except CacheError as err:
            _LOG.warning("claims cannot be renewed: %s", err)

    def release(self, keys: Collection[str] | None = None) -> None:
        """Release claims, by default all, so that another run need not wait for their leases."""
        released = self._held & set(self._held if keys is None else keys)
        self._held -= released
        if not released:
            return
        try:
            self._store.release_claims(self._owner, released)
        except CacheError as err:
            _LOG.warning("claims will expire: %s", err)

    def _retried(self, call: Callable[[], Result]) -> Result:
        return retried(call, self._retry_seconds, CacheError)


def retried(call: Callable[[], Result], seconds: float, error: type[Exception]) -> Result:
    """Return what ``call`` returns, retried after an ``error`` with exponential backoff."""
    end, pause = time.monotonic() + seconds, 0.1
    while True:
        try:
            return call()
        except error as err:
            if isinstance(err, ReadOnlyCache) or time.monotonic() + pause > end:
                raise
            _LOG.warning("retrying in %.1f s: %s", pause, err)
            time.sleep(pause)
            pause = min(2 * pause, 5.0)
