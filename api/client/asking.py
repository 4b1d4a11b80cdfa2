"""What is asked, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from darrm_opt.design_spec import DesignSpec
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_record


def numbers(problem: Problem) -> dict[str, Any]:
    """Return a problem as a request states it: every number as it is kept, so that nothing is rounded twice."""
    told = problem_record(problem)
    del told["m"]  # the target ε says it already
    return told


def design(request: DesignSpec) -> dict[str, Any]:
    """Return a design as a request states it."""
    return {**numbers(request.problem), "objective": str(request.objective), "shape": request.shape}


def with_allowance(problem: Problem, m: float, delta: float | None) -> Problem:
    """Return the problem of the same voters at another target.

    Args:
        problem: whose voters.
        m: their allowance; the target ε [nats] where m has no meaning.
        delta: δ of the release [probability]; None for the usual one.
    """
    voter = problem.voter
    if problem.m is None:
        return Problem.from_allowance(
            problem.K, None, voter.epsilon, voter.delta, delta, problem.affected, target_epsilon=m
        )
    return Problem.from_allowance(problem.K, m, voter.epsilon, voter.delta, delta, problem.affected)


def budgeted(problem: Problem, queries: int, total: Privacy) -> dict[str, Any]:
    """Return the voters of a problem, and what all releases together may cost, as a request states them."""
    asked = numbers(problem)
    voters = {name: asked[name] for name in ("K", "epsilon", "Delta", "affected")}
    return {**voters, "queries": queries, "total_epsilon": total.epsilon, "total_delta": total.delta}


def listed(values: Iterable[Any] | None) -> list[Any] | None:
    """Return what a request lists; None where that is left to the other side."""
    return None if values is None else list(values)
