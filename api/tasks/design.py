"""γ design in a process of the pool: the task as one typed value, and the functions that solve, re-check and certify.

The process opens no store. It proves what it found once more, the way the store does when it reads, so that its parent
can store the answer without spending seconds on a proof of its own.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

from darrm_opt.design.certificate import certify as prove_by_scaling
from darrm_opt.design.certificate import verify
from darrm_opt.design.separation.result import TimeLimitReached
from darrm_opt.design.solution import Progress, Solution, Statistics, Status
from darrm_opt.design.solver import Method, solve
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.record import problem_from_record, problem_record, solution_from_record, solution_record
from solver_cache.model import row_of
from solver_cache.process_pool.task_loop import Report
from solver_cache.validate import validate_row


@dataclass(frozen=True)
class DesignTask:
    """One γ to design: the same value from the route, through the job, to the process that solves it.

    Attributes:
        spec: what the answer depends on; its key is the id of the job and of the answer.
        method: how to solve, "auto", "enumerate" or "cuts".
        backend: the solver.
        time_limit: longest solve that the request wants [s]; None for the server's.
        gap: gap at which the solve may end; None for the optimum.
    """

    spec: DesignSpec
    method: Method
    backend: str
    time_limit: float | None = None
    gap: float | None = None

    @property
    def key(self) -> str:
        """The id of the job and of its answer."""
        return self.spec.key

    def to_json(self) -> str:
        """Return the task as canonical JSON, the form that is stored with the job."""
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
        """Return the task that `to_json` wrote.

        Raises:
            InvalidInput: a value is out of its range.
            LookupError, ValueError: it is no such text.
        """
        content = json.loads(text)
        spec = DesignSpec(problem_from_record(content["problem"]), content["objective"], content["shape"])
        limits = {name: None if content.get(name) is None else float(content[name]) for name in ("time_limit", "gap")}
        return cls(spec, cast("Method", content["method"]), content["backend"], **limits)


def design_gamma(argument: tuple[DesignTask, float], report: Report) -> dict[str, Any]:
    """Design γ_opt.

    Args:
        argument: the task and its time limit [s].
        report: called with `progress_to_dict` after every round.

    Returns:
        "record", of the certified solution; and "doubt", the reason why the store would reject it: empty unless
        something is wrong with this program.
    """
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
    return {"record": solution_record(solution), "doubt": recheck(solution, spec)[1]}


FIRST_INCUMBENT_SECONDS = 0.5
"""Time after which a solve shows its first certified γ [s]: a shorter one has its answer sooner."""

INCUMBENT_SHARE = 0.1
"""Largest share of a solve's time that proofs of what it has so far may take."""


