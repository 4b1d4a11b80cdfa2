"""Baselines among tables: common mechanisms, each as a certified table, for comparison with the best table.

They have the same neighbours, transcript, (ε, δ) and objective. If voters are not private, these are the mechanisms
with a law as a table, at the largest private rate, and with abstention a checked noisy maximum. For groups a mechanism
is a table over the votes of all groups together, at its most useful private parameter, mixed with the uniform release
if no parameter is private:

    subsampling           the plurality of some voters, drawn anew independently of the data; of one, `one_voter`
    randomized_response   the plurality, or a random output: k-ary randomised response
    names of `tables`     mechanisms with a law as a table, at the largest rate that private voters allow
    worst_group           the best table if every voter is taken as the least private one
    best_subset           the best table from the votes of some of the groups
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import combinations, takewhile
from operator import add
from typing import Any

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.base import CONFIDENT, mechanism_classes
from darrm_opt.mechanisms.vote_noise import checked_table
from darrm_opt.noise import Array
from darrm_opt.planning.question import end_of, remaining, stop_at
from darrm_opt.problem import Privacy, Problem, VoterGroup
from darrm_opt.search import bracket, largest_fitting, largest_fitting_from
from darrm_opt.tables.certificate import certify_table
from darrm_opt.tables.corners import Corners, corners_of, likely_corners
from darrm_opt.tables.groups import cells_of, compositions, group_cells
from darrm_opt.tables.objective import (
    PluralityObjective,
    TableObjective,
    Worth,
    expected,
    is_plurality,
    objective_for,
    plurality_of,
    weighted_sum,
)
from darrm_opt.tables.priors import PluralityPrior
from darrm_opt.tables.problem import Histograms, Index, histograms, partition_cells
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

PRECISION, MAX_RATE = 1e-4, 200.0
"""Relative precision of a rate for groups, and the largest one tried, which is nearly the plurality itself."""

MAX_SUBSET_GROUPS = 4  # maximum number of groups of which every subset is solved

MAX_SUBSAMPLES = 200
"""Maximum number of subsample sizes tried at once; beyond it a coarse search, refined around the best."""

EDGE_PRECISION = 1e-5
"""Relative precision of a rate for non-private voters: the utility then has the digits of the best rate's."""

NEAR_RATE, WORST_EDGES = 1 / 8, 2
"""Relative precision from which the search for a rate uses few edges only, and their number for each table."""

MAX_EDGE_RATE = 2000.0  # largest rate for non-private voters: beyond it the plurality is released unchanged
ROUNDING = 1e-15  # excess over edges that is left to the repair

THRESHOLDS, CHECK_SHARES = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8), (0.25, 0.5, 1.0, 2.0)
"""Candidate thresholds of the check, as shares of K, and ratios σ₂/σ₁ of its two noises."""

NEARLY = 1e-9  # utilities closer than this are compared only after proofs


@dataclass(frozen=True)
class Baseline:
    """A mechanism as a table, proved private."""

    name: str
    table: Table  # certified for the requested problem, or for that without ⊥
    utility: float  # under the objective of the optimum
    parameter: str = ""  # the chosen parameter as text, if any
    rate: float | None = None  # t [nats per vote]; for Gaussian noise 1/σ [1/votes]; None without a rate
    voters: int | None = None  # that are drawn, of subsampling


def table_baselines(
    problem: Problem,
    objective: TableObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    time_limit: float | None = None,
) -> tuple[Baseline, ...]:
    """Return the baselines that meet the target of a problem; for groups, the most useful first.

    Beyond `MAX_SUBSAMPLES` voters not every subsample size is tried. For groups, baselines not known after
    ``time_limit`` seconds are omitted, except one voter.

    Guarantees: Each table is certified for ``problem`` exactly as stored; no utility is above the ``upper_bound`` of
    `solve_table`.
    """
    goal = objective_for(problem, objective)
    if is_plurality(problem, goal):
        return _calibrated_baselines(problem, goal)
    return _group_baselines(problem, goal, end_of(time_limit))


