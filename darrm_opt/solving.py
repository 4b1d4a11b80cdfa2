"""The best private release for voters of every kind: a γ, or a table, by the search that applies.

The answer of a `Problem` with two classes and voters that are alike is a γ, with a search of its own
(`darrm_opt.design`). Voters that are not alike, more classes and abstention take a table (`darrm_opt.tables`).
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

_OF_TABLES = ("truth(", "dirichlet(", "favoured(", "beta(")
"""How objectives begin that are for tables alone."""


@overload
def solve(problem: Problem, objective: AnyObjective, *options: Any, **named: Any) -> Solution: ...


@overload
def solve(problem: Problem, objective: TableObjective | PluralityPrior, **named: Any) -> TableSolution: ...


@overload
def solve(problem: Problem, objective: str = ..., *options: Any, **named: Any) -> Any: ...


def solve(problem: Any, objective: Any = None, *options: Any, **named: Any) -> Any:
    """Design the release with the largest utility among all private ones.

    Args:
        problem: voters, classes, and what must be private.
        objective: what is maximised; by default "rectangular" of a γ, "dirichlet(1)" of a table.
        options: those of `design.solver.solve` where the answer is a γ: shape, method, backend.
        named: the same by name, and ``tolerance``, ``time_limit`` [s] and ``progress``; of a table ``backend`` and
            ``time_limit`` alone.

    Returns:
        A `Solution`, a γ, of two classes and voters that are alike, without ⊥; a `TableSolution` of others, and where
        the objective is one of tables, such as truth(…). Each has ``utility``, ``upper_bound``, ``certificate`` and a
        ``status``, "optimal" unless something stopped it (`Status.advice`). Voters of several groups that are alike,
        and count alike, are one group in its ``problem``.

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
    # Tables need SciPy and their own solver, and a γ should not wait for their import.
    from darrm_opt.errors import InvalidInput, Rule
    from darrm_opt.tables.objective import as_table_objective, counts_alike
    from darrm_opt.tables.solver import solve_table

    asked = named | ({"shape": options[0]} if options else {})
    for argument in ("shape", "method", "tolerance", "progress"):
        if argument in asked:
            raise InvalidInput(argument, asked[argument], Rule("is for γ, and the answer is a table"))
    goal = as_table_objective(*given or ("dirichlet(1)",))
    return solve_table(problem.merged if counts_alike(goal) else problem, goal, **named)


def _is_of_tables(objective: Any) -> bool:
    """Return whether an objective is of tables alone, without loading them for one of γ."""
    if isinstance(objective, str):
        return objective.lstrip().startswith(_OF_TABLES)
    return type(objective).__module__.startswith("darrm_opt.tables.")
