"""Webhooks of the service: clients request them, and they are delivered in the background when jobs end.

A failed delivery is retried for two days. Deliveries follow the Standard Webhooks specification: one id for all
attempts, a time, an HMAC-SHA256 signature. A client's secret is derived from the operator's secret and the client's
name, so nothing is stored, and no client can sign for another. The payload reports that a job ended and where its
result is; the receiver fetches the result with its key.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import random
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from api.access.client_shares import ClientQuota
from api.access.clients import CLIENT_PREFIX, CURRENT_PREFIX, current_client, current_owner, designs_owner
from api.access.keys import KeyRing, open_ring
from api.errors.problem_details import TooManyJobs
from api.observability import metrics
from api.schemas.jobs import job_answer
from api.service.webhook_delivery import DeliveryError, check_host, parse_webhook_url, post
from api.settings import Settings, mask_password
from api.tasks.task import RunInThread
from darrm_client.webhooks import sign_webhook, webhook_secret_text
from darrm_opt import __version__
from darrm_opt.errors import InvalidInput
from solver_cache.database.jobs import Job, Jobs
from solver_cache.database.webhooks import DatabaseWebhooks, Webhook, WebhookState
from solver_cache.location import CacheError

_LOG = logging.getLogger("api.webhooks")

RETRY_DELAYS = (5.0, 30.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0)
"""Pauses after each failed attempt [s], as the specification suggests: two days in all.

