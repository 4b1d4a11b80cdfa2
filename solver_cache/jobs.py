"""Jobs: a durable queue with leases; work that can be waited for, and that outlives its worker.

A job is queued once, claimed by one owner at a time, and ends done, failed or cancelled. A claim is a *lease*: who
holds it renews it while working; who dies lets it run out, and another takes over. So each job is done at least once,
and never by two owners who both still hold it: the first one's `Jobs.renew`, `Jobs.finish` or `Jobs.fail` answers
False and changes nothing.

        submit            claim              finish
    ─────────────► queued ─────► running ──────────► done
                     ▲  ▲           │ ├─ fail ─────► failed ────┐
                     │  └─ release ─┘ └─ cancel ───► cancelled ─┤
                     └──────────────── submit again ────────────┘

What a job is about is the caller's: `Job.request`, `Job.progress` and `Job.result` are JSON text that passes through.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

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
        attempts: how often it was claimed since it was submitted, not counting claims that were released.
        owner: who holds the claim; empty unless running.
        lease_until: when the claim runs out [s since 1970-01-01 UTC, by the clock of the place]; 0 unless running.
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


class Jobs(Protocol):
    """Job queue. Safe to use from several threads; in a database also from several processes.

    Times are by one clock: the database server's, or this machine's. A clock that jumps may let a claim run out early
    (its job is then done twice) or late (at most by `MAX_LEASE_SECONDS`); no job and no result is lost by it.

    Every method raises CacheError where the place cannot be used, and has then changed nothing.
    """

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

        Args:
            id: its name, the same for the same question.
            kind: who can do it.
            request: what is asked, as text.
            afresh: whether a result that is there is to be made again.
            client: who submits it, and is one of its clients from now on (`list`, `cancel`); empty: nobody's.
            seconds: how long it is expected to take [s] (`claim`).
            trace: W3C ``traceparent`` of the request; empty where it is not traced.
        """

    def get(self, id: str, client: str | None = None) -> Job | None:
        """Return a job, or None where there is none.

        Args:
            id: its name.
            client: only if this client submitted it, or it is nobody's; None: whoever did.
        """

    def list(
        self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None, client: str | None = None
    ) -> Sequence[Job]:
        """Return jobs, the newest first.

        Args:
            state: only those in this state.
            limit: at most so many, at least 1.
            after: continue behind the job with this id, the last one of the page before.
            client: only those that this client submitted, and those that are nobody's; None: all.

        Raises:
            InvalidInput: ``limit`` is below 1, ``state`` is none, or ``after`` is no job that is still stored.
        """

    def counts(self, client: str | None = None) -> dict[State, int]:
        """Return the number of jobs in each state; of those that ``client`` submitted first, if one is given."""

    def claim(
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

        Args:
            owner: who takes it: a name that nobody else uses, in any process on any machine.
            lease_seconds: how long it is held unless renewed [s], in (0, `MAX_LEASE_SECONDS`].
            kinds: only one of these kinds.
            max_seconds: only one that is expected to take no longer [s].

        Raises:
            InvalidInput: ``owner`` is empty, or ``lease_seconds`` is out of range.
        """

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:
        """Hold a claim for longer, from now, and say how far the work is; False: it is lost or cancelled, stop.

        A lease that ran out is renewed all the same if nobody took the job meanwhile.

        Args:
            id: of the job.
            owner: who holds it.
            lease_seconds: for how long from now [s], in (0, `MAX_LEASE_SECONDS`].
            progress: how far it is, as text; None leaves what was said.
        """

    def finish(self, id: str, owner: str, result: str) -> bool:
        """Make the job ``id`` done with ``result``; False, and nothing changed, if ``owner`` holds it no more."""

    def fail(self, id: str, owner: str, reason: str) -> bool:
        """Make the job ``id`` failed for ``reason``; False, and nothing changed, if ``owner`` holds it no more."""

    def release(self, id: str, owner: str) -> bool:
        """Put the job ``id`` back into its old place in the queue; False if ``owner`` holds it no more."""

    def settle(self, id: str, result: str, client: str | None = None) -> Job | None:
        """Make a running job done with ``result``, whoever holds it; return it, or None where there is none.

        Its owner finds at the next `renew` that it holds it no more.

        Args:
            id: of the job.
            result: what came of it, as text.
            client: who is content with it: it goes on if it has other clients, and is none of a client's that did not
                submit it; None: everyone.
        """

    def cancel(self, id: str, client: str | None = None) -> Job | None:
        """Cancel a job that is not over; return it as it then stands, or None where there is none.

        Args:
            id: of the job.
            client: who no longer wants it: it goes on for its other clients, and is none of a client's that did not
                submit it (None is returned then), unless it is nobody's. None: whoever wants it.
        """

    def waiting_seconds(self) -> float:
        """Return how long the job that was queued first has waited [s]; 0 where none waits."""

    def prune(self, before: float) -> int:
        """Forget jobs that were over before that time [s since 1970-01-01 UTC]; return how many."""


class HasJobs(Protocol):
    """A store with its jobs."""

    @property
    def jobs(self) -> Jobs:
        """The jobs that belong to it."""


def open_jobs(store: HasJobs) -> Jobs:
    """Return the jobs that belong to an open store: in its database, else in this process's memory.

    >>> from solver_cache import open_store
    >>> jobs = open_jobs(open_store("memory"))
    >>> jobs.submit("a", "gamma", "{}").state
    'queued'
    >>> jobs.claim("me", lease_seconds=30).attempts
    1
    >>> jobs.finish("a", "me", '{"utility":1.0}'), jobs.get("a").state
    (True, 'done')
    """
    return store.jobs


def check_claim(owner: str, lease_seconds: float) -> None:
    """Refuse what cannot be a claim."""
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
