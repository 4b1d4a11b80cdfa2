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

from solver_cache.database.statements import DamagedDatabase, Statements

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        (
            "CREATE TABLE darrm_solutions (key TEXT NOT NULL PRIMARY KEY, core INTEGER NOT NULL, record TEXT NOT NULL, "
            "digest TEXT NOT NULL, created TEXT NOT NULL, voters INTEGER, affected INTEGER, objective TEXT, "
            "shape TEXT, voter_epsilon DOUBLE PRECISION, voter_delta DOUBLE PRECISION, "
            "target_epsilon DOUBLE PRECISION, target_delta DOUBLE PRECISION, utility DOUBLE PRECISION, bytes INTEGER)"
        ),
        # From the best down, everything that is compared within the index itself: rows are read only when they answer.
        (
            "CREATE INDEX darrm_solutions_asked ON darrm_solutions (voters, objective, core, utility, key, shape, "
            "voter_epsilon, voter_delta, affected, target_epsilon, target_delta)"
        ),
        # A list reads the index alone, newest first, whatever it is filtered by: records are a hundred times longer.
        (
            "CREATE INDEX darrm_solutions_listed ON darrm_solutions (core, created, key, voters, voter_epsilon, "
            "target_epsilon)"
        ),
        # What eviction and quotas read: the index alone.
        "CREATE INDEX darrm_solutions_sizes ON darrm_solutions (key, bytes, created)",
        "CREATE TABLE darrm_design_reads (key TEXT NOT NULL PRIMARY KEY, read TEXT NOT NULL)",
        "CREATE TABLE darrm_design_clients (key TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (key, client))",
        "CREATE INDEX darrm_design_clients_clients ON darrm_design_clients (client, key)",
        (
            "CREATE TABLE darrm_design_tags (key TEXT NOT NULL, tag TEXT NOT NULL, client TEXT NOT NULL, "
            "created TEXT NOT NULL, PRIMARY KEY (key, tag, client))"
        ),
        "CREATE INDEX darrm_design_tags_tag ON darrm_design_tags (tag, key)",
        (
            "CREATE TABLE darrm_claims (key TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, "
            "lease_until DOUBLE PRECISION NOT NULL)"
        ),
        (
            "CREATE TABLE darrm_jobs (id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, request TEXT NOT NULL, "
            "state TEXT NOT NULL, attempts INTEGER NOT NULL, owner TEXT NOT NULL, "
            "lease_until DOUBLE PRECISION NOT NULL, progress TEXT NOT NULL, reason TEXT NOT NULL, "
            "result TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL, "
            "client TEXT NOT NULL DEFAULT '', seconds DOUBLE PRECISION NOT NULL DEFAULT 0, "
            "trace TEXT NOT NULL DEFAULT '')"
        ),
        # What a claim looks up: the first in the queue, of any kind or of one, and the lease that ran out first; which
        # clients wait, and how many jobs of each run.
        "CREATE INDEX darrm_jobs_queue ON darrm_jobs (state, created, id)",
        "CREATE INDEX darrm_jobs_kinds ON darrm_jobs (state, kind, created, id)",
        "CREATE INDEX darrm_jobs_leases ON darrm_jobs (state, lease_until)",
        "CREATE INDEX darrm_jobs_waiting ON darrm_jobs (state, client, created, id, kind, seconds)",
        "CREATE INDEX darrm_jobs_served ON darrm_jobs (client, state, updated)",
        "CREATE INDEX darrm_jobs_over ON darrm_jobs (state, updated, id)",  # what is pruned
        "CREATE INDEX darrm_jobs_created ON darrm_jobs (created, id)",  # what a list looks up
        "CREATE TABLE darrm_job_clients (id TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (id, client))",
        "CREATE INDEX darrm_job_clients_jobs ON darrm_job_clients (client, id)",
        "CREATE TABLE darrm_job_turns (client TEXT NOT NULL PRIMARY KEY, served DOUBLE PRECISION NOT NULL)",
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


def newest_version() -> int:
    """Return the version that this program reads and writes."""
    return len(MIGRATIONS)


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
        statements.rows(step)
    # Written even where nothing changed: a place that can only be read says so now, and not after a long solve.
    statements.rows("DELETE FROM darrm_schema")
    statements.rows("INSERT INTO darrm_schema (version) VALUES (:version)", version=len(MIGRATIONS))
    return version
