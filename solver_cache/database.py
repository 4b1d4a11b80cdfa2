"""Rows in a database, through SQLAlchemy Core: a SQLite file, or PostgreSQL.

SQLite runs in WAL mode, so readers and one writer do not wait for each other. Several processes that make a *new*
file at once would meet "database is locked" while one switches it to WAL, so a lock file beside it admits one at a
time to that step. Every change is one transaction: a process killed in the middle leaves the row as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Insert, create_engine, event, make_url, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from solver_cache.errors import ELSEWHERE, CacheError
from solver_cache.row import Row
from solver_cache.schema import SOLUTIONS, NewerSchema, migrate
from solver_cache.tally import Tally

BUSY_SECONDS = 30
"""How long a writer waits for another one. A write takes milliseconds; 30 s mean that something is stuck."""

OPENING_SECONDS = 60
"""How long an opener waits for another process that is making or migrating the file."""

PAGE = 200
"""Rows read at a time when all are read: no transaction stays open while a caller thinks."""

SUPPORTED = ("sqlite", "postgresql")

_ROW = (SOLUTIONS.c.key, SOLUTIONS.c.core, SOLUTIONS.c.record, SOLUTIONS.c.digest)


class DatabaseStore:
    """A `solver_cache.store.Store` in a database.

    Args:
        url: SQLAlchemy URL, ``sqlite:///…`` or ``postgresql+psycopg://…``.

    Raises:
        CacheError: the database cannot be opened, made, migrated or written.
    """

    def __init__(self, url: str) -> None:
        self.tally = Tally()
        place = _parsed(url)
        self.url = place.render_as_string(hide_password=True)
        with self._translated():
            try:
                self._engine = _engine(place)
            except ImportError as err:
                raise CacheError(self.url, f"its driver is not installed ({err})", _DRIVER) from err
            try:
                self._prepare(Path(place.database or "") if self._engine.dialect.name == "sqlite" else None)
            except BaseException:
                self._engine.dispose()
                raise

    def get(self, key: str) -> Row | None:
        """Return the row kept under ``key``."""
        with self._translated(), self._engine.connect() as connection:
            return _row(connection.execute(select(*_ROW).where(SOLUTIONS.c.key == key)).one_or_none())

    def put(self, row: Row, replacing: Row | None = None) -> Row:
        """Keep ``row`` as `solver_cache.store.Store.put` says, in one transaction."""
        values = {"core": row.core, "record": row.record, "digest": row.digest, "created": _now()}
        new = _insert(self._engine.dialect.name, key=row.key, **values)
        with self._translated(), self._writing() as connection:
            connection.execute(new)
            at = SOLUTIONS.c.key == row.key
            standing = _row(connection.execute(select(*_ROW).where(at).with_for_update()).one_or_none())
            if replacing is not None and standing == replacing:  # compared here: damaged text may not survive a query
                connection.execute(update(SOLUTIONS).where(at).values(**values))
                standing = row
            return row if standing is None else standing

    def rows(self) -> Iterator[Row]:
        """Yield every row, in the order of keys."""
        last = ""
        while True:
            page = select(*_ROW).where(SOLUTIONS.c.key > last).order_by(SOLUTIONS.c.key).limit(PAGE)
            with self._translated(), self._engine.connect() as connection:
                found = [_row(values) for values in connection.execute(page)]
            yield from (row for row in found if row is not None)
            if len(found) < PAGE or found[-1] is None:
                return
            last = found[-1].key

    def faults(self) -> list[str]:
        """Return what SQLite's own check finds; PostgreSQL looks after itself."""
        if self._engine.dialect.name != "sqlite":
            return []
        with self._translated(), self._engine.connect() as connection:
            told = [str(line) for line in connection.exec_driver_sql("PRAGMA integrity_check").scalars()]
        return [line for line in told if line != "ok"]

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _prepare(self, path: Path | None) -> None:
        """Make or migrate the database; also the proof that it can be written, before any work is done for it."""
        if path is None:
            with self._writing() as connection:
                migrate(connection)
            return
        from filelock import FileLock, Timeout

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", timeout=OPENING_SECONDS):
                with self._engine.connect().execution_options(darrm_begin=None) as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")  # not possible within a transaction
                with self._writing() as connection:
                    migrate(connection)
        except Timeout as err:
            stuck = f"another process has held {path}.lock for {OPENING_SECONDS} s"
            raise CacheError(self.url, stuck, f"End that process. {ELSEWHERE}") from err
        except OSError as err:
            raise CacheError(self.url, f"it cannot be made or written ({err})", ELSEWHERE) from err

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(darrm_begin="BEGIN IMMEDIATE") as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn a database's complaint into one that a stranger can act on."""
        try:
            yield
        except NewerSchema as err:
            raise CacheError(self.url, str(err), f"Upgrade darrm-opt. {ELSEWHERE}") from err
        except SQLAlchemyError as err:
            said = str(err.orig if isinstance(err, DBAPIError) else err).strip().splitlines()[0]
            raise CacheError(self.url, said, _advice(said)) from err


