"""Scheduler of a run: hands out batches, stores answers, retries lost work, and gives up problems that keep failing.

If workers return their answers, the run claims the keys of a batch before handing it out, and stores answers every
`SAVE_SECONDS` seconds in one transaction. If workers write to the shared store, they do both and the run only
listens. Keys claimed by another run are left to it, and checked again later.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
import socket
import time
import uuid
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.design.solver import check_backend
from darrm_opt.errors import InvalidInput
from solver_cache.location import CacheError
from solver_cache.model import MAX_LEASE_SECONDS, ClaimResult, Spec
from solver_cache.precompute.executor import AssignmentLost, AssignmentReport, End, Executor
from solver_cache.precompute.plan import Batch, Failure, RunOutcome, RunPlan, RunProgress, RunWatcher
from solver_cache.precompute.worker import (
    LEASE,
    RETRY_SECONDS,
    SAVE_SECONDS,
    Answer,
    AnswerStored,
    Assignment,
    ClaimedElsewhere,
    Claims,
    SolveFinished,
)
from solver_cache.store import Store

MAX_ATTEMPTS = 5  # attempts at a problem that fails or kills its worker
BACK_OFF = 0.5  # pause before the second attempt; doubled for each further one, up to `MAX_BACK_OFF`

MAX_BACK_OFF = 30.0

POLL_SECONDS = 0.25  # longest wait for events
REPORT_SECONDS = 0.1  # interval between progress reports

TASKS_PER_WORKER = 3
"""Assignments per worker if the remaining work were divided evenly.

