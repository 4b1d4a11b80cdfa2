"""A γ for a whole sequence of releases: as useful as possible while all of them fit a total budget.

γ_opt of one target (ε, δ) keeps the pairs (Pr[1|D], Pr[1|D′]) inside one line, p ≤ e^ε·q + δ, and what a pair inside it
costs when it is released Q times differs a lot from place to place. Here the pairs are kept where each of them alone,
shown Q times, would cost about the same:

    {(p, q): Q bits of chance p against Q of chance q are (s·E, D)-indistinguishable},

a region that its supporting lines describe, each of them a privacy constraint, linear in γ. One linear program has the rows
of all of them. An adversary who may choose each pair in view of the earlier bits gets more than from one pair alone, most
where pairs near ½ and far from it cost the same; so some regions tried are narrower far from ½ (a *tilt*), and each is
turned up, by s, as far as the exact account of its γ allows. That account is the proof; region and program only say
where to look. At Q = 1 the region without tilt is the line (E, D) itself.

The region of any γ at hand (a *seed*) serves as well: the program's γ stays inside it, so its releases cost no more, and is
at least as useful, since the seed itself is in there. So what is returned is never worse than a seed that fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from darrm_opt.accounting.allowance import POINTS, PRECISION, checked_total
from darrm_opt.accounting.freshness import counted_voters, models_total
from darrm_opt.accounting.reach import Reach, affected_by, reached_epsilon, reached_total
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.sequence_program import SequenceProgram
from darrm_opt.accounting.sequence_region import lines_of, region_lines
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.accounting.turning import Turned, never, turned_up
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem, whole_number

TILTS = (0.0, 0.15, 0.3)
"""Exponents τ: at chances around p the region is as wide as without tilt times (4p(1−p))^τ."""

SCOUT_PRECISION = 1e-2
"""Share of the budget that may stay unused while tilts are compared."""

REACHED_PRECISION = 5e-3
"""Share of the budget that may stay unused where the account is an average over many counts."""

MOST_SHARE = 4.0
"""Largest s: beyond, γ has stopped growing."""

MOST_QUERIES = 5000
"""Most releases for which the region is computed: its tables grow with them."""

MOST_DELTA = 0.5
"""Most that one number of reached voters is taken to leak, where chance decides the number: for estimates."""


@dataclass(frozen=True)
class SequenceDesign:
    """A γ for Q releases.

    Attributes:
        noise: γ.
        utility: share of the noiseless utility kept.
        queries: Q.
        total: what Q releases cost together: ε as accounted, and the δ that was allowed.
    """

    noise: NoiseFunction
    utility: float
    queries: int
    total: Privacy


def design_sequence(
    problem: Problem,
    queries: int,
    total: Privacy,
    objective: AnyObjective | str = "rectangular",
    *,
    seeds: Sequence[NoiseFunction] = (),
    reach: Reach | None = None,
    fresh: bool = False,
    stop: Callable[[], bool] = never,
) -> SequenceDesign:
    """Return a γ whose releases fit a total budget, made for the whole sequence.

    Args:
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q, 1..`MOST_QUERIES` releases, fixed beforehand, each chosen freely in view of the earlier answers.
        total: (ε, δ) of all releases together, ε > 0 and finite.
        objective: what is maximised.
        seeds: other γ to be at least as good as, where their releases fit.
        reach: how many voters one record reaches, where chance decides it: then the problem's ``affected`` plays no part and
            the account is the average over that law. The region is made for the count that weighs most in it.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer; False
            where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`freshness.FRESH`): then they are
            taken as not private, or γ = 1 is returned where the models together are within the total.
        stop: asked between the steps of the search; where it is true, the best γ known so far is the answer.

    Guarantees:
        The releases are within ``total``, by the exact account of their bits, or of the models together. Utility is that of a good γ, at least that of each seed
        that fits, not a proven optimum.

    Raises:
        InvalidInput: a number is outside its range.
        TooMuchWork: more than `MOST_QUERIES` releases.

    Source: ours.

    >>> voters = Problem(5, Privacy(math.inf), Privacy(1.0), affected=1)
    >>> found = design_sequence(voters, 20, Privacy(2.0, 1e-3))
    >>> found.total.epsilon <= 2.0, found.utility > 0.2
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    checked_total(total)
    if queries > MOST_QUERIES:
        raise TooMuchWork(
            f"{queries} releases are more than the {MOST_QUERIES} for which a gamma is made for the whole sequence. "
            "Use largest_allowance()."
        )
    aim = as_objective(objective)
    if reach is None and (models := models_total(problem, queries, total.delta, fresh=fresh)).epsilon <= total.epsilon:
        plain = NoiseFunction(np.ones(problem.K + 1))
        utility = SequenceProgram(problem, aim).utility(plain)
        return SequenceDesign(plain, utility, queries, Privacy(models.epsilon, total.delta))
    problem = counted_voters(problem, queries, fresh=fresh)
    if reach is None:
        search = _Search(problem, queries, total, aim, partial(exact_epsilon, points=POINTS, fresh=fresh), stop=stop)
    else:
        cost = partial(reached_epsilon, reach=reach, fresh=fresh)
        around, worst = _weighing_most(problem, queries, total, reach, seeds, fresh=fresh)
        search = _Search(worst, queries, total, aim, cost, around, REACHED_PRECISION, stop)
    return search.at_least(search.best(), seeds)


