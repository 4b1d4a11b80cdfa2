"""Webhooks in a database, beside the jobs whose end they tell: one is taken in a transaction, time is the server's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import Select, delete, func, or_, select, update

from solver_cache.database.connection import Database
from solver_cache.database.engine import insert_new, server_time
from solver_cache.database.jobs import FINAL_STATES, Job, job_of
from solver_cache.database.tables import JOBS, WEBHOOKS

MAX_DELAY_SECONDS = 86_400.0
"""Longest time between two attempts [s]; a later due time was written by a clock that was wrong."""

WebhookState = Literal["pending", "delivered", "failed"]

WEBHOOK_STATES: tuple[WebhookState, ...] = get_args(WebhookState)


@dataclass(frozen=True)
class Webhook:
    """Webhook: one address that is told when one job ends, as it stood when it was read.

    It is stored beside the jobs, so that a restart forgets none. It waits until its job is over; then it is due, and
    whoever delivers it *takes* it: that counts the attempt and moves the time of the next one ahead, so a deliverer
    that dies loses nothing, and each is delivered at least once. Repeated deliveries have one id.
    """

    id: str  # its name, the same at every attempt
    job: str  # id of the job
    client: str  # who asked for it; empty where no key is needed
    url: str  # where it is sent
    state: WebhookState  # "pending", "delivered" or "failed" (given up)
    attempts: int  # how often delivery was begun
    due: float  # when it is tried next, once its job is over [s since 1970-01-01 UTC]
    reason: str  # what was wrong with the last attempt, in words; else empty
    created: float  # when it was asked for [as ``due``]
    updated: float  # when it last changed [as ``due``]


class DatabaseWebhooks:
    """The webhooks of the jobs in an open database. Safe to use from several threads and processes.

    Every method raises CacheError where the database cannot be used, and has then changed nothing.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, id: str, job: str, client: str, url: str, limit: int) -> Webhook | None:
        """Ask for a webhook; None where the client has ``limit`` pending ones.

        If the same client has a pending one for that job and address, that one is returned.
        """
        pending = select(WEBHOOKS).where(WEBHOOKS.c.client == client, WEBHOOKS.c.state == "pending")
        with self._database.writing() as connection:
            row = connection.execute(pending.where(WEBHOOKS.c.job == job, WEBHOOKS.c.url == url)).first()
            if row is not None:
                return _webhook(row)
            if int(connection.execute(select(func.count()).select_from(pending.subquery())).scalar_one()) >= limit:
                return None
            now = server_time(self._database.dialect)
            values = {"job": job, "client": client, "url": url, "state": "pending", "attempts": 0, "due": now}
            values |= {"reason": "", "created": now, "updated": now}
            connection.execute(insert_new(self._database.dialect, WEBHOOKS, id=id, **values))
            return _webhook(connection.execute(select(WEBHOOKS).where(WEBHOOKS.c.id == id)).one())

    def list(self, job: str, client: str | None = None) -> Sequence[Webhook]:
        """Return the webhooks of a job, the oldest first; only those of ``client``, unless it is None."""
        query = select(WEBHOOKS).where(WEBHOOKS.c.job == job).order_by(WEBHOOKS.c.created, WEBHOOKS.c.id)
        if client is not None:
            query = query.where(WEBHOOKS.c.client == client)
        with self._database.reading() as connection:
            return [_webhook(row) for row in connection.execute(query)]

    def remove(self, id: str, job: str, client: str | None = None) -> bool:
        """Forget a webhook, of ``client`` unless that is None; return whether it was there."""
        deletion = delete(WEBHOOKS).where(WEBHOOKS.c.id == id, WEBHOOKS.c.job == job)
        if client is not None:
            deletion = deletion.where(WEBHOOKS.c.client == client)
        with self._database.writing() as connection:
            return connection.execute(deletion).rowcount == 1

    def take(self, lease_seconds: float, without: Collection[str] = ()) -> tuple[Webhook, Job] | None:
        """Take one webhook that is due, with its job, which is over; None if none is.

        Those with the fewest attempts come first, so that addresses that fail do not delay the others.
        """
        with self._database.reading() as connection:  # who polls takes no writer's lock
            if connection.execute(self._due(without)).first() is None:
                return None
        with self._database.writing() as connection:
            webhook_id = connection.execute(self._due(without).with_for_update(of=WEBHOOKS, skip_locked=True)).scalar()
            if webhook_id is None:
                return None
            now = server_time(self._database.dialect)
            taking = update(WEBHOOKS).where(WEBHOOKS.c.id == webhook_id)
            taking = taking.values(attempts=WEBHOOKS.c.attempts + 1, due=now + lease_seconds, updated=now)
            webhook = _webhook(connection.execute(taking.returning(*WEBHOOKS.c)).one())
            return webhook, job_of(connection.execute(select(JOBS).where(JOBS.c.id == webhook.job)).one())

    def record(self, webhook: Webhook, state: WebhookState, reason: str = "", delay: float = 0.0) -> bool:
        """Record how an attempt ended; False, and nothing changed, if another attempt was begun meanwhile."""
        now = server_time(self._database.dialect)
        same_attempt = update(WEBHOOKS).where(WEBHOOKS.c.id == webhook.id, WEBHOOKS.c.attempts == webhook.attempts)
        with self._database.writing() as connection:
            statement = same_attempt.values(state=state, reason=reason, due=now + delay, updated=now)
            return connection.execute(statement).rowcount == 1

    def _due(self, without: Collection[str]) -> Select[tuple[str]]:
        now = server_time(self._database.dialect)
        return (
            select(WEBHOOKS.c.id)
            .join(JOBS, JOBS.c.id == WEBHOOKS.c.job)
            .where(WEBHOOKS.c.state == "pending", JOBS.c.state.in_(FINAL_STATES))
            .where(or_(WEBHOOKS.c.due <= now, WEBHOOKS.c.due > now + MAX_DELAY_SECONDS))
            .where(WEBHOOKS.c.client.not_in(without))
            .order_by(WEBHOOKS.c.attempts, WEBHOOKS.c.due)
            .limit(1)
        )


def _webhook(row: Any) -> Webhook:
    """Return the webhook of a row; SQLite holds anything anywhere, and whatever cannot be one is a failed one."""
    values: Any = row._mapping  # noqa: SLF001 — SQLAlchemy's documented name

    def number(name: str) -> float:
        return float(values[name]) if isinstance(values[name], int | float) else 0.0

    fields: dict[str, Any] = {name: str(values[name]) for name in ("id", "job", "client", "url", "reason")}
    fields |= {name: number(name) for name in ("due", "created", "updated")}
    state: WebhookState = values["state"] if values["state"] in WEBHOOK_STATES else "failed"
    return Webhook(**fields, state=state, attempts=int(number("attempts")))