def _calibrated_baselines(problem: Problem, goal: TableObjective) -> tuple[Baseline, ...]:
    labelling = replace(problem, abstention=False)
    found = {name: calibrate_mechanism(labelling, name) for name in tables()}
    weigh = cache(plurality_of(goal).cell_weights)  # by cells: with ⊥, and without

    def worth(table: Table) -> float:
        assert isinstance(table.cells, Histograms)  # noqa: S101 - for the type checker: its voters are alike
        weights, constant = weigh(table.cells)
        return weighted_sum(table, weights) + constant

    if problem.abstention:
        found[CONFIDENT] = calibrate_confident(problem, worth)
    return tuple(Baseline(name, table, worth(table), rate=rate) for name, (rate, table) in found.items())


TableLaw = Callable[[Histograms, float], Array]  # probabilities of the cells at a rate


@cache
def tables() -> dict[str, TableLaw]:
    """Return the laws of the mechanisms that have one as a table, by name."""
    laws = ((name, getattr(mechanism, "table", None)) for name, mechanism in mechanism_classes().items())
    return {name: law for name, law in laws if law is not None}


def calibrate_mechanism(problem: Problem, name: str, *, precision: float = EDGE_PRECISION) -> tuple[float, Table]:
    """Return a mechanism at the largest rate at which its label, and nothing more, is private for the problem.

    Args:
        problem: without abstention; all its edges are checked.
        name: one of `tables`.
        precision: relative distance of the rate from the largest one.

    Returns:
        The rate t [nats per vote], for Gaussian noise 1/σ [1/votes], and the table.

    Guarantees:
        The table is certified as stored, whatever the search found.

    Raises:
        InvalidInput: another name, abstention, or too many partitions.
    """
    law = tables().get(name)
    if law is None:
        raise InvalidInput("mechanism", name, "one of " + ", ".join(tables()))
    if problem.abstention:
        raise InvalidInput(
            "abstention", problem.abstention, "a problem without abstention", "These mechanisms always release a class."
        )
    cells = partition_cells(problem)
    rate = _largest_edge_rate(problem, law, precision)
    return rate, _certified(problem, law(cells, rate))


def calibrate_confident(problem: Problem, utility: Callable[[Table], float]) -> tuple[float, Table]:
    """Return a checked noisy maximum at the most useful threshold and split of noise, of `THRESHOLDS` × `CHECK_SHARES`.

    Guarantees: The table is certified as stored: its output (a class, or ⊥) is private, and nothing more.
    """
    if not problem.abstention:
        raise InvalidInput("abstention", problem.abstention, "a problem with abstention")
    cells, found = partition_cells(problem), []
    for threshold in sorted({problem.K * share for share in THRESHOLDS}):
        for check_share in CHECK_SHARES:
            law = partial(checked_table, threshold=threshold, check_share=check_share)
            rate = _largest_edge_rate(problem, law, 1e-4)
            found.append((rate, _certified(problem, law(cells, rate))))
    return max(found, key=lambda one: utility(one[1]))


def _certified(problem: Problem, values: Array) -> Table:
    # Scaled until its doubles are proved: a closed form has no slack for rounding.
    return certify_table(problem, Table.normalised(cells_of(problem), values))[0]


