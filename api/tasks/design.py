"""γ design: the task of one, and the functions that design one or several and prove them, in a process of the pool.

The process opens no store. It proves what it found once more, the way the store does when it reads, so that its parent
can store the answer without spending seconds on a proof of its own. An optimal answer is stored once, in the store's
table of answers, and its job only says so. One that the time limit cut short is private all the same: it is the result
of its job, but not the answer of its key. Whatever is read is proved again.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
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
"""A process that has not returned this long after twice its time limit is stuck [s].

The limit is checked between steps, and the last of them proves the solution.
"""

STORED: dict[str, Any] = {"kept": True}
"""Result of a job whose answer is in the store."""


FIRST_INCUMBENT_SECONDS = 0.5
"""Time after which a solve shows its first certified γ [s]: a shorter one has its answer sooner."""

INCUMBENT_SHARE = 0.1
"""Largest share of a solve's time that proofs of what it has so far may take."""


@dataclass(frozen=True)
class DesignTask:
    """One γ to design: the same value from the route, through the job, to the process that solves it."""

    kind: ClassVar[str] = "gamma"
    solves: ClassVar[bool] = True

    spec: DesignSpec  # what the answer depends on; its key is the id of the job and of the answer
    method: Method  # how to solve, "auto", "enumerate" or "cuts"
    backend: str  # the solver
    time_limit: float | None = None  # longest solve that the request wants [s]; None for the server's
    gap: float | None = None  # gap at which the solve may end; None for the optimum

    @cached_property
    def key(self) -> str:
        """The id of the job and of its answer."""
        return self.spec.key

    @cached_property
    def seconds(self) -> float:
        """How long it is expected to take [s]."""
        return estimate_running_time(self.spec, self.method).seconds

    @cached_property
    def text(self) -> str:
        """The task as canonical JSON, the form that is stored with the job; made once."""
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
        """Return the task that `text` states."""
        content = json.loads(text)
        spec = DesignSpec(problem_from_record(content["problem"]), content["objective"], content["shape"])
        limits = {name: None if content.get(name) is None else float(content[name]) for name in ("time_limit", "gap")}
        return cls(spec, cast("Method", content["method"]), content["backend"], **limits)

    def check(self, settings: Settings) -> None:
        """Reject what `solve` would, and more memory than a solver process may take (`Task.check`)."""
        check_choices(self.spec.problem, self.spec.shape, self.method, self.backend)
        memory = design_memory(self.spec, self.method)
        if memory > settings.solver_memory:
            from api.errors.problem_details import WorkLimitExceeded

            raise WorkLimitExceeded(
                f"Solving by {self.method} is expected to need {memory:.0f} MiB, and a solver process may take "
                f"{settings.solver_memory} MiB on this server. method = 'cuts' gives the same answer with less.",
                self.seconds,
                "method",
            )

    def design_keys(self, answer: dict[str, Any]) -> Collection[str]:
        """Return the key of the γ."""
        return [answer["id"]]

    async def load(self, context: TaskContext) -> dict[str, Any] | None:
        """Return the stored answer, proved again, or None."""
        solution = await context.read(recall, self.spec, context.store)
        return None if solution is None else self._answer(solution_record(solution), cached=True)

    async def nearest(self, context: TaskContext) -> dict[str, Any] | None:
        """Return the best stored answer whose guarantee implies the one that is asked, labelled, or None."""
        match: Nearest | None = await context.read(nearest, self.spec, context.store, context.viewer())
        return None if match is None else {"id": self.key, "cached": True, **match.record}

    async def compute(
        self, context: TaskContext, limits: Limits | None = None, progress: ProgressCallback | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Design γ and store it; return its job's result and the answer (`Task.compute`)."""
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
        # What a reader of the store would not believe is not stored: asked again, it is designed again.
        if trouble:
            _LOG.error("job %s: the answer fails its own check: %s", self.key, trouble)
        # What a time limit cut short stays with its job: the store is for what is optimal and canonical.
        elif result["final"]:
            record, is_stored, trouble = await context.write(
                save_record, self.spec, record, context.store, await context.clients()
            )
        answer = self._answer(record, cached=False)
        if is_stored:
            return STORED, answer
        limit = 0.0 if record["status"] == Status.INTERRUPTED.value else limit  # more time would better it
        return {"kept": False, "record": record, "time_limit": limit, "trouble": trouble}, answer

    async def verify(
        self, result: dict[str, Any], context: TaskContext, asked: Task | None = None
    ) -> dict[str, Any] | None:
        """Return the answer in a job's result, proved again (`Task.verify`).

        One that is not optimal is none to ``asked`` if more time would better it, unless its gap is as small as that
        asks for.
        """
        if result["kept"]:
            return await self.load(context)
        record, limit = result["record"], float(result["time_limit"])
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
        """Return the result of a solve that stops now: its best certified γ, proved again; None if it has none."""
        record = read_incumbent(progress)
        verified = None if record is None else await context.read(verify_record, record, self)
        return None if verified is None else {"kept": False, "record": verified, "time_limit": 0.0, "trouble": ""}

    def _limit(self, settings: Settings) -> float:
        """Return the time limit of a solve [s]: the server's, or the request's if it is shorter."""
        return settings.time_limit if self.time_limit is None else min(settings.time_limit, self.time_limit)

    def _answer(self, record: dict[str, Any], *, cached: bool) -> dict[str, Any]:
        return {"id": self.key, "cached": cached, "nearest": None, **record}


def read_incumbent(progress: str) -> dict[str, Any] | None:
    """Return the record of the best γ in a solve's last report, as stored and not proved again; None without one."""
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
    """Watcher of a solve: reports its progress and its best certified γ, and ends it at the gap that was asked for."""

    def __init__(self, task: DesignTask, report: Report) -> None:
        self._task, self._report = task, report
        self._record: dict[str, Any] | None = None
        self._utility, self._next = -1.0, FIRST_INCUMBENT_SECONDS
        self.gap_reached = False  # whether it has ended the solve

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
        """Scale the γ so far until its privacy is proved, and make it the record that is shown."""
        start, spec = time.monotonic(), self._task.spec
        noise, certificate = certify(spec.problem, gamma)
        seconds = time.monotonic() - start
        # The next proof comes so much later that proofs take at most that share of the time.
        self._next = progress.seconds + seconds / INCUMBENT_SHARE
        utility = spec.objective.linear_goal(spec.problem.K).utility(noise.upper_half)
        # Scaling costs utility: a better γ of the program may be a worse one once it is proved.
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
            # It is private and has a bound, as the answer of a solve that was ended here would.
            status=Status.INTERRUPTED,
            certificate=certificate,
            method="enumerate" if self._task.method == "enumerate" else "cuts",
            backend=self._task.backend,
            statistics=Statistics(progress.rows, progress.round, 0, {"total": progress.seconds}),
        )
        self._record = solution_record(solution)


