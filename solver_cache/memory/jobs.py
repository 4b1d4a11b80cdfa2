"""In-memory job queue, for stores that keep nothing beyond the process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from solver_cache.jobs import (
    MAX_LEASE_SECONDS,
    PAGE_SIZE,
    RELEASED,
    STATES,
    Job,
    State,
    check_claim,
    check_list,
    unknown_after,
)


class MemoryJobs:
    """`solver_cache.jobs.Jobs` until the process ends.

    Args:
        clock: what time it is [s since 1970-01-01 UTC].
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._jobs: dict[str, Job] = {}
        self._clients: dict[str, set[str]] = {}
        self._lock = threading.Lock()

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
        """Queue a job as `Jobs.submit` says."""
        with self._lock:
            job = self._jobs.get(id)
            if job is None or job.state in {"failed", "cancelled", *(["done"] if afresh else [])}:
                now = self._clock()
                job = Job(id, kind, request, "queued", 0, "", 0.0, "", "", "", now, now, client, seconds, trace)
                self._jobs[id] = job
                self._clients[id] = set()
            if client:
                self._clients[id].add(client)
            return job

    def get(self, id: str, client: str | None = None) -> Job | None:
        """Return a job, as `Jobs.get` says."""
        with self._lock:
            job = self._jobs.get(id)
            return job if job is not None and self._belongs(id, client) else None

    def list(
        self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None, client: str | None = None
    ) -> Sequence[Job]:
        """Return jobs, the newest first, as `Jobs.list` says."""
        check_list(state, limit)
        with self._lock:
            last_job = None if after is None else self._jobs.get(after)
            jobs = [job for job in self._jobs.values() if state in {None, job.state} and self._belongs(job.id, client)]
        if after is not None:
            if last_job is None:
                raise unknown_after(after)
            jobs = [job for job in jobs if (job.created, job.id) < (last_job.created, last_job.id)]
        return sorted(jobs, key=lambda job: (job.created, job.id), reverse=True)[:limit]

    def counts(self, client: str | None = None) -> dict[State, int]:
        """Return the number of jobs in each state, as `Jobs.counts` says."""
        with self._lock:
            states = [job.state for job in self._jobs.values() if client in {None, job.client}]
        return {state: states.count(state) for state in STATES}

    def waiting_seconds(self) -> float:
        """Return how long the job that was queued first has waited [s]; 0 where none waits."""
        with self._lock:
            created = [job.created for job in self._jobs.values() if job.state == "queued"]
        return max(0.0, self._clock() - min(created)) if created else 0.0

    def claim(
        self,
        owner: str,
        lease_seconds: float,
        *,
        kinds: Collection[str] | None = None,
        max_seconds: float | None = None,
    ) -> Job | None:
        """Take one job as `Jobs.claim` says."""
        check_claim(owner, lease_seconds)
        with self._lock:
            now = self._clock()
            free = [
                job
                for job in self._jobs.values()
                if (kinds is None or job.kind in kinds)
                and (max_seconds is None or job.seconds <= max_seconds)
                and _free(job, now)
            ]
            if not free:
                return None
            running = Counter(job.client for job in self._jobs.values() if job.state == "running")
            last_served: dict[str, float] = {}
            for job in self._jobs.values():
                if job.state in {"running", "done", "failed"}:
                    last_served[job.client] = max(last_served.get(job.client, 0.0), job.updated)

            def turn(job: Job) -> tuple[Any, ...]:
                share = (running[job.client], last_served.get(job.client, 0.0)) if job.state == "queued" else (0, 0.0)
                return (job.state == "queued", job.lease_until, *share, job.created, job.id)

            return self._claim(min(free, key=turn), owner, now + lease_seconds)

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:
        """Hold a claim for longer as `Jobs.renew` says."""
        check_claim(owner, lease_seconds)
        changes = {} if progress is None else {"progress": progress}
        return self._update_own(id, owner, lambda _: {"lease_until": self._clock() + lease_seconds, **changes})

    def finish(self, id: str, owner: str, result: str) -> bool:
        """Make a claimed job done as `Jobs.finish` says."""
        return self._update_own(id, owner, lambda _: {"state": "done", "result": result, **RELEASED})

    def fail(self, id: str, owner: str, reason: str) -> bool:
        """Make a claimed job failed as `Jobs.fail` says."""
        return self._update_own(id, owner, lambda _: {"state": "failed", "reason": reason, **RELEASED})

    def release(self, id: str, owner: str) -> bool:
        """Put a claimed job back as `Jobs.release` says."""
        return self._update_own(id, owner, lambda job: {"state": "queued", "attempts": job.attempts - 1, **RELEASED})

    def settle(self, id: str, result: str, client: str | None = None) -> Job | None:
        """Make a running job done as `Jobs.settle` says."""
        with self._lock:
            job = self._jobs.get(id)
            if job is None or not self._belongs(id, client):
                return None
            if job.state != "running" or (client is not None and self._clients[id] - {client}):
                return job
            return self._change(job, state="done", result=result, **RELEASED)

    def cancel(self, id: str, client: str | None = None) -> Job | None:
        """Cancel a job that is not over, as `Jobs.cancel` says."""
        with self._lock:
            job = self._jobs.get(id)
            if job is None or not self._belongs(id, client):
                return None
            if job.over:
                return job
            other_clients = self._clients[id] - {client}
            if client is not None and other_clients:
                self._clients[id] = other_clients
                return job
            return self._change(job, state="cancelled", **RELEASED)

    def prune(self, before: float) -> int:
        """Forget jobs that were over before that time, as `Jobs.prune` says."""
        with self._lock:
            old_ids = [job.id for job in self._jobs.values() if job.over and job.updated < before]
            for id in old_ids:
                del self._jobs[id], self._clients[id]
        return len(old_ids)

    def _belongs(self, id: str, client: str | None) -> bool:
        """Whether a job is a client's, or nobody's."""
        return client is None or not self._clients[id] or client in self._clients[id]

    def _update_own(self, id: str, owner: str, change: Callable[[Job], dict[str, Any]]) -> bool:
        """Change a job if ``owner`` holds it."""
        with self._lock:
            job = self._jobs.get(id)
            if job is None or job.state != "running" or job.owner != owner:
                return False
            self._change(job, **change(job))
            return True

    def _claim(self, job: Job, owner: str, lease_until: float) -> Job:
        return self._change(job, state="running", owner=owner, attempts=job.attempts + 1, lease_until=lease_until)

    def _change(self, job: Job, **values: Any) -> Job:
        self._jobs[job.id] = replace(job, updated=self._clock(), **values)
        return self._jobs[job.id]


def _free(job: Job, now: float) -> bool:
    """Whether a job can be claimed."""
    return job.state == "queued" or (job.state == "running" and not 0 <= job.lease_until - now <= MAX_LEASE_SECONDS)
