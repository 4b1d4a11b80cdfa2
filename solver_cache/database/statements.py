"""Statements in plain SQL, for SQLite by its own driver and for PostgreSQL by SQLAlchemy; where their SQL differs.

SQLAlchemy is imported for PostgreSQL alone: its import takes 13 MB, and twice as long as that of everything else that a
small solve needs.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection, TextClause

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


class EngineStatements:
    """Statements on a connection of an SQLAlchemy engine, for PostgreSQL."""

    dialect = "postgresql"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, **values: Any) -> Sequence[Sequence[Any]]:
        result = self._connection.execute(_text(sql), values)
        return result.all() if result.returns_rows else ()

    def change(self, sql: str, values: Values) -> int:
        return self._connection.execute(_text(sql), values).rowcount

    def listed(self, texts: Collection[str]) -> Any:
        return [*texts]


@lru_cache(maxsize=256)
def _text(sql: str) -> TextClause:
    from sqlalchemy import text

    # stable within a statement, so that an index can be searched by it
    now = "CAST(extract(epoch FROM statement_timestamp()) AS double precision)"
    return text(re.sub(r":now\b", now, sql))


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
        "postgresql": "SELECT sum(pg_total_relation_size(name)) FROM (VALUES ('darrm_solutions'), ('darrm_jobs'), "
        "('darrm_job_clients'), ('darrm_job_turns'), ('darrm_webhooks'), ('darrm_design_tags'), "
        "('darrm_design_clients'), ('darrm_design_reads')) tables (name)",
    }[statements.dialect]
    [(size,)] = statements.rows(query)
    return int(size)


def integrity_errors(statements: Statements) -> list[str]:
    """Return what SQLite's integrity check reports; empty for PostgreSQL, which checks itself."""
    if statements.dialect != "sqlite":
        return []
    lines = [str(line) for (line,) in statements.rows("PRAGMA integrity_check")]
    return [line for line in lines if line != "ok"]
