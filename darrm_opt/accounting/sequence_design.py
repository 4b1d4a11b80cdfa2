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

from darrm_opt.accounting.allowance import POINTS, PRECISION, checked_total, estimated_cost
from darrm_opt.accounting.bit_region import upper_hull
from darrm_opt.accounting.reach import Reach, affected_by, reached_epsilon, reached_total
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release import Release
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.accounting.turning import Turned, turned_up
from darrm_opt.design.backends import open_backend
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import Counts
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.program import Status
from darrm_opt.design.run import CUT_TOLERANCE, KAPPA
from darrm_opt.design.stages import binding_family
from darrm_opt.design.worst_case import worst_case
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem, whole_number

LINES, FEW_LINES, MANY_VOTERS = 24, 10, 21
"""Supporting lines of the region that become constraints; fewer where Δ > 0 and there are more voters than that, because
every line is searched in every round."""

TILTS = (0.0, 0.15, 0.3)
"""Exponents τ: at chances around p the region is as wide as without tilt times (4p(1−p))^τ."""

SCOUT_PRECISION = 1e-2
"""Share of the budget that may stay unused while tilts are compared."""

MOST_SHARE = 4.0
"""Largest s: beyond, γ has stopped growing."""

MOST_QUERIES = 5000
"""Most releases for which the region is computed: its tables grow with them."""

MOST_DELTA = 0.5
"""Most that one number of reached voters is taken to leak, where chance decides the number: for estimates."""

STEEPEST = math.exp(30.0)
"""Slope beyond which a line says no more than that the chance of an infinite loss is bounded."""

CHANCES = 61
"""Values of q at which the region's border is found."""

ROUNDS = 40
"""Most rounds of cuts in one program; a γ that still breaks a line after them is scaled down."""

CUTS = 30
"""Most rows that one line adds in a round."""


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

    Guarantees:
        The releases are within ``total``, by the exact account of their bits. Utility is that of a good γ, at least that of each seed
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
    if reach is None:
        search = _Search(problem, queries, total, aim, partial(exact_epsilon, points=POINTS))
    else:
        cost = partial(reached_epsilon, reach=reach)
        around, worst = _weighing_most(problem, queries, total, reach, seeds)
        search = _Search(worst, queries, total, aim, cost, around)
    return search.at_least(search.best(), seeds)


def _weighing_most(
    problem: Problem, queries: int, total: Privacy, reach: Reach, seeds: Sequence[NoiseFunction]
) -> tuple[Privacy, Problem]:
    """Return what the count that weighs most may cost by itself, and the problem of that count: for estimates."""
    seed = max(seeds, key=lambda each: float(each.values.sum()), default=NoiseFunction(np.full(problem.K + 1, 0.1)))
    heavy = reached_total(seed, problem, queries, reach, total_delta=total.delta).heaviest(total.epsilon)
    count, chance = (heavy.count, heavy.chance) if heavy else (problem.K, 1.0)
    return Privacy(total.epsilon, min(MOST_DELTA, total.delta / chance)), affected_by(problem, count)


