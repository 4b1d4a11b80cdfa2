"""Entries of a table file: its columns, the check that they match the record, and the import into a store.

A table holds each row's record verbatim with its SHA-256, and columns derived from it for readers without this
program. Reading compares them: a row whose hash or column does not match was changed, and is rejected. The rest is
proved: see `solver_cache.validate.validate_row`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from darrm_opt._version import __version__
from darrm_opt.errors import DarrmError
from darrm_opt.record import CORE, FORMAT, canonical_json, digest
from darrm_opt.untrusted import UNREADABLE, json_value
from solver_cache.model import Row, kind_of_record
from solver_cache.store import Store
from solver_cache.validate import InvalidRow, prove_row, read_row, validate_row

TABLE = 1  # version of the layout of table files

NUMBERS = (
    *("epsilon", "Delta", "target_epsilon", "delta", "utility", "upper_bound", "gap"),
    *("bound", "limit", "margin", "error_bound", "worst_value"),
)
COUNTS = ("core", "K", "affected")
LISTS = ("gamma",)
COLUMNS = (
    *("id", "K", "m", "epsilon", "Delta", "affected", "target_epsilon", "delta", "objective", "shape"),
    *("utility", "upper_bound", "gap", "gamma", "certificate"),
    *("bound", "limit", "margin", "error_bound", "worst_value"),
    *("version", "core", "sha256", "record"),
)
"""Columns of a table, in order: question, answer, certificate, origin, record.

``m`` is null for voters without one; ``certificate`` is its method; ``version`` is that of the program that proved
it. For a table of any number of classes ``shape`` states the classes, ``gamma`` holds its values, and ``certificate``
is "edges", or "corners" for groups of voters, which ``objective`` lists.
"""


class TableError(DarrmError):
    """A table file cannot be read or written."""


@dataclass(frozen=True)
class Entry:
    """One row of a table file."""

    number: int  # position in the table, from 1
    row: Row | None  # its content, consistent but unproved; None if it is inconsistent
    trouble: str = ""  # why it is inconsistent


def head() -> dict[str, Any]:
    """Return the header of a table file."""
    return {"table": TABLE, "format": FORMAT, "core": CORE, "written_by": f"darrm-opt {__version__}"}


def check_head(content: Any) -> None:
    """Raise TableError for a header of another layout."""
    if not isinstance(content, Mapping) or "table" not in content:
        raise TableError("This is not a table of darrm-opt: it has no version.")
    if content["table"] != TABLE:
        version = f"{content['table']!r:.20}"
        raise TableError(f"The table has version {version}; this program reads {TABLE}. Upgrade darrm-opt.")


def columns_of(row: Row) -> dict[str, Any]:
    """Return the columns derived from a row's record."""
    try:
        record = json_value(row.record)
        values = kind_of_record(record).columns(record)
    except UNREADABLE as err:
        raise TableError(f"its record cannot be read: {err!r:.200}") from err
    row_values = {"id": row.key, "core": row.core, "sha256": row.digest, "record": row.record}
    return {name: row_values[name] if name in row_values else _exact(name, values[name]) for name in COLUMNS}


def entry(number: int, columns: Mapping[str, Any], *, whole: bool = True) -> Entry:
    """Return the entry of a row that was read; unless ``whole``, derived columns may be missing."""
    for name, kind in (("id", str), ("core", int), ("record", str), ("sha256", str)):
        if type(value := columns.get(name)) is not kind:
            return Entry(number, None, f"its column {name!r} is {value!r:.60}")
    row = Row(columns["id"], columns["core"], columns["record"], columns["sha256"])
    if row.digest != digest(row.record):
        return Entry(number, None, "its record does not match its SHA-256")
    try:
        expected = columns_of(row)
    except TableError as err:
        return Entry(number, None, str(err))
    for name, value in expected.items():
        if name not in columns:
            if not whole:
                continue
            return Entry(number, None, f"it has no column {name!r}")
        if not _same(columns[name], value):
            return Entry(
                number, None, f"its column {name!r} is {columns[name]!r:.60}; by its record it is {value!r:.60}"
            )
    return Entry(number, row)


def record_text(record: Any) -> str:
    """Return the canonical spelling of a parsed record."""
    try:
        return canonical_json(record)
    except (ValueError, RecursionError) as err:
        raise TableError(f"its record cannot be written: {err}") from err