A random extra of up to a fifth is added to each.
"""

MAX_PENDING = 1000  # pending webhooks of one client
DELIVERIES = 8  # concurrent deliveries of one process, half of them for one client
POLL_SECONDS = 1.0  # interval between polls for webhooks that are due
LEASE_FACTOR = 3.0  # multiple of a delivery's time limit after which the webhook of a dead deliverer is retried
GONE = 410  # status with which a receiver unsubscribes
MAX_REASON = 200  # characters of a failed job's reason in the payload, to keep it small


class GivenUpError(Exception):
    """The webhook must not be sent, now or later; the text says why."""


class Webhooks:
    """Webhooks of one service: adding them, and delivering those that are due."""

    def __init__(
        self, webhooks: DatabaseWebhooks, settings: Settings, run_in_thread: RunInThread, ring: KeyRing | None = None
    ) -> None:
        self._webhooks, self._run_in_thread, self._seconds = webhooks, run_in_thread, settings.webhook_seconds
        self._secrets, self._prefix = settings.webhook_secrets, settings.path_prefix
        self._ring = ring or open_ring(settings.keys)
        self._networks = [ipaddress.ip_network(network) for network in settings.webhook_networks]
        self._busy: Counter[str] = Counter()
        self._lookups = ClientQuota(DELIVERIES, "webhooks looked up")
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, job: str, url: str) -> tuple[Webhook, str]:
        """Add a webhook for the end of a job, due at once if it has ended; return it with its signing secret."""
        with self._lookups.reserve(current_client()):
            await check_host(parse_webhook_url(url, self._networks), self._networks)
        owner = designs_owner() or ""  # without a key
        webhook = await self._run_in_thread(
            self._webhooks.add, f"msg_{secrets.token_hex(16)}", job, owner, url, MAX_PENDING
        )
        if webhook is None:
            raise TooManyJobs(
                f"One client can have {MAX_PENDING} pending webhooks; this client has reached the limit.", 60.0
            )
        return webhook, webhook_secret_text(client_secret(self._secrets[0], owner))

    async def list(self, job: str) -> Sequence[Webhook]:
        """Return the client's webhooks of a job, oldest first."""
        webhooks: Sequence[Webhook] = await self._run_in_thread(self._webhooks.list, job, current_owner())
        return webhooks

    async def remove(self, id: str, job: str) -> bool:
        """Delete a webhook of the client; return whether it existed."""
        return bool(await self._run_in_thread(self._webhooks.remove, id, job, current_owner()))

    async def deliver(self) -> None:
        """Deliver due webhooks, several at a time, until cancelled."""
        CURRENT_PREFIX.set(self._prefix)
        try:
            while True:
                has_started = len(self._tasks) < DELIVERIES and await self._start_one()
                if not has_started:
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            for task in self._tasks:  # due again after their lease
                task.cancel()

    async def _start_one(self) -> bool:
        # One client can have half of all deliveries: a slow receiver must not delay others.
        busy_clients = [client for client, count in self._busy.items() if count >= DELIVERIES // 2]
        try:
            taken = await self._run_in_thread(self._webhooks.take, LEASE_FACTOR * self._seconds, busy_clients)
        except CacheError as err:
            _LOG.warning("webhooks cannot be polled: %s", err)
            return False
        if taken is None:
            return False
        webhook, job = taken
        self._busy[webhook.client] += 1
        task = asyncio.create_task(self._attempt(webhook, job))
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, webhook.client))
        return True

    def _end(self, client: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._busy[client] -= 1
        if not self._busy[client]:
            del self._busy[client]
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a webhook cannot be handled", exc_info=task.exception())

    async def _attempt(self, webhook: Webhook, job: Job) -> None:
        outcome: WebhookState = "delivered"
        reason, delay = "", 0.0
        try:
            status = await self._send(webhook, job)
            if not 200 <= status < 300:
                reason = f"the receiver responded with status {status}"
                outcome = "failed" if status == GONE else "pending"
        except GivenUpError as err:
            outcome, reason = "failed", str(err)
        except DeliveryError as err:
            outcome, reason = "pending", str(err)
        if outcome == "pending":
            if webhook.attempts > len(RETRY_DELAYS):
                outcome = "failed"
            else:
                # Jitter: receivers that were down together are not retried together.
                delay = RETRY_DELAYS[webhook.attempts - 1] * random.SystemRandom().uniform(1.0, 1.2)
        metrics.count_webhook("retried" if outcome == "pending" else outcome)
        level = logging.WARNING if outcome == "failed" else logging.INFO
        _LOG.log(level, "webhook %s of job %s, attempt %d: %s", webhook.id, job.id, webhook.attempts, reason or outcome)
        try:
            await self._run_in_thread(self._webhooks.record, webhook, outcome, reason, delay)
        except CacheError as err:  # due again after its lease
            _LOG.warning("webhook %s: its attempt cannot be recorded: %s", webhook.id, err)

    async def _send(self, webhook: Webhook, job: Job) -> int:
        self._check_key(webhook.client)
        try:
            url = parse_webhook_url(webhook.url, self._networks)
        except InvalidInput as err:  # a damaged row, or a network that is no longer allowed
            raise GivenUpError("its URL is not allowed for webhooks") from err
        body, now = webhook_body(job), int(time.time())
        signatures = [
            sign_webhook(client_secret(secret, webhook.client), webhook.id, now, body) for secret in self._secrets
        ]
        headers = {
            "content-type": "application/json",
            "user-agent": f"darrm-opt/{__version__}",
            "webhook-id": webhook.id,
            "webhook-timestamp": str(now),
            "webhook-signature": " ".join(signatures),
        }
        return await post(url, headers, body, networks=self._networks, seconds=self._seconds)

    def _check_key(self, client: str) -> None:
        """Raise GivenUpError if the client has no valid key: the holder of a revoked key receives nothing."""
        has_name = client.startswith(CLIENT_PREFIX)
        if self._ring is not None and has_name and not self._ring.has_client(client.removeprefix(CLIENT_PREFIX)):
            raise GivenUpError("every key of its client was revoked or has expired")


def stored_webhooks(jobs: Jobs, settings: Settings) -> DatabaseWebhooks:
    """Return the webhooks stored beside the jobs."""
    if jobs.database.in_memory:
        url = mask_password(settings.cache_url)
        raise InvalidInput("DARRM_CACHE_URL", url, "a writable database, required by DARRM_WEBHOOK_SECRET")
    return DatabaseWebhooks(jobs.database)


def webhook_body(job: Job) -> bytes:
    """Return the payload for the end of a job, the same at every attempt."""
    answer = job_answer(job)
    data: dict[str, Any] = {name: getattr(answer, name) for name in ("id", "kind", "state", "created", "updated")}
    data |= {"reason": answer.reason[:MAX_REASON], "location": answer.location, "result": answer.result}
    event = {"type": f"job.{answer.state}", "timestamp": answer.updated, "data": data}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def client_secret(secret: bytes, client: str) -> bytes:
    """Return the signing secret of a client, which cannot be computed without the operator's."""
    return hmac.digest(secret, b"darrm-opt webhooks of " + client.encode(), hashlib.sha256)
