"""What a worker does with a batch: solve each problem and say what came of it, at once.

`perform` is a generator, so that each executor decides how events travel: one by one through a pipe, or all at the end.
A task that names a *place* is done against a store that workers share: claimed at once, solved one by one, and kept
together after every `KEEPING` seconds, by the worker, who then needs nobody to listen.

What is kept holds no timings: a table's bits depend on what was asked, and not on the machine that solved it.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from darrm_opt.design.polytope.constraint import PrivacyConstraint
from darrm_opt.design.polytope.corners import ONE, ZERO, Counts
from darrm_opt.design.program import Status
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import solve, solve_warm
from darrm_opt.errors import DarrmError
from darrm_opt.problem import Problem
from solver_cache.key import Request
from solver_cache.precompute.claims import LEASE, Claims
from solver_cache.row import Row, row_of
from solver_cache.store import open_store


@dataclass(frozen=True)
class Task:
    """A batch on its way to a worker.

    Attributes:
        number: unique within a run.
        requests: what is to be solved, in this order.
        lead: the problem whose rows they start from; None: each by itself.
        start: those rows, packed (`packed`); empty: find them.
        backend: the LP solver.
        time_limit: for one problem [s]; None: no limit. What it cuts short fails.
        place: URL of the store to write to; empty: the answers are returned.
        owner: in whose name the worker claims, where it writes.
        lease: how long a claim is held [s].
    """

    number: int
    requests: tuple[Request, ...]
    lead: Request | None = None
    start: str = ""
    backend: str = "highs"
    time_limit: float | None = None
    place: str = ""
    owner: str = ""
    lease: float = LEASE


@dataclass(frozen=True)
class Answered:
    """A problem is solved; the row is to be kept.

    Attributes:
        key: its key.
        row: the answer.
        gap: how far from optimal it may be.
        limited: whether nothing better can be proved private, so that the gap stays.
        start: what others start from, where it was a lead.
    """

    key: str
    row: Row
    gap: float
    limited: bool = False
    start: str = ""


@dataclass(frozen=True)
class Solved:
    """A problem is solved by a worker who will keep the answer soon, and say so."""

    key: str


@dataclass(frozen=True)
class Kept:
    """The answer is in the shared store; ``gap`` is None where another put it there, else as in `Answered`."""

    key: str
    gap: float | None
    limited: bool = False


@dataclass(frozen=True)
class Held:
    """Another owner has claimed it."""

    key: str


@dataclass(frozen=True)
class Failed:
    """It was not solved. ``passing``: it may go better another time."""

    key: str
    reason: str
    passing: bool


Event = Answered | Solved | Kept | Held | Failed

KEEPING = 0.25
"""What a worker loses at most that was solved already [s of work], if it is killed."""


def perform(task: Task) -> Iterator[Event]:
    """Solve the problems of a task, yielding what comes of each at once.

    Raises:
        CacheError: the shared store cannot be used.
    """
    solver = _Solver(task)
    if not task.place:
        for request in task.requests:
            yield solver.solved(request)
        return
    with closing(open_store(task.place)) as store:
        claims = Claims(store, task.owner, task.lease)
        if task.lead is not None:
            solver.begin(claims.start(task.lead.key))
        try:
            with _renewing(claims):
                yield from _shared(task, solver, claims)
        finally:
            claims.release()


def _shared(task: Task, solver: _Solver, claims: Claims) -> Iterator[Event]:
    """Claim the problems of a task, solve them and keep what comes of it."""
    requests = {request.key: request for request in task.requests}
    taken = claims.take(requests)
    if task.lead is not None and taken.get(task.lead.key) == "held":  # what the others start from is on its way
        claims.release()
        taken = {key: "kept" if what == "kept" else "held" for key, what in taken.items()}
    for key, what in taken.items():
        if what != "taken":
            yield Kept(key, None) if what == "kept" else Held(key)
    solved, began = list[Answered](), time.monotonic()
    for key in (key for key, what in taken.items() if what == "taken"):
        found = solver.solved(requests[key])
        if isinstance(found, Answered):
            solved.append(found)
            yield Solved(key)
        else:
            if found.passing:
                claims.release([key])
            else:
                claims.fail(key, found.reason)
            yield found
        if time.monotonic() - began >= KEEPING:
            yield from _kept(solved, claims)
            solved, began = [], time.monotonic()
    yield from _kept(solved, claims)


def _kept(solved: list[Answered], claims: Claims) -> Iterator[Event]:
    """Keep answers; those whose claims were lost are left to the ones that have them."""
    kept = claims.settle([(each.row, each.start) for each in solved]) if solved else set()
    for each in solved:
        yield Kept(each.key, each.gap, each.limited) if each.key in kept else Held(each.key)


class _Solver:
    """Solves the problems of a task one by one; knows what they start from."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._rows: Counts | None = None
        self._sought = False
        self.begin(task.start)

    def begin(self, start: str) -> None:
        """Start from packed rows, if they are some."""
        if self._task.lead is not None and start:
            self._rows = unpacked(start, self._task.lead.problem)

    def solved(self, request: Request) -> Answered | Failed:
        """Return what comes of a problem."""
        try:
            solution, start = self._solve(request)
        except DarrmError as err:
            return Failed(request.key, str(err), passing=False)
        except Exception as err:  # noqa: BLE001 — a bug, or no memory: the others can still be solved
            return Failed(request.key, f"{type(err).__name__}: {err}", passing=True)
        if not solution.status.settled:
            reason = f"It ended as '{solution.status.value}'. {solution.status.advice}"
            return Failed(request.key, reason, passing=False)
        row = row_of(replace(solution, statistics=replace(solution.statistics, seconds={})))
        return Answered(row.key, row, solution.gap, solution.status is Status.SEARCH_LIMIT, start)

    def _solve(self, request: Request) -> tuple[Solution, str]:
        """Return a solution, and packed rows if others start from it."""
        lead = self._task.lead
        if lead is None:
            return self._cold(request), ""
        if request == lead:
            solution, self._rows = self._warm(request, None)
            return solution, packed(self._rows)
        if self._rows is None and not self._sought:
            self._sought, self._rows = True, self._rows_of(lead)
        return (self._cold(request) if self._rows is None else self._warm(request, self._rows)[0]), ""

    def _cold(self, request: Request) -> Solution:
        task = self._task
        return solve(
            request.problem, request.objective, request.shape, backend=task.backend, time_limit=task.time_limit
        )

    def _warm(self, request: Request, rows: Counts | None) -> tuple[Solution, Counts]:
        how: dict[str, Any] = {"backend": self._task.backend, "time_limit": self._task.time_limit}
        return solve_warm(request.problem, request.objective, request.shape, rows=rows, **how)

    def _rows_of(self, lead: Request) -> Counts | None:
        """Return the rows of a lead that is kept without them; None where it cannot be solved."""
        try:
            solution, rows = self._warm(lead, None)
        except DarrmError:
            return None
        return rows if solution.status.settled else None


def packed(rows: Counts) -> str:
    """Return multisets as text."""
    small = rows.astype("<i2")
    return f"{small.shape[0]}x{small.shape[1]}:{base64.b64encode(zlib.compress(small.tobytes())).decode()}"


def unpacked(text: str, problem: Problem) -> Counts | None:
    """Return the multisets of a text, or None where they are none of this problem: anyone may have written it."""
    corners = len(PrivacyConstraint.of(problem).corners.labels)
    try:
        shape, _, content = text.partition(":")
        many, width = map(int, shape.split("x"))
        plain = zlib.decompressobj().decompress(base64.b64decode(content, validate=True), 2 * many * width + 1)
        rows = np.frombuffer(plain, dtype="<i2").reshape(many, width).astype(np.int64)
    except (ValueError, binascii.Error, zlib.error):
        return None
    fits = (
        width == corners
        and bool((rows >= 0).all())
        and bool((rows.sum(axis=1) == problem.K).all())
        and bool((rows.sum(axis=1) - rows[:, ZERO] - rows[:, ONE] <= problem.affected).all())
    )
    return rows if fits else None


@contextmanager
def _renewing(claims: Claims) -> Iterator[None]:
    """Renew claims in a thread meanwhile."""
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
