"""solve: from a problem to a certified γ_opt, by cutting planes or by enumeration.

Solve the program with some rows; search the worst cases of its answer; add those that it violates; repeat until none is
left; then scale the answer by what rounding asks for and prove it (`certificate`).

*One canonical answer.* Optima are not unique, and the weights vanish near K/2, where a solver leaves γ as it likes. So
what is maximised is (1−κ)·w + κ·(the plain mean of γ): unique in practice, the same from every backend, at a cost in
utility that `Solution.gap` accounts for. The bound comes from one more, warm, solve for w itself.

*Large K.* Rows of neighbouring multisets are nearly parallel there and the program's vertices jump about in directions
that the objective does not see. So cuts are sought at a point between the best γ known to be private and the program's
answer (in-out separation), few and far apart, near the faces min(nx, ny) = 0 first, where nearly all that bind lie, and by the proving search last.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.certificate import Certificate, repair
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import (
    DOWN,
    DOWN_FROM_ONE,
    ONE,
    UP_TO_ONE,
    XY,
    ZERO,
    ConstraintGenerator,
    Counts,
)
from darrm_opt.design.found import OutOfTime, WorstCase
from darrm_opt.design.growing import GrowingProgram
from darrm_opt.design.objective import AnyObjective, as_objective
from darrm_opt.design.program import Status
from darrm_opt.design.pruned import EVALUATION_REACH, FIRST_ORDER_REACH
from darrm_opt.design.solution import Progress, Solution, Statistics, Watcher
from darrm_opt.design.worst_case import worst_case, worst_case_near_faces
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem, a_problem, real_number

Shape = Literal["free", "monotone"]
Method = Literal["auto", "enumerate", "cuts"]

TOLERANCE = 1e-6
"""Default gap at which a large problem counts as solved; small ones are solved until no cut is left (about 1e-12)."""

KAPPA = 1e-6
"""Share of the plain mean in the canonical objective: far above the solvers' dual tolerances (`backends.row_scale`),
far below what a user can see."""

CUT_TOLERANCE = 1e-12
"""A multiset becomes a row when it is violated by more than this: above rounding, below every promised gap."""

TINY = 1e-300
"""Keeps a division from failing where both sides are 0."""

LARGE = 400
"""From this K on, γ is designed in stages that end at the tolerance."""

COMPLETE = 120
"""Up to this K complete search is affordable whatever Δ is."""

GRACE = 0.25
"""Share of the time limit, at least `LEAST_GRACE` seconds, that proving the best γ so far may take beyond it."""

LEAST_GRACE = 1.0

ROUNDS = 500
"""More rounds than any stage has been seen to need by a factor of ten."""

ENUMERABLE_ROWS = 2_000_000
"""Largest whole set that ``method="enumerate"`` accepts: about 2 GB of rows at K = 21."""


@dataclass(frozen=True)
class Stage:
    """How cuts are sought for a while.

    Attributes:
        proving: whether the search is the one that proves; else it looks near the faces only.
        reach: where cuts are sought, as a share of the way from the incumbent to the program's answer.
        goal: gap at which the stage is over.
        cuts: most rows added in a round.
        apart: least distance between two of them [voters moved from corner to corner].
    """

    proving: bool
    reach: float
    goal: float
    cuts: int
    apart: float


def dear(problem: Problem) -> bool:
    """Whether one search of a γ that is not monotone takes seconds: then the best monotone γ is found first.

    It is often optimal, certainly cheap, a good start, and what is left if time runs out.
    """
    return problem.K >= LARGE or (problem.K > COMPLETE and problem.affected * problem.voter.delta > FIRST_ORDER_REACH)


def stages(problem: Problem, shape: str, tolerance: float) -> tuple[Stage, ...]:
    """Return the stages for a problem: one exact stage, or a few that end at the tolerance where a search is `dear`.

    None at all where a search would prove next to nothing: the monotone answer and the program's bound must do.
    """
    if not dear(problem):
        return (Stage(proving=True, reach=1.0, goal=0.0, cuts=200, apart=0.0),)
    apart = problem.K**0.5
    if shape == "monotone":  # its complete search is as cheap as a coarse one
        return (Stage(proving=True, reach=0.5, goal=0.8 * tolerance, cuts=60, apart=apart),)
    if problem.affected * problem.voter.delta > EVALUATION_REACH:
        return ()
    return (
        Stage(proving=False, reach=0.5, goal=0.8 * tolerance, cuts=60, apart=apart),
        Stage(proving=True, reach=0.9, goal=0.8 * tolerance, cuts=60, apart=apart),
    )


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
        objective: what "utility" weighs; an `Objective` or its text, such as ``"shared(2,5) agreement"``.
        shape: "free", or "monotone" (γ non-decreasing in |l − K/2|: a little utility for looks).
        method: "cuts", "enumerate" (the whole reduced constraint set as rows) or "auto".
        backend: "highs", "gurobi" or "cvxpy".
        tolerance: gap at which to stop where solving further is dear (K ≥ 400), in (0, 1).
        time_limit: seconds after which the best certified γ so far is returned; None: no limit.
        progress: called after every round.

    Returns:
        The solution; its ``status`` is "optimal" unless something came in between.

    Guarantees:
        ``gamma`` is private exactly as stored (``certificate``), ``upper_bound`` is never below the true optimum.

    Raises:
        InvalidInput: an argument is outside what is accepted.
        BackendUnavailable: the solver is not installed or its licence is too small.

    Source: Section 4 of the paper (the LP and its reduction); cuts, bound and certificate are ours.
    """
    check_choices(problem, shape, method, backend, tolerance, time_limit)
    run = _Run(problem, as_objective(objective), shape, backend, time_limit, progress)
    if shape == "free" and method != "enumerate" and dear(problem):
        run.start_from_monotone(tolerance)
    if method == "enumerate":
        for multisets in ConstraintGenerator(problem).blocks():
            run.program.add(multisets)
    elif run.monotone is None:
        run.program.add(binding_family(run.constraint))
    return run.complete(stages(problem, shape, tolerance), "enumerate" if method == "enumerate" else "cuts")


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
    """Solve by cuts, starting from the multisets that mattered for a problem like it; return those of this one.

    For problems that differ in their target only: a multiset stands for a constraint of each of them.
    """
    check_choices(problem, shape, "cuts", backend, tolerance, time_limit)
    run = _Run(problem, as_objective(objective), shape, backend, time_limit, None)
    family = binding_family(run.constraint)
    known = family if rows is None else np.unique(np.concatenate([family, rows]), axis=0)
    run.program.add(known)
    solution = run.complete(stages(problem, shape, tolerance), "cuts")
    return solution, run.program.found


