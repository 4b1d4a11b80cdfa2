"""Solver: from a problem to a certified γ_opt, by cutting planes or by enumeration.

The program starts with rows that almost always bind, the stages of the schedule add cuts (`cutting_planes`), the best γ
is proved (`certificate`), and a bound on every other γ is computed.

*Time.* A solve with a time limit always has a fallback: the best certified γ among the closed forms and the best
monotone γ. Every search stops at the deadline; only one proof may follow, within `SolveClock.grace`.

*Bound.* The returned bound is for the stated problem in its loosest reading, by the same multipliers
(`MasterProgram.bound_for`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from darrm_opt.arguments import real_number
from darrm_opt.design.backends import BACKENDS, MIN_TOLERANCE
from darrm_opt.design.certificate import Certificate, repair
from darrm_opt.design.constraint import ConstraintGenerator, Counts, PrivacyConstraint
from darrm_opt.design.cutting_planes import INTERIOR_SHARE, CuttingPlanes, Incumbent
from darrm_opt.design.goal import CanonicalGoal
from darrm_opt.design.master_program import MasterProgram
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.schedule import LARGE_K, SolveClock, binding_family, is_expensive, is_quick, schedule
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.separation.result import TimeLimitReached
from darrm_opt.design.solution import Progress, Solution, Statistics, Status, Watcher
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem, check_binary

MAX_ENUMERATED_ROWS = 2_000_000
"""Largest constraint set that ``method="enumerate"`` accepts: about 2 GB of rows at K = 21."""

Shape = Literal["free", "monotone"]
Method = Literal["auto", "enumerate", "cuts"]

SHAPES: dict[Shape, str] = {
    "free": "Any γ: the largest utility.",
    "monotone": "γ does not decrease with the majority: slightly less utility, and easier to explain.",
}
METHODS: dict[Method, str] = {
    "auto": "The program chooses; at present always cuts.",
    "enumerate": f"The whole reduced constraint set as rows: for small K, at most {MAX_ENUMERATED_ROWS:,} rows.",
    "cuts": "Rows are added where the answer violates the constraint, until none is left.",
}

TOLERANCE = 1e-6
"""Default gap at which a large problem counts as solved; small ones are solved until no cut is left (about 1e-12)."""

START_TOLERANCE = 1e-5  # gap at which the monotone γ is good enough to start from

OPTIMAL_GAP = 1e-6
"""Largest gap that is called optimal for any tolerance: small problems are solved until no cut is left."""

GOOD_BOUND = 1e-10  # gap at which no lower bound is sought; a solve that ends without cuts reaches about 1e-11

FEASIBILITY_SHARE, MAX_FEASIBILITY = 1e-3, 1e-8
"""The program's feasibility tolerance as a share of the solve's tolerance, and its maximum, for K ≥ `LARGE_K`."""

MIN_INTERIOR_K = 1200
"""From this K on, programs of free γ use an interior-point method (`backends.interior`) instead of HiGHS; with fewer
voters the simplex method is as fast."""

ROWS_BETWEEN_CHECKS = 128


def solve(
    problem: Problem,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    method: Method = "auto",
    backend: str = "highs",
    *,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
    progress: Watcher | None = None,
) -> Solution:
    """Design the noise function with the largest utility among all private ones.

    Args:
        problem: K voters, their privacy, the privacy of the release.
        objective: the utility to maximise; an `Objective` or its text, such as ``"shared(2,5) agreement"``.
        shape: "free", or "monotone" (γ non-decreasing in |l − K/2|, at a small loss of utility).
        method: "cuts", "enumerate" (the whole reduced constraint set as rows) or "auto".
        backend: name of the LP solver, one of `BACKENDS`.
        tolerance: gap at which to stop if solving further is expensive (`schedule.is_expensive`), in (0, 1).
        time_limit: seconds after which the best certified γ so far is returned; None: no limit.
        progress: called after every round; raising `TimeLimitReached` ends the solve like a time limit.

    Returns:
        A `Solution`, whose ``status`` is "optimal" unless something stopped it (`Status.advice`).

    Guarantees:
        ``gamma`` is private exactly as stored (``certificate``), ``upper_bound`` is never below the true
        optimum.

    Raises:
        InvalidInput: an argument is outside what is accepted.
        BackendUnavailable: the solver is not installed or its licence is too small.

    Source: Section 4 of the paper (the LP and its reduction); cuts, bound and certificate are ours.
    """
    asked = check_binary(problem)
    # Before any work: a solve may take minutes.
    check_choices(asked, shape, method, backend, tolerance, time_limit)
    if len(asked.target.points) > 1:
        from darrm_opt.design.several_targets import TargetsSolver

        if method == "enumerate":
            raise InvalidInput("method", method, "'auto' or 'cuts', for several targets")
        clock = SolveClock(time_limit)
        for one in asked.each_target:
            check_time_limit(one, clock)
        return TargetsSolver(asked, as_objective(objective), shape, backend, clock, progress).solve()
    return Solver(asked, as_objective(objective), shape, backend, tolerance, time_limit, progress).solve(method)


def solve_warm(
    problem: Problem,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    rows: Counts | None = None,
    backend: str = "highs",
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> tuple[Solution, Counts]:
    """Solve by cuts, starting from the row multisets of a similar problem; return the solution and its multisets."""
    # The problems may differ in target and in the voters' ε: a multiset stands for a constraint of each of them.
    check_choices(problem, shape, "cuts", backend, tolerance, time_limit)
    solver = Solver(problem, as_objective(objective), shape, backend, tolerance, time_limit)
    return solver.solve(rows=rows), solver.program.multisets


def check_choices(
    problem: Problem,
    shape: str,
    method: str,
    backend: str,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> None:
    """Reject choices that `solve` does not accept, before any work."""
    check_choice("shape", shape, SHAPES)
    check_choice("method", method, METHODS)
    check_backend(backend, time_limit)
    real_number(tolerance, "tolerance", "a gap in (0, 1)", above=0, below=1)
    # The count has a closed form, so nothing is listed.
    if method == "enumerate" and ConstraintGenerator(problem).size > MAX_ENUMERATED_ROWS:
        advice = f"This one has {ConstraintGenerator(problem).size:,}; method = 'cuts' gives the same answer."
        raise InvalidInput("method", method, f"a constraint set of at most {MAX_ENUMERATED_ROWS:,} vectors", advice)


def check_choice(argument: str, value: str, choices: Collection[str]) -> None:
    """Reject a value that is not one of several texts."""
    if value not in tuple(choices):  # a tuple, as the value may be unhashable
        *others, last = (f"'{choice}'" for choice in choices)
        raise InvalidInput(argument, value, f"{', '.join(others)} or {last}")


def check_backend(backend: str, time_limit: float | None) -> None:
    """Reject a backend or a time limit that `solve` accepts for no problem."""
    if backend not in tuple(BACKENDS):
        raise InvalidInput("backend", backend, "one of " + ", ".join(BACKENDS))
    if time_limit is not None:
        real_number(time_limit, "time_limit", "seconds above 0", above=0)


class Solver:
    """One solve: its program, its cutting-plane loop, its fallback γ, and its clock."""

    def __init__(
        self,
        problem: Problem,
        objective: AnyObjective,
        shape: str,
        backend: str,
        tolerance: float,
        time_limit: float | None = None,
        watcher: Watcher | None = None,
        parent: Solver | None = None,
    ) -> None:
        self._problem, self._objective, self._shape, self._backend = problem, objective, shape, backend
        self._tolerance, self._watcher = tolerance, watcher
        self.clock: SolveClock = SolveClock(time_limit, None if parent is None else parent.clock)
        if parent is None:
            self.constraint = PrivacyConstraint.of(problem)
            check_time_limit(problem, self.clock)
            self.goal = CanonicalGoal(objective.linear_goal(problem.K), self.constraint.entries)
            self.fallback: tuple[NoiseFunction, Certificate] | None = None
        else:
            self.constraint, self.goal, self.fallback = parent.constraint, parent.goal, parent.fallback
        self._stages = schedule(problem, shape, tolerance)
        self._expensive = shape == "free" and is_expensive(problem)  # then the best monotone γ comes first
        self._has_tried_monotone = shape == "monotone"
        by_knots = problem.K >= LARGE_K
        interior = shape == "free" and problem.K >= MIN_INTERIOR_K and backend == "highs"
        interior = interior and self.constraint.limit > 0  # with a limit of 0 nothing is strictly inside
        # rows of many voters are nearly parallel: a feasibility much finer than the gap is unreachable or slow
        feasibility = min(max(FEASIBILITY_SHARE * tolerance, MIN_TOLERANCE), MAX_FEASIBILITY)
        self.program = MasterProgram(
            self.constraint,
            self.goal.goal,
            shape,
            backend,
            by_knots=by_knots,
            interior=interior,
            tolerance=feasibility if by_knots else MIN_TOLERANCE,
        )
        on_round = None if watcher is None else lambda: watcher(self._progress())
        self.loop = CuttingPlanes(self.constraint, self.goal, self.program, self.clock, on_round)

    def solve(self, method: Method = "auto", rows: Counts | None = None) -> Solution:
        """Run the stages as far as time and LP solver allow, prove the best γ, and bound every other."""
        try:
            status = self._add_all_rows() if method == "enumerate" else self._start()
            if rows is not None and status is Status.OPTIMAL:
                self.program.add(self.program.new_multisets(rows))
        except TimeLimitReached:
            status = Status.TIME_LIMIT
        for stage in self._stages:
            if status is not Status.OPTIMAL:
                break
            status = self.loop.run(stage)
        # From here on only the grace counts: whatever the search found by its deadline is proved and bounded.
        self.clock.begin_proof()
        with self.clock.measure("certify"):
            noise, certificate, status = self._best(status)
        with self.clock.measure("program"):
            utility = self.goal.utility(noise)
            upper_bound = self._upper_bound(status, utility)
            self.program.close()
        # No cut is left, but the bound stays above: rounding hides the rest, and more rounds would not help.
        if status is Status.OPTIMAL and upper_bound - utility > max(self._tolerance, OPTIMAL_GAP):
            status = Status.ROUNDING_LIMIT
        self.clock.seconds["total"] = self.clock.elapsed
        return Solution(
            problem=self._problem,
            objective=self._objective,
            shape=self._shape,
            noise=noise,
            utility=utility,
            upper_bound=upper_bound,
            status=status,
            certificate=certificate,
            method="enumerate" if method == "enumerate" else "cuts",
            backend=self._backend,
            statistics=Statistics(self.program.rows, self.loop.rounds, self.program.iterations, self.clock.seconds),
        )

    # ------------------------------------------------------------------------------------------------------ start

    def _add_all_rows(self) -> Status:
        """Start with the whole constraint set."""
        for multisets in ConstraintGenerator(self._problem).blocks():
            self.clock.check()
            self.program.add(multisets)
        return Status.OPTIMAL

    def _start(self) -> Status:
        """Start with multisets that almost always bind, or, if searches are expensive, with the best monotone γ."""
        if self.clock.limit is not None and not is_quick(self._problem):
            self._secure_fallback(monotone=not self._expensive)
        if self._expensive:
            return self._start_from_monotone()
        family = binding_family(self.constraint)
        for start in range(0, len(family), ROWS_BETWEEN_CHECKS):
            self.clock.check()
            self.program.add(family[start : start + ROWS_BETWEEN_CHECKS])
        return Status.OPTIMAL

    def _start_from_monotone(self) -> Status:
        """Make the best monotone γ the incumbent and the fallback, and start with its rows."""
        monotone_solver, solution = self._solve_monotone(self.clock.remaining, self._watcher)
        self.fallback = (solution.noise, solution.certificate)
        found = monotone_solver.program
        self.program.add(found.near_multisets if self.program.is_interior else found.multisets)
        # the effort of the inner solve is part of this one
        self.loop.rounds, self.program.iterations = monotone_solver.loop.rounds, monotone_solver.program.iterations
        self.clock.seconds = monotone_solver.clock.seconds
        if solution.status is Status.TIME_LIMIT:
            return Status.TIME_LIMIT
        worst = worst_case(solution.noise, self.constraint, deadline=self.clock.deadline)
        self.loop.incumbent = Incumbent(solution.noise, worst, self.constraint.limit, complete=True)
        # if no stage improves on it, this solve has its status
        return solution.status if all(stage.bounding for stage in self._stages) else Status.OPTIMAL

    # --------------------------------------------------------------------------------------------------- fallback

    def _secure_fallback(self, *, monotone: bool = True) -> None:
        """Find a certified fallback: the best closed form, or, if ``monotone``, a better monotone γ."""
        from darrm_opt.design.closed_forms import best_closed_form

        if self.fallback is None:
            deadline = min(self.clock.proof_deadline, self.clock.deadline + self.clock.grace)
            self.fallback = best_closed_form(self._problem, self.constraint, self.goal.goal.utility, deadline)
        if not monotone or self._has_tried_monotone:
            return
        seconds = self.clock.remaining_for_fallback
        if seconds is None or seconds > 0:
            _, solution = self._solve_monotone(seconds, None)
            if solution.utility > self.goal.utility(self.fallback[0]):
                self.fallback = (solution.noise, solution.certificate)

    def _solve_monotone(self, seconds: float | None, watcher: Watcher | None) -> tuple[Solver, Solution]:
        """Search for the best monotone γ."""
        self._has_tried_monotone = True
        # before free cuts, the monotone γ is only a start and need not be the best to the last digit
        is_final = not self._expensive or all(stage.bounding for stage in self._stages)
        tolerance = self._tolerance if is_final else max(self._tolerance, START_TOLERANCE)
        # a free γ may exceed the bound of monotone ones.
        told = None if watcher is None else lambda progress: watcher(replace(progress, upper_bound=1.0))
        asked = (self._problem, self._objective, "monotone", self._backend, tolerance)
        monotone_solver = Solver(*asked, seconds, told, parent=self)
        solution = monotone_solver.solve()
        if solution.status is Status.TIME_LIMIT:
            self.clock.proof_deadline = monotone_solver.clock.proof_deadline  # the last proof has begun
        return monotone_solver, solution

    # ------------------------------------------------------------------------------------------------------ proof

    def _best(self, status: Status) -> tuple[NoiseFunction, Certificate, Status]:
        """Return the better of the incumbent, scaled until its privacy is proved, and the fallback; and the status."""
        # If the end was reached without a monotone γ first, the fallback is ignored: with and without a limit a solve
        # gives the same γ.
        if status is Status.OPTIMAL and not self._expensive:
            try:
                return *self._prove_incumbent(), status
            except TimeLimitReached:
                status = Status.TIME_LIMIT
        if status is not Status.OPTIMAL and self.clock.limit is not None:
            self._secure_fallback()
        if self.fallback is None:
            return *self._prove_incumbent(), status
        fallback_utility = self.goal.utility(self.fallback[0])
        if self.loop.incumbent is None or self.goal.utility(self.loop.noise) <= fallback_utility:
            return *self.fallback, status
        try:
            proof = self._prove_incumbent()
        except TimeLimitReached:
            return *self.fallback, Status.TIME_LIMIT
        return *(proof if self.goal.utility(proof[0]) >= fallback_utility else self.fallback), status

    def _prove_incumbent(self) -> tuple[NoiseFunction, Certificate]:
        """Return the incumbent, scaled until its privacy is proved, and its certificate."""
        incumbent, deadline = self.loop.incumbent, self.clock.proof_deadline
        if incumbent is None or not incumbent.complete:
            noise = self.loop.noise
            worst = worst_case(noise, self.constraint, deadline=deadline)
            incumbent = self.loop.incumbent = Incumbent(noise, worst, self.constraint.limit, complete=True)
        worst = self.program.worst_row(incumbent.searched, incumbent.worst)
        return repair(incumbent.searched, worst, self.constraint, deadline, search_again=False)

    def _upper_bound(self, status: Status, utility: float) -> float:
        """Return a proven upper bound on the utility of every γ that is private in the problem's loosest reading."""
        # If the loop came to its end, the multipliers are those for the utility itself: from the rows that bind for the
        # canonical goal or, if that is not good enough, from one more, warm, solve. Else, or if these are poor, the
        # loop's own multipliers are used, if their bound is lower.
        loosest, exact = PrivacyConstraint.loosest(self._problem), self._problem.K < LARGE_K
        goal, program, bound = self.goal.goal, self.program, 1.0
        if status in {Status.OPTIMAL, Status.SEARCH_LIMIT}:
            # Usually the same rows and variables bind for the utility as for the canonical goal, so a system of
            # equations gives its multipliers without another solve. Any multipliers prove a bound; these a close one.
            multipliers = program.multipliers_for(goal.weights)
            if multipliers is not None:
                bound = program.bound_for((loosest,), goal.weights, multipliers, exact=exact) + goal.offset
            if multipliers is None or bound - utility > GOOD_BOUND:
                bound = min(bound, self._solved_bound(loosest, utility, exact=exact))
        if self.loop.multipliers.size and bound - utility > GOOD_BOUND:
            canonical = program.bound_for((loosest,), self.goal.weights, self.loop.multipliers, exact=exact)
            bound = min(bound, self.goal.utility_bound(canonical + self.goal.offset))
        return min(1.0, bound)

    def _solved_bound(self, loosest: PrivacyConstraint, utility: float, *, exact: bool) -> float:
        """Return the bound by the program for the utility itself, its knots refined down to the tolerance."""
        goal, program = self.goal.goal, self.program
        program.drop_slack_rows()
        while True:
            status, _ = program.maximise(goal.weights, self.clock.remaining, INTERIOR_SHARE * self._tolerance)
            bound = program.bound_for((loosest,), goal.weights, program.multipliers, exact=exact) + goal.offset
            if status is not Status.OPTIMAL or bound - utility <= self._tolerance:
                return bound
            if not program.refine(goal.weights, 0.1 * self._tolerance):
                return bound

    def _progress(self) -> Progress:
        """Return the progress after a round."""
        noise = self.loop.noise
        if self.fallback is not None:
            noise = max(noise, self.fallback[0], key=self.goal.utility)
        utility, bound = self.goal.utility(noise), min(1.0, self.goal.utility_bound(self.loop.bound))
        rounds, rows = self.loop.rounds, self.program.rows
        return Progress(rounds, rows, utility, bound, self.loop.violation, self.clock.elapsed, noise)


def check_time_limit(problem: Problem, clock: SolveClock) -> None:
    """Reject, before any work, a problem for which even a closed form cannot be proved within the limit."""
    if clock.limit is None:
        return
    from darrm_opt.design.closed_forms import monotone_search_seconds  # solves without a limit do not need it

    least = 2 * monotone_search_seconds(problem)  # one search measures a γ, another proves it
    if least > clock.limit + clock.grace:
        accepted = f"at least {math.ceil(least)} seconds for K = {problem.K:,}"
        advice = "Proving any noise function for so many voters takes about that long."
        raise InvalidInput("time_limit", clock.limit, accepted, advice)
