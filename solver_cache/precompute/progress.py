"""Progress of a run, and its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from solver_cache.model import Spec


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run."""

    planned: int  # problems that were missing when it began
    solved: int  # answers that it stored
    elsewhere: int  # answers that another run stored meanwhile
    limited: int  # those of its own answers with a gap that stays, because nothing better can be proved private
    failed: int  # problems that are given up
    losses: int  # how often a worker was lost with work in hand
    worst_gap: float  # the largest gap among its own answers
    work: float  # expected work [s on one processor]
    done: float  # the part of it that is over
    seconds: float  # time since the run began [s]

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
    """Problem that was given up."""

    spec: Spec  # what was asked
    key: str  # its key
    reason: str  # why, in words


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a run."""

    progress: RunProgress  # where it stood at its end
    failures: tuple[Failure, ...]  # what was given up


RunWatcher = Callable[[RunProgress], None]
