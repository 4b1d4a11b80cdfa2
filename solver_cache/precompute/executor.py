"""Executor protocol: runs assignments on this machine's processes or on a cluster, and reports events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from darrm_opt.errors import DarrmError
from solver_cache.precompute.worker import Assignment, Event


@dataclass(frozen=True)
class AssignmentEnded:
    """End of an assignment: all its events were reported."""


@dataclass(frozen=True)
class AssignmentLost:
    """Loss of an assignment: its worker was killed, or can no longer be reached."""

    reason: str


@dataclass(frozen=True)
class AssignmentReport:
    """Report of an assignment: events in their order, the last one of its last report being its end or its loss."""

    number: int
    events: Sequence[Event | AssignmentEnded | AssignmentLost]


class ExecutorLost(DarrmError):
    """No worker is left; what was stored stays, and running again continues."""


class Executor(Protocol):
    """Runs tasks.

    Attributes:
        streams: whether events are reported while the assignment goes on; of a careful one at once: then a lost worker
            was at the first problem without one. Else they are reported when the assignment ends.
    """

    streams: bool

    @property
    def workers(self) -> int:
        """How many assignments run at once."""

    @property
    def capacity(self) -> int:
        """How many more assignments it takes now, so that none of its workers waits."""

    def submit(self, assignment: Assignment) -> None:
        """Take an assignment."""

    def poll(self, seconds: float) -> list[AssignmentReport]:
        """Return what happened since it was last asked; wait so long [s] for something.

        Raises:
            ExecutorLost: it is gone for good.
        """

    def close(self) -> None:
        """End its workers."""
