"""The solve, as a task for a solver process: plain data in, plain data out, progress on the way.

The process opens no store. It proves what it found once more, the way the store does when it reads, so that its parent
can keep the answer without spending seconds on a proof of its own.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from api.process_pool.task_loop import Report
from darrm_opt.design.program import Status
from darrm_opt.design.solution import Progress, Solution
from darrm_opt.design.solver import solve
from darrm_opt.design_spec import DesignSpec
from darrm_opt.record import problem_from_record, problem_record, solution_from_record, solution_record
from solver_cache.model import row_of
from solver_cache.validate import validate


def gamma_argument(request: DesignSpec, method: str, backend: str) -> dict[str, Any]:
    """Return what `design_gamma` is asked, but for the time limit; kept with the job."""
    return {
        "problem": problem_record(request.problem),
        "objective": str(request.objective),
        "shape": request.shape,
        "method": method,
        "backend": backend,
    }


def request_of(argument: dict[str, Any]) -> DesignSpec:
    """Return the request of which `gamma_argument` made an argument.

    Raises:
        InvalidInput: it is no such argument.
    """
    return DesignSpec(problem_from_record(argument["problem"]), argument["objective"], argument["shape"])


def design_gamma(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Design γ_opt.

    Args:
        argument: of `gamma_argument`, and "time_limit" [s].
        report: told `progress_to_dict` after every round.

    Returns:
        "record", of the certified solution; and "doubt", why the store would not believe it, in words: empty unless
        something is wrong with this program.
    """
    request = request_of(argument)
    solution = solve(
        request.problem,
        request.objective,
        request.shape,
        argument["method"],
        argument["backend"],
        time_limit=argument["time_limit"],
        progress=lambda told: report(progress_to_dict(told)),
    )
    return {"record": solution_record(solution), "doubt": validated(solution, request)[1]}


def recheck(argument: dict[str, Any], report: Report) -> dict[str, Any] | None:
    """Return the "record" of an answer to the "asked" argument of `design_gamma`, proved again; None if it is no such answer.

    For an answer that was cut short, which no store keeps, as well.
    """
    report(None)
    solution, _ = validated(solution_from_record(argument["record"]), request_of(argument["asked"]))
    return None if solution is None else solution_record(solution)


def progress_to_dict(told: Progress) -> dict[str, Any]:
    """Return a report as plain data."""
    return {
        "round": told.round,
        "rows": told.rows,
        "utility": told.utility,
        "upper_bound": told.upper_bound,
        "gap": max(0.0, told.upper_bound - told.utility),
        "violation": told.violation,
        "seconds": told.seconds,
    }


def validated(solution: Solution, request: DesignSpec) -> tuple[Solution | None, str]:
    """Examine a solution as one that is read from a store, whatever its status; return it under the new certificate."""
    found = validate(row_of(replace(solution, status=Status.OPTIMAL)), request)
    return None if found.solution is None else replace(found.solution, status=solution.status), found.reason


def certify(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the certificate of ``gamma`` for ``problem``, by ``arithmetic``; raises where it is not private."""
    from darrm_opt.design.certificate import verify

    report(None)
    problem = problem_from_record(argument["problem"])
    return asdict(verify(problem, argument["gamma"], arithmetic=argument["arithmetic"]))


def solve_smallest(_: Any, report: Report) -> float:
    """Return γ(1) of three voters with m = 1, whose optimum is known, |2/3 − 1| = 1/3: solved, proved, in a solver process."""
    from darrm_opt.design.solver import solve
    from darrm_opt.problem import Problem

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
            solutions[i], doubts[i] = solved, validated(solved, DesignSpec(problems[i], goal, argument["shape"]))[1]
    found = [solution for solution in solutions if solution is not None]
    averages = error_curves_over_m(found, argument["baselines"])["curves"] if isinstance(goal, Objective) else None
    return {"solutions": [solution_record(solution) for solution in found], "doubts": doubts, "curves": averages}
