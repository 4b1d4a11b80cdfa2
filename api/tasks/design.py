"""Design of a γ: its task, and the functions that solve and prove it in a pool process.

The process opens no store. It proves its answer as the store does on reading, so that its parent can store it without
spending seconds on a proof. An optimal answer is stored in the store's table of answers, and its job only refers to
it. One that the time limit cut short is private too: it is the result of its job, but not the answer of its key.
Whatever is read is proved again.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from api.tasks.task import Limits, ProgressCallback, Task, TaskContext
from darrm_opt.answers.running_time import design_memory, estimate_running_time
from darrm_opt.design.certificate import certify
from darrm_opt.design.separation.result import TimeLimitReached
from darrm_opt.design.solution import Progress, Solution, Statistics, Status
from darrm_opt.design.solver import Method, check_choices, solve
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.record import (
    DesignSpec,
    canonical_json,
    problem_from_record,
    problem_record,
    solution_from_record,
    solution_record,
)
from solver_cache.model import row_of
from solver_cache.nearest import Nearest, nearest
from solver_cache.solve import recall, save_record
from solver_cache.task_loop import Report
from solver_cache.validate import validate_row

if TYPE_CHECKING:
    from api.settings import Settings

_LOG = logging.getLogger("api.jobs")

GRACE_SECONDS = 30.0
"""Time beyond twice the time limit after which a process is stuck.

