"""The database's tables, and how an older database becomes this one.

The version is the number of migrations done. A migration is one function, written for the tables as they were then,
never changed once released; all that are missing run in one transaction. Plain SQL that SQLite and PostgreSQL share.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Column, Connection, Double, Integer, MetaData, Table, Text, inspect, text

METADATA = MetaData()

SOLUTIONS = Table(
    "darrm_solutions",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("core", Integer, nullable=False),
    Column("record", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created", Text, nullable=False),  # UTC, ISO 8601; for people, nothing depends on it
)
"""Kept answers: a `solver_cache.row.Row` each."""

JOBS = Table(
    "darrm_jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("lease_until", Double, nullable=False),
    Column("progress", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
)
"""Work that can be waited for: a `solver_cache.jobs.Job` each."""


def _first(connection: Connection) -> None:
    connection.execute(
        text(
            "CREATE TABLE darrm_solutions (key TEXT NOT NULL PRIMARY KEY, core INTEGER NOT NULL, record TEXT NOT NULL, "
            "digest TEXT NOT NULL, created TEXT NOT NULL)"
        )
    )


def _second(connection: Connection) -> None:
    connection.execute(
        text(
            "CREATE TABLE darrm_jobs (id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, request TEXT NOT NULL, "
            "state TEXT NOT NULL, attempts INTEGER NOT NULL, owner TEXT NOT NULL, lease_until DOUBLE PRECISION NOT NULL, "
            "progress TEXT NOT NULL, reason TEXT NOT NULL, result TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, "
            "updated DOUBLE PRECISION NOT NULL)"
        )
    )
    # What a claim looks up: the first in the queue, of any kind or of one, and the lease that ran out first.
    connection.execute(text("CREATE INDEX darrm_jobs_queue ON darrm_jobs (state, created, id)"))
    connection.execute(text("CREATE INDEX darrm_jobs_kinds ON darrm_jobs (state, kind, created, id)"))
    connection.execute(text("CREATE INDEX darrm_jobs_leases ON darrm_jobs (state, lease_until)"))
    connection.execute(text("CREATE INDEX darrm_jobs_created ON darrm_jobs (created, id)"))  # what a list looks up


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first, _second)

ADVISORY_LOCK = 0x6461_7272_6D
"""Number under which PostgreSQL lets one process at a time migrate ("darrm" in ASCII)."""


class NewerSchema(Exception):
    """The database was made by a newer version of this program."""


def schema_version(connection: Connection) -> int:
    """Return the version of the schema; 0 where there is none yet.

    Raises:
        NewerSchema: it is beyond what this program knows.
    """
    if not inspect(connection).has_table("darrm_schema"):
        return 0
    found = connection.execute(text("SELECT max(version) FROM darrm_schema")).scalar()
    version = 0 if found is None else int(found)
    if version > len(MIGRATIONS):
        raise NewerSchema(f"its schema has version {version}, this program knows {len(MIGRATIONS)}")
    return version


def migrate(connection: Connection) -> int:
    """Bring the database to the present schema, inside the caller's transaction; return the version found.

    Raises:
        NewerSchema: it is beyond what this program knows.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    connection.execute(text("CREATE TABLE IF NOT EXISTS darrm_schema (version INTEGER NOT NULL)"))
    version = schema_version(connection)
    for migration in MIGRATIONS[version:]:
        migration(connection)
    # Written even where nothing changed: a place that can only be read says so now, and not after a long solve.
    connection.execute(text("DELETE FROM darrm_schema"))
    connection.execute(text("INSERT INTO darrm_schema (version) VALUES (:version)"), {"version": len(MIGRATIONS)})
    return version
