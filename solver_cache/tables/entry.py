"""Entries of a table: the columns of a row, and the check that they all agree with its record.

The record is the answer; everything beside it is a copy of parts of it, for whoever reads the file without this
program.
Copies that differ from the record, a hash that does not fit: somebody, or something, changed the file, and the row is
refused. What is then left to be believed is proved: see `solver_cache.validate.validate_row`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from darrm_opt._version import __version__
from darrm_opt.errors import DarrmError
from darrm_opt.record import CORE, FORMAT, canonical_json, digest
from solver_cache.model import Row, kind_of_record

TABLE = 1
"""Version of the layout of table files."""

NUMBERS = (
    *("epsilon", "Delta", "target_epsilon", "delta", "utility", "upper_bound", "gap"),
    *("bound", "limit", "margin", "error_bound", "worst_value"),
)
COUNTS = ("core", "K", "affected")
TEXTS = ("id", "objective", "shape", "certificate", "version", "sha256")
LISTS = ("gamma",)
COLUMNS = (
    *("id", "K", "m", "epsilon", "Delta", "affected", "target_epsilon", "delta", "objective", "shape"),
    *(
        "utility",
        "upper_bound",
        "gap",
        "gamma",
        "certificate",
        "bound",
        "limit",
        "margin",
        "error_bound",
        "worst_value",
    ),
    *("version", "core", "sha256", "record"),
)
"""Columns of a table, in order: the question, the answer, the certificate, where it comes from, the record itself.

``m`` is null where voters have none; ``certificate`` is its method, ``version`` that of the program that proved it.
Of a table for any number of classes ``shape`` says how many, ``gamma`` its values, and ``certificate`` is "edges", or
"corners" of groups of voters, whose objective names them."""


class TableError(DarrmError):
    """A file is not a table that can be read, or written."""


@dataclass(frozen=True)
class Entry:
    """One row of a table as it was read."""

    number: int  # its place in the table, from 1
    row: Row | None  # what it holds, with everything in it saying the same; unproved. None where it does not
    trouble: str = ""  # why not, in words


def head() -> dict[str, Any]:
    """Return what a table says of itself, whatever is in it."""
    return {"table": TABLE, "format": FORMAT, "core": CORE, "written_by": f"darrm-opt {__version__}"}


def check_head(content: Any) -> None:
    """Refuse a table of another layout."""
    if not isinstance(content, Mapping) or "table" not in content:
        raise TableError("This is no table of darrm-opt: it does not say its version.")
    if content["table"] != TABLE:
        version = f"{content['table']!r:.20}"
        raise TableError(f"The table has version {version}; this program reads {TABLE}. Upgrade darrm-opt.")


def columns_of(row: Row) -> dict[str, Any]:
    """Return the columns of a row, from its record."""
    try:
        record = json.loads(row.record)
        values = kind_of_record(record).columns(record)
    except (ValueError, LookupError, TypeError, RecursionError, DarrmError) as err:
        raise TableError(f"its record cannot be read: {err!r:.200}") from err
    row_values = {"id": row.key, "core": row.core, "sha256": row.digest, "record": row.record}
    return {name: row_values[name] if name in row_values else _exact(name, values[name]) for name in COLUMNS}


def entry(number: int, columns: Mapping[str, Any]) -> Entry:
    """Return the entry of a row that was read."""
    try:
        row = Row(*(_of_kind(columns, name, kind) for name, kind in _OWN))
        if row.digest != digest(row.record):
            return Entry(number, None, "its record does not fit its SHA-256")
        for name, value in columns_of(row).items():
            if name not in columns:
                return Entry(number, None, f"it has no column {name!r}")
            if not _same(columns[name], value):
                return Entry(number, None, f"its column {name!r} says {columns[name]!r:.60}, its record {value!r:.60}")
    except TableError as err:
        return Entry(number, None, str(err))
    return Entry(number, row)


_OWN: tuple[tuple[str, type], ...] = (("id", str), ("core", int), ("record", str), ("sha256", str))


def record_text(record: Any) -> str:
    """Return the one spelling of a record that was read as JSON."""
    try:
        return canonical_json(record)
    except (ValueError, RecursionError) as err:
        raise TableError(f"its record cannot be written: {err}") from err


def json_or_none(text: Any) -> Any:
    """Return what a cell, or a line, says as JSON; None where it says nothing."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _of_kind(columns: Mapping[str, Any], name: str, kind: type) -> Any:
    value = columns.get(name)
    if type(value) is not kind:
        raise TableError(f"its column {name!r} says {value!r:.60}")
    return value


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*NUMBERS, "m"), (int, float)),
    **dict.fromkeys(COUNTS, (int,)),
    **dict.fromkeys(TEXTS, (str,)),
    **dict.fromkeys(LISTS, (list,)),
}


def _exact(name: str, value: Any) -> Any:
    """Return a value in the type of its column; whole numbers may stand for real ones in JSON."""
    if name == "m" and value is None:
        return None
    if type(value) not in _KINDS[name]:
        raise TableError(f"{name} in its record is {value!r:.60}")
    if name in LISTS:
        if not all(type(number) in {int, float} for number in value):
            raise TableError(f"{name} in its record holds what is no number")
        return [float(number) for number in value]
    return float(value) if name in NUMBERS or name == "m" else value


def _same(cell: Any, value: Any) -> bool:
    """Whether two values are the same, bit for bit: −0.0 is not 0.0."""
    if isinstance(value, float):
        return type(cell) is float and cell.hex() == value.hex()
    if isinstance(value, list):
        return type(cell) is list and len(cell) == len(value) and all(map(_same, cell, value))
    return type(cell) is type(value) and bool(cell == value)
