"""All cases, turn by turn, within a budget.

Each turn measures every case once, the job and then its peer, so that both meet the same machine (A B A B) and slow
drifts spread over all rows. The first turn comes first for all: a spent budget costs repeats before it costs a row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cases import Case, Command, Job
from benchmarks.measure import Failure, Outcome, measure

Measure = Callable[[Job, float, Path], Outcome]


@dataclass
class Result:
    """What has been measured of a case so far: one entry a turn.

    Attributes:
        case: the case.
        job: outcomes of its job.
        peer: outcomes of its peer; may be fewer.
        took: how long the last turn took, processes included [s].
    """

    case: Case
    job: list[Outcome] = field(default_factory=list)
    peer: list[Outcome] = field(default_factory=list)
    took: float = 0.0


class Budget:
    """Time for a whole run [s], from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._end - time.monotonic())


def run(
    results: Iterable[Result],
    budget: Budget,
    scratch: Path,
    *,
    watcher: Callable[[Result], None] = lambda _: None,
    measured_by: Measure = measure,
) -> None:
    """Measure cases until each has its repeats or the budget is spent.

    Args:
        results: one a case; filled in.
        budget: the time there is.
        scratch: an empty folder.
        watcher: called after each case of each turn.
        measured_by: what runs a job.
    """
    open_ones, turn = list(results), 0
    while open_ones:
        for result in open_ones:
            if budget.left > (result.took if turn else 0.0):
                _one_turn(result, turn, budget, scratch, measured_by)
                watcher(result)
        turn += 1
        open_ones = [r for r in open_ones if len(r.job) == turn < r.case.repeats and not _has_failed(r)]


def _one_turn(result: Result, turn: int, budget: Budget, scratch: Path, measured_by: Measure) -> None:
    began, case = time.monotonic(), result.case
    if turn == 0 and case.warm and isinstance(case.job, Command):
        # the first run of a program reads it from the disk and compiles it: not what is asked
        measured_by(case.job, min(case.limit, budget.left), scratch)
    result.job.append(_within(case.job, case.limit, budget, scratch, measured_by))
    if case.peer is not None and turn < (case.repeats if case.peer_repeats is None else case.peer_repeats):
        result.peer.append(_within(case.peer, case.peer_limit, budget, scratch, measured_by))
    result.took = time.monotonic() - began


def _within(job: Job, limit: float, budget: Budget, scratch: Path, measured_by: Measure) -> Outcome:
    seconds = budget.left
    if seconds <= 0:
        return Failure("not measured: the run's budget was spent")
    outcome = measured_by(job, min(limit, seconds), scratch)
    if isinstance(outcome, Failure) and outcome.reason.startswith("stopped"):
        reason = "its limit" if limit <= seconds else "the run's budget"
        return Failure(f"{outcome.reason} ({reason})", outcome.at_least)
    return outcome


def _has_failed(result: Result) -> bool:
    return any(isinstance(outcome, Failure) for outcome in (*result.job, *result.peer))
