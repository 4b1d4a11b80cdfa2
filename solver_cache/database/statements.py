"""Statements in plain SQL, for SQLite by its own driver; where the SQL of PostgreSQL (`engine`) differs."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

Values = Sequence[Mapping[str, Any]]


class Statements(Protocol):
    """Statements of one transaction.

    A statement names its values as ``:name``; ``:now`` is the time by the clock that all who share the database see [s
    since 1970-01-01 UTC], when the statement is sent.
    """

    dialect: str  # "sqlite" or "postgresql"

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Execute a statement; return its rows, none for a statement that returns none."""

    def change(self, sql: str, values: Values) -> int:
        """Execute a statement once with each of some values, at least one; return how many rows it changed."""

    def listed(self, texts: Collection[str]) -> Any:
        """Return texts as one value, for `is_listed` and `LISTED`."""


class SqliteStatements:
    """Statements on a connection of SQLite's own driver."""

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
"""Table with the column ``value`` of the texts that `Statements.listed` gave as ``:keys``."""

FOR_UPDATE = {"sqlite": "", "postgresql": "FOR UPDATE"}
"""What locks the rows of a query; SQLite's transactions that write are alone."""

SKIP_LOCKED = {"sqlite": "", "postgresql": "SKIP LOCKED"}
"""What leaves out, behind that, the rows that another transaction has locked."""


def is_listed(statements: Statements, column: str = "key") -> str:
    """Return the condition that a column holds one of the texts that `Statements.listed` gave as ``:keys``."""
    if statements.dialect == "sqlite":
        return f"{column} IN (SELECT value FROM json_each(:keys))"
    return f"{column} = ANY(CAST(:keys AS text[]))"


def belongs(table: str, clients: str, key: str) -> str:
    """Return the condition that a row belongs to ``:client``, or to nobody, as a table of keys and clients says."""
    of_row = f"SELECT 1 FROM {clients} clients WHERE clients.{key} = {table}.{key}"
    return f"(EXISTS ({of_row} AND clients.client = :client) OR NOT EXISTS ({of_row}))"


class DamagedDatabase(Exception):
    """The database is not what was written to it; the text says why."""


def only_row(rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the row of a query that has one, such as for what was written just now."""
    if len(rows) != 1:
        raise DamagedDatabase("a row that was written cannot be read")
    return rows[0]


def storage_bytes(statements: Statements) -> int:
    """Return the disk space that the tables take [bytes]; for SQLite, that of the whole file."""
    query = {
        "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        "postgresql": "SELECT sum(pg_total_relation_size(tables.oid)) FROM pg_class tables "
        "WHERE relkind = 'r' AND starts_with(relname, 'darrm_') AND pg_table_is_visible(tables.oid)",
    }[statements.dialect]
    [(size,)] = statements.rows(query)
    return int(size)


def integrity_errors(statements: Statements) -> list[str]:
    """Return what SQLite's integrity check reports; empty for PostgreSQL, which checks itself."""
    if statements.dialect != "sqlite":
        return []
    lines = [str(line) for (line,) in statements.rows("PRAGMA integrity_check")]
    return [line for line in lines if line != "ok"]
