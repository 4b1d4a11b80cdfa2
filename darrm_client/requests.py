"""Requests as plain data, and the protocol of the backends that answer them: a service, or a table file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from darrm_client.transport import Deadline
from darrm_opt.design_spec import DesignSpec
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_record


class ClientBackend(Protocol):
    """Backend of the client: answers as plain data, in the form of the REST interface. The caller verifies them."""

    def ask(self, verb: str, body: dict[str, Any], deadline: Deadline) -> Any:
        """Return the answer to ``POST /v1/<verb>``, waiting for it if need be.

        Raises:
            DarrmError: it was refused, or is not to be had in time.
        """

    def submit(self, body: dict[str, Any], deadline: Deadline) -> Any:
        """Queue a design as a job, unless it is there already; return the job."""

    def job(self, id: str, deadline: Deadline) -> Any:
        """Return a job."""

    def jobs(self, state: str | None, after: str | None, deadline: Deadline) -> Any:
        """Return a page of the jobs, the newest first, and where the next one begins."""

    def result(self, id: str, deadline: Deadline) -> Any:
        """Return the answer of a job that is done."""

    def cancel(self, id: str, deadline: Deadline) -> Any:
        """Cancel a job; return it as it then stands."""

    def add_webhook(self, id: str, url: str, deadline: Deadline) -> Any:
        """Have the end of a job told to an address; return the webhook."""

    def events(self, id: str, deadline: Deadline) -> Iterator[tuple[str, Any]]:
        """Yield what happens to a job, (name, content), until it is over."""

    def designs(self, method: str, path: str, deadline: Deadline) -> Any:
        """Return the answer to a request at ``/v1/designs`` and ``path`` behind it."""

    def close(self) -> None:
        """Let go of what is open."""


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


DRAW = ("n", "subsample_size", "replacement", "sampling")
"""How the voters' subsamples are drawn, as a request names it."""


def draw_body(n: int | None, subsample_size: int | None, replacement: bool, sampling: str) -> dict[str, Any]:  # noqa: FBT001
    """Return the draw as a request states it: nothing where nothing is said of it."""
    draw = dict(zip(DRAW, (n, subsample_size, replacement, sampling), strict=True))
    return {} if draw == dict(zip(DRAW, (None, None, True, "independent"), strict=True)) else draw


def as_list(values: Iterable[Any] | None) -> list[Any] | None:
    """Return what a request lists; None where that is left to the other side."""
    return None if values is None else list(values)
