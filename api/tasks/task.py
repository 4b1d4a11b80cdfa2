"""Task: one question, as the same value from the route, through the job, to the process that answers it.

Every kind of answer takes one road: the route makes a task, the service looks for its answer, else queues its job; a
worker has the task compute, and whoever reads the result has the task prove it again. Two types of task follow the
protocol: the design of a γ (`api.tasks.design`), and any other answer (`api.tasks.answers`, where kinds are listed).
Processes of the pool import this module, so it imports no schema and no framework.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from darrm_opt.errors import DarrmError
from solver_cache.store import Store
from solver_cache.task_loop import PoolFunction, Report

if TYPE_CHECKING:
    from api.settings import Settings
    from solver_cache.process_pool import RunOptions

ProgressCallback = Callable[[Any], None]

Limits = tuple[float, float]
"""Time, and processor time, after which a process is stopped [s]."""

RunInThread = Callable[..., Awaitable[Any]]
"""``await run_in_thread(function, *arguments)``: a blocking call, made in a thread."""

UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, DarrmError)
"""What reading a row raises that anyone who can write to the database may have written."""


class Processes(Protocol):
    """Processes that run tasks: a pool, or a queue at which clients take turns."""

    async def run(self, task: PoolFunction, argument: Any, **options: Unpack[RunOptions]) -> Any:
        """Return what a task returns; arguments and errors are those of `ProcessPool.run`."""


@dataclass(frozen=True)
class TaskContext:
    """What a task uses of its service."""

    store: Store  # of answers
    settings: Settings  # the operator's limits
    read: RunInThread  # how a blocking call is made that only reads
    write: RunInThread  # how one is made that may write
    pool: Processes  # the processes that compute
    checkers: Processes  # those that prove stored results again
    clients: Callable[[], Awaitable[Collection[str]]]  # whose the designs are that are stored
    viewer: Callable[[], str | None]  # the client that sees its own designs only; None for all


class Task(Protocol):
    """One question. Its key is the id of its job and, where the answer is stored, of the answer."""

    @property
    def kind(self) -> str:
        """Name of the kind of answer, in `darrm_opt.questions.registry.QUESTIONS`."""

    @property
    def key(self) -> str:
        """Content key: the same question has the same one."""

    @property
    def seconds(self) -> float:
        """How long it is expected to take [s]."""

    @property
    def solves(self) -> bool:
        """Whether its work is the design of a γ, which the operator can switch off."""

    @property
    def text(self) -> str:
        """The task as canonical JSON, the form that is stored with the job."""

    def check(self, settings: Settings) -> None:
        """Reject choices that do not fit, and work for which the operator's processes are too small."""

    def design_keys(self, answer: dict[str, Any]) -> Collection[str]:
        """Return the content keys of the designs in an answer; they may be stored."""

    async def load(self, context: TaskContext) -> dict[str, Any] | None:
        """Return the answer that is stored, proved again; None without one."""

    async def nearest(self, context: TaskContext) -> dict[str, Any] | None:
        """Return the best stored answer whose guarantee implies the one that is asked, labelled; None without one."""

    async def compute(
        self, context: TaskContext, limits: Limits | None = None, progress: ProgressCallback | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Compute the answer, within the limits of a job where none are given; return its job's result, and it."""

    async def verify(
        self, result: dict[str, Any], context: TaskContext, asked: Task | None = None
    ) -> dict[str, Any] | None:
        """Return the answer in a job's result, proved again; None if it is gone, or does not answer the question.

        Anything may be in the result, and what cannot be read raises one of `UNREADABLE`. The task that is ``asked``
        now may want a better answer; None: whatever the job came to.
        """

    async def settle(self, progress: str, context: TaskContext) -> dict[str, Any] | None:
        """Return the result of work that stops now, given its last report as JSON; None if it has none."""


def verify_result(
    argument: tuple[Callable[[dict[str, Any], dict[str, Any]], None], dict[str, Any], dict[str, Any]], report: Report
) -> str:
    """Return why a stored result does not answer its task: "" if everything that it answers for is proved again."""
    verify, task_argument, result = argument
    report(None)
    try:
        verify(task_argument, result)
    except UNREADABLE as err:
        return str(err) or type(err).__name__
    return ""
