"""From a table into a store: each row is proved again, and those that are not are refused one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from solver_cache.examine import WrongRow, inspect, read_row
from solver_cache.row import Row, row_of
from solver_cache.store import Store
from solver_cache.tables.check import Entry


@dataclass(frozen=True)
class Imported:
    """What became of a row.

    Attributes:
        number: its place in the table, from 1.
        became: "new", "known" (an answer to its question is kept already, and stands) or "refused".
        key: its key; empty where it has none that can be read.
        reason: why it was refused.
    """

    number: int
    became: Literal["new", "known", "refused"]
    key: str = ""
    reason: str = ""


def import_rows(entries: Iterable[Entry], store: Store) -> Iterator[Imported]:
    """Keep the rows of a table that are proved; yield what becomes of each.

    Guarantees:
        Only what `solver_cache.examine.inspect` takes for an answer is kept: private as stored, proved by this process,
        for the question that its key stands for.

    Raises:
        CacheError: the store cannot be used; the rows told of before are kept.
        TableError: the table ends before its end.
    """
    for entry in entries:
        if entry.row is None:
            yield Imported(entry.number, "refused", reason=entry.trouble)
            continue
        found = inspect(entry.row)
        if found.decision != "hit":
            yield Imported(entry.number, "refused", entry.row.key, found.reason)
            continue
        if row_of(read_row(entry.row)).record != entry.row.record:  # such as a gap, which no proof looks at
            reason = "its record says other things than follow from its numbers"
            yield Imported(entry.number, "refused", entry.row.key, reason)
            continue
        before = store.get(entry.row.key)
        known = before is not None and inspect(before).decision == "hit"
        if not known:  # else whoever came first stands
            known = store.put(entry.row, replacing=before) != entry.row
        became: Literal["new", "known"] = "known" if known else "new"
        yield Imported(entry.number, became, entry.row.key)


def exportable(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows that can be read as answers of this version; what is stale or damaged is left out."""
    for row in rows:
        try:
            read_row(row)
        except WrongRow:
            continue
        yield row
