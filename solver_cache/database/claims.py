"""Claims in a database: statements within the caller's transaction, each for many keys at once.

Keys are locked in their order, so that two who want the same ones wait in turn and never in a circle.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, delete, select, text, update
from sqlalchemy.sql.elements import ColumnElement

from solver_cache.database.dialect import is_among, server_time
from solver_cache.database.schema import CLAIMS
from solver_cache.jobs import MAX_LEASE_SECONDS

_KEYS = {"sqlite": "json_each(:keys)", "postgresql": "unnest(CAST(:keys AS text[])) AS value"}

_TAKE = """
    INSERT INTO darrm_claims (key, owner, lease_until) SELECT value, :owner, :now + :lease FROM {keys} WHERE true
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
    WHERE darrm_claims.owner = excluded.owner OR darrm_claims.lease_until NOT BETWEEN :now AND :now + :longest
    RETURNING key
"""
"""Statement that claims keys in their order, where nobody else holds them, and returns those. As text, since SQLAlchemy
would put it together anew every time."""


def take(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> set[str]:
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
    claimed_keys = connection.execute(text(_TAKE.format(keys=_KEYS[dialect])), parameters).scalars()
    return {str(key) for key in claimed_keys}


def renew(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
    """Hold those of ``keys`` that ``owner`` claimed, and nobody took over, for longer from now."""
    lease_until = server_time(connection.dialect.name) + lease_seconds
    connection.execute(update(CLAIMS).where(_is_own(connection, owner, keys)).values(lease_until=lease_until))


def end(connection: Connection, owner: str, keys: Collection[str]) -> set[str]:
    """End claims; return those of ``keys`` that ``owner`` had claimed, and nobody took over."""
    deletion = delete(CLAIMS).where(_is_own(connection, owner, keys)).returning(CLAIMS.c.key)
    return {str(key) for key in connection.execute(deletion).scalars().all()}


def _is_own(connection: Connection, owner: str, keys: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a claim is the owner's; the claims are locked, in order, until the transaction ends."""
    is_listed = is_among(connection.dialect.name, CLAIMS.c.key, keys)
    own_keys = select(CLAIMS.c.key).where(is_listed, CLAIMS.c.owner == owner).order_by(CLAIMS.c.key).with_for_update()
    return CLAIMS.c.key.in_(own_keys)
