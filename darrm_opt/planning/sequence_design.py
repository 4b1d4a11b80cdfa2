"""Sequence design: a γ for Q releases, as useful as possible while all of them fit a total budget.

γ_opt of one target (ε, δ) keeps the pairs (Pr[1|D], Pr[1|D′]) within one line, p ≤ e^ε·q + δ; but the cost of a pair
inside it, released Q times, varies widely. Here the pairs are kept where each of them alone, released Q times, costs
about the same:

    {(p, q): Q bits of probability p and Q of probability q are (s·E, D)-indistinguishable},

a region described by its supporting lines, each a privacy constraint linear in γ. One linear program has the rows of
all lines, found by cutting planes as for one target (`SequenceProgram`). An adversary who chooses each pair after the
earlier bits gains more than with one pair alone, most where pairs near ½ and far from it cost the same; so some regions
tried are narrower far from ½ (a *tilt*), and each is calibrated by s to the exact account of its γ. That account is the
proof; region and program only guide the search. At Q = 1 the region without tilt is the line (E, D) itself.

The region of any given γ (a *seed*) can be used too: the program's γ stays inside it, so its releases cost no more, and
it is at least as useful as the seed, which is feasible. So the result is never worse than a seed that fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from darrm_opt.accounting.accounts import SEARCHED, models_account
from darrm_opt.accounting.bits.region import MAX_LINES, region_lines
from darrm_opt.accounting.calibrate import Calibration, calibrate, never_stop
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.mixture import AffectedDistribution, BaggedMajority, mixture_total, with_affected
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import estimated_epsilon, exact_epsilon
from darrm_opt.arguments import whole_number
from darrm_opt.design.constraint import Counts, PrivacyConstraint
from darrm_opt.design.cutting_planes import CUT_TOLERANCE
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.master_program import MasterProgram
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.schedule import SolveClock, binding_family
from darrm_opt.design.several_targets import cut
from darrm_opt.design.solver import solve_warm
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.best_target import PRECISION, check_total, equal_share, likely_pairs
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import multiple_up

MAX_SLOW_LINES, MAX_FAST_VOTERS = 10, 21
"""Maximum number of lines if Δ > 0 and there are more voters than this, since every round searches every line."""

MAX_ROUNDS = 40  # maximum number of rounds of cuts in one program; a γ that still violates a line is scaled down
MAX_CUTS = 30  # maximum number of rows that one line adds in a round


class SequenceProgram:
    """The linear program with the rows of several privacy constraints, which keeps the multisets found so far.

    Program and separation are those of `darrm_opt.design`. `CuttingPlanes` is not used: it proves a bound on the
    optimum of one constraint, while here some twenty constraints share a program, no bound is needed, and the account
    of the result is the proof.
    """

    def __init__(self, problem: Problem, objective: AnyObjective) -> None:
        self._problem = problem
        self._constraint = PrivacyConstraint.of(problem)
        self._goal = CanonicalGoal(objective.linear_goal(problem.K), self._constraint.entries)
        self.lines = MAX_SLOW_LINES if problem.voter.delta > 0 and problem.K > MAX_FAST_VOTERS else MAX_LINES
        self._multisets: Counts = binding_family(self._constraint)

    def utility(self, noise: NoiseFunction) -> float:
        """Return the utility of a γ."""
        return self._goal.utility(noise)

    def estimated_cost(self, noise: NoiseFunction, queries: int, total_delta: float) -> float | None:
        """Return an estimate of the total ε from the multisets found so far; None if that would take long."""
        likely = likely_pairs(noise, self._constraint, self._multisets)
        return estimated_epsilon([(likely, queries)], total_delta)

    def best_within(self, lines: Sequence[Privacy], stop: Callable[[], bool] = never_stop) -> NoiseFunction:
        """Return the most useful γ whose pairs stay within all lines, to the search's tolerance; scaled if stopped."""
        problem = self._problem
        constraints = [
            PrivacyConstraint.of(Problem(problem.K, problem.voter, line, problem.affected)) for line in lines
        ]
        # At the start the multisets represent every line, since lines near each other bind at the same ones; later
        # multisets represent the line that they violate.
        program = MasterProgram(constraints[0], self._goal.goal, "free", "highs", further=constraints[1:])
        for number in range(len(constraints)):
            program.add(self._multisets, number)

        def keep(_answer: NoiseFunction, _share: float, new: Sequence[Counts]) -> bool:
            if new:  # for the next regions, which differ little from this one
                self._multisets = np.unique(np.concatenate([self._multisets, *new]), axis=0)
            return stop()

        # Looser than a proof needs: this region guides a search, and the result is calibrated by its account.
        above = [constraint.limit + 100 * CUT_TOLERANCE for constraint in constraints]
        weights, clock = self._goal.weights, SolveClock(None)
        _, noise, share = cut(program, weights, above, keep, clock, most=MAX_CUTS, rounds=MAX_ROUNDS, settle="never")
        return NoiseFunction(noise.values * share)


