"""Plans of releases among classes, of voters that are alike or of groups: their task, times, proof, and plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from darrm_opt.answers import SAMPLING, Report, sampling_of, sampling_record
from darrm_opt.answers.accounting import conclusion_to_dict
from darrm_opt.answers.filed import filed
from darrm_opt.answers.running_time import fitted_seconds
from darrm_opt.answers.tables import COMPARISON_SECONDS, COMPARISON_SOLVES, group_seconds, plurality_seconds
from darrm_opt.answers.verification import members, verify_options
from darrm_opt.errors import InvalidInput, VerificationFailed
from darrm_opt.mechanisms import mechanism_from_record
from darrm_opt.mechanisms.table import GroupTableMechanism
from darrm_opt.planning import Plan, plan
from darrm_opt.planning.class_candidates import MAX_RULE_PARTITIONS
from darrm_opt.planning.group_plan import group_question, plain_option, plan_groups
from darrm_opt.planning.question import SAMPLED_NUMBERS
from darrm_opt.problem import NOT_PRIVATE, Privacy, Problem, VoterGroup
from darrm_opt.tables.objective import PluralityObjective, as_table_objective
from darrm_opt.tables.problem import has_table, partition_count
from darrm_opt.tables.record import group_of_record, group_records, problem_from_record, problem_record

COMPOSED_SOLVES = 8
"""Solves of the optimum over several releases, beside the first."""


def options_seconds(problem: Problem, queries: int) -> float:
    """Return about how long a plan of classes takes [s]: tables, accounts of noise, and the chances of vote counts."""
    is_table = has_table(problem.K, problem.classes, MAX_RULE_PARTITIONS)
    least = plurality_seconds(problem) if is_table else 0.0  # however far it lies beyond what was measured
    return max(least, fitted_seconds("options", options_features(problem, queries)))


def options_features(problem: Problem, queries: int) -> tuple[float, ...]:
    """Return what the regression of plans of classes multiplies."""
    is_table = has_table(problem.K, problem.classes, MAX_RULE_PARTITIONS)
    enumerable = has_table(problem.K, problem.classes)
    numbers = partition_count(problem.K, problem.classes) * problem.classes if enumerable else SAMPLED_NUMBERS
    solve = math.log(plurality_seconds(problem)) if is_table else -7.0
    more = float(queries > 1 and problem.target.delta > 0)
    return 1.0, math.log(numbers), solve, more * solve, more, math.log(queries), math.log(problem.K)


def group_plan_seconds(problem: Problem, queries: int, *, fresh: bool) -> float:
    """Return about how long the answer of `plan_group_options` takes [s]; refuse what is out of reach.

    The target of the problem is the total.
    """
    if queries > 1 and not fresh:  # the votes are taken as fixed
        return options_seconds(
            Problem(problem.K, NOT_PRIVATE, problem.target, problem.affected, classes=problem.classes), queries
        )
    solve = group_seconds(problem)
    targets, solves = (1, 1) if queries == 1 or problem.target.delta == 0 else (2, 2 + COMPOSED_SOLVES)
    return targets * (COMPARISON_SECONDS + COMPARISON_SOLVES * solve) + solves * solve


def options_argument(problem: Problem, request: dict[str, Any]) -> dict[str, Any]:
    """Return the argument of `design_options`: what a request names, for a problem whose target is the total."""
    names = ("queries", "prior", "ties", "price", "least_accuracy", "time_limit", *SAMPLING)
    given = {name: request[name] for name in names if request.get(name) is not None}
    return {"ties": "excluded", "price": 0.0, **given, "problem": problem_record(problem)}


def design_options(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the options for ``queries`` within the target of a ``problem``, and the mechanism of the best.

    With ``groups`` in the argument they are those of `plan_group_options`.
    """
    if "groups" in argument:
        return plan_group_options(argument, report)
    report(None)
    problem, sampling = problem_from_record(argument["problem"]), sampling_of(argument)
    try:
        found = plan(
            problem.K,
            None,
            argument["queries"],
            problem.target,
            problem.affected,
            argument["prior"],
            classes=problem.classes,
            ties=argument["ties"],
            price=argument["price"],
            least_accuracy=argument.get("least_accuracy"),
            sampling=sampling,
            time_limit=argument.get("time_limit"),
        )
    except InvalidInput as err:  # a prior of other voters or classes
        if err.argument not in ("counts", "chances"):
            raise
        raise InvalidInput("prior", argument["prior"], err.accepted, err.advice) from err
    # The first option is the best: if it has no mechanism nothing fits, and a request asked for one.
    if found.options[0].mechanism is None:
        budget = {"total_epsilon": problem.target.epsilon, "total_delta": problem.target.delta}
        name = "total_delta" if problem.target.delta == 0 else "total_epsilon"
        raise InvalidInput(name, budget[name], f"a total within which {argument['queries']} answers are proved")
    return {**options_to_dict(found), "prior": argument["prior"], **_best_mechanism(found)}


