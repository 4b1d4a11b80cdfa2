"""Repository of answers: load and save records in the store, one blocking call each, for use in a thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from darrm_opt.design.solution import Status
from darrm_opt.design_spec import CORE, DesignSpec, canonical_json, digest
from solver_cache.errors import CacheError
from solver_cache.kinds import TABLE, Answer, Spec, kind_of, kind_of_record
from solver_cache.model import Row
from solver_cache.solve import keep_row, recall
from solver_cache.store import Store
from solver_cache.validate import validate_row

_LOG = logging.getLogger("api")


def load_record(key: str, store: Store) -> dict[str, Any] | None:
    """Return the record stored under ``key``, proved private again for its own problem; None if there is none.

    The record of a table says so (`solver_cache.kinds`).

    Raises:
        CacheError: the store cannot be read.
    """
    row = store.get(key)
    if row is None:
        return None
    validation = validate_row(row)
    if validation.solution is None:
        _LOG.warning("%s: row %s is %s and is not given: %s", store.url, key, validation.decision, validation.reason)
        return None
    return _record(validation.solution)


def is_table(record: dict[str, Any]) -> bool:
    """Tell whether a record is that of a table, and not of a γ."""
    return kind_of_record(record) is TABLE


def _record(answer: Answer) -> dict[str, Any]:
    return kind_of(answer).record(answer)


def load_records(requests: Sequence[Spec], store: Store) -> list[dict[str, Any] | None]:
    """Return the stored records that answer requests, proved again, or None for each; raises as `load_record`."""
    solutions = [recall(request, store) for request in requests]
    return [None if solution is None else _record(solution) for solution in solutions]


def save_record(spec: Spec, record: dict[str, Any], store: Store) -> tuple[dict[str, Any], bool, str]:
    """Store an optimal answer that its solver process has proved; return the record then stored, and whether one is.

    A bad row in its place is replaced; a good one stays, and is returned. The third value is the reason why the answer
    was not stored, which is logged as well; usually it is empty.
    """
    try:
        row = store.get(spec.key)
    except CacheError as err:
        _LOG.warning("the answer to %s is not stored: %s", spec.key, err)
        return record, False, str(err)
    solution: Answer | None = validate_row(row, spec).solution
    if solution is None:
        text = canonical_json(record)
        result = keep_row(Row(spec.key, CORE, text, digest(text)), spec, store, row)
        if result.other is None:
            return record, result.stored, result.trouble
        solution = result.other
    return _record(solution), True, ""


def save_records(answers: Sequence[tuple[Spec, dict[str, Any]]], store: Store) -> None:
    """Store the new answers that solving again would not improve, as `save_record` does; failures are only logged."""
    for request, record in answers:
        if Status(record["status"]).is_final:
            save_record(request, record, store)


def load_nearest(spec: DesignSpec, store: Store) -> dict[str, Any] | None:
    """Return the best stored answer whose guarantee implies the one that is asked, labelled; None if there is none.

    Raises:
        CacheError: the store cannot be read.
    """
    from solver_cache.nearest import nearest

    match = nearest(spec, store)
    return None if match is None else {"id": spec.key, "cached": True, **match.record}


def has_record(key: str, store: Store) -> bool:
    """Tell whether a row is stored under ``key``, without proving it; raises as `load_record`."""
    return store.get(key) is not None
