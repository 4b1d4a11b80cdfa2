"""Jobs: a durable queue with leases, in a database; work that can be waited for, and that outlives its worker.

A job is queued once, taken by one owner at a time, and ends done, failed or cancelled. It is held under a *lease*: who
holds it renews it while working; who dies lets it run out, and another takes over. So each job is done at least once,
and never by two owners who both still hold it: the first one's `Jobs.renew`, `Jobs.finish` or `Jobs.fail` answers
False and changes nothing.

        submit            take               finish
    ─────────────► queued ─────► running ──────────► done
                     ▲  ▲           │ ├─ fail ─────► failed ────┐
                     │  └─ release ─┘ └─ cancel ───► cancelled ─┤
                     └──────────────── submit again ────────────┘

What a job is about is the caller's: `Job.request`, `Job.progress` and `Job.result` are JSON text that passes through.

A job is taken in a transaction, and time is the database server's. `Jobs.take` looks up index entries: the lease that
ran out first, which clients wait, and of the one that is next the job that has waited longest. PostgreSQL skips what
another has locked; SQLite admits one writer at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Double, Select, Update, and_, delete, exists, func, or_, select, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from darrm_opt.errors import InvalidInput
from solver_cache.database.connection import Database
from solver_cache.database.engine import insert_new, is_among, replace_row, server_time
from solver_cache.database.tables import JOB_CLIENTS, JOB_TURNS, JOBS, WEBHOOKS
from solver_cache.model import MAX_LEASE_SECONDS, check_lease

State = Literal["queued", "running", "done", "failed", "cancelled"]

STATES: tuple[State, ...] = get_args(State)
FINAL_STATES: tuple[State, ...] = ("done", "failed", "cancelled")
"""States in which nothing happens any more, unless the job is submitted again."""

MAX_PRUNED_AT_ONCE = 1_000
"""Jobs forgotten in one transaction: others can write in between."""

RELEASED: dict[str, Any] = {"owner": "", "lease_until": 0.0}
"""Fields of a job without an owner."""

QUEUED: dict[str, Any] = {"state": "queued", "attempts": 0, "progress": "", "reason": "", "result": "", **RELEASED}
"""Fields of a job of which nothing is done."""

PAGE_SIZE = 100
"""Jobs listed at a time unless another number is asked for."""


@dataclass(frozen=True)
class Job:
    """Job: one piece of work, as it stood when it was read.

    Attributes:
        id: content key of what is asked; for kind "gamma" it is `darrm_opt.record.DesignSpec.key`.
        kind: what sort of work it is.
        request: what is asked, canonical JSON.
        state: "queued", "running", "done", "failed" or "cancelled".
        attempts: how often it was taken since it was submitted, not counting those that were released.
        owner: who holds it; empty unless running.
        lease_until: when the lease runs out [s since 1970-01-01 UTC, by the clock of the place]; 0 unless running.
        progress: how far it is, canonical JSON; empty before anything is known.
        reason: why it failed, in words; else empty.
        result: what came of it, canonical JSON; empty unless done.
        created: when it was submitted, the last time [as ``lease_until``].
        updated: when it last changed [as ``lease_until``].
        client: who submitted it first, and is charged for it; empty where nobody is.
        seconds: how long it is expected to take [s]; 0 where nobody has said.
        trace: W3C ``traceparent`` of the request that submitted it; empty where it is not traced.
    """

    id: str
    kind: str
    request: str
    state: State
    attempts: int
    owner: str
    lease_until: float
    progress: str
    reason: str
    result: str
    created: float
    updated: float
    client: str = ""
    seconds: float = 0.0
    trace: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing happens to it any more, unless it is submitted again."""
        return self.state in FINAL_STATES


def damaged_job(job: Job) -> Job:
    """Return a job whose row is not one that this program wrote, as failed: submitting it again writes it anew."""
    return replace(job, **{**QUEUED, "state": "failed", "reason": DAMAGED_ROW})


