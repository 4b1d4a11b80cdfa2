"""SQLAlchemy engines, and the statements of Core that are not the same for SQLite and PostgreSQL."""

from __future__ import annotations

import importlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection
from typing import Any

from sqlalchemy import (
    ARRAY,
    URL,
    Column,
    Connection,
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
from sqlalchemy.pool import Pool, QueuePool, StaticPool
from sqlalchemy.sql.elements import ColumnElement

from solver_cache.database.statements import begin_transaction

CONNECTING_SECONDS = 10
"""Time limit for connecting to PostgreSQL [s]: without it a host that is gone holds a request for minutes."""

SILENT_MILLISECONDS = 30_000
"""Longest silence of PostgreSQL's machine after something was sent [ms] (Linux)."""


def postgresql_engine(location: URL, *, read_only: bool) -> Engine:
    """Return the engine for the URL of a PostgreSQL database."""
    limits: dict[str, Any] = {"connect_timeout": CONNECTING_SECONDS, "tcp_user_timeout": SILENT_MILLISECONDS}
    arguments = {name: value for name, value in limits.items() if name not in location.query}
    # A database in SQL_ASCII, as initdb makes it without a locale, gives bytes.
    arguments["client_encoding"] = "utf8"
    engine = create_engine(location, hide_parameters=True, pool_pre_ping=True, connect_args=arguments)
    return engine.execution_options(postgresql_readonly=True) if read_only else engine


def sqlite_engine(connect: Callable[[], sqlite3.Connection], *, shared: bool) -> Engine:
    """Return the engine for a SQLite database, by what opens a connection; ``shared``: by what returns its only one."""
    pool: type[Pool] = StaticPool if shared else QueuePool
    engine = create_engine("sqlite://", hide_parameters=True, creator=connect, poolclass=pool)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    begin_transaction(connection.exec_driver_sql, connection.get_execution_options().get("darrm_begin", "BEGIN"))


def open_connections(engine: Engine) -> dict[int, Any]:
    """Return the connections that an engine has open, now and later, those in use too."""
    connections: dict[int, Any] = {}
    event.listen(engine, "connect", lambda connection, _: connections.update({id(connection): connection}))
    for name in ("close", "close_detached"):
        event.listen(engine, name, lambda connection, *_: connections.pop(id(connection), None))
    return connections


def _dialect(name: str) -> Any:
    """Return the statements of one dialect; the other, with its drivers, is not imported."""
    return importlib.import_module(f"sqlalchemy.dialects.{name}")


def insert_new(dialect: str, table: Table, **values: Any) -> Insert:
    """Return the statement that adds a row, and does nothing where one is there already."""
    insertion: Insert = _dialect(dialect).insert(table).values(**values).on_conflict_do_nothing()
    return insertion


def replace_row(dialect: str, table: Table, **values: Any) -> Insert:
    """Return the statement that adds a row, or replaces the one with its key."""
    keys = [column.name for column in table.primary_key]
    changes = {name: value for name, value in values.items() if name not in keys}
    insertion = _dialect(dialect).insert(table).values(**values)
    replacement: Insert = insertion.on_conflict_do_update(index_elements=keys, set_=changes)
    return replacement


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
