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
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from darrm_opt.errors import InvalidInput
from solver_cache.database.connection import Database
from solver_cache.database.statements import FOR_UPDATE, SKIP_LOCKED, Statements, belongs, is_listed, only_row
from solver_cache.model import MAX_LEASE_SECONDS, State, check_lease

STATES: tuple[State, ...] = get_args(State)
FINAL_STATES: tuple[State, ...] = ("done", "failed", "cancelled")
"""States in which nothing happens any more, unless the job is submitted again."""

MAX_RUNNING = 2**31 - 1
"""Running jobs of a client without a limit."""

TAKE_LOCK = 0x6461_7272_6E
"""Number under which PostgreSQL lets one process at a time take jobs of clients with a limit, next to that of
migrations."""

MAX_PRUNED_AT_ONCE = 1_000
"""Jobs forgotten in one transaction: others can write in between."""

QUEUED: dict[str, Any] = {
    "state": "queued",
    "attempts": 0,
    "progress": "",
    "reason": "",
    "result": "",
    "owner": "",
    "lease_until": 0.0,
}
"""Fields of a job of which nothing is done."""

_RELEASED = "owner = '', lease_until = 0"
"""Changes of a job that has no owner any more."""

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


_COLUMNS = ", ".join(field.name for field in fields(Job))

_SELECT = f"SELECT {_COLUMNS} FROM darrm_jobs"

_OWN = "id = :id AND owner = :owner AND state = 'running'"

_BELONGS = belongs("darrm_jobs", "darrm_job_clients", "id")
"""Condition that a job is a client's, or nobody's."""

_IS_OPEN = f"id = :id AND (state IN ('queued', 'running') OR state NOT IN ({', '.join(map(repr, STATES))}))"
"""Condition that a job can be cancelled. A state that nobody knows, of a damaged row, can be too: it would wait for
ever."""

_ADD_CLIENT = "INSERT INTO darrm_job_clients (id, client) VALUES (:id, :client) ON CONFLICT DO NOTHING"

_ABANDONED = """
    SELECT id FROM darrm_jobs WHERE state = 'running' AND (lease_until < :now OR lease_until > :now + :longest){more}
    ORDER BY lease_until LIMIT 1 {lock}
"""

_WAITING = "SELECT id FROM darrm_jobs WHERE state = 'queued'{more} ORDER BY created, id LIMIT 1 {lock}"

