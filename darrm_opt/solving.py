"""The best private release for voters of every kind: a γ or a table, by the applicable search.

A `Problem` with two classes and voters of equal privacy has a γ (`darrm_opt.design`). Voters of different privacy, more
classes and abstention take a table (`darrm_opt.tables`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from darrm_opt.design import solver
from darrm_opt.design.solution import Solution
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from darrm_opt.design.objective import AnyObjective
    from darrm_opt.tables.objective import TableObjective
    from darrm_opt.tables.priors import PluralityPrior
    from darrm_opt.tables.solver import TableSolution

_OF_TABLES = ("truth(", "dirichlet(", "favoured(", "beta(")  # prefixes of objectives that only tables have


@overload
def solve(problem: Problem, objective: AnyObjective, *options: Any, **named: Any) -> Solution: ...


@overload
def solve(problem: Problem, objective: TableObjective | PluralityPrior, **named: Any) -> TableSolution: ...


@overload
def solve(problem: Problem, objective: str = ..., *options: Any, **named: Any) -> Any: ...


def solve(problem: Any, objective: Any = None, *options: Any, **named: Any) -> Any:
    """Design the release with the largest utility among all private ones.

    Args:
        problem: voters, classes, and the privacy of the release.
        objective: what is maximised; by default "rectangular" for a γ, "dirichlet(1)" for a table.
        options: for a γ, the options of `design.solver.solve`: shape, method, backend.
        named: the same by name, and ``tolerance``, ``time_limit`` [s] and ``progress``; for a table only ``backend``
            and ``time_limit``.

    Returns:
        A `Solution` (a γ) for two classes and voters that are alike, without ⊥; otherwise, and for an objective of
        tables such as truth(…), a `TableSolution`. Each has ``utility``, ``upper_bound``, ``certificate`` and a
        ``status``, "optimal" unless something stopped it (`Status.advice`). Groups of voters that are alike and whose
        votes count the same are merged in its ``problem``.

    Guarantees:
        The γ or table is private exactly as stored (``certificate``); ``upper_bound`` is never below the true optimum.

    Raises:
        InvalidInput: an argument is outside what is accepted.
        BackendUnavailable: the solver is not installed or its licence is too small.

    Source: Section 4 of the paper (the LP and its reduction); cuts, bound, certificate and tables are ours.
    """
    given = () if objective is None else (objective,)
    if not isinstance(problem, Problem) or (problem.is_binary and not _is_of_tables(objective)):
        return solver.solve(problem, *given, *options, **named)
    # Imported here: tables need SciPy and their own solver, a γ does not.
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.tables.objective import as_table_objective, counts_alike
    from darrm_opt.tables.solver import solve_table

    asked = named | ({"shape": options[0]} if options else {})
    for argument in ("shape", "method", "tolerance", "progress"):
        if argument in asked:
            raise InvalidInput(argument, asked[argument], Rule("applies to a γ, but the answer is a table"))
    goal = as_table_objective(*given or ("dirichlet(1)",))
    return solve_table(problem.merged if counts_alike(goal) else problem, goal, **named)


def _is_of_tables(objective: Any) -> bool:
    """Return whether an objective is for tables only, without importing them."""
    if isinstance(objective, str):
        return objective.lstrip().startswith(_OF_TABLES)
    return type(objective).__module__.startswith("darrm_opt.tables.")
