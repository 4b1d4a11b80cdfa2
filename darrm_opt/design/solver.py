"""solve: from a problem to a certified γ_opt, by cutting planes or by enumeration.

Solve the program with some rows; search the worst cases of its answer; add those that it violates; repeat until none is
left (`stages`, `run`); then scale the answer by what rounding asks for and prove it (`certificate`).
"""

from __future__ import annotations

from typing import Literal

from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.corners import ConstraintGenerator, Counts
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.run import Run
from darrm_opt.design.solution import Solution, Watcher
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem, a_problem, real_number

Shape = Literal["free", "monotone"]
Method = Literal["auto", "enumerate", "cuts"]

TOLERANCE = 1e-6
"""Default gap at which a large problem counts as solved; small ones are solved until no cut is left (about 1e-12)."""

ENUMERABLE_ROWS = 2_000_000
"""Largest whole set that ``method="enumerate"`` accepts: about 2 GB of rows at K = 21."""


def solve(
    problem: Problem,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    method: Method = "auto",
    backend: str = "highs",
    *,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
    progress: Watcher | None = None,
) -> Solution:
    """Design the noise function with the largest utility among all private ones.

    Args:
        problem: K voters, their privacy, the privacy of the release.
        objective: what "utility" weighs; an `Objective` or its text, such as ``"shared(2,5) agreement"``.
        shape: "free", or "monotone" (γ non-decreasing in |l − K/2|: a little utility for looks).
        method: "cuts", "enumerate" (the whole reduced constraint set as rows) or "auto".
        backend: "highs", "gurobi" or "cvxpy".
        tolerance: gap at which to stop where solving further is dear (`stages.dear`), in (0, 1).
        time_limit: seconds after which the best certified γ so far is returned; None: no limit.
        progress: called after every round.

    Returns:
        The solution; its ``status`` is "optimal" unless something came in between.

    Guarantees:
        ``gamma`` is private exactly as stored (``certificate``), ``upper_bound`` is never below the true optimum.

    Raises:
        InvalidInput: an argument is outside what is accepted.
        BackendUnavailable: the solver is not installed or its licence is too small.

    Source: Section 4 of the paper (the LP and its reduction); cuts, bound and certificate are ours.
    """
    check_choices(problem, shape, method, backend, tolerance, time_limit)
    run = Run(problem, as_objective(objective), shape, backend, time_limit, progress)
    return run.complete(tolerance, "enumerate" if method == "enumerate" else "cuts")


def solve_warm(
    problem: Problem,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    rows: Counts | None = None,
    backend: str = "highs",
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> tuple[Solution, Counts]:
    """Solve by cuts, starting from the multisets that mattered for a problem like it; return those of this one.

    For problems that differ in their target only: a multiset stands for a constraint of each of them.
    """
    check_choices(problem, shape, "cuts", backend, tolerance, time_limit)
    run = Run(problem, as_objective(objective), shape, backend, time_limit, None)
    solution = run.complete(tolerance, "cuts", rows)
    return solution, run.program.found


def check_choices(
    problem: Problem,
    shape: str,
    method: str,
    backend: str,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> None:
    """Refuse what `solve` does not take, before any work.

    Raises:
        InvalidInput: naming the argument, its value and what is accepted.
    """
    a_problem(problem)
    if shape not in ("free", "monotone"):
        raise InvalidInput("shape", shape, "'free' or 'monotone'")
    if method not in ("auto", "enumerate", "cuts"):
        raise InvalidInput("method", method, "'auto', 'enumerate' or 'cuts'")
    if backend not in BACKENDS:
        raise InvalidInput("backend", backend, "one of " + ", ".join(BACKENDS))
    if not 0 < real_number(tolerance, "tolerance", "a gap in (0, 1)") < 1:
        raise InvalidInput("tolerance", tolerance, "a gap in (0, 1)")
    seconds = "None, or seconds above 0"
    if time_limit is not None and not real_number(time_limit, "time_limit", seconds) > 0:
        raise InvalidInput("time_limit", time_limit, seconds)
    if method == "enumerate" and ConstraintGenerator(problem).size > ENUMERABLE_ROWS:
        raise InvalidInput(
            "method",
            method,
            f"a constraint set of at most {ENUMERABLE_ROWS:,} vectors",
            f"This one has {ConstraintGenerator(problem).size:,}; method = 'cuts' gives the same answer.",
        )