def region_lines(queries: int, total: Privacy, lines: int = LINES, tilt: float = 0.0) -> list[Privacy]:
    """Return lines (ε, δ) around the pairs that ``queries`` times alike cost no more than ``total``.

    Args:
        queries: Q ≥ 1.
        total: (ε, δ) of Q bits alike.
        lines: most lines.
        tilt: τ ≥ 0, as `TILTS`.
    """
    if queries == 1:
        return [total]
    q = np.concatenate([[0.0], np.geomspace(1e-6 / queries, 0.5, CHANCES // 2 + 1)])
    q = np.concatenate([q, 1 - q[-2::-1]])
    low, high = q.copy(), np.ones_like(q)
    for _ in range(46):
        middle = (low + high) / 2
        fits = _repeated(middle, q, queries, total.epsilon) <= total.delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    around = (low + q) / 2
    low = q + (low - q) * (4 * around * (1 - around)) ** tilt
    p, q = upper_hull(np.stack([low, q], axis=1)).T
    slopes = np.unique(np.clip(np.diff(p) / np.diff(q), 1.0, STEEPEST))
    chosen = slopes[np.unique(np.linspace(0, slopes.size - 1, lines).round().astype(int))]
    return [Privacy(math.log(c), float(np.clip(np.max(p - c * q), 0.0, 1 - 1e-9))) for c in chosen.tolist()]


def _lines_of(noise: NoiseFunction, problem: Problem) -> list[Privacy]:
    """Return lines around all that a release of ``noise`` can show."""
    profile = Release(noise, problem).profile
    return [
        Privacy(float(epsilon), min(float(delta) * (1 + 1e-12), 1 - 1e-9))
        for epsilon, delta in zip(profile.epsilons, profile.deltas, strict=True)
    ]


def _repeated(p: Array, q: Array, queries: int, epsilon: float) -> Array:
    """Return the larger of the two hockey-sticks at ε between Q bits of chance p and Q of chance q."""
    ones = np.arange(queries + 1.0)
    log_ways = np.array([math.lgamma(queries + 1) - math.lgamma(j + 1) - math.lgamma(queries - j + 1) for j in ones])

    def log_masses(chance: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(ones > 0, ones * np.log(chance)[:, None], 0.0)
            terms += np.where(ones < queries, (queries - ones) * np.log1p(-chance)[:, None], 0.0)
        return np.asarray(terms + log_ways)

    on_data, on_neighbour = log_masses(p), log_masses(q)
    forth = np.maximum(np.exp(on_data) - np.exp(on_neighbour + epsilon), 0.0).sum(axis=1)
    back = np.maximum(np.exp(on_neighbour) - np.exp(on_data + epsilon), 0.0).sum(axis=1)
    return np.asarray(np.maximum(forth, back))


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
    ) -> None:
        self._problem, self._queries, self._total, self._account = problem, queries, total, account
        self._around = around or total  # what regions are made for; the account alone decides what fits
        self._program = _Program(problem, objective)

    def best(self) -> SequenceDesign:
        """Return the most useful γ of all regions tried, or γ = 0."""
        found: list[tuple[float, float, float]] = []  # utility, tilt, share
        for tilt in TILTS if self._queries > 1 else (0.0,):
            end = self._turned(tilt, found[-1][2] if found else 1.0, scouting=True)
            if end is not None:
                found.append((self._program.utility(end.made), tilt, end.value))
        if found:
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
            inside = self._program.best_within(_lines_of(seed, self._problem))
            fitting = [
                each for each in map(self._designed, (inside, seed)) if each.total.epsilon <= self._total.epsilon
            ]
            best = max([best, *fitting], key=lambda each: each.utility)
        return best

    def _turned(self, tilt: float, guess: float, *, scouting: bool) -> Turned[NoiseFunction] | None:
        """Return the γ of the widest region of a tilt that fits: by estimates while scouting, else proved."""
        Q, around, program = self._queries, self._around, self._program

        def made(share: float) -> tuple[NoiseFunction, float]:
            noise = program.best_within(
                region_lines(Q, Privacy(share * around.epsilon, around.delta), program.lines, tilt)
            )
            cost = program.estimated_cost(noise, Q, around.delta) if scouting else None
            return noise, self._designed(noise).total.epsilon if cost is None else cost

        precision = SCOUT_PRECISION if scouting else PRECISION
        return turned_up(made, around.epsilon, MOST_SHARE, guess=guess, precision=precision)

    def _designed(self, noise: NoiseFunction) -> SequenceDesign:
        try:
            cost = self._account(noise, self._problem, self._queries, self._total.delta)
        except BelowLeakFloor:
            cost = math.inf
        return SequenceDesign(noise, self._program.utility(noise), self._queries, Privacy(cost, self._total.delta))


class _Program:
    """The linear program with the rows of several privacy constraints, which remembers the multisets that mattered."""

    def __init__(self, problem: Problem, objective: AnyObjective) -> None:
        self._problem, self._aim = problem, objective.aim(problem.K)
        self._entries = (problem.K + 1) // 2
        self.lines = FEW_LINES if problem.voter.delta > 0 and problem.K > MANY_VOTERS else LINES
        self._known: Counts = binding_family(PrivacyConstraint.of(problem))

    def utility(self, noise: NoiseFunction) -> float:
        """Return the utility of a γ."""
        return self._aim.utility(noise.values[self._problem.K // 2 + 1 :])

    def estimated_cost(self, noise: NoiseFunction, queries: int, total_delta: float) -> float | None:
        """Return about what releases cost, by the multisets that mattered; None where that would take long."""
        return estimated_cost(noise, PrivacyConstraint.of(self._problem), self._known, queries, total_delta)

    def best_within(self, lines: Sequence[Privacy]) -> NoiseFunction:
        """Return the γ of largest utility whose pairs stay inside all lines, up to the search's tolerance."""
        problem, aim = self._problem, self._aim
        constraints = [
            PrivacyConstraint.of(Problem(problem.K, problem.voter, line, problem.affected)) for line in lines
        ]
        backend = open_backend("highs", aim.weights.size)
        if aim.limits.size:
            backend.add(aim.rows, aim.limits)
        weights = (1 - KAPPA) * aim.weights
        weights[: self._entries] += KAPPA / self._entries

        def add(constraint: PrivacyConstraint, multisets: Counts) -> None:
            rows = np.pad(constraint.rows(multisets), ((0, 0), (0, weights.size - self._entries)))
            backend.add(rows, np.full(len(rows), constraint.limit))

        for constraint in constraints:
            add(constraint, self._known)
        noise, scale = NoiseFunction(np.zeros(problem.K + 1)), 1.0
        for _ in range(ROUNDS):
            outcome = backend.solve(weights, None)
            if outcome.status is not Status.OPTIMAL:
                break
            upper = np.clip(np.nan_to_num(outcome.upper_half[: self._entries], nan=0.0), 0.0, 1.0)
            noise, scale, broken = NoiseFunction.from_upper_half(upper, problem.K), 1.0, False
            for constraint in constraints:
                above = constraint.limit + 100 * CUT_TOLERANCE
                found = worst_case(noise, constraint, above=above, most=CUTS, settle="never")
                if found.value > constraint.limit:
                    scale = min(scale, max(0.0, constraint.limit / found.value))
                if len(found.cuts):
                    broken = True
                    add(constraint, found.cuts)
                    self._known = np.unique(np.concatenate([self._known, found.cuts]), axis=0)
            if not broken:
                break
        return NoiseFunction(noise.values * scale)
