"""Jobs in a database: the claims are its transactions, the time is its server's.

`DatabaseJobs.claim` looks up two index entries, however many jobs there are: the lease that ran out first, and the job
that has waited longest. PostgreSQL skips what another claimer has locked; SQLite admits one writer at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Update, and_, bindparam, delete, func, or_, select, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from solver_cache.database.connection import Database
from solver_cache.database.dialect import insert_new, server_time
from solver_cache.database.schema import JOBS
from solver_cache.jobs import (
    FINAL_STATES,
    MAX_LEASE_SECONDS,
    PAGE_SIZE,
    STATES,
    ClaimResult,
    Job,
    State,
    check_claim,
    check_list,
    unknown_after,
)

MAX_PRUNED_AT_ONCE = 1_000
"""Jobs forgotten in one transaction: others can write in between."""

MAX_KEYS_PER_QUERY = 500
"""Ids in one query; SQLite takes 999 values in its oldest builds."""

QUEUED: dict[str, Any] = {
    "state": "queued",
    "attempts": 0,
    "owner": "",
    "lease_until": 0.0,
    "progress": "",
    "reason": "",
    "result": "",
}
"""A job that was submitted just now, but for its id, kind, request and times."""

RELEASED: dict[str, Any] = {"owner": "", "lease_until": 0.0}
"""A job that nobody holds."""

_DONE: dict[str, Any] = {"state": "done", **RELEASED}


class DatabaseJobs:
    """`solver_cache.jobs.Jobs` in an open database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, id: str, kind: str, request: str, *, afresh: bool = False) -> Job:  # noqa: A002 — the field's name
        """Queue a job as `Jobs.submit` says."""
        again: tuple[State, ...] = FINAL_STATES if afresh else ("failed", "cancelled")
        there = self.get(id)
        if there is not None and there.state not in again:
            return there  # the usual case, without a writer's lock
        with self._database.writing() as connection:
            now = self._now
            values = {**QUEUED, "kind": kind, "request": request, "created": now, "updated": now}
            connection.execute(insert_new(self._database.dialect, JOBS, id=id, **values))
            connection.execute(update(JOBS).where(JOBS.c.id == id, JOBS.c.state.in_(again)).values(**values))
            return _job(connection.execute(select(JOBS).where(JOBS.c.id == id)).one())

    def get(self, id: str) -> Job | None:  # noqa: A002
        """Return a job, or None where there is none."""
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS).where(JOBS.c.id == id)).one_or_none()
        return None if found is None else _job(found)

    def list(self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None) -> Sequence[Job]:
        """Return jobs, the newest first, as `Jobs.list` says."""
        check_list(state, limit)
        page = select(JOBS).order_by(JOBS.c.created.desc(), JOBS.c.id.desc()).limit(limit)
        if state is not None:
            page = page.where(JOBS.c.state == state)
        with self._database.reading() as connection:
            if after is not None:
                last = connection.execute(select(JOBS.c.created, JOBS.c.id).where(JOBS.c.id == after)).one_or_none()
                if last is None:
                    raise unknown_after(after)
                page = page.where(tuple_(JOBS.c.created, JOBS.c.id) < tuple_(*last))
            return [_job(found) for found in connection.execute(page)]

    def counts(self) -> dict[State, int]:
        """Return the number of jobs in each state."""
        with self._database.reading() as connection:
            found = connection.execute(select(JOBS.c.state, func.count()).group_by(JOBS.c.state))
            counted = {str(state): int(number) for state, number in found}
        return {state: counted.get(state, 0) for state in STATES}

    def claim(
        self, owner: str, lease_seconds: float, ids: Collection[str] | None = None, kind: str | None = None
    ) -> Job | None:
        """Take one job as `Jobs.claim` says."""
        check_claim(owner, lease_seconds)
        with self._database.reading() as connection:  # who polls an empty queue takes no writer's lock
            if all(connection.execute(query).first() is None for query in self.free(ids, kind)):
                return None
        with self._database.writing() as connection:
            locked = (connection.execute(query.with_for_update(skip_locked=True)) for query in self.free(ids, kind))
            found = next((name for name in (each.scalar_one_or_none() for each in locked) if name is not None), None)
            if found is None:
                return None
            now = self._now
            taken = (
                update(JOBS)
                .where(JOBS.c.id == found)
                .values(
                    state="running",
                    owner=owner,
                    attempts=JOBS.c.attempts + 1,
                    lease_until=now + lease_seconds,
                    updated=now,
                )
            )
            return _job(connection.execute(taken.returning(*JOBS.c)).one())

    def take(
        self, owner: str, lease_seconds: float, kind: str, requests: Mapping[str, str], *, afresh: bool = False
    ) -> dict[str, ClaimResult]:
        """Submit and claim jobs as `Jobs.take` says."""
        check_claim(owner, lease_seconds)
        with self._database.writing() as connection:
            return _submit_and_claim(connection, owner, lease_seconds, kind, requests, afresh=afresh)

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:  # noqa: A002
        """Hold a claim for longer as `Jobs.renew` says."""
        check_claim(owner, lease_seconds)
        more = {} if progress is None else {"progress": progress}
        with self._database.writing() as connection:
            until = self._now + lease_seconds
            return self._changed(connection, _held(id, owner), lease_until=until, **more)

    def renew_all(self, ids: Collection[str], owner: str, lease_seconds: float) -> set[str]:
        """Hold claims for longer as `Jobs.renew_all` says."""
        check_claim(owner, lease_seconds)
        with self._database.writing() as connection:
            mine = _lock_held(connection, ids, owner)
            _change(connection, mine, lease_until=self._now + lease_seconds)
        return set(mine)

    def finish(self, id: str, owner: str, result: str) -> bool:  # noqa: A002
        """Make a claimed job done as `Jobs.finish` says."""
        with self._database.writing() as connection:
            return self._changed(connection, _held(id, owner), state="done", result=result, **RELEASED)

    def fail(self, id: str, owner: str, reason: str) -> bool:  # noqa: A002
        """Make a claimed job failed as `Jobs.fail` says."""
        said = reason.replace("\0", "�")  # which PostgreSQL does not keep
        with self._database.writing() as connection:
            return self._changed(connection, _held(id, owner), state="failed", reason=said, **RELEASED)

    def release(self, id: str, owner: str) -> bool:  # noqa: A002
        """Put a claimed job back as `Jobs.release` says."""
        with self._database.writing() as connection:
            back = {"state": "queued", "attempts": JOBS.c.attempts - 1, **RELEASED}
            return self._changed(connection, _held(id, owner), **back)

    def release_all(self, ids: Collection[str], owner: str) -> set[str]:
        """Put claimed jobs back as `Jobs.release_all` says."""
        with self._database.writing() as connection:
            mine = _lock_held(connection, ids, owner)
            _change(connection, mine, state="queued", attempts=JOBS.c.attempts - 1, **RELEASED)
        return set(mine)

    def cancel(self, id: str) -> Job | None:  # noqa: A002
        """Cancel a job that is not over, as `Jobs.cancel` says."""
        with self._database.writing() as connection:
            open_still = update(JOBS).where(JOBS.c.id == id, JOBS.c.state.in_(("queued", "running")))
            self._changed(connection, open_still, state="cancelled", **RELEASED)
        return self.get(id)

    def prune(self, before: float) -> int:
        """Forget jobs that were over before that time, as `Jobs.prune` says."""
        forgotten = 0
        for state in FINAL_STATES:
            old = and_(JOBS.c.state == state, JOBS.c.updated < before)
            page = select(JOBS.c.id).where(old).order_by(JOBS.c.updated, JOBS.c.id).limit(MAX_PRUNED_AT_ONCE)
            found, gone = [""] * MAX_PRUNED_AT_ONCE, MAX_PRUNED_AT_ONCE
            while len(found) == MAX_PRUNED_AT_ONCE and gone:  # `gone` is 0 where a damaged file forgets nothing
                with self._database.writing() as connection:
                    found = list(connection.execute(page).scalars())
                    gone = connection.execute(delete(JOBS).where(old, JOBS.c.id.in_(found))).rowcount
                    forgotten += gone
        return forgotten

    def free(self, ids: Collection[str] | None = None, kind: str | None = None) -> Iterator[Select[tuple[str]]]:
        """Yield the queries for the id of a job that can be claimed, in the order in which they are asked."""
        void = or_(JOBS.c.lease_until < self._now, JOBS.c.lease_until > self._now + MAX_LEASE_SECONDS)
        abandoned = select(JOBS.c.id).where(JOBS.c.state == "running", void).order_by(JOBS.c.lease_until)
        waiting = select(JOBS.c.id).where(JOBS.c.state == "queued").order_by(JOBS.c.created, JOBS.c.id)
        for free in (abandoned, waiting):
            one = free if ids is None else free.where(JOBS.c.id.in_(ids))
            yield (one if kind is None else one.where(JOBS.c.kind == kind)).limit(1)

    def _changed(self, connection: Connection, which: Update, **values: Any) -> bool:
        return connection.execute(which.values(updated=self._now, **values)).rowcount == 1

    @property
    def _now(self) -> ColumnElement[float]:
        """The time by the clock that all who share the database see [s since 1970-01-01 UTC]."""
        return server_time(self._database.dialect)


