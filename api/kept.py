"""Reading and writing answers in the store, one blocking call each: for a thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from darrm_opt.design.program import Status
from darrm_opt.record import solution_from_record, solution_record
from solver_cache.errors import CacheError
from solver_cache.examine import inspect
from solver_cache.key import Request
from solver_cache.row import row_of
from solver_cache.solve import recall
from solver_cache.store import Store

_LOG = logging.getLogger("api")


def kept_record(key: str, store: Store) -> dict[str, Any] | None:
    """Return the record kept under ``key``, its γ proved private again for its own problem; None if there is none.

    Raises:
        CacheError: the store cannot be read.
    """
    row = store.get(key)
    if row is None:
        return None
    found = inspect(row)
    if found.solution is None:
        _LOG.warning("%s: row %s is %s and is not given: %s", store.url, key, found.decision, found.reason)
        return None
    return solution_record(found.solution)


def kept_records(requests: Sequence[Request], store: Store) -> list[dict[str, Any] | None]:
    """Return the kept records that answer requests, proved again, None where there is none; raises as `kept_record`."""
    solutions = [recall(request, store) for request in requests]
    return [None if solution is None else solution_record(solution) for solution in solutions]


def keep_records(records: Sequence[dict[str, Any]], store: Store) -> None:
    """Keep those records of new answers that are optimal. That it cannot be done is logged: the answers are there."""
    try:
        for record in records:
            if record["status"] == Status.OPTIMAL.value:
                store.put(row_of(solution_from_record(record)))
    except CacheError as err:
        _LOG.warning("answers are not kept: %s", err)


def nearest_record(request: Request, store: Store) -> dict[str, Any] | None:
    """Return the best kept answer whose guarantee implies the one that is asked, named and labelled; None if none is.

    Raises:
        CacheError: the store cannot be read.
    """
    from solver_cache.nearest import nearest

    found = nearest(request, store)
    return None if found is None else {"id": request.key, "cached": True, **found.record}


def is_kept(key: str, store: Store) -> bool:
    """Whether something is kept under ``key``, unexamined; raises as `kept_record`."""
    return store.get(key) is not None
