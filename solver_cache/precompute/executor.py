"""What runs batches: one protocol for this machine's processes and for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from darrm_opt.errors import DarrmError
from solver_cache.precompute.worker import Event, Task

Work = Callable[[Task], Iterator[Event]]
"""What a worker does: `solver_cache.precompute.worker.perform`, or what a test puts around it. At the top of a module."""


@dataclass(frozen=True)
class TaskEnded:
    """A task is over: every event of it was told."""


@dataclass(frozen=True)
class TaskLost:
    """A task is over before its end: its worker was killed, or can no longer be reached."""

    reason: str


@dataclass(frozen=True)
class ExecutorEvent:
    """Something happened to a task."""

    number: int
    what: Event | TaskEnded | TaskLost


class ExecutorLost(DarrmError):
    """There is nothing left to run batches; what was kept is kept, and running again continues."""


class Executor(Protocol):
    """Runs tasks.

    Attributes:
        streams: whether events are told at once: then a lost worker was at the first problem that is not told of. Else
            they are told when the task ends.
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

    def poll(self, seconds: float) -> list[ExecutorEvent]:
        """Return what happened since it was last asked; wait so long [s] for something.

        Raises:
            ExecutorLost: it is gone for good.
        """

    def close(self) -> None:
        """End its workers."""
