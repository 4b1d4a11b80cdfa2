"""Claims in a database: statements within the caller's transaction, each for many keys at once.

Keys are locked in their order, so that two who want the same ones wait in turn and never in a circle.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, or_, select, update

from solver_cache.database.dialect import execute_many, insert_or_update, is_among, server_time
from solver_cache.database.schema import CLAIMS
from solver_cache.jobs import MAX_LEASE_SECONDS


def take(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> set[str]:
    """Claim keys, as `solver_cache.store.Store.claim` says; return those that ``owner`` holds now."""
    if not keys:
        return set()
    now = server_time(connection.dialect.name)
    void = or_(CLAIMS.c.lease_until < now, CLAIMS.c.lease_until > now + MAX_LEASE_SECONDS)
    connection.execute(delete(CLAIMS).where(CLAIMS.c.lease_until < now - MAX_LEASE_SECONDS))  # nobody will end them
    new = insert_or_update(
        connection.dialect.name,
        CLAIMS,
        or_(void, CLAIMS.c.owner == owner),
        owner=owner,
        lease_until=now + lease_seconds,
    )
    execute_many(connection, new, [{"key": key} for key in sorted(keys)])
    return own(connection, owner, keys)


def own(connection: Connection, owner: str, keys: Collection[str]) -> set[str]:
    """Return those of ``keys`` that ``owner`` claimed, and nobody took over; locked until the transaction ends."""
    some = is_among(connection.dialect.name, CLAIMS.c.key, keys)
    mine = select(CLAIMS.c.key).where(some, CLAIMS.c.owner == owner).order_by(CLAIMS.c.key).with_for_update()
    return {str(key) for key in connection.execute(mine).scalars().all()}


def renew(connection: Connection, lease_seconds: float, own: Collection[str]) -> None:
    """Hold claims, which the caller has locked, for longer from now."""
    until = server_time(connection.dialect.name) + lease_seconds
    mine = is_among(connection.dialect.name, CLAIMS.c.key, own)
    connection.execute(update(CLAIMS).where(mine).values(lease_until=until))


def end(connection: Connection, own: Collection[str]) -> None:
    """End claims, which the caller has locked."""
    connection.execute(delete(CLAIMS).where(is_among(connection.dialect.name, CLAIMS.c.key, own)))
