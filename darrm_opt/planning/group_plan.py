"""Ranking for groups of voters: what to release from the votes of voters that are not alike, within a total (ε, δ).

For one answer, and for many of fresh voters, each option is a certified table of the groups: the best one, and what
people use, for the largest (ε, δ) of one answer of which all fit by the table's own accounts. Of voters that were
trained once, one answer is the same; of more answers the votes are taken as fixed, so that the options are those of
voters that are not private. Where the voters' own privacy is enough, the plurality needs no noise.

*Baselines*: what else groups of voters can release, mechanisms that people use, each as a certified table.

Same neighbours, same transcript, same (ε, δ), same objective. A mechanism is a table over the votes of all groups
together, at its most useful private parameter, mixed with the uniform release where no parameter is private:

    subsampling           the plurality of some voters, drawn anew without a look at the data; one is `one_voter`
    randomized_response   the plurality, or any output by chance: k-ary randomised response
    names of `tables`     the mechanisms that have a law as a table, at the largest rate that private voters allow
    worst_group           the best table where every voter is taken as the least private one
    best_subset           the best table from the votes of some of the groups
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations, takewhile
from operator import add
from typing import Any

import numpy as np

from darrm_opt.accounting.freshness import check_fresh, compose_models
from darrm_opt.accounting.quota import release_target
from darrm_opt.design.report import guarantee
from darrm_opt.errors import DeltaTooSmall, InvalidInput
from darrm_opt.mechanisms.group_table import GroupTableMechanism, least_private
from darrm_opt.mechanisms.table import tables
from darrm_opt.noise import Array
from darrm_opt.planning.option import Option, Plan
from darrm_opt.planning.question import Question
from darrm_opt.planning.ranking import FRESH, deadline, plan, plan_of_options, time_limit_warning
from darrm_opt.problem import Privacy, Problem
from darrm_opt.search import largest_fitting, largest_fitting_from
from darrm_opt.tables.group_solver import (
    AnyGroupObjective,
    GroupObjective,
    GroupSolution,
    GroupWorth,
    as_group_objective,
    solve_groups,
)
from darrm_opt.tables.group_table import GroupTable, certify_groups, corners_of
from darrm_opt.tables.groups import GroupProblem, Index, VoterGroup, compositions, simplest_problem
from darrm_opt.tables.priors import PluralityPrior, Ties
from darrm_opt.tables.problem import Histograms, histograms

PRECISION, MAX_RATE = 1e-4, 200.0
"""Relative precision of a rate, and the largest that is tried: the plurality itself, nearly."""

MAX_SUBSET_GROUPS = 4
"""Most groups of which every subset is solved."""

MAX_SUBSAMPLES = 200
"""About how many numbers of voters to draw are tried at once: all, or every so many and then those around the best."""

NEARLY = 1e-9
"""Utilities closer than this are proved before they are compared."""


@dataclass(frozen=True)
class GroupBaseline:
    """A mechanism as a table for groups of voters, proved private."""

    name: str
    table: GroupTable  # certified for the problem that was asked
    utility: float  # of the same objective as the optimum's
    parameter: str  # what was chosen, in words; "" where nothing is


def group_baselines(
    problem: GroupProblem, objective: AnyGroupObjective | str = "dirichlet(1)", *, time_limit: float | None = None
) -> tuple[GroupBaseline, ...]:
    """Return what else meets the target of a problem, the most useful first.

    Of more than `MAX_SUBSAMPLES` voters not every number of voters is tried. After ``time_limit`` seconds what is not
    known yet is left out; one voter always is known.

    Guarantees: Each table is certified for ``problem``, exactly as its doubles are; no utility is above the
    ``upper_bound`` of `solve_groups`.
    """
    goal = as_group_objective(objective)
    worth = goal.worth(problem.cells)
    cells = histograms(problem.K, problem.classes, 1, abstention=False)
    stop = deadline(time_limit)
    end = math.inf if time_limit is None else time.monotonic() + time_limit

    def baseline(name: str, chances: Array, parameter: str = "") -> GroupBaseline:
        values = np.zeros(len(problem.cells.owners))
        np.maximum.at(values, problem.cells.cell.ravel(), chances.ravel())  # one value a cell, whichever writes it
        # Scaled until its doubles are proved: a closed form has nothing to spare for rounding.
        table, _ = certify_groups(problem, GroupTable.normalised(problem, values))
        return GroupBaseline(name, table, math.fsum((worth * table.chances).ravel().tolist()), parameter)

    def subsample(m: int) -> Array:
        return _of_totals(problem, cells, subsampled(cells, m))

    # One voter drawn is a mechanism that people know by that name.
    found = [baseline("one_voter", subsample(1))]
    subsamplings = [replace(found[0], name="subsampling", parameter="1 voters")]
    subsamplings += [
        baseline("subsampling", subsample(m), f"{m} voters")
        for m in takewhile(lambda _: not stop(), _best_subsamples(problem, worth, subsample, stop))
    ]
    found.append(max(subsamplings, key=lambda one: one.utility))
    if not stop():
        found.append(baseline("randomized_response", subsample(problem.K)))
    for name, law in takewhile(lambda _: not stop(), tables().items()):

        def chances(rate: float, law: Any = law) -> Array:
            return _of_totals(problem, cells, law(cells, rate))

        rate = _largest_rate(problem, chances)
        found.append(baseline(name, chances(rate), f"rate {rate:.4g}"))
    for name, make in (("worst_group", _worst_group), ("best_subset", _best_subset)):
        if len(problem.groups) > 1 and not stop() and (made := make(problem, goal, end)) is not None:
            found.append(baseline(name, *made))
    return tuple(sorted(found, key=lambda one: -one.utility))


def _best_subsamples(
    problem: GroupProblem, worth: Array, subsample: Callable[[int], Array], stop: Callable[[], bool]
) -> list[int]:
    """Return the numbers of voters, 2 or more, whose tables are the most useful once private, but for rounding."""
    corners, uniform = corners_of(problem), float(worth.mean(axis=1).sum())
    utilities: dict[int, float] = {}
    low, high = 1, problem.K
    while True:
        step = -(-(high - low) // MAX_SUBSAMPLES) or 1
        # A proof of each takes far longer than its utility, which is within rounding of that of the table proved.
        for m in (*range(low, high, step), high):
            if m in utilities:
                continue
            if utilities and stop():
                break
            chances = subsample(m)
            kept = corners.private_share(corners.violations(chances, math.inf, 1).largest)
            utilities[m] = uniform + kept * (float((worth * chances).sum()) - uniform)
        best = max(utilities, key=lambda m: utilities[m])
        if step == 1 or stop():
            return sorted(m for m, utility in utilities.items() if m > 1 and utility >= utilities[best] - NEARLY)
        low, high = max(best - step, 1), min(best + step, problem.K)


@lru_cache(maxsize=1)
def _binomials(K: int) -> tuple[Array, Index]:
    """Return the binomial coefficients of n ≤ K and k ≤ K as (f, e), f·2^e with 1/2 ≤ f < 1 or f = 0."""
    fractions, exponents = np.zeros((K + 1, K + 1)), np.zeros((K + 1, K + 1), dtype=np.intp)
    row = [1]
    for n in range(K + 1):
        # Whole numbers beyond the doubles lose their last bits first; all others are rounded once.
        shifts = [max(count.bit_length() - 1000, 0) for count in row]
        fractions[n, : n + 1], e = np.frexp([float(c >> shift) for c, shift in zip(row, shifts, strict=True)])
        exponents[n, : n + 1] = e + np.array(shifts)
        row = [1, *map(add, row, row[1:]), 1]
    return fractions, exponents


def subsampled(cells: Histograms, m: int) -> Array:
    """Return Pr[a class is released] where it is the plurality of m voters drawn at random, ties at random, by cell.

    The voters that are drawn do not depend on the data, so this is a post-processing of m answers.

    >>> subsampled(histograms(3, 2, 1, abstention=False), 1).round(3).tolist()
    [0.667, 0.333, 1.0, 0.0]
    """
    ways = compositions(m, cells.classes)
    leads = ways == ways.max(axis=1, keepdims=True)
    share = leads / leads.sum(axis=1, keepdims=True)
    fractions, exponents = (array[:, : m + 1] for array in _binomials(cells.K))
    # Factors a^k and b_n are the same for all ways of one partition, and cancel; as powers of 2 they round nothing, and
    # these keep what matters near 1.
    tilted = exponents - round(math.log2((cells.K - m + 1) / (m + 1))) * np.arange(m + 1)
    choose = np.ldexp(fractions, tilted - np.where(fractions > 0, tilted, -(2**40)).max(axis=1, keepdims=True))
    partitions = np.array(cells.partitions)
    of_class = np.empty(partitions.shape)
    for number, partition in enumerate(cells.partitions):
        weights = np.prod([choose[n][ways[:, c]] for c, n in enumerate(partition)], axis=0)
        of_class[number] = weights @ share / weights.sum()
    # of the first class that has the cell's votes
    return np.asarray(of_class[cells.owners, (partitions[cells.owners] == cells.values[:, None]).argmax(axis=1)])


def _of_totals(problem: GroupProblem, cells: Histograms, values: Array) -> Array:
    """Return a table over the votes of all groups together as the chance of each output, shape (counts, outputs)."""
    by_count = np.zeros((len(cells.partitions), cells.K + 1))
    by_count[cells.owners, cells.values] = values
    totals = problem.cells.counts.sum(axis=1)
    places = [cells.numbers[tuple(row)] for row in (-np.sort(-totals, axis=1)).tolist()]
    chances = by_count[np.array(places)[:, None], totals]
    return np.column_stack([chances, np.zeros(len(chances))]) if problem.abstention else chances


def _largest_rate(problem: GroupProblem, chances: Any) -> float:
    """Return the largest rate at which the table is private but for rounding."""
    corners = corners_of(problem)

    def fits(rate: float) -> bool:
        return corners.violations(chances(rate), math.inf, 1).largest <= corners.error

    return largest_fitting_from(fits, 0.01, MAX_RATE, PRECISION)


def _worst_group(problem: GroupProblem, goal: AnyGroupObjective, end: float) -> tuple[Array, str] | None:
    """Return the best table where all are as the least private voters, for the plurality of unweighted votes."""
    if not isinstance(goal, GroupObjective) or goal.weights is not None:
        return None
    voters = [group.voter for group in problem.groups]
    most = max(v.epsilon for v in voters)
    worst = Privacy(most, 0.0 if most == math.inf else max(v.delta for v in voters))
    alike = GroupProblem(
        problem.classes, [VoterGroup(problem.K, worst)], problem.target, problem.affected, abstention=problem.abstention
    )
    try:
        table = solve_groups(alike, goal, time_limit=_left(end)).table
    except InvalidInput:  # out of reach
        return None
    totals = problem.cells.counts.sum(axis=1)
    return table.chances[alike.cells.places(totals[:, None, :])], f"all at epsilon = {worst.epsilon:g}"


def _best_subset(problem: GroupProblem, goal: AnyGroupObjective, end: float) -> tuple[Array, str] | None:
    """Return the best table that sees some of the groups alone, for the objective about all of them."""
    worth, counts = goal.worth(problem.cells), problem.cells.counts
    several = range(len(problem.groups))
    sizes = range(1, len(several)) if len(several) <= MAX_SUBSET_GROUPS else (1, len(several) - 1)
    best: tuple[float, Array, str] | None = None
    for size in sizes:
        for chosen in combinations(several, size):
            if time.monotonic() >= end:
                break
            groups = [problem.groups[g] for g in chosen]
            affected = min(problem.affected, sum(group.K for group in groups))
            part = GroupProblem(problem.classes, groups, problem.target, affected, abstention=problem.abstention)
            places = part.cells.places(counts[:, list(chosen)])
            seen = np.zeros((len(part.cells.counts), worth.shape[1]))
            np.add.at(seen, places, worth)  # expected over the votes that are not seen
            solution = solve_groups(part, GroupWorth(seen), time_limit=_left(end))
            if best is None or solution.utility > best[0]:
                words = "; ".join(map(str, groups))
                best = solution.utility, solution.table.chances[places], words
    return None if best is None else (best[1], best[2])


def _left(end: float) -> float | None:
    """Return the time until a moment of the monotonic clock [s], None where it never comes."""
    return None if end == math.inf else max(end - time.monotonic(), LEAST_SECONDS)


PRECISION = 0.01
"""Relative distance of the ε of one answer from the largest of which all fit."""

MAX_SCALE = 4.0
"""Largest ε of one answer that is tried, over the one that optimal composition allows."""

LEAST_SECONDS = 1e-3
"""Time of a solve where the time is up already [s]: its table is private, and may release less than the best."""

WORDS = {
    "subsampling": "The plurality of some voters, drawn for every query",
    "one_voter": "The answer of one voter, drawn for every query",
    "randomized_response": "The plurality, or any class by chance",
    "worst_group": "The best table where every voter is taken as the least private one",
    "best_subset": "The best table from the votes of some of the groups",
}
"""What is released, by name; of the others, the mechanism of that name at the largest rate that is private."""


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

    ``weights`` are what one vote of each group is worth where the plurality is taken; the rest is as for `plan`. Voters
    that are all alike, and count alike, have that of `plan` where it has one. After ``time_limit`` the other mechanisms
    are left out, as are tables of a larger ε for each answer.

    Guarantees: Every option that fits is within ``total``, by the account that it names.

    >>> plan_groups([(6, 0.1), (5, 0.5)], 1, Privacy(0.6)).best.name
    'optimal'
    """
    found = simplest_problem(groups, total, classes=classes, affected=affected, abstention=price > 0)
    alike: dict[str, Any] = {"classes": classes, "ties": ties, "price": price, "least_accuracy": least_accuracy}
    searched: dict[str, Any] = {"time_limit": time_limit, "progress": progress}
    # Voters that are alike have better searches there, for γ and its releases; one question must have one answer.
    if not isinstance(found, GroupProblem) and len(set(weights or (1.0,))) == 1:
        voter = found.voter if isinstance(found, Problem) else None
        return plan(found.K, voter, queries, total, int(found.affected), prior, fresh=fresh, **alike, **searched)
    goal = as_group_objective(prior or "dirichlet(1)", price, ties, weights)
    if not isinstance(goal, GroupObjective):
        raise InvalidInput("prior", str(prior), "a prior of the votes", "A truth is an objective of `solve`.")
    problem = GroupProblem(classes, groups, total, affected, abstention=price > 0)
    question = group_question(problem, goal, queries, fresh=fresh, least_accuracy=least_accuracy)
    question = replace(question, stop=deadline(time_limit))
    # Nothing is more accurate than the plurality itself: where it fits, no noise is worth a search.
    plain = plain_option(question, problem)
    if plain is not None:
        options = [plain]
    elif question.queries == 1 or question.fresh:
        options = _tables(question, problem, goal, time_limit)
    else:
        # Answers of one training are not independent given the data, so their ε must not be composed (docs/proofs.md,
        # "Voters that were trained once").
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
    problem: GroupProblem, goal: GroupObjective, queries: int, *, fresh: bool, least_accuracy: float | None
) -> Question:
    """Return the question of groups of voters, after checking every number; the total is the problem's target."""
    given: dict[str, Any] = {"classes": problem.classes, "ties": goal.ties, "price": goal.price}
    question = Question.of(
        problem.K, None, queries, problem.target, problem.affected, goal.prior, least_accuracy=least_accuracy, **given
    )
    return replace(question, fresh=check_fresh(fresh))


