"""Sweep over privacy: γ_opt for many allowances m. Its inverse, the least m for a wanted utility, is in `inverse`.

A multiset that binds at one m nearly binds at the next, so each solve starts from the rows of the last.
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
from darrm_opt.problem import Problem


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


def _with_allowance(problem: Problem, m: float, delta: float | None) -> Problem:
    """Return the problem at allowance m (or target ε m, for voters without an m)."""
    epsilon, Delta = problem.voter.epsilon, problem.voter.delta
    if problem.m is None:
        return Problem.from_allowance(problem.K, None, epsilon, Delta, delta, problem.affected, target_epsilon=m)
    return Problem.from_allowance(problem.K, m, epsilon, Delta, delta, problem.affected)
