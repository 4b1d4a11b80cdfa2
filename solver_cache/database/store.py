"""Database store: rows, and claims of their keys, in SQLite or PostgreSQL, through SQLAlchemy Core.

Claims are statements within the caller's transaction, each for many keys at once. Keys are locked in their order, so
that two who want the same ones wait in turn and never in a circle.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select, text, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from darrm_opt.record import CORE, DesignSpec
from solver_cache.database.connection import (
    Database,
    insert_many,
    insert_new,
    integrity_errors,
    is_among,
    server_time,
    storage_bytes,
)
from solver_cache.database.designs import Designs
from solver_cache.database.jobs import Jobs
from solver_cache.database.schema import CLAIMS, SOLUTIONS, TAGS, fill, schema_version
from solver_cache.location import DAMAGED, MEMORY, CacheError
from solver_cache.model import MAX_LEASE_SECONDS, SHAPES, ClaimResult, HitCounter, Row, Stats, check_lease, columns_of

ROWS_PER_PAGE = 200
"""Rows read at a time when all are read: no transaction stays open while a caller thinks."""

CANDIDATES_PER_PAGE = 4
"""Rows read at a time when the first good one is wanted."""

_ROW = (SOLUTIONS.c.key, SOLUTIONS.c.core, SOLUTIONS.c.record, SOLUTIONS.c.digest)


class DatabaseStore:
    """A `solver_cache.store.Store` in a database."""

    def __init__(self, url: str) -> None:
        self.hits = HitCounter()
        self._database = Database(url)
        # SQLAlchemy URL, ``sqlite:///…`` or ``postgresql+psycopg://…``; with ``?mode=ro`` for reading only (jobs are
        # then kept in memory); or ``memory``
        self.url = self._database.url
        self.designs = Designs(self._database)
        self.jobs = Jobs(Database(MEMORY) if self._database.read_only else self._database)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database."""
        return self._database.path

    def get(self, key: str) -> Row | None:
        with self._database.reading() as connection:
            return _row(connection.execute(select(*_ROW).where(SOLUTIONS.c.key == key)).one_or_none())

    def present(self, keys: Collection[str]) -> set[str]:
        with self._database.reading() as connection:
            return _present(connection, keys)

    def put(self, row: Row, replacing: Row | None = None) -> Row:
        """Keep ``row`` as `solver_cache.store.Store.put` says, in one transaction."""
        values = _values(row, _now())
        insertion = insert_new(self._database.dialect, SOLUTIONS, **values)
        with self._database.writing() as connection:
            connection.execute(insertion)
            same_key = SOLUTIONS.c.key == row.key
            stored = _row(connection.execute(select(*_ROW).where(same_key).with_for_update()).one_or_none())
            if replacing is not None and stored == replacing:  # compared here: damaged text may not survive a query
                connection.execute(update(SOLUTIONS).where(same_key).values(**values))
                stored = row
            return row if stored is None else stored

    def put_many(self, rows: Sequence[Row]) -> dict[str, Row]:
        with self._database.writing() as connection:
            stood = self._stored(connection, {row.key for row in rows})
            new_rows = [row for row in rows if row.key not in stood]
            # Another process may have added some in between; those that are alike are anyone's.
            stored_now = self._put_all(connection, new_rows)
            return stood | {row.key: stored for row in new_rows if (stored := stored_now.get(row.key, row)) != row}

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        check_lease(owner, lease_seconds)
        with self._database.writing() as connection:
            own = _take_claims(connection, owner, lease_seconds, keys)
            # looked up behind the claim: `complete` stores an answer and ends its claim in one transaction
            if stored := _present(connection, keys):
                _end_claims(connection, owner, own & stored)
        return {key: "stored" if key in stored else "taken" if key in own else "held" for key in keys}

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        with self._database.writing() as connection:
            own_keys = _end_claims(connection, owner, [row.key for row in rows])
            own_rows = {row.key: row for row in rows if row.key in own_keys}
            return own_rows | self._put_all(connection, [*own_rows.values()])

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        check_lease(owner, lease_seconds)
        with self._database.writing() as connection:
            _renew_claims(connection, owner, lease_seconds, keys)

    def release_claims(self, owner: str, keys: Collection[str]) -> set[str]:
        with self._database.writing() as connection:
            return _end_claims(connection, owner, keys)

    def _put_all(self, connection: Connection, rows: Sequence[Row]) -> dict[str, Row]:
        """Add rows where there are none; return those that are stored already."""
        sorted_rows = sorted(rows, key=attrgetter("key"))  # so that two who add the same wait in turn
        now = _now()
        if not rows or insert_many(connection, SOLUTIONS, [_values(row, now) for row in sorted_rows]) == len(rows):
            return {}
        keys = {row.key for row in rows}
        stored = self._stored(connection, keys)
        if stored.keys() != keys:  # or another removed one just now: nothing is changed, and it can be tried again
            raise CacheError(self.url, "an answer that was written cannot be read", DAMAGED)
        return stored

    def _stored(self, connection: Connection, keys: Collection[str]) -> dict[str, Row]:
        query = select(*_ROW).where(is_among(self._database.dialect, SOLUTIONS.c.key, keys))
        return {row.key: row for values in connection.execute(query) if (row := _row(values)) is not None}

    def remove(self, row: Row) -> bool:
        same_key = SOLUTIONS.c.key == row.key
        with self._database.writing() as connection:
            stored = _row(connection.execute(select(*_ROW).where(same_key).with_for_update()).one_or_none())
            if stored == row:
                connection.execute(delete(SOLUTIONS).where(same_key))
                connection.execute(delete(TAGS).where(TAGS.c.key == row.key))
            return stored == row

    def rows(self, after: str = "") -> Iterator[Row]:
        """Yield every row behind ``after``, in the order of keys."""
        last_key = after
        while True:
            query = select(*_ROW).where(SOLUTIONS.c.key > last_key).order_by(SOLUTIONS.c.key).limit(ROWS_PER_PAGE)
            with self._database.reading() as connection:
                page = [_row(values) for values in connection.execute(query)]
            yield from (row for row in page if row is not None)
            if len(page) < ROWS_PER_PAGE or page[-1] is None:
                return
            if page[-1].key <= last_key:  # or a damaged index would be walked round and round
                raise CacheError(self.url, "its keys are out of order", DAMAGED)
            last_key = page[-1].key

    def candidates(self, spec: DesignSpec) -> Iterator[Row]:
        """Yield rows as `solver_cache.store.Store.candidates` says: found in an index, read a few at a time."""
        first_query = query = candidates_query(spec)
        while True:
            with self._database.reading() as connection:
                page = connection.execute(query).all()
            yield from (row for _, *values in page if (row := _row(values)) is not None)
            if len(page) < CANDIDATES_PER_PAGE:
                return
            utility, key, *_ = page[-1]
            query = first_query.where(tuple_(SOLUTIONS.c.utility, SOLUTIONS.c.key) < tuple_(utility, key))

    def stats(self) -> Stats:
        """Return what is stored, counted; of a store for reading only, the jobs that its database holds."""
        query = select(func.count(), func.count().filter(SOLUTIONS.c.core != CORE)).select_from(SOLUTIONS)
        with self._database.reading() as connection:
            rows, stale = connection.execute(query).one()
            size = storage_bytes(connection)
            schema = schema_version(connection)
        return Stats(int(rows), int(stale), size, schema, Jobs(self._database).counts())

    def fill(self) -> int:
        """Fill columns that an earlier release left empty; return for how many rows."""
        with self._database.writing() as connection:
            return fill(connection)

    @property
    def found_schema(self) -> int:
        """Version of the tables as they were found, before they were migrated; 0 for a new place."""
        return self._database.found_schema

    def integrity_errors(self) -> list[str]:
        """Return what SQLite's own check finds; PostgreSQL looks after itself."""
        with self._database.reading() as connection:
            return integrity_errors(connection)

    def health_check(self) -> None:
        if self._database.read_only:
            with self._database.reading() as connection:
                schema_version(connection)
        else:
            self._database.check_room()
            with self._database.writing() as connection:  # there and back: SQLite writes no row that stays as it is
                for _ in range(2):
                    connection.exec_driver_sql("UPDATE darrm_schema SET version = -version")
            self._database.sync()

    def interrupt(self) -> None:
        self._database.interrupt()

    def close(self) -> None:
        self._database.close()
        self.jobs.database.close()


