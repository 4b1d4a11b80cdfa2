"""Jobs in this process's memory: for stores that keep nothing beyond it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from solver_cache.jobs import (
    MAX_LEASE_SECONDS,
    PAGE_SIZE,
    STATES,
    ClaimResult,
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
        self._lock = threading.Lock()

    def submit(self, id: str, kind: str, request: str, *, afresh: bool = False) -> Job:  # noqa: A002
        """Queue a job as `Jobs.submit` says."""
        with self._lock:
            there = self._jobs.get(id)
            if there is not None and there.state not in {"failed", "cancelled", *(["done"] if afresh else [])}:
                return there
            now = self._clock()
            self._jobs[id] = Job(id, kind, request, "queued", 0, "", 0.0, "", "", "", now, now)
            return self._jobs[id]

    def get(self, id: str) -> Job | None:  # noqa: A002
        """Return a job, or None where there is none."""
        return self._jobs.get(id)

    def list(self, state: State | None = None, limit: int = PAGE_SIZE, after: str | None = None) -> Sequence[Job]:
        """Return jobs, the newest first, as `Jobs.list` says."""
        check_list(state, limit)
        with self._lock:
            last = None if after is None else self._jobs.get(after)
            found = [job for job in self._jobs.values() if state in {None, job.state}]
        if after is not None:
            if last is None:
                raise unknown_after(after)
            found = [job for job in found if (job.created, job.id) < (last.created, last.id)]
        return sorted(found, key=lambda job: (job.created, job.id), reverse=True)[:limit]

    def counts(self) -> dict[State, int]:
        """Return the number of jobs in each state."""
        with self._lock:
            states = [job.state for job in self._jobs.values()]
        return {state: states.count(state) for state in STATES}

    def claim(
        self, owner: str, lease_seconds: float, ids: Collection[str] | None = None, kind: str | None = None
    ) -> Job | None:
        """Take one job as `Jobs.claim` says."""
        check_claim(owner, lease_seconds)
        with self._lock:
            now = self._clock()
            free = [
                job
                for job in self._jobs.values()
                if (ids is None or job.id in ids) and kind in {None, job.kind} and _free(job, now)
            ]
            if not free:
                return None
            first = min(free, key=lambda job: (job.state == "queued", job.lease_until, job.created, job.id))
            return self._claim(first, owner, now + lease_seconds)

    def take(
        self, owner: str, lease_seconds: float, kind: str, requests: Mapping[str, str], *, afresh: bool = False
    ) -> dict[str, ClaimResult]:
        """Submit and claim jobs as `Jobs.take` says."""
        check_claim(owner, lease_seconds)
        taken: dict[str, ClaimResult] = {}
        for name, request in requests.items():
            job = self.submit(name, kind, request, afresh=afresh)
            with self._lock:
                now = self._clock()
                if _free(job := self._jobs.get(name, job), now):
                    self._claim(job, owner, now + lease_seconds)
                    taken[name] = "taken"
                elif job.state == "running" and job.owner == owner:
                    taken[name] = "taken"
                else:
                    taken[name] = "done" if job.state == "done" else "held"
        return taken

    def renew(self, id: str, owner: str, lease_seconds: float, progress: str | None = None) -> bool:  # noqa: A002
        """Hold a claim for longer as `Jobs.renew` says."""
        check_claim(owner, lease_seconds)
        more = {} if progress is None else {"progress": progress}
        return self._held(id, owner, lambda _: {"lease_until": self._clock() + lease_seconds, **more})

    def renew_all(self, ids: Collection[str], owner: str, lease_seconds: float) -> set[str]:
        """Hold claims for longer as `Jobs.renew_all` says."""
        check_claim(owner, lease_seconds)
        return {name for name in ids if self.renew(name, owner, lease_seconds)}

    def finish(self, id: str, owner: str, result: str) -> bool:  # noqa: A002
        """Make a claimed job done as `Jobs.finish` says."""
        return self._held(id, owner, lambda _: {"state": "done", "result": result, "owner": "", "lease_until": 0.0})

    def fail(self, id: str, owner: str, reason: str) -> bool:  # noqa: A002
        """Make a claimed job failed as `Jobs.fail` says."""
        return self._held(id, owner, lambda _: {"state": "failed", "reason": reason, "owner": "", "lease_until": 0.0})

    def release(self, id: str, owner: str) -> bool:  # noqa: A002
        """Put a claimed job back as `Jobs.release` says."""
        back = {"state": "queued", "owner": "", "lease_until": 0.0}
        return self._held(id, owner, lambda job: {**back, "attempts": job.attempts - 1})

    def release_all(self, ids: Collection[str], owner: str) -> set[str]:
        """Put claimed jobs back as `Jobs.release_all` says."""
        return {name for name in ids if self.release(name, owner)}

    def cancel(self, id: str) -> Job | None:  # noqa: A002
        """Cancel a job that is not over, as `Jobs.cancel` says."""
        with self._lock:
            there = self._jobs.get(id)
            if there is None or there.over:
                return there
            return self._change(there, state="cancelled", owner="", lease_until=0.0)

    def prune(self, before: float) -> int:
        """Forget jobs that were over before that time, as `Jobs.prune` says."""
        with self._lock:
            old = [job.id for job in self._jobs.values() if job.over and job.updated < before]
            for key in old:
                del self._jobs[key]
        return len(old)

    def held(self, ids: Collection[str], owner: str) -> set[str]:
        """Return those jobs that ``owner`` holds."""
        with self._lock:
            there = [self._jobs.get(name) for name in ids]
        return {job.id for job in there if job is not None and (job.state, job.owner) == ("running", owner)}

    def _held(self, id: str, owner: str, change: Callable[[Job], dict[str, Any]]) -> bool:  # noqa: A002
        """Change a job if ``owner`` holds it."""
        with self._lock:
            there = self._jobs.get(id)
            if there is None or there.state != "running" or there.owner != owner:
                return False
            self._change(there, **change(there))
            return True

    def _claim(self, job: Job, owner: str, until: float) -> Job:
        return self._change(job, state="running", owner=owner, attempts=job.attempts + 1, lease_until=until)

    def _change(self, job: Job, **values: Any) -> Job:
        self._jobs[job.id] = replace(job, updated=self._clock(), **values)
        return self._jobs[job.id]


def _free(job: Job, now: float) -> bool:
    """Whether a job can be claimed."""
    return job.state == "queued" or (job.state == "running" and not 0 <= job.lease_until - now <= MAX_LEASE_SECONDS)
