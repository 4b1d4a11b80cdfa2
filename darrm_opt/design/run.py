"""One solve under way: its program, the best γ so far, and the clock.

*One canonical answer.* Optima are not unique, and the weights vanish near K/2, where a solver leaves γ as it likes. So
what is maximised is (1−κ)·w + κ·(the plain mean of γ): unique in practice, the same from every backend, at a cost in
utility that `Solution.gap` accounts for. The bound comes from one more, warm, solve for w itself.

*Large K.* Rows of neighbouring multisets are nearly parallel there and the program's vertices jump about in directions
that the objective does not see. So cuts are sought at a point between the best γ known to be private and the program's
answer (in-out separation), few and far apart.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from darrm_opt.design.certificate import Certificate, repair
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import Counts
from darrm_opt.design.found import OutOfTime, WorstCase
from darrm_opt.design.growing import GrowingProgram
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.program import Status
from darrm_opt.design.pruned import search_error
from darrm_opt.design.solution import Progress, Solution, Statistics, Watcher
from darrm_opt.design.stages import Stage, binding_family, dear, stages
from darrm_opt.design.worst_case import worst_case, worst_case_near_faces
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

KAPPA = 1e-6
"""Share of the plain mean in the canonical objective: far above the solvers' dual tolerances (`backends.row_scale`),
far below what a user can see."""

CUT_TOLERANCE = 1e-12
"""A multiset becomes a row when it is violated by more than this: above rounding, below every promised gap."""

TINY = 1e-300
"""Keeps a division from failing where both sides are 0."""

GRACE = 0.25
"""Share of the time limit, at least `LEAST_GRACE` seconds, that proving the best γ so far may take beyond it."""

LEAST_GRACE = 1.0

ROUNDS = 500
"""More rounds than any stage has been seen to need by a factor of ten."""


class Run:
    """One solve under way: its program, the best γ so far (the incumbent), and the clock."""

    def __init__(
        self,
        problem: Problem,
        objective: AnyObjective,
        shape: str,
        backend: str,
        time_limit: float | None,
        watcher: Watcher | None,
    ) -> None:
        self.problem, self.objective, self.shape, self.backend = problem, objective, shape, backend
        self.started, self.time_limit, self.watcher = time.perf_counter(), time_limit, watcher
        self.constraint = PrivacyConstraint.of(problem)
        self.aim = objective.aim(problem.K)
        entries = self.constraint.entries
        self.canonical = (1 - KAPPA) * self.aim.weights
        self.canonical[:entries] += KAPPA / entries
        self.program = GrowingProgram(self.constraint, self.aim, shape, backend)
        self.point: tuple[NoiseFunction, WorstCase] | None = None  # best so far, and what the search found for it
        self.monotone: Solution | None = None  # the best monotone answer, where the search for a free one is dear
        self.settled = False  # whether that search settled everything it looked at
        self.bound, self.violation = 1.0, 0.0
        self.rounds = 0
        self.seconds = {"program": 0.0, "search": 0.0, "certify": 0.0, "total": 0.0}

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
        return min(1.0, self.bound / (1 - KAPPA) * (1 + 2.0**-50))

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
            self.bound = min(self.bound, bound)
            if self.gap <= stage.goal:
                return Status.OPTIMAL
            cuts = self._separate(answer, stage)
            self.rounds += 1
            self._report()
            if not len(cuts) or self.gap <= stage.goal:
                return Status.OPTIMAL
            self._add(cuts)
        return Status.ITERATION_LIMIT

    def complete(self, tolerance: float, method: str) -> Solution:
        """Run all stages, as far as time and solver allow, and finish."""
        plan = stages(self.problem, self.shape, tolerance)
        status = Status.OPTIMAL
        for stage in plan:
            status = self.through(stage)
            if status is not Status.OPTIMAL:
                break
        solution = self.finish(status, method)
        if status is Status.OPTIMAL and not plan and solution.gap > tolerance:
            return replace(solution, status=Status.SEARCH_LIMIT)
        return solution

    def finish(self, status: Status, method: str) -> Solution:
        """Certify the incumbent and prove how good it is."""
        before = time.perf_counter()
        noise, certificate = self._proved()
        self.seconds["certify"] += time.perf_counter() - before
        upper_bound = 1.0
        if status is Status.OPTIMAL:
            before = time.perf_counter()
            upper_bound = self.program.maximise(self.aim.weights, self._left())[2] + self.aim.offset
            self.seconds["program"] += time.perf_counter() - before
        upper_bound = min(upper_bound, self._utility_bound)
        self.seconds["total"] = time.perf_counter() - self.started
        utility = self._utility(noise)
        if self.monotone is not None and self.monotone.utility > utility:
            noise, certificate, utility = self.monotone.noise, self.monotone.certificate, self.monotone.utility
        return Solution(
            problem=self.problem,
            objective=self.objective,
            shape=self.shape,
            noise=noise,
            utility=utility,
            upper_bound=upper_bound,
            status=status,
            certificate=certificate,
            method=method,
            backend=self.backend,
            statistics=Statistics(self.program.rows, self.rounds, self.program.iterations, self.seconds),
        )

    def _proved(self) -> tuple[NoiseFunction, Certificate]:
        """Return the incumbent, scaled until its privacy is proved; γ = 0 if there is no time to prove anything."""
        nothing = NoiseFunction(np.zeros(self.problem.K + 1))
        deadline = float("inf")
        if self.time_limit is not None:
            deadline = time.perf_counter() + max(LEAST_GRACE, GRACE * self.time_limit)
        try:
            if self.point is None or not self.settled:
                self.point = (self.incumbent, worst_case(self.incumbent, self.constraint, deadline=deadline))
            return repair(*self.point, self.constraint, deadline)
        except OutOfTime:
            return repair(nothing, worst_case(nothing, self.constraint), self.constraint)

    def start(self, tolerance: float) -> None:
        """Begin with multisets that almost always bind; where a search is dear, with the best monotone γ and its."""
        if self.shape == "monotone" or not dear(self.problem):
            self.program.add(binding_family(self.constraint))
            return
        watcher = self.watcher
        run = Run(
            self.problem,
            self.objective,
            "monotone",
            self.backend,
            self.time_limit,
            None if watcher is None else lambda at: watcher(replace(at, upper_bound=1.0)),  # a free γ may reach further
        )
        run.start(tolerance)
        self.monotone = run.complete(tolerance, "cuts")
        self.point, self.settled = (self.monotone.noise, worst_case(self.monotone.noise, self.constraint)), True
        self.program.add(run.program.found)
        self.rounds = run.rounds
        self.program.iterations = run.program.iterations
        self.seconds = run.seconds

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
        most, deadline = stage.cuts if stage.apart == 0 else 100 * stage.cuts, self._deadline()
        above = self.constraint.limit + CUT_TOLERANCE
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
            bound = self._utility_bound
            self.watcher(Progress(self.rounds, self.program.rows, utility, bound, self.violation, seconds))

    def _deadline(self) -> float:
        """Return when to stop, by `time.perf_counter`."""
        if self.time_limit is None or self.shape == "monotone":  # whose searches are short: one may always end
            return float("inf")
        return self.started + self.time_limit

    def _left(self) -> float | None:
        return None if self.time_limit is None else self.time_limit - (time.perf_counter() - self.started)

    def _value(self, noise: NoiseFunction) -> float:
        upper = noise.values[self.problem.K // 2 + 1 :]
        return (1 - KAPPA) * self.aim.utility(upper) + KAPPA * float(upper.mean())


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
