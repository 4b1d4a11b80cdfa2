"""Ranking for groups of unlike voters: what to release from their votes within a total (ε, δ).

For one answer, and for many answers of fresh voters, each option is a certified table of the groups, the best one or a
common mechanism, at the largest (ε, δ) of one answer of which all fit by the table's own accounts. Voters trained once
are the same for one answer; for more their votes are taken as fixed, so the options are those of voters that are not
private. If the voters' own privacy is enough, the plurality needs no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from darrm_opt.accounting.accounts import compose_models
from darrm_opt.accounting.calibrate import Calibration, calibrate, release_target
from darrm_opt.accounting.freshness import check_fresh
from darrm_opt.design.report import guarantee
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.mechanisms.base import mechanism_classes
from darrm_opt.mechanisms.table import GroupTableMechanism, least_private
from darrm_opt.planning.option import Option, Plan
from darrm_opt.planning.question import Question, end_of, remaining, stop_at
from darrm_opt.planning.ranking import FRESH, plan, plan_of_options, time_limit_warning
from darrm_opt.planning.table_baselines import Baseline, table_baselines
from darrm_opt.problem import Privacy, Problem, VoterGroup
from darrm_opt.tables.groups import group_cells
from darrm_opt.tables.objective import PluralityObjective, as_table_objective, expected
from darrm_opt.tables.priors import PluralityPrior, Ties
from darrm_opt.tables.solver import TableSolution, solve_table

PRECISION = 0.01  # relative distance of the ε of one answer from the largest of which all fit
MAX_SCALE = 4.0  # largest ε of one answer that is tried, relative to that of optimal composition

WORDS = {
    "subsampling": "The plurality of some voters, drawn for every query",
    "one_voter": "The answer of one voter, drawn for every query",
    "randomized_response": "The plurality, or a random class",
    "worst_group": "The best table if every voter is taken as the least private one",
    "best_subset": "The best table from the votes of some of the groups",
}
"""Descriptions of releases, by name; others are the mechanism of that name at its largest private rate."""


def plan_groups(
    groups: Iterable[VoterGroup | Sequence[float]],
    queries: int,
    total: Privacy,
    affected: int | None = None,
    prior: PluralityPrior | str | None = None,
    *,
    classes: int = 2,
    ties: Ties = "excluded",
    price: float = 0.0,
    weights: Sequence[float] | None = None,
    fresh: bool = False,
    least_accuracy: float | None = None,
    time_limit: float | None = None,
    progress: Callable[[Option], None] | None = None,
) -> Plan:
    """Return a plan for groups of voters, Q queries and a total (ε, δ): the best option, the others, and why.

    ``weights`` are the weights of one vote of each group in the plurality; the other arguments are those of `plan`.
    Voters that are alike, with equal weights, have the result of `plan` if it has one. After ``time_limit`` the other
    mechanisms and tables of a larger ε per answer are skipped.

    Guarantees: Every option that fits is within ``total``, by the account that it names.

    >>> plan_groups([(6, 0.1), (5, 0.5)], 1, Privacy(0.6)).best.name
    'optimal'
    """
    found = Problem(groups=groups, target=total, affected=affected, classes=classes, abstention=price > 0).merged
    alike: dict[str, Any] = {"classes": classes, "ties": ties, "price": price, "least_accuracy": least_accuracy}
    searched: dict[str, Any] = {"time_limit": time_limit, "progress": progress}
    # `plan` has better searches for voters that are alike; one question must have one answer.
    if (found.is_binary or found.is_public) and len(set(weights or (1.0,))) == 1:
        voter = found.voter if found.is_binary else None
        return plan(found.K, voter, queries, total, int(found.affected), prior, fresh=fresh, **alike, **searched)
    goal = as_table_objective(prior or "dirichlet(1)", price, ties, weights)
    if not isinstance(goal, PluralityObjective):
        raise InvalidInput("prior", str(prior), "a prior of the votes", "A truth is an objective of `solve`.")
    problem = Problem(groups=groups, target=total, affected=affected, classes=classes, abstention=price > 0)
    question = group_question(problem, goal, queries, fresh=fresh, least_accuracy=least_accuracy)
    end = end_of(time_limit)
    question = replace(question, stop=stop_at(end))
    # Nothing is more accurate than the plurality itself: if it fits, no search for noise is needed.
    plain = plain_option(question, problem)
    if plain is not None:
        options = [plain]
    elif question.queries == 1 or question.fresh:
        options = _tables(question, problem, goal, end)
    else:
        # Answers of one training are not independent given the data, so their ε do not compose (docs/proofs.md, "Voters
        # that were trained once").
        fixed = plan(problem.K, None, queries, total, problem.affected, goal.prior, **alike, **searched)
        why = "The voters were trained once: their votes are taken as fixed, whatever their own privacy. "
        return replace(fixed, advice=why + fixed.advice)
    for option in options:
        if progress is not None:
            progress(option)
    is_private = any(group.voter.epsilon < math.inf for group in problem.groups)
    warnings = (FRESH,) if is_private and question.fresh and question.queries > 1 else ()
    return plan_of_options(question, tuple(options), _advice, warnings + time_limit_warning(question, time_limit))


def group_question(
    problem: Problem, goal: PluralityObjective, queries: int, *, fresh: bool, least_accuracy: float | None
) -> Question:
    """Return the validated question of groups of voters; its total is the problem's target."""
    given: dict[str, Any] = {"classes": problem.classes, "ties": goal.ties, "price": goal.price}
    question = Question.of(
        problem.K, None, queries, problem.target, problem.affected, goal.prior, least_accuracy=least_accuracy, **given
    )
    return replace(question, fresh=check_fresh(fresh))


