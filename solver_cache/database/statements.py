"""SQL statements, for SQLite through its own driver, and the differences to PostgreSQL (`engine`)."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

Values = Sequence[Mapping[str, Any]]


class Statements(Protocol):
    """Statements of one transaction.

    Parameters are written ``:name``; ``:now`` is the time of the database's clock [s since 1970-01-01 UTC].
    """

    dialect: str  # "sqlite" or "postgresql"

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Execute a statement; return its rows, if any."""

    def change(self, sql: str, values: Values) -> int:
        """Execute a statement once for each of ``values``, at least one; return the number of changed rows."""

    def listed(self, texts: Collection[str]) -> Any:
        """Return texts as one parameter, for `is_listed` and `LISTED`."""


class SqliteStatements:
    """Statements on a connection of SQLite's driver."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = self._connection.execute(sql, {"now": time.time(), **values}).fetchall()
        return rows

    def change(self, sql: str, values: Values) -> int:
        now = time.time()
        return self._connection.executemany(sql, ({"now": now, **each} for each in values)).rowcount

    def listed(self, texts: Collection[str]) -> Any:
        return json.dumps([*texts])


LISTED = {
    "sqlite": "json_each(:keys)",
    "postgresql": "unnest(CAST(:keys AS text[])) AS value",
}
"""Table with the column ``value`` of the texts bound as ``:keys`` by `Statements.listed`."""

FOR_UPDATE = {"sqlite": "", "postgresql": "FOR UPDATE"}
"""Clause that locks the rows of a query; SQLite admits one writing transaction at a time."""

SKIP_LOCKED = {"sqlite": "", "postgresql": "SKIP LOCKED"}
"""Clause, after `FOR_UPDATE`, that skips rows locked by another transaction."""


def is_listed(statements: Statements, column: str = "key") -> str:
    """Return the condition that ``column`` holds one of the texts bound as ``:keys`` by `Statements.listed`."""
    if statements.dialect == "sqlite":
        return f"{column} IN (SELECT value FROM json_each(:keys))"
    return f"{column} = ANY(CAST(:keys AS text[]))"


def belongs(table: str, clients: str, key: str) -> str:
    """Return the condition that a row belongs to ``:client``, or to no client."""
    of_row = f"SELECT 1 FROM {clients} clients WHERE clients.{key} = {table}.{key}"
    return f"(EXISTS ({of_row} AND clients.client = :client) OR NOT EXISTS ({of_row}))"


class DamagedDatabase(Exception):
    """The database contains something that this program did not write."""


def stored_values(kind: Any, row: Sequence[Any]) -> tuple[dict[str, Any], bool]:
    """Return a row as the fields of a dataclass, and whether all have their types, which SQLite does not enforce."""
    types: dict[str, Any] = {"int": int, "float": (int, float)}
    values, is_whole = dict[str, Any](), True
    for each, value in zip(fields(kind), row, strict=True):
        expected = types.get(str(each.type), str)
        is_right = isinstance(value, expected)
        values[each.name] = value if is_right else str(value) if expected is str else 0
        is_whole &= is_right
    return values, is_whole


def only_row(rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the single row of a query, such as for a row just written."""
    if len(rows) != 1:
        raise DamagedDatabase("a row that was written cannot be read")
    return rows[0]


def storage_bytes(statements: Statements) -> int:
    """Return the disk space of the tables [bytes]; of the whole file for SQLite."""
    query = {
        "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        "postgresql": "SELECT sum(pg_total_relation_size(tables.oid)) FROM pg_class tables "
        "WHERE relkind = 'r' AND starts_with(relname, 'darrm_') AND pg_table_is_visible(tables.oid)",
    }[statements.dialect]
    [(size,)] = statements.rows(query)
    return int(size)


def integrity_errors(statements: Statements) -> list[str]:
    """Return what SQLite's integrity check reports; empty for PostgreSQL."""
    if statements.dialect != "sqlite":
        return []
    lines = [str(line) for (line,) in statements.rows("PRAGMA integrity_check")]
    return [line for line in lines if line != "ok"]
