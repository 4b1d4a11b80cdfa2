"""What `darrm cache` does with a store, as plain data."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solver_cache import Store

DAY = 86_400
"""Seconds in a day."""


def opened(url: str | None, *, reading: bool) -> Store:
    """Open a store; to look at a database, for reading only: so that looking makes and migrates nothing.

    Args:
        url: of the store; None for that of the environment, or the user's own.
        reading: whether it is only looked at.

    Raises:
        CacheError: it cannot be used.
    """
    import os

    from solver_cache import cache_url, open_store

    url = url or cache_url(os.environ)
    if reading and "://" in url and "mode=" not in url:
        url += ("&" if "?" in url else "?") + "mode=ro"
    return open_store(url)


def listed(store: Store, limit: Any, after: str) -> list[dict[str, Any]]:
    """Return kept answers by key, as their records describe them; nothing is proved.

    Raises:
        InvalidInput: ``limit`` is no whole number of at least 1.
    """
    from darrm_opt.errors import InvalidInput
    from solver_cache.model import search_columns

    if not isinstance(limit, int) or limit < 1:
        raise InvalidInput("limit", limit, "a whole number, at least 1")
    found = []
    for row in itertools.islice(store.rows(after), limit):
        asked = search_columns(row.record)
        said = {} if asked is None else asdict(asked)
        names = {
            "K": "voters",
            "epsilon": "voter_epsilon",
            "Delta": "voter_delta",
            "affected": "affected",
            "target_epsilon": "target_epsilon",
            "delta": "target_delta",
            "objective": "objective",
            "shape": "shape",
            "utility": "utility",
        }
        values = {name: said.get(column) for name, column in names.items()}
        found.append({"id": row.key, "core": row.core, **values, "epsilon": _finite(values["epsilon"])})
    return found


def counted(store: Store) -> dict[str, Any]:
    """Return what is kept, counted."""
    return {"url": store.url, **asdict(store.stats())}


def checked(store: Store) -> list[dict[str, str]]:
    """Return everything that is wrong with a store: every answer is proved again."""
    from solver_cache import check

    return [asdict(finding) for finding in check(store)]


def pruned(store: Store, days: Any, *, prove: bool) -> dict[str, int]:
    """Forget answers that would be misses, and jobs that were over so many days ago; return how many.

    Args:
        store: where they are.
        days: age of the jobs that go [days], at least 0.
        prove: whether each answer is proved again to find out; else only its hash, version and form are looked at.

    Raises:
        InvalidInput: ``days`` is not such a number.
        CacheError: the store cannot be written.
    """
    from darrm_opt.errors import InvalidInput
    from solver_cache import validate
    from solver_cache.validate import InvalidRow, read_row

    if not isinstance(days, int | float) or not 0 <= days < float("inf"):
        raise InvalidInput("days", days, "a number of days, at least 0")
    answers = 0
    for row in store.rows():
        if prove:
            bad = validate(row).decision != "hit"
        else:
            try:
                read_row(row)
                bad = False
            except InvalidRow:
                bad = True
        answers += bad and store.remove(row)
    return {"answers": answers, "jobs": store.jobs.prune(time.time() - days * DAY)}


def migrated(store: Store) -> dict[str, Any]:
    """Return from which schema a store that was opened came to which, and how many rows were filled in after."""
    schema = store.stats().schema
    filled = store.fill() if hasattr(store, "fill") else 0
    return {"url": store.url, "from": getattr(store, "found_schema", schema), "to": schema, "filled": filled}


def _finite(number: float | None) -> float | str | None:
    return "inf" if number == float("inf") else number
