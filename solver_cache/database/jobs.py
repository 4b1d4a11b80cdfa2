"""Jobs: a durable queue with leases, in a database.

A job is queued once, taken by one owner at a time, and ends done, failed or cancelled. Its owner holds a *lease* and
renews it while working; when the owner dies, the lease expires and another owner takes over. So each job runs at
least once, and never has two owners with a valid lease: for the first one `Jobs.renew`, `Jobs.finish` and `Jobs.fail`
return False and change nothing.

        submit            take               finish
    ─────────────► queued ─────► running ──────────► done
                     ▲  ▲           │ ├─ fail ─────► failed ────┐
                     │  └─ release ─┘ └─ cancel ───► cancelled ─┤ └──────────────── submit again ────────────┘

`Job.request`, `Job.progress` and `Job.result` are JSON text of the caller, passed through unread.

Times are those of the database server. `Jobs.take` is a transaction of index lookups: the first expired lease, the
waiting clients, and the oldest job of the next client. PostgreSQL skips rows that another transaction has locked;
SQLite admits one writer at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from darrm_opt.errors import InvalidInput
from solver_cache.database.connection import Database
from solver_cache.database.statements import (
    FOR_UPDATE,
    SKIP_LOCKED,
    Statements,
    belongs,
    is_listed,
    only_row,
    stored_values,
)
from solver_cache.model import MAX_LEASE_SECONDS, State, check_lease

STATES: tuple[State, ...] = get_args(State)
FINAL_STATES: tuple[State, ...] = ("done", "failed", "cancelled")
MAX_RUNNING = 2**31 - 1  # number of running jobs per client that stands for no limit
TAKE_LOCK = 0x6461_7272_6E  # PostgreSQL lock under which one process at a time takes jobs of clients with a limit
MAX_PRUNED_AT_ONCE = 1_000  # jobs deleted in one transaction, so that other writers get their turn

QUEUED: dict[str, Any] = {
    "state": "queued",
    "attempts": 0,
    "progress": "",
    "reason": "",
    "result": "",
    "owner": "",
    "lease_until": 0.0,
}
"""Fields of a job that nobody has taken."""

_RELEASED = "owner = '', lease_until = 0"
PAGE_SIZE = 100


@dataclass(frozen=True)
class Job:
    """Job, as last read.

    Attributes:
        id: content key of the request; for kind "gamma" it is `darrm_opt.record.DesignSpec.key`.
        kind: kind of work.
        request: the request, canonical JSON.
        state: "queued", "running", "done", "failed" or "cancelled".
        attempts: times it was taken since it was submitted, without those that were released.
        owner: holder of the lease; empty unless running.
        lease_until: end of the lease [s since 1970-01-01 UTC, by the database's clock]; 0 unless running.
        progress: progress, canonical JSON; empty if unknown.
        reason: why it failed, in words; else empty.
        result: the result, canonical JSON; empty unless done.
        created: when it was last submitted [as ``lease_until``].
        updated: when it last changed [as ``lease_until``].
        client: first client to submit it, which is charged for it; empty if anonymous.
        seconds: expected duration [s]; 0 if unknown.
        trace: W3C ``traceparent`` of the request that submitted it; empty if not traced.
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
        """Whether it is done, failed or cancelled."""
        return self.state in FINAL_STATES


def damaged_job(job: Job) -> Job:
    """Return a job with a damaged row as failed: submitting it again rewrites the row."""
    return replace(job, **{**QUEUED, "state": "failed", "reason": DAMAGED_ROW})


_COLUMNS = ", ".join(field.name for field in fields(Job))

_SELECT = f"SELECT {_COLUMNS} FROM darrm_jobs"

_OWN = "id = :id AND owner = :owner AND state = 'running'"

_BELONGS = belongs("darrm_jobs", "darrm_job_clients", "id")
_IS_OPEN = f"id = :id AND (state IN ('queued', 'running') OR state NOT IN ({', '.join(map(repr, STATES))}))"
"""Condition that a job can be cancelled, including an unknown state of a damaged row, which would wait for ever."""

_ADD_CLIENT = "INSERT INTO darrm_job_clients (id, client) VALUES (:id, :client) ON CONFLICT DO NOTHING"

_ABANDONED = """
    SELECT id FROM darrm_jobs WHERE state = 'running' AND (lease_until < :now OR lease_until > :now + :longest){more}
    ORDER BY lease_until LIMIT 1 {lock}
"""

_WAITING = "SELECT id FROM darrm_jobs WHERE state = 'queued'{more} ORDER BY created, id LIMIT 1 {lock}"

# One query: between two, another process may serve a client.
_CLIENTS_IN_TURN = """
    SELECT waiting.client
    FROM (SELECT client, min(created) AS created FROM darrm_jobs WHERE state = 'queued'{more} GROUP BY client) waiting
    LEFT JOIN (SELECT client, count(*) AS jobs FROM darrm_jobs WHERE state = 'running' GROUP BY client) running
    ON running.client = waiting.client
    LEFT JOIN darrm_job_turns turns ON turns.client = waiting.client
    WHERE coalesce(running.jobs, 0) < :max_running OR waiting.client = ''
    ORDER BY coalesce(running.jobs, 0), coalesce(turns.served, 0), waiting.created
"""

DAMAGED_ROW = "The stored job is damaged. Submit it again."


class Jobs:
    """Job queue. Safe to use from several threads; in a database also from several processes.

    A clock that jumps may expire a lease early (the job then runs twice) or late (by at most `MAX_LEASE_SECONDS`); no
    job and no result is lost.

    A method that cannot use the database raises CacheError and has changed nothing.
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
        """Queue a job unless it exists; return its current state.

        A failed or cancelled job is queued again, as new; with ``afresh`` also a done one, whose result is obsolete.
        A damaged row is rewritten.
        """
        requeued_states: tuple[State, ...] = FINAL_STATES if afresh else ("failed", "cancelled")
        member = "SELECT id FROM darrm_job_clients WHERE id = :id AND client = :client"
        with self.database.reading() as statements:  # the usual case needs no write lock
            job = _job_at(statements, id)
            is_client = not client or bool(statements.rows(member, id=id, client=client))
        if job is not None and is_client and job.state not in requeued_states:
            return job
        values = {**QUEUED, "id": id, "kind": kind, "request": request}
        values |= {"client": client, "seconds": seconds, "trace": trace}
        with self.database.writing() as statements:
            statements.rows(_INSERT, **values)
            stored = _job_at(statements, id, FOR_UPDATE[statements.dialect])
            if stored is None or stored.state in requeued_states:
                statements.rows(_REWRITE, **values)
                statements.rows("DELETE FROM darrm_job_clients WHERE id = :id", id=id)
            if client:
                statements.rows(_ADD_CLIENT, id=id, client=client)
            return stored_job(statements, id)

    def get(self, id: str, client: str | None = None) -> Job | None:
        """Return a job, or None."""
        with self.database.reading() as statements:
            return _job_at(statements, id) if client is None else _job_at(statements, id, f"AND {_BELONGS}", client)

    def clients(self, id: str) -> Sequence[str]:
        """Return the clients of a job, in order."""
        query = "SELECT client FROM darrm_job_clients WHERE id = :id ORDER BY client"
        with self.database.reading() as statements:
            return [str(client) for (client,) in statements.rows(query, id=id)]

    def list(
        self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None, client: str | None = None
    ) -> Sequence[Job]:
        """Return jobs, the newest first."""
        if state is not None and state not in STATES:
            raise InvalidInput("state", state, "one of " + ", ".join(STATES))
        if limit < 1:
            raise InvalidInput("limit", limit, "a whole number, at least 1")
        is_seen = "true" if client is None else _BELONGS
        conditions, values = [is_seen], dict[str, Any](client=client)
        if state is not None:
            conditions.append("state = :state")
            values["state"] = state
        with self.database.reading() as statements:
            if after is not None:
                query = f"SELECT created, id FROM darrm_jobs WHERE id = :id AND {is_seen}"
                last = statements.rows(query, id=after, client=client)
                if not last:
                    accepted, advice = "the id of a job that is stored", "Start from the first page again."
                    raise InvalidInput("after", after, accepted, advice)
                conditions.append("(created, id) < (:created, :id)")
                values |= {"created": last[0][0], "id": last[0][1]}
            page = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY created DESC, id DESC LIMIT :limit"
            return [job_of(row) for row in statements.rows(page, limit=limit, **values)]

    def counts(self, client: str | None = None) -> dict[State, int]:
        """Return the number of jobs in each state; with ``client``, of those that it submitted first."""
        where, values = ("", {}) if client is None else ("WHERE client = :client", {"client": client})
        query = f"SELECT state, count(*) FROM darrm_jobs {where} GROUP BY state"
        with self.database.reading() as statements:
            counts = {str(state): int(number) for state, number in statements.rows(query, **values)}
        return {state: counts.get(state, 0) for state in STATES}

    def waiting_seconds(self) -> float:
        """Return the age of the oldest queued job [s]; 0 without one."""
        with self.database.reading() as statements:
            [(seconds,)] = statements.rows("SELECT :now - min(created) FROM darrm_jobs WHERE state = 'queued'")
        return max(0.0, float(seconds)) if isinstance(seconds, int | float) else 0.0

    def take(
        self,
        owner: str,
        lease_seconds: float,
        *,
        kinds: Collection[str] | None = None,
        max_seconds: float | None = None,
        max_running: int | None = None,
    ) -> Job | None:
        """Take a queued job, or one whose lease expired; return it, now running, or None.

        Expired leases come first. Then clients share fairly: the client with the fewest running jobs is next, among
        equals the one served least recently, with its oldest job; so a client with many jobs delays the first job of
        another by at most one. No job is taken twice. A client with ``max_running`` running jobs waits; None: no
        limit.
        """
        check_lease(owner, lease_seconds)
        if kinds is not None and not kinds:
            return None
        more, values = take_conditions(kinds, max_seconds)
        values["max_running"] = MAX_RUNNING if max_running is None else max_running
        waiting = _WAITING if max_running is None else _CLIENTS_IN_TURN
        with self.database.reading() as statements:  # polling an empty queue takes no write lock
            if not any(statements.rows(query.format(more=more, lock=""), **values) for query in (_ABANDONED, waiting)):
                return None
        with self.database.writing() as statements:
            if max_running is not None and statements.dialect == "postgresql":
                # Serialised: two concurrent counts would both find room for one more.
                statements.rows("SELECT pg_advisory_xact_lock(:key)", key=TAKE_LOCK)
            # Locked rows are skipped, so takers never wait for each other.
            lock = f"{FOR_UPDATE[statements.dialect]} {SKIP_LOCKED[statements.dialect]}"
            found = statements.rows(_ABANDONED.format(more=more, lock=lock), **values)
            found = found or _lock_waiting(statements, more, values, lock)
            if not found:
                return None
            taking = (
                "UPDATE darrm_jobs SET state = 'running', owner = :owner, attempts = attempts + 1, updated = :now, "
                f"lease_until = :now + :lease WHERE id = :id RETURNING {_COLUMNS}"
            )
            job = job_of(only_row(statements.rows(taking, owner=owner, lease=lease_seconds, id=found[0][0])))
            # a table of its own: one row per client, however many jobs it ever had.
            turn = (
                "INSERT INTO darrm_job_turns (client, served) VALUES (:client, :served) "
                "ON CONFLICT (client) DO UPDATE SET served = excluded.served"
            )
            statements.rows(turn, client=job.client, served=job.updated)
            return job

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:
        """Extend the lease from now and record ``progress``; False: the job is lost or cancelled, stop.

        A lease that has expired is renewed too, unless another owner took the job.
        """
        check_lease(owner, lease_seconds)
        changes, values = "lease_until = :now + :lease", dict[str, Any](lease=lease_seconds)
        if progress is not None:
            changes, values = f"{changes}, progress = :progress", {**values, "progress": progress}
        return self._change_own(id, owner, changes, **values)

    def finish(self, id: str, owner: str, result: str) -> bool:
        """Mark the job ``id`` as done with ``result``; False, without a change, if ``owner`` lost it."""
        return self._change_own(id, owner, f"state = 'done', result = :result, {_RELEASED}", result=result)

    def fail(self, id: str, owner: str, reason: str) -> bool:
        """Mark the job ``id`` as failed for ``reason``; False, without a change, if ``owner`` lost it."""
        reason = reason.replace("\0", "�")  # PostgreSQL cannot store it
        return self._change_own(id, owner, f"state = 'failed', reason = :reason, {_RELEASED}", reason=reason)

    def release(self, id: str, owner: str) -> bool:
        """Return the job ``id`` to its old place in the queue; False if ``owner`` lost it."""
        return self._change_own(id, owner, f"state = 'queued', attempts = attempts - 1, {_RELEASED}")

    def _change_own(self, id: str, owner: str, changes: str, **values: Any) -> bool:
        with self.database.writing() as statements:
            return _change(statements, _OWN, changes, id=id, owner=owner, **values)

    def settle(self, id: str, result: str, client: str | None = None) -> Job | None:
        """Mark a running job as done with ``result``, regardless of its owner; return it, or None if it does not exist.

        The owner learns of it at its next `renew`.
        """
        with self.database.writing() as statements:
            if client is not None:
                if not _lock_own(statements, id, client):
                    return None
                others = "SELECT id FROM darrm_job_clients WHERE id = :id AND client <> :client"
                if statements.rows(others, id=id, client=client):
                    return stored_job(statements, id)
            changes = f"state = 'done', result = :result, {_RELEASED}"
            _change(statements, "id = :id AND state = 'running'", changes, id=id, result=result)
        return self.get(id)

    def cancel(self, id: str, client: str | None = None) -> Job | None:
        """Cancel a job unless it is over; return its current state, or None if it does not exist."""
        with self.database.writing() as statements:
            if client is not None and not _lock_own(statements, id, client):
                return None
            if client is not None and statements.rows(f"SELECT id FROM darrm_jobs WHERE {_IS_OPEN}", id=id):
                leaving = "DELETE FROM darrm_job_clients WHERE id = :id AND client = :client"
                statements.rows(leaving, id=id, client=client)
                # Other clients submitted it too: it continues for them.
                if statements.rows("SELECT id FROM darrm_job_clients WHERE id = :id", id=id):
                    return stored_job(statements, id)
                # The last client stays, so that it can still see the job.
                statements.rows(_ADD_CLIENT, id=id, client=client)
            _change(statements, _IS_OPEN, f"state = 'cancelled', {_RELEASED}", id=id)
        return self.get(id)

    def prune(self, before: float) -> int:
        """Delete jobs that ended before a time [s since 1970-01-01 UTC]; return their number."""
        total, old = 0, "state = :state AND updated < :before"
        page = f"SELECT id FROM darrm_jobs WHERE {old} ORDER BY updated, id LIMIT {MAX_PRUNED_AT_ONCE}"
        for state in FINAL_STATES:
            ids, count = [""] * MAX_PRUNED_AT_ONCE, MAX_PRUNED_AT_ONCE
            while len(ids) == MAX_PRUNED_AT_ONCE and count:  # `count` is 0 if a damaged file deletes nothing
                with self.database.writing() as statements:
                    values = {"state": state, "before": before}
                    ids = [str(id) for (id,) in statements.rows(page, **values)]
                    keys = statements.listed(ids)
                    deletion = f"DELETE FROM darrm_jobs WHERE {old} AND {is_listed(statements, 'id')}"
                    count = statements.change(deletion, [{**values, "keys": keys}])
                    for table, column in (("darrm_job_clients", "id"), ("darrm_webhooks", "job")):
                        statements.rows(f"DELETE FROM {table} WHERE {is_listed(statements, column)}", keys=keys)
                    total += count
        with self.database.writing() as statements:
            statements.rows("DELETE FROM darrm_job_turns WHERE served < :before", before=before)
        return total


_INSERT = (
    f"INSERT INTO darrm_jobs ({_COLUMNS}) VALUES "
    f"({', '.join(':now' if field.name in {'created', 'updated'} else f':{field.name}' for field in fields(Job))}) "
    "ON CONFLICT DO NOTHING"
)

_REWRITE = (
    "UPDATE darrm_jobs SET created = :now, updated = :now, "
    + ", ".join(f"{f.name} = :{f.name}" for f in fields(Job) if f.name not in {"id", "created", "updated"})
    + " WHERE id = :id"
)


def _job_at(statements: Statements, id: str, more: str = "", client: str = "") -> Job | None:
    rows = statements.rows(f"{_SELECT} WHERE id = :id {more}", id=id, client=client)
    return job_of(rows[0]) if rows else None


def stored_job(statements: Statements, id: str) -> Job:
    """Return a job that must exist."""
    return job_of(only_row(statements.rows(f"{_SELECT} WHERE id = :id", id=id)))


def _lock_own(statements: Statements, id: str, client: str) -> bool:
    """Lock a job that is the client's or nobody's; return whether there is one."""
    query = f"SELECT id FROM darrm_jobs WHERE id = :id AND {_BELONGS} {FOR_UPDATE[statements.dialect]}"
    return bool(statements.rows(query, id=id, client=client))


def _lock_waiting(statements: Statements, more: str, values: dict[str, Any], lock: str) -> Sequence[Sequence[Any]]:
    """Return the id of the next queued job, locked, as a row; empty if there is none."""
    waiting = _WAITING.format(more=f"{more} AND client = :client", lock=lock)
    for (client,) in statements.rows(_CLIENTS_IN_TURN.format(more=more), **values):
        found = statements.rows(waiting, **values, client=str(client))
        if found:  # else others have locked the rest
            return found
    return ()


def _change(statements: Statements, where: str, changes: str, **values: Any) -> bool:
    return statements.change(f"UPDATE darrm_jobs SET {changes}, updated = :now WHERE {where}", [values]) == 1


def take_conditions(kinds: Collection[str] | None, max_seconds: float | None) -> tuple[str, dict[str, Any]]:
    """Return the further conditions of `Jobs.take`, and their parameters."""
    values: dict[str, Any] = {"longest": MAX_LEASE_SECONDS}
    conditions = ""
    if kinds is not None:
        names = {f"kind_{number}": kind for number, kind in enumerate(sorted(kinds))}
        values |= names
        conditions += f" AND kind IN ({', '.join(f':{name}' for name in names)})"
    if max_seconds is not None:
        values["max_seconds"] = max_seconds
        conditions += " AND seconds <= :max_seconds"
    return conditions, values


def job_of(row: Sequence[Any]) -> Job:
    """Return the job in a row with the columns of `Job`; a damaged one as failed."""
    values, is_whole = stored_values(Job, row)
    return Job(**values) if is_whole and values["state"] in STATES else damaged_job(Job(**values))
