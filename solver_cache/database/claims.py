"""Claims in a database: statements within the caller's transaction, each for many keys at once.

Keys are locked in their order, so that two who want the same ones wait in turn and never in a circle.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, literal, or_, select, true, update
from sqlalchemy.sql.elements import ColumnElement

from solver_cache.database.dialect import insert_or_update, is_among, server_time, texts_of
from solver_cache.database.schema import CLAIMS
from solver_cache.jobs import MAX_LEASE_SECONDS


def take(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> set[str]:
    """Claim keys, as `solver_cache.store.Store.claim` says; return those that ``owner`` holds now."""
    if not keys:
        return set()
    dialect = connection.dialect.name
    now = server_time(dialect)
    void = or_(CLAIMS.c.lease_until < now, CLAIMS.c.lease_until > now + MAX_LEASE_SECONDS)
    connection.execute(delete(CLAIMS).where(CLAIMS.c.lease_until < now - MAX_LEASE_SECONDS))  # nobody will end them
    wanted = select(texts_of(dialect, sorted(keys)), literal(owner), now + lease_seconds).where(true())
    new = insert_or_update(dialect, CLAIMS, wanted, or_(void, CLAIMS.c.owner == owner))
    return {str(key) for key in connection.execute(new.returning(CLAIMS.c.key)).scalars().all()}


def renew(connection: Connection, owner: str, lease_seconds: float, keys: Collection[str]) -> None:
    """Hold those of ``keys`` that ``owner`` claimed, and nobody took over, for longer from now."""
    until = server_time(connection.dialect.name) + lease_seconds
    connection.execute(update(CLAIMS).where(_is_own(connection, owner, keys)).values(lease_until=until))


def end(connection: Connection, owner: str, keys: Collection[str]) -> set[str]:
    """End claims; return those of ``keys`` that ``owner`` had claimed, and nobody took over."""
    ended = delete(CLAIMS).where(_is_own(connection, owner, keys)).returning(CLAIMS.c.key)
    return {str(key) for key in connection.execute(ended).scalars().all()}


def _is_own(connection: Connection, owner: str, keys: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a claim is the owner's; whatever it finds is locked, in order, until the transaction ends."""
    some = is_among(connection.dialect.name, CLAIMS.c.key, keys)
    mine = select(CLAIMS.c.key).where(some, CLAIMS.c.owner == owner).order_by(CLAIMS.c.key).with_for_update()
    return CLAIMS.c.key.in_(mine)
