"""Table files: answers with their certificates, to ship with the jobs that use them, in four formats.

A table does not depend on when or where it is written: the same answers make the same file, byte for byte. Each
format has a header (`solver_cache.table_entries.head`) and counts its rows, so truncation is detected.

JSON Lines    the header, one row a line with its record as JSON, and a trailer with a row count and a hash
CSV           column names, then one row a line, for any reader of CSV
Parquet       typed columns, γ as a list of doubles, the header in the file's metadata; through pyarrow
SQLite        also a store, readable as a cache (``?mode=ro``), with a view of the same columns

Numbers in CSV read back as the same doubles; γ and the record are JSON within their cells. CSV has two more columns:
``table``, the version of the layout, in each row, and ``end``, empty but in the last row. A table without rows has no
column ``end``.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from darrm_opt.durable_file import replacing
from darrm_opt.errors import InvalidInput
from darrm_opt.optional_packages import require
from darrm_opt.record import canonical_json
from solver_cache.model import Row, SearchColumns
from solver_cache.model import columns_of as asked_columns
from solver_cache.store import open_store
from solver_cache.table_entries import (
    COLUMNS,
    COUNTS,
    LISTS,
    NUMBERS,
    TABLE,
    Entry,
    TableError,
    check_head,
    columns_of,
    entry,
    head,
    json_or_none,
    record_text,
)


def write_table(path: str | Path, rows: Iterable[Row], name: str | None = None) -> int:
    """Write a table file atomically; return the number of rows."""
    path = Path(path)
    format_ = format_of(path, name)
    try:
        with replacing(path, 0o644) as draft:
            return format_.write(draft, rows)
    except (OSError, UnicodeEncodeError) as err:  # SQLite accepts only valid text as a name
        raise TableError(f"{path} cannot be written: {err}") from err


def read_table(path: str | Path, name: str | None = None) -> Iterator[Entry]:
    """Yield the entries of a table file, unproved."""
    path = Path(path)
    if not path.is_file():
        raise InvalidInput("FILE", str(path), "a table file that exists")
    format_ = format_of(path, name)
    try:
        yield from format_.read(path)
    except OSError as err:
        raise TableError(f"{path} cannot be read: {err}") from err


def _write_json_lines(path: Path, rows: Iterable[Row]) -> int:
    number, total = 0, hashlib.sha256()
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(canonical_json(head()) + "\n")
        for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
            columns_of(row)
            record = json.loads(row.record)
            if record_text(record) != row.record:
                raise TableError(f"{row.key}: its record is not in canonical form")
            line = canonical_json({"id": row.key, "core": row.core, "sha256": row.digest, "record": record})
            total.update(row.digest.encode())
            file.write(line + "\n")
        file.write(canonical_json({"end": True, "rows": number, "sha256": total.hexdigest()}) + "\n")
    return number


def _read_json_lines(path: Path) -> Iterator[Entry]:
    number, total, end = 0, hashlib.sha256(), None
    with path.open("rb") as file:
        check_head(json_or_none(file.readline()))
        for line in file:
            content = json_or_none(line)
            if isinstance(content, dict) and "end" in content:
                end = content
                continue
            number += 1
            total.update(str(content.get("sha256") if isinstance(content, dict) else "").encode())
            yield _entry_of_line(number, content)
    _check_end(end, number, total.hexdigest())


def _entry_of_line(number: int, content: Any) -> Entry:
    if not isinstance(content, dict):
        return Entry(number, None, "it is not JSON")
    try:
        return entry(number, {**content, "record": record_text(content.get("record"))}, whole=False)
    except TableError as err:
        return Entry(number, None, str(err))


def _check_end(content: Any, number: int, total: str) -> None:
    """Raise TableError for a table that does not end as it was written."""
    if not isinstance(content, dict):
        raise TableError(f"The table is truncated after row {number}.")
    if (content.get("rows"), content.get("sha256")) != (number, total):
        raise TableError(
            f"The table was changed: its trailer counts {content.get('rows')!r:.20} rows; it has {number}."
        )


def _write_csv(path: Path, rows: Iterable[Row]) -> int:
    number, total, last = 0, hashlib.sha256(), None
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
            # Written one row late: only the last row has an end.
            writer.writerow([*COLUMNS, "table", "end"] if last is None else [*last, TABLE, ""])
            last = [_cell(value) for value in columns_of(row).values()]
            total.update(row.digest.encode())
        end = canonical_json({"rows": number, "sha256": total.hexdigest()})
        writer.writerow([*COLUMNS, "table"] if last is None else [*last, TABLE, end])
    return number


def _read_csv(path: Path) -> Iterator[Entry]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # records exceed the default limit
    number, total, end = 0, hashlib.sha256(), None
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            names = next(reader, [])
            if "table" not in names:
                check_head(None)
            # no last row that could hold the end
            if names == [*COLUMNS, "table"]:
                end = {"rows": 0, "sha256": total.hexdigest()}
            for cells in reader:
                number += 1
                cell_of = dict(zip(names, cells, strict=False))
                check_head({"table": json_or_none(cell_of.get("table"))})
                end = json_or_none(cell_of.get("end")) or end
                # a hash of the rows' hashes detects a row that was removed, doubled or moved.
                total.update(cell_of.get("sha256", "").encode())
                yield (
                    # Only this row is rejected.
                    Entry(number, None, "its number of cells is wrong")
                    if len(cells) != len(names)
                    else entry(number, {name: _value(name, cell) for name, cell in cell_of.items()})
                )
        except csv.Error as err:
            raise TableError(f"The table cannot be read after row {number}: {err}.") from err
    _check_end(end, number, total.hexdigest())


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return canonical_json(value)
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _value(name: str, cell: str) -> Any:
    """Return the value of a cell; its text if that is not the canonical spelling of a value."""
    try:
        value: Any = cell
        if name == "m" and not cell:
            return None
        if name in NUMBERS or name == "m":
            value = float(cell)
        elif name in COUNTS:
            value = int(cell)
        elif name in LISTS:
            value = json.loads(cell)
    except (ValueError, RecursionError):
        return cell
    return value if _cell(value) == cell else cell


ROW_GROUP = 1_000  # rows in a row group of Parquet, and in memory at a time

_PARQUET_HEAD = b"darrm-opt"


def _write_parquet(path: Path, rows: Iterable[Row]) -> int:
    pa, pq = _pyarrow()
    kinds = {
        **dict.fromkeys((*NUMBERS, "m"), pa.float64()),
        **dict.fromkeys(COUNTS, pa.int64()),
        **dict.fromkeys(LISTS, pa.list_(pa.float64())),
    }
    fields = [pa.field(name, kinds.get(name, pa.string()), nullable=name == "m") for name in COLUMNS]
    schema = pa.schema(fields, metadata={_PARQUET_HEAD: canonical_json(head()).encode()})
    number, iterator = 0, iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd", version="2.6", write_page_checksum=True) as writer:
        while group := [columns_of(row) for row in islice(iterator, ROW_GROUP)]:
            writer.write_table(pa.Table.from_pylist(group, schema=schema), row_group_size=ROW_GROUP)
            number += len(group)
    return number


def _read_parquet(path: Path) -> Iterator[Entry]:
    pa, pq = _pyarrow()
    number = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = file.schema_arrow.metadata or {}
            check_head(json_or_none(metadata.get(_PARQUET_HEAD, b"")))
            missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
            if missing:
                raise TableError(f"The table has no column {missing[0]!r}.")
            for batch in file.iter_batches(batch_size=ROW_GROUP, columns=list(COLUMNS)):
                for columns in batch.to_pylist():
                    number += 1
                    yield entry(number, columns)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as err:
        message = str(err).splitlines()[0]
        raise TableError(f"The table cannot be read after row {number}: {message}") from err


def _pyarrow() -> tuple[Any, Any]:
    return require("pyarrow", "A table in Parquet"), require("pyarrow.parquet", "A table in Parquet")


_PROBLEM = ("K", "m", "Delta", "affected", "target_epsilon", "delta")
_ANSWER = ("objective", "shape", "utility", "upper_bound", "gap", "gamma")
_PROOF = ("bound", "limit", "margin", "error_bound", "worst_value", "version")
_FIELDS = ", ".join(
    [f"json_extract(record, '$.problem.{name}') AS \"{name}\"" for name in ("epsilon", *_PROBLEM)]
    + [f"json_extract(record, '$.{name}') AS \"{name}\"" for name in _ANSWER]
    + ["json_extract(record, '$.certificate.method') AS certificate"]
    + [f"json_extract(record, '$.certificate.{name}') AS \"{name}\"" for name in _PROOF]
    + ["core", "digest AS sha256", "record"]
)
VIEW = f"CREATE VIEW darrm_answers AS SELECT key AS id, {_FIELDS} FROM darrm_solutions"  # noqa: S608 — our own names
"""View for readers of SQLite without this program."""


def _write_sqlite(path: Path, rows: Iterable[Row]) -> int:
    names = ("key", "core", "record", "digest", "created", *SearchColumns.__dataclass_fields__)
    insertion = f"INSERT INTO darrm_solutions ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 — our own
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "table.sqlite")
        open_store(f"sqlite:///{draft}").close()  # creates the tables
        with contextlib.closing(sqlite3.connect(draft)) as file:
            file.execute("PRAGMA journal_mode = DELETE")  # a single file, without -wal and -shm
            for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
                columns_of(row)
                values = (row.key, row.core, row.record, row.digest, "", *asked_columns(row.record).values())
                file.execute(insertion, values)
            file.execute("CREATE TABLE darrm_table (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            about = {"end": {"rows": number}, "head": head()}
            about_rows = [(name, canonical_json(value)) for name, value in about.items()]
            file.executemany("INSERT INTO darrm_table VALUES (?, ?)", about_rows)
            file.execute(VIEW)
            file.commit()
            path.unlink(missing_ok=True)
            file.execute("VACUUM INTO ?", (str(path),))  # identical bytes for identical rows
    return number


def _read_sqlite(path: Path) -> Iterator[Entry]:
    number = 0
    try:
        # Immutable: SQLite looks for no lock and no journal.
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as file:
            file.text_factory = lambda text: text.decode(errors="replace")
            about = {name: json_or_none(value) for name, value in file.execute("SELECT name, value FROM darrm_table")}
            check_head(about.get("head"))
            names = ", ".join(SearchColumns.__dataclass_fields__)
            rows = file.execute(f"SELECT key, core, record, digest, {names} FROM darrm_solutions ORDER BY key")  # noqa: S608
            for key, core, record, digest, *hints in rows:
                number += 1
                yield _entry_of_row(number, {"id": key, "core": core, "record": record, "sha256": digest}, hints)
            end = about.get("end")
            if not isinstance(end, dict) or end.get("rows") != number:
                raise TableError(f"The table was changed: it has {number} rows, and its trailer counts others.")
            faults = [str(line) for (line,) in file.execute("PRAGMA integrity_check") if line != "ok"]
            if faults:
                raise TableError(f"The file is damaged: {faults[0]}")
    except UnicodeDecodeError as err:  # SQLite's message quotes the damaged bytes
        raise TableError(f"The table cannot be read after row {number}: its schema is damaged.") from err
    except sqlite3.Error as err:
        raise TableError(f"The table cannot be read after row {number}: {err}") from err


def _entry_of_row(number: int, columns: dict[str, Any], hints: list[Any]) -> Entry:
    result = entry(number, columns, whole=False)
    if result.row is not None and hints != [*asked_columns(result.row.record).values()]:
        return Entry(number, None, "its columns and its record state different questions")
    return result


class Format(NamedTuple):
    """Format of a table file."""

    name: str  # value of ``--format``
    suffixes: tuple[str, ...]  # file name extensions
    write: Callable[[Path, Iterable[Row]], int]  # returns the number of rows
    read: Callable[[Path], Iterator[Entry]]  # raises TableError if the file is truncated or damaged


FORMATS = {
    format_.name: format_
    for format_ in (
        Format("parquet", (".parquet", ".pq"), _write_parquet, _read_parquet),
        Format("csv", (".csv",), _write_csv, _read_csv),
        Format("jsonl", (".jsonl", ".ndjson"), _write_json_lines, _read_json_lines),
        Format("sqlite", (".sqlite", ".sqlite3", ".db"), _write_sqlite, _read_sqlite),
    )
}


def format_of(path: str | Path, name: str | None = None, argument: str = "file") -> Format:
    """Return the format called ``name``; without a name, that of the file's extension. ``argument`` named the file.

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
    raise InvalidInput(argument, str(path), f"a name ending in {ends}", "Or give the format.")