def candidates_query(spec: DesignSpec) -> Select[Any]:
    """Return the query for utility and row of the answers to ``spec`` or a stricter question, the best first."""
    problem, columns = spec.problem, SOLUTIONS.c
    return (
        select(columns.utility, *_ROW)
        .where(
            columns.voters == problem.K,
            columns.objective == str(spec.objective),
            columns.core == CORE,
            columns.shape.in_(SHAPES[spec.shape]),
            columns.voter_epsilon >= problem.voter.epsilon,
            columns.voter_delta >= problem.voter.delta,
            columns.affected >= problem.affected,
            columns.target_epsilon <= problem.target.epsilon,
            columns.target_delta <= problem.target.delta,
        )
        .order_by(columns.utility.desc(), columns.key.desc())
        .limit(CANDIDATES_PER_PAGE)
    )


def _present(connection: Connection, keys: Collection[str]) -> set[str]:
    """Return keys as `solver_cache.store.Store.present` says."""
    is_listed = is_among(connection.dialect.name, SOLUTIONS.c.key, keys)
    query = select(SOLUTIONS.c.key).where(is_listed, SOLUTIONS.c.core == CORE)
    return {str(key) for key in connection.execute(query).scalars()}


def _values(row: Row, created: str) -> dict[str, Any]:
    """Return the columns of a row."""
    columns = columns_of(row.record) if row.columns is None else vars(row.columns)
    return {"key": row.key, "core": row.core, "record": row.record, "digest": row.digest, "created": created, **columns}


