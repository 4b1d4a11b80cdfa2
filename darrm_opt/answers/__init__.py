"""Answers as plain data, in the same form for the service, offline tables and the command line.

A function with the arguments ``(argument, report)`` takes and returns plain data, so that a worker process can run it.
Requests have the form of the REST interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec, problem_record

if TYPE_CHECKING:
    from darrm_opt.accounting.sampling import Sampling

Report = Callable[[Any], None]
"""Called at intervals by long computations with their progress as plain data or None; it may raise to stop them."""


DRAW = ("n", "subsample_size", "replacement", "sampling")
"""Fields of a request that describe how the voters' subsamples are drawn."""


SAMPLING = ("records", "sample", "sampling", "neighbours", "labels", "among", "times")
"""Fields of a request that describe how records are sampled for each query."""


VOTERS = ("K", "epsilon", "Delta", "profile", "affected")
"""Fields of the voters; ``profile`` is present only if (ε, Δ) is not all of it."""


def numbers(problem: Problem) -> dict[str, Any]:
    """Return a problem in the form of a request, with every number as stored, so that nothing is rounded twice."""
    record = problem_record(problem)
    del record["m"]  # it follows from the target ε
    return record


def design(spec: DesignSpec) -> dict[str, Any]:
    """Return a design in the form of a request."""
    return {**numbers(spec.problem), "objective": str(spec.objective), "shape": spec.shape}


def voters_body(problem: Problem) -> dict[str, Any]:
    """Return the voters of a problem in the form of a request."""
    record = problem_record(problem)
    return {name: record[name] for name in VOTERS if name in record}


def sampling_of(argument: dict[str, Any]) -> Sampling | None:
    """Return the sampling of `SAMPLING` fields; fields may be missing or None."""
    from darrm_opt.accounting.sampling import Sampling

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
    """Return a sampling by a number of records in the form of a request; {} without sampling."""
    if sampling is None:
        return {}
    if sampling.sample is None and sampling.among is None:
        raise InvalidInput("sampling", sampling, "a Sampling with a number of records")
    record = sampling.record()
    del record["rate"]
    return {"sampling": record.pop("scheme"), **record}


def sampling_record(sampling: Sampling | None) -> dict[str, Any]:
    """Return the field of a record that describes the sampling; {} without sampling."""
    return {} if sampling is None else {"sampling": sampling.record()}
