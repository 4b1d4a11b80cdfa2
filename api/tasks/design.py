"""γ design in a process of the pool: the task as one typed value, and the functions that solve, re-check and certify.

The process opens no store. It proves what it found once more, the way the store does when it reads, so that its parent
can store the answer without spending seconds on a proof of its own.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, cast

from api.process_pool.task_loop import Report
from darrm_opt.design.certificate import verify
from darrm_opt.design.program import Status
from darrm_opt.design.solution import Progress, Solution
from darrm_opt.design.solver import Method, solve
from darrm_opt.problem import Problem
from darrm_opt.record import problem_from_record, problem_record, solution_from_record, solution_record
from solver_cache.examine import examine
from solver_cache.key import Request, canonical_json
from solver_cache.row import row_of


@dataclass(frozen=True)
class DesignTask:
    """One γ to design: the same value from the route, through the job, to the process that solves it.

    Attributes:
        request: what the answer depends on; its key is the id of the job and of the answer.
        method: how to solve, "auto", "enumerate" or "cuts".
        backend: the solver.
    """

    request: Request
    method: Method
    backend: str

    @property
    def key(self) -> str:
        """The id of the job and of its answer."""
        return self.request.key

    def to_json(self) -> str:
        """Return the task as canonical JSON, the form that is stored with the job."""
        return canonical_json(
            {
                "problem": problem_record(self.request.problem),
                "objective": str(self.request.objective),
                "shape": self.request.shape,
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
        request = Request(problem_from_record(content["problem"]), content["objective"], content["shape"])
        return cls(request, cast("Method", content["method"]), content["backend"])


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
    request = task.request
    solution = solve(
        request.problem,
        request.objective,
        request.shape,
        task.method,
        task.backend,
        time_limit=time_limit,
        progress=lambda progress: report(progress_to_dict(progress)),
    )
    return {"record": solution_record(solution), "doubt": recheck(solution, request)[1]}


def recheck(solution: Solution, request: Request) -> tuple[Solution | None, str]:
    """Prove a solution again as the store does when it reads one, whatever its status.

    Returns:
        the solution under the new certificate, None if it does not answer the request; and the reason then.
    """
    found = examine(row_of(replace(solution, status=Status.OPTIMAL)), request)
    return None if found.solution is None else replace(found.solution, status=solution.status), found.reason


def recheck_record(record: dict[str, Any], task: DesignTask) -> dict[str, Any] | None:
    """Return the record of an answer to a task, proved again; None if it is no such answer.

    Also for an answer that the time limit cut short, which no store holds.
    """
    solution, _ = recheck(solution_from_record(record), task.request)
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
