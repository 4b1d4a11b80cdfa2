"""What else groups of voters can release: mechanisms that people use, each as a certified table of the same problem.

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
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.table import tables
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.search import largest_fitting_from
from darrm_opt.tables.group_solver import (
    AnyGroupObjective,
    GroupObjective,
    GroupWorth,
    as_group_objective,
    solve_groups,
)
from darrm_opt.tables.group_table import GroupTable, certify_groups, corners_of
from darrm_opt.tables.groups import GroupProblem, VoterGroup, compositions
from darrm_opt.tables.problem import Histograms, histograms

PRECISION, MAX_RATE = 1e-4, 200.0
"""Relative precision of a rate, and the largest that is tried: the plurality itself, nearly."""

MAX_SUBSET_GROUPS = 4
"""Most groups of which every subset is solved."""


@dataclass(frozen=True)
class GroupBaseline:
    """A mechanism as a table for groups of voters, proved private."""

    name: str
    table: GroupTable  # certified for the problem that was asked
    utility: float  # of the same objective as the optimum's
    parameter: str  # what was chosen, in words; "" where nothing is


def group_baselines(
    problem: GroupProblem, objective: AnyGroupObjective | str = "dirichlet(1)"
) -> tuple[GroupBaseline, ...]:
    """Return what else meets the target of a problem, the most useful first.

    Guarantees: Each table is certified for ``problem``, exactly as its doubles are; no utility is above the
    ``upper_bound`` of `solve_groups`.
    """
    goal = as_group_objective(objective)
    worth = goal.worth(problem.cells)
    cells = histograms(problem.K, problem.classes, 1, abstention=False)

    def baseline(name: str, chances: Array, parameter: str = "") -> GroupBaseline:
        values = np.zeros(len(problem.cells.owners))
        np.maximum.at(values, problem.cells.cell.ravel(), chances.ravel())  # one value a cell, whichever writes it
        table, _ = certify_groups(problem, GroupTable.normalised(problem, values))
        return GroupBaseline(name, table, math.fsum((worth * table.chances).ravel().tolist()), parameter)

    subsamplings = [
        baseline("subsampling", _of_totals(problem, cells, subsampled(cells, m)), f"{m} voters")
        for m in range(1, problem.K + 1)
    ]
    found = [
        replace(subsamplings[0], name="one_voter", parameter=""),
        max(subsamplings, key=lambda one: one.utility),
        baseline("randomized_response", _of_totals(problem, cells, subsampled(cells, problem.K))),
    ]
    for name, law in tables().items():

        def chances(rate: float, law: Any = law) -> Array:
            return _of_totals(problem, cells, law(cells, rate))

        rate = _largest_rate(problem, chances)
        found.append(baseline(name, chances(rate), f"rate {rate:.4g}"))
    for name, make in (("worst_group", _worst_group), ("best_subset", _best_subset)):
        if len(problem.groups) > 1 and (made := make(problem, goal)) is not None:
            found.append(baseline(name, *made))
    return tuple(sorted(found, key=lambda one: -one.utility))


def subsampled(cells: Histograms, m: int) -> Array:
    """Return Pr[a class is released] where it is the plurality of m voters drawn at random, ties at random, by cell.

    The voters that are drawn do not depend on the data, so this is a post-processing of m answers.

    >>> subsampled(histograms(3, 2, 1, abstention=False), 1).round(3).tolist()
    [0.667, 0.333, 1.0, 0.0]
    """
    ways = compositions(m, cells.classes)
    leads = ways == ways.max(axis=1, keepdims=True)
    share = leads / leads.sum(axis=1, keepdims=True)
    choose = np.array([[math.comb(n, k) for k in range(m + 1)] for n in range(cells.K + 1)], dtype=np.float64)
    chances = np.empty(len(cells.values))
    for number, partition in enumerate(cells.partitions):
        weights = np.prod([choose[n][ways[:, c]] for c, n in enumerate(partition)], axis=0)
        of_class = weights @ share / weights.sum()
        for cell in np.flatnonzero(cells.owners == number).tolist():
            chances[cell] = of_class[partition.index(int(cells.values[cell]))]
    return chances


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


def _worst_group(problem: GroupProblem, goal: AnyGroupObjective) -> tuple[Array, str] | None:
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
        table = solve_groups(alike, goal).table
    except InvalidInput:  # out of reach
        return None
    totals = problem.cells.counts.sum(axis=1)
    return table.chances[alike.cells.places(totals[:, None, :])], f"all at epsilon = {worst.epsilon:g}"


def _best_subset(problem: GroupProblem, goal: AnyGroupObjective) -> tuple[Array, str]:
    """Return the best table that sees some of the groups alone, for the objective about all of them."""
    worth, counts = goal.worth(problem.cells), problem.cells.counts
    several = range(len(problem.groups))
    sizes = range(1, len(several)) if len(several) <= MAX_SUBSET_GROUPS else (1, len(several) - 1)
    best: tuple[float, Array, str] | None = None
    for size in sizes:
        for chosen in combinations(several, size):
            groups = [problem.groups[g] for g in chosen]
            affected = min(problem.affected, sum(group.K for group in groups))
            part = GroupProblem(problem.classes, groups, problem.target, affected, abstention=problem.abstention)
            places = part.cells.places(counts[:, list(chosen)])
            seen = np.zeros((len(part.cells.counts), worth.shape[1]))
            np.add.at(seen, places, worth)  # expected over the votes that are not seen
            solution = solve_groups(part, GroupWorth(seen))
            if best is None or solution.utility > best[0]:
                words = "; ".join(map(str, groups))
                best = solution.utility, solution.table.chances[places], words
    assert best is not None  # noqa: S101 - there are two groups or more
    return best[1], best[2]
