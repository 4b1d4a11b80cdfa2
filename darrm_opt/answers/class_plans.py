"""Plans of releases among classes, of voters that are alike or of groups: their times, and the proof of groups."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from darrm_opt.answers.running_time import fitted_seconds
from darrm_opt.answers.tables import COMPARISON_SECONDS, COMPARISON_SOLVES, group_seconds, plurality_seconds
from darrm_opt.answers.verification import members, verify_options
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.planning.class_candidates import MAX_RULE_PARTITIONS
from darrm_opt.planning.group_plan import group_question, plain_option
from darrm_opt.planning.question import SAMPLED_NUMBERS
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.tables.objective import PluralityObjective
from darrm_opt.tables.problem import has_table, partition_count
from darrm_opt.tables.record import group_records

COMPOSED_SOLVES = 8  # solves of the optimum over several releases, after the first


def options_seconds(problem: Problem, queries: int) -> float:
    """Return the approximate time of a plan of classes [s]: tables, accounts of noise, probabilities of vote counts."""
    is_table = has_table(problem.K, problem.classes, MAX_RULE_PARTITIONS)
    least = plurality_seconds(problem) if is_table else 0.0  # however far beyond the measured range
    return max(least, fitted_seconds("options", options_features(problem, queries)))


def options_features(problem: Problem, queries: int) -> tuple[float, ...]:
    """Return the features of the regression of plans of classes."""
    is_table = has_table(problem.K, problem.classes, MAX_RULE_PARTITIONS)
    enumerable = has_table(problem.K, problem.classes)
    numbers = partition_count(problem.K, problem.classes) * problem.classes if enumerable else SAMPLED_NUMBERS
    solve = math.log(plurality_seconds(problem)) if is_table else -7.0
    more = float(queries > 1 and problem.target.delta > 0)
    return 1.0, math.log(numbers), solve, more * solve, more, math.log(queries), math.log(problem.K)


def group_plan_seconds(problem: Problem, queries: int, *, fresh: bool) -> float:
    """Return the approximate time of `plan_groups` [s]; `InvalidInput` if out of reach.

    The target of the problem is the total.
    """
    if queries > 1 and not fresh:  # the votes count as fixed
        return options_seconds(
            Problem(problem.K, NOT_PRIVATE, problem.target, problem.affected, classes=problem.classes), queries
        )
    solve = group_seconds(problem)
    targets, solves = (1, 1) if queries == 1 or problem.target.delta == 0 else (2, 2 + COMPOSED_SOLVES)
    return targets * (COMPARISON_SECONDS + COMPARISON_SOLVES * solve) + solves * solve


def verify_group_plan(
    answer: Any, problem: Problem, goal: PluralityObjective, queries: int, *, fresh: bool
) -> dict[str, Any]:
    """Return a plan of groups after proving that its best option is within the total, the target of the problem."""
    if not isinstance(answer, dict):
        raise VerificationFailed("The answer is not a plan.")
    if answer.get("groups") != group_records(problem.groups):
        raise VerificationFailed("The answer has other groups than requested.")
    record = answer.get("mechanism")
    fixed = queries > 1 and not fresh
    # Without a mechanism either nothing fits, which is no claim, or the plurality needs no noise, which is proved here.
    if record is None:
        question = group_question(problem, goal, queries, fresh=fresh, least_accuracy=None)
        if answer.get("verdict") != "none" and plain_option(question, problem) is None:
            raise VerificationFailed("The plurality without noise is not proved to be within the total.")
        members(answer.get("options"), list)
        return dict(answer)
    # Their votes count as fixed: the proof is that of voters that are not private and must not use their ε.
    if fixed:
        voters = Problem(problem.K, NOT_PRIVATE, problem.target, problem.affected, classes=problem.classes)
        return verify_options(answer, voters, queries)
    try:
        mechanism = mechanism_from_record(record)
    except InvalidInput as err:
        raise VerificationFailed(f"The answer's mechanism is invalid: {err}") from err
    if not isinstance(mechanism, GroupTableMechanism) or mechanism.fresh != fresh:
        raise VerificationFailed("The answer's mechanism is not a table for these groups.")
    # The planner chooses the ε of one answer and ⊥; voters, classes and `affected` come from the question.
    asked = replace(problem, target=mechanism.problem.target, abstention=mechanism.problem.abstention)
    if mechanism.problem != asked:
        raise VerificationFailed("The answer has a table for other voters than requested.")
    # The account is computed here, for the table that will release.
    if not mechanism.fits(problem.target, queries):
        raise VerificationFailed(f"{queries} answers of this table are not proved to be within the total.")
    members(answer.get("options"), list)
    return dict(answer)
