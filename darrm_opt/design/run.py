"""One solve under way: its program, the best γ so far, and the clock.

*One canonical answer.* Optima are not unique, and the weights vanish near K/2, where a solver leaves γ as it likes. So
what is maximised is (1−κ)·w + κ·(the plain mean of γ): unique in practice, the same from every backend, at a cost in
utility that `Solution.gap` accounts for. The bound comes from one more, warm, solve for w itself.

*Large K.* Rows of neighbouring multisets are nearly parallel there and the program's vertices jump about in directions
that the objective does not see. So cuts are sought at a point between the best γ known to be private and the program's
answer (in-out separation), few and far apart.

*Time.* Under a time limit there is a γ to fall back on from the first: the best certified of the closed forms and of the
best monotone γ (`secure`). Every search stops at the deadline; what may follow is one proof, within `GRACE`.

*The bound* that leaves is for the problem as it was asked, in its loosest reading, by the same multipliers
(`GrowingProgram.bound_for`).
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from darrm_opt.design.aim import Aim
from darrm_opt.design.certificate import Certificate, repair
from darrm_opt.design.closed_forms import best_closed_form, monotone_search_seconds
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import ConstraintGenerator, Counts
from darrm_opt.design.found import OutOfTime, WorstCase
from darrm_opt.design.growing import GrowingProgram
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.program import Status
from darrm_opt.design.pruned import search_error
from darrm_opt.design.solution import Progress, Solution, Statistics, Watcher
from darrm_opt.design.stages import LARGE, Stage, binding_family, bounding_stage, dear, quick, stages
from darrm_opt.design.worst_case import worst_case, worst_case_near_faces
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Problem

KAPPA = 1e-6
"""Share of the plain mean in the canonical objective: far above the solvers' dual tolerances (`backends.row_scale`),
far below what a user can see."""

CUT_TOLERANCE = 1e-12
"""A multiset becomes a row when it is violated by more than this: above rounding, below every promised gap."""

CUT_SHARE = 1e-6
"""The same as a share of the limit, where that is less."""

TINY = 1e-300
"""Keeps a division from failing where both sides are 0."""

GRACE = 0.2
"""Share of the time limit, at least `MIN_GRACE` seconds, that proving the best γ so far may take beyond it."""

MIN_GRACE = 0.8

FAMILY_PART = 50
"""Rows made before the clock is looked at."""

OPTIMAL_GAP = 1e-6
"""Largest gap that is called optimal whatever the tolerance is: small problems are solved until no cut is left."""

ROUNDS = 500
"""More rounds than any stage has been seen to need by a factor of ten."""


class Run:
    """One solve under way: its program, the best γ so far (the incumbent), and the clock.

    Args:
        problem: what must hold.
        objective: what is maximised.
        shape: "free" or "monotone".
        backend: name of the LP solver.
        time_limit: seconds from now after which searches stop; None: no limit.
        watcher: called after every round.
        parent: the run on whose behalf this one looks for the best monotone γ: its fallback and its end hold here, too.
    """

    def __init__(
        self,
        problem: Problem,
        objective: AnyObjective,
        shape: str,
        backend: str,
        time_limit: float | None,
        watcher: Watcher | None,
        parent: Run | None = None,
    ) -> None:
        self.problem, self.objective, self.shape, self.backend = problem, objective, shape, backend
        self.started, self.time_limit, self.watcher = time.perf_counter(), time_limit, watcher
        self.deadline = math.inf if time_limit is None else self.started + time_limit
        self.end: float = math.inf if parent is None else parent.end  # of the last proof, once that has begun
        self.constraint: PrivacyConstraint = PrivacyConstraint.of(problem) if parent is None else parent.constraint
        if parent is None:
            self._refuse_what_takes_too_long()
        self.aim: Aim = objective.aim(problem.K) if parent is None else parent.aim
        entries = self.constraint.entries
        self.canonical = (1 - KAPPA) * self.aim.weights
        self.canonical[:entries] += KAPPA / entries
        self.program = GrowingProgram(self.constraint, self.aim, shape, backend)
        self.point: tuple[NoiseFunction, WorstCase] | None = None  # best so far, and what the search found for it
        self.settled = False  # whether that search settled everything it looked at
        self.fallback: tuple[NoiseFunction, Certificate] | None = None if parent is None else parent.fallback
        self._monotone_tried = shape == "monotone"
        self.bound, self.violation = 1.0, 0.0
        self.multipliers: Array = np.empty(0)  # that prove the bound
        self.rounds = 0
        self.seconds = {"program": 0.0, "search": 0.0, "certify": 0.0, "total": 0.0}

    def _refuse_what_takes_too_long(self) -> None:
        """Refuse, before any work, a problem for which not even a closed form could be proved within the limit."""
        if self.time_limit is None:
            return
        least = 2 * monotone_search_seconds(self.problem)  # one search finds how private a γ is, one proves it
        if least > self.time_limit + self._grace:
            raise InvalidInput(
                "time_limit",
                self.time_limit,
                f"at least {math.ceil(least)} seconds for K = {self.problem.K:,}",
                "Proving any noise function of so many voters takes about that long.",
            )

    @property
    def incumbent(self) -> NoiseFunction:
        """The best γ so far, scaled until the search that saw it finds no violation (a proof comes at the end)."""
        if self.point is None:
            return NoiseFunction(np.zeros(self.problem.K + 1))
        noise, found = self.point
        return NoiseFunction(noise.values * (self.constraint.limit / max(found.value, self.constraint.limit, TINY)))

    @property
    def gap(self) -> float:
        """Between the bound and the incumbent, by the canonical objective."""
        return self.bound - self._value(self.incumbent)

    @property
    def _utility_bound(self) -> float:
        """Bound on w·γ from the canonical one: that holds for (1−κ)w + κ·mean, and the mean is never negative."""
        return min(1.0, _without_mean(self.bound))

    @property
    def _grace(self) -> float:
        """How long the last proof may take beyond the time limit [s]."""
        return math.inf if self.time_limit is None else max(MIN_GRACE, GRACE * self.time_limit)

    def through(self, stage: Stage) -> Status:
        """Run one stage: solve, separate, add, until its goal is met or no cut is left."""
        try:
            return self._rounds(stage)
        except OutOfTime:
            return Status.TIME_LIMIT

    def _rounds(self, stage: Stage) -> Status:
        if self.point is not None:
            self._hand_over(stage)
        for _ in range(ROUNDS):
            status, answer, bound = self._maximise()
            if status is not Status.OPTIMAL:
                return status
            self._lower(bound)
            if self.gap <= stage.goal:
                return Status.OPTIMAL
            cuts = self._separate(answer, stage)
            self.rounds += 1
            self._report()
            if not len(cuts) or self.gap <= stage.goal:
                return Status.OPTIMAL
            self._add(cuts)
        return Status.ITERATION_LIMIT

    def _lower(self, bound: float) -> None:
        """Take the bound of the program just solved if it is lower."""
        if bound < self.bound:
            self.bound, self.multipliers = bound, self.program.multipliers

    def _tighten(self, stage: Stage) -> Status:
        """Lower the bound by cuts from searches that prove nothing; the incumbent, proved already, stays."""
        try:
            for _ in range(ROUNDS):
                status, answer, bound = self._maximise()
                if status is not Status.OPTIMAL:
                    return status
                self._lower(bound)
                if self.gap <= stage.goal:
                    return Status.OPTIMAL
                cuts, _ = self._search(answer, stage)
                self.rounds += 1
                self._report()
                if not len(cuts):
                    break
                self._add(cuts)
        except OutOfTime:
            return Status.TIME_LIMIT
        return Status.SEARCH_LIMIT

    def complete(self, tolerance: float, method: str, rows: Counts | None = None) -> Solution:
        """Start, run all stages, as far as time and solver allow, and finish; ``rows`` are more multisets to start from."""
        try:
            status = self._start_whole() if method == "enumerate" else self.start(tolerance)
            if rows is not None and status is Status.OPTIMAL:
                self.program.add(self.program.unknown(rows))
        except OutOfTime:
            status = Status.TIME_LIMIT
        plan = stages(self.problem, self.shape, tolerance)
        for stage in plan:
            if status is not Status.OPTIMAL:
                break
            status = self.through(stage)
        if not plan and status is Status.OPTIMAL:
            status = self._tighten(bounding_stage(self.problem, tolerance))
        return self.finish(status, tolerance, method)

    def finish(self, status: Status, tolerance: float, method: str) -> Solution:
        """Certify the best γ and prove how good it is."""
        before = time.perf_counter()
        if self.end == math.inf:
            self.end = before + self._grace
        noise, certificate, status = self._best(status, tolerance)
        self.seconds["certify"] += time.perf_counter() - before
        before = time.perf_counter()
        loosest, exactly = PrivacyConstraint.loosest(self.problem), self.problem.K < LARGE
        upper_bound = 1.0
        if status in {Status.OPTIMAL, Status.SEARCH_LIMIT}:
            self.program.maximise(self.aim.weights, self._left())
            multipliers = self.program.multipliers
            upper_bound = (
                self.program.bound_for(loosest, self.aim.weights, multipliers, exactly=exactly) + self.aim.offset
            )
        if self.multipliers.size:
            bound = self.program.bound_for(loosest, self.canonical, self.multipliers, exactly=exactly)
            upper_bound = min(upper_bound, _without_mean(bound + (1 - KAPPA) * self.aim.offset))
        self.seconds["program"] += time.perf_counter() - before
        self.seconds["total"] = time.perf_counter() - self.started
        utility = self._utility(noise)
        if status is Status.OPTIMAL and min(upper_bound, 1.0) - utility > max(tolerance, OPTIMAL_GAP):
            status = Status.ROUNDING_LIMIT
        return Solution(
            problem=self.problem,
            objective=self.objective,
            shape=self.shape,
            noise=noise,
            utility=utility,
            upper_bound=min(1.0, upper_bound),
            status=status,
            certificate=certificate,
            method=method,
            backend=self.backend,
            statistics=Statistics(self.program.rows, self.rounds, self.program.iterations, self.seconds),
        )

    def _best(self, status: Status, tolerance: float) -> tuple[NoiseFunction, Certificate, Status]:
        """Return the better of the incumbent, scaled until its privacy is proved, and the fallback; and the status.

        Where the end was reached without a monotone γ first, none counts: a solve gives the same γ with and without a limit.
        """
        if status is Status.OPTIMAL and not self._staged:
            try:
                return *self._proved(), status
            except OutOfTime:
                status = Status.TIME_LIMIT
        if status is not Status.OPTIMAL and self.time_limit is not None:
            self.secure(tolerance)
        if self.fallback is None:
            return *self._proved(), status
        secured = self._utility(self.fallback[0])
        if self.point is None or self._utility(self.incumbent) <= secured:
            return *self.fallback, status
        try:
            mine = self._proved()
        except OutOfTime:
            return *self.fallback, Status.TIME_LIMIT
        return *(mine if self._utility(mine[0]) >= secured else self.fallback), status

    @property
    def _staged(self) -> bool:
        """Whether the best monotone γ comes first, and counts."""
        return self.shape == "free" and dear(self.problem)

    def _proved(self) -> tuple[NoiseFunction, Certificate]:
        """Return the incumbent, scaled until its privacy is proved.

        Raises:
            OutOfTime: the end has come.
        """
        if self.point is None or not self.settled:
            self.point = (self.incumbent, worst_case(self.incumbent, self.constraint, deadline=self.end))
        return repair(*self.point, self.constraint, self.end)

    def _start_whole(self) -> Status:
        """Begin with the whole constraint set."""
        for multisets in ConstraintGenerator(self.problem).blocks():
            self._check_clock()
            self.program.add(multisets)
        return Status.OPTIMAL

    def start(self, tolerance: float) -> Status:
        """Begin with multisets that almost always bind; where a search is dear, with the best monotone γ and its.

        Raises:
            OutOfTime: the deadline has passed.
        """
        if self.time_limit is not None and not quick(self.problem):
            self.secure(tolerance, monotone=self.shape == "free" and not dear(self.problem))
        if self.shape == "monotone" or not dear(self.problem):
            family = binding_family(self.constraint)
            for part in range(0, len(family), FAMILY_PART):
                self._check_clock()
                self.program.add(family[part : part + FAMILY_PART])
            return Status.OPTIMAL
        run, solution = self._monotone(self._left(), tolerance, self.watcher)
        self.fallback = (solution.noise, solution.certificate)
        self.program.add(run.program.found)
        self.rounds = run.rounds
        self.program.iterations = run.program.iterations
        self.seconds = run.seconds
        if solution.status is Status.TIME_LIMIT:
            return Status.TIME_LIMIT
        self.point = (solution.noise, worst_case(solution.noise, self.constraint, deadline=self.deadline))
        self.settled = True
        return Status.OPTIMAL if stages(self.problem, self.shape, tolerance) else solution.status

    def secure(self, tolerance: float, *, monotone: bool = True) -> None:
        """Make sure of a certified γ to fall back on: the best closed form, and a better monotone γ if wanted."""
        last = min(self.end, self.deadline + self._grace)
        if self.fallback is None:
            self.fallback = best_closed_form(self.problem, self.constraint, self.aim.utility, last)
        if not monotone or self._monotone_tried:
            return
        now = time.perf_counter()
        seconds = (self.end - now) / 2 if self.end < math.inf else self._left()
        if seconds is None or seconds > 0:
            _, solution = self._monotone(seconds, tolerance, None)
            if solution.utility > self._utility(self.fallback[0]):
                self.fallback = (solution.noise, solution.certificate)

    def _monotone(self, seconds: float | None, tolerance: float, watcher: Watcher | None) -> tuple[Run, Solution]:
        """Look for the best monotone γ."""
        self._monotone_tried = True
        run = Run(
            self.problem,
            self.objective,
            "monotone",
            self.backend,
            seconds,
            None if watcher is None else lambda at: watcher(replace(at, upper_bound=1.0)),  # a free γ may reach further
            parent=self,
        )
        solution = run.complete(tolerance, "cuts")
        if solution.status is Status.TIME_LIMIT:
            self.end = run.end  # the last proof has been
        return run, solution

    def _utility(self, noise: NoiseFunction) -> float:
        return self.aim.utility(noise.values[self.problem.K // 2 + 1 :])

    def _maximise(self) -> tuple[Status, NoiseFunction, float]:
        left = self._left()
        if left is not None and left <= 0:
            return Status.TIME_LIMIT, self.incumbent, 1.0
        before = time.perf_counter()
        status, answer, bound = self.program.maximise(self.canonical, left)
        self.seconds["program"] += time.perf_counter() - before
        return status, answer, bound + (1 - KAPPA) * self.aim.offset

    def _separate(self, answer: NoiseFunction, stage: Stage) -> Counts:
        """Return cuts that take the program's answer away, improving the incumbent on the way.

        The point searched lies between the incumbent and the answer. If it is private it becomes the incumbent, and
        the next lies closer to the answer: each time the gap shrinks by ``reach``. If nothing comes of that, the answer
        itself is searched.
        """
        better = self.point is not None
        while True:
            point = self._between(answer, stage) if better and stage.reach < 1.0 else answer
            cuts, found = self._search(point, stage)
            better = self._keep(point, found, settled=stage.proving and not len(cuts))
            arrived = point is answer or self._value(answer) - self._value(point) < CUT_TOLERANCE
            if len(cuts) or arrived or self.gap <= stage.goal:
                return cuts

    def _between(self, answer: NoiseFunction, stage: Stage) -> NoiseFunction:
        start = self.incumbent.values
        mixed = np.clip(start + stage.reach * (answer.values - start), 0.0, 1.0)
        return NoiseFunction(
            mixed * (1.0 - stage.slack)
        )  # symmetric: both ends are, and the same operations act on both halves

    def _search(self, point: NoiseFunction, stage: Stage) -> tuple[Counts, WorstCase]:
        before = time.perf_counter()
        most, deadline = stage.cuts if stage.apart == 0 else 100 * stage.cuts, self.deadline
        above = self.constraint.limit + self._cut_tolerance
        if stage.slack:  # so that what is not found to be cut is proved to be private, at once
            above = self.constraint.limit - 2 * search_error(self.constraint, 1.0)
        if stage.proving:
            found = worst_case(point, self.constraint, above=above, most=most, settle="until a cut", deadline=deadline)
        else:
            found = worst_case_near_faces(point, self.constraint, above=above, most=most, deadline=deadline)
        cuts = _spread(self.program.unknown(found.cuts), stage)
        if stage.proving and found.method == "first-order" and not len(cuts):  # all cuts found are rows already
            found = worst_case(point, self.constraint, above=above, most=most, deadline=deadline)
            cuts = _spread(self.program.unknown(found.cuts), stage)
        self.violation = found.value - self.constraint.limit
        self.seconds["search"] += time.perf_counter() - before
        return cuts, found

    def _keep(self, point: NoiseFunction, found: WorstCase, *, settled: bool) -> bool:
        """Make the point the incumbent if, scaled until private, it is no worse; return whether it is better."""
        before, value = (self.point, self.settled), self._value(self.incumbent)
        self.point, self.settled = (point, found), settled
        reached = self._value(self.incumbent)
        if before[0] is not None and reached < value:
            self.point, self.settled = before
        return reached > value

    def _hand_over(self, stage: Stage) -> None:
        """Show the incumbent to the next stage's search, which sees more; what it finds becomes rows."""
        incumbent = NoiseFunction(self.incumbent.values * (1.0 - stage.slack))
        cuts, found = self._search(incumbent, stage)
        self.point, self.settled = (incumbent, found), stage.proving and not len(cuts)
        self._add(cuts)

    def _add(self, cuts: Counts) -> None:
        """Add rows, and hold the incumbent to them: a search near the faces may have missed them there.

        So the incumbent keeps all rows, as the program's answer does, and whatever lies between the two.
        """
        rows = self.program.add(cuts)
        if self.point is not None and not self.settled:
            noise, found = self.point
            value = float((rows @ noise.values[self.problem.K // 2 + 1 :]).max(initial=found.value))
            self.point = (noise, replace(found, value=value, bound=max(found.bound, value)))

    def _report(self) -> None:
        if self.watcher is not None:
            seconds = time.perf_counter() - self.started
            utility = self._utility(self.incumbent)
            if self.fallback is not None:
                utility = max(utility, self._utility(self.fallback[0]))
            bound = self._utility_bound
            self.watcher(Progress(self.rounds, self.program.rows, utility, bound, self.violation, seconds))

    @property
    def _cut_tolerance(self) -> float:
        """By how much a multiset must be violated to become a row."""
        smallest = max(CUT_SHARE * self.constraint.limit, 2 * search_error(self.constraint, 1.0))
        return min(CUT_TOLERANCE, smallest)

    def _check_clock(self) -> None:
        if time.perf_counter() > self.deadline:
            raise OutOfTime

    def _left(self) -> float | None:
        return None if self.time_limit is None else self.time_limit - (time.perf_counter() - self.started)

    def _value(self, noise: NoiseFunction) -> float:
        upper = noise.values[self.problem.K // 2 + 1 :]
        return (1 - KAPPA) * self.aim.utility(upper) + KAPPA * float(upper.mean())


def _without_mean(bound: float) -> float:
    """Return the bound on w·γ that a bound on (1−κ)w·γ + κ·mean(γ) implies: the mean is never negative."""
    return bound / (1 - KAPPA) * (1 + 2.0**-50)


def _spread(cuts: Counts, stage: Stage) -> Counts:
    """Return the worst cuts that keep the stage's distance from each other: neighbours are nearly the same row."""
    if stage.apart == 0:
        return cuts[: stage.cuts]
    left = np.arange(len(cuts))
    chosen: list[int] = []
    while left.size and len(chosen) < stage.cuts:
        chosen.append(int(left[0]))
        left = left[np.abs(cuts[left] - cuts[left[0]]).sum(axis=1) > stage.apart]
    return cuts[chosen]
