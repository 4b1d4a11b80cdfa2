"""Who solves what: a lease on a job for each key, so that no two runs solve one key, and a dead one's keys come free.

The job of a key has the id ``precompute:KEY`` and the kind `KIND`, which no service claims. It ends "done" once the
answer is kept, or "failed" with the reason, which a later run tries again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from darrm_opt.record import problem_record
from solver_cache.errors import CacheError, ReadOnlyCache
from solver_cache.examine import inspect
from solver_cache.key import Request, canonical_json
from solver_cache.row import Row
from solver_cache.store import Store

KIND = "precompute"

LEASE = 30.0
"""How long a claim is held without a sign of life [s]: what a killed run leaves waits so long. It must outlast whatever
keeps a live one from renewing, such as a database that starts again."""

PATIENCE = 60.0
"""How long a store that does not answer is asked again [s]."""

_LOG = logging.getLogger("solver_cache.precompute")

Result = TypeVar("Result")
Taken = Literal["taken", "kept", "held"]


class Claims:
    """The keys that one owner solves. Not safe to share between threads, but for `renew`.

    Args:
        store: where answers and jobs are kept.
        owner: a name that nobody else uses, in any process on any machine.
        lease: how long a claim is held unless renewed [s].
        patience: how long to try a store that does not answer [s].

    Every method raises CacheError where the store cannot be used for longer than that.
    """

    def __init__(self, store: Store, owner: str, lease: float = LEASE, patience: float = PATIENCE) -> None:
        self._store, self._owner, self.lease, self._patience = store, owner, lease, patience
        self._held: set[str] = set()
        self._renewed = time.monotonic()

    def take(self, request: Request, key: str) -> Taken:
        """Claim a key: "taken"; or its answer is "kept" by now, or another owner has "held" it."""
        if key in self._held:  # from a worker that was lost
            return "taken"
        if self._present(key):
            self._say_done(key)
            return "kept"
        job = self._patiently(lambda: self._store.jobs.submit(job_of(key), KIND, _asked(request)))
        if job.state == "done":
            if self._present(key):  # another run was done with it just now
                return "kept"
            self._patiently(lambda: self._store.jobs.submit(job_of(key), KIND, _asked(request), afresh=True))
        claimed = self._patiently(lambda: self._store.jobs.claim(self._owner, self.lease, ids=[job_of(key)]))
        if claimed is None:
            return "held"
        if self._present(key):  # kept between the first look and the claim, or by one who died before saying so
            self._finish(key, "")
            return "kept"
        self._held.add(key)
        return "taken"

    def settle(self, row: Row, start: str) -> None:
        """Keep an answer, then say that its key is done.

        Args:
            row: the answer; one that is kept already and good stays.
            start: the rows that others start from, where this was a lead; kept with the job.
        """
        standing = self._patiently(lambda: self._store.put(row))
        if standing != row and inspect(standing).decision != "hit":
            self._patiently(lambda: self._store.put(row, replacing=standing))
        self._finish(row.key, start)

    def fail(self, key: str, reason: str) -> None:
        """Record why a key cannot be solved."""
        self._held.discard(key)
        self._patiently(lambda: self._store.jobs.fail(job_of(key), self._owner, reason))

    def start(self, lead: str) -> str:
        """Return the rows that were kept with a lead; empty where there are none."""
        job = self._patiently(lambda: self._store.jobs.get(job_of(lead)))
        try:
            return str(json.loads(job.result)["start"]) if job is not None and job.state == "done" else ""
        except (ValueError, LookupError, TypeError):  # anyone may have written it
            return ""

    def renew(self) -> None:
        """Hold every claim for longer, if it is time to; a store that cannot be reached is tried again next time."""
        if time.monotonic() - self._renewed < self.lease / 3:
            return
        self._renewed = time.monotonic()
        for key in tuple(self._held):
            try:
                self._store.jobs.renew(job_of(key), self._owner, self.lease)
            except CacheError as err:
                _LOG.warning("claims cannot be renewed: %s", err)
                return

    def release(self) -> None:
        """Let go of every claim: another run need not wait for the leases. Where it cannot be done, they run out."""
        for key in tuple(self._held):
            self._held.discard(key)
            try:
                self._store.jobs.release(job_of(key), self._owner)
            except CacheError as err:
                _LOG.warning("claims run out by themselves: %s", err)
                return

    def _present(self, key: str) -> bool:
        return bool(self._patiently(lambda: self._store.present([key])))

    def _say_done(self, key: str) -> None:
        """Say that a key is done whose owner died between keeping its answer and saying so, once the lease has run out."""
        job = self._patiently(lambda: self._store.jobs.get(job_of(key)))
        if job is None or job.state not in {"queued", "running"}:
            return
        if self._patiently(lambda: self._store.jobs.claim(self._owner, self.lease, ids=[job_of(key)])) is not None:
            self._finish(key, "")

    def _finish(self, key: str, start: str) -> None:
        self._held.discard(key)
        result = canonical_json({"start": start} if start else {})
        self._patiently(lambda: self._store.jobs.finish(job_of(key), self._owner, result))

    def _patiently(self, call: Callable[[], Result]) -> Result:
        """Return what ``call`` returns, trying again with back-off while the store does not answer."""
        end, pause = time.monotonic() + self._patience, 0.1
        while True:
            try:
                return call()
            except ReadOnlyCache:
                raise
            except CacheError as err:
                if time.monotonic() + pause > end:
                    raise
                _LOG.warning("tried again in %.1f s: %s", pause, err)
                time.sleep(pause)
                pause = min(2 * pause, 5.0)


def job_of(key: str) -> str:
    """Return the id of the job of a key."""
    return f"{KIND}:{key}"


def _asked(request: Request) -> str:
    content: dict[str, Any] = {
        "problem": problem_record(request.problem),
        "objective": str(request.objective),
        "shape": request.shape,
    }
    return canonical_json(content)
