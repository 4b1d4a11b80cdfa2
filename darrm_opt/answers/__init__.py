"""Answers as plain data: what a service, an offline table and the command line say in the same words.

    curves         errors over p and over the allowance, privacy profiles, the inverse of a trade-off
    tables         the best table of alike voters or of groups, among any number of classes
    class_plans    plans among any number of classes: their times, and the proof of groups
    running_time   what a design, a plan or a comparison would cost, before anything is solved
    statement      what a release shows and what it supposes, in sentences
    verification   answers from elsewhere, proved by this process
    decode         the same answers in the types of the library

A function with the arguments ``(argument, report)`` takes and returns plain data, so that a worker process can run it.
Requests are stated here in the form of the REST interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from darrm_opt.accounting.sampling import Sampling
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec, problem_record

if TYPE_CHECKING:
    from darrm_opt.bagging import Bags

Report = Callable[[Any], None]
"""Called now and then by what takes long, with its progress as plain data or None; it may raise to stop the work."""


DRAW = ("n", "subsample_size", "replacement", "sampling")
"""How the voters' subsamples are drawn, as a request names it."""


SAMPLING = ("records", "sample", "sampling", "neighbours", "labels", "among", "times")
"""How records are drawn anew for every query, as a request names it."""


VOTERS = ("K", "epsilon", "Delta", "profile", "affected")
"""Fields of the voters; a profile is left out where (ε, Δ) is all of it."""


def numbers(problem: Problem) -> dict[str, Any]:
    """Return a problem as a request states it: every number as it is kept, so that nothing is rounded twice."""
    record = problem_record(problem)
    del record["m"]  # the target ε says it already
    return record


def design(spec: DesignSpec) -> dict[str, Any]:
    """Return a design as a request states it."""
    return {**numbers(spec.problem), "objective": str(spec.objective), "shape": spec.shape}


def voters_body(problem: Problem) -> dict[str, Any]:
    """Return the voters of a problem as a request states them."""
    record = problem_record(problem)
    return {name: record[name] for name in VOTERS if name in record}


def budget_body(problem: Problem, queries: int, total: Privacy) -> dict[str, Any]:
    """Return the voters of a problem, and what all releases together may cost, as a request states them."""
    asked = {"queries": queries, "total_epsilon": total.epsilon, "total_delta": total.delta}
    return voters_body(problem) | asked


def draw_body(bags: Bags | None) -> dict[str, Any]:
    """Return the draw of the voters' subsamples as a request states it: nothing where there is none."""
    return {} if bags is None else {name: getattr(bags, name) for name in DRAW}


def sampling_of(argument: dict[str, Any]) -> Sampling | None:
    """Return the sampling of `SAMPLING` fields, of which those that are None or missing are not given."""
    given = {name: argument[name] for name in SAMPLING if argument.get(name) is not None}
    if "records" not in given:
        for name, value in given.items():
            raise InvalidInput(name, value, Rule("needs records"))
        return None
    return Sampling(
        given["records"],
        given.get("sample"),
        scheme=given.get("sampling", "poisson"),
        neighbours=given.get("neighbours"),
        labels=given.get("labels", 1),
        among=given.get("among"),
        times=given.get("times", 1),
    )


def sampling_body(sampling: Sampling | None) -> dict[str, Any]:
    """Return a sampling by a number of records as a request states it: nothing where there is none."""
    if sampling is None:
        return {}
    if sampling.sample is None and sampling.among is None:
        raise InvalidInput("sampling", sampling, "a Sampling with a number of records")
    record = sampling.record()
    del record["rate"]
    return {"sampling": record.pop("scheme"), **record}


def sampling_record(sampling: Sampling | None) -> dict[str, Any]:
    """Return what an answer or a record says of how records are drawn anew: nothing where they are not."""
    return {} if sampling is None else {"sampling": sampling.record()}


def as_list(values: Iterable[Any] | None) -> list[Any] | None:
    """Return what a request lists; None where that is left to the other side."""
    return None if values is None else list(values)
