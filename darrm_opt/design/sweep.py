"""Sweep over privacy: γ_opt for many allowances m. Its inverse, the least m for a wanted utility, is in `inverse`.

A multiset that binds at one m nearly binds at the next, so each solve starts from the rows of the last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from darrm_opt.design.constraint import Counts
from darrm_opt.design.objective import AnyObjective
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import Shape, solve_warm
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem

MIN_SOLVE_SECONDS = 1e-3
"""Time limit of a solve for which nothing of the total is left."""


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
    problems = [problem.with_allowance(m, delta) for m in ms]
    solutions = dict(solve_sweep(problems, objective, shape, **options))
    target_epsilons = tuple(problem.target.epsilon for problem in problems)
    return Tradeoff(target_epsilons, tuple(solutions[i] for i in range(len(problems))))


def solve_sweep(
    problems: Sequence[Problem],
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    total_time_limit: float | None = None,
    **options: Any,
) -> Iterator[tuple[int, Solution]]:
    """Yield the place of each problem and its γ_opt, the strictest target first.

    Each solve starts from the rows of the last.

    Guarantees: The same solutions as one `solve` after another; only faster.
    """
    deadline = None if total_time_limit is None else time.monotonic() + total_time_limit
    rows: Counts | None = None
    for i in sorted(range(len(problems)), key=lambda i: problems[i].target.epsilon):
        if deadline is not None:
            options["time_limit"] = max(deadline - time.monotonic(), MIN_SOLVE_SECONDS)
        solution, rows = solve_warm(problems[i], objective, shape, rows=rows, **options)
        yield i, solution