def _held(id: str, owner: str) -> Update:  # noqa: A002
    return update(JOBS).where(JOBS.c.id == id, JOBS.c.owner == owner, JOBS.c.state == "running")


def _job(found: Any) -> Job:
    return Job(*found)  # the columns are the noun's fields


def _submit_and_claim(
    connection: Connection, owner: str, lease_seconds: float, kind: str, requests: Mapping[str, str], *, afresh: bool
) -> dict[str, ClaimResult]:
    """Submit and claim jobs, within the caller's transaction, as `solver_cache.jobs.Jobs.take` says."""
    now, became = server_time(connection.dialect.name), dict[str, ClaimResult]()
    claim = {"state": "running", "owner": owner, "lease_until": now + lease_seconds, "updated": now}
    for names in pages(requests):
        absent, over, free = _lock_submitted(connection, names, afresh=afresh)
        first = {**QUEUED, **claim, "kind": kind, "attempts": 1, "created": now}
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
        became |= {str(name): _claim_result(state, holder == owner) for name, state, holder in found}
    return became


def _lock_held(connection: Connection, ids: Collection[str], owner: str) -> list[str]:
    """Return those jobs that ``owner`` holds, locked until the caller's transaction ends."""
    found: list[str] = []
    for names in pages(ids):
        mine = select(JOBS.c.id).where(JOBS.c.id.in_(names), JOBS.c.owner == owner, JOBS.c.state == "running")
        found += connection.execute(mine.order_by(JOBS.c.id).with_for_update()).scalars()
    return found


