"""Database connections: opening and migrating, transactions, errors; the differences of SQLite and PostgreSQL.

SQLite runs in WAL mode, so readers do not block a writer. Processes that create a *new* file at once would meet
"database is locked" while one switches it to WAL, so a lock file admits one at a time to that step. Every change is
one transaction: a process killed in the middle leaves everything as it was.

``?mode=ro`` opens a database without writing anything, not even beside it: for a table that is shipped, on a
read-only file system, or owned by another user. A SQLite file that nobody has open is opened as *immutable*, because
SQLite would otherwise create two files beside it. A process that writes to it meanwhile may make readers miss answers
or meet an error until they reopen it; no wrong answer can result, because every row is proved when read.

``memory`` is a SQLite database of one object and one connection, which threads use in turn.
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

MIN_FREE_BYTES = 2**20  # free disk space below which an answer and its job may not fit
OPENING_SECONDS = 60  # longest wait for another process that creates or migrates the file


WRITING = "BEGIN IMMEDIATE"
"""First statement of a writing transaction in SQLite. It takes the lock at once: a transaction that began as a
reader could be refused the lock later, without waiting."""


class Database:
    """Open database with the current schema."""

    def __init__(self, url: str) -> None:
        self.in_memory = url == MEMORY
        self._turn = threading.Lock() if self.in_memory else contextlib.nullcontext()
        self._engine: Engine | None = None  # for PostgreSQL
        self._statements: Callable[[Any], Statements] = SqliteStatements
        self._errors: type[Exception] = sqlite3.Error
        self._driver_error: type[Exception] = sqlite3.Error
        self._sockets: dict[int, Any] = {}
        self._idle: list[sqlite3.Connection] = []
        self._identity: tuple[int, int] | None = None  # of the open file
        self.path: Path | None = None  # of a SQLite file
        if self.in_memory:
            self.url, self.dialect, self.read_only = MEMORY, "sqlite", False
            memory = _open(":memory:")  # the connection is the database
            self._connect: Callable[[], sqlite3.Connection] = lambda: memory
            weakref.finalize(self, memory.close)
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
                # schema version before migration; 0 for a new database
                self.found_schema = self._check(self.path) if self.read_only else self._prepare(self.path)
                if self.path is not None:
                    self._identity = _identity(self.path.stat())
            except BaseException:
                self.close()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Statements]:
        """Yield statements that read one snapshot."""
        with self._turn, self._translate_errors():
            if self._engine is None:
                with self._transaction("BEGIN") as statements:
                    yield statements
            else:
                with self._engine.connect() as connection:
                    connection.begin()  # ended by closing
                    yield self._statements(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Statements]:
        """Yield statements within a transaction, committed when the block ends without an exception."""
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
                # Drops the cached first page, so that a file overwritten by another program is noticed.
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
        """Yield a connection that no other thread uses."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            self._idle.append(connection)

    def check_room(self) -> None:
        """Raise `CacheError` unless a SQLite file is still in place and has room for an answer."""
        self._check_in_place()
        if self.path is not None and (free := shutil.disk_usage(self.path.parent).free) < MIN_FREE_BYTES:
            raise CacheError(self.url, f"its disk has only {free} bytes free", f"Free some disk space. {ELSEWHERE}")

    def sync(self) -> None:
        """Write a SQLite file to disk now, not at the next checkpoint."""
        if self.path is not None:
            with self._translate_errors(), self._connection() as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def interrupt(self) -> None:
        """Shut down every connection to PostgreSQL, so that waiting calls fail; the next use opens new ones.

        Nothing else ends a wait for a server that hangs while its kernel still answers.
        """
        for connection in tuple(self._sockets.values()):
            with (
                contextlib.suppress(OSError, self._driver_error),  # already closed
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
        """Raise `CacheError` if a SQLite file was deleted or replaced: nobody would read what is written."""
        # Opening and closing the file would drop this process's locks on it.
        if self.path is None or self._identity is None:
            return
        try:
            identity = _identity(self.path.stat())
        except OSError as err:
            raise CacheError(self.url, f"its file was deleted ({err.strerror})", ELSEWHERE) from err
        if identity != self._identity:
            raise CacheError(self.url, "it was replaced by another file", "Restart the program to open the new file.")

    def _connect_engine(self, location: URL) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        from solver_cache.database.engine import EngineStatements, open_connections, postgresql_engine

        self._errors, self._statements = SQLAlchemyError, EngineStatements
        self._engine = postgresql_engine(location, read_only=self.read_only)
        self._driver_error = self._engine.dialect.loaded_dbapi.Error
        self._sockets = open_connections(self._engine)

    def _check(self, path: Path | None) -> int:
        """Return the schema version of a database that is opened for reading only."""
        if path is not None and not is_file(path):
            raise CacheError(self.url, "the file does not exist", "Check the path in its URL.")
        with self.reading() as statements:
            version = schema_version(statements)
        if version < newest_version():
            reason = f"its schema has version {version}; this program reads {newest_version()}"
            raise CacheError(
                self.url, reason, "Migrate it, or a copy of it, with `darrm cache check --migrate --url URL`."
            )
        return version

    def _prepare(self, path: Path | None) -> int:
        """Create or migrate the database; proves, before any work, that it is writable."""
        if path is None or self._is_current(path):
            with self.writing() as statements:
                return migrate(statements)
        from filelock import FileLock, Timeout

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", timeout=OPENING_SECONDS):
                path.touch(0o600)  # private, like -wal and -shm after it: jobs name clients and webhooks
                with self._connection() as connection:
                    connection.execute("PRAGMA journal_mode = WAL").fetchall()  # impossible within a transaction
                with self._transaction(WRITING) as statements:
                    return migrate(statements)
        except Timeout as err:
            reason = f"another process has held {path}.lock for {OPENING_SECONDS} s"
            raise CacheError(
                self.url, reason, f"Wait if it is migrating a large file, else end it. {ELSEWHERE}"
            ) from err
        except OSError as err:
            advice = _READING if is_file(path) else ELSEWHERE
            raise CacheError(self.url, f"it cannot be created or written ({err})", advice) from err

    def _is_current(self, path: Path) -> bool:
        """Whether a file has WAL mode and the current schema, so that no lock is needed."""
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
            return False  # to be diagnosed under the lock

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise each database error as a `CacheError` with advice."""
        try:
            yield
        except UnicodeDecodeError as err:  # SQLite's message quotes the damaged bytes
            raise CacheError(self.url, "its schema cannot be read", DAMAGED) from err
        except DamagedDatabase as err:
            raise CacheError(self.url, str(err), DAMAGED) from err
        except NewerSchema as err:
            raise CacheError(self.url, str(err), f"Upgrade darrm-opt. {ELSEWHERE}") from err
        except self._errors as err:  # SQLAlchemy wraps the driver's error
            message = str(getattr(err, "orig", err)).strip().splitlines()[0]
            raise CacheError(self.url, message, _advice(message)) from err


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _advice(message: str) -> str:
    if "malformed" in message or "not a database" in message:
        return DAMAGED
    if "full" in message or "disk I/O" in message:
        return f"Free some disk space. {ELSEWHERE}"
    if "readonly" in message or "read-only" in message or "permission denied" in message:
        return _READING
    return ELSEWHERE


_READING = f"Append ?mode=ro to its URL to read only. {ELSEWHERE}"
_DRIVER = f"For PostgreSQL: pip install 'darrm-opt[postgres]'. {ELSEWHERE}"


BUSY_SECONDS = 30
"""Longest wait of a writer for another one. A write takes milliseconds; 30 s mean a deadlock."""


def _open(name: str, **options: Any) -> sqlite3.Connection:
    """Return a connection that threads may hand over to each other."""
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


def _reader(path: Path) -> str:
    """Return the URI under which SQLite opens a file for reading only."""
    immutable = not is_file(Path(f"{path}-wal"))  # with -wal someone is writing to it, and no file must be created
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if immutable else ''}"


def is_file(path: Path) -> bool:
    """Return whether ``path`` is a file; False in a folder that cannot be entered."""
    try:
        return path.is_file()
    except OSError:
        return False


def _configure(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None  # sqlite3 would begin transactions late, and not around DDL
    connection.text_factory = _text
    connection.execute(
        "PRAGMA synchronous = NORMAL"
    )  # with WAL, a power cut may lose the last row but never damages one


_text = partial(str, encoding="utf-8", errors="replace")  # `check` finds damaged text by its hash
