"""Tables of the database as SQLAlchemy Core knows them; `schema.py` makes them."""

from __future__ import annotations

from sqlalchemy import Column, Double, Integer, MetaData, Table, Text

METADATA = MetaData()

SOLUTIONS = Table(
    "darrm_solutions",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("core", Integer, nullable=False),
    Column("record", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created", Text, nullable=False),  # UTC, ISO 8601; for people, nothing depends on it
    Column("voters", Integer),
    Column("voter_epsilon", Double),
    Column("voter_delta", Double),
    Column("affected", Integer),
    Column("target_epsilon", Double),
    Column("target_delta", Double),
    Column("objective", Text),
    Column("shape", Text),
    Column("utility", Double),
)
"""Kept answers: a `solver_cache.model.Row` each, and behind it what its record says was asked (`solver_cache.model`),
for searches; NULL where it does not say."""

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
    Column("client", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("trace", Text, nullable=False),
)
"""Work that can be waited for: a `solver_cache.database.jobs.Job` each."""

CLAIMS = Table(
    "darrm_claims",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("lease_until", Double, nullable=False),
)
"""Leases on the keys of answers that are being solved."""

JOB_CLIENTS = Table(
    "darrm_job_clients",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("client", Text, primary_key=True),
)
"""Clients of each job: whoever submitted it and has not taken that back."""

JOB_TURNS = Table(
    "darrm_job_turns",
    METADATA,
    Column("client", Text, primary_key=True),
    Column("served", Double, nullable=False),
)
"""When each client's job was taken last [s since 1970-01-01 UTC]."""

WEBHOOKS = Table(
    "darrm_webhooks",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("job", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
)
"""Who is told when a job ends: a `solver_cache.database.webhooks.Webhook` each."""

TAGS = Table(
    "darrm_design_tags",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("tag", Text, primary_key=True),
    Column("created", Text, nullable=False),
)
"""Tags of stored answers, by content key (`solver_cache.database.designs`): beside the rows, which no tag can touch."""
