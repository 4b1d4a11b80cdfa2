"""Dialects: where SQLite and PostgreSQL differ: engines, inserts, the clock, sizes and integrity checks."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ARRAY,
    URL,
    Column,
    Connection,
    Dialect,
    Double,
    Engine,
    Insert,
    Table,
    Text,
    any_,
    create_engine,
    event,
    func,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.elements import ColumnElement

BUSY_SECONDS = 30
"""Longest wait of a writer for another one [s]. A write takes milliseconds; 30 s mean that something is stuck."""

CONNECTING_SECONDS = 10
"""Time limit for connecting to PostgreSQL [s]. Without this a host that is gone holds a request for
minutes."""

SILENT_MILLISECONDS = 30_000
"""Longest silence of PostgreSQL's machine after something was sent [ms] (Linux)."""


def create_database_engine(location: URL, path: Path | None, *, read_only: bool) -> Engine:
    """Return the engine for a database URL; ``path`` is the file of a SQLite database, None for PostgreSQL."""
    if path is None:
        limits: dict[str, Any] = {"connect_timeout": CONNECTING_SECONDS, "tcp_user_timeout": SILENT_MILLISECONDS}
        arguments = {name: value for name, value in limits.items() if name not in location.query}
        arguments["client_encoding"] = (
            "utf8"  # a database in SQL_ASCII, as initdb makes it without a locale, gives bytes
        )
        engine = create_engine(location, hide_parameters=True, pool_pre_ping=True, connect_args=arguments)
        return engine.execution_options(postgresql_readonly=True) if read_only else engine
    if read_only:
        engine = create_engine(location, hide_parameters=True, creator=_reader(path))
    else:
        engine = create_engine(location, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def create_memory_engine() -> Engine:
    """Return the engine of a new SQLite database in memory, which is its one connection."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def open_connections(engine: Engine) -> dict[int, Any]:
    """Return the connections that an engine has open, now and later, those in use too."""
    connections: dict[int, Any] = {}
    event.listen(engine, "connect", lambda connection, _: connections.update({id(connection): connection}))
    for name in ("close", "close_detached"):
        event.listen(engine, name, lambda connection, *_: connections.pop(id(connection), None))
    return connections


def _reader(path: Path) -> Callable[[], sqlite3.Connection]:
    """Return the function that opens a SQLite file for reading only."""
    immutable = not is_file(Path(f"{path}-wal"))  # else someone writes to it now, and both files beside it are there
    name = f"{path.as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"
    return lambda: sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)


def is_file(path: Path) -> bool:
    """Return whether there is such a file; False in a folder that cannot be entered."""
    try:
        return path.is_file()
    except OSError:
        return False


def _configure(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # sqlite3 would begin transactions itself, late and not around DDL
    connection.text_factory = _text
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: a power cut may lose the last row, never damage one


def _begin(connection: Connection) -> None:
    # A writer takes the lock at once: one that began as a reader could be refused it later, without waiting.
    begin = connection.get_execution_options().get("darrm_begin", "BEGIN")
    if begin is not None:
        connection.exec_driver_sql(begin)


_text = partial(str, encoding="utf-8", errors="replace")  # damaged text is for `check` to find, by its hash


def insert_new(dialect: str, table: Table, **values: Any) -> Insert:
    """Return the statement that adds a row, and does nothing where one is there already."""
    if dialect == "postgresql":
        return postgresql.insert(table).values(**values).on_conflict_do_nothing()
    return sqlite.insert(table).values(**values).on_conflict_do_nothing()


def insert_many(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Add rows, all with the same columns, where there are none under their keys; return how many were added.

    The driver takes the values as they are: SQLAlchemy takes longer to prepare a row's values than SQLite to write it.
    """
    sql, names = _insertion(connection.dialect, table, tuple(rows[0]))
    values = rows if names is None else [*map(itemgetter(*names), rows)]
    return connection.exec_driver_sql(sql, values).rowcount


@lru_cache(maxsize=16)
def _insertion(dialect: Dialect, table: Table, columns: tuple[str, ...]) -> tuple[str, tuple[str, ...] | None]:
    """Return the statement of `insert_many`, and the order of its values, or None where they are named."""
    compiled = insert_new(dialect.name, table).compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), None if compiled.positiontup is None else tuple(compiled.positiontup)


def is_among(dialect: str, column: Column[str], texts: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a column holds one of some texts, as one parameter; `in_` would bind one for each."""
    if dialect == "postgresql":
        return column == any_(literal(list(texts), ARRAY(Text)))
    return column.in_(select(func.json_each(json.dumps(list(texts))).table_valued("value").c.value))


def server_time(dialect: str) -> ColumnElement[float]:
    """Return the time for a statement that is sent now [s since 1970-01-01 UTC]."""
    if dialect == "postgresql":  # stable within a statement, so that an index can be searched by it
        return func.extract("epoch", func.statement_timestamp()).cast(Double)
    return literal(time.time(), Double)


def storage_bytes(connection: Connection) -> int:
    """Return the disk space that the tables take [bytes]; for SQLite, that of the whole file."""
    query = {
        "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        "postgresql": "SELECT sum(pg_total_relation_size(name)) FROM (VALUES ('darrm_solutions'), ('darrm_jobs'), "
        "('darrm_job_clients'), ('darrm_webhooks'), ('darrm_design_tags')) tables (name)",
    }[connection.dialect.name]
    return int(connection.exec_driver_sql(query).scalar_one())


def integrity_errors(connection: Connection) -> list[str]:
    """Return what SQLite's integrity check reports; empty for PostgreSQL, which checks itself."""
    if connection.dialect.name != "sqlite":
        return []
    lines = [str(line) for line in connection.exec_driver_sql("PRAGMA integrity_check").scalars()]
    return [line for line in lines if line != "ok"]