def _change(connection: Connection, ids: Collection[str], **values: Any) -> None:
    """Change jobs that the caller has locked."""
    for names in pages(ids):
        now = server_time(connection.dialect.name)
        connection.execute(update(JOBS).where(JOBS.c.id.in_(names)).values(updated=now, **values))


def finish_all(connection: Connection, owner: str, results: Mapping[str, str]) -> set[str]:
    """Make those jobs done that ``owner`` holds, within the caller's transaction; return which."""
    mine = _lock_held(connection, results, owner)
    if mine:
        now = server_time(connection.dialect.name)
        done = (
            update(JOBS)
            .where(JOBS.c.id == bindparam("name"))
            .values(result=bindparam("result_text"), **_DONE, updated=now)
        )
        connection.execute(done, [{"name": name, "result_text": results[name]} for name in mine])
    return set(mine)


def _lock_submitted(
    connection: Connection, names: list[str], *, afresh: bool
) -> tuple[list[str], list[str], list[str]]:
    """Return the jobs that are not there, those to be done again as new, and those that wait to be claimed; locked."""
    again: tuple[State, ...] = FINAL_STATES if afresh else ("failed", "cancelled")
    now = server_time(connection.dialect.name)
    void = or_(JOBS.c.lease_until < now, JOBS.c.lease_until > now + MAX_LEASE_SECONDS)
    there = select(JOBS.c.id, JOBS.c.state, void).where(JOBS.c.id.in_(names)).order_by(JOBS.c.id)
    over, free, known = list[str](), list[str](), set[str]()
    for name, state, ran_out in connection.execute(there.with_for_update(skip_locked=True)):
        known.add(name)
        if state in again:
            over.append(name)
        elif state == "queued" or (state == "running" and ran_out):
            free.append(name)
    return [name for name in names if name not in known], over, free


def _claim_result(state: str, mine: bool) -> ClaimResult:  # noqa: FBT001 — a column of what was read
    if state == "running" and mine:
        return "taken"
    return "done" if state == "done" else "held"


def pages(ids: Collection[str]) -> Iterator[list[str]]:
    """Yield ids, sorted, in pages that one query takes.

    Rows are locked in this order, so that two who want the same ones wait in turn and never in a circle.
    """
    names = sorted(ids)
    for start in range(0, len(names), MAX_KEYS_PER_QUERY):
        yield names[start : start + MAX_KEYS_PER_QUERY]
