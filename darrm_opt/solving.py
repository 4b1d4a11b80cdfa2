"""The best private release for voters of every kind: a γ, or a table, by the search that applies.

A `Problem` has K voters that are alike and two classes: its answer is a γ, with a search of its own
(`darrm_opt.design`). Voters that are not alike, more classes and abstention take a table (`darrm_opt.tables`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from darrm_opt.design import solver
from darrm_opt.design.solution import Solution
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from darrm_opt.design.objective import AnyObjective
    from darrm_opt.design.solution import Watcher
    from darrm_opt.tables.groups import TableProblem
    from darrm_opt.tables.objective import TableObjective
    from darrm_opt.tables.priors import PluralityPrior
    from darrm_opt.tables.solver import TableSolution


@overload
def solve(
    problem: Problem,
    objective: AnyObjective | str = "rectangular",
    shape: solver.Shape = "free",
    method: solver.Method = "auto",
    backend: str = "highs",
    *,
    tolerance: float = solver.TOLERANCE,
    time_limit: float | None = None,
    progress: Watcher | None = None,
) -> Solution: ...


@overload
def solve(
    problem: TableProblem,
    objective: TableObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    backend: str = "highs",
    time_limit: float | None = None,
) -> TableSolution: ...


def solve(problem: Any, *options: Any, **named: Any) -> Any:
    """Design the release with the largest utility among all private ones.

    Args:
        problem: a `Problem`, or one of several classes or groups (`tables.groups.simplest_problem`).
        options: those of `design.solver.solve` of a `Problem`: objective, shape, method, backend; else the objective of
            `tables.solver.solve_table`.
        named: the same by name, and ``tolerance``, ``time_limit`` [s] and ``progress``; of a table ``backend`` and
            ``time_limit`` alone.

    Returns:
        A `Solution` of a `Problem`, else a `TableSolution`. Each has ``utility``, ``upper_bound``, ``certificate`` and
        a ``status``, "optimal" unless something stopped it (`Status.advice`).

    Guarantees:
        The γ or table is private exactly as stored (``certificate``); ``upper_bound`` is never below the true optimum.

    Raises:
        InvalidInput: an argument is outside what is accepted.
        BackendUnavailable: the solver is not installed or its licence is too small.

    Source: Section 4 of the paper (the LP and its reduction); cuts, bound, certificate and tables are ours.
    """
    if isinstance(problem, Problem):
        return solver.solve(problem, *options, **named)
    # Tables need SciPy and their own solver, and a γ should not wait for their import.
    from darrm_opt.tables.groups import TableProblem

    if not isinstance(problem, TableProblem):
        return solver.solve(problem, *options, **named)  # which says what is expected
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.tables.solver import solve_table

    for argument in ("shape", "method", "tolerance", "progress"):
        if argument in named:
            raise InvalidInput(argument, named[argument], Rule("is for γ, and the answer is a table"))
    return solve_table(problem, *options, **named)