def _parsed(url: str) -> URL:
    """Return the URL with a SQLite path made absolute, or refuse it."""
    try:
        place = make_url(url)
    except ArgumentError as err:
        raise CacheError(repr(url), "this is not a database URL", _ACCEPTED) from err
    shown = place.render_as_string(hide_password=True)
    if place.get_backend_name() not in SUPPORTED:
        raise CacheError(shown, f"{place.get_backend_name()} is not supported", _ACCEPTED)
    if place.get_backend_name() != "sqlite":
        return place
    if place.database in {None, "", ":memory:"}:
        raise CacheError(shown, "it names no file", "For a cache in memory set DARRM_CACHE_URL to 'memory'.")
    if str(place.database).startswith("file:"):
        raise CacheError(shown, "SQLite's own file: notation is not supported", _ACCEPTED)
    return place.set(database=str(Path(str(place.database)).expanduser().absolute()))


def _engine(place: URL) -> Engine:
    if place.get_backend_name() != "sqlite":
        return create_engine(place, hide_parameters=True, pool_pre_ping=True)
    engine = create_engine(place, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begun)
    return engine


def _connected(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # sqlite3 would begin transactions itself, late and not around DDL
    connection.text_factory = _text
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: a power cut may lose the last row, never damage one


def _begun(connection: Connection) -> None:
    # A writer takes the lock at once: one that began as a reader could be refused it later, without waiting.
    begin = connection.get_execution_options().get("darrm_begin", "BEGIN")
    if begin is not None:
        connection.exec_driver_sql(begin)


def _insert(dialect: str, **values: Any) -> Insert:
    """Return the statement that adds a row where there is none under its key; each database spells it its own way."""
    if dialect == "postgresql":
        return postgresql.insert(SOLUTIONS).values(**values).on_conflict_do_nothing()
    return sqlite.insert(SOLUTIONS).values(**values).on_conflict_do_nothing()


def _text(stored: bytes) -> str:
    return stored.decode(errors="replace")  # damaged text is for `examine` to find, by its hash


def _row(values: Any) -> Row | None:
    """Return a row from what a database holds, which for SQLite can be of any type."""
    if values is None:
        return None
    key, core, record, digest = values
    return Row(str(key), core if isinstance(core, int) else -1, str(record), str(digest))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _advice(said: str) -> str:
    if "malformed" in said or "not a database" in said:
        return "Its file is damaged; it is only a cache: move it away, and answers are solved again."
    if "full" in said:
        return f"Make room there. {ELSEWHERE}"
    return ELSEWHERE


_ACCEPTED = (
    "Set DARRM_CACHE_URL to sqlite:///FILE (four slashes for an absolute path), postgresql+psycopg://USER@HOST/NAME, "
    "'memory' or 'off'."
)
_DRIVER = f"Install it (for PostgreSQL: psycopg). {ELSEWHERE}"
