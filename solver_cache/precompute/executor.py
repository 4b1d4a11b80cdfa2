"""What runs batches: one protocol for this machine's processes and for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from darrm_opt.errors import DarrmError
from solver_cache.precompute.work import Event, Task

Work = Callable[[Task], Iterator[Event]]
"""What a worker does: `solver_cache.precompute.work.perform`, or what a test puts around it. At the top of a module."""


@dataclass(frozen=True)
class Ended:
    """A task is over: every event of it was told."""


@dataclass(frozen=True)
class Lost:
    """A task is over before its end: its worker was killed, or can no longer be reached."""

    reason: str


@dataclass(frozen=True)
class News:
    """Something happened to a task."""

    number: int
    what: Event | Ended | Lost


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
    def room(self) -> int:
        """How many more tasks it takes now, so that none of its workers waits."""

    def submit(self, task: Task) -> None:
        """Take a task."""

    def news(self, seconds: float) -> list[News]:
        """Return what happened since it was last asked; wait so long [s] for something.

        Raises:
            ExecutorLost: it is gone for good.
        """

    def close(self) -> None:
        """End its workers."""
