"""Database store: rows, and claims of their keys, in SQLite or PostgreSQL.

Claims are statements within the caller's transaction, for many keys at once, locked in the order of keys, so that
concurrent owners never deadlock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from darrm_opt.record import CORE, DesignSpec
from solver_cache.database.connection import Database
from solver_cache.database.dependents import IS_VISIBLE, add_clients, remove, set_clients
from solver_cache.database.schema import schema_version
from solver_cache.database.statements import (
    FOR_UPDATE,
    LISTED,
    Statements,
    integrity_errors,
    is_listed,
    storage_bytes,
)
from solver_cache.location import DAMAGED, MEMORY, CacheError
from solver_cache.model import (
    MAX_LEASE_SECONDS,
    SHAPES,
    ClaimResult,
    HitCounter,
    ReadMarks,
    Row,
    SearchColumns,
    Stats,
    check_lease,
    columns_of,
)

if TYPE_CHECKING:
    from solver_cache.database.designs import Designs
    from solver_cache.database.jobs import Jobs

ROWS_PER_PAGE = 200  # rows read at a time, so that no transaction stays open while the caller works
MAX_READS_AT_ONCE = 1_000  # answers marked as read in one transaction
READ_SECONDS = 3600.0  # interval within which an answer is marked as read once
CANDIDATES_PER_PAGE = 4  # candidates read at a time; usually the first is taken

_COLUMNS = ("key", "core", "record", "digest", "created", *SearchColumns.__dataclass_fields__, "bytes")

_ROW = "SELECT key, core, record, digest FROM darrm_solutions"

_INSERT = (
    f"INSERT INTO darrm_solutions ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join(f':{name}' for name in _COLUMNS)}) ON CONFLICT DO NOTHING"
)

_REPLACE = f"UPDATE darrm_solutions SET {', '.join(f'{name} = :{name}' for name in _COLUMNS)} WHERE key = :key"


class DatabaseStore:
    """A `solver_cache.store.Store` in a database."""

    def __init__(self, url: str) -> None:
        self.hits, self.reads = HitCounter(), ReadMarks()
        self._database = Database(url)

        self.url = self._database.url

    @cached_property
    def designs(self) -> Designs:
        from solver_cache.database.designs import Designs

        return Designs(self._database)

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs; of a read-only store, in memory."""
        from solver_cache.database.jobs import Jobs

        return Jobs(Database(MEMORY) if self._database.read_only else self._database)

    @property
    def file(self) -> Path | None:
        return self._database.path

    def get(self, key: str) -> Row | None:
        with self._database.reading() as statements:
            return _row_at(statements, key)

    def present(self, keys: Collection[str]) -> set[str]:
        with self._database.reading() as statements:
            return _present(statements, keys)

    def put(self, row: Row, replacing: Row | None = None, clients: Collection[str] = ()) -> Row:
        values = _values(row, _now())
        with self._database.writing() as statements:
            is_new = bool(statements.rows(f"{_INSERT} RETURNING key", **values))
            stored = _row_at(statements, row.key, FOR_UPDATE[statements.dialect])
            if (
                replacing is not None and stored == replacing
            ):  # compared here: damaged text may not survive a round trip
                statements.rows(_REPLACE, **values)
                stored = row
            if is_new:
                set_clients(statements, row.key, clients)
            else:
                add_clients(statements, [row.key], clients)
            return row if stored is None else stored

    def put_many(self, rows: Sequence[Row]) -> dict[str, Row]:
        with self._database.writing() as statements:
            stood = _stored(statements, {row.key for row in rows})
            new_rows = [row for row in rows if row.key not in stood]
            # Another process may have added some in between.
            stored_now = self._put_all(statements, new_rows)
            return stood | {row.key: stored for row in new_rows if (stored := stored_now.get(row.key, row)) != row}

    def claim(self, owner: str, lease_seconds: float, keys: Collection[str]) -> dict[str, ClaimResult]:
        check_lease(owner, lease_seconds)
        with self._database.writing() as statements:
            own = _take_claims(statements, owner, lease_seconds, keys)
            # after the claim: `complete` stores an answer and ends its claim in one transaction
            if stored := _present(statements, keys):
                _end_claims(statements, owner, own & stored)
        return {key: "stored" if key in stored else "taken" if key in own else "held" for key in keys}

    def complete(self, owner: str, rows: Sequence[Row]) -> dict[str, Row]:
        with self._database.writing() as statements:
            own_keys = _end_claims(statements, owner, [row.key for row in rows])
            own_rows = {row.key: row for row in rows if row.key in own_keys}
            return own_rows | self._put_all(statements, [*own_rows.values()])

    def renew_claims(self, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
        check_lease(owner, lease_seconds)
        with self._database.writing() as statements:
            update = f"UPDATE darrm_claims SET lease_until = :now + :lease WHERE {_is_own(statements)}"
            statements.rows(update, lease=lease_seconds, owner=owner, keys=statements.listed(keys))

    def release_claims(self, owner: str, keys: Collection[str]) -> set[str]:
        with self._database.writing() as statements:
            return _end_claims(statements, owner, keys)

    def _put_all(self, statements: Statements, rows: Sequence[Row]) -> dict[str, Row]:
        """Add rows under free keys; return those stored already."""
        sorted_rows = sorted(rows, key=attrgetter("key"))  # lock order
        now = _now()
        if not rows or statements.change(_INSERT, [_values(row, now) for row in sorted_rows]) == len(rows):
            return {}
        keys = {row.key for row in rows}
        stored = _stored(statements, keys)
        if stored.keys() != keys:  # or another process removed one: nothing is changed, and a retry is safe
            raise CacheError(self.url, "an answer just written cannot be read", DAMAGED)
        return stored

    def remove(self, row: Row) -> bool:
        with self._database.writing() as statements:
            stored = _row_at(statements, row.key, FOR_UPDATE[statements.dialect])
            if stored == row:
                remove(statements, [row.key])
            return stored == row

    def rows(self, after: str = "") -> Iterator[Row]:
        last_key = after
        while True:
            with self._database.reading() as statements:
                rows = statements.rows(f"{_ROW} WHERE key > :last ORDER BY key LIMIT {ROWS_PER_PAGE}", last=last_key)
            page = [_row(values) for values in rows]
            yield from page
            if len(page) < ROWS_PER_PAGE:
                return
            if page[-1].key <= last_key:  # a damaged index would loop for ever
                raise CacheError(self.url, "its keys are out of order", DAMAGED)
            last_key = page[-1].key

    def save_reads(self) -> None:
        keys, now = self.reads.take(), datetime.now(UTC)
        times = {"read": _text(now), "stale": _text(now - timedelta(seconds=READ_SECONDS))}
        for start in range(0, len(keys), MAX_READS_AT_ONCE):
            page = keys[start : start + MAX_READS_AT_ONCE]
            with self._database.writing() as statements:
                statements.rows(_MARK.format(keys=LISTED[statements.dialect]), keys=statements.listed(page), **times)

    def candidates(self, spec: DesignSpec, client: str | None = None) -> Iterator[Row]:
        query, values = candidates_query(spec)
        is_seen, values["client"] = "" if client is None else f"AND {IS_VISIBLE}", client
        page_query = query.format(after=is_seen)
        while True:
            with self._database.reading() as statements:
                page = statements.rows(page_query, **values)
            yield from (_row(row) for _, *row in page)
            if len(page) < CANDIDATES_PER_PAGE:
                return
            values["last_utility"], values["last_key"], *_ = page[-1]
            page_query = query.format(after=f"{is_seen} AND (utility, key) < (:last_utility, :last_key)")

    def stats(self) -> Stats:
        """Return the statistics; of a read-only store, with the jobs in its database."""
        from solver_cache.database.jobs import Jobs

        query = "SELECT count(*), count(*) FILTER (WHERE core <> :core) FROM darrm_solutions"
        with self._database.reading() as statements:
            [(rows, stale)] = statements.rows(query, core=CORE)
            size = storage_bytes(statements)
            schema = schema_version(statements)
        return Stats(int(rows), int(stale), size, schema, Jobs(self._database).counts())

    @property
    def found_schema(self) -> int:
        """Schema version before migration; 0 for a new database."""
        return self._database.found_schema

    def integrity_errors(self) -> list[str]:
        with self._database.reading() as statements:
            return integrity_errors(statements)

    def health_check(self) -> None:
        if self._database.read_only:
            with self._database.reading() as statements:
                schema_version(statements)
        else:
            self._database.check_room()
            with self._database.writing() as statements:
                for _ in range(2):  # there and back: SQLite does not write an unchanged row
                    statements.rows("UPDATE darrm_schema SET version = -version")
            self._database.sync()

    def interrupt(self) -> None:
        self._database.interrupt()

    def close(self) -> None:
        if not self._database.read_only:
            with suppress(CacheError):  # unrecorded reads are evicted a little earlier
                self.save_reads()
        self._database.close()
        if "jobs" in vars(self):
            self.jobs.database.close()


def candidates_query(spec: DesignSpec) -> tuple[str, dict[str, Any]]:
    """Return the query for `SearchColumns.answers`, best first, with a place ``{after}``, and its parameters."""
    problem, shapes = spec.problem, SHAPES[spec.shape]
    values = {
        "voters": problem.K,
        "objective": str(spec.objective),
        "core": CORE,
        "shape": shapes[0],
        "other_shape": shapes[-1],
        "voter_epsilon": problem.voter.epsilon,
        "voter_delta": problem.voter.delta,
        "affected": problem.affected,
        "target_epsilon": problem.target.epsilon,
        "target_delta": problem.target.delta,
    }
    return _CANDIDATES, values


_CANDIDATES = f"""
    SELECT utility, key, core, record, digest FROM darrm_solutions
    WHERE voters = :voters AND objective = :objective AND core = :core AND shape IN (:shape, :other_shape)
    AND voter_epsilon >= :voter_epsilon AND voter_delta >= :voter_delta AND affected >= :affected
    AND target_epsilon <= :target_epsilon AND target_delta <= :target_delta {{after}}
    ORDER BY utility DESC, key DESC LIMIT {CANDIDATES_PER_PAGE}
"""


def _row_at(statements: Statements, key: str, lock: str = "") -> Row | None:
    rows = statements.rows(f"{_ROW} WHERE key = :key {lock}", key=key)
    return _row(rows[0]) if rows else None


def _stored(statements: Statements, keys: Collection[str]) -> dict[str, Row]:
    rows = statements.rows(f"{_ROW} WHERE {is_listed(statements)}", keys=statements.listed(keys))
    return {row.key: row for row in map(_row, rows)}


def _present(statements: Statements, keys: Collection[str]) -> set[str]:
    query = f"SELECT key FROM darrm_solutions WHERE {is_listed(statements)} AND core = :core"
    return {str(key) for (key,) in statements.rows(query, keys=statements.listed(keys), core=CORE)}


def _values(row: Row, created: str) -> dict[str, Any]:
    """Return the columns of a row."""
    columns = columns_of(row.record) if row.columns is None else vars(row.columns)
    texts = {"key": row.key, "core": row.core, "record": row.record, "digest": row.digest, "created": created}
    return {**texts, **columns, "bytes": len(row.record)}


def _row(values: Sequence[Any]) -> Row:
    """Return a row from database values, whose types SQLite does not enforce."""
    key, core, record, digest = values
    return Row(str(key), core if isinstance(core, int) else -1, str(record), str(digest))


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


_MARK = """
    INSERT INTO darrm_design_reads (key, read) SELECT value, :read FROM {keys}
    WHERE value IN (SELECT key FROM darrm_solutions)
    ON CONFLICT (key) DO UPDATE SET read = excluded.read WHERE darrm_design_reads.read < :stale
"""
"""Marks stored answers as read, unless marked recently."""


_TAKE = """
    INSERT INTO darrm_claims (key, owner, lease_until) SELECT value, :owner, :now + :lease FROM {keys} WHERE true
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
    WHERE darrm_claims.owner = excluded.owner OR darrm_claims.lease_until NOT BETWEEN :now AND :now + :longest
    RETURNING key
"""
"""Claims keys, in order, that no other owner holds, and returns them."""


def _take_claims(statements: Statements, owner: str, lease_seconds: float, keys: Collection[str]) -> set[str]:
    """Claim keys; return those that ``owner`` now holds."""
    if not keys:
        return set()
    # abandoned claims
    statements.rows("DELETE FROM darrm_claims WHERE lease_until < :now - :longest", longest=MAX_LEASE_SECONDS)
    claimed = statements.rows(
        _TAKE.format(keys=LISTED[statements.dialect]),
        keys=statements.listed(sorted(keys)),
        owner=owner,
        lease=lease_seconds,
        longest=MAX_LEASE_SECONDS,
    )
    return {str(key) for (key,) in claimed}


def _end_claims(statements: Statements, owner: str, keys: Collection[str]) -> set[str]:
    """End the claims of ``owner`` on ``keys``; return the keys that it held."""
    deletion = f"DELETE FROM darrm_claims WHERE {_is_own(statements)} RETURNING key"
    return {str(key) for (key,) in statements.rows(deletion, owner=owner, keys=statements.listed(keys))}


def _is_own(statements: Statements) -> str:
    """Return the condition that ``owner`` holds a claim, locked in order until the transaction ends."""
    return (
        f"key IN (SELECT key FROM darrm_claims WHERE {is_listed(statements)} AND owner = :owner "
        f"ORDER BY key {FOR_UPDATE[statements.dialect]})"
    )
