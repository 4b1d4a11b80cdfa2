"""Executor protocol: runs tasks on this machine's processes or on a cluster, and reports events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from darrm_opt.errors import DarrmError
from solver_cache.precompute.worker import Event, Task


@dataclass(frozen=True)
class TaskEnded:
    """End of a task: all its events were reported."""


@dataclass(frozen=True)
class TaskLost:
    """Loss of a task: its worker was killed, or can no longer be reached."""

    reason: str


@dataclass(frozen=True)
class TaskReport:
    """Report of a task: events in their order, the last one of its last report being its end or its loss."""

    number: int
    events: Sequence[Event | TaskEnded | TaskLost]


class ExecutorLost(DarrmError):
    """No worker is left; what was stored stays, and running again continues."""


class Executor(Protocol):
    """Runs tasks.

    Attributes:
        streams: whether events are reported while the task goes on; of a careful task at once: then a lost worker was
            at the first problem without one. Else they are reported when the task ends.
    """

    streams: bool

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    @property
    def capacity(self) -> int:
        """How many more tasks it takes now, so that none of its workers waits."""

    def submit(self, task: Task) -> None:
        """Take a task."""

    def poll(self, seconds: float) -> list[TaskReport]:
        """Return what happened since it was last asked; wait so long [s] for something.

        Raises:
            ExecutorLost: it is gone for good.
        """

    def close(self) -> None:
        """End its workers."""
