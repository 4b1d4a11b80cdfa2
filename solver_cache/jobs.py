"""Jobs: a durable queue with leases; work that can be waited for, and that outlives its worker.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from darrm_opt.errors import InvalidInput

State = Literal["queued", "running", "done", "failed", "cancelled"]

STATES: tuple[State, ...] = get_args(State)
FINAL_STATES: tuple[State, ...] = ("done", "failed", "cancelled")
"""States in which nothing happens any more, unless the job is submitted again."""

MAX_LEASE_SECONDS = 3600.0
"""Longest lease [s]. One that ends later than this from now was written by a clock that was wrong, and is void: so a
clock that is set back cannot make a dead owner's job wait for as long as it was ahead."""

RELEASED: dict[str, Any] = {"owner": "", "lease_until": 0.0}
"""Fields of a job without an owner."""

PAGE_SIZE = 100
"""Jobs listed at a time unless another number is asked for."""


@dataclass(frozen=True)
class Job:
    """Job: one piece of work, as it stood when it was read.

    Attributes:
        id: content key of what is asked; for kind "gamma" it is `darrm_opt.design_spec.DesignSpec.key`.
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


def check_lease(owner: str, lease_seconds: float) -> None:
    """Refuse what cannot be a lease: of a job, or of the claim of a key."""
    if not owner:
        raise InvalidInput("owner", owner, "a name that is not empty")
    if not (math.isfinite(lease_seconds) and 0 < lease_seconds <= MAX_LEASE_SECONDS):
        raise InvalidInput("lease_seconds", lease_seconds, f"seconds above 0, at most {MAX_LEASE_SECONDS:g}")


def check_list(state: str | None, limit: int) -> None:
    """Refuse what cannot be listed."""
    if state is not None and state not in STATES:
        raise InvalidInput("state", state, "one of " + ", ".join(STATES))
    if limit < 1:
        raise InvalidInput("limit", limit, "a whole number, at least 1")


def damaged(job: Job) -> Job:
    """Return a job whose row is not one that this program wrote, as failed: submitting it again writes it anew."""
    return replace(
        job, state="failed", attempts=0, owner="", lease_until=0.0, progress="", reason=DAMAGED_ROW, result=""
    )


DAMAGED_ROW = "The stored job is damaged. Submit it again."
"""Reason of a job whose row cannot be read."""


def unknown_after(after: str) -> InvalidInput:
    """Return the refusal of a page behind a job that is not stored."""
    return InvalidInput("after", after, "the id of a job that is stored", "Start from the first page again.")


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
