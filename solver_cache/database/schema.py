"""Schema of the database: migrations that create its tables or upgrade an older version.

The version is the number of migrations done. A migration is a few statements for the tables as they were then, and
never changes after its release. All missing ones run in one transaction, including the changes of tables, so an
interrupted migration leaves everything as it was. The SQL is common to SQLite and PostgreSQL.

Alembic is not used: versions form one line, each opener migrates by itself under a lock, and a library cannot ask its
user to run a tool first.
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
        # a covering index, best first: only rows that match are read.
        (
            "CREATE INDEX darrm_solutions_asked ON darrm_solutions (voters, objective, core, utility, key, shape, "
            "voter_epsilon, voter_delta, affected, target_epsilon, target_delta)"
        ),
        # a covering index for lists, newest first: records are a hundred times longer.
        (
            "CREATE INDEX darrm_solutions_listed ON darrm_solutions (core, created, key, voters, voter_epsilon, "
            "target_epsilon)"
        ),
        # a covering index for eviction and quotas
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
        # For `Jobs.take`: the head of the queue, of all kinds or of one; the first expired lease; waiting clients,
        # and their running jobs.
        "CREATE INDEX darrm_jobs_queue ON darrm_jobs (state, created, id)",
        "CREATE INDEX darrm_jobs_kinds ON darrm_jobs (state, kind, created, id)",
        "CREATE INDEX darrm_jobs_leases ON darrm_jobs (state, lease_until)",
        "CREATE INDEX darrm_jobs_waiting ON darrm_jobs (state, client, created, id, kind, seconds)",
        "CREATE INDEX darrm_jobs_served ON darrm_jobs (client, state, updated)",
        "CREATE INDEX darrm_jobs_over ON darrm_jobs (state, updated, id)",  # for pruning
        "CREATE INDEX darrm_jobs_created ON darrm_jobs (created, id)",  # for lists
        "CREATE TABLE darrm_job_clients (id TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY (id, client))",
        "CREATE INDEX darrm_job_clients_jobs ON darrm_job_clients (client, id)",
        "CREATE TABLE darrm_job_turns (client TEXT NOT NULL PRIMARY KEY, served DOUBLE PRECISION NOT NULL)",
        (
            "CREATE TABLE darrm_webhooks (id TEXT NOT NULL PRIMARY KEY, job TEXT NOT NULL, client TEXT NOT NULL, "
            "url TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, due DOUBLE PRECISION NOT NULL, "
            "reason TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL)"
        ),
        # the next webhook to deliver, those of a job, and those pending for a client
        "CREATE INDEX darrm_webhooks_due ON darrm_webhooks (state, attempts, due, job)",
        "CREATE INDEX darrm_webhooks_jobs ON darrm_webhooks (job, created)",
        "CREATE INDEX darrm_webhooks_clients ON darrm_webhooks (client, state)",
    ),
)
"""Statements of each migration, the first from an empty database."""

ADVISORY_LOCK = 0x6461_7272_6D  # PostgreSQL lock of migrations ("darrm" in ASCII)


class NewerSchema(Exception):
    """The database was made by a newer version of this program."""


_SCHEMA_TABLE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'darrm_schema'",
    "postgresql": "SELECT name FROM to_regclass('darrm_schema') name WHERE name IS NOT NULL",
}


def newest_version() -> int:
    """Return the schema version of this program."""
    return len(MIGRATIONS)


def schema_version(statements: Statements) -> int:
    """Return the schema version; 0 without a schema."""
    if not statements.rows(_SCHEMA_TABLE[statements.dialect]):
        return 0
    [(version,)] = statements.rows("SELECT max(version) FROM darrm_schema")
    if version is None:
        return 0
    if not isinstance(version, int):  # SQLite does not enforce types
        raise DamagedDatabase(f"its schema has version {version!r:.40}")
    if version > len(MIGRATIONS):
        raise NewerSchema(f"its schema has version {version}; this program supports {len(MIGRATIONS)}")
    return version


def migrate(statements: Statements) -> int:
    """Migrate to the current schema, inside the caller's transaction; return the version found."""
    if statements.dialect == "postgresql":
        statements.rows("SELECT pg_advisory_xact_lock(:key)", key=ADVISORY_LOCK)
    statements.rows("CREATE TABLE IF NOT EXISTS darrm_schema (version INTEGER NOT NULL)")
    version = schema_version(statements)
    for step in itertools.chain.from_iterable(MIGRATIONS[version:]):
        statements.rows(step)
    # Written even if unchanged: a read-only database fails now, not after a long solve.
    statements.rows("DELETE FROM darrm_schema")
    statements.rows("INSERT INTO darrm_schema (version) VALUES (:version)", version=len(MIGRATIONS))
    return version
