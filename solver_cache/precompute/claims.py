"""Who solves what: a lease on a job for each key, so that no two runs solve one key, and a dead one's keys come free.

The job of a key has the id ``precompute:KEY`` and the kind `KIND`, which no service claims. It is "done" in the moment in
which its answer is kept, and says by whom; or "failed" with the reason, which a later run tries again. Keys are claimed,
and answers kept, many at a time: what a transaction costs is paid once for all of them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

from darrm_opt.record import problem_record
from solver_cache.errors import CacheError, ReadOnlyCache
from solver_cache.examine import inspect
from solver_cache.key import Request, canonical_json
from solver_cache.row import Row
from solver_cache.settling import Settled
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
_TAKEN: dict[str, Taken] = {"taken": "taken", "kept": "kept", "held": "held", "done": "held"}


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

    def take(self, requests: Mapping[str, Request]) -> dict[str, Taken]:
        """Claim keys: each is "taken"; or its answer is "kept" by now, or another owner has "held" it."""
        left = {key: request for key, request in requests.items() if key not in self._held}  # else: a worker was lost
        found = self._asked_for(left) if left else {}
        if gone := {key: left[key] for key, what in found.items() if what == "done"}:
            found |= self._asked_for(gone, afresh=True)
        return {key: _TAKEN[found.get(key, "taken")] for key in requests}

    def settle(self, answers: Sequence[tuple[Row, str]]) -> set[str]:
        """Keep answers, in which moment their keys are done; return the keys of those that were.

        The others are claimed by another owner by now, who was thought lost or thought so of this one: they are left to it.

        Args:
            answers: each with the rows that others start from, where it was a lead, else empty: kept with the job. An
                answer that is kept already and good stays.
        """
        settled = [Settled(job_of(row.key), self._result(start), row) for row, start in answers]
        done = self._patiently(lambda: self._store.settle(self._owner, settled))
        self._held -= {row.key for row, _ in answers}
        for row, _ in answers:
            standing = done.get(job_of(row.key), row)
            if standing is not None and standing != row and inspect(standing).decision != "hit":
                self._replace(row, standing)
        return {row.key for row, _ in answers if job_of(row.key) in done}

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
        try:
            self._store.jobs.renew_all([job_of(key) for key in tuple(self._held)], self._owner, self.lease)
        except CacheError as err:
            _LOG.warning("claims cannot be renewed: %s", err)

    def release(self, keys: Collection[str] | None = None) -> None:
        """Let go of claims, of all unless told which: another run need not wait for the leases, or else they run out."""
        some = self._held & set(self._held if keys is None else keys)
        self._held -= some
        if not some:
            return
        try:
            self._store.jobs.release_all([job_of(key) for key in some], self._owner)
        except CacheError as err:
            _LOG.warning("claims run out by themselves: %s", err)

    def _asked_for(self, requests: Mapping[str, Request], *, afresh: bool = False) -> dict[str, str]:
        """Claim keys; say what became of each: "done" where it was done once, and its answer is there no more."""
        asked = {job_of(key): _asked(request) for key, request in requests.items()}
        became = self._patiently(lambda: self._store.jobs.take(self._owner, self.lease, KIND, asked, afresh=afresh))
        # looked up behind the claim: another run, or a service, may have kept some between the plan and now
        there = self._patiently(lambda: self._store.present(requests.keys()))
        mine = {key for key in requests if became[job_of(key)] == "taken"}
        if known := [Settled(job_of(key), "{}", None) for key in mine & there]:
            self._patiently(lambda: self._store.settle(self._owner, known))
        self._held |= mine - there
        return {key: "kept" if key in there else became[job_of(key)] for key in requests}

    def _result(self, start: str) -> str:
        return canonical_json({"by": self._owner, "start": start} if start else {"by": self._owner})

    def _replace(self, row: Row, standing: Row) -> None:
        self._patiently(lambda: self._store.put(row, replacing=standing))

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
