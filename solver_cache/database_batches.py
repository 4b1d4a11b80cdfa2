"""Many jobs in one transaction of a database: taken, held for longer, let go, done.

Rows are locked in the order of their ids, so that those who want the same ones wait in turn and never in a circle; what
another is changing at this moment is passed over, as held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, or_, select, update

from solver_cache.inserting import insert_new
from solver_cache.jobs import MAX_LEASE, OVER, State, Taken
from solver_cache.schema import JOBS
from solver_cache.server_time import server_time

NAMED = 500
"""Ids in one query; SQLite takes 999 values in its oldest builds."""

NEW: dict[str, Any] = {
    "state": "queued",
    "attempts": 0,
    "owner": "",
    "lease_until": 0.0,
    "progress": "",
    "reason": "",
    "result": "",
}
"""A job that was submitted just now, but for its id, kind, request and times."""

LET_GO: dict[str, Any] = {"owner": "", "lease_until": 0.0}
"""A job that nobody holds."""


def taken(
    connection: Connection, owner: str, lease_seconds: float, kind: str, requests: Mapping[str, str], *, afresh: bool
) -> dict[str, Taken]:
    """Submit and claim jobs, within the caller's transaction, as `solver_cache.jobs.Jobs.take` says."""
    now, became = server_time(connection.dialect.name), dict[str, Taken]()
    claim = {"state": "running", "owner": owner, "lease_until": now + lease_seconds, "updated": now}
    for names in _some(requests):
        absent, over, free = _standing(connection, names, afresh=afresh)
        first = {**NEW, **claim, "kind": kind, "attempts": 1, "created": now}
        if absent:
            new = insert_new(connection.dialect.name, JOBS, id=bindparam("name"), request=bindparam("asked"), **first)
            connection.execute(new, [{"name": name, "asked": requests[name]} for name in absent])
        if over:
            again = update(JOBS).where(JOBS.c.id == bindparam("name")).values(request=bindparam("asked"), **first)
            connection.execute(again, [{"name": name, "asked": requests[name]} for name in over])
        if free:
            more = update(JOBS).where(JOBS.c.id.in_(free)).values(attempts=JOBS.c.attempts + 1, **claim)
            connection.execute(more)
        found = connection.execute(select(JOBS.c.id, JOBS.c.state, JOBS.c.owner).where(JOBS.c.id.in_(names)))
        became |= {str(name): _became(state, holder == owner) for name, state, holder in found}
    return became


def held(connection: Connection, ids: Collection[str], owner: str) -> list[str]:
    """Return those jobs that ``owner`` holds, locked until the caller's transaction ends."""
    found: list[str] = []
    for names in _some(ids):
        mine = select(JOBS.c.id).where(JOBS.c.id.in_(names), JOBS.c.owner == owner, JOBS.c.state == "running")
        found += connection.execute(mine.order_by(JOBS.c.id).with_for_update()).scalars()
    return found


def change(connection: Connection, ids: Collection[str], **values: Any) -> None:
    """Change jobs that the caller has locked."""
    for names in _some(ids):
        now = server_time(connection.dialect.name)
        connection.execute(update(JOBS).where(JOBS.c.id.in_(names)).values(updated=now, **values))


def finished(connection: Connection, owner: str, results: Mapping[str, str]) -> set[str]:
    """Make those jobs done that ``owner`` holds, within the caller's transaction; return which."""
    mine = held(connection, results, owner)
    if mine:
        now = server_time(connection.dialect.name)
        done = update(JOBS).where(JOBS.c.id == bindparam("name")).values(result=bindparam("told"), **_DONE, updated=now)
        connection.execute(done, [{"name": name, "told": results[name]} for name in mine])
    return set(mine)


_DONE: dict[str, Any] = {"state": "done", **LET_GO}


def _standing(connection: Connection, names: list[str], *, afresh: bool) -> tuple[list[str], list[str], list[str]]:
    """Return the jobs that are not there, those to be done again as new, and those that wait to be claimed; locked."""
    again: tuple[State, ...] = OVER if afresh else ("failed", "cancelled")
    now = server_time(connection.dialect.name)
    void = or_(JOBS.c.lease_until < now, JOBS.c.lease_until > now + MAX_LEASE)
    there = select(JOBS.c.id, JOBS.c.state, void).where(JOBS.c.id.in_(names)).order_by(JOBS.c.id)
    over, free, known = list[str](), list[str](), set[str]()
    for name, state, ran_out in connection.execute(there.with_for_update(skip_locked=True)):
        known.add(name)
        if state in again:
            over.append(name)
        elif state == "queued" or (state == "running" and ran_out):
            free.append(name)
    return [name for name in names if name not in known], over, free


def _became(state: str, mine: bool) -> Taken:  # noqa: FBT001 — a column of what was read
    if state == "running" and mine:
        return "taken"
    return "done" if state == "done" else "held"


def _some(ids: Collection[str]) -> Iterator[list[str]]:
    """Yield ids in their order, so many that one query takes them."""
    names = sorted(ids)
    for start in range(0, len(names), NAMED):
        yield names[start : start + NAMED]