def _largest_edge_rate(problem: Problem, law: TableLaw, precision: float) -> float:
    """Return the rate, to a relative precision from below, up to which a mechanism is private, in floating point."""
    cells, target = partition_cells(problem), problem.strictest.target
    c = math.exp(target.epsilon)

    def excess(rate: float, part: Histograms, places: Index, edges: Index) -> Array:
        x = law(part, rate)
        left, right = (np.searchsorted(places, side[edges]) for side in cells.edges[:2])
        outputs = cells.edges.sizes[edges] * np.maximum(x[left] - c * x[right], 0.0)
        return np.asarray(outputs.sum(axis=1) - (target.delta + ROUNDING))

    whole = cells, np.arange(len(cells.owners)), np.arange(len(cells.edges.sizes))
    worst: Index = np.empty(0, dtype=np.intp)

    def fits(rate: float) -> bool:
        nonlocal worst
        beyond = excess(rate, *whole)
        worst = np.union1d(worst, np.argsort(-beyond, kind="stable")[:WORST_EDGES])
        return bool(beyond.max() <= 0)

    def fits_alone(some: tuple[Histograms, Index, Index], rate: float) -> bool:
        return bool(excess(rate, *some).max() <= 0)

    # Many of these mechanisms are private by their noise alone at this rate. Few edges decide: near the end the search
    # uses only those, and checks all edges at the end.
    low, high = bracket(fits, max(target.epsilon / (2 * problem.affected), 1e-3), MAX_EDGE_RATE, NEAR_RATE)
    while True:
        left, right, sizes = (side[worst] for side in cells.edges)
        alone = *cells.part(cells.owners[np.stack([left, right])[:, sizes > 0]]), worst
        rate = largest_fitting(partial(fits_alone, alone), low, high, precision)
        known = len(worst)
        if fits(rate) or len(worst) == known:  # if none is new, only rounding differs
            return rate


class _GroupSearch:
    """Mechanisms of groups as tables, at the most useful private parameters."""

    def __init__(self, problem: Problem, goal: TableObjective, stop: Callable[[], bool]) -> None:
        self._cells, self._totals = group_cells(problem), histograms(problem.K, problem.classes, 1, abstention=False)
        self._problem, self._worth, self._stop = problem, goal.worth(self._cells), stop
        self._corners = corners_of(problem)
        self._likely = likely_corners(problem) or self._corners

    def baseline(self, name: str, chances: Array, parameter: str = "") -> Baseline:
        return self._certified(name, chances, parameter)[0]

    def _certified(
        self, name: str, chances: Array, parameter: str = "", rate: float | None = None, voters: int | None = None
    ) -> tuple[Baseline, bool]:
        """Return a mechanism, and whether its table is private by the likely corners."""
        values = np.zeros(len(self._cells.owners))
        np.maximum.at(values, self._cells.layout.ravel(), chances.ravel())  # one value per cell
        asked = Table.normalised(self._cells, values)
        kept = _private_share(self._likely, asked.chances, errors=2)
        if kept < 1:
            asked = Table(self._cells, asked.values * min(kept, 1 - 2e-12))
        table = certify_table(self._problem, asked)[0]
        return Baseline(name, table, expected(table, self._worth), parameter, rate, voters), table is asked

    def _best(self, name: str, search: Callable[[Sequence[Corners]], Iterable[tuple[Any, ...]]]) -> Baseline:
        """Return the most useful result of a search for a parameter: by the likely corners, or by all if necessary."""
        for corners in dict.fromkeys((self._likely, self._corners)):
            found = [self._certified(name, *one) for one in search(corners)]
            if self._stop() or all(as_asked for _, as_asked in found):
                break
        return max((one for one, _ in found), key=lambda one: one.utility)

    def subsample(self, m: int) -> Array:
        return _of_totals(self._problem, self._totals, subsampled(self._totals, m))

    def subsampling(self) -> Baseline:
        def some(corners: Sequence[Corners]) -> Iterable[tuple[Any, ...]]:
            yield self.subsample(1), "1 voter", None, 1
            best = _best_subsamples(self._problem.K, self._worth, self.subsample, corners, self._stop)
            for m in takewhile(lambda _: not self._stop(), best):
                yield self.subsample(m), f"{m} voters", None, m

        return self._best("subsampling", some)

    def mechanism(self, name: str, law: TableLaw) -> Baseline:
        def chances(rate: float) -> Array:
            return _of_totals(self._problem, self._totals, law(self._totals, rate))

        def largest(corners: Sequence[Corners]) -> Iterable[tuple[Any, ...]]:
            rate = _largest_rate(chances, corners, self._stop)
            yield chances(rate), f"rate {rate:.4g}", rate

        return self._best(name, largest)


