"""Statements in plain SQL, for SQLite by its own driver and for PostgreSQL by SQLAlchemy; where their SQL differs.

A statement names its values as ``:name``. SQLAlchemy is imported for PostgreSQL alone: its import takes twice as long
as that of everything else that a small solve needs.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection

Values = Sequence[Mapping[str, Any]]

WRITING = "BEGIN IMMEDIATE"
"""How a transaction of SQLite begins that writes: it takes the lock at once. One that began as a reader could be
refused it later, without waiting."""


def begin_transaction(execute: Callable[[str], object], begin: str) -> None:
    """Begin a transaction of SQLite by one of its statements, with the connection's ``execute``."""
    if begin == WRITING:
        # Else the connection keeps the file's first page, and writes on though another program has overwritten it.
        execute("PRAGMA shrink_memory")
    execute(begin)


class Statements(Protocol):
    """Statements of one transaction."""

    dialect: str  # "sqlite" or "postgresql"

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Execute a statement; return its rows, none for a statement that returns none."""

    def change(self, sql: str, values: Values) -> int:
        """Execute a statement once with each of some values, at least one; return how many rows it changed."""

    def listed(self, texts: Collection[str]) -> Any:
        """Return texts as one value, for `IS_LISTED` and `LISTED`."""


class SqliteStatements:
    """Statements on a connection of SQLite's own driver."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = self._connection.execute(sql, values).fetchall()
        return rows

    def change(self, sql: str, values: Values) -> int:
        return self._connection.executemany(sql, values).rowcount

    def listed(self, texts: Collection[str]) -> Any:
        return json.dumps([*texts])


class EngineStatements:
    """Statements on a connection of an SQLAlchemy engine."""

    def __init__(self, connection: Connection) -> None:
        self.dialect = connection.dialect.name
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        from sqlalchemy import text

        result = self._connection.execute(text(sql), values)
        return result.all() if result.returns_rows else ()

    def change(self, sql: str, values: Values) -> int:
        from sqlalchemy import text

        return self._connection.execute(text(sql), values).rowcount

    def listed(self, texts: Collection[str]) -> Any:
        return [*texts]


LISTED = {
    "sqlite": "json_each(:keys)",
    "postgresql": "unnest(CAST(:keys AS text[])) AS value",
}
"""Table with the column ``value`` of the texts that `Statements.listed` gave as ``:keys``."""

IS_LISTED = {
    "sqlite": "key IN (SELECT value FROM json_each(:keys))",
    "postgresql": "key = ANY(CAST(:keys AS text[]))",
}
"""Condition that a key is one of the texts."""

FOR_UPDATE = {"sqlite": "", "postgresql": " FOR UPDATE"}
"""What locks the rows of a query; SQLite's transactions that write are alone."""


def clock(statements: Statements) -> float:
    """Return the time by the clock that all who share the database see [s since 1970-01-01 UTC]."""
    if statements.dialect == "sqlite":
        return time.time()
    [(seconds,)] = statements.rows("SELECT CAST(extract(epoch FROM statement_timestamp()) AS double precision)")
    return float(seconds)


def storage_bytes(statements: Statements) -> int:
    """Return the disk space that the tables take [bytes]; for SQLite, that of the whole file."""
    query = {
        "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        "postgresql": "SELECT sum(pg_total_relation_size(name)) FROM (VALUES ('darrm_solutions'), ('darrm_jobs'), "
        "('darrm_job_clients'), ('darrm_job_turns'), ('darrm_webhooks'), ('darrm_design_tags')) tables (name)",
    }[statements.dialect]
    [(size,)] = statements.rows(query)
    return int(size)


def integrity_errors(statements: Statements) -> list[str]:
    """Return what SQLite's integrity check reports; empty for PostgreSQL, which checks itself."""
    if statements.dialect != "sqlite":
        return []
    lines = [str(line) for (line,) in statements.rows("PRAGMA integrity_check")]
    return [line for line in lines if line != "ok"]