def binding_family(constraint: PrivacyConstraint) -> Counts:
    """Return multisets {x^i, (Δ,0)^(r−i), stationary rest}, at most about 250: almost always those that bind."""
    r = constraint.affected
    counts = np.zeros((r + 1, len(constraint.corners.labels)), dtype=np.int64)
    counts[:, XY] = np.arange(r + 1)
    counts[:, DOWN if constraint.corners.Delta > 0 else ZERO] += r - counts[:, XY]
    stationary = constraint.K - r
    counts[:, ONE] += stationary // 2
    counts[:, ZERO] += stationary - stationary // 2
    if r >= LARGE:
        counts = counts[np.linspace(0, r, 250).astype(int)]
    if constraint.corners.Delta == 0 or stationary:
        return counts
    # with Δ > 0 a vote split in the middle binds too: each half at its end or off it
    middle = np.zeros((3, counts.shape[1]), dtype=np.int64)
    middle[:, DOWN] = (r + 1) // 2
    middle[np.arange(3), [ONE, UP_TO_ONE, DOWN_FROM_ONE]] = r // 2
    return np.concatenate([counts, middle])


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


class _Run:
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
            self.program.add(cuts)
        return Status.ITERATION_LIMIT

    def complete(self, plan: tuple[Stage, ...], method: str) -> Solution:
        """Run all stages, as far as time and solver allow, and finish."""
        status = Status.OPTIMAL
        for stage in plan:
            status = self.through(stage)
            if status is not Status.OPTIMAL:
                break
        return self.finish(status, method)

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
        # the canonical bound holds for (1−κ)w + κ·mean, and the mean is never negative
        upper_bound = min(1.0, upper_bound, self.bound / (1 - KAPPA) * (1 + 2.0**-50))
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

    def start_from_monotone(self, tolerance: float) -> None:
        """Begin with the best monotone γ and the multisets that bind it."""
        watcher = self.watcher
        run = _Run(
            self.problem,
            self.objective,
            "monotone",
            self.backend,
            self.time_limit,
            None if watcher is None else lambda at: watcher(replace(at, upper_bound=1.0)),  # a free γ may reach further
        )
        run.program.add(binding_family(self.constraint))
        self.monotone = run.complete(stages(self.problem, "monotone", tolerance), "cuts")
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
        the next lies closer to the answer: each time the gap shrinks by ``reach``.
        """
        while True:
            point = answer if stage.reach == 1.0 or self.point is None else self._between(answer, stage.reach)
            cuts, found, settled = self._search(point, stage)
            self._keep(point, found, settled=settled)
            arrived = stage.reach == 1.0 or self._value(answer) - self._value(point) < CUT_TOLERANCE
            if len(cuts) or arrived or self.gap <= stage.goal:
                return cuts

    def _between(self, answer: NoiseFunction, reach: float) -> NoiseFunction:
        start = self.incumbent.values
        mixed = np.clip(start + reach * (answer.values - start), 0.0, 1.0)
        return NoiseFunction(mixed)  # symmetric: both ends are, and the same operations act on both halves

    def _search(self, point: NoiseFunction, stage: Stage) -> tuple[Counts, WorstCase, bool]:
        """Search one point; what the proving search leaves open is settled only once it finds no more cuts."""
        before = time.perf_counter()
        above, most = self.constraint.limit + CUT_TOLERANCE, stage.cuts if stage.apart == 0 else 100 * stage.cuts
        if not stage.proving:
            found = worst_case_near_faces(point, self.constraint, above=above, most=most, deadline=self._deadline())
        else:
            found = worst_case(point, self.constraint, above=above, most=most, refine=False, deadline=self._deadline())
        cuts = _spread(self.program.unknown(found.cuts), stage)
        settled = stage.proving and not len(cuts)
        if settled and found.method == "first-order":  # something was left open
            found = worst_case(point, self.constraint, above=above, most=most, deadline=self._deadline())
            cuts = _spread(self.program.unknown(found.cuts), stage)
        self.violation = found.value - self.constraint.limit
        self.seconds["search"] += time.perf_counter() - before
        return cuts, found, settled

    def _keep(self, point: NoiseFunction, found: WorstCase, *, settled: bool) -> None:
        """Make the point the incumbent if, scaled until private, it is better."""
        before, value = (self.point, self.settled), self._value(self.incumbent)
        self.point, self.settled = (point, found), settled
        if before[0] is not None and self._value(self.incumbent) < value:
            self.point, self.settled = before

    def _hand_over(self, stage: Stage) -> None:
        """Show the incumbent to the next stage's search, which sees more; what it finds becomes rows."""
        incumbent = self.incumbent
        cuts, found, self.settled = self._search(incumbent, stage)
        self.point = (incumbent, found)
        self.program.add(cuts)

    def _report(self) -> None:
        if self.watcher is not None:
            seconds = time.perf_counter() - self.started
            utility = self._utility(self.incumbent)
            self.watcher(Progress(self.rounds, self.program.rows, utility, self.bound, self.violation, seconds))

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


