"""A row: one kept answer, as text with its hash."""

from __future__ import annotations

from dataclasses import dataclass

from darrm_opt.design.solution import Solution
from darrm_opt.record import solution_record
from solver_cache.key import CORE, Request, canonical_json, digest


@dataclass(frozen=True)
class Row:
    """What a store keeps under one key. Anything in it may be wrong: see `examine`.

    Attributes:
        key: content key of the request that it answers (`Request.key`).
        core: version of the answers that wrote it (`CORE`).
        record: canonical JSON of `darrm_opt.record.solution_record`.
        digest: SHA-256 of ``record``; finds accidents, proves nothing (whoever can write a row can hash it).
    """

    key: str
    core: int
    record: str
    digest: str


def row_of(solution: Solution) -> Row:
    """Return the row that keeps ``solution``."""
    request = Request(solution.problem, solution.objective, "monotone" if solution.shape == "monotone" else "free")
    record = canonical_json(solution_record(solution))
    return Row(request.key, CORE, record, digest(record))
