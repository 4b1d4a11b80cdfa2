"""Webhooks, stored beside the jobs whose end they report. Times are those of the database server."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from solver_cache.database.connection import Database
from solver_cache.database.jobs import FINAL_STATES, Job, stored_job
from solver_cache.database.statements import FOR_UPDATE, SKIP_LOCKED, Statements, is_listed, only_row, stored_values

MAX_DELAY_SECONDS = 86_400.0  # longest time between two attempts; a later due time was written by a wrong clock

WebhookState = Literal["pending", "delivered", "failed"]

WEBHOOK_STATES: tuple[WebhookState, ...] = get_args(WebhookState)


@dataclass(frozen=True)
class Webhook:
    """Webhook: a URL notified when a job ends, as last read.

    It survives a restart. Once its job is over it is due; a deliverer *takes* it, which counts the attempt and
    postpones the next one, so that a deliverer that dies loses nothing: delivery is at least once, always with the
    same id.
    """

    id: str  # the same at every attempt
    job: str  # id of the job
    client: str  # owner; empty without authentication
    url: str  # destination
    state: WebhookState  # "pending", "delivered" or "failed" (given up)
    attempts: int  # deliveries begun
    due: float  # next attempt, once its job is over [s since 1970-01-01 UTC]
    reason: str  # error of the last attempt, or empty
    created: float  # [as ``due``]
    updated: float  # last change [as ``due``]


class DatabaseWebhooks:
    """Webhooks of the jobs in an open database. Safe to use from several threads and processes.

    A method that cannot use the database raises CacheError and has changed nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, id: str, job: str, client: str, url: str, limit: int) -> Webhook | None:
        """Add a webhook, or return the client's pending one for the same job and URL.

        None if the client has ``limit`` pending webhooks.
        """
        pending = "FROM darrm_webhooks WHERE client = :client AND state = 'pending'"
        with self._database.writing() as statements:
            same = f"SELECT {_COLUMNS} {pending} AND job = :job AND url = :url"
            rows = statements.rows(same, client=client, job=job, url=url)
            if rows:
                return _webhook(rows[0])
            [(count,)] = statements.rows(f"SELECT count(*) {pending}", client=client)
            if int(count) >= limit:
                return None
            insertion = (
                "INSERT INTO darrm_webhooks (id, job, client, url, state, attempts, due, reason, created, updated) "
                "VALUES (:id, :job, :client, :url, 'pending', 0, :now, '', :now, :now) ON CONFLICT DO NOTHING"
            )
            statements.rows(insertion, id=id, job=job, client=client, url=url)
            stored = statements.rows(f"SELECT {_COLUMNS} FROM darrm_webhooks WHERE id = :id", id=id)
            return _webhook(only_row(stored))

    def list(self, job: str, client: str | None = None) -> Sequence[Webhook]:
        """Return the webhooks of a job, oldest first; only those of ``client``, unless it is None."""
        where, values = _of_client(job, client)
        query = f"SELECT {_COLUMNS} FROM darrm_webhooks WHERE {where} ORDER BY created, id"
        with self._database.reading() as statements:
            return [_webhook(row) for row in statements.rows(query, **values)]

    def remove(self, id: str, job: str, client: str | None = None) -> bool:
        """Delete a webhook, of ``client`` unless that is None; return whether it existed."""
        where, values = _of_client(job, client)
        with self._database.writing() as statements:
            deletion = f"DELETE FROM darrm_webhooks WHERE id = :id AND {where}"
            return statements.change(deletion, [{**values, "id": id}]) == 1

    def take(self, lease_seconds: float, without: Collection[str] = ()) -> tuple[Webhook, Job] | None:
        """Take a webhook that is due, with its finished job, or None.

        Those with the fewest attempts come first, so that failing URLs do not delay others.
        """
        with self._database.reading() as statements:  # polling takes no write lock
            if not _due(statements, without):
                return None
        with self._database.writing() as statements:
            dialect = statements.dialect
            lock = f"{FOR_UPDATE[dialect]} OF webhooks {SKIP_LOCKED[dialect]}" if FOR_UPDATE[dialect] else ""
            found = _due(statements, without, lock)
            if not found:
                return None
            taking = (
                "UPDATE darrm_webhooks SET attempts = attempts + 1, due = :now + :lease, updated = :now "
                f"WHERE id = :id RETURNING {_COLUMNS}"
            )
            webhook = _webhook(only_row(statements.rows(taking, id=found[0][0], lease=lease_seconds)))
            return webhook, stored_job(statements, webhook.job)

    def record(self, webhook: Webhook, state: WebhookState, reason: str = "", delay: float = 0.0) -> bool:
        """Record the outcome of an attempt; False, without a change, if another attempt has begun."""
        update = (
            "UPDATE darrm_webhooks SET state = :state, reason = :reason, due = :now + :delay, updated = :now "
            "WHERE id = :id AND attempts = :attempts"
        )
        values = {"id": webhook.id, "attempts": webhook.attempts, "state": state, "reason": reason, "delay": delay}
        with self._database.writing() as statements:
            return statements.change(update, [values]) == 1


_COLUMNS = ", ".join(field.name for field in fields(Webhook))


def _of_client(job: str, client: str | None) -> tuple[str, dict[str, Any]]:
    """Return the condition that a webhook is of a job, and of a client unless that is None."""
    if client is None:
        return "job = :job", {"job": job}
    return "job = :job AND client = :client", {"job": job, "client": client}


def _due(statements: Statements, without: Collection[str], lock: str = "") -> Sequence[Sequence[Any]]:
    """Return the id of the next webhook that is due, as a row; empty if there is none."""
    states = ", ".join(map(repr, FINAL_STATES))
    query = f"""
        SELECT webhooks.id FROM darrm_webhooks webhooks JOIN darrm_jobs jobs ON jobs.id = webhooks.job
        WHERE webhooks.state = 'pending' AND jobs.state IN ({states})
        AND (webhooks.due <= :now OR webhooks.due > :now + :longest)
        AND NOT ({is_listed(statements, "webhooks.client")})
        ORDER BY webhooks.attempts, webhooks.due LIMIT 1 {lock}
    """
    return statements.rows(query, longest=MAX_DELAY_SECONDS, keys=statements.listed(without))


def _webhook(row: Sequence[Any]) -> Webhook:
    """Return the webhook in a row; a damaged one as failed."""
    values, _ = stored_values(Webhook, row)
    return Webhook(**values) if values["state"] in WEBHOOK_STATES else Webhook(**values | {"state": "failed"})
