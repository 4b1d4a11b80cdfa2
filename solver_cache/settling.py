"""An answer and the job that it came of, which a store keeps and ends at one stroke."""

from __future__ import annotations

from dataclasses import dataclass

from solver_cache.row import Row


@dataclass(frozen=True)
class Settled:
    """A job that is done.

    Attributes:
        job: its id.
        result: what came of it, as text (`solver_cache.jobs.Job.result`).
        row: the answer that is to be kept; None where one is kept already.
    """

    job: str
    result: str
    row: Row | None