def _group_baselines(problem: Problem, goal: TableObjective, end: float) -> tuple[Baseline, ...]:
    stop = stop_at(end)
    search = _GroupSearch(problem, goal, stop)
    # One drawn voter is a mechanism with its own name.
    found = [search.baseline("one_voter", search.subsample(1)), search.subsampling()]
    if not stop():
        found.append(search.baseline("randomized_response", search.subsample(problem.K)))
    found += [search.mechanism(name, law) for name, law in takewhile(lambda _: not stop(), tables().items())]
    for name, make in (("worst_group", _worst_group), ("best_subset", _best_subset)):
        if len(problem.groups) > 1 and not stop() and (made := make(problem, goal, end)) is not None:
            found.append(search.baseline(name, *made))
    return tuple(sorted(found, key=lambda one: -one.utility))


def _private_share(corners: Sequence[Corners], chances: Array, errors: int = 0) -> float:
    """Return the factor by which a table is private at some corners, allowing for ``errors`` errors of a sweep."""
    return min(one.private_share(one.violations(chances, math.inf, 1).largest + errors * one.error) for one in corners)


def _best_subsamples(
    K: int,
    worth: Array,
    subsample: Callable[[int], Array],
    corners: Sequence[Corners],
    stop: Callable[[], bool],
) -> list[int]:
    """Return the subsample sizes, 2 or more, whose tables are the most useful once private, except for rounding."""
    uniform = float(worth.mean(axis=1).sum())
    utilities: dict[int, float] = {}
    low, high = 1, K
    while True:
        step = -(-(high - low) // MAX_SUBSAMPLES) or 1
        # a proof of each is far slower than its utility, which is within rounding of that of the proved table.
        for m in (*range(low, high, step), high):
            if m in utilities:
                continue
            if utilities and stop():
                break
            chances = subsample(m)
            kept = _private_share(corners, chances)
            utilities[m] = uniform + kept * (float((worth * chances).sum()) - uniform)
        best = max(utilities, key=lambda m: utilities[m])
        if step == 1 or stop():
            return sorted(m for m, utility in utilities.items() if m > 1 and utility >= utilities[best] - NEARLY)
        low, high = max(best - step, 1), min(best + step, K)


@lru_cache(maxsize=1)
def _binomials(K: int) -> tuple[Array, Index]:
    """Return the binomial coefficients of n ≤ K and k ≤ K as (f, e), f·2^e with 1/2 ≤ f < 1 or f = 0."""
    fractions, exponents = np.zeros((K + 1, K + 1)), np.zeros((K + 1, K + 1), dtype=np.intp)
    row = [1]
    for n in range(K + 1):
        # Integers beyond the range of doubles lose their last bits first; all others are rounded once.
        shifts = [max(count.bit_length() - 1000, 0) for count in row]
        fractions[n, : n + 1], e = np.frexp([float(c >> shift) for c, shift in zip(row, shifts, strict=True)])
        exponents[n, : n + 1] = e + np.array(shifts)
        row = [1, *map(add, row, row[1:]), 1]
    return fractions, exponents


def subsampled(cells: Histograms, m: int) -> Array:
    """Return Pr[a class is released] by cell if it is the plurality of m voters drawn at random, ties at random.

    The draw does not depend on the data, so this is post-processing of m answers.

    >>> subsampled(histograms(3, 2, 1, abstention=False), 1).round(3).tolist()
    [0.667, 0.333, 1.0, 0.0]
    """
    ways = compositions(m, cells.classes)
    leads = ways == ways.max(axis=1, keepdims=True)
    share = leads / leads.sum(axis=1, keepdims=True)
    fractions, exponents = (array[:, : m + 1] for array in _binomials(cells.K))
    # Factors a^k and b_n are common to one partition and cancel; these powers of 2 are exact and keep the terms near 1.
    tilted = exponents - round(math.log2((cells.K - m + 1) / (m + 1))) * np.arange(m + 1)
    choose = np.ldexp(fractions, tilted - np.where(fractions > 0, tilted, -(2**40)).max(axis=1, keepdims=True))
    partitions = np.array(cells.partitions)
    of_class = np.empty(partitions.shape)
    for number, partition in enumerate(cells.partitions):
        weights = np.prod([choose[n][ways[:, c]] for c, n in enumerate(partition)], axis=0)
        of_class[number] = weights @ share / weights.sum()
    # Of the first class with the cell's votes.
    return np.asarray(of_class[cells.owners, (partitions[cells.owners] == cells.values[:, None]).argmax(axis=1)])


def _of_totals(problem: Problem, cells: Histograms, values: Array) -> Array:
    """Return a table over the votes of all groups together as output probabilities, shape (counts, outputs)."""
    by_count = np.zeros((len(cells.partitions), cells.K + 1))
    by_count[cells.owners, cells.values] = values
    totals = group_cells(problem).counts.sum(axis=1)
    places = [cells.numbers[tuple(row)] for row in (-np.sort(-totals, axis=1)).tolist()]
    chances = by_count[np.array(places)[:, None], totals]
    return np.column_stack([chances, np.zeros(len(chances))]) if problem.abstention else chances


def _largest_rate(chances: Callable[[float], Array], corners: Sequence[Corners], stop: Callable[[], bool]) -> float:
    """Return the largest rate at which the table is private except for rounding; a smaller one or 0 once stopped."""

    def fits(rate: float) -> bool:
        table = chances(rate)
        return not stop() and all(one.violations(table, math.inf, 1).largest <= one.error for one in corners)

    return largest_fitting_from(fits, 0.01, MAX_RATE, PRECISION)


def _worst_group(problem: Problem, goal: TableObjective, end: float) -> tuple[Array, str] | None:
    """Return the best table if all are as the least private voters, for the plurality of unweighted votes."""
    if not isinstance(goal, PluralityObjective) or goal.weights is not None:
        return None
    voters = [group.voter for group in problem.groups]
    most = max(v.epsilon for v in voters)
    worst = Privacy(most, 0.0 if most == math.inf else max(v.delta for v in voters))
    alike = replace(problem, groups=(VoterGroup(problem.K, worst),))
    try:
        table = solve_table(alike, goal, time_limit=remaining(end)).table
    except InvalidInput:  # the table is too large
        return None
    totals = group_cells(problem).counts.sum(axis=1)
    return table.nearest[table.cells.find(totals)], f"all at epsilon = {worst.epsilon:g}"


def _best_subset(problem: Problem, goal: TableObjective, end: float) -> tuple[Array, str] | None:
    """Return the best table from some of the groups only, for the objective about all of them."""
    worth, counts = goal.worth(group_cells(problem)), group_cells(problem).counts
    several = range(len(problem.groups))
    sizes = range(1, len(several)) if len(several) <= MAX_SUBSET_GROUPS else (1, len(several) - 1)
    best: tuple[float, Array, str] | None = None
    for size in sizes:
        for chosen in combinations(several, size):
            if time.monotonic() >= end:
                break
            groups = tuple(problem.groups[g] for g in chosen)
            affected = min(problem.affected, sum(group.K for group in groups))
            part = replace(problem, groups=groups, affected=affected)
            cells = group_cells(part)
            places = cells.places(counts[:, list(chosen)])
            seen = np.zeros((len(cells.counts), worth.shape[1]))
            np.add.at(seen, places, worth)  # expectation over the unseen votes
            solution = solve_table(part, Worth(seen), time_limit=remaining(end))
            if best is None or solution.utility > best[0]:
                words = "; ".join(map(str, groups))
                best = solution.utility, solution.table.chances[places], words
    return None if best is None else (best[1], best[2])
