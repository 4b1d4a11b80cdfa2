"""Task: one question, passed as the same value from the route through the job to the process that answers it.

Every kind of answer takes the same path: the route creates a task; the service looks up its answer, or queues its
job; a worker computes the task, and each reader of the result proves it again. The design of a γ (`api.tasks.design`)
and any other answer (`api.tasks.answers`) implement the protocol. Pool processes import this module, so it imports no
schema and no framework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Unpack

from darrm_opt.errors import DarrmError
from solver_cache.store import Store
from solver_cache.task_loop import PoolFunction, Report

if TYPE_CHECKING:
    from api.settings import Settings
    from solver_cache.process_pool import RunOptions

ProgressCallback = Callable[[Any], None]

Limits = tuple[float, float]  # limits of time and processor time, after which a process is stopped [s]

RunInThread = Callable[..., Awaitable[Any]]
"""``await run_in_thread(function, *arguments)``: a blocking call in a thread."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, DarrmError)
"""Exceptions raised by reading an untrusted row of the database."""


class Processes(Protocol):
    """Processes that run tasks: a pool, or a fair queue."""

    async def run(self, task: PoolFunction, argument: Any, **options: Unpack[RunOptions]) -> Any:
        """Return the result of a task; see `ProcessPool.run`."""


@dataclass(frozen=True)
class TaskContext:
    """Resources that a task uses."""

    store: Store
    settings: Settings  # limits of the operator
    read: RunInThread  # runs a blocking call that only reads
    write: RunInThread  # runs a blocking call that may write
    pool: Processes  # for computing
    checkers: Processes  # for proving stored results again
    clients: Callable[[], Awaitable[Collection[str]]]  # owners of the stored designs
    viewer: Callable[[], str | None]  # client that sees only its own designs; None: all


class Task(ABC):
    """Question. Its key is the id of its job and, if the answer is stored, of the answer."""

    solves: ClassVar[bool]  # whether it designs a γ, which the operator can turn off

    if TYPE_CHECKING:  # or a dataclass would take a property for the default of its field

        @property
        def kind(self) -> str:
            """Kind of answer: its path in `darrm_opt.questions.registry.QUESTIONS`, or "gamma"."""

        @property
        def key(self) -> str:
            """Content key: the same for the same question."""

        @property
        def seconds(self) -> float:
            """Expected time [s]."""

        @property
        def text(self) -> str:
            """Canonical JSON, as stored with the job."""

    def check(self, settings: Settings) -> None:
        """Raise for an invalid choice, or for work that the operator's processes are too small for."""

    @abstractmethod
    def design_keys(self, answer: dict[str, Any]) -> Collection[str]:
        """Return the content keys of the designs in an answer, which may be stored."""

    async def load(self, context: TaskContext) -> dict[str, Any] | None:
        """Return the stored answer, proved again, or None."""

    async def nearest(self, context: TaskContext) -> dict[str, Any] | None:
        """Return the best stored answer whose guarantee implies the one requested, labelled, or None."""

    @abstractmethod
    async def compute(
        self, context: TaskContext, limits: Limits | None = None, progress: ProgressCallback | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Compute the answer within ``limits``, by default those of a job; return its job's result and the answer.

        What is designed is stored.
        """

    @abstractmethod
    async def verify(
        self, result: dict[str, Any], context: TaskContext, asked: Task | None = None
    ) -> dict[str, Any] | None:
        """Return the answer in a job's result, proved again; None if it is gone or does not answer the question.

        The result is untrusted: reading it raises one of `UNREADABLE`. The task ``asked`` may require a better
        answer; None accepts any.
        """

    async def settle(self, progress: str, context: TaskContext) -> dict[str, Any] | None:
        """Return the result of work stopped now, given its last report as JSON, or None."""


def verify_result(
    argument: tuple[Callable[[dict[str, Any], dict[str, Any]], None], dict[str, Any], dict[str, Any]], report: Report
) -> str:
    """Return why a stored result does not answer its task; "" if all of it is proved again."""
    verify, task_argument, result = argument
    report(None)
    try:
        verify(task_argument, result)
    except UNREADABLE as err:
        return str(err) or type(err).__name__
    return ""
