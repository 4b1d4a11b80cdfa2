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

All is read and written by *statements* in plain SQL (`statements.py`): SQLite's own driver executes them in a file, and
SQLAlchemy in PostgreSQL.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solver_cache.database.schema import NewerSchema, migrate, newest_version, schema_version
from solver_cache.database.statements import DamagedDatabase, SqliteStatements, Statements
from solver_cache.location import DAMAGED, ELSEWHERE, MEMORY, CacheError, ReadOnlyCache, parse_url

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

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
        self.in_memory = url == MEMORY
        self._turn = threading.Lock() if self.in_memory else contextlib.nullcontext()
        self._engine: Engine | None = None  # for PostgreSQL
        self._statements: Callable[[Any], Statements] = SqliteStatements
        self._errors: type[Exception] = sqlite3.Error
        self._driver_error: type[Exception] = sqlite3.Error
        self._sockets: dict[int, Any] = {}
        self._idle: list[sqlite3.Connection] = []
        self._identity: tuple[int, int] | None = None  # of the file, once it is open
        self.path: Path | None = None  # the file of a SQLite database; None for PostgreSQL, and in memory
        if self.in_memory:
            self.url, self.dialect, self.read_only = MEMORY, "sqlite", False
            # Its one connection is the database.
            self._connect: Callable[[], sqlite3.Connection] = partial(_shared, _open(":memory:"))
            weakref.finalize(self, self._connect().close)
        else:
            location = parse_url(url)
            self.url, self.dialect, self.read_only = location.shown, location.dialect, location.read_only
            self.path = path = location.path
            if path is not None:
                weakref.finalize(self, _close_all, self._idle)
                self._connect = partial(_open, _reader(path), uri=True) if self.read_only else partial(_open, str(path))
            if location.engine_url is not None:
                try:
                    with self._translate_errors():
                        self._connect_engine(location.engine_url)
                except ImportError as err:
                    raise CacheError(self.url, f"its driver is not installed ({err})", _DRIVER) from err
        with self._translate_errors():
            try:
                # version of the schema that was found; 0 where there was none
                self.found_schema = self._check(self.path) if self.read_only else self._prepare(self.path)
                if self.path is not None:
                    self._identity = _identity(self.path.stat())
            except BaseException:
                self.close()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Statements]:
        """Yield statements that read: all of one moment."""
        with self._turn, self._translate_errors():
            if self._engine is None:
                with self._transaction("BEGIN") as statements:
                    yield statements
            else:
                with self._engine.connect() as connection:
                    connection.begin()  # closing ends it
                    yield self._statements(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Statements]:
        """Yield statements within a transaction, which is done when the block ends well."""
        if self.read_only:
            raise ReadOnlyCache(self.url)
        self._check_in_place()
        with self._turn, self._translate_errors():
            if self._engine is None:
                with self._transaction(WRITING) as statements:
                    yield statements
            else:
                with self._engine.begin() as connection:
                    yield self._statements(connection)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[Statements]:
        """Yield statements within a transaction of SQLite."""
        with self._connection() as connection:
            if begin == WRITING:
                # Else it keeps the file's first page, and writes on though another program has overwritten it.
                connection.execute("PRAGMA shrink_memory")
            connection.execute(begin)
            try:
                yield self._statements(connection)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.rollback()
                raise

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of SQLite's driver that no other thread has."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            self._idle.append(connection)

    def check_room(self) -> None:
        """Raise `CacheError` unless SQLite's file is still the one that was opened, and has room for an answer."""
        self._check_in_place()
        if self.path is not None and (free := shutil.disk_usage(self.path.parent).free) < MIN_FREE_BYTES:
            raise CacheError(self.url, f"{free} bytes are free on its disk", f"Make room there. {ELSEWHERE}")

    def sync(self) -> None:
        """Have what was written to a SQLite file reach the disk now, not at the next checkpoint."""
        if self.path is not None:
            with self._translate_errors(), self._connection() as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def interrupt(self) -> None:
        """Cut every connection to PostgreSQL, so that whoever waits for it gets an error; the next use opens new ones.

        Nothing else ends a wait for a server that hangs and whose kernel still answers.
        """
        for connection in tuple(self._sockets.values()):
            with (
                contextlib.suppress(OSError, self._driver_error),  # it was closed meanwhile
                socket.socket(fileno=os.dup(connection.fileno())) as shared,
            ):
                shared.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every connection."""
        if self._engine is not None:
            self._engine.dispose()
        if not self.in_memory:
            _close_all(self._idle)

    def _check_in_place(self) -> None:
        """Raise `CacheError` if the file of a SQLite database was deleted or replaced: nobody reads it then."""
        # The file itself is not opened: closing it would drop the locks that this process holds on it.
        if self.path is None or self._identity is None:
            return
        try:
            identity = _identity(self.path.stat())
        except OSError as err:
            raise CacheError(self.url, f"its file is gone ({err.strerror})", ELSEWHERE) from err
        if identity != self._identity:
            raise CacheError(self.url, "it was replaced by another file", "Restart the program to open that one.")

    def _connect_engine(self, location: URL) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        from solver_cache.database.engine import EngineStatements, open_connections, postgresql_engine

        self._errors, self._statements = SQLAlchemyError, EngineStatements
        self._engine = postgresql_engine(location, read_only=self.read_only)
        self._driver_error = self._engine.dialect.loaded_dbapi.Error
        self._sockets = open_connections(self._engine)

    def _check(self, path: Path | None) -> int:
        """Find out, writing nothing, whether the database can be read; return its version."""
        if path is not None and not is_file(path):
            raise CacheError(self.url, "there is no such file", "Give the file that holds the answers.")
        with self.reading() as statements:
            version = schema_version(statements)
        if version < newest_version():
            reason = f"its schema has version {version}, this program reads {newest_version()}"
            raise CacheError(
                self.url, reason, "Bring it, or a copy of it, up to date by `darrm cache check --migrate --url URL`."
            )
        return version

    def _prepare(self, path: Path | None) -> int:
        """Make or migrate the database; also the proof that it can be written, before any work is done for it."""
        if path is None or self._is_current(path):
            with self.writing() as statements:
                return migrate(statements)
        from filelock import FileLock, Timeout

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", timeout=OPENING_SECONDS):
                path.touch(0o600)  # for its owner alone, as its two companions are then: jobs name clients and webhooks
                with self._connection() as connection:
                    connection.execute("PRAGMA journal_mode = WAL").fetchall()  # not possible within a transaction
                with self._transaction(WRITING) as statements:
                    return migrate(statements)
        except Timeout as err:
            reason = f"another process has held {path}.lock for {OPENING_SECONDS} s"
            raise CacheError(
                self.url, reason, f"Wait if it migrates a large file, else end that process. {ELSEWHERE}"
            ) from err
        except OSError as err:
            advice = _READING if is_file(path) else ELSEWHERE
            raise CacheError(self.url, f"it cannot be made or written ({err})", advice) from err

    def _is_current(self, path: Path) -> bool:
        """Whether a file has WAL mode and the present schema: nobody is making or migrating it, so no lock is taken."""
        if not (is_file(path) and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            return False
        try:
            with self._connection() as connection:
                mode = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != ("wal",):
                return False
            with self._transaction("BEGIN") as statements:
                return schema_version(statements) == newest_version()
        except (sqlite3.Error, UnicodeDecodeError, DamagedDatabase, NewerSchema):
            return False  # as is found out under the lock

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn a database error into a `CacheError` that says what to do."""
        try:
            yield
        except UnicodeDecodeError as err:  # SQLite's complaint quotes what is damaged
            raise CacheError(self.url, "what it says of its tables cannot be read", DAMAGED) from err
        except DamagedDatabase as err:
            raise CacheError(self.url, str(err), DAMAGED) from err
        except NewerSchema as err:
            raise CacheError(self.url, str(err), f"Upgrade darrm-opt. {ELSEWHERE}") from err
        except self._errors as err:  # SQLAlchemy's hold that of the driver
            message = str(getattr(err, "orig", err)).strip().splitlines()[0]
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


def _open(name: str, **options: Any) -> sqlite3.Connection:
    """Return a connection of SQLite's own driver, which may be handed from thread to thread."""
    connection: sqlite3.Connection = sqlite3.connect(name, timeout=BUSY_SECONDS, check_same_thread=False, **options)
    try:
        _configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def _shared(connection: sqlite3.Connection) -> sqlite3.Connection:
    return connection


def _reader(path: Path) -> str:
    """Return the name under which SQLite opens a file for reading only."""
    immutable = not is_file(Path(f"{path}-wal"))  # else someone writes to it now, and both files beside it are there
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"


def is_file(path: Path) -> bool:
    """Return whether there is such a file; False in a folder that cannot be entered."""
    try:
        return path.is_file()
    except OSError:
        return False


def _configure(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None  # sqlite3 would begin transactions itself, late and not around DDL
    connection.text_factory = _text
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: a power cut may lose the last row, never damage one


_text = partial(str, encoding="utf-8", errors="replace")  # damaged text is for `check` to find, by its hash
