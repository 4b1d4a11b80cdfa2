"""Schema of the database: the migrations that make its tables, from nothing or from an older version.

The version is the number of migrations done. A migration is a few statements, for the tables as they were then, and
never changed once released; all that are missing run in one transaction, which both databases extend to the tables
themselves: a migration that is cut short leaves everything as it was. Plain SQL that SQLite and PostgreSQL share.

Why not Alembic: there is one line of versions, each opener migrates by itself, under a lock, and a library may not ask
its user to run a tool first. Alembic would bring its environment, its template engine and branches that never occur, to
run the same few statements; what it is best at, finding out what changed in many tables, is not wanted for a handful.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from solver_cache.database.statements import DamagedDatabase, Statements
from solver_cache.model import SearchColumns, columns_of

FILLED = 500
"""Rows held in memory while columns are filled."""


def fill(statements: Statements) -> int:
    """Fill the columns that are read from the records of answers, where they are empty; return how many rows."""
    names = tuple(SearchColumns.__dataclass_fields__)
    page = "SELECT key, record FROM darrm_solutions WHERE key > :last AND voters IS NULL ORDER BY key LIMIT :limit"
    values = ", ".join(f"{name} = :{name}" for name in names)
    update = f"UPDATE darrm_solutions SET {values} WHERE key = :at"
    last_key, count = "", 0
    while True:
        rows = statements.rows(page, last=last_key, limit=FILLED)
        parameters = [{"at": key, **columns_of(str(record))} for key, record in rows]
        parameters = [columns for columns in parameters if columns["voters"] is not None]
        if parameters:
            statements.change(update, parameters)
        count += len(parameters)
        if len(rows) < FILLED:
            return count
        if not isinstance(rows[-1][0], str) or rows[-1][0] <= last_key:  # or a damaged index is walked round and round
            raise DamagedDatabase("its keys are out of order")
        last_key = rows[-1][0]


NUMBERS = ("voter_epsilon", "voter_delta", "target_epsilon", "target_delta", "utility")

MIGRATIONS: tuple[tuple[str | Callable[[Statements], int], ...], ...] = (
    (
        (
            "CREATE TABLE darrm_solutions (key TEXT NOT NULL PRIMARY KEY, core INTEGER NOT NULL, record TEXT NOT NULL, "
            "digest TEXT NOT NULL, created TEXT NOT NULL)"
        ),
    ),
    (
        (
            "CREATE TABLE darrm_jobs (id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, request TEXT NOT NULL, "
            "state TEXT NOT NULL, attempts INTEGER NOT NULL, owner TEXT NOT NULL, "
            "lease_until DOUBLE PRECISION NOT NULL, progress TEXT NOT NULL, reason TEXT NOT NULL, "
            "result TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL)"
        ),
        # What a claim looks up: the first in the queue, of any kind or of one, and the lease that ran out first.
        "CREATE INDEX darrm_jobs_queue ON darrm_jobs (state, created, id)",
        "CREATE INDEX darrm_jobs_kinds ON darrm_jobs (state, kind, created, id)",
        "CREATE INDEX darrm_jobs_leases ON darrm_jobs (state, lease_until)",
        "CREATE INDEX darrm_jobs_over ON darrm_jobs (state, updated, id)",  # what is pruned
        "CREATE INDEX darrm_jobs_created ON darrm_jobs (created, id)",  # what a list looks up
    ),
    (
        *(f"ALTER TABLE darrm_solutions ADD COLUMN {name} INTEGER" for name in ("voters", "affected")),
        *(f"ALTER TABLE darrm_solutions ADD COLUMN {name} TEXT" for name in ("objective", "shape")),
        *(f"ALTER TABLE darrm_solutions ADD COLUMN {name} DOUBLE PRECISION" for name in NUMBERS),
        fill,
        # From the best down, everything that is compared within the index itself: rows are read only when they answer.
        (
            "CREATE INDEX darrm_solutions_asked ON darrm_solutions (voters, objective, core, utility, key, shape, "
            "voter_epsilon, voter_delta, affected, target_epsilon, target_delta)"
        ),
    ),
    (
        "ALTER TABLE darrm_jobs ADD COLUMN client TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE darrm_jobs ADD COLUMN seconds DOUBLE PRECISION NOT NULL DEFAULT 0",
        "CREATE TABLE darrm_job_clients (id TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (id, client))",
        # What a claim looks up: which clients wait, how many jobs of each run, and when each was served last.
        "CREATE INDEX darrm_jobs_waiting ON darrm_jobs (state, client, created, id, kind, seconds)",
        "CREATE INDEX darrm_jobs_served ON darrm_jobs (client, state, updated)",
        "CREATE INDEX darrm_job_clients_jobs ON darrm_job_clients (client, id)",
    ),
    (
        "ALTER TABLE darrm_jobs ADD COLUMN trace TEXT NOT NULL DEFAULT ''",
        (
            "CREATE TABLE darrm_webhooks (id TEXT NOT NULL PRIMARY KEY, job TEXT NOT NULL, client TEXT NOT NULL, "
            "url TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, due DOUBLE PRECISION NOT NULL, "
            "reason TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL)"
        ),
        # What is looked up: the next one to deliver, those of a job, and how many of a client's are pending.
        "CREATE INDEX darrm_webhooks_due ON darrm_webhooks (state, attempts, due, job)",
        "CREATE INDEX darrm_webhooks_jobs ON darrm_webhooks (job, created)",
        "CREATE INDEX darrm_webhooks_clients ON darrm_webhooks (client, state)",
    ),
    (
        (
            "CREATE TABLE darrm_design_tags (key TEXT NOT NULL, tag TEXT NOT NULL, created TEXT NOT NULL, "
            "PRIMARY KEY (key, tag))"
        ),
        "CREATE INDEX darrm_design_tags_tag ON darrm_design_tags (tag, key)",
        "CREATE INDEX darrm_solutions_created ON darrm_solutions (core, created, key)",  # a list
    ),
    (
        (
            "CREATE TABLE darrm_claims (key TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, "
            "lease_until DOUBLE PRECISION NOT NULL)"
        ),
        "DELETE FROM darrm_jobs WHERE kind = 'precompute'",  # which were claims, open or ended
    ),
    (
        # A list reads the index alone, newest first, whatever it is filtered by: records are a hundred times longer.
        "DROP INDEX darrm_solutions_created",
        (
            "CREATE INDEX darrm_solutions_listed ON darrm_solutions (core, created, key, voters, voter_epsilon, "
            "target_epsilon)"
        ),
        "CREATE TABLE darrm_job_turns (client TEXT NOT NULL PRIMARY KEY, served DOUBLE PRECISION NOT NULL)",
        (
            "INSERT INTO darrm_job_turns SELECT client, max(updated) FROM darrm_jobs "
            "WHERE state IN ('running', 'done', 'failed') GROUP BY client"
        ),
    ),
    (
        "ALTER TABLE darrm_solutions ADD COLUMN bytes INTEGER",
        "UPDATE darrm_solutions SET bytes = length(record)",
        # What eviction and quotas read: the index alone.
        "CREATE INDEX darrm_solutions_sizes ON darrm_solutions (key, bytes, created)",
        "CREATE TABLE darrm_design_reads (key TEXT NOT NULL PRIMARY KEY, read TEXT NOT NULL)",
        ("CREATE TABLE darrm_design_clients (key TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (key, client))"),
        "CREATE INDEX darrm_design_clients_clients ON darrm_design_clients (client, key)",
        (
            "CREATE TABLE darrm_tags_of_clients (key TEXT NOT NULL, tag TEXT NOT NULL, client TEXT NOT NULL, "
            "created TEXT NOT NULL, PRIMARY KEY (key, tag, client))"
        ),
        "INSERT INTO darrm_tags_of_clients SELECT key, tag, '', created FROM darrm_design_tags",
        "DROP TABLE darrm_design_tags",
        "ALTER TABLE darrm_tags_of_clients RENAME TO darrm_design_tags",
        "CREATE INDEX darrm_design_tags_tag ON darrm_design_tags (tag, key)",
    ),
)
"""Statements by which each version of the schema is made of the one before, the first of nothing."""

ADVISORY_LOCK = 0x6461_7272_6D
"""Number under which PostgreSQL lets one process at a time migrate ("darrm" in ASCII)."""


class NewerSchema(Exception):
    """The database was made by a newer version of this program."""


_SCHEMA_TABLE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'darrm_schema'",
    "postgresql": "SELECT name FROM to_regclass('darrm_schema') name WHERE name IS NOT NULL",
}


def schema_version(statements: Statements) -> int:
    """Return the version of the schema; 0 where there is none yet."""
    if not statements.rows(_SCHEMA_TABLE[statements.dialect]):
        return 0
    [(version,)] = statements.rows("SELECT max(version) FROM darrm_schema")
    if version is None:
        return 0
    if not isinstance(version, int):  # SQLite keeps anything anywhere
        raise DamagedDatabase(f"its schema has version {version!r:.40}")
    if version > len(MIGRATIONS):
        raise NewerSchema(f"its schema has version {version}, this program knows {len(MIGRATIONS)}")
    return version


def migrate(statements: Statements) -> int:
    """Bring the database to the present schema, inside the caller's transaction; return the version found."""
    if statements.dialect == "postgresql":
        statements.rows("SELECT pg_advisory_xact_lock(:key)", key=ADVISORY_LOCK)
    statements.rows("CREATE TABLE IF NOT EXISTS darrm_schema (version INTEGER NOT NULL)")
    version = schema_version(statements)
    for step in itertools.chain.from_iterable(MIGRATIONS[version:]):
        statements.rows(step) if isinstance(step, str) else step(statements)
    # Written even where nothing changed: a place that can only be read says so now, and not after a long solve.
    statements.rows("DELETE FROM darrm_schema")
    statements.rows("INSERT INTO darrm_schema (version) VALUES (:version)", version=len(MIGRATIONS))
    return version