def check_choices(
    problem: Problem,
    shape: str,
    method: str,
    backend: str,
    tolerance: float = TOLERANCE,
    time_limit: float | None = None,
) -> None:
    """Refuse what `solve` does not take, before any work.

    Raises:
        InvalidInput: naming the argument, its value and what is accepted.
    """
    a_problem(problem)
    if shape not in ("free", "monotone"):
        raise InvalidInput("shape", shape, "'free' or 'monotone'")
    if method not in ("auto", "enumerate", "cuts"):
        raise InvalidInput("method", method, "'auto', 'enumerate' or 'cuts'")
    if backend not in BACKENDS:
        raise InvalidInput("backend", backend, "one of " + ", ".join(BACKENDS))
    if not 0 < real_number(tolerance, "tolerance", "a gap in (0, 1)") < 1:
        raise InvalidInput("tolerance", tolerance, "a gap in (0, 1)")
    seconds = "None, or seconds above 0"
    if time_limit is not None and not real_number(time_limit, "time_limit", seconds) > 0:
        raise InvalidInput("time_limit", time_limit, seconds)
    if method == "enumerate" and ConstraintGenerator(problem).size > ENUMERABLE_ROWS:
        raise InvalidInput(
            "method",
            method,
            f"a constraint set of at most {ENUMERABLE_ROWS:,} vectors",
            f"This one has {ConstraintGenerator(problem).size:,}; method = 'cuts' gives the same answer.",
        )