def verify_as_stored(solution: Solution, spec: DesignSpec) -> tuple[Solution | None, str]:
    """Prove a solution again as the store does when it reads one, whatever its status."""
    validation = validate_row(row_of(replace(solution, status=Status.OPTIMAL)), spec)
    return None if validation.solution is None else replace(
        validation.solution, status=solution.status
    ), validation.reason


def verify_record(record: dict[str, Any], task: DesignTask) -> dict[str, Any] | None:
    """Return the record of an answer to a task, proved again; None if it is no such answer.

    Also for an answer that the time limit cut short, which no store holds.
    """
    solution, _ = verify_as_stored(solution_from_record(record), task.spec)
    return None if solution is None else solution_record(solution)


def solve_smallest(_: Any, report: Report) -> float:
    """Return γ(1) of three voters with m = 1, whose optimum is known, |2/3 − 1| = 1/3: shows that the solver works."""
    report(None)
    return float(solve(Problem.from_allowance(K=3, m=1, epsilon=0.1)).gamma[1])


def is_database(path: str, report: Report) -> bool:
    """Tell whether a file begins as SQLite's do; only for a process that has it not open: closing drops its locks."""
    report(None)
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def load_libraries(_: Any, report: Report) -> None:
    """Load the libraries of short work, which takes a quarter second: a tiny problem is solved."""
    solve_smallest(None, report)
    with suppress(ImportError):  # most work does without
        import_module("scipy.special")