# In one query: between two of them another process may have served a client.
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
        member = "SELECT id FROM darrm_job_clients WHERE id = :id AND client = :client"
        with self.database.reading() as statements:  # the usual case, without a writer's lock
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
        """Return a job, or None where there is none."""
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
        """Return the number of jobs in each state; of those that ``client`` submitted first, if one is given."""
        where, values = ("", {}) if client is None else ("WHERE client = :client", {"client": client})
        query = f"SELECT state, count(*) FROM darrm_jobs {where} GROUP BY state"
        with self.database.reading() as statements:
            counts = {str(state): int(number) for state, number in statements.rows(query, **values)}
        return {state: counts.get(state, 0) for state in STATES}

    def waiting_seconds(self) -> float:
        """Return how long the job that was queued first has waited [s]; 0 where none waits."""
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
        """Take one job that waits, or whose owner let its lease run out; return it, now running, or None.

        Abandoned jobs come first. Then clients share: the one with the fewest running jobs is next, among equals the
        one that was served least recently, and of its jobs the one that has waited longest. So a client with many jobs
        delays another's first by one running job at most. Never do two owners get one job. A client that has
        ``max_running`` jobs running waits until one of them is over; None: no limit.
        """
        check_lease(owner, lease_seconds)
        if kinds is not None and not kinds:
            return None
        more, values = take_conditions(kinds, max_seconds)
        values["max_running"] = MAX_RUNNING if max_running is None else max_running
        waiting = _WAITING if max_running is None else _CLIENTS_IN_TURN
        with self.database.reading() as statements:  # who polls an empty queue takes no writer's lock
            if not any(statements.rows(query.format(more=more, lock=""), **values) for query in (_ABANDONED, waiting)):
                return None
        with self.database.writing() as statements:
            if max_running is not None and statements.dialect == "postgresql":
                # Counted by one at a time: two who count at once would both find room for one more.
                statements.rows("SELECT pg_advisory_xact_lock(:key)", key=TAKE_LOCK)
            # Skipped where another transaction has it: who takes jobs never waits for another who does.
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
            # Beside the jobs: what a client was served last is one row, however many jobs it ever had.
            turn = (
                "INSERT INTO darrm_job_turns (client, served) VALUES (:client, :served) "
                "ON CONFLICT (client) DO UPDATE SET served = excluded.served"
            )
            statements.rows(turn, client=job.client, served=job.updated)
            return job

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:
        """Hold a job for longer, from now, and say how far the work is; False: it is lost or cancelled, stop.

        A lease that ran out is renewed all the same if nobody took the job meanwhile.
        """
        check_lease(owner, lease_seconds)
        changes, values = "lease_until = :now + :lease", dict[str, Any](lease=lease_seconds)
        if progress is not None:
            changes, values = f"{changes}, progress = :progress", {**values, "progress": progress}
        with self.database.writing() as statements:
            return _change(statements, _OWN, changes, id=id, owner=owner, **values)

    def finish(self, id: str, owner: str, result: str) -> bool:
        """Make the job ``id`` done with ``result``; False, and nothing changed, if ``owner`` holds it no more."""
        changes = f"state = 'done', result = :result, {_RELEASED}"
        with self.database.writing() as statements:
            return _change(statements, _OWN, changes, id=id, owner=owner, result=result)

    def fail(self, id: str, owner: str, reason: str) -> bool:
        """Make the job ``id`` failed for ``reason``; False, and nothing changed, if ``owner`` holds it no more."""
        reason = reason.replace("\0", "�")  # which PostgreSQL does not keep
        changes = f"state = 'failed', reason = :reason, {_RELEASED}"
        with self.database.writing() as statements:
            return _change(statements, _OWN, changes, id=id, owner=owner, reason=reason)

    def release(self, id: str, owner: str) -> bool:
        """Put the job ``id`` back into its old place in the queue; False if ``owner`` holds it no more."""
        with self.database.writing() as statements:
            changes = f"state = 'queued', attempts = attempts - 1, {_RELEASED}"
            return _change(statements, _OWN, changes, id=id, owner=owner)

    def settle(self, id: str, result: str, client: str | None = None) -> Job | None:
        """Make a running job done with ``result``, whoever holds it; return it, or None where there is none.

        Its owner finds at the next `renew` that it holds it no more.
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
        """Cancel a job that is not over; return it as it then stands, or None where there is none."""
        with self.database.writing() as statements:
            if client is not None and not _lock_own(statements, id, client):
                return None
            if client is not None and statements.rows(f"SELECT id FROM darrm_jobs WHERE {_IS_OPEN}", id=id):
                leaving = "DELETE FROM darrm_job_clients WHERE id = :id AND client = :client"
                statements.rows(leaving, id=id, client=client)
                # Others submitted it too: it goes on for them, and is no longer this client's.
                if statements.rows("SELECT id FROM darrm_job_clients WHERE id = :id", id=id):
                    return stored_job(statements, id)
                # The last one stays its client, so that a job that was cancelled can be looked at.
                statements.rows(_ADD_CLIENT, id=id, client=client)
            _change(statements, _IS_OPEN, f"state = 'cancelled', {_RELEASED}", id=id)
        return self.get(id)

    def prune(self, before: float) -> int:
        """Forget jobs that were over before that time [s since 1970-01-01 UTC]; return how many."""
        total, old = 0, "state = :state AND updated < :before"
        page = f"SELECT id FROM darrm_jobs WHERE {old} ORDER BY updated, id LIMIT {MAX_PRUNED_AT_ONCE}"
        for state in FINAL_STATES:
            ids, count = [""] * MAX_PRUNED_AT_ONCE, MAX_PRUNED_AT_ONCE
            while len(ids) == MAX_PRUNED_AT_ONCE and count:  # `count` is 0 where a damaged file forgets nothing
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
    """Return a job that is there."""
    return job_of(only_row(statements.rows(f"{_SELECT} WHERE id = :id", id=id)))


def _lock_own(statements: Statements, id: str, client: str) -> bool:
    """Lock a job, if it is the client's or nobody's; return whether it is."""
    query = f"SELECT id FROM darrm_jobs WHERE id = :id AND {_BELONGS} {FOR_UPDATE[statements.dialect]}"
    return bool(statements.rows(query, id=id, client=client))


def _lock_waiting(statements: Statements, more: str, values: dict[str, Any], lock: str) -> Sequence[Sequence[Any]]:
    """Return the row with the id of the waiting job that is next, locked; nothing where there is none.

    Clients in turn: the one with the fewest running jobs first, then the one that was served least recently.
    """
    waiting = _WAITING.format(more=f"{more} AND client = :client", lock=lock)
    for (client,) in statements.rows(_CLIENTS_IN_TURN.format(more=more), **values):
        found = statements.rows(waiting, **values, client=str(client))
        if found:  # else others take the rest of this client's
            return found
    return ()


def _change(statements: Statements, where: str, changes: str, **values: Any) -> bool:
    return statements.change(f"UPDATE darrm_jobs SET {changes}, updated = :now WHERE {where}", [values]) == 1


def take_conditions(kinds: Collection[str] | None, max_seconds: float | None) -> tuple[str, dict[str, Any]]:
    """Return the further conditions of `Jobs.take`, and the values of its queries."""
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


_TYPES: list[Any] = [{"int": int, "float": (int, float)}.get(str(field.type), str) for field in fields(Job)]
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
