"""The process that one job runs in: ``python -m benchmarks.worker JOB`` reads JSON and prints JSON.

The first line says when timing began (on the system's monotonic clock, which all processes share), so that of a job
that had to be stopped it is known how long it ran; the second is the measurement.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.cases import EPSILON, MU, Load, Profile, Solve, Total

if TYPE_CHECKING:  # darrm_opt is imported where its import is timed
    from darrm_opt import Solution

WARM_UP_VOTERS = 7  # K of the solve that loads what a later one needs


def _peak_memory() -> int:
    """Return the peak resident memory of this program alone [bytes]; getrusage would count the parent's too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    """Run the job that the command line names."""
    fields = json.loads(sys.argv[1])
    task = fields.pop("task")
    if task == "Load":
        from benchmarks.load import measure_load

        _begin()
        sys.stdout.write(json.dumps(measure_load(Load(**fields))) + "\n")
        return
    if task == "Solve":
        measurement = timed_solve(Solve(**fields))
    elif task == "Profile":
        measurement = timed_profile(Profile(**fields))
    else:
        measurement = timed_total(Total(**fields))
    measurement["peak"] = _peak_memory()
    sys.stdout.write(json.dumps(measurement) + "\n")


def timed_solve(job: Solve) -> dict[str, Any]:
    """Solve, and return how long that took and what came out."""
    if not job.cold:
        _solve(Solve(WARM_UP_VOTERS, 2, job.Delta, job.objective, job.shape, job.method, points=min(job.points, 2)))
    clock = time.process_time if job.points else time.monotonic
    seconds = []
    for _ in range(job.repeats):
        _begin()
        began = clock()
        solution = _solve(job)
        seconds.append(clock() - began)
    return {"seconds": median(seconds), **_solution_fields(solution)}


def timed_profile(job: Profile) -> dict[str, Any]:
    """Evaluate a profile from −2mε to 2mε, and return how long that took."""
    import numpy as np

    from darrm_opt.design.privacy_profile import privacy_profile

    small = _solve(Solve(WARM_UP_VOTERS, 2, job.Delta, job.objective))
    privacy_profile(small.gamma, small.problem, np.linspace(-EPSILON, EPSILON, 3))
    solution = _solve(Solve(job.K, job.m, job.Delta, job.objective))
    epsilons = np.linspace(-2 * job.m * EPSILON, 2 * job.m * EPSILON, job.values)
    began = _begin()
    privacy_profile(solution.gamma, solution.problem, epsilons)
    return {"seconds": time.monotonic() - began, "certificate": solution.certificate.method}


def timed_total(job: Total) -> dict[str, Any]:
    """Account for the releases, and return how long that took."""
    from darrm_opt.accounting import total_privacy

    small = _solve(Solve(WARM_UP_VOTERS, 2, job.Delta))
    total_privacy(small, 2, job.total_delta, fresh=True)
    solution = _solve(Solve(job.K, job.m, job.Delta))
    began = _begin()
    total = total_privacy(solution, job.queries, job.total_delta, fresh=True)
    seconds = time.monotonic() - began
    if total.totals["bits"] is None:
        raise RuntimeError("The recursion on bits gave no total.")
    return {"seconds": seconds}


def _begin() -> float:
    began = time.monotonic()
    sys.stdout.write(json.dumps({"began": began}) + "\n")
    sys.stdout.flush()
    return began


def _solve(job: Solve) -> Solution:
    from darrm_opt import Problem, solve

    problem = Problem.from_allowance(job.K, job.m, job.epsilon, job.Delta, delta=job.delta, affected=job.affected)
    if job.points:
        from darrm_opt.privacy_curves import stated_profile

        problem = Problem(job.K, stated_profile(f"gaussian({MU})", problem.target, job.points), problem.target)
    choices: dict[str, Any] = {"shape": job.shape, "method": job.method, "tolerance": job.tolerance}
    found: Solution = solve(problem, job.objective, backend="highs", **choices)
    return found


def _solution_fields(solution: Solution) -> dict[str, Any]:
    return {
        "gap": solution.gap,
        "certificate": solution.certificate.method,
        "status": solution.status.value,
        "rows": solution.statistics.rows,
        "rounds": solution.statistics.rounds,
    }


if __name__ == "__main__":
    main()
