"""Design of a table for groups of voters: its task, its expected time, and its result as plain data."""

from __future__ import annotations

from typing import Any

from darrm_opt.answers import Report
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.tables.corners import check_reach, corner_count
from darrm_opt.tables.group_solver import MAX_CELLS, as_group_objective, solution_json, solution_record, solve_groups
from darrm_opt.tables.group_table import problem_from_record, table_from_record
from darrm_opt.tables.groups import GroupProblem

MAX_GROUP_VOTERS = 200
"""Most voters, of all groups, whose corners are counted before a service answers."""

SWEEPS, NUMBER_SECONDS, CELLS_CUBED_SECONDS = 60, 2.5e-8, 8e-8
"""Sweeps of a solve, and its time [s] over the losses that one computes and over the cube of the table's cells; 25 and
25 voters, two classes: half a minute of each."""


def group_seconds(problem: GroupProblem) -> float:
    """Return about how long a design takes [s], within a factor of three."""
    if problem.K > MAX_GROUP_VOTERS:
        raise InvalidInput("groups", f"{problem.K} voters", f"at most {MAX_GROUP_VOTERS} voters in all groups")
    cells = len(problem.cells.owners)
    if cells > MAX_CELLS:
        raise InvalidInput("groups", f"{cells:,} cells", f"at most {MAX_CELLS:,} cells of a table")
    check_reach(problem)
    losses = corner_count(problem, swept=True) * problem.outputs
    return 0.1 + SWEEPS * NUMBER_SECONDS * losses + CELLS_CUBED_SECONDS * cells**3


def design_groups(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the best table of a ``problem`` for an ``objective``, at most ``time_limit`` seconds in the making."""
    report(None)
    problem = problem_from_record(argument["problem"])
    objective = as_group_objective(argument["objective"], argument["price"])
    try:
        objective.worth(problem.cells)
    except InvalidInput as err:  # a prior of other voters or classes
        raise InvalidInput("objective", argument["objective"], err.accepted, err.advice) from err
    solution = solve_groups(problem, objective, time_limit=argument["time_limit"])
    return {**solution_json(solution), "price": objective.price, "rule": solution_record(solution)}


def recheck_groups(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove a stored table again; raises as `verify_group_answer`."""
    verify_group_answer(result, problem_from_record(argument["problem"]))


def verify_group_answer(answer: Any, problem: GroupProblem) -> dict[str, Any]:
    """Return an answer whose rule is proved private, here, for the problem that was asked, and is the table shown."""
    if not isinstance(answer, dict) or "rule" not in answer:
        raise VerificationFailed("The answer has no rule.")
    try:
        its_problem, table, _ = table_from_record(answer["rule"])
    except InvalidInput as err:
        raise VerificationFailed(f"The answer has something else where a rule should be: {err}") from err
    if its_problem != problem:
        raise VerificationFailed("The answer has a rule for another problem than the one that was asked.")
    chances, cells = table.chances, table.cells
    proved = [
        {"counts": cells.counts[place].tolist(), "probabilities": chances[place].tolist()}
        for place in cells.first.tolist()
    ]
    if answer.get("table") != proved:
        raise VerificationFailed("The answer shows another table than that of its rule.")
    return dict(answer)
