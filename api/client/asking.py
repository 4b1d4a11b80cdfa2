"""What is asked, and what came back, as plain data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from api.client.errors import Distrusted
from darrm_opt.problem import Problem
from darrm_opt.record import problem_record
from solver_cache.key import Request


def numbers(problem: Problem) -> dict[str, Any]:
    """Return a problem as a request states it: every number as it is kept, so that nothing is rounded twice."""
    told = problem_record(problem)
    del told["m"]  # the target ε says it already
    return told


def design(request: Request) -> dict[str, Any]:
    """Return a design as a request states it."""
    return {**numbers(request.problem), "objective": str(request.objective), "shape": request.shape}


def with_allowance(problem: Problem, m: float, delta: float | None) -> Problem:
    """Return the problem of the same voters at the allowance ``m``, or the target ε ``m`` [nats] where m has no meaning."""
    voter = problem.voter
    if problem.m is None:
        return Problem.from_allowance(
            problem.K, None, voter.epsilon, voter.delta, delta, problem.affected, target_epsilon=m
        )
    return Problem.from_allowance(problem.K, m, voter.epsilon, voter.delta, delta, problem.affected)


def member(told: Any, name: str) -> Any:
    """Return a member of an answer.

    Raises:
        Distrusted: it has none of that name.
    """
    if not isinstance(told, dict) or name not in told:
        raise Distrusted(f"The answer lacks {name}: is this a darrm-opt service of this version?")
    return told[name]


def members(told: Any, kind: type[dict[str, Any] | list[Any]]) -> Collection[Any]:
    """Return the values of an object, or the items of a list, in an answer.

    Raises:
        Distrusted: it is none.
    """
    if not isinstance(told, kind):
        raise Distrusted(f"The answer has {type(told).__name__} where {kind.__name__} should be.")
    return list(told.values()) if isinstance(told, dict) else told
