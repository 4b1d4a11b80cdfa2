"""Database connections: opening and migrating a database, transactions, its errors; where SQLite and PostgreSQL differ.

SQLite runs in WAL mode, so readers and one writer do not wait for each other. Several processes that make a *new*
file at once would meet "database is locked" while one switches it to WAL, so a lock file beside it admits one at a
time to that step. Every change is one transaction: a process killed in the middle leaves everything as it was.

``?mode=ro`` opens a database for reading only: a table that is shipped, on a file system that nobody can write, or
owned by another. Opening it then writes nothing, no file beside it either. A SQLite file that nobody has open is taken
as *immutable*, since SQLite would otherwise make two files beside it to read it: whoever writes to it while it is open
so may have readers miss answers, or meet an error, until they open it again; no wrong answer can come of it, because
every row is proved when it is read.

``memory`` is a SQLite database of one object, gone with it: one connection, which threads take in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.elements import ColumnElement

from solver_cache.database.schema import MIGRATIONS, DamagedSchema, NewerSchema, migrate, schema_version
from solver_cache.location import DAMAGED, ELSEWHERE, MEMORY, CacheError, ReadOnlyCache, parse_url, redacted

MIN_FREE_BYTES = 2**20
"""Room on the disk below which an answer and its job may not fit [bytes]."""

OPENING_SECONDS = 60
"""Longest wait for another process that creates or migrates the file [s]."""


WRITING = "BEGIN IMMEDIATE"
"""How a transaction of SQLite begins that writes: it takes the lock at once. One that began as a reader could be
refused it later, without waiting."""


class Database:
    """An open database with the present schema."""

    def __init__(self, url: str) -> None:
        self.in_memory, path = url == MEMORY, None
        self._turn = threading.Lock() if self.in_memory else contextlib.nullcontext()
        self._sockets: dict[int, Any] = {}
        self._identity: tuple[int, int] | None = None
        if self.in_memory:
            self.url, self.dialect, self.read_only = MEMORY, "sqlite", False
            # Its one connection is the database.
            in_one = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
            self.engine: Engine = _sqlite_engine("sqlite://", **in_one)
            weakref.finalize(self, self.engine.dispose)
        else:
            location, self.read_only = parse_url(url)
            # the location, without its password
            self.url = redacted(location.update_query_dict({"mode": "ro"}) if self.read_only else location)
            self.dialect = location.get_backend_name()  # "sqlite" or "postgresql"
            path = Path(location.database or "") if self.dialect == "sqlite" else None
            try:
                with self._translate_errors():
                    self.engine = _create_engine(location, path, read_only=self.read_only)
            except ImportError as err:
                raise CacheError(self.url, f"its driver is not installed ({err})", _DRIVER) from err
            if path is None:
                self._sockets = open_connections(self.engine)
        with self._translate_errors():
            try:
                # version of the schema that was found; 0 where there was none
                self.found_schema = self._check(path) if self.read_only else self._prepare(path)
                self.path = path  # the file of a SQLite database; None for PostgreSQL, and in memory
                if path is not None:
                    self._identity = _identity(path.stat())
            except BaseException:
                self.engine.dispose()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection to read from."""
        with self._turn, self._translate_errors(), self.engine.connect() as connection:
            connection.begin()  # what is read is of one moment; closing ends it
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection within a transaction, which is done when the block ends well."""
        if self.read_only:
            raise ReadOnlyCache(self.url)
        self._check_in_place()
        with self._turn, self._translate_errors(), self._transaction() as connection:
            yield connection

    def check_room(self) -> None:
        """Raise `CacheError` unless SQLite's file is still the one that was opened, and has room for an answer."""
        self._check_in_place()
        if self.path is not None and (free := shutil.disk_usage(self.path.parent).free) < MIN_FREE_BYTES:
            raise CacheError(self.url, f"{free} bytes are free on its disk", f"Make room there. {ELSEWHERE}")

    def sync(self) -> None:
        """Have what was written to a SQLite file reach the disk now, not at the next checkpoint."""
        if self.path is not None:
            with self._translate_errors(), self.engine.connect().execution_options(darrm_begin=None) as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def interrupt(self) -> None:
        """Cut every connection to PostgreSQL, so that whoever waits for it gets an error; the next use opens new ones.

        Nothing else ends a wait for a server that hangs and whose kernel still answers.
        """
        for connection in tuple(self._sockets.values()):
            with (
                contextlib.suppress(OSError, self.engine.dialect.loaded_dbapi.Error),  # it was closed meanwhile
                socket.socket(fileno=os.dup(connection.fileno())) as shared,
            ):
                shared.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _check_in_place(self) -> None:
        """Raise `CacheError` if the file of a SQLite database was deleted or replaced: nobody reads it then."""
        # The file itself is not opened: closing it would drop the locks that this process holds on it.
        if self.path is None:
            return
        try:
            identity = _identity(self.path.stat())
        except OSError as err:
            raise CacheError(self.url, f"its file is gone ({err.strerror})", ELSEWHERE) from err
        if identity != self._identity:
            raise CacheError(self.url, "another file stands in its place", "Restart the program to open that one.")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self.engine.connect().execution_options(darrm_begin=WRITING) as connection, connection.begin():
            yield connection

    def _check(self, path: Path | None) -> int:
        """Find out, writing nothing, whether the database can be read; return its version."""
        if path is not None and not is_file(path):
            raise CacheError(self.url, "there is no such file", "Give the file that holds the answers.")
        with self.engine.connect() as connection:
            version = schema_version(connection)
        if version < len(MIGRATIONS):
            reason = f"its schema has version {version}, this program reads {len(MIGRATIONS)}"
            raise CacheError(
                self.url, reason, "Bring it, or a copy of it, up to date by `darrm cache migrate --url URL`."
            )
        return version

    def _prepare(self, path: Path | None) -> int:
        """Make or migrate the database; also the proof that it can be written, before any work is done for it."""
        if path is None:
            with self._transaction() as connection:
                return migrate(connection)
        from filelock import FileLock, Timeout

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", timeout=OPENING_SECONDS):
                path.touch(0o600)  # for its owner alone, as its two companions are then: jobs name clients and webhooks
                with self.engine.connect().execution_options(darrm_begin=None) as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")  # not possible within a transaction
                with self._transaction() as connection:
                    return migrate(connection)
        except Timeout as err:
            reason = f"another process has held {path}.lock for {OPENING_SECONDS} s"
            raise CacheError(
                self.url, reason, f"Wait if it migrates a large file, else end that process. {ELSEWHERE}"
            ) from err
        except OSError as err:
            advice = _READING if is_file(path) else ELSEWHERE
            raise CacheError(self.url, f"it cannot be made or written ({err})", advice) from err

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn a database error into a `CacheError` that says what to do."""
        try:
            yield
        except UnicodeDecodeError as err:  # SQLite's complaint quotes what is damaged
            raise CacheError(self.url, "what it says of its tables cannot be read", DAMAGED) from err
        except DamagedSchema as err:
            raise CacheError(self.url, str(err), DAMAGED) from err
        except NewerSchema as err:
            raise CacheError(self.url, str(err), f"Upgrade darrm-opt. {ELSEWHERE}") from err
        except SQLAlchemyError as err:
            message = str(err.orig if isinstance(err, DBAPIError) else err).strip().splitlines()[0]
            raise CacheError(self.url, message, _advice(message)) from err


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _advice(message: str) -> str:
    if "malformed" in message or "not a database" in message:
        return DAMAGED
    if "full" in message or "disk I/O" in message:
        return f"Make room there. {ELSEWHERE}"
    if "readonly" in message or "read-only" in message or "permission denied" in message:
        return _READING
    return ELSEWHERE


_READING = f"Append ?mode=ro to its URL to read what is there. {ELSEWHERE}"
_DRIVER = f"For PostgreSQL: pip install 'darrm-opt[postgres]'. {ELSEWHERE}"


BUSY_SECONDS = 30
"""Longest wait of a writer for another one [s]. A write takes milliseconds; 30 s mean that something is stuck."""

CONNECTING_SECONDS = 10
"""Time limit for connecting to PostgreSQL [s]: without it a host that is gone holds a request for minutes."""

SILENT_MILLISECONDS = 30_000
"""Longest silence of PostgreSQL's machine after something was sent [ms] (Linux)."""