def plain_option(question: Question, problem: Problem) -> Option | None:
    """Return the plurality itself, if the voters' own answers or models are within the total."""
    voters = least_private([(group.voter, group.K) for group in problem.groups], problem.affected)
    times = question.queries if question.fresh else 1
    try:
        spent = compose_models({voter: times * count for voter, count in voters.items()}, question.total.delta)
    except DeltaTooSmall:
        return None
    if not (spent.epsilon <= question.total.epsilon and spent.delta <= question.total.delta):
        return None
    answers = "One voter's answers" if problem.affected == 1 else f"The answers of {problem.affected} voters"
    why = f"{answers} are within the total, and so is anything computed from them."
    # Fresh votes are charged one by one; for models trained once, queries are unlimited.
    account, queries = ("votes", question.queries) if question.fresh else ("post-processing", None)
    return Option.fitting("majority", question, why, (1.0, 1.0), spent, account, queries=queries)


def _tables(question: Question, problem: Problem, goal: PluralityObjective, end: float) -> list[Option]:
    """Return all tables at the largest (ε, δ) of one answer of which all fit, the most useful first."""
    total, queries = question.total, question.queries

    @cache
    def made(target: Privacy) -> tuple[TableSolution, GroupTableMechanism]:
        asked = replace(problem, target=target)
        solution = solve_table(asked, goal, time_limit=remaining(end))
        return solution, GroupTableMechanism(asked, solution.table, fresh=question.fresh)

    # Composition of (ε, δ) gives a target that fits for certain; the accounts of a table itself may allow more.
    targets = [release_target(total, queries)]
    made(targets[0])  # before the search, with the full time limit

    def pure(epsilon: float) -> tuple[Privacy, float]:
        target = Privacy(epsilon)
        return target, made(target)[1].cost(queries, total.delta).epsilon

    if queries > 1 and total.delta > 0 and not question.stop():
        least = release_target(replace(total, delta=total.delta / 2), queries).epsilon
        most = MAX_SCALE * least
        found: Calibration[Privacy] | None = calibrate(
            pure, total.epsilon, most, guess=least, precision=PRECISION, stop=question.stop
        )
        targets += [] if found is None else [found.result]
    best: dict[str, Option] = {}
    for target in targets:
        solution, mechanism = made(target)
        options = [_option("optimal", "The best table of the groups", question, goal, mechanism, solution.gap)]
        for one in () if question.stop() else table_baselines(solution.problem, goal, time_limit=remaining(end)):
            words = WORDS.get(one.name, "The mechanism of that name")
            why = f"{words}: {one.parameter}" if one.parameter else words
            table = GroupTableMechanism(solution.problem, one.table, fresh=question.fresh)
            options.append(_option(one.name, why, question, goal, table, parameters=_parameters(one)))
        for option in options:
            if option.name not in best or _worth(option) > _worth(best[option.name]):
                best[option.name] = option
    return sorted(best.values(), key=_worth, reverse=True)


def _worth(option: Option) -> float:
    return -math.inf if option.utility is None else option.utility


def _option(
    name: str,
    why: str,
    question: Question,
    goal: PluralityObjective,
    mechanism: GroupTableMechanism,
    gap: float | None = None,
    *,
    parameters: Mapping[str, float] | None = None,
) -> Option:
    """Return the option of a table; unfit unless its releases are proved to be within the total.

    ``parameters``: those of the mechanism itself.
    """
    target, cost = mechanism.problem.target, mechanism.cost(question.queries, question.total.delta)
    # Weights of the judged counts at their leaders.
    masses = replace(goal, price=0.0).worth(group_cells(mechanism.problem))
    chances, classes = mechanism.table.chances, mechanism.classes
    right = expected(mechanism.table, masses)
    answered = math.fsum((masses.max(axis=1) * chances[:, :classes].sum(axis=1)).tolist())
    shares, each = (min(right, 1.0), min(answered, 1.0)), {"epsilon": target.epsilon, "delta": target.delta}
    why = f"{why}. Each release is {guarantee(target, '.4g')}."
    return Option.of_mechanism(
        name, question, mechanism, shares, cost, {**(parameters or {}), **each}, why=why, gap=gap
    )


def _parameters(one: Baseline) -> dict[str, float]:
    """Return the parameter of a mechanism as a table, by its name; none of a table that is no mechanism's."""
    if one.voters is not None:
        return {"voters": float(one.voters)}
    if not one.rate or one.name not in mechanism_classes():
        return {}
    kind = mechanism_classes()[one.name]
    return {kind.parameter: one.rate if kind.increases else 1 / one.rate}


def _advice(best: Option, question: Question) -> str:
    return f"Right with probability {best.accuracy:.4f} under the prior {question.prior_text}. {best.why}"
