"""Several targets: γ that satisfies several (ε_j, δ_j) at once, such as the privacy profile of a Gaussian mechanism.

    maximise w·γ   over γ(⌊K/2⌋+1..K) in [0, 1]   subject to  φ_j ≤ limit_j for each target j and every corner multiset.

The targets share one program; each has its own worst-case search. A multiset that breaks one target is a row of that
target. γ is scaled until the search of every target proves it, and the bound is weak duality over the rows of all
targets, in the loosest reading of each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from darrm_opt.design.certificate import Certificate, certificate_of
from darrm_opt.design.constraint import Counts, PrivacyConstraint, cached_rows
from darrm_opt.design.cutting_planes import CUT_TOLERANCE, MAX_ROUNDS
from darrm_opt.design.master_program import MasterProgram, dual_bound, in_increments
from darrm_opt.design.objective import AnyObjective, CanonicalGoal, as_objective
from darrm_opt.design.schedule import binding_family
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.separation.result import TimeLimitReached, WorstCase, search_error
from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem, real_number

MAX_TARGETS = 16
"""Most targets at once."""

MAX_CUTS = 60
"""Most rows that one target adds in a round."""


@dataclass(frozen=True)
class TargetsSolution:
    """A γ that is certified for several targets.

    Attributes:
        problems: the problem of each target: the same voters.
        noise: γ.
        utility: share of the noiseless utility kept.
        upper_bound: proven bound on the utility of any γ of that shape that satisfies all targets.
        status: how the solve ended.
        certificates: why γ is private for each target.
    """

    problems: tuple[Problem, ...]
    noise: NoiseFunction
    utility: float
    upper_bound: float
    status: Status
    certificates: tuple[Certificate, ...]

    @property
    def gamma(self) -> Array:
        """γ(0..K): read-only float64 array of shape (K+1,) [probability]."""
        return self.noise.values

    @property
    def gap(self) -> float:
        """How much utility the best γ could have beyond this one, at most; ≥ 0."""
        return max(0.0, self.upper_bound - self.utility)


def solve_for_targets(
    K: int,
    voter: Privacy,
    targets: Iterable[Privacy],
    affected: int | None = None,
    objective: AnyObjective | str = "rectangular",
    shape: str = "free",
    *,
    time_limit: float | None = None,
) -> TargetsSolution:
    """Design the γ with the largest utility among those that satisfy every target.

    Args:
        K: number of voters, ≥ 1.
        voter: privacy of one voter, or its profile.
        targets: (ε_j, δ_j) of the release, 1 to `MAX_TARGETS` of them.
        affected: voters that one record can influence, 1..K; default K.
        objective: as in `solve`; its utility must be linear in γ.
        shape: "free" or "monotone".
        time_limit: seconds after which the best γ so far is scaled until it is proved.

    Guarantees:
        γ is private for each target exactly as stored (``certificates``); ``upper_bound`` is never below the optimum.

    Raises:
        InvalidInput: an argument is outside what is accepted.

    >>> targets = [Privacy(0.0, 0.05), Privacy(0.3)]
    >>> both = solve_for_targets(5, Privacy(0.2), targets)
    >>> [one.target for one in both.problems] == targets and both.gap < 1e-6
    True
    """
    problems = tuple(Problem(K, voter, target, affected) for target in targets)
    if not 1 <= len(problems) <= MAX_TARGETS:
        raise InvalidInput("targets", len(problems), f"1 to {MAX_TARGETS} targets")
    if shape not in ("free", "monotone"):
        raise InvalidInput("shape", shape, "'free' or 'monotone'")
    limit = math.inf if time_limit is None else real_number(time_limit, "time_limit", "seconds above 0", above=0)
    return _TargetsSolver(problems, as_objective(objective), shape, time.perf_counter() + limit).solve()


class _TargetsSolver:
    """One solve: the program, its rows by target, and the searches."""

    def __init__(self, problems: tuple[Problem, ...], objective: AnyObjective, shape: str, deadline: float) -> None:
        self._problems, self._shape, self._deadline = problems, shape, deadline
        self._constraints = [PrivacyConstraint.of(problem) for problem in problems]
        self._goal = CanonicalGoal(objective.linear_goal(problems[0].K), self._constraints[0].entries)
        if self._goal.goal.rows.size:
            raise InvalidInput("objective", str(objective), "an objective whose utility is linear in γ")
        self._program = MasterProgram(self._constraints[0], self._goal.goal, shape, "highs")
        self._own_rows = self._program.rows  # those that stand for no multiset
        self._multisets: list[tuple[int, Counts]] = []
        self._seen: set[tuple[int, bytes]] = set()

    def solve(self) -> TargetsSolution:
        """Solve, search every target, add what is violated, until nothing is; then scale, prove and bound."""
        family = binding_family(self._constraints[0])
        for place in range(len(self._constraints)):
            self._add(place, family)
        status, noise = Status.ITERATION_LIMIT, NoiseFunction(np.zeros(self._constraints[0].K + 1))
        best = noise
        try:
            for _ in range(MAX_ROUNDS):
                status, noise = self._program.maximise(self._goal.weights, self._remaining)
                if status is not Status.OPTIMAL:
                    break
                scale, is_violated = 1.0, False
                for place, constraint in enumerate(self._constraints):
                    above = constraint.limit + min(CUT_TOLERANCE, 2 * search_error(constraint, 1.0))
                    worst = self._search(noise, constraint, above, MAX_CUTS)
                    is_violated |= self._add(place, worst.cuts)
                    scale = min(scale, constraint.limit / max(worst.value, constraint.limit, 1e-300))
                scaled = NoiseFunction(noise.values * scale)
                best = max(best, scaled, key=self._goal.value)
                if not is_violated:
                    break
        except TimeLimitReached:
            status = Status.TIME_LIMIT
        certified, certificates = self._certified(best if status is not Status.OPTIMAL else noise)
        return TargetsSolution(
            problems=self._problems,
            noise=certified,
            utility=self._goal.utility(certified),
            upper_bound=self._upper_bound(),
            status=status,
            certificates=certificates,
        )

    @property
    def _remaining(self) -> float | None:
        seconds = self._deadline - time.perf_counter()
        if seconds <= 0:
            raise TimeLimitReached
        return None if seconds == math.inf else seconds

    def _search(self, noise: NoiseFunction, constraint: PrivacyConstraint, above: float, most: int) -> WorstCase:
        """Return the worst case; where the cuts that a search found first are rows already, of the whole set."""
        return worst_case(noise, constraint, above=above, most=most, deadline=self._deadline)

    def _add(self, place: int, multisets: Counts) -> bool:
        """Add the rows of a target that are new; return whether there are any."""
        keys = [(place, np.ascontiguousarray(counts).tobytes()) for counts in multisets]
        new = multisets[[key not in self._seen for key in keys]] if keys else multisets
        if not len(new):
            return False
        self._seen.update(keys)
        self._program.add_rows(self._constraints[place], new)
        self._multisets.append((place, new))
        return True

    def _certified(self, noise: NoiseFunction) -> tuple[NoiseFunction, tuple[Certificate, ...]]:
        """Return γ, scaled until every target's search proves it, and the certificates."""
        step, scaled = 2.0**-44, noise
        while step < 1:
            worst = [worst_case(scaled, constraint) for constraint in self._constraints]
            pairs = [*zip(worst, self._constraints, strict=True)]
            if all(one.bound <= constraint.limit for one, constraint in pairs):
                return scaled, tuple(certificate_of(one, constraint) for one, constraint in pairs)
            room = min(
                (constraint.limit - 3 * search_error(constraint, 1.0)) / one.bound
                for one, constraint in pairs
                if one.bound > constraint.limit
            )
            scaled, step = NoiseFunction(scaled.values * (max(0.0, room) * (1 - step))), 8 * step
        zero = NoiseFunction(noise.values * 0.0)
        return zero, tuple(certificate_of(worst_case(zero, one), one) for one in self._constraints)

    def _upper_bound(self) -> float:
        """Return the bound by the last multipliers, with every row and limit in its target's loosest reading."""
        # The loop maximises the canonical goal; the multipliers for the utility itself prove the closer bound.
        if time.perf_counter() < self._deadline:
            self._program.maximise(self._goal.goal.weights, None if self._deadline == math.inf else 1.0)
        loosest = [PrivacyConstraint.loosest(problem) for problem in self._problems]
        rows = [cached_rows(loosest[place], multisets) for place, multisets in self._multisets]
        limits = [np.full(len(multisets), loosest[place].limit) for place, multisets in self._multisets]
        weights, multipliers = self._goal.goal.weights, self._program.multipliers
        matrix, bounds = np.concatenate(rows), np.concatenate(limits)
        if self._shape == "monotone":
            weights, matrix = in_increments(weights), in_increments(matrix)
            matrix = np.concatenate([np.ones((1, matrix.shape[1])), matrix])
            bounds = np.concatenate([np.ones(1), bounds])
        if multipliers.size != len(bounds):  # rows that the last solve had not
            multipliers = np.concatenate([multipliers, np.zeros(max(0, len(bounds) - multipliers.size))])
        found = dual_bound(weights, matrix, bounds, multipliers, self._problems[0].K)
        return min(1.0, found + self._goal.goal.offset)