def _weighing_most(
    problem: Problem, queries: int, total: Privacy, reach: Reach, seeds: Sequence[NoiseFunction], *, fresh: bool
) -> tuple[Privacy, Problem]:
    """Return what the count that weighs most may cost by itself, and the problem of that count: for estimates."""
    seed = max(seeds, key=lambda each: float(each.values.sum()), default=NoiseFunction(np.full(problem.K + 1, 0.1)))
    heavy = reached_total(seed, problem, queries, reach, fresh=fresh, total_delta=total.delta).heaviest(total.epsilon)
    count, chance = (heavy.count, heavy.chance) if heavy else (problem.K, 1.0)
    return Privacy(total.epsilon, min(MOST_DELTA, total.delta / chance)), affected_by(problem, count)


class _Search:
    """The search for one γ: regions turned up, and what they come to."""

    def __init__(
        self,
        problem: Problem,
        queries: int,
        total: Privacy,
        objective: AnyObjective,
        account: Callable[[NoiseFunction, Problem, int, float], float],
        around: Privacy | None = None,
        precision: float = PRECISION,
        stop: Callable[[], bool] = never,
    ) -> None:
        self._stop = stop
        self._problem, self._queries, self._total, self._account = problem, queries, total, account
        self._precision = precision
        self._around = around or total  # what regions are made for; the account alone decides what fits
        self._program = SequenceProgram(problem, objective)

    def best(self) -> SequenceDesign:
        """Return the most useful γ of all regions tried, or γ = 0."""
        found: list[tuple[float, float, float]] = []  # utility, tilt, share
        for tilt in TILTS if self._queries > 1 else (0.0,):
            if self._stop():
                break
            end = self._turned(tilt, found[-1][2] if found else 1.0, scouting=True)
            if end is not None:
                found.append((self._program.utility(end.made), tilt, end.value))
        if found and not self._stop():
            _, tilt, share = max(found)
            end = self._turned(tilt, share, scouting=False)
            if end is not None:
                return self._designed(end.made)
        return self._designed(NoiseFunction(np.zeros(self._problem.K + 1)))

    def at_least(self, best: SequenceDesign, seeds: Sequence[NoiseFunction]) -> SequenceDesign:
        """Return ``best``, or what is more useful: a seed that fits, or the best γ inside its region."""
        useful = self._program.utility
        for seed in sorted(seeds, key=useful, reverse=True):
            if useful(seed) <= best.utility:
                break
            tried = [seed]
            if not self._stop():
                tried.insert(0, self._program.best_within(lines_of(seed, self._problem), self._stop))
            fitting = [each for each in map(self._designed, tried) if each.total.epsilon <= self._total.epsilon]
            best = max([best, *fitting], key=lambda each: each.utility)
        return best

    def _turned(self, tilt: float, guess: float, *, scouting: bool) -> Turned[NoiseFunction] | None:
        """Return the γ of the widest region of a tilt that fits: by estimates while scouting, else proved."""
        Q, around, program = self._queries, self._around, self._program

        def made(share: float) -> tuple[NoiseFunction, float]:
            noise = program.best_within(
                region_lines(Q, Privacy(share * around.epsilon, around.delta), program.lines, tilt), self._stop
            )
            cost = program.estimated_cost(noise, Q, around.delta) if scouting else None
            return noise, self._designed(noise).total.epsilon if cost is None else cost

        precision = SCOUT_PRECISION if scouting else self._precision
        return turned_up(made, around.epsilon, MOST_SHARE, guess=guess, precision=precision, stop=self._stop)

    def _designed(self, noise: NoiseFunction) -> SequenceDesign:
        try:
            cost = self._account(noise, self._problem, self._queries, self._total.delta)
        except BelowLeakFloor:
            cost = math.inf
        return SequenceDesign(noise, self._program.utility(noise), self._queries, Privacy(cost, self._total.delta))
