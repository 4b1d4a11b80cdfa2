"""Several targets: γ that satisfies several (ε_j, δ_j) at once, such as the privacy profile of a Gaussian mechanism.

    maximise w·γ   over γ(⌊K/2⌋+1..K) in [0, 1]   subject to  φ_j ≤ limit_j for each target j and every corner multiset.

The targets share one program; each has its own worst-case search. A multiset that violates a target is a row of that
target. γ is scaled until the search of every target proves it, and the bound is weak duality over the rows of all
targets, each in its loosest reading.
"""

from __future__ import annotations

from darrm_opt.design.certificate import certify, repair_for_all
from darrm_opt.design.constraint import Counts, PrivacyConstraint
from darrm_opt.design.cutting_planes import CUT_TOLERANCE, MAX_ROUNDS, no_release
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.master_program import MasterProgram
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.schedule import SolveClock, binding_family
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.separation.result import TimeLimitReached, search_error
from darrm_opt.design.solution import Progress, Solution, Statistics, Status, Watcher
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

MAX_CUTS = 60


class TargetsSolver:
    """One solve for all targets of a problem."""

    def __init__(
        self,
        problem: Problem,
        objective: AnyObjective,
        shape: str,
        backend: str,
        clock: SolveClock,
        watcher: Watcher | None = None,
    ) -> None:
        self._problem, self._objective, self._shape, self._backend = problem, objective, shape, backend
        self._clock, self._watcher = clock, watcher
        self._constraints = [PrivacyConstraint.of(one) for one in problem.each_target]
        self._goal = CanonicalGoal(objective.linear_goal(problem.K), self._constraints[0].entries)
        if self._goal.goal.rows.size:
            accepted = "an objective whose utility is linear in γ, for several targets"
            raise InvalidInput("objective", str(objective), accepted)
        first, *further = self._constraints
        self._program = MasterProgram(first, self._goal.goal, shape, backend, further=further)
        self._rounds = 0

    def solve(self) -> Solution:
        """Solve, search every target, add violated rows, until none is left; then scale, prove and bound."""
        family = binding_family(self._constraints[0])
        for place in range(len(self._constraints)):
            self._add(place, family)
        status, noise = Status.ITERATION_LIMIT, no_release(self._problem.K)
        best = noise
        try:
            for _ in range(MAX_ROUNDS):
                self._clock.check()
                status, noise = self._program.maximise(self._goal.weights, self._clock.remaining)
                if status is not Status.OPTIMAL:
                    break
                self._rounds += 1
                scale, is_violated = 1.0, False
                for place, constraint in enumerate(self._constraints):
                    above = constraint.limit + min(CUT_TOLERANCE, 2 * search_error(constraint, 1.0))
                    worst = worst_case(noise, constraint, above=above, most=MAX_CUTS, deadline=self._clock.deadline)
                    is_violated |= self._add(place, worst.cuts)
                    scale = min(scale, constraint.limit / max(worst.value, constraint.limit, 1e-300))
                scaled = NoiseFunction(noise.values * scale)
                best = max(best, scaled, key=self._goal.value)
                self._report(best, scale)
                if not is_violated:
                    break
                status = Status.ITERATION_LIMIT
        except TimeLimitReached:
            status = Status.TIME_LIMIT
        self._clock.begin_proof()
        try:
            if status is Status.OPTIMAL:
                best = noise
            elif not best.values.any():
                best = self._closed_form()
            certified, certificate = repair_for_all(best, self._constraints, self._clock.proof_deadline)
        except TimeLimitReached:
            status, (certified, certificate) = Status.TIME_LIMIT, certify(self._problem, no_release(self._problem.K))
        utility, upper_bound = self._goal.utility(certified), self._upper_bound()
        self._program.close()
        seconds = {"total": self._clock.elapsed}
        return Solution(
            problem=self._problem,
            objective=self._objective,
            shape=self._shape,
            noise=certified,
            utility=utility,
            upper_bound=max(upper_bound, utility),
            status=status,
            certificate=certificate,
            method="cuts",
            backend=self._backend,
            statistics=Statistics(self._program.rows, self._rounds, self._program.iterations, seconds),
        )

    def _closed_form(self) -> NoiseFunction:
        """Return the closed form of the strictest target, if no round was completed."""
        from darrm_opt.design.closed_forms import best_closed_form

        utility, deadline = self._goal.goal.utility, self._clock.proof_deadline
        each = zip(self._problem.each_target, self._constraints, strict=True)
        return min((best_closed_form(*one, utility, deadline)[0] for one in each), key=self._goal.utility)

    def _report(self, best: NoiseFunction, scale: float) -> None:
        if self._watcher is not None:
            utility, violation = self._goal.utility(best), 1 / max(scale, 1e-300) - 1
            rows = self._program.rows
            self._watcher(Progress(self._rounds, rows, utility, 1.0, violation, self._clock.elapsed, best))

    def _add(self, place: int, multisets: Counts) -> bool:
        """Add the new rows of a target; return whether there are any."""
        new = self._program.new_multisets(multisets, place)
        if len(new):
            self._program.add(new, place)
        return len(new) > 0

    def _upper_bound(self) -> float:
        """Return the bound by the last multipliers, with every row and limit in its target's loosest reading."""
        # The loop maximises the canonical goal; the multipliers for the utility itself prove a closer bound.
        goal, program, left = self._goal.goal, self._program, self._clock.remaining
        if left is None or left > 0:
            program.maximise(goal.weights, None if left is None else min(left, 1.0))
        loosest = [PrivacyConstraint.loosest(problem) for problem in self._problem.each_target]
        return min(1.0, program.bound_for(loosest, goal.weights, program.multipliers) + goal.offset)