class IncumbentWatcher:
    """Watcher of a solve: reports its progress and its best certified γ, and ends it at the gap that was asked for.

    Args:
        task: what is solved.
        report: called with `progress_to_dict` after every round, and in it the record of the best certified γ as
            "incumbent".

    Attributes:
        gap_reached: whether it has ended the solve.
    """

    def __init__(self, task: DesignTask, report: Report) -> None:
        self._task, self._report = task, report
        self._record: dict[str, Any] | None = None
        self._utility, self._next = -1.0, FIRST_INCUMBENT_SECONDS
        self.gap_reached = False

    def watch(self, progress: Progress) -> None:
        """Report a round.

        Raises:
            TimeLimitReached: the gap is as small as was asked for.
        """
        if progress.noise is not None and progress.seconds >= self._next and progress.utility > self._utility:
            self._prove(progress, progress.noise)
        if self._record is not None:
            bound = min(progress.upper_bound, self._record["upper_bound"])
            self._record |= {"upper_bound": bound, "gap": max(0.0, bound - self._record["utility"])}
        self._report({**progress_to_dict(progress), "incumbent": self._record})
        if self._task.gap is not None and progress.upper_bound - progress.utility <= self._task.gap:
            self.gap_reached = True
            raise TimeLimitReached

    def _prove(self, progress: Progress, gamma: NoiseFunction) -> None:
        """Scale the γ so far until its privacy is proved, and make it the record that is shown."""
        start, spec = time.monotonic(), self._task.spec
        noise, certificate = prove_by_scaling(spec.problem, gamma)
        seconds = time.monotonic() - start
        self._next = progress.seconds + seconds / INCUMBENT_SHARE
        utility = spec.objective.linear_goal(spec.problem.K).utility(noise.values[spec.problem.K // 2 + 1 :])
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
            status=Status.INTERRUPTED,
            certificate=certificate,
            method="enumerate" if self._task.method == "enumerate" else "cuts",
            backend=self._task.backend,
            statistics=Statistics(progress.rows, progress.round, 0, {"total": progress.seconds}),
        )
        self._record = solution_record(solution)


def recheck(solution: Solution, spec: DesignSpec) -> tuple[Solution | None, str]:
    """Prove a solution again as the store does when it reads one, whatever its status.

    Returns:
        the solution under the new certificate, None if it does not answer the request; and the reason then.
    """
    validation = validate_row(row_of(replace(solution, status=Status.OPTIMAL)), spec)
    return None if validation.solution is None else replace(
        validation.solution, status=solution.status
    ), validation.reason


def recheck_record(record: dict[str, Any], task: DesignTask) -> dict[str, Any] | None:
    """Return the record of an answer to a task, proved again; None if it is no such answer.

    Also for an answer that the time limit cut short, which no store holds.
    """
    solution, _ = recheck(solution_from_record(record), task.spec)
    return None if solution is None else solution_record(solution)


def progress_to_dict(progress: Progress) -> dict[str, Any]:
    """Return the progress of a solve as plain data."""
    return {
        "round": progress.round,
        "rows": progress.rows,
        "utility": progress.utility,
        "upper_bound": progress.upper_bound,
        "gap": max(0.0, progress.upper_bound - progress.utility),
        "violation": progress.violation,
        "seconds": progress.seconds,
    }


def certify(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the certificate of ``gamma`` for ``problem``, by ``arithmetic``; raises if it is not private."""
    report(None)
    problem = problem_from_record(argument["problem"])
    return asdict(verify(problem, argument["gamma"], arithmetic=argument["arithmetic"]))


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


def compute_tradeoff(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return solutions for the ``problems`` that have none in ``known`` (a record or None each), and the averages.

    "doubts" says of each why the store would not believe it: empty unless something is wrong with this program.

    They differ in their target only; the time limit is that of all together.
    """
    from darrm_opt.answers.curves import error_curves_over_m
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.design.sweep import solve_sweep

    problems = [problem_from_record(record) for record in argument["problems"]]
    doubts = [""] * len(problems)
    solutions = [None if record is None else solution_from_record(record) for record in argument["known"]]
    goal, shape = as_objective(argument["objective"]), argument["shape"]
    missing = [i for i, solution in enumerate(solutions) if solution is None]
    stored_count = len(problems) - len(missing)
    report({"done": stored_count, "of": len(problems)})
    sweep = solve_sweep(
        [problems[i] for i in missing],
        goal,
        shape,
        backend=argument["backend"],
        total_time_limit=argument["time_limit"],
    )
    for done, (index, solution) in enumerate(sweep, stored_count + 1):
        i = missing[index]
        solutions[i], doubts[i] = solution, recheck(solution, DesignSpec(problems[i], goal, shape))[1]
        report({"done": done, "of": len(problems)})
    all_solutions = [solution for solution in solutions if solution is not None]
    averages = (
        error_curves_over_m(all_solutions, argument["baselines"])["curves"] if isinstance(goal, Objective) else None
    )
    return {
        "solutions": [solution_record(solution) for solution in all_solutions],
        "doubts": doubts,
        "curves": averages,
    }


def compute_least(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the answer to the inverse question, its γ and the one next below proved again as the store does.

    "doubts" is as in `compute_tradeoff`.
    """
    from darrm_opt.answers.curves import find_least

    result = find_least(argument, report)
    solutions = [solution_from_record(record) for record in result["solutions"]]
    return {**result, "doubts": [recheck(solution, DesignSpec.of(solution))[1] for solution in solutions]}
