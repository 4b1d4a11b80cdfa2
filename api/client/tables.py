"""Table files: solutions that were designed before, in a file that goes with the job that uses them.

What is read becomes a `solver_cache.Store`, which is the one protocol that everything behind it knows; a format is one
function from a path to a store, and a line in `READERS`. Nothing in a file is believed: every row is proved when it is used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.record import solution_from_record
from solver_cache.memory.store import MemoryStore
from solver_cache.model import row_of
from solver_cache.store import Store, open_store
from solver_cache.tables.entry import TableError

_LOG = logging.getLogger("api.client")

Reader = Callable[[Path], Store]


def read_table(path: Path) -> Store:
    """Return what a table file holds.

    Args:
        path: its name says its format, one of `READERS`.

    Raises:
        InvalidInput: there is no such file, or it has no format that is read here.
        CacheError: a SQLite file that cannot be used.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput("url", path.name, "a file whose name ends in " + ", ".join(READERS))
    if not path.is_file():
        raise InvalidInput("url", str(path), "a table file that exists")
    return reader(path)


def _database(path: Path) -> Store:
    """Return a SQLite file as the cache makes it, opened for reading only."""
    return open_store(f"sqlite:///{path.absolute()}?mode=ro")


def _exported(path: Path) -> Store:
    """Return a table that ``darrm export`` wrote; rows that do not say the same throughout are left out."""
    from solver_cache.tables.formats import read_table as rows_of

    store = MemoryStore()
    try:
        for entry in rows_of(path):
            if entry.row is None:
                _LOG.warning("%s, row %d is left out: %s", path, entry.number, entry.trouble)
            else:
                store.put(entry.row)
    except TableError as err:
        raise InvalidInput("url", str(path), "a table as darrm export writes it", str(err)) from err
    return store


def _lines(path: Path) -> Store:
    """Return a table in JSON Lines, or else records."""
    try:
        with path.open("rb") as file:
            told = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return _records(path)
    return _exported(path) if isinstance(told, dict) and "table" in told else _records(path)


def _records(path: Path) -> Store:
    """Return records as ``darrm solve --json`` prints them, one after another, on a line each or on several."""
    store = MemoryStore()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as err:
        raise InvalidInput("url", str(path), "a file of records in UTF-8", str(err)) from err
    for line, record in _documents(text, path):
        try:
            store.put(row_of(solution_from_record(record)))
        except (DarrmError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            _LOG.warning("%s, line %d: this is no record of a solution and is left out: %s", path, line, err)
    return store


def _documents(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the JSON documents of a text, each with the line that it begins at."""
    decoder, at, line, seen = json.JSONDecoder(), 0, 1, 0
    while True:
        at = next((i for i in range(at, len(text)) if not text[i].isspace()), len(text))
        if at == len(text):
            return
        line, seen = line + text.count("\n", seen, at), at
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as err:
            raise InvalidInput(
                "url", str(path), "JSON records as darrm solve --json prints them", f"Line {line}: {err}."
            ) from err
        yield line, document


READERS: dict[str, Reader] = {
    ".sqlite": _database,
    ".sqlite3": _database,
    ".db": _database,
    ".parquet": _exported,
    ".pq": _exported,
    ".csv": _exported,
    ".jsonl": _lines,
    ".ndjson": _lines,
    ".json": _records,
}
"""By the end of a file's name."""
