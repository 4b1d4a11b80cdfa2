"""What a design would cost, before anything is solved.

The reduced constraint set is counted in closed form. The expected time of a solve by cuts is

    ln seconds = a + b·ln(K/101) + c·ln max(s/3, 1) + (d + e·ln(K/101))·ln(1 + 30·K·Δ),      s = target ε / voter ε,

fitted by least squares to processor times of a solve (`tests/campaigns/cost.py`: K = 11 to 201, s = 1.5 to 10, Δ = 0 to 0.3
with K·Δ up to 10, the objectives rectangular and shared(1,1), one core of an AMD EPYC, 2026-11-21), by whether voters have
a Δ; beyond K = 201 it extrapolates. Objectives over scenarios cost `SCENARIO_SECONDS` a scenario and voter more, and
`enumerate` costs `ROW_SECONDS` a row and voter instead (from `benchmarks/results.md`: K = 11 and 15).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.design.solver import MAX_ENUMERATED_ROWS
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Problem
from solver_cache.key import Request

MAX_K = 100_000
"""Most voters for which an estimate is made: the count has 34 digits there."""

WITHOUT = (-3.255, 1.414, -0.646, 0.0, 0.0)
"""(a, b, c, d, e) for voters with Δ = 0."""

WITH = (-2.029, 1.467, -1.078, 0.519, 0.15)
"""(a, b, c, d, e) for voters with Δ > 0."""

SCENARIO_SECONDS = 2e-6
"""Time for one scenario and voter [s]."""

ROW_SECONDS = 5e-7
"""Time for one enumerated row and voter [s]."""

BASIS = "A fit to measured solves of up to 201 voters: right within a factor of 2 mostly, of 10 almost always."
"""What a reader should know of the expectation."""


@dataclass(frozen=True)
class Estimate:
    """What a solve would cost.

    Attributes:
        constraints: size of the permutation-reduced constraint set [rows].
        method: how it would be solved, "cuts" or "enumerate".
        seconds: expected time on one processor [s].
        basis: what the expectation rests on.
    """

    constraints: int
    method: Literal["cuts", "enumerate"]
    seconds: float
    basis: str = BASIS


def estimate(request: Request, method: str = "auto") -> Estimate:
    """Return what the design would cost; nothing is solved.

    Args:
        request: what is asked.
        method: as in `solve`.

    Raises:
        InvalidInput: more than `MAX_K` voters, or more rows than can be enumerated.

    >>> from darrm_opt.problem import Problem
    >>> found = estimate(Request(Problem.from_allowance(K=35, m=3, epsilon=0.1, Delta=1e-5)))
    >>> found.constraints, found.method, 0.02 < found.seconds < 0.2
    (26978328, 'cuts', True)
    """
    problem = request.problem
    if problem.K > MAX_K:
        raise InvalidInput("K", problem.K, f"at most {MAX_K} voters")
    rows = constraints(problem)
    if method == "enumerate":
        if rows > MAX_ENUMERATED_ROWS:
            raise InvalidInput(
                "method", method, f"'cuts' or 'auto': the {rows} rows are more than {MAX_ENUMERATED_ROWS}"
            )
        return Estimate(rows, "enumerate", ROW_SECONDS * rows * problem.K)
    return Estimate(rows, "cuts", _by_cuts(problem) + _for_scenarios(request))


def seconds_of(request: Request) -> float:
    """Return the expected time of a solve by cuts on one processor [s], for any K that a grid may name."""
    return _by_cuts(request.problem) + _for_scenarios(request)


def constraints(problem: Problem) -> int:
    """Return the size of the reduced constraint set: `ConstraintGenerator.size` without the sum.

    With q moving corners and M of r voters on them, Σ_M C(M+q−1, q−1)(K−M+1) = (K+1)·C(r+q, q) − q·C(r+q, q+1).

    >>> constraints(Problem.from_allowance(K=35, m=3, epsilon=0.1))
    8436
    """
    moving = 6 if problem.voter.delta > 0 else 2
    r, K = problem.affected, problem.K
    return (K + 1) * math.comb(r + moving, moving) - moving * math.comb(r + moving, moving + 1)


def _by_cuts(problem: Problem) -> float:
    a, b, c, d, e = WITH if problem.voter.delta > 0 else WITHOUT
    allowance = 3.0 if problem.m is None else problem.m
    size, failing = math.log(problem.K / 101), math.log1p(30 * problem.K * problem.voter.delta)
    return math.exp(a + b * size + c * math.log(max(allowance / 3, 1.0)) + (d + e * size) * failing)


def _for_scenarios(request: Request) -> float:
    if not isinstance(request.objective, ScenarioObjective):
        return 0.0
    asked = dict(request.objective.parameters)
    return SCENARIO_SECONDS * asked.get("points", asked.get("scenarios", 0.0)) * request.problem.K
