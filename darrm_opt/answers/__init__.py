"""Answers as plain data: what a service, an offline table and the command line say in the same words.

    curves        errors over p and over the allowance, privacy profiles
    accounting    totals of many releases, comparisons, plans, labelling experiments
    running_time  what a design, a plan or a comparison would cost, before anything is solved

A function with the arguments ``(argument, report)`` takes and returns plain data, so that a worker process can run it.
Requests are stated here in the form of the REST interface.
"""

from collections.abc import Callable, Iterable
from typing import Any

from darrm_opt.design_spec import DesignSpec
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_record

Report = Callable[[Any], None]
"""Called now and then by what takes long, with its progress as plain data or None; it may raise to stop the work."""


DRAW = ("n", "subsample_size", "replacement", "sampling")
"""How the voters' subsamples are drawn, as a request names it."""


def numbers(problem: Problem) -> dict[str, Any]:
    """Return a problem as a request states it: every number as it is kept, so that nothing is rounded twice."""
    record = problem_record(problem)
    del record["m"]  # the target ε says it already
    return record


def design(spec: DesignSpec) -> dict[str, Any]:
    """Return a design as a request states it."""
    return {**numbers(spec.problem), "objective": str(spec.objective), "shape": spec.shape}


def budget_body(problem: Problem, queries: int, total: Privacy) -> dict[str, Any]:
    """Return the voters of a problem, and what all releases together may cost, as a request states them."""
    record = numbers(problem)
    voters = {name: record[name] for name in ("K", "epsilon", "Delta", "affected")}
    return {**voters, "queries": queries, "total_epsilon": total.epsilon, "total_delta": total.delta}


def draw_body(n: int | None, subsample_size: int | None, replacement: bool, sampling: str) -> dict[str, Any]:  # noqa: FBT001
    """Return the draw as a request states it: nothing where nothing is said of it."""
    draw = dict(zip(DRAW, (n, subsample_size, replacement, sampling), strict=True))
    return {} if draw == dict(zip(DRAW, (None, None, True, "independent"), strict=True)) else draw


def as_list(values: Iterable[Any] | None) -> list[Any] | None:
    """Return what a request lists; None where that is left to the other side."""
    return None if values is None else list(values)
