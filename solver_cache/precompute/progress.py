"""Progress of a run, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solver_cache.model import Spec


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run.

    Attributes:
        planned: problems that were missing when it began.
        solved: answers that it stored.
        elsewhere: answers that another run stored meanwhile.
        limited: those of its own answers with a gap that stays, because nothing better can be proved private.
        failed: problems that are given up.
        losses: how often a worker was lost with work in hand.
        worst_gap: the largest gap among its own answers.
        work: expected work [s on one processor].
        done: the part of it that is over.
        seconds: time since the run began [s].
    """

    planned: int
    solved: int
    elsewhere: int
    limited: int
    failed: int
    losses: int
    worst_gap: float
    work: float
    done: float
    seconds: float

    @property
    def over(self) -> int:
        """Problems that nothing is left to be done about."""
        return self.solved + self.elsewhere + self.failed

    @property
    def rate(self) -> float:
        """Answers stored in a second."""
        return self.solved / self.seconds if self.seconds > 0 else 0.0

    @property
    def remaining(self) -> float | None:
        """Expected time to the end [s], at the pace so far; None before there is one."""
        if self.over == self.planned:
            return 0.0
        return self.seconds * (self.work - self.done) / self.done if self.done > 0 else None


@dataclass(frozen=True)
class Failure:
    """Problem that was given up.

    Attributes:
        spec: what was asked.
        key: its key.
        reason: why, in words.
    """

    spec: Spec
    key: str
    reason: str


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a run.

    Attributes:
        progress: where it stood at its end.
        failures: what was given up.
    """

    progress: RunProgress
    failures: tuple[Failure, ...]


RunWatcher = Callable[[RunProgress], None]
