"""solve: from a problem to a certified γ_opt, by cutting planes or by enumeration.

Solve the program with some rows; search the worst cases of its answer; add those that it violates; repeat until
none is left; then scale the answer by what rounding asks for and prove it (`certificate`).

*One canonical answer.* Optima are not unique, and the weights vanish near K/2, where a solver leaves γ as it likes.
So what is maximised is (1−κ)·w + κ·(the plain mean of γ): unique in practice, the same from every backend, at a cost
in utility that `Solution.gap` accounts for. The bound comes from one more, warm, solve for w itself.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np

from darrm_opt.design.backends import BACKENDS, open_backend
from darrm_opt.design.certificate import repair
from darrm_opt.design.found import WorstCase
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.corners import DOWN, ONE, XY, ZERO, ConstraintGenerator, Counts
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.design.program import Outcome, Status, dual_bound, monotone_rows
from darrm_opt.design.solution import Progress, Solution, Statistics, Watcher
from darrm_opt.design.worst_case import worst_case
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Problem

Shape = Literal["free", "monotone"]
Method = Literal["auto", "enumerate", "cuts"]

KAPPA = 1e-6
"""Share of the plain mean in the canonical objective: far above the solvers' dual tolerances (1e-13 on our scale),
far below what a user can see."""

CUT_TOLERANCE = 1e-12
"""A multiset becomes a row when it is violated by more than this: above rounding, below every promised gap."""

CUTS_PER_ROUND = 200
"""Most rows added in one round: few enough for a fast warm start, enough for few rounds."""

ROUNDS = 500
"""More rounds than any problem has been seen to need by a factor of ten."""

ENUMERABLE_ROWS = 2_000_000
"""Largest whole set that ``method="enumerate"`` accepts: about 2 GB of rows at K = 21."""


def solve(
    problem: Problem,
    objective: Objective | str = "rectangular",
    shape: Shape = "free",
    method: Method = "auto",
    backend: str = "highs",
    *,
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
    objective = as_objective(objective)
    _check_choices(problem, shape, method, backend, time_limit)
    started = time.perf_counter()
    run = _Run(problem, objective, shape, backend)
    if method == "enumerate":
        run.add_everything()
    else:
        run.add(binding_family(run.constraint))
    status = Status.ITERATION_LIMIT
    for _ in range(ROUNDS):
        left = None if time_limit is None else time_limit - (time.perf_counter() - started)
        status, cuts = run.round(left)
        if progress is not None:
            progress(run.progress(time.perf_counter() - started))
        if status is not Status.OPTIMAL or not len(cuts):
            break
        run.add(cuts)
    return run.finish(status, "enumerate" if method == "enumerate" else "cuts", started)


def binding_family(constraint: PrivacyConstraint) -> Counts:
    """Return the multisets {x^i, (Δ,0)^(r−i), stationary rest}: almost always those that bind at the optimum."""
    r = constraint.affected
    counts = np.zeros((r + 1, len(constraint.corners.labels)), dtype=np.int64)
    counts[:, XY] = np.arange(r + 1)
    counts[:, DOWN if constraint.corners.Delta > 0 else ZERO] += r - counts[:, XY]
    stationary = constraint.K - r
    counts[:, ONE] += stationary // 2
    counts[:, ZERO] += stationary - stationary // 2
    return counts


class _Run:
    """The growing program of one solve, and the best answer that it has given so far."""

    def __init__(self, problem: Problem, objective: Objective, shape: str, backend: str) -> None:
        self.problem, self.objective, self.shape, self.backend = problem, objective, shape, backend
        self.constraint = PrivacyConstraint.of(problem)
        entries = self.constraint.entries
        self.weights = objective.weights(problem.K)
        self.canonical = (1 - KAPPA) * self.weights + KAPPA / entries
        self.program = open_backend(backend, entries)
        self.rows = np.empty((0, entries))
        self.limits = np.empty(0)
        self.known: set[bytes] = set()
        self.rounds = self.iterations = 0
        self.seconds = {"program": 0.0, "search": 0.0, "certify": 0.0, "total": 0.0}
        self.best: tuple[float, NoiseFunction, WorstCase] | None = None
        self.upper_bound, self.violation = 1.0, 0.0
        if shape == "monotone":
            self._add_rows(monotone_rows(entries), np.zeros(entries - 1))

    def _add_rows(self, rows: Array, limits: Array) -> None:
        if limits.size:
            self.program.add(rows, limits)
            self.rows = np.concatenate([self.rows, rows])
            self.limits = np.concatenate([self.limits, limits])

    def add(self, cuts: Counts) -> None:
        """Add multisets as rows."""
        self.known.update(row.tobytes() for row in cuts)
        self._add_rows(self.constraint.rows(cuts), np.full(len(cuts), self.constraint.limit))

    def _unknown(self, cuts: Counts) -> Counts:
        """The cuts that are no rows yet; a solver leaves known ones violated up to its tolerance."""
        return cuts[[row.tobytes() not in self.known for row in cuts]]

    def add_everything(self) -> None:
        generator = ConstraintGenerator(self.problem)
        for counts in generator.blocks():
            rows = self.constraint.rows(counts)
            self._add_rows(rows, np.full(len(rows), self.constraint.limit))

    def round(self, seconds: float | None) -> tuple[Status, Counts]:
        """Solve the program once and search its answer."""
        started = time.perf_counter()
        outcome = self.program.solve(self.canonical, seconds)
        searched = time.perf_counter()
        self.rounds += 1
        self.iterations += outcome.iterations
        self.upper_bound = min(self.upper_bound, self._bound(outcome))
        noise = self._noise(outcome)
        above = self.constraint.limit + CUT_TOLERANCE
        found = worst_case(noise, self.constraint, above=above, most=CUTS_PER_ROUND, refine=False)
        cuts = self._unknown(found.cuts)
        if not len(cuts):
            found = worst_case(noise, self.constraint, above=above, most=CUTS_PER_ROUND)
            cuts = self._unknown(found.cuts)
        self.violation = found.value - self.constraint.limit
        kept = min(1.0, self.constraint.limit / found.bound) if found.bound > 0 else 1.0
        utility = kept * self.utility(noise)
        if self.best is None or utility >= self.best[0]:
            self.best = (utility, noise, found)
        self.seconds["program"] += searched - started
        self.seconds["search"] += time.perf_counter() - searched
        return outcome.status, cuts

    def finish(self, status: Status, method: str, started: float) -> Solution:
        """Certify the best answer and prove how good it is."""
        before = time.perf_counter()
        if self.best is None:
            raise AssertionError("finish() before the first round()")
        noise, certificate = repair(self.best[1], self.best[2], self.constraint)
        certified = time.perf_counter()
        if status is Status.OPTIMAL:
            outcome = self.program.solve(self.weights)
            self.iterations += outcome.iterations
            self.upper_bound = min(self.upper_bound, self._bound(outcome))
        done = time.perf_counter()
        self.seconds["certify"] += certified - before
        self.seconds["program"] += done - certified
        self.seconds["total"] = done - started
        return Solution(
            problem=self.problem,
            objective=self.objective,
            shape=self.shape,
            noise=noise,
            utility=self.utility(noise),
            upper_bound=self.upper_bound,
            status=status,
            certificate=certificate,
            method=method,
            backend=self.backend,
            statistics=Statistics(self.limits.size, self.rounds, self.iterations, self.seconds),
        )

    def progress(self, seconds: float) -> Progress:
        return Progress(self.rounds, self.limits.size, self.best[0] if self.best else 0.0, self.upper_bound, self.violation, seconds)

    def utility(self, noise: NoiseFunction) -> float:
        return float(self.weights @ noise.values[self.problem.K // 2 + 1 :])

    def _bound(self, outcome: Outcome) -> float:
        return dual_bound(self.weights, self.rows, self.limits, outcome.multipliers, self.problem.K)

    def _noise(self, outcome: Outcome) -> NoiseFunction:
        upper = np.clip(np.nan_to_num(outcome.upper_half, nan=0.0), 0.0, 1.0)
        if self.shape == "monotone":
            upper = np.maximum.accumulate(upper)  # the solver keeps the order up to its tolerance only
        return NoiseFunction.from_upper_half(upper, self.problem.K)


def _check_choices(problem: Problem, shape: str, method: str, backend: str, time_limit: float | None) -> None:
    if not isinstance(problem, Problem):
        raise InvalidInput("problem", problem, "a Problem")
    if shape not in ("free", "monotone"):
        raise InvalidInput("shape", shape, "'free' or 'monotone'")
    if method not in ("auto", "enumerate", "cuts"):
        raise InvalidInput("method", method, "'auto', 'enumerate' or 'cuts'")
    if backend not in BACKENDS:
        raise InvalidInput("backend", backend, "one of " + ", ".join(BACKENDS))
    if time_limit is not None and not time_limit > 0:
        raise InvalidInput("time_limit", time_limit, "None, or seconds above 0")
    if method == "enumerate" and ConstraintGenerator(problem).size > ENUMERABLE_ROWS:
        raise InvalidInput(
            "method",
            method,
            f"a constraint set of at most {ENUMERABLE_ROWS:,} vectors",
            f"This one has {ConstraintGenerator(problem).size:,}; method = 'cuts' gives the same answer.",
        )
