"""PostgreSQL through SQLAlchemy: engine and statements.

Imported only for PostgreSQL: SQLAlchemy takes 13 MB, and twice as long to import as everything else that a small
solve needs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import URL, Connection, Engine, TextClause, create_engine, event, text

from solver_cache.database.statements import Values

CONNECTING_SECONDS = 10  # time limit for connecting: by default an unreachable host blocks a request for minutes
SILENT_MILLISECONDS = 30_000  # longest time without an acknowledgement of sent data (Linux)


def postgresql_engine(location: URL, *, read_only: bool) -> Engine:
    """Return the engine for a PostgreSQL URL."""
    limits: dict[str, Any] = {"connect_timeout": CONNECTING_SECONDS, "tcp_user_timeout": SILENT_MILLISECONDS}
    arguments = {name: value for name, value in limits.items() if name not in location.query}
    # a database in SQL_ASCII, the encoding of initdb without a locale, returns bytes.
    arguments["client_encoding"] = "utf8"
    engine = create_engine(location, hide_parameters=True, pool_pre_ping=True, connect_args=arguments)
    return engine.execution_options(postgresql_readonly=True) if read_only else engine


def open_connections(engine: Engine) -> dict[int, Any]:
    """Return a live mapping of the open connections of an engine, including those in use."""
    connections: dict[int, Any] = {}
    event.listen(engine, "connect", lambda connection, _: connections.update({id(connection): connection}))
    for name in ("close", "close_detached"):
        event.listen(engine, name, lambda connection, *_: connections.pop(id(connection), None))
    return connections


class EngineStatements:
    """Statements on an SQLAlchemy connection to PostgreSQL."""

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
    # constant within a statement, so that an index can be used
    now = "CAST(extract(epoch FROM statement_timestamp()) AS double precision)"
    return text(re.sub(r":now\b", now, sql))
