"""Design of a plurality rule: its task, and its result as plain data."""

from __future__ import annotations

from typing import Any

from darrm_opt.answers import Report
from darrm_opt.answers.verification import verify_options, verify_plurality
from darrm_opt.errors import InvalidInput
from darrm_opt.plurality import PluralityObjective, PluralityProblem, compare_mechanisms, design_releases, parse_prior
from darrm_opt.plurality.designer import MAX_RULE_PARTITIONS
from darrm_opt.plurality.vote_law import SAMPLED_NUMBERS
from darrm_opt.tables.problem import has_table, partition_count
from darrm_opt.tables.record import plurality_record, problem_from_record

CELLS_CUBED_SECONDS = 8e-10
"""Time of a solve [s] over the cube of its cells, where privacy is strict; K = 30, C = 6: two minutes."""

COMPOSED_SOLVES = 8
"""Solves of the optimum over several releases, beside the first."""

NOISE_SECONDS, NUMBER_SECONDS = 6.0, 8e-5
"""Time of the accounts of noise, and of the chances over that of one number of votes in the law [s]."""

MEAN_VALUES = 4.5
"""About how many different counts a partition has, at most."""


def plurality_seconds(problem: PluralityProblem) -> float:
    """Return about how long a design takes [s], most of it in the program; sizes grow with what a record can move."""
    if not has_table(problem.K, problem.classes):
        return 0.0  # refused at once, with the reason
    return table_seconds(partition_count(problem.K, problem.classes), problem)


def table_seconds(partitions: int, problem: PluralityProblem) -> float:
    """Return about how long the optimum over so many partitions takes [s], were it made."""
    cells = partitions * min(problem.classes, MEAN_VALUES)
    return 0.05 + CELLS_CUBED_SECONDS * cells**3 * problem.affected**2


def options_seconds(problem: PluralityProblem, queries: int) -> float:
    """Return about how long `design_releases` takes [s]: tables, accounts of noise, and the chances of vote counts."""
    tables = has_table(problem.K, problem.classes, MAX_RULE_PARTITIONS)
    enumerable = has_table(problem.K, problem.classes)
    numbers = partition_count(problem.K, problem.classes) * problem.classes if enumerable else SAMPLED_NUMBERS
    solves = 1 if queries == 1 or problem.target.delta == 0 else 1 + COMPOSED_SOLVES
    return NOISE_SECONDS + NUMBER_SECONDS * numbers + (solves * plurality_seconds(problem) if tables else 0.0)


def design_options(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the options for ``queries`` within the target of a ``problem``, and the mechanism of the best."""
    report(None)
    problem = problem_from_record(argument["problem"])
    objective = PluralityObjective(parse_prior(argument["prior"]), argument["ties"], argument["price"])
    try:
        design = design_releases(
            problem.K,
            problem.classes,
            problem.target,
            argument["queries"],
            affected=problem.affected,
            objective=objective,
        )
    except InvalidInput as err:  # a prior of other voters or classes
        if err.argument not in ("counts", "chances"):
            raise
        raise InvalidInput("prior", argument["prior"], err.accepted, err.advice) from err
    return {**design.as_dict(), "prior": argument["prior"], "mechanism": design.best.mechanism.record()}


def design_plurality(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the optimal rule of a ``problem`` under a ``prior``, and the utility of each mechanism."""
    report(None)
    problem = problem_from_record(argument["problem"])
    objective = PluralityObjective(parse_prior(argument["prior"]), argument["ties"], argument["price"])
    cells = problem.histograms
    try:
        objective.weights(cells)
    except InvalidInput as err:  # a prior of other voters or classes
        raise InvalidInput("prior", argument["prior"], err.accepted, err.advice) from err
    comparison = compare_mechanisms(problem, objective, time_limit=argument["time_limit"])
    return {**comparison.as_dict(), "rule": plurality_record(comparison.solution)}


def recheck_rule(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove a stored rule again; raises as `verify_plurality`."""
    verify_plurality(result, problem_from_record(argument["problem"]))


def recheck_options(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove what stored options release again; raises as `verify_options`."""
    verify_options(result, problem_from_record(argument["problem"]), argument["queries"])