They shrink towards the end, so that all workers finish together. One batch, claimed at once, may feed several.
"""

MIN_TASK_SECONDS = 0.02  # least expected work of an assignment cut from a batch

LAST_SAVE_SECONDS = 0.05
"""Interval between saves once all work is handed out: short, because no worker works during the last one."""

MAX_UNSAVED = 1000  # answers stored in one transaction

_LOG = logging.getLogger("solver_cache.precompute")


@dataclass(frozen=True)
class RunOptions:
    """Options of a run."""

    backend: str = "highs"  # the LP solver
    time_limit: float | None = None  # per problem [s]; a problem that exceeds it fails
    lease: float = LEASE  # of a claim [s]
    attempts: int = MAX_ATTEMPTS  # per problem
    store_url: str = ""  # store that workers write to; empty: they return answers
    retry_seconds: float = RETRY_SECONDS  # while the store does not respond [s]

    def __post_init__(self) -> None:
        check_backend(self.backend, self.time_limit)
        seconds = f"seconds above 0, at most {MAX_LEASE_SECONDS:g}"
        real_number(self.lease, "lease", seconds, above=0, most=MAX_LEASE_SECONDS)
        whole_number(self.attempts, "attempts", "a whole number, at least 1")
        if self.store_url in {"memory", "off"}:
            accepted = "a database that workers can reach"
            raise InvalidInput("store_url", self.store_url, accepted, "Leave it empty to have workers return answers.")


@dataclass
class _InFlight:
    """Batch handed out, its problems without an event (`left`), and those solved but not yet stored."""

    batch: Batch
    owner: str
    left: dict[str, Spec]
    solved: set[str] = field(default_factory=set)


class _Unsaved(NamedTuple):
    """Answer to be stored."""

    spec: Spec
    batch: Batch
    answer: Answer


def run(
    plan: RunPlan,
    store: Store,
    executor: Executor,
    options: RunOptions | None = None,
    watcher: RunWatcher = lambda _: None,
) -> RunOutcome:
    """Execute a plan; return the outcome.

    Guarantees:
        Stored answers stay, however the run ends. They depend on the grid alone, bit for bit: not on the executor,
        the number or order of workers, or lost work. (If two grids share a problem, the first to solve it decides its
        lead.)
    """
    return Scheduler(plan, store, executor, options or RunOptions(), watcher).run_to_end()


class Scheduler:
    """Scheduler of one run.

    A batch is *ready*, *delayed* (claimed elsewhere, or waiting for a retry) or *in flight*. An answer is *unsaved*
    until the next transaction.
    """

    def __init__(
        self, plan: RunPlan, store: Store, executor: Executor, options: RunOptions, watcher: RunWatcher
    ) -> None:
        self._plan, self._store, self._executor = plan, store, executor
        self._options, self._watcher = options, watcher
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._claims = Claims(store, self._owner, options.lease, options.retry_seconds)
        self._numbers = itertools.count()
        self._ready: deque[Batch] = deque(plan.batches)
        self._unsent = plan.seconds  # expected work not yet handed out [s]
        self._delayed: list[tuple[float, int, Batch]] = []  # by due time; the number breaks ties
        self._in_flight: dict[int, _InFlight] = {}
        self._attempts: Counter[str] = Counter()
        self._deferrals: Counter[str] = Counter()
        self._progress = RunProgress(plan.missing, plan.seconds)
        self._failures: list[Failure] = []
        self._unsaved: list[_Unsaved] = []
        self._saved_at = self._reported_at = self._began = time.monotonic()

    def run_to_end(self) -> RunOutcome:
        """Run to the end."""
        try:
            while self._ready or self._delayed or self._in_flight:
                self._dispatch()
                for report in self._poll():
                    self._handle(report)
                if self._in_flight:
                    self._dispatch()  # first: no worker waits for the store
                # One transaction for many answers; smaller ones at the end. Save too if nothing is in flight: a
                # delayed batch may start from an unsaved answer.
                interval = SAVE_SECONDS if self._ready else LAST_SAVE_SECONDS
                if (
                    len(self._unsaved) >= MAX_UNSAVED
                    or not self._in_flight
                    or time.monotonic() - self._saved_at >= interval
                ):
                    self._save()
                self._claims.renew()
                self._report()
        finally:
            self._release()
        progress = self._progress_now()
        self._watcher(progress)
        return RunOutcome(progress, tuple(self._failures))

    def _report(self) -> None:
        """Notify the watcher, if it is time."""
        if time.monotonic() - self._reported_at >= REPORT_SECONDS:
            self._reported_at = time.monotonic()
            self._watcher(self._progress_now())

    def _poll(self) -> list[AssignmentReport]:
        if self._in_flight:
            return self._executor.poll(POLL_SECONDS)
        if self._delayed and not self._ready:  # only other runs are working
            time.sleep(min(POLL_SECONDS, max(0.0, self._delayed[0][0] - time.monotonic())))
        return []

    def _dispatch(self) -> None:
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._delayed)[2])
        while self._ready and self._executor.capacity > 0:
            batch = self._ready.popleft()
            self._unsent -= batch.seconds
            if not self._options.store_url:
                batch = self._claim(batch)
            if batch.specs:
                self._submit(self._cut(batch))

    def _cut(self, batch: Batch) -> Batch:
        """Return the part of a batch to hand out now; the rest, claimed already, is ready next."""
        share = (self._unsent + batch.seconds) / (TASKS_PER_WORKER * self._executor.workers)
        share = max(MIN_TASK_SECONDS, share)
        if batch.seconds <= share or batch.lead is not None:
            return batch
        many = math.ceil(share / batch.mean_seconds)
        rest = replace(batch, specs=batch.specs[many:])
        self._ready.appendleft(rest)
        self._unsent += rest.seconds
        return replace(batch, specs=batch.specs[:many])

    def _submit(self, batch: Batch) -> None:
        number, options = next(self._numbers), self._options
        owner = f"{self._owner}:{number}" if options.store_url else ""
        self._in_flight[number] = _InFlight(batch, owner, {spec.key: spec for spec in batch.specs})
        how = options.backend, options.time_limit, options.store_url, owner, options.lease, batch.careful
        self._executor.submit(Assignment(number, batch.specs, batch.lead, *how))

    def _claim(self, batch: Batch) -> Batch:
        """Claim a batch; return the claimed part and defer what another owner holds."""
        specs = {spec.key: spec for spec in batch.specs}
        results = self._claims.take(specs)

        def part(result: ClaimResult) -> Batch:
            return replace(batch, specs=tuple(specs[key] for key in specs if results[key] == result))

        for spec in part("stored").specs:
            self._count_stored(batch, AnswerStored(spec.key, None))
        self._defer(part("held"))
        return part("taken")

    def _handle(self, report: AssignmentReport) -> None:
        flight = self._in_flight.get(report.number)
        if flight is None:  # an assignment thought lost that continues
            return
        for event in report.events:
            if isinstance(event, SolveFinished):
                flight.solved.add(event.key)
            elif isinstance(event, End):
                del self._in_flight[report.number]
                silence = "its worker did not report a result"
                self._recover(flight, event.reason if isinstance(event, AssignmentLost) else silence)
            # a second answer, from a worker thought lost: the first one counts.
            elif (spec := flight.left.pop(event.key, None)) is None:
                continue
            elif isinstance(event, Answer):
                self._unsaved.append(_Unsaved(spec, flight.batch, event))
            elif isinstance(event, AnswerStored):
                self._count_stored(flight.batch, event)
            elif isinstance(event, ClaimedElsewhere):
                self._defer(replace(flight.batch, specs=(spec,)))
            elif event.transient:
                self._retry(replace(flight.batch, specs=(spec,)), event.reason)
            else:
                self._give_up(spec, flight.batch, event.reason)

    def _save(self) -> None:
        """Store new answers; one whose claim was lost is left to its new owner."""
        unsaved, self._unsaved, self._saved_at = self._unsaved, [], time.monotonic()
        stored = self._claims.complete([answer.row for _, _, answer in unsaved]) if unsaved else set()
        for spec, batch, answer in unsaved:
            if answer.key in stored:
                self._count_stored(batch, answer)
            else:
                self._defer(replace(batch, specs=(spec,)))

    def _recover(self, flight: _InFlight, reason: str) -> None:
        """Reschedule what a lost worker left undone."""
        left = replace(flight.batch, specs=tuple(flight.left.values()), careful=True)
        if not left.specs:
            return
        many = len(left.specs)
        self._progress.losses += 1
        _LOG.warning("lost a batch of %d problems, %d of them unsolved: %s", len(flight.batch.specs), many, reason)
        self._save()  # others may start from these answers
        # One problem may kill every worker, and must not take its batch along. The first loss only makes the batch
        # careful: it reports each answer at once. If a careful batch is lost, its first unanswered problem is to
        # blame, and only that one has used up an attempt.
        if self._executor.streams and not (flight.batch.careful or flight.owner or many == 1):
            self._append(left)  # the current problem is unknown until the next loss
        elif self._executor.streams:
            self._release_of_task(flight)
            at = tuple(spec for key, spec in flight.left.items() if key not in flight.solved)[:1]
            self._retry(replace(left, specs=at), reason)  # the current problem
            self._append(replace(left, specs=tuple(spec for spec in left.specs if spec not in at)))
        # Without streaming the current problem is unknown: from the second loss on each is tried alone.
        elif many > 1 and self._attempts[left.specs[0].key] > 0:
            for spec in left.specs:
                self._retry(replace(left, specs=(spec,)), reason)
        else:
            self._retry(left, reason)

    def _release_of_task(self, flight: _InFlight) -> None:
        """Release the claims of a lost worker."""
        if not flight.owner:
            return
        try:
            self._store.release_claims(flight.owner, flight.left)
        except CacheError as err:  # the leases expire
            _LOG.warning("claims will expire: %s", err)

    def _retry(self, batch: Batch, reason: str) -> None:
        """Schedule another attempt at problems that have attempts left."""
        left = []
        for spec in batch.specs:
            self._attempts[spec.key] += 1
            if self._attempts[spec.key] >= self._options.attempts:
                self._give_up(spec, batch, f"given up after {self._options.attempts} attempts: {reason}")
            else:
                left.append(spec)
        tries = max((self._attempts[spec.key] for spec in left), default=1)
        self._delay(replace(batch, specs=tuple(left)), min(MAX_BACK_OFF, BACK_OFF * 2 ** (tries - 1)))

    def _defer(self, batch: Batch) -> None:
        """Check a batch that another run has claimed again later."""
        if batch.specs:
            looks = self._deferrals[batch.specs[0].key] = self._deferrals[batch.specs[0].key] + 1
            self._delay(batch, min(self._options.lease / 3, BACK_OFF * 2 ** (looks - 1)))

    def _delay(self, batch: Batch, pause: float) -> None:
        if batch.specs:
            careful = replace(batch, careful=True)
            heapq.heappush(self._delayed, (time.monotonic() + pause, next(self._numbers), careful))
            self._unsent += batch.seconds

    def _append(self, batch: Batch) -> None:
        if batch.specs:
            self._ready.append(batch)
            self._unsent += batch.seconds

    def _count_stored(self, batch: Batch, answer: Answer | AnswerStored) -> None:
        """Count a stored answer."""
        if answer.gap is None:
            self._progress.elsewhere += 1
        else:
            self._progress.solved += 1
            self._progress.limited += answer.limited
            self._progress.worst_gap = max(self._progress.worst_gap, answer.gap)
        self._progress.done += batch.mean_seconds

    def _give_up(self, spec: Spec, batch: Batch, reason: str) -> None:
        key = spec.key
        _LOG.warning("%s: %s", key, reason)
        self._failures.append(Failure(spec, key, reason))
        self._progress.done += batch.mean_seconds
        self._claims.release([key])

    def _release(self) -> None:
        """Store new answers and release every claim, so that the next run need not wait for leases."""
        many = len(self._unsaved)
        try:
            self._save()
        except CacheError as err:
            _LOG.warning("%d answers cannot be stored and will be solved again: %s", many, err)
        self._claims.release()
        if self._in_flight and self._options.store_url and self._executor.streams:
            self._executor.close()  # before releasing its workers' claims
            for flight in self._in_flight.values():
                self._release_of_task(flight)

    def _progress_now(self) -> RunProgress:
        progress = self._progress
        return replace(
            progress,
            failed=len(self._failures),
            done=min(progress.done, progress.work),
            seconds=time.monotonic() - self._began,
        )