def _row(values: Any) -> Row | None:
    """Return a row from what a database holds, which for SQLite can be of any type."""
    if values is None:
        return None
    key, core, record, digest = values
    return Row(str(key), core if isinstance(core, int) else -1, str(record), str(digest))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


_KEY_TABLES = {"sqlite": "json_each(:keys)", "postgresql": "unnest(CAST(:keys AS text[])) AS value"}

_TAKE = """
    INSERT INTO darrm_claims (key, owner, lease_until) SELECT value, :owner, :now + :lease FROM {keys} WHERE true
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
    WHERE darrm_claims.owner = excluded.owner OR darrm_claims.lease_until NOT BETWEEN :now AND :now + :longest
    RETURNING key
"""
"""Statement that claims keys in their order, where nobody else holds them, and returns those. As text, since SQLAlchemy
would put it together anew every time."""


def _take_claims(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> set[str]:
    """Claim keys, as `solver_cache.store.Store.claim` says; return those that ``owner`` holds now."""
    if not keys:
        return set()
    dialect = connection.dialect.name
    now = connection.execute(select(server_time(dialect))).scalar_one()
    abandoned = CLAIMS.c.lease_until < now - MAX_LEASE_SECONDS
    connection.execute(delete(CLAIMS).where(abandoned))  # nobody will end them
    sorted_keys = sorted(keys)
    parameters = {
        "owner": owner,
        "now": now,
        "lease": lease_seconds,
        "longest": MAX_LEASE_SECONDS,
        "keys": sorted_keys if dialect == "postgresql" else json.dumps(sorted_keys),
    }
    claimed_keys = connection.execute(text(_TAKE.format(keys=_KEY_TABLES[dialect])), parameters).scalars()
    return {str(key) for key in claimed_keys}


def _renew_claims(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
    """Hold those of ``keys`` that ``owner`` claimed, and nobody took over, for longer from now."""
    lease_until = server_time(connection.dialect.name) + lease_seconds
    connection.execute(update(CLAIMS).where(_is_own(connection, owner, keys)).values(lease_until=lease_until))


def _end_claims(connection: Connection, owner: str, keys: Collection[str]) -> set[str]:
    """End claims; return those of ``keys`` that ``owner`` had claimed, and nobody took over."""
    deletion = delete(CLAIMS).where(_is_own(connection, owner, keys)).returning(CLAIMS.c.key)
    return {str(key) for key in connection.execute(deletion).scalars().all()}


def _is_own(connection: Connection, owner: str, keys: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a claim is the owner's; the claims are locked, in order, until the transaction ends."""
    is_listed = is_among(connection.dialect.name, CLAIMS.c.key, keys)
    own_keys = select(CLAIMS.c.key).where(is_listed, CLAIMS.c.owner == owner).order_by(CLAIMS.c.key).with_for_update()
    return CLAIMS.c.key.in_(own_keys)
