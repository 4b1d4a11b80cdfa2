"""A run: give batches out, keep what comes back, try again what was lost, and give up what keeps failing.

Where workers return their answers, the run claims the keys of a batch before it hands it out, and keeps the answers that
came in every `KEEPING` seconds, each of which is one transaction; where they write to the shared store themselves, they do
all that and the run only listens. Either way a key that another run has claimed is left to it, and looked at again later.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import socket
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from darrm_opt.errors import InvalidInput
from solver_cache.errors import CacheError
from solver_cache.key import Request
from solver_cache.precompute.claims import LEASE, PATIENCE, Claims, job_of
from solver_cache.precompute.executor import Ended, Executor, Lost, News
from solver_cache.precompute.plan import Batch, Cost, Plan
from solver_cache.precompute.progress import Failure, Outcome, Progress, Watcher
from solver_cache.precompute.work import KEEPING, Answered, Failed, Held, Kept, Solved, Task
from solver_cache.store import Store

ATTEMPTS = 5
"""How often a problem may take its worker with it, or break, before it is given up."""

BACK_OFF = 0.5
"""Pause before the second attempt [s]; twice as long before each further one, up to `MAX_PAUSE`."""

MAX_PAUSE = 30.0

WAIT = 0.25
"""How long to wait for news at a time [s]."""

WATCHED = 0.1
"""How often a watcher is told where the run stands [s]."""

MAX_KEPT = 64
"""Answers that are kept at a time."""

_LOG = logging.getLogger("solver_cache.precompute")


@dataclass(frozen=True)
class Options:
    """How a run goes about it.

    Attributes:
        backend: the LP solver.
        time_limit: for one problem [s]; what it cuts short fails. None: no limit.
        lease: how long a claim outlives its owner [s].
        attempts: how often a problem may fail before it is given up.
        place: URL of the store that workers write to; empty: they return their answers.
        patience: how long a store that does not answer is asked again [s].
    """

    backend: str = "highs"
    time_limit: float | None = None
    lease: float = LEASE
    attempts: int = ATTEMPTS
    place: str = ""
    patience: float = PATIENCE


@dataclass
class _Flight:
    """A task that was handed out, what of it is not told of yet, and what of that is solved all the same."""

    task: Task
    left: dict[str, Request]
    solved: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Come:
    """An answer that came in and is to be kept."""

    request: Request
    lead: Request | None
    what: Answered


@dataclass
class _Counts:
    solved: int = 0
    elsewhere: int = 0
    limited: int = 0
    losses: int = 0
    worst_gap: float = 0.0
    done: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def run(
    plan: Plan,
    store: Store,
    executor: Executor,
    cost: Cost,
    options: Options | None = None,
    watcher: Watcher = lambda _: None,
) -> Outcome:
    """Do what is planned; return what came of it.

    Args:
        plan: of `make_plan`.
        store: where answers are kept.
        executor: what solves; whoever made it closes it.
        cost: expected time to solve one problem [s], for the time that remains.
        options: how.
        watcher: told where the run stands, a few times a second.

    Guarantees:
        Whatever it kept stays kept, however it ends. What it keeps depends on the grid alone, bit for bit: not on the
        executor, the number of workers, their order, or what was lost on the way. (Of two grids that share a problem,
        whoever solves it first decides from which lead.)

    Raises:
        CacheError: the store cannot be used any more.
        ExecutorLost: nobody is left to solve.
        InvalidInput: workers shall write to a store that they cannot reach.
    """
    options = options or Options()
    if options.place in {"memory", "off"}:
        raise InvalidInput("direct", options.place, "a database that workers can reach", "Let them return answers.")
    return _Run(plan, store, executor, cost, options, watcher).through()


class _Run:
    def __init__(
        self, plan: Plan, store: Store, executor: Executor, cost: Cost, options: Options, watcher: Watcher
    ) -> None:
        self._plan, self._store, self._executor, self._cost = plan, store, executor, cost
        self._options, self._watcher = options, watcher
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._claims = Claims(store, self._owner, options.lease, options.patience)
        self._numbers = itertools.count()
        self._ready: deque[Batch] = deque(plan.batches)
        self._later: list[tuple[float, int, Batch]] = []  # by when; the number keeps their order
        self._flights: dict[int, _Flight] = {}
        self._attempts: Counter[str] = Counter()
        self._looks: Counter[str] = Counter()
        self._counts = _Counts()
        self._come: list[_Come] = []
        self._kept_at = self._told_at = self._began = time.monotonic()

    def through(self) -> Outcome:
        """Run to the end."""
        try:
            while self._ready or self._later or self._flights:
                self._hand_out()
                for news in self._news():
                    self._hear(news)
                if len(self._come) >= MAX_KEPT or not self._flights or time.monotonic() - self._kept_at >= KEEPING:
                    self._keep()
                self._claims.renew()
                self._tell()
        finally:
            self._let_go()
        progress = self._progress()
        self._watcher(progress)
        return Outcome(progress, tuple(self._counts.failures))

    def _tell(self) -> None:
        """Tell the watcher, if it is time to."""
        if time.monotonic() - self._told_at >= WATCHED:
            self._told_at = time.monotonic()
            self._watcher(self._progress())

    def _news(self) -> list[News]:
        if self._flights:
            return self._executor.news(WAIT)
        if self._later and not self._ready:  # nothing to do but wait for others
            time.sleep(min(WAIT, max(0.0, self._later[0][0] - time.monotonic())))
        return []

    def _hand_out(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._later)[2])
        while self._ready and self._executor.room > 0:
            batch = self._ready.popleft()
            requests = batch.requests if self._options.place else self._claimed(batch)
            if requests:
                self._submit(requests, batch.lead)

    def _submit(self, requests: tuple[Request, ...], lead: Request | None) -> None:
        number, direct = next(self._numbers), bool(self._options.place)
        start = "" if lead is None or lead in requests or direct else self._claims.start(lead.key)
        task = Task(
            number,
            requests,
            lead,
            start,
            self._options.backend,
            self._options.time_limit,
            self._options.place,
            f"{self._owner}:{number}" if direct else "",
            self._options.lease,
        )
        self._flights[number] = _Flight(task, {request.key: request for request in requests})
        self._executor.submit(task)

    def _claimed(self, batch: Batch) -> tuple[Request, ...]:
        """Claim what can be claimed of a batch; put off what another has."""
        requests = {request.key: request for request in batch.requests}
        taken = self._claims.take(requests)
        if batch.lead is not None and taken.get(batch.lead.key) == "held":  # what the others start from is on its way
            self._claims.release(requests)
            taken = {key: "kept" if what == "kept" else "held" for key, what in taken.items()}
        for key, what in taken.items():
            if what == "kept":
                self._kept(requests[key], None)
        if held := tuple(requests[key] for key, what in taken.items() if what == "held"):
            self._put_off(held, batch.lead)
        return tuple(requests[key] for key, what in taken.items() if what == "taken")

    def _hear(self, news: News) -> None:
        flight = self._flights.get(news.number)
        if flight is None:  # of a task that was given up as lost, and goes on all the same
            return
        what = news.what
        if isinstance(what, Solved):
            flight.solved.add(what.key)
            return
        if isinstance(what, Ended | Lost):
            del self._flights[news.number]
            self._over(flight, what.reason if isinstance(what, Lost) else "its worker did not say what came of it")
            return
        request = flight.left.pop(what.key, None)
        if request is None:
            return
        if isinstance(what, Answered):
            self._come.append(_Come(request, flight.task.lead, what))
        elif isinstance(what, Kept):
            self._kept(request, what.gap, what.limited)
        elif isinstance(what, Held):
            self._put_off((request,), flight.task.lead)
        else:
            self._failed(request, what, flight)

    def _keep(self) -> None:
        """Keep what came in; an answer whose claim was lost is left to whoever has it."""
        come, self._come, self._kept_at = self._come, [], time.monotonic()
        kept = self._claims.settle([(each.what.row, each.what.start) for each in come]) if come else set()
        for each in come:
            if each.what.key in kept:
                self._kept(each.request, each.what.gap, each.what.limited)
            else:
                self._put_off((each.request,), each.lead)

    def _failed(self, request: Request, what: Failed, flight: _Flight) -> None:
        if what.passing:
            self._again((request,), flight.task.lead, what.reason)
        else:
            self._give_up(request, what.reason)

    def _over(self, flight: _Flight, reason: str) -> None:
        """Take back what a worker left undone."""
        left = tuple(flight.left.values())
        if not left:
            return
        self._counts.losses += 1
        _LOG.warning("a batch of %d is lost with %d to be solved: %s", len(flight.task.requests), len(left), reason)
        self._keep()  # what others start from may be among it
        if self._executor.streams:
            self._free(flight)
            at = tuple(request for key, request in flight.left.items() if key not in flight.solved)[:1]
            self._again(at, flight.task.lead, reason)  # this one it was at
            if rest := tuple(request for request in left if request not in at):
                self._ready.append(Batch(rest, flight.task.lead, 0.0))
        elif len(left) > 1 and self._attempts[left[0].key] > 0:  # which of them was it?
            for request in left:
                self._again((request,), flight.task.lead, reason)
        else:
            self._again(left, flight.task.lead, reason)

    def _free(self, flight: _Flight) -> None:
        """Let go of what a worker that is no more had claimed."""
        if not self._options.place:
            return
        try:
            self._store.jobs.release_all([job_of(key) for key in flight.left], flight.task.owner)
        except CacheError as err:  # then its lease runs out
            _LOG.warning("claims run out by themselves: %s", err)

    def _again(self, requests: tuple[Request, ...], lead: Request | None, reason: str) -> None:
        """Try again later, those that were not tried too often."""
        left = []
        for request in requests:
            self._attempts[request.key] += 1
            if self._attempts[request.key] >= self._options.attempts:
                self._give_up(request, f"given up after {self._options.attempts} attempts: {reason}")
            else:
                left.append(request)
        if left:
            tries = max(self._attempts[request.key] for request in left)
            self._put_back(tuple(left), lead, min(MAX_PAUSE, BACK_OFF * 2 ** (tries - 1)))

    def _put_off(self, requests: tuple[Request, ...], lead: Request | None) -> None:
        """Look again later whether another run is done with them."""
        looks = self._looks[requests[0].key] = self._looks[requests[0].key] + 1
        self._put_back(requests, lead, min(self._options.lease / 3, BACK_OFF * 2 ** (looks - 1)))

    def _put_back(self, requests: tuple[Request, ...], lead: Request | None, pause: float) -> None:
        batch = Batch(requests, lead, 0.0)
        heapq.heappush(self._later, (time.monotonic() + pause, next(self._numbers), batch))

    def _kept(self, request: Request, gap: float | None, limited: bool = False) -> None:  # noqa: FBT001, FBT002
        if gap is None:
            self._counts.elsewhere += 1
        else:
            self._counts.solved += 1
            self._counts.limited += limited
            self._counts.worst_gap = max(self._counts.worst_gap, gap)
        self._counts.done += self._cost(request)

    def _give_up(self, request: Request, reason: str) -> None:
        key = request.key
        _LOG.warning("%s: %s", key, reason)
        self._counts.failures.append(Failure(request, key, reason))
        self._counts.done += self._cost(request)
        if not self._options.place:
            self._claims.fail(key, reason)
        elif self._store.jobs.claim(self._owner, self._options.lease, ids=[job_of(key)]) is not None:
            self._claims.fail(key, reason)  # a worker that died with it could not say so

    def _let_go(self) -> None:
        """Keep what came in and free every claim, so that the next run need not wait for leases."""
        many = len(self._come)
        try:
            self._keep()
        except CacheError as err:
            _LOG.warning("%d answers are not kept, and will be solved again: %s", many, err)
        self._claims.release()
        if self._flights and self._options.place and self._executor.streams:
            self._executor.close()  # before its workers' claims are freed
            for flight in self._flights.values():
                self._free(flight)

    def _progress(self) -> Progress:
        counts = self._counts
        return Progress(
            planned=self._plan.missing,
            solved=counts.solved,
            elsewhere=counts.elsewhere,
            limited=counts.limited,
            failed=len(counts.failures),
            losses=counts.losses,
            worst_gap=counts.worst_gap,
            work=self._plan.seconds,
            done=min(counts.done, self._plan.seconds),
            seconds=time.monotonic() - self._began,
        )


def described(failures: Iterable[Failure]) -> list[str]:
    """Return failures in words, a line each."""
    lines = []
    for failure in failures:
        problem = failure.request.problem
        asked = (
            f"K = {problem.K}, ε = {problem.voter.epsilon:g}, Δ = {problem.voter.delta:g}, affected = {problem.affected}, "
            f"target ε = {problem.target.epsilon:g}, δ = {problem.target.delta:g}, {failure.request.objective}, "
            f"{failure.request.shape}"
        )
        lines.append(f"{failure.key[:12]}… ({asked}): {failure.reason}")
    return lines
