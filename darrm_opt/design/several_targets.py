"""Several targets: γ that satisfies several (ε_j, δ_j) at once, such as the privacy profile of a Gaussian mechanism.

    maximise w·γ   over γ(⌊K/2⌋+1..K) in [0, 1]   subject to  φ_j ≤ limit_j for each target j and every corner multiset.

The targets share one program; each has its own worst-case search. A multiset that violates a target is a row of that
target. γ is scaled until the search of every target proves it, and the bound is weak duality over the rows of all
targets, each in its loosest reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from darrm_opt.design.certificate import certify, repair_for_all
from darrm_opt.design.constraint import Counts, PrivacyConstraint
from darrm_opt.design.cutting_planes import CUT_TOLERANCE, MAX_ROUNDS, no_release
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.master_program import MasterProgram
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.schedule import SolveClock, binding_family
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.separation.result import Settle, TimeLimitReached, search_error
from darrm_opt.design.solution import Progress, Solution, Statistics, Status, Watcher
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Problem

MAX_CUTS = 60  # maximum number of rows that one target adds in a round


def cut(
    program: MasterProgram,
    weights: Array,
    above: Sequence[float],
    on_round: Callable[[NoiseFunction, float, Sequence[Counts]], bool],
    clock: SolveClock,
    *,
    most: int = MAX_CUTS,
    rounds: int = MAX_ROUNDS,
    settle: Settle = "always",
) -> tuple[Status, NoiseFunction, float]:
    """Solve, search every constraint, and add its rows ``above`` a φ, until none is new; nothing is proved here.

    Returns the status, the last answer, and the share by which it is scaled to be within all limits found. ``on_round``
    gets answer, share and new multisets of each round, and returns whether to stop.
    """
    answer, share = no_release(program.constraints[0].K), 1.0
    for _ in range(rounds):
        clock.check()
        status, solved = program.maximise(weights, clock.remaining)
        if status is not Status.OPTIMAL:
            return status, answer, share
        answer, share, new = solved, 1.0, []
        for number, (constraint, least) in enumerate(zip(program.constraints, above, strict=True)):
            worst = worst_case(answer, constraint, above=least, most=most, settle=settle, deadline=clock.deadline)
            if worst.value > constraint.limit:
                # φ is linear in γ: this share keeps the worst multiset within its limit (docs/proofs.md, "Scaling").
                share = min(share, max(0.0, constraint.limit / worst.value))
            rows = program.new_multisets(worst.cuts, number)
            if len(rows):
                program.add(rows, number)
                new.append(rows)
        stops = on_round(answer, share, new)
        if not new:
            return Status.OPTIMAL, answer, share
        if stops:
            break
    return Status.ITERATION_LIMIT, answer, share


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
        self._rounds, self._best = 0, no_release(problem.K)

    def solve(self) -> Solution:
        """Solve, search every target, add violated rows, until none is left; then scale, prove and bound."""
        family = binding_family(self._constraints[0])
        for place in range(len(self._constraints)):
            self._program.add(family, place)
        above = [one.limit + min(CUT_TOLERANCE, 2 * search_error(one, 1.0)) for one in self._constraints]
        try:
            status, optimum, _ = cut(self._program, self._goal.weights, above, self._keep, self._clock)
        except TimeLimitReached:
            status, optimum = Status.TIME_LIMIT, self._best
        self._clock.begin_proof()
        best = optimum if status is Status.OPTIMAL else self._best
        try:
            if status is not Status.OPTIMAL and not best.values.any():
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

    def _keep(self, answer: NoiseFunction, share: float, _: Sequence[Counts]) -> bool:
        """Keep the part of an answer that is within all limits if it is the best so far, and report it."""
        self._rounds += 1
        self._best = max(self._best, NoiseFunction(answer.values * share), key=self._goal.value)
        if self._watcher is not None:
            utility, violation = self._goal.utility(self._best), 1 / max(share, 1e-300) - 1
            rows = self._program.rows
            self._watcher(Progress(self._rounds, rows, utility, 1.0, violation, self._clock.elapsed, self._best))
        return False

    def _upper_bound(self) -> float:
        """Return the bound by the last multipliers, with every row and limit in its target's loosest reading."""
        # The loop maximises the canonical goal; the multipliers for the utility itself prove a closer bound.
        goal, program, left = self._goal.goal, self._program, self._clock.remaining
        if left is None or left > 0:
            program.maximise(goal.weights, None if left is None else min(left, 1.0))
        loosest = [PrivacyConstraint.loosest(problem) for problem in self._problem.each_target]
        return min(1.0, program.bound_for(loosest, goal.weights, program.multipliers) + goal.offset)
