"""Table files: their formats, writing and reading, and import into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from darrm_opt.durable_file import replacing
from darrm_opt.errors import InvalidInput
from solver_cache.model import Row, row_of
from solver_cache.store import Store
from solver_cache.tables import csv, jsonl, parquet, sqlite
from solver_cache.tables.entry import Entry, TableError
from solver_cache.validate import InvalidRow, read_row, validate_row


@dataclass(frozen=True)
class Format:
    """One format."""

    name: str  # as in ``--format``
    suffixes: tuple[str, ...]  # ends of the names of its files
    write: Callable[[Path, Iterable[Row]], int]  # writes rows to a new file; returns how many
    read: Callable[[Path], Iterator[Entry]]  # yields what is in a file


FORMATS = {
    format_.name: format_
    for format_ in (
        Format("parquet", (".parquet", ".pq"), parquet.write, parquet.read),
        Format("csv", (".csv",), csv.write, csv.read),
        Format("jsonl", (".jsonl", ".ndjson"), jsonl.write, jsonl.read),
        Format("sqlite", (".sqlite", ".sqlite3", ".db"), sqlite.write, sqlite.read),
    )
}


def format_of(path: str | Path, name: str | None = None) -> Format:
    """Return the format that is named, else the one that a file's name ends in.

    >>> format_of("gamma.parquet").name, format_of("gamma.txt", "csv").name
    ('parquet', 'csv')
    """
    if name is not None:
        if name not in FORMATS:
            raise InvalidInput("format", name, "one of " + ", ".join(FORMATS))
        return FORMATS[name]
    suffix = Path(path).suffix.lower()
    for format_ in FORMATS.values():
        if suffix in format_.suffixes:
            return format_
    ends = ", ".join(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
    raise InvalidInput("format", None, "one of " + ", ".join(FORMATS), f"Or a file whose name ends in {ends}.")


def write_table(path: str | Path, rows: Iterable[Row], name: str | None = None) -> int:
    """Write a table, whole or not at all; return how many rows."""
    path = Path(path)
    format_ = format_of(path, name)
    try:
        with replacing(path, 0o644) as draft:
            return format_.write(draft, rows)
    except (OSError, UnicodeEncodeError) as err:  # SQLite takes no name that is not text
        raise TableError(f"{path} cannot be written: {err}") from err


def read_table(path: str | Path, name: str | None = None) -> Iterator[Entry]:
    """Yield what stands in a table, row by row, unproved."""
    path = Path(path)
    if not path.is_file():
        raise InvalidInput("FILE", str(path), "a table file that exists")
    format_ = format_of(path, name)
    try:
        yield from format_.read(path)
    except OSError as err:
        raise TableError(f"{path} cannot be read: {err}") from err


@dataclass(frozen=True)
class ImportResult:
    """Import result of a row."""

    number: int  # its place in the table, from 1
    # "new", "known" (an answer to its question is stored already, and stands) or "refused"
    became: Literal["new", "known", "refused"]
    key: str = ""  # its key; empty where it has none that can be read
    reason: str = ""  # why it was refused


def import_rows(entries: Iterable[Entry], store: Store) -> Iterator[ImportResult]:
    """Store the rows of a table that are proved; yield what becomes of each.

    Guarantees:
        Only what `solver_cache.validate.validate_row` takes for an answer is stored: private as stored, proved by this
        process, for the question that its key stands for.
    """
    for entry in entries:
        if entry.row is None:
            yield ImportResult(entry.number, "refused", reason=entry.trouble)
            continue
        validation = validate_row(entry.row)
        if validation.decision != "hit":
            yield ImportResult(entry.number, "refused", entry.row.key, validation.reason)
            continue
        if row_of(read_row(entry.row)).record != entry.row.record:  # such as a gap, which no proof looks at
            reason = "its record says other things than follow from its numbers"
            yield ImportResult(entry.number, "refused", entry.row.key, reason)
            continue
        stored_row = store.get(entry.row.key)
        is_known = stored_row is not None and validate_row(stored_row).decision == "hit"
        if not is_known:  # else whoever came first stands
            is_known = store.put(entry.row, replacing=stored_row) != entry.row
        yield ImportResult(entry.number, "known" if is_known else "new", entry.row.key)


class ExportableRows:
    """Iterable, once, of the rows that are answers of this version; stale and damaged ones are left out."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.left_out = 0  # how many were left out so far

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows, reading each."""
        for row in self._rows:
            try:
                read_row(row)
            except InvalidRow:
                self.left_out += 1
            else:
                yield row