The limit is checked between steps, and the last step proves the solution.
"""

STORED: dict[str, Any] = {"kept": True}  # result of a job whose answer is in the store


FIRST_INCUMBENT_SECONDS = 0.5  # time after which a solve reports its first certified γ; a shorter solve ends sooner
INCUMBENT_SHARE = 0.1  # maximum share of a solve's time for proving intermediate γ


@dataclass(frozen=True)
class DesignTask(Task):
    """Design of one γ."""

    kind: str = field(default="gamma", init=False)
    solves: ClassVar[bool] = True

    spec: DesignSpec  # its key is the id of the job and of the answer
    method: Method  # "auto", "enumerate" or "cuts"
    backend: str  # LP solver
    time_limit: float | None = None  # [s]; None: the server's
    gap: float | None = None  # gap at which to stop; None: optimum

    @cached_property
    def key(self) -> str:
        return self.spec.key

    @cached_property
    def seconds(self) -> float:
        return estimate_running_time(self.spec, self.method).seconds

    @cached_property
    def text(self) -> str:
        limits = {"time_limit": self.time_limit, "gap": self.gap}
        return canonical_json(
            {
                "problem": problem_record(self.spec.problem),
                "objective": str(self.spec.objective),
                "shape": self.spec.shape,
                "method": self.method,
                "backend": self.backend,
                **{name: value for name, value in limits.items() if value is not None},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the task that ``text`` states."""
        content = json.loads(text)
        spec = DesignSpec(problem_from_record(content["problem"]), content["objective"], content["shape"])
        limits = {name: None if content.get(name) is None else float(content[name]) for name in ("time_limit", "gap")}
        return cls(spec, cast("Method", content["method"]), content["backend"], **limits)

    def check(self, settings: Settings) -> None:
        check_choices(self.spec.problem, self.spec.shape, self.method, self.backend)
        memory = design_memory(self.spec, self.method)
        if memory > settings.solver_memory:
            from api.errors.problem_details import WorkLimitExceeded

            raise WorkLimitExceeded(
                f"Solving by {self.method} needs about {memory:.0f} MiB; the limit of a solver process is "
                f"{settings.solver_memory} MiB. method = 'cuts' gives the same answer with less.",
                self.seconds,
                "method",
            )

    def design_keys(self, answer: dict[str, Any]) -> Collection[str]:
        return [answer["id"]]

    async def load(self, context: TaskContext) -> dict[str, Any] | None:
        solution = await context.read(recall, self.spec, context.store)
        return None if solution is None else self._answer(solution_record(solution), cached=True)

    async def nearest(self, context: TaskContext) -> dict[str, Any] | None:
        match: Nearest | None = await context.read(nearest, self.spec, context.store, context.viewer())
        return None if match is None else {"id": self.key, "cached": True, **match.record}

    async def compute(
        self, context: TaskContext, limits: Limits | None = None, progress: ProgressCallback | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        from api.observability import metrics, traces

        limit = self._limit(context.settings)
        seconds, processor = limits or (2 * limit + GRACE_SECONDS, math.inf)
        with metrics.track_solve() as set_outcome:
            result = await context.pool.run(
                design_gamma, (self, limit), time_limit=seconds, processor_limit=processor, progress=progress
            )
            record, trouble = result["record"], result["doubt"]
            set_outcome(record["method"], record["status"])
            statistics = record["statistics"]
            effort = {f"darrm.{name}": statistics[name] for name in ("rounds", "rows", "iterations")}
            traces.annotate_job({**effort, "darrm.solve_seconds": statistics["seconds"]["total"]})
        is_stored = False
        # Not stored if the store would reject it.
        if trouble:
            _LOG.error("job %s: the answer fails its own validation: %s", self.key, trouble)
        # An answer cut short stays with its job: the store holds optimal, canonical answers.
        elif result["final"]:
            record, is_stored, trouble = await context.write(
                save_record, self.spec, record, context.store, await context.clients()
            )
        answer = self._answer(record, cached=False)
        if is_stored:
            return STORED, answer
        limit = 0.0 if record["status"] == Status.INTERRUPTED.value else limit  # more time would improve it
        return {"kept": False, "record": record, "time_limit": limit, "trouble": trouble}, answer

    async def verify(
        self, result: dict[str, Any], context: TaskContext, asked: Task | None = None
    ) -> dict[str, Any] | None:
        if result["kept"]:
            return await self.load(context)
        record, limit = result["record"], float(result["time_limit"])
        # One that is not optimal is rejected if more time would improve it, unless its gap is as small as is asked.
        if isinstance(asked, DesignTask) and not Status(record["status"]).is_final:
            good_enough = asked.gap is not None and record["gap"] <= asked.gap
            if not good_enough and limit < asked._limit(context.settings):  # noqa: SLF001 - of the same class
                return None
        verified = await context.read(verify_record, record, self)
        if verified is None:
            _LOG.warning("job %s: its result does not answer its request and is not used", self.key)
            return None
        return self._answer(verified, cached=False)

    async def settle(self, progress: str, context: TaskContext) -> dict[str, Any] | None:
        record = read_incumbent(progress)
        verified = None if record is None else await context.read(verify_record, record, self)
        return None if verified is None else {"kept": False, "record": verified, "time_limit": 0.0, "trouble": ""}

    def _limit(self, settings: Settings) -> float:
        """Return the time limit of a solve [s]: the server's, or the request's if it is shorter."""
        return settings.time_limit if self.time_limit is None else min(settings.time_limit, self.time_limit)

    def _answer(self, record: dict[str, Any], *, cached: bool) -> dict[str, Any]:
        return {"id": self.key, "cached": cached, "nearest": None, **record}


def read_incumbent(progress: str) -> dict[str, Any] | None:
    """Return the record of the best γ in a solve's last report, unproved, or None."""
    try:
        incumbent = json.loads(progress)["incumbent"]
    except (LookupError, TypeError, ValueError):
        return None
    return incumbent if isinstance(incumbent, dict) else None


def design_gamma(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Design γ_opt."""
    task, time_limit = argument
    spec, watcher = task.spec, IncumbentWatcher(task, report)
    solution = solve(
        spec.problem,
        spec.objective,
        spec.shape,
        task.method,
        task.backend,
        time_limit=time_limit,
        progress=watcher.watch,
    )
    if watcher.gap_reached and solution.status is Status.TIME_LIMIT:
        solution = replace(solution, status=Status.INTERRUPTED)
    doubt = verify_as_stored(solution, spec)[1]
    return {"record": solution_record(solution), "doubt": doubt, "final": solution.status.is_final}


class IncumbentWatcher:
    """Watcher of a solve: reports progress and the best certified γ, and stops the solve at the requested gap."""

    def __init__(self, task: DesignTask, report: Report) -> None:
        self._task, self._report = task, report
        self._record: dict[str, Any] | None = None
        self._utility, self._next = -1.0, FIRST_INCUMBENT_SECONDS
        self.gap_reached = False  # whether it has stopped the solve

    def watch(self, progress: Progress) -> None:
        """Report a round."""
        if progress.noise is not None and progress.seconds >= self._next and progress.utility > self._utility:
            self._prove(progress, progress.noise)
        if self._record is not None:
            bound = min(progress.upper_bound, self._record["upper_bound"])
            self._record |= {"upper_bound": bound, "gap": max(0.0, bound - self._record["utility"])}
        names = ("round", "rows", "utility", "upper_bound", "violation", "seconds")
        report = {name: getattr(progress, name) for name in names} | {"incumbent": self._record}
        self._report({**report, "gap": max(0.0, progress.upper_bound - progress.utility)})
        if self._task.gap is not None and progress.upper_bound - progress.utility <= self._task.gap:
            self.gap_reached = True
            raise TimeLimitReached

    def _prove(self, progress: Progress, gamma: NoiseFunction) -> None:
        """Scale the current γ until its privacy is proved, and make it the reported record."""
        start, spec = time.monotonic(), self._task.spec
        noise, certificate = certify(spec.problem, gamma)
        seconds = time.monotonic() - start
        # Bounds the share of time spent on proofs.
        self._next = progress.seconds + seconds / INCUMBENT_SHARE
        utility = spec.objective.linear_goal(spec.problem.K).utility(noise.upper_half)
        # Scaling costs utility: a better γ of the LP may be worse once proved.
        if utility <= self._utility:
            return
        self._utility = utility
        solution = Solution(
            problem=spec.problem,
            objective=spec.objective,
            shape=spec.shape,
            noise=noise,
            utility=utility,
            upper_bound=max(utility, progress.upper_bound),
            # private, with a bound, like the answer of an interrupted solve
            status=Status.INTERRUPTED,
            certificate=certificate,
            method="enumerate" if self._task.method == "enumerate" else "cuts",
            backend=self._task.backend,
            statistics=Statistics(progress.rows, progress.round, 0, {"total": progress.seconds}),
        )
        self._record = solution_record(solution)


def verify_as_stored(solution: Solution, spec: DesignSpec) -> tuple[Solution | None, str]:
    """Prove a solution again as the store does on reading, whatever its status."""
    validation = validate_row(row_of(replace(solution, status=Status.OPTIMAL)), spec)
    return None if validation.solution is None else replace(
        validation.solution, status=solution.status
    ), validation.reason


def verify_record(record: dict[str, Any], task: DesignTask) -> dict[str, Any] | None:
    """Return the record of an answer to a task, proved again, or None; also one cut short by a time limit."""
    solution, _ = verify_as_stored(solution_from_record(record), task.spec)
    return None if solution is None else solution_record(solution)


def solve_smallest(_: Any, report: Report) -> float:
    """Return γ(1) for K = 3 and m = 1, whose optimum is |2/3 − 1| = 1/3: a health check of the solver."""
    report(None)
    return float(solve(Problem.from_allowance(K=3, m=1, epsilon=0.1)).gamma[1])


def is_database(path: str, report: Report) -> bool:
    """Whether a file is a SQLite database; not for a process that has it open, because closing drops its locks."""
    report(None)
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def load_libraries(_: Any, report: Report) -> None:
    """Load the libraries of short work, which takes a quarter of a second, by solving a tiny problem."""
    solve_smallest(None, report)
    with suppress(ImportError):  # optional for most work
        import_module("scipy.special")
