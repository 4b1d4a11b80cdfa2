"""Sweep over privacy: γ_opt for many allowances m, and the least m for a wanted utility.

Utility never falls as m grows (what is private at m is private at any larger m with δ no smaller), so the inverse is a
bisection. A multiset that binds at one m nearly binds at the next, so each solve starts from the rows of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.polytope.corners import Counts
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import Shape, solve_warm
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy, Problem, real_number

M_TOLERANCE = 1e-9
"""Relative width at which the bisection for m stops."""

UTILITY_SLACK = 1e-12
"""A utility of 1 is reached up to the repair's scaling, which costs about this much."""

MAX_SWEEP_EPSILON = 100.0
"""Largest target ε that the search for an m tries [nats]."""


@dataclass(frozen=True)
class Tradeoff:
    """γ_opt at many target ε.

    Attributes:
        target_epsilons: [nats], as asked, shape (many,).
        solutions: one for each.
    """

    target_epsilons: tuple[float, ...]
    solutions: tuple[Solution, ...]

    @property
    def utilities(self) -> tuple[float, ...]:
        """Utility of each solution."""
        return tuple(solution.utility for solution in self.solutions)


def tradeoff(
    problem: Problem,
    ms: Sequence[float],
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    delta: float | None = None,
    **options: Any,
) -> Tradeoff:
    """Return γ_opt for many allowances m of the same voters.

    Args:
        problem: gives K, the voters and how many are affected; its own target does not count.
        ms: allowances, each > 0; target ε themselves [nats] where the voters' ε is 0 or inf and m has no meaning.
        objective: as in `solve`.
        shape: as in `solve`.
        delta: δ of every release [probability]; default 1 − (1−Δ)^m for each m.
        options: ``backend``, ``tolerance``, ``time_limit`` (for each solve) as in `solve`.

    Returns:
        Solutions in the order asked, each certified.

    Guarantees:
        The same solutions as one `solve` after another; only faster.

    Raises:
        InvalidInput: an m out of range, or no m at all.
    """
    if len(ms) == 0:
        raise InvalidInput("ms", list(ms), "at least one allowance")
    problems = [_with_allowance(problem, m, delta) for m in ms]
    solutions: dict[int, Solution] = {}
    rows: Counts | None = None
    for i in sorted(range(len(problems)), key=lambda i: problems[i].target.epsilon):
        solutions[i], rows = solve_warm(problems[i], objective, shape, rows=rows, **options)
    return Tradeoff(tuple(one.target.epsilon for one in problems), tuple(solutions[i] for i in range(len(problems))))


def least_m(
    problem: Problem,
    utility: float,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    delta: float | None = None,
    **options: Any,
) -> Solution:
    """Return γ_opt at the least allowance whose certified utility reaches ``utility``.

    Args:
        problem: gives K, the voters and how many are affected; its target ε is where the search starts.
        utility: wanted share of the noiseless utility, in (0, 1].
        objective: as in `solve`.
        shape: as in `solve`.
        delta: δ of the release [probability]; default that of ``problem``.
        options: as in `tradeoff`.

    Returns:
        A solution with utility ≥ ``utility`` (within its tolerance) at a target ε within 1e-9 (relative) of the least;
        its ``problem`` says which m and target ε that is.

    Raises:
        InvalidInput: a utility out of range, or one that no target ε up to that of the plain majority reaches.
    """
    accepted = "a share in (0, 1]"
    wanted = real_number(utility, "utility", accepted)
    if not 0 < wanted <= 1:
        raise InvalidInput("utility", utility, accepted)
    wanted -= UTILITY_SLACK
    fixed = problem.target.delta if delta is None else delta
    rows: Counts | None = None

    def solve_at(epsilon: float) -> Solution:
        nonlocal rows
        solution, rows = solve_warm(
            _at_target(problem, Privacy(epsilon, fixed)), objective, shape, rows=rows, **options
        )
        return solution

    low, best = 0.0, solve_at(0.0)
    if best.utility >= wanted:
        return best
    # double the target until it reaches the utility, then bisect: every solve starts from the rows of the last
    high = max(problem.target.epsilon, 1e-3)
    while (best := solve_at(high)).utility < wanted:
        low, high = high, 2 * high
        if high > MAX_SWEEP_EPSILON:
            raise InvalidInput(
                "utility",
                utility,
                f"a utility that a target ε of {MAX_SWEEP_EPSILON:g} nats reaches",
                "Ask for less.",
            )
    while high - low > M_TOLERANCE * high:
        middle = (low + high) / 2
        solution = solve_at(middle)
        if solution.utility >= wanted:
            high, best = middle, solution
        else:
            low = middle
    return best


def _at_target(problem: Problem, target: Privacy) -> Problem:
    """Return the problem with another target."""
    return Problem(problem.K, problem.voter, target, problem.affected)


def _with_allowance(problem: Problem, m: float, delta: float | None) -> Problem:
    """Return the problem at allowance m (or target ε m, for voters without an m)."""
    epsilon, Delta = problem.voter.epsilon, problem.voter.delta
    if problem.m is None:
        return Problem.from_allowance(problem.K, None, epsilon, Delta, delta, problem.affected, target_epsilon=m)
    return Problem.from_allowance(problem.K, m, epsilon, Delta, delta, problem.affected)
