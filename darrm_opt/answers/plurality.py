"""Design of a plurality rule: its task, and its result as plain data."""

from __future__ import annotations

from typing import Any

from darrm_opt.answers import Report
from darrm_opt.errors import InvalidInput
from darrm_opt.plurality import PluralityObjective, PluralityProblem, compare_mechanisms, parse_prior
from darrm_opt.plurality.problem import has_table, partition_count
from darrm_opt.plurality.record import plurality_record, problem_from_record

CELLS_CUBED_SECONDS = 8e-10
"""Time of a solve [s] over the cube of its cells, where privacy is strict; K = 30, C = 6: two minutes."""

MEAN_VALUES = 4.5
"""About how many different counts a partition has, at most."""


def plurality_seconds(problem: PluralityProblem) -> float:
    """Return about how long a design takes [s], most of it in the program; sizes grow with what a record can move."""
    if not has_table(problem.K, problem.classes):
        return 0.0  # refused at once, with the reason
    cells = partition_count(problem.K, problem.classes) * min(problem.classes, MEAN_VALUES)
    return 0.05 + CELLS_CUBED_SECONDS * cells**3 * problem.affected**2


def design_plurality(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the optimal rule of a ``problem`` under ``prior``, ``ties`` and ``price``, and what each mechanism is worth."""
    report(None)
    problem = problem_from_record(argument["problem"])
    objective = PluralityObjective(parse_prior(argument["prior"]), argument["ties"], argument["price"])
    cells = problem.histograms
    try:
        objective.weights(cells)
    except InvalidInput as err:  # a prior of other voters or classes
        raise InvalidInput("prior", argument["prior"], err.accepted, err.advice) from err
    found = compare_mechanisms(problem, objective, time_limit=argument["time_limit"])
    return {**found.as_dict(), "rule": plurality_record(found.solution)}
