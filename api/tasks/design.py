"""γ design in a process of the pool: the task as one typed value, and the functions that solve, re-check and certify.

The process opens no store. It proves what it found once more, the way the store does when it reads, so that its parent
can store the answer without spending seconds on a proof of its own.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, cast

from darrm_opt.design.certificate import verify
from darrm_opt.design.program import Status
from darrm_opt.design.solution import Progress, Solution
from darrm_opt.design.solver import Method, solve
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.problem import Problem
from darrm_opt.record import problem_from_record, problem_record, solution_from_record, solution_record
from solver_cache.model import row_of
from solver_cache.process_pool.task_loop import Report
from solver_cache.validate import validate


@dataclass(frozen=True)
class DesignTask:
    """One γ to design: the same value from the route, through the job, to the process that solves it.

    Attributes:
        spec: what the answer depends on; its key is the id of the job and of the answer.
        method: how to solve, "auto", "enumerate" or "cuts".
        backend: the solver.
    """

    spec: DesignSpec
    method: Method
    backend: str

    @property
    def key(self) -> str:
        """The id of the job and of its answer."""
        return self.spec.key

    def to_json(self) -> str:
        """Return the task as canonical JSON, the form that is stored with the job."""
        return canonical_json(
            {
                "problem": problem_record(self.spec.problem),
                "objective": str(self.spec.objective),
                "shape": self.spec.shape,
                "method": self.method,
                "backend": self.backend,
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
        return cls(spec, cast("Method", content["method"]), content["backend"])


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
    spec = task.spec
    solution = solve(
        spec.problem,
        spec.objective,
        spec.shape,
        task.method,
        task.backend,
        time_limit=time_limit,
        progress=lambda progress: report(progress_to_dict(progress)),
    )
    return {"record": solution_record(solution), "doubt": recheck(solution, spec)[1]}


def recheck(solution: Solution, request: DesignSpec) -> tuple[Solution | None, str]:
    """Prove a solution again as the store does when it reads one, whatever its status.

    Returns:
        the solution under the new certificate, None if it does not answer the request; and the reason then.
    """
    found = validate(row_of(replace(solution, status=Status.OPTIMAL)), request)
    return None if found.solution is None else replace(found.solution, status=solution.status), found.reason


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


def compute_tradeoff(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return solutions for the ``problems`` that have none in ``known`` (a record or None each), and the averages.

    "doubts" says of each why the store would not believe it: empty unless something is wrong with this program.

    They differ in their target only, so each solve starts from the rows of the one before it (`design.tradeoff`); the
    time limit is that of all together.
    """
    import time

    from darrm_opt.answers.curves import error_curves_over_m
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.design.solver import solve_warm

    problems = [problem_from_record(record) for record in argument["problems"]]
    doubts = [""] * len(problems)
    solutions = [None if record is None else solution_from_record(record) for record in argument["known"]]
    goal, rows = as_objective(argument["objective"]), None
    ends = time.monotonic() + argument["time_limit"]
    for i in sorted(range(len(problems)), key=lambda i: problems[i].target.epsilon):
        report({"done": sum(solution is not None for solution in solutions), "of": len(problems)})
        if solutions[i] is None:
            left = max(ends - time.monotonic(), 1e-3)
            solved, rows = solve_warm(
                problems[i], goal, argument["shape"], rows=rows, backend=argument["backend"], time_limit=left
            )
            solutions[i], doubts[i] = solved, recheck(solved, DesignSpec(problems[i], goal, argument["shape"]))[1]
    found = [solution for solution in solutions if solution is not None]
    averages = error_curves_over_m(found, argument["baselines"])["curves"] if isinstance(goal, Objective) else None
    return {"solutions": [solution_record(solution) for solution in found], "doubts": doubts, "curves": averages}
