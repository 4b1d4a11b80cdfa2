"""Webhooks: where the end of a job is to be told, stored beside the jobs, so that a restart forgets none.

A webhook waits until its job is over. It is then due, and whoever delivers it *takes* it: that counts the attempt
and moves the time of the next one ahead, so a deliverer that dies loses nothing, and each webhook is delivered at least
once. Repeated deliveries have one id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

WebhookState = Literal["pending", "delivered", "failed"]

WEBHOOK_STATES: tuple[WebhookState, ...] = get_args(WebhookState)


@dataclass(frozen=True)
class Webhook:
    """Webhook: one address that is told when one job ends, as it stood when it was read.

    Attributes:
        id: its name, the same at every attempt.
        job: id of the job.
        client: who asked for it; empty where no key is needed.
        url: where it is sent.
        state: "pending", "delivered" or "failed" (given up).
        attempts: how often delivery was begun.
        due: when it is tried next, once its job is over [s since 1970-01-01 UTC].
        reason: what was wrong with the last attempt, in words; else empty.
        created: when it was asked for [as ``due``].
        updated: when it last changed [as ``due``].
    """

    id: str
    job: str
    client: str
    url: str
    state: WebhookState
    attempts: int
    due: float
    reason: str
    created: float
    updated: float