TILTS = (0.0, 0.15, 0.3)  # exponents τ: around probability p the region is (4p(1−p))^τ times as wide as without tilt

ESTIMATE_PRECISION = 1e-2
"""Share of the budget that may stay unused while tilts are compared; and throughout if voters state several points of a
profile, since each account takes a second there."""

MIXTURE_PRECISION = 5e-3  # share of the budget that may stay unused if the account averages over many counts
MAX_SHARE = 4.0  # largest s: beyond it γ stops growing
MAX_QUERIES = 5000  # maximum number of releases for which the region is computed: its tables grow with them
MIN_EXACT_DELTA = 1e-12  # total δ below which the rounding of the exact account may cost more than the sums of ε and δ
MAX_DELTA = 0.5  # largest δ assumed for one number of affected voters if the number is random: for estimates


@dataclass(frozen=True)
class SequenceDesign:
    """A γ for Q releases.

    Attributes:
        noise: γ.
        utility: share of the noiseless utility kept.
        queries: Q.
        total: total privacy of Q releases: ε by the account, and the allowed δ.
        fresh: the assumption about the voters (`freshness.FRESH`).
    """

    noise: NoiseFunction
    utility: float
    queries: int
    total: Privacy
    fresh: bool


def design_sequence(
    problem: Problem,
    queries: int,
    total: Privacy,
    objective: AnyObjective | str = "rectangular",
    *,
    seeds: Sequence[NoiseFunction] = (),
    distribution: AffectedDistribution | None = None,
    fresh: bool = False,
    stop: Callable[[], bool] = never_stop,
) -> SequenceDesign:
    """Return a γ whose releases fit a total budget, designed for the whole sequence.

    Args:
        problem: voters (K, voter, affected); its target is not used.
        queries: Q, 1..`MAX_QUERIES` releases.
        total: as for `plan`.
        objective: what is maximised.
        seeds: other γ; the result is at least as good as each that fits.
        distribution: of the number of voters that one record affects, if it is random: then the problem's ``affected``
            is not used and the account is the average over it. The region is designed for the count that contributes
            most.
        fresh: as for `plan`; voters trained once are taken as not private, or γ = 1 is returned if the models together
            are within the total.
        stop: called between the steps of the search; if it returns True, the best γ so far is returned.

    Guarantees:
        The releases are within ``total``, by the exact account of their bits, of the models together, or, if these
        prove nothing (a total δ of 0, or below their rounding), by the sums for γ_opt of an equal share. Utility is at
        least that of each seed that fits; optimality is not proved. γ = 0, a fair coin, costs nothing.

    Raises:
        InvalidInput: a value is out of range.
        TooMuchWork: more than `MAX_QUERIES` releases.

    >>> voters = Problem(5, Privacy(math.inf), Privacy(1.0), affected=1)
    >>> design = design_sequence(voters, 20, Privacy(2.0, 1e-3))
    >>> design.total.epsilon <= 2.0, design.utility > 0.2
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    check_total(total)
    if queries > MAX_QUERIES:
        raise TooMuchWork(
            f"{queries} releases exceed the limit of {MAX_QUERIES} for a gamma of the whole sequence. "
            "Use best_target()."
        )
    goal = as_objective(objective)
    if (
        distribution is None
        and (models := models_account(problem, queries, total.delta, fresh=fresh)).epsilon <= total.epsilon
    ):
        # The models together are within the total: the plain majority is post-processing, and nothing is more useful.
        noise = NoiseFunction(np.ones(problem.K + 1))
        utility = SequenceProgram(problem, goal).utility(noise)
        return SequenceDesign(noise, utility, queries, Privacy(models.epsilon, total.delta), fresh)
    problem = effective_voters(problem, queries, fresh=fresh)
    if distribution is None:
        account = partial(exact_epsilon, points=SEARCHED.points, fresh=fresh)
        precision = PRECISION if len(problem.voter.points) == 1 else ESTIMATE_PRECISION
        search = _SequenceSearch(problem, queries, total, goal, account, precision=precision, fresh=fresh, stop=stop)
    else:
        law = distribution

        def cost(noise: NoiseFunction, voters: Problem, count: int, delta: float) -> float:
            return BaggedMajority(noise, voters, law, fresh).epsilon(count, delta)

        # a region is for one number of affected voters: the one that adds most to the average, by the seeds.
        region_budget, worst_problem = heaviest_count(problem, queries, total, distribution, seeds, fresh=fresh)
        search = _SequenceSearch(
            worst_problem, queries, total, goal, cost, region_budget, MIXTURE_PRECISION, fresh=fresh, stop=stop
        )
    best = search.at_least(search.best(), seeds)
    # The sums can only be better if the exact account proves nothing.
    if stop() or (best.utility > 0 and total.delta >= MIN_EXACT_DELTA):
        return best
    # With K affected voters the target holds for every draw of their number.
    affected = problem.affected if distribution is None else problem.K
    share = Problem(problem.K, problem.voter, equal_share(total, queries), affected)
    solution, _ = solve_warm(share, goal, rows=None)
    sums = Privacy(multiple_up(queries, solution.problem.target.epsilon), total.delta)
    by_sums = SequenceDesign(solution.noise, solution.utility, queries, sums, fresh)
    return max(best, by_sums, key=lambda design: design.utility)


def heaviest_count(
    problem: Problem,
    queries: int,
    total: Privacy,
    distribution: AffectedDistribution,
    seeds: Sequence[NoiseFunction] = (),
    *,
    fresh: bool,
) -> tuple[Privacy, Problem]:
    """Return the budget of the count of affected voters that adds most to a total, and the problem with that count.

    No guarantee: a γ designed for them is accounted for by the average over all counts.
    """
    seed = max(seeds, key=lambda noise: float(noise.values.sum()), default=NoiseFunction(np.full(problem.K + 1, 0.1)))
    heaviest = mixture_total(seed, problem, queries, distribution, fresh=fresh, total_delta=total.delta).heaviest(
        total.epsilon
    )
    count, chance = (heaviest.count, heaviest.chance) if heaviest else (problem.K, 1.0)
    return Privacy(total.epsilon, min(MAX_DELTA, total.delta / chance)), with_affected(problem, count)


class _SequenceSearch:
    """The search for one γ: calibrated regions, and the utility of their γ."""

    def __init__(
        self,
        problem: Problem,
        queries: int,
        total: Privacy,
        objective: AnyObjective,
        account: Callable[[NoiseFunction, Problem, int, float], float],
        region_budget: Privacy | None = None,
        precision: float = PRECISION,
        *,
        fresh: bool,
        stop: Callable[[], bool],
    ) -> None:
        self._stop, self._fresh = stop, fresh
        self._problem, self._queries, self._total, self._account = problem, queries, total, account
        self._precision = precision
        self._region_budget = region_budget or total  # the budget of the regions; only the account decides what fits
        self._program = SequenceProgram(problem, objective)

    def best(self) -> SequenceDesign:
        """Return the most useful γ of all regions tried, or γ = 0."""
        trials: list[tuple[float, float, float]] = []  # utility, tilt, share
        for tilt in TILTS if self._queries > 1 else (0.0,):
            if self._stop():
                break
            calibration = self._calibrate(tilt, trials[-1][2] if trials else 1.0, by_estimate=True)
            if calibration is not None:
                trials.append((self._program.utility(calibration.result), tilt, calibration.value))
        if trials and not self._stop():
            _, tilt, share = max(trials)
            calibration = self._calibrate(tilt, share, by_estimate=False)
            if calibration is not None:
                return self._design_of(calibration.result)
        return self._design_of(NoiseFunction(np.zeros(self._problem.K + 1)))

    def at_least(self, best: SequenceDesign, seeds: Sequence[NoiseFunction]) -> SequenceDesign:
        """Return ``best``, or a more useful design: a seed that fits, or the best γ inside its region."""
        for seed in sorted(seeds, key=self._program.utility, reverse=True):
            if self._program.utility(seed) <= best.utility:
                break
            candidates = [seed]
            # a region of many lines is slow if a profile has several points.
            if not self._stop() and len(self._problem.voter.points) == 1:
                lines = NoisyMajority(seed, self._problem).profile.lines
                candidates.insert(0, self._program.best_within(lines, self._stop))
            for design in map(self._design_of, candidates):
                if design.total.epsilon <= self._total.epsilon and design.utility > best.utility:
                    best = design
        return best

    def _calibrate(self, tilt: float, guess: float, *, by_estimate: bool) -> Calibration[NoiseFunction] | None:
        """Return the γ of the widest region of a tilt that fits: by estimates, or proved."""
        Q, budget, program = self._queries, self._region_budget, self._program

        def make(share: float) -> tuple[NoiseFunction, float]:
            noise = program.best_within(
                region_lines(Q, Privacy(share * budget.epsilon, budget.delta), program.lines, tilt), self._stop
            )
            cost = program.estimated_cost(noise, Q, budget.delta) if by_estimate else None
            return noise, self._design_of(noise).total.epsilon if cost is None else cost

        precision = ESTIMATE_PRECISION if by_estimate else self._precision
        return calibrate(make, budget.epsilon, MAX_SHARE, guess=guess, precision=precision, stop=self._stop)

    def _design_of(self, noise: NoiseFunction) -> SequenceDesign:
        cost = 0.0  # of a coin
        try:
            if noise.values.any():
                cost = self._account(noise, self._problem, self._queries, self._total.delta)
        except DeltaTooSmall:
            cost = math.inf
        utility, total = self._program.utility(noise), Privacy(cost, self._total.delta)
        return SequenceDesign(noise, utility, self._queries, total, self._fresh)