DAMAGED_ROW = "The stored job is damaged. Submit it again."
"""Reason of a job whose row cannot be read."""


class Jobs:
    """Job queue. Safe to use from several threads; in a database also from several processes.

    Times are by one clock: the database server's, or this machine's. A clock that jumps may let a claim run out early
    (its job is then done twice) or late (at most by `MAX_LEASE_SECONDS`); no job and no result is lost by it.

    Every method raises CacheError where the place cannot be used, and has then changed nothing.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def submit(
        self,
        id: str,
        kind: str,
        request: str,
        *,
        afresh: bool = False,
        client: str = "",
        seconds: float = 0.0,
        trace: str = "",
    ) -> Job:
        """Queue a job, unless it is there already; return it as it then stands.

        A job that is queued, running or done is left as it is; one that failed or was cancelled is queued again, as
        new. With ``afresh`` so is one that is done: because its result is of no use any more. A row that is damaged is
        written anew.
        """
        requeued_states: tuple[State, ...] = FINAL_STATES if afresh else ("failed", "cancelled")
        with self.database.reading() as connection:  # the usual case, without a writer's lock
            row = connection.execute(select(JOBS).where(JOBS.c.id == id)).one_or_none()
            member = select(JOB_CLIENTS.c.id).where(JOB_CLIENTS.c.id == id, JOB_CLIENTS.c.client == client)
            is_client = not client or connection.execute(member).first() is not None
        if row is not None and is_client and job_of(row).state not in requeued_states:
            return job_of(row)
        with self.database.writing() as connection:
            now = self._now
            values = {**QUEUED, "kind": kind, "request": request, "created": now, "updated": now}
            values |= {"client": client, "seconds": seconds, "trace": trace}
            connection.execute(insert_new(self.database.dialect, JOBS, id=id, **values))
            query = select(JOBS).where(JOBS.c.id == id)
            if job_of(connection.execute(query.with_for_update()).one()).state in requeued_states:
                connection.execute(update(JOBS).where(JOBS.c.id == id).values(**values))
                connection.execute(delete(JOB_CLIENTS).where(JOB_CLIENTS.c.id == id))
            if client:
                connection.execute(insert_new(self.database.dialect, JOB_CLIENTS, id=id, client=client))
            return job_of(connection.execute(query).one())

    def get(self, id: str, client: str | None = None) -> Job | None:
        """Return a job, or None where there is none."""
        query = select(JOBS).where(JOBS.c.id == id)
        if client is not None:
            query = query.where(_belongs(client))
        with self.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else job_of(row)

    def list(
        self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None, client: str | None = None
    ) -> Sequence[Job]:
        """Return jobs, the newest first."""
        if state is not None and state not in STATES:
            raise InvalidInput("state", state, "one of " + ", ".join(STATES))
        if limit < 1:
            raise InvalidInput("limit", limit, "a whole number, at least 1")
        page = select(JOBS).order_by(JOBS.c.created.desc(), JOBS.c.id.desc()).limit(limit)
        if state is not None:
            page = page.where(JOBS.c.state == state)
        if client is not None:
            page = page.where(_belongs(client))
        with self.database.reading() as connection:
            if after is not None:
                last_row = connection.execute(select(JOBS.c.created, JOBS.c.id).where(JOBS.c.id == after)).one_or_none()
                if last_row is None:
                    accepted, advice = "the id of a job that is stored", "Start from the first page again."
                    raise InvalidInput("after", after, accepted, advice)
                page = page.where(tuple_(JOBS.c.created, JOBS.c.id) < tuple_(*last_row))
            return [job_of(row) for row in connection.execute(page)]

    def counts(self, client: str | None = None) -> dict[State, int]:
        """Return the number of jobs in each state; of those that ``client`` submitted first, if one is given."""
        query = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        if client is not None:
            query = query.where(JOBS.c.client == client)
        with self.database.reading() as connection:
            counts = {str(state): int(number) for state, number in connection.execute(query)}
        return {state: counts.get(state, 0) for state in STATES}

    def waiting_seconds(self) -> float:
        """Return how long the job that was queued first has waited [s]; 0 where none waits."""
        with self.database.reading() as connection:
            query = select(self._now - func.min(JOBS.c.created)).where(JOBS.c.state == "queued")
            seconds = connection.execute(query).scalar()
        return max(0.0, float(seconds)) if isinstance(seconds, int | float) else 0.0

    def take(
        self,
        owner: str,
        lease_seconds: float,
        *,
        kinds: Collection[str] | None = None,
        max_seconds: float | None = None,
    ) -> Job | None:
        """Take one job that waits, or whose owner let its lease run out; return it, now running, or None.

        Abandoned jobs come first. Then clients share: the one with the fewest running jobs is next, among equals the
        one that was served least recently, and of its jobs the one that has waited longest. So a client with many jobs
        delays another's first by one running job at most. Never do two owners get one job.
        """
        check_lease(owner, lease_seconds)
        with self.database.reading() as connection:  # who polls an empty queue takes no writer's lock
            if all(connection.execute(query).first() is None for query in self._free(kinds, max_seconds)):
                return None
        with self.database.writing() as connection:
            # Made anew: their time is that of now, and a lease may have been renewed during the wait for the lock.
            abandoned, waiting = self._free(kinds, max_seconds)
            # Skipped where another transaction has it: who takes jobs never waits for another who does.
            job_id: Any = connection.execute(abandoned.with_for_update(skip_locked=True)).scalar()
            if job_id is None:
                job_id = self._lock_waiting(connection, waiting, _take_conditions(kinds, max_seconds))
            if job_id is None:
                return None
            now = self._now
            values = {"state": "running", "owner": owner, "attempts": JOBS.c.attempts + 1, "updated": now}
            taking = update(JOBS).where(JOBS.c.id == job_id).values(**values, lease_until=now + lease_seconds)
            job = job_of(connection.execute(taking.returning(*JOBS.c)).one())
            # Beside the jobs: what a client was served last is one row, however many jobs it ever had.
            connection.execute(replace_row(self.database.dialect, JOB_TURNS, client=job.client, served=job.updated))
            return job

    def _lock_waiting(
        self, connection: Connection, waiting: Select[Any], conditions: Sequence[ColumnElement[bool]]
    ) -> str | None:
        """Return the id of the waiting job that is next, locked; None where there is none."""
        for client in self._clients_in_turn(connection, conditions):
            query = waiting.where(JOBS.c.client == client).with_for_update(skip_locked=True)
            job_id = connection.execute(query).scalar()
            if job_id is not None:  # else others take the rest of this client's
                return str(job_id)
        return None

    def _clients_in_turn(self, connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> Sequence[str]:
        """Return the clients whose jobs wait: the fewest running first, then the one that was served least recently."""
        waiting = (
            select(JOBS.c.client, func.min(JOBS.c.created).label("created"))
            .where(JOBS.c.state == "queued", *conditions)
            .group_by(JOBS.c.client)
            .subquery()
        )
        running = (
            select(JOBS.c.client, func.count().label("count"))
            .where(JOBS.c.state == "running")
            .group_by(JOBS.c.client)
            .subquery()
        )
        # In one query: between two of them another process may have served a client.
        turn = (
            select(waiting.c.client)
            .outerjoin(running, running.c.client == waiting.c.client)
            .outerjoin(JOB_TURNS, JOB_TURNS.c.client == waiting.c.client)
            .order_by(func.coalesce(running.c.count, 0), func.coalesce(JOB_TURNS.c.served, 0.0), waiting.c.created)
        )
        return [str(client) for client in connection.execute(turn).scalars()]

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:
        """Hold a job for longer, from now, and say how far the work is; False: it is lost or cancelled, stop.

        A lease that ran out is renewed all the same if nobody took the job meanwhile.
        """
        check_lease(owner, lease_seconds)
        changes = {} if progress is None else {"progress": progress}
        with self.database.writing() as connection:
            lease_until = self._now + lease_seconds
            return self._change(connection, _update_own(id, owner), lease_until=lease_until, **changes)

    def finish(self, id: str, owner: str, result: str) -> bool:
        """Make the job ``id`` done with ``result``; False, and nothing changed, if ``owner`` holds it no more."""
        with self.database.writing() as connection:
            return self._change(connection, _update_own(id, owner), state="done", result=result, **RELEASED)

    def fail(self, id: str, owner: str, reason: str) -> bool:
        """Make the job ``id`` failed for ``reason``; False, and nothing changed, if ``owner`` holds it no more."""
        reason = reason.replace("\0", "�")  # which PostgreSQL does not keep
        with self.database.writing() as connection:
            return self._change(connection, _update_own(id, owner), state="failed", reason=reason, **RELEASED)

    def release(self, id: str, owner: str) -> bool:
        """Put the job ``id`` back into its old place in the queue; False if ``owner`` holds it no more."""
        with self.database.writing() as connection:
            attempts = JOBS.c.attempts - 1
            return self._change(connection, _update_own(id, owner), state="queued", attempts=attempts, **RELEASED)

    def settle(self, id: str, result: str, client: str | None = None) -> Job | None:
        """Make a running job done with ``result``, whoever holds it; return it, or None where there is none.

        Its owner finds at the next `renew` that it holds it no more.
        """
        with self.database.writing() as connection:
            if client is not None:
                own_job = select(JOBS.c.id).where(JOBS.c.id == id, _belongs(client))
                if connection.execute(own_job.with_for_update()).first() is None:
                    return None
                other_clients = select(JOB_CLIENTS.c.id).where(JOB_CLIENTS.c.id == id, JOB_CLIENTS.c.client != client)
                if connection.execute(other_clients).first() is not None:
                    return job_of(connection.execute(select(JOBS).where(JOBS.c.id == id)).one())
            running = update(JOBS).where(JOBS.c.id == id, JOBS.c.state == "running")
            self._change(connection, running, state="done", result=result, **RELEASED)
        return self.get(id)

    def cancel(self, id: str, client: str | None = None) -> Job | None:
        """Cancel a job that is not over; return it as it then stands, or None where there is none."""
        with self.database.writing() as connection:
            if client is not None:
                own_job = select(JOBS.c.id).where(JOBS.c.id == id, _belongs(client))
                if connection.execute(own_job.with_for_update()).first() is None:
                    return None
            # A state that nobody knows, of a damaged row, can be cancelled too: it would wait for ever.
            state = or_(JOBS.c.state.in_(("queued", "running")), JOBS.c.state.not_in(STATES))
            is_open = and_(JOBS.c.id == id, state)
            if client is not None and connection.execute(select(JOBS.c.id).where(is_open)).first() is not None:
                connection.execute(delete(JOB_CLIENTS).where(JOB_CLIENTS.c.id == id, JOB_CLIENTS.c.client == client))
                # Others submitted it too: it goes on for them, and is no longer this client's.
                if connection.execute(select(JOB_CLIENTS.c.id).where(JOB_CLIENTS.c.id == id)).first() is not None:
                    return job_of(connection.execute(select(JOBS).where(JOBS.c.id == id)).one())
                # The last one stays its client, so that a job that was cancelled can be looked at.
                connection.execute(insert_new(self.database.dialect, JOB_CLIENTS, id=id, client=client))
            self._change(connection, update(JOBS).where(is_open), state="cancelled", **RELEASED)
        return self.get(id)

    def prune(self, before: float) -> int:
        """Forget jobs that were over before that time [s since 1970-01-01 UTC]; return how many."""
        total = 0
        for state in FINAL_STATES:
            old = and_(JOBS.c.state == state, JOBS.c.updated < before)
            page = select(JOBS.c.id).where(old).order_by(JOBS.c.updated, JOBS.c.id).limit(MAX_PRUNED_AT_ONCE)
            ids, count = [""] * MAX_PRUNED_AT_ONCE, MAX_PRUNED_AT_ONCE
            while len(ids) == MAX_PRUNED_AT_ONCE and count:  # `count` is 0 where a damaged file forgets nothing
                with self.database.writing() as connection:
                    ids = list(connection.execute(page).scalars())
                    dialect = self.database.dialect
                    count = connection.execute(delete(JOBS).where(old, is_among(dialect, JOBS.c.id, ids))).rowcount
                    connection.execute(delete(JOB_CLIENTS).where(is_among(dialect, JOB_CLIENTS.c.id, ids)))
                    connection.execute(delete(WEBHOOKS).where(is_among(dialect, WEBHOOKS.c.job, ids)))
                    total += count
        with self.database.writing() as connection:
            connection.execute(delete(JOB_TURNS).where(JOB_TURNS.c.served < before))
        return total

    def _free(
        self, kinds: Collection[str] | None, max_seconds: float | None
    ) -> tuple[Select[tuple[str]], Select[tuple[str]]]:
        """Return the queries for the id of a job that was abandoned, and of one that waits."""
        now = self._now
        void = or_(JOBS.c.lease_until < now, JOBS.c.lease_until > now + MAX_LEASE_SECONDS)
        conditions = _take_conditions(kinds, max_seconds)
        abandoned = select(JOBS.c.id).where(JOBS.c.state == "running", void, *conditions).order_by(JOBS.c.lease_until)
        waiting = select(JOBS.c.id).where(JOBS.c.state == "queued", *conditions).order_by(JOBS.c.created, JOBS.c.id)
        return abandoned.limit(1), waiting.limit(1)

    def _change(self, connection: Connection, statement: Update, **values: Any) -> bool:
        return connection.execute(statement.values(updated=self._now, **values)).rowcount == 1

    @property
    def _now(self) -> ColumnElement[float]:
        """The time by the clock that all who share the database see [s since 1970-01-01 UTC]."""
        return server_time(self.database.dialect)


def _update_own(id: str, owner: str) -> Update:
    return update(JOBS).where(JOBS.c.id == id, JOBS.c.owner == owner, JOBS.c.state == "running")


def _take_conditions(kinds: Collection[str] | None, max_seconds: float | None) -> list[ColumnElement[bool]]:
    """Return the conditions of `Jobs.take`."""
    conditions: list[ColumnElement[bool]] = []
    if kinds is not None:
        conditions.append(JOBS.c.kind.in_(kinds))
    if max_seconds is not None:
        conditions.append(JOBS.c.seconds <= max_seconds)
    return conditions


def _belongs(client: str) -> ColumnElement[bool]:
    """Return the condition that a job is a client's, or nobody's."""
    has_clients = exists().where(JOB_CLIENTS.c.id == JOBS.c.id)
    return or_(has_clients.where(JOB_CLIENTS.c.client == client), ~has_clients)


_TYPES = [(int, float) if isinstance(column.type, Double) else column.type.python_type for column in JOBS.c]
"""Types of a job's columns; SQLite holds anything anywhere."""


def job_of(row: Any) -> Job:
    """Return the job of a row, whose columns are the fields of `Job`; of a damaged one, the job as failed."""
    values = tuple(row)
    if all(isinstance(value, kind) for value, kind in zip(values, _TYPES, strict=True)) and values[3] in STATES:
        return Job(*values)
    repaired_values: Sequence[Any] = [
        value if isinstance(value, kind) else str(value) if kind is str else 0
        for value, kind in zip(values, _TYPES, strict=True)
    ]
    return damaged_job(Job(*repaired_values))
