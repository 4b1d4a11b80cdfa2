"""SQLite: one file that is a store as well, so that whatever reads a cache reads it (``?mode=ro``), with a view.

The tables are those of the cache. `VIEW` shows the columns of the other formats; ``darrm_table`` holds the head.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from darrm_opt.record import canonical_json
from solver_cache.model import Row, SearchColumns
from solver_cache.model import columns_of as asked_columns
from solver_cache.store import open_store
from solver_cache.tables.entry import Entry, TableError, check_head, columns_of, entry, head, json_or_none

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
"""View for readers that open the file without this program."""


def write(path: Path, rows: Iterable[Row]) -> int:
    """Write rows; return how many."""
    names = ("key", "core", "record", "digest", "created", *SearchColumns.__dataclass_fields__)
    insertion = f"INSERT INTO darrm_solutions ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 — our own
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "table.sqlite")
        open_store(f"sqlite:///{draft}").close()  # makes the tables
        with contextlib.closing(sqlite3.connect(draft)) as file:
            file.execute("PRAGMA journal_mode = DELETE")  # a file by itself, with none beside it
            for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
                columns_of(row)
                values = (row.key, row.core, row.record, row.digest, "", *asked_columns(row.record).values())
                file.execute(insertion, values)
            file.execute("CREATE TABLE darrm_table (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            end = {"rows": number}
            file.executemany(
                "INSERT INTO darrm_table VALUES (?, ?)",
                [("end", canonical_json(end)), ("head", canonical_json(head()))],
            )
            file.execute(VIEW)
            file.commit()
            path.unlink(missing_ok=True)
            file.execute("VACUUM INTO ?", (str(path),))  # the same pages, however they came about
    return number


def read(path: Path) -> Iterator[Entry]:
    """Yield the rows of a table; raises TableError where it is none, or is damaged."""
    number = 0
    try:
        # Immutable: a table file is not written to, so that no lock and no journal is looked for beside it.
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as file:
            file.text_factory = lambda text: text.decode(errors="replace")
            metadata = {
                name: json_or_none(value) for name, value in file.execute("SELECT name, value FROM darrm_table")
            }
            check_head(metadata.get("head"))
            names = [*SearchColumns.__dataclass_fields__]
            rows = file.execute(
                f"SELECT key, core, record, digest, {', '.join(names)} FROM darrm_solutions ORDER BY key"  # noqa: S608
            )
            for key, core, record, digest, *hints in rows:
                number += 1
                yield _entry(number, {"id": key, "core": core, "record": record, "sha256": digest}, hints)
            end = metadata.get("end")
            if not isinstance(end, dict) or end.get("rows") != number:
                raise TableError(f"The table was changed: {number} rows are there, and its end tells of others.")
            faults = [str(line) for (line,) in file.execute("PRAGMA integrity_check") if line != "ok"]
            if faults:
                raise TableError(f"The file is damaged: {faults[0]}")
    except UnicodeDecodeError as err:  # SQLite's complaint quotes what is damaged
        raise TableError(f"The table cannot be read behind row {number}: its schema is damaged.") from err
    except sqlite3.Error as err:
        raise TableError(f"The table cannot be read behind row {number}: {err}") from err


def _entry(number: int, columns: dict[str, Any], hints: list[Any]) -> Entry:
    try:
        row = Row(str(columns["id"]), -1, str(columns["record"]), "")
        result = entry(number, {**columns_of(row), **columns})
    except TableError as err:
        return Entry(number, None, str(err))
    if result.row is not None and hints != [*asked_columns(result.row.record).values()]:
        return Entry(number, None, "its columns say that it answers another question than its record does")
    return result
