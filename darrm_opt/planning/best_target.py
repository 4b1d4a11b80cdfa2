"""Best target of one release, so that Q releases of its γ_opt fit a total budget.

Every target (ε, δ) of one release has a γ_opt, and Q releases of it cost a total ε at the total δ, by the tightest
sound account. The targets that fit lie below a curve from (largest ε, 0) to (0, largest δ), and utility varies along
it: a larger δ allows more distance between neighbours where a bit is nearly certain, a larger ε where it is nearly a
coin. The search moves along the curve and calibrates ε to the total at each δ.

The target's δ is not limited by the total's: γ_opt with a large δ need not leak at all (its two answers keep finite
odds), and the total is computed from its pairs of laws, not from (ε, δ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from darrm_opt.accounting.accounts import PLANNED, SLOW, STATED, models_account
from darrm_opt.accounting.bits.region import inner_region, upper_hull
from darrm_opt.accounting.calibrate import Calibration, calibrate, never_stop
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import estimated_epsilon, total_of
from darrm_opt.arguments import whole_number
from darrm_opt.decimals import DELTA_GRID, GRID_DIGITS
from darrm_opt.design.constraint import Counts, PrivacyConstraint
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import Shape, solve_warm
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem
from darrm_opt.rounding import multiple_up

MAX_FINALISTS, MIN_SPACING = 4, 0.05
"""Number of points of the curve that are proved, and the smallest relative distance of their δ."""

ESTIMATE_PRECISION, PRECISION = 3e-3, 1e-3  # relative precision of the cost, along the curve and at its end
SHARES = (1e-4, 1e-2, 0.1, 0.25, 0.5, 0.75, 0.9, 0.0, 1.0)  # first points of the curve: δ as a share of the largest δ
QUICK_SHARES = (0.0, 0.2, 0.6)  # as `SHARES`, for a quick search
QUICK_GUESS_ERROR = 0.02  # relative error of the estimate from which a quick search starts
END_PRECISION = 0.1  # relative precision of the largest δ, which only sets the range of the search
MAX_REFINEMENTS = 6  # maximum number of points added between the best point and its neighbours

JUMP, SCAN_STEP, MAX_SCANNED = 0.01, 0.02, 24
"""Relative excess of an estimated utility over the proved one that indicates a jump of the cost. Targets above the jump
are then proved one by one: the relative step of their ε, and their maximum number."""


TIE = 6e-5  # share of the utility below which two targets tie: the search does not resolve less


@dataclass(frozen=True)
class BestTarget:
    """The best target of one release, and its γ_opt.

    Attributes:
        target: (ε, δ) of one release.
        solution: γ_opt at that target.
        queries: Q.
        total: total privacy of Q releases: ε by the account, and the allowed δ.
        account: the account that proves it: "bits", "profile", "gaussian", "optimal", "simple" (sums for an equal
            share), or "models" if the models together are within the total.
        fresh: the assumption about the voters (`freshness.FRESH`).
    """

    target: Privacy
    solution: Solution
    queries: int
    total: Privacy
    account: str
    fresh: bool


def best_target(
    K: int,
    voter: Privacy,
    queries: int,
    total: Privacy,
    affected: int | None = None,
    objective: AnyObjective | str = "rectangular",
    *,
    fresh: bool = False,
    quick: bool = False,
    stop: Callable[[], bool] = never_stop,
) -> BestTarget:
    """Return the target of one release at which γ_opt is most useful while all releases fit a total budget.

    Args:
        K: as for `plan`, like `queries`, `total`, `affected` and `fresh`.
        voter: privacy of one voter, ε = ``inf`` if it has none.
        objective: what γ_opt maximises.
        quick: skip the accounts whose time grows with Q, and try fewer targets: seconds for any Q.
        stop: called between the steps of the search; if it returns True, the best target so far is returned.

    Returns:
        The target, its γ_opt, and the account that proves the total. At Q = 1 the target is the total. Voters trained
        once are taken as not private, unless the models together are within the total: then no noise is needed, and
        γ_opt at the total keeps the majority if one release may.
        For voters with several points of a profile it is the best monotone γ, whose proof is much faster.

    Guarantees:
        The releases are within ``total``, proved by that account. Of the targets proved to fit, none has a larger
        utility. Optimality among all targets is not proved: the best one is usually better by a little (about
        `PRECISION` of the budget), or by more if voters may leak (Δ > 0), where the cost jumps along the curve and only
        some targets beyond a jump are tried (`MAX_SCANNED`).

    Raises:
        InvalidInput: a value is out of range.

    >>> import math
    >>> best = best_target(5, Privacy(math.inf), 20, Privacy(2.0, 1e-3), affected=1)
    >>> best.total.epsilon <= 2.0, best.account, best.solution.utility > 0.2
    (True, 'bits', True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    check_total(total)
    voters = Problem(K, voter, total, affected)
    models = models_account(voters, queries, total.delta, fresh=fresh)
    if models.epsilon <= total.epsilon:
        solution, _ = solve_warm(voters, as_objective(objective), rows=None)
        return BestTarget(
            solution.problem.target, solution, queries, Privacy(models.epsilon, total.delta), "models", fresh
        )
    # From here on voters are those that compose; if they are not private, freshness makes no difference.
    voters = effective_voters(voters, queries, fresh=fresh)
    search = _TargetSearch(voters, queries, total, as_objective(objective), stop, quick=quick)
    solution = search.best()
    target, parts = solution.problem.target, Release.of(solution).guarantees(queries, fresh=fresh)
    found = total_of(parts, total.delta, effort=STATED, skip=SLOW if quick else ())
    cost, account = found.epsilon, found.account
    if cost > total.epsilon and queries * Fraction(target.delta) <= Fraction(total.delta):
        cost, account = multiple_up(queries, target.epsilon), "simple"
    return BestTarget(target, solution, queries, Privacy(cost, total.delta), account, fresh)


def equal_share(total: Privacy, queries: int) -> Privacy:
    """Return an equal share of a total (ε, δ) for each of ``queries`` releases, which fit by the sums of ε and δ."""
    # a target is rounded to a decimal grid: the rounded one must not exceed the share.
    share = (1 - 2 * 10.0 ** (1 - GRID_DIGITS)) / queries
    return Privacy(total.epsilon * share, max(0.0, total.delta * share - float(DELTA_GRID)))


def likely_pairs(noise: NoiseFunction, constraint: PrivacyConstraint, multisets: Counts) -> ReleaseGuarantee:
    """Return some pairs of neighbours of a γ, for estimates: not a proof.

    ``multisets``: those of a design's program, for example: they nearly always include the decisive ones, and take a
    tenth of the time of a proof.
    """
    pairs = np.stack(constraint.pair(noise.signed, multisets), axis=1)
    hull = upper_hull(np.clip(pairs, 0.0, 1.0))
    # Of two mirror images one is enough: the other is its complement with the neighbours swapped.
    region = inner_region(hull[hull.sum(axis=1) >= 1.0 - 1e-12])
    return ReleaseGuarantee(likely=lambda: region)


def check_total(total: Privacy) -> None:
    """Raise `InvalidInput` if a total is not a budget for releases."""
    if not isinstance(total, Privacy):
        raise InvalidInput("total", total, "a Privacy(epsilon, delta)")
    if not 0 < total.epsilon <= MAX_TARGET_EPSILON:
        raise InvalidInput("total_epsilon", total.epsilon, f"a number of nats above 0, at most {MAX_TARGET_EPSILON:g}")


class _CurvePoint(NamedTuple):
    """Estimated end of ε at one δ, and the utility of γ_opt there; 0 if it was not evaluated."""

    epsilon: float
    utility: float


class _TargetSearch:
    """A search along the curve of targets that fit, guided by estimates of their costs; the result is proved."""

    def __init__(
        self,
        problem: Problem,
        queries: int,
        total: Privacy,
        objective: AnyObjective,
        stop: Callable[[], bool],
        *,
        quick: bool,
    ) -> None:
        self._stop, self._quick = stop, quick
        self._problem, self._queries, self._total, self._objective = problem, queries, total, objective
        self._curve: dict[float, _CurvePoint] = {}  # known part of the curve, by δ
        self._rows: Counts | None = None
        # Quick estimates may be too low; if no voter leaks, the cost has no jumps that could explain it.
        self._steady = quick and not problem.voter.delta
        # Proofs of a free γ and accounts are slow there; estimates are accurate, and a monotone γ is as useful.
        self._several_points = len(problem.voter.points) > 1

    def best(self) -> Solution:
        """Return γ_opt of the best target."""
        solution, cost = self._proved_cost(self._total.epsilon, self._total.delta)
        if cost <= self._total.epsilon:
            return solution  # one release, or the plain majority
        guess = min(0.5, self._total.epsilon / (4 * self._queries) + self._total.delta / self._queries)
        calibration: Calibration[Solution] | None = calibrate(
            lambda delta: self._estimated_cost(0.0, delta),
            self._total.epsilon,
            1 - 1e-9,
            guess=guess,
            precision=END_PRECISION,
            stop=self._stop,
        )
        max_delta = 0.0 if calibration is None else calibration.value
        for share in QUICK_SHARES if self._quick else SHARES:
            if not self._stop():
                self._explore(share * max_delta)
        for _ in range(1 if self._quick else MAX_REFINEMENTS):
            if not self._stop():
                self._explore(self._next_delta())
        equal = equal_share(self._total, self._queries)
        best = self._solve(equal.epsilon, equal.delta)
        guess_error = QUICK_GUESS_ERROR if self._steady else ESTIMATE_PRECISION if self._several_points else None
        for delta in self._finalists():
            if not self._stop():
                calibration, _ = self._largest_epsilon(
                    delta, self._proved_cost, self._curve[delta].epsilon, PRECISION, best.utility, guess_error
                )
                if calibration is not None:
                    best = _better(best, calibration.result)
        return self._beyond_jumps(best)

    def _beyond_jumps(self, best: Solution) -> Solution:
        """Return the best of this target and some that a calibration cannot find."""
        # If voters may leak, γ_opt of one target may have a pair that the budget excludes while γ_opt of the next has
        # not: the proved cost jumps up and down along ε, and bisection ends below the first jump it meets. Estimates
        # miss such pairs.
        remaining = 0 if self._steady or self._several_points else MAX_SCANNED
        for delta in sorted(self._curve, key=lambda delta: -self._curve[delta].utility):
            epsilon, utility = self._curve[delta]
            while remaining and utility > (1 + JUMP) * best.utility and not self._stop():
                solution, cost = self._proved_cost(epsilon, delta)
                remaining -= 1
                utility, epsilon = solution.utility, (1 - SCAN_STEP) * epsilon
                if cost <= self._total.epsilon and utility > best.utility:
                    best = solution
        return best

    def _finalists(self) -> list[float]:
        """Return the δ of the best estimates, spaced out: neighbouring estimates miss the same pairs."""
        finalists: list[float] = []
        for delta in sorted(self._curve, key=lambda delta: -self._curve[delta].utility):
            if len(finalists) < (1 if self._several_points else MAX_FINALISTS) and all(
                abs(delta - other) > MIN_SPACING * other for other in finalists
            ):
                finalists.append(delta)
        # Quick estimates are most accurate at a small δ: a proof there ends the search at the others early.
        return sorted(finalists) if self._steady else finalists

    def _explore(self, delta: float) -> None:
        if delta not in self._curve:
            best = max((point.utility for point in self._curve.values()), default=0.0)
            calibration, too_large = self._largest_epsilon(
                delta, self._estimated_cost, self._guess(delta), ESTIMATE_PRECISION, best
            )
            if calibration is not None:
                self._curve[delta] = _CurvePoint(calibration.value, calibration.result.utility)
            elif too_large is not None and not self._stop():
                self._curve[delta] = _CurvePoint(too_large, 0.0)

    def _largest_epsilon(
        self,
        delta: float,
        account: Callable[[float, float], tuple[Solution, float]],
        guess: float,
        precision: float,
        best: float,
        guess_error: float | None = None,
    ) -> tuple[Calibration[Solution] | None, float | None]:
        """Return the largest ε at a δ, by an account, and an ε known to cost too much, if any."""
        too_large, max_utility = None, math.inf  # an ε that costs too much; smaller ones have at most this utility

        def make(epsilon: float) -> tuple[Solution, float]:
            nonlocal too_large, max_utility
            solution, cost = account(epsilon, delta)
            if cost > self._total.epsilon and solution.utility < max_utility:
                too_large, max_utility = epsilon, solution.utility
            return solution, cost

        most = self._total.epsilon
        calibration = calibrate(
            make,
            most,
            most,
            guess=guess,
            precision=precision,
            guess_error=guess_error,
            stop=lambda: self._stop() or max_utility <= best,
        )
        return calibration, too_large

    def _next_delta(self) -> float:
        """Return a δ between the best one and its farther neighbour, nearer to the best."""
        deltas = sorted(self._curve)
        if len(deltas) < 2:
            return 0.0
        best = max(range(len(deltas)), key=lambda i: self._curve[deltas[i]].utility)
        neighbour = max(
            (i for i in (best - 1, best + 1) if 0 <= i < len(deltas)), key=lambda i: abs(deltas[i] - deltas[best])
        )
        return deltas[best] + 0.4 * (deltas[neighbour] - deltas[best])

    def _guess(self, delta: float) -> float:
        """Return an estimate of the end of ε at a δ from the known part of the curve, which is nearly straight."""
        deltas = sorted(self._curve)
        if not deltas:
            return self._total.epsilon / self._queries
        epsilons = [self._curve[known_delta].epsilon for known_delta in deltas]
        estimate = float(np.interp(delta, deltas, epsilons))
        return max(estimate, 1e-3 * self._total.epsilon / self._queries)

    def _solve(self, epsilon: float, delta: float) -> Solution:
        problem = self._problem
        target = Problem(problem.K, problem.voter, Privacy(epsilon, delta), problem.affected)
        shape: Shape = "monotone" if self._several_points else "free"
        solution, self._rows = solve_warm(target, self._objective, shape, rows=self._rows)
        return solution

    def _proved_cost(self, epsilon: float, delta: float) -> tuple[Solution, float]:
        """Return γ_opt at a target, and the proved total ε of Q releases."""
        solution = self._solve(epsilon, delta)
        return solution, self._cost(solution)

    def _cost(self, solution: Solution) -> float:
        # The voters are already those that compose.
        parts = [(Release.of(solution).guarantee, self._queries)]
        return total_of(parts, self._total.delta, effort=PLANNED, skip=SLOW if self._quick else ()).epsilon

    def _estimated_cost(self, epsilon: float, delta: float) -> tuple[Solution, float]:
        """Return γ_opt at a target, and an estimate of the total ε of Q releases."""
        solution = self._solve(epsilon, delta)
        if self._quick:
            near = estimated_epsilon([(Release.of(solution).guarantee, self._queries)], self._total.delta)
            return solution, self._cost(solution) if near is None else near
        assert self._rows is not None  # noqa: S101 - for the type checker: a solve has just set them
        constraint = PrivacyConstraint.of(solution.problem)
        likely = likely_pairs(solution.noise, constraint, self._rows)
        cost = estimated_epsilon([(likely, self._queries)], self._total.delta)
        return solution, self._cost(solution) if cost is None else cost


def _better(one: Solution, other: Solution) -> Solution:
    """Return the more useful of two; on a tie, the one with the smaller δ: many targets may have the same γ."""
    if abs(one.utility - other.utility) <= TIE * max(one.utility, other.utility):
        return min(one, other, key=lambda solution: solution.problem.target.delta)
    return max(one, other, key=lambda solution: solution.utility)
