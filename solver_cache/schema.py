"""The database's tables, and how an older database becomes this one.

The version is the number of migrations done. A migration is one function, written for the tables as they were then,
never changed once released; all that are missing run in one transaction. Plain SQL that SQLite and PostgreSQL share.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, text

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


def _first(connection: Connection) -> None:
    connection.execute(
        text(
            "CREATE TABLE darrm_solutions (key TEXT NOT NULL PRIMARY KEY, core INTEGER NOT NULL, record TEXT NOT NULL, "
            "digest TEXT NOT NULL, created TEXT NOT NULL)"
        )
    )


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_first,)

ADVISORY_LOCK = 0x6461_7272_6D
"""Number under which PostgreSQL lets one process at a time migrate ("darrm" in ASCII)."""


class NewerSchema(Exception):
    """The database was made by a newer version of this program."""


def migrate(connection: Connection) -> int:
    """Bring the database to the present schema, inside the caller's transaction; return the version found.

    Raises:
        NewerSchema: it is beyond what this program knows.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    connection.execute(text("CREATE TABLE IF NOT EXISTS darrm_schema (version INTEGER NOT NULL)"))
    found = connection.execute(text("SELECT max(version) FROM darrm_schema")).scalar()
    version = 0 if found is None else int(found)
    if version > len(MIGRATIONS):
        raise NewerSchema(f"its schema has version {version}, this program knows {len(MIGRATIONS)}")
    for migration in MIGRATIONS[version:]:
        migration(connection)
    # Written even where nothing changed: a place that can only be read says so now, and not after a long solve.
    connection.execute(text("DELETE FROM darrm_schema"))
    connection.execute(text("INSERT INTO darrm_schema (version) VALUES (:version)"), {"version": len(MIGRATIONS)})
    return version