def plain_option(question: Question, problem: GroupProblem) -> Option | None:
    """Return the plurality itself, where the voters' own answers or models are within the total."""
    voters = least_private([(group.voter, group.K) for group in problem.groups], problem.affected)
    times = question.queries if question.fresh else 1
    try:
        spent = compose_models({voter: times * count for voter, count in voters.items()}, question.total.delta)
    except DeltaTooSmall:
        return None
    if not (spent.epsilon <= question.total.epsilon and spent.delta <= question.total.delta):
        return None
    why = f"What {problem.affected} of the voters answer is within the total, and what is computed from it too."
    account = "votes" if question.fresh else "post-processing"
    return Option.fitting("majority", question, why, (1.0, 1.0), spent, account)


def _tables(question: Question, problem: GroupProblem, goal: GroupObjective, time_limit: float | None) -> list[Option]:
    """Return the best table and the others, of the largest (ε, δ) of one answer of which all fit, the best first."""
    total, queries, end = question.total, question.queries, math.inf if time_limit is None else time_limit
    end += time.monotonic()

    @cache
    def made(target: Privacy) -> tuple[GroupSolution, GroupTableMechanism]:
        asked = GroupProblem(problem.classes, problem.groups, target, problem.affected, abstention=problem.abstention)
        solution = solve_groups(asked, goal, time_limit=_left(end))
        return solution, GroupTableMechanism(asked, solution.table, fresh=question.fresh)

    # Composition of (ε, δ) says what is certain to fit; the accounts of a table itself may allow more.
    targets = [release_target(total, queries)]
    made(targets[0])  # before the search, so that it has the whole of the time
    if queries > 1 and total.delta > 0:
        least = release_target(replace(total, delta=total.delta / 2), queries).epsilon
        targets.append(
            Privacy(
                largest_fitting(
                    lambda epsilon: not question.stop() and made(Privacy(epsilon))[1].fits(total, queries),
                    least,
                    MAX_SCALE * least,
                    PRECISION,
                )
            )
        )
    best: dict[str, Option] = {}
    for target in targets:
        solution, mechanism = made(target)
        options = [_option("optimal", "The best table of the groups", question, goal, mechanism, solution.gap)]
        for one in () if question.stop() else group_baselines(solution.problem, goal, time_limit=_left(end)):
            words = WORDS.get(one.name, "The mechanism of that name")
            why = f"{words}: {one.parameter}" if one.parameter else words
            table = GroupTableMechanism(solution.problem, one.table, fresh=question.fresh)
            options.append(_option(one.name, why, question, goal, table))
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
    goal: GroupObjective,
    mechanism: GroupTableMechanism,
    gap: float | None = None,
) -> Option:
    """Return the option of a table, whose releases are proved to be within the total; else that it does not fit."""
    target, cost = mechanism.problem.target, mechanism.cost(question.queries, question.total.delta)
    if cost.epsilon > question.total.epsilon:
        return Option.unfit(name, question, why)
    masses = replace(goal, price=0.0).worth(mechanism.problem.cells)  # of the counts that are judged, at their leaders
    chances, classes = mechanism.table.chances, mechanism.classes
    right = math.fsum((masses * chances).ravel().tolist())
    answered = math.fsum((masses.max(axis=1) * chances[:, :classes].sum(axis=1)).tolist())
    return Option.fitting(
        name,
        question,
        f"{why}. Each release is {guarantee(target, '.4g')}.",
        (min(right, 1.0), min(answered, 1.0)),
        Privacy(cost.epsilon, question.total.delta),
        cost.account,
        queries=question.queries,
        parameters={"epsilon": target.epsilon, "delta": target.delta},
        mechanism=mechanism,
        gap=gap,
    )


def _advice(best: Option, question: Question) -> str:
    return f"Right with probability {best.accuracy:.4f} under the prior {question.prior_text}. {best.why}"