def json_or_none(text: Any) -> Any:
    """Return the value of a JSON text, or None if it is malformed."""
    try:
        return json_value(text)
    except (ValueError, TypeError, AttributeError):
        return None


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*NUMBERS, "m"), (int, float)),
    **dict.fromkeys(COUNTS, (int,)),
    **dict.fromkeys(LISTS, (list,)),
}
"""Types of the columns in a record; the others are strings."""


def _exact(name: str, value: Any) -> Any:
    """Return a value in the type of its column; integers may stand for reals in JSON."""
    if name == "m" and value is None:
        return None
    if type(value) not in _KINDS.get(name, (str,)):
        raise TableError(f"{name} in its record is {value!r:.60}")
    if name in LISTS:
        if not all(type(number) in {int, float} for number in value):
            raise TableError(f"{name} in its record has a value that is not a number")
        return [float(number) for number in value]
    return float(value) if name in NUMBERS or name == "m" else value


def _same(cell: Any, value: Any) -> bool:
    """Whether two values are equal bit for bit: −0.0 differs from 0.0."""
    if isinstance(value, float):
        return type(cell) is float and cell.hex() == value.hex()
    if isinstance(value, list):
        return type(cell) is list and len(cell) == len(value) and all(map(_same, cell, value))
    return type(cell) is type(value) and bool(cell == value)


@dataclass(frozen=True)
class ImportResult:
    """Result of importing a row."""

    number: int  # position in the table, from 1
    # "known": an answer to its question is stored already, and stays
    became: Literal["new", "known", "refused"]
    key: str = ""  # its key; empty if it cannot be read
    reason: str = ""  # why it was refused


IMPORTED_AT_ONCE = 200  # rows proved and then stored in one transaction


def import_rows(entries: Iterable[Entry], store: Store, processes: int = 1) -> Iterator[ImportResult]:
    """Prove the rows of a table and store the valid ones; yield the result of each.

    Args:
        entries: entries of the table.
        store: destination.
        processes: processes that prove rows. With more than one they start once the table is longer than
            `IMPORTED_AT_ONCE`, and this process only stores.

    Guarantees:
        Only rows that pass `solver_cache.validate.prove_row` are stored: private as stored, proved by this program,
        for the question of their keys.
    """
    batches = iter(partial(_batch, iter(entries)), [])
    for batch in itertools.islice(batches, 1):
        yield from _store_proved(batch, prove_entries(batch), store)
    if processes == 1:
        for batch in batches:
            yield from _store_proved(batch, prove_entries(batch), store)
    elif (second := next(batches, None)) is not None:
        from solver_cache.process_pool import map_in_processes

        for batch, proved in map_in_processes(prove_entries, itertools.chain([second], batches), processes, "import"):
            yield from _store_proved(batch, proved, store)


def _batch(entries: Iterator[Entry]) -> list[Entry]:
    """Return the next entries; none at the end."""
    return list(itertools.islice(entries, IMPORTED_AT_ONCE))


def prove_entries(entries: Sequence[Entry], _report: Any = None) -> list[Row | str]:
    """Return the proved row of each entry, or why it is rejected."""
    proved: list[Row | str] = []
    for each in entries:
        try:
            proved.append(each.trouble if each.row is None else prove_row(each.row))
        except InvalidRow as err:
            proved.append(str(err))
    return proved


def _store_proved(entries: Sequence[Entry], proved: Sequence[Row | str], store: Store) -> Iterator[ImportResult]:
    rows: dict[str, Row] = {}
    for row in proved:
        if isinstance(row, Row):
            rows.setdefault(row.key, row)  # the first of two rows with one key
    # The first writer wins, unless its row is invalid.
    stood = {
        key: stored_row
        for key, stored_row in store.put_many([*rows.values()]).items()
        if stored_row == rows[key]
        or validate_row(stored_row).decision == "hit"
        or store.put(rows[key], replacing=stored_row) != rows[key]
    }
    for each, row in zip(entries, proved, strict=True):
        if isinstance(row, str):
            yield ImportResult(each.number, "refused", "" if each.row is None else each.row.key, row)
        else:
            yield ImportResult(each.number, "known" if row.key in stood else "new", row.key)
            stood.setdefault(row.key, row)


class ExportableRows:
    """Iterable, once, of the valid rows of this version; counts the others."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.left_out = 0  # rows skipped so far

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            try:
                read_row(row)
            except InvalidRow:
                self.left_out += 1
            else:
                yield row