def plan_group_options(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the options for groups of voters, as `plan_groups` ranks them, and the mechanism of the best.

    The argument has the fields of a request. There is no mechanism where the plurality needs no noise, or nothing fits.
    """
    report(None)
    groups, weights = voters_of(argument["groups"])
    names = ("classes", "ties", "price", "least_accuracy", "time_limit", "fresh")
    found = plan_groups(
        groups,
        argument["queries"],
        Privacy(argument["total_epsilon"], argument["total_delta"]),
        argument.get("affected"),
        argument.get("prior"),
        weights=weights,
        **{name: argument[name] for name in names if argument.get(name) is not None},
    )
    return {**options_to_dict(found, groups), **_best_mechanism(found)}


def _best_mechanism(found: Plan) -> dict[str, Any]:
    """Return the mechanism of the best option, as the file of a plan has it, and what a statement says of it."""
    mechanism, question = found.options[0].mechanism, found.question
    record = None if mechanism is None else mechanism.record() | sampling_record(question.sampling)
    return {"mechanism": record, **filed(mechanism, question.total, question.queries, question.sampling)}


def voters_of(groups: Sequence[dict[str, Any]]) -> tuple[list[VoterGroup], list[float]]:
    """Return the groups of a request, and what one vote of each is worth."""
    return [group_of_record(one) for one in groups], [one.get("weight", 1.0) for one in groups]


def options_to_dict(found: Plan, groups: Sequence[VoterGroup] = ()) -> dict[str, Any]:
    """Return the options of a plan under a law of votes as plain data: shares, utility, cost and what was chosen."""
    question, law = found.question, found.question.vote_law
    names = ("name", "right", "wrong", "abstained", "utility", "account", "parameters", "gap")
    return {
        "K": question.K,
        "classes": question.classes,
        "queries": question.queries,
        "total": {"epsilon": question.total.epsilon, "delta": question.total.delta},
        "affected": question.affected,
        "prior": question.prior_text,
        "ties": law.objective.ties,
        "price": question.price,
        "samples": law.samples,
        "options": [
            {**{name: getattr(option, name) for name in names}, "epsilon": option.spent.epsilon}
            for option in found.options
            # What does not fit has no numbers to rank it by; the plan's advice and suggestions cover it.
            if option.spent is not None
        ],
        **conclusion_to_dict(found),
        **({"groups": group_records(groups)} if groups else {}),
    } | sampling_record(question.sampling)


def recheck_options(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove what stored options release again; raises as `verify_options`."""
    if "groups" in argument:
        recheck_group_plan(argument, result)
        return
    verify_options(result, problem_from_record(argument["problem"]), argument["queries"], sampling_of(argument))


def recheck_group_plan(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove what a stored plan of groups releases again; raises as `verify_group_plan`."""
    groups, weights = voters_of(argument["groups"])
    total, price = Privacy(argument["total_epsilon"], argument["total_delta"]), argument.get("price") or 0.0
    problem = Problem(
        groups=groups,
        target=total,
        affected=argument.get("affected"),
        classes=argument.get("classes") or 2,
        abstention=price > 0,
    )
    goal = as_table_objective(
        argument.get("prior") or "dirichlet(1)", price, argument.get("ties") or "excluded", weights
    )
    if not isinstance(goal, PluralityObjective):
        raise VerificationFailed("The plan is for a truth.")
    verify_group_plan(result, problem, goal, argument["queries"], fresh=argument.get("fresh") or False)


def verify_group_plan(
    answer: Any, problem: Problem, goal: PluralityObjective, queries: int, *, fresh: bool
) -> dict[str, Any]:
    """Return a plan of groups whose best option is proved, here, to be within the target of the problem, the total."""
    if not isinstance(answer, dict):
        raise VerificationFailed("The answer is no plan.")
    if answer.get("groups") != group_records(problem.groups):
        raise VerificationFailed("The answer has other groups than those that were asked.")
    record = answer.get("mechanism")
    fixed = queries > 1 and not fresh
    # Without a mechanism either nothing fits, which claims nothing, or the plurality needs no noise: proved here.
    if record is None:
        question = group_question(problem, goal, queries, fresh=fresh, least_accuracy=None)
        if answer.get("verdict") != "none" and plain_option(question, problem) is None:
            raise VerificationFailed("The plurality without noise is not proved to be within the total.")
        members(answer.get("options"), list)
        return dict(answer)
    # Their votes are taken as fixed, so the proof is that of voters that are not private; their own ε must not enter.
    if fixed:
        voters = Problem(problem.K, NOT_PRIVATE, problem.target, problem.affected, classes=problem.classes)
        return verify_options(answer, voters, queries)
    try:
        mechanism = mechanism_from_record(record)
    except InvalidInput as err:
        raise VerificationFailed(f"The answer has something else where a mechanism should be: {err}") from err
    if not isinstance(mechanism, GroupTableMechanism) or mechanism.fresh != fresh:
        raise VerificationFailed("The answer has another mechanism than a table for these groups.")
    # The ε of one answer and ⊥ are the planner's choice; voters, classes and `affected` are the question's.
    asked = replace(problem, target=mechanism.problem.target, abstention=mechanism.problem.abstention)
    if mechanism.problem != asked:
        raise VerificationFailed("The answer has a table for other voters than those that were asked.")
    # The account is made here, of the table that will release.
    if not mechanism.fits(problem.target, queries):
        raise VerificationFailed(f"{queries} answers of this table are not proved to be within the total.")
    members(answer.get("options"), list)
    return dict(answer)