def _create_engine(location: URL, path: Path | None, *, read_only: bool) -> Engine:
    """Return the engine for a database URL; ``path`` is the file of a SQLite database, None for PostgreSQL."""
    if path is None:
        limits: dict[str, Any] = {"connect_timeout": CONNECTING_SECONDS, "tcp_user_timeout": SILENT_MILLISECONDS}
        arguments = {name: value for name, value in limits.items() if name not in location.query}
        # A database in SQL_ASCII, as initdb makes it without a locale, gives bytes.
        arguments["client_encoding"] = "utf8"
        engine = create_engine(location, hide_parameters=True, pool_pre_ping=True, connect_args=arguments)
        return engine.execution_options(postgresql_readonly=True) if read_only else engine
    if read_only:
        return _sqlite_engine(location, hide_parameters=True, creator=_reader(path))
    return _sqlite_engine(location, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})


def _sqlite_engine(location: URL | str, **options: Any) -> Engine:
    engine = create_engine(location, **options)
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
    begin = connection.get_execution_options().get("darrm_begin", "BEGIN")
    if begin == WRITING:
        # Else the connection keeps the file's first page, and writes on though another program has overwritten it.
        connection.exec_driver_sql("PRAGMA shrink_memory")
    if begin is not None:
        connection.exec_driver_sql(begin)


_text = partial(str, encoding="utf-8", errors="replace")  # damaged text is for `check` to find, by its hash


def insert_new(dialect: str, table: Table, **values: Any) -> Insert:
    """Return the statement that adds a row, and does nothing where one is there already."""
    if dialect == "postgresql":
        return postgresql.insert(table).values(**values).on_conflict_do_nothing()
    return sqlite.insert(table).values(**values).on_conflict_do_nothing()


def replace_row(dialect: str, table: Table, **values: Any) -> Insert:
    """Return the statement that adds a row, or replaces the one with its key."""
    keys = [column.name for column in table.primary_key]
    changes = {name: value for name, value in values.items() if name not in keys}
    if dialect == "postgresql":
        return postgresql.insert(table).values(**values).on_conflict_do_update(index_elements=keys, set_=changes)
    return sqlite.insert(table).values(**values).on_conflict_do_update(index_elements=keys, set_=changes)


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
        "('darrm_job_clients'), ('darrm_job_turns'), ('darrm_webhooks'), ('darrm_design_tags')) tables (name)",
    }[connection.dialect.name]
    return int(connection.exec_driver_sql(query).scalar_one())


def integrity_errors(connection: Connection) -> list[str]:
    """Return what SQLite's integrity check reports; empty for PostgreSQL, which checks itself."""
    if connection.dialect.name != "sqlite":
        return []
    lines = [str(line) for line in connection.exec_driver_sql("PRAGMA integrity_check").scalars()]
    return [line for line in lines if line != "ok"]
