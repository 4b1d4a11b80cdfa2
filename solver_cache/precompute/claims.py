"""Claims: a lease on a job for each key, so that no two runs solve one key, and the keys of a dead run come free.

The job of a key has the id ``precompute:KEY`` and the kind `KIND`, which no service claims. It is "done" in the moment in
which its answer is stored, and says by whom; or "failed" with the reason, which a later run tries again. Keys are claimed,
and answers stored, many at a time: what a transaction costs is paid once for all of them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.record import problem_record
from solver_cache.errors import CacheError, ReadOnlyCache
from solver_cache.model import Completion, Row
from solver_cache.store import Store
from solver_cache.validate import validate_row

KIND = "precompute"

LEASE = 30.0
"""Lease of a claim [s]: how long the keys of a killed run stay claimed. It must outlast whatever
keeps a live one from renewing, such as a database that starts again."""

RETRY_SECONDS = 60.0
"""Time limit for retries while the store does not answer [s]."""

_LOG = logging.getLogger("solver_cache.precompute")

Result = TypeVar("Result")
Taken = Literal["taken", "stored", "held"]
_TAKEN: dict[str, Taken] = {"taken": "taken", "stored": "stored", "held": "held", "done": "held"}


class Claims:
    """Claims of one owner. Not safe to share between threads, but for `renew`.

    Args:
        store: where answers and jobs are stored.
        owner: a name that nobody else uses, in any process on any machine.
        lease: how long a claim is held unless renewed [s].
        retry_seconds: how long to retry while the store does not answer [s].

    Every method raises CacheError where the store cannot be used for longer than that.
    """

    def __init__(self, store: Store, owner: str, lease: float = LEASE, retry_seconds: float = RETRY_SECONDS) -> None:
        self._store, self._owner, self.lease, self._retry_seconds = store, owner, lease, retry_seconds
        self._held: set[str] = set()
        self._renewed = time.monotonic()

    def take(self, specs: Mapping[str, DesignSpec]) -> dict[str, Taken]:
        """Claim keys: each is "taken"; or its answer is "stored" by now, or another owner has "held" it."""
        left = {key: spec for key, spec in specs.items() if key not in self._held}  # else: a worker was lost
        found = self._claim(left) if left else {}
        if gone := {key: left[key] for key, what in found.items() if what == "done"}:
            found |= self._claim(gone, afresh=True)
        return {key: _TAKEN[found.get(key, "taken")] for key in specs}

    def complete(self, answers: Sequence[tuple[Row, str]]) -> set[str]:
        """Keep answers, in which moment their keys are done; return the keys of those that were.

        The others are claimed by another owner by now, who was thought lost or thought so of this one: they are left to it.

        Args:
            answers: each with the rows that others start from, where it was a lead, else empty: stored with the job. An
                answer that is stored already and good stays.
        """
        completions = [Completion(job_id(row.key), self._result(start), row) for row, start in answers]
        done = self._with_retries(lambda: self._store.complete(self._owner, completions))
        self._held -= {row.key for row, _ in answers}
        for row, _ in answers:
            standing = done.get(job_id(row.key), row)
            if standing is not None and standing != row and validate_row(standing).decision != "hit":
                self._replace(row, standing)
        return {row.key for row, _ in answers if job_id(row.key) in done}

    def fail(self, key: str, reason: str) -> None:
        """Record why a key cannot be solved."""
        self._held.discard(key)
        self._with_retries(lambda: self._store.jobs.fail(job_id(key), self._owner, reason))

    def lead_rows(self, lead: str) -> str:
        """Return the rows that were stored with a lead; empty where there are none."""
        job = self._with_retries(lambda: self._store.jobs.get(job_id(lead)))
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
            self._store.jobs.renew_all([job_id(key) for key in tuple(self._held)], self._owner, self.lease)
        except CacheError as err:
            _LOG.warning("claims cannot be renewed: %s", err)

    def release(self, keys: Collection[str] | None = None) -> None:
        """Let go of claims, of all unless told which: another run need not wait for the leases, or else they run out."""
        some = self._held & set(self._held if keys is None else keys)
        self._held -= some
        if not some:
            return
        try:
            self._store.jobs.release_all([job_id(key) for key in some], self._owner)
        except CacheError as err:
            _LOG.warning("claims run out by themselves: %s", err)

    def _claim(self, specs: Mapping[str, DesignSpec], *, afresh: bool = False) -> dict[str, str]:
        """Claim keys; say what became of each: "done" where it was done once, and its answer is there no more."""
        asked = {job_id(key): _spec_json(spec) for key, spec in specs.items()}
        became = self._with_retries(lambda: self._store.jobs.take(self._owner, self.lease, KIND, asked, afresh=afresh))
        # looked up behind the claim: another run, or a service, may have stored some between the plan and now
        there = self._with_retries(lambda: self._store.present(specs.keys()))
        mine = {key for key in specs if became[job_id(key)] == "taken"}
        if known := [Completion(job_id(key), "{}", None) for key in mine & there]:
            self._with_retries(lambda: self._store.complete(self._owner, known))
        self._held |= mine - there
        return {key: "stored" if key in there else became[job_id(key)] for key in specs}

    def _result(self, start: str) -> str:
        return canonical_json({"by": self._owner, "start": start} if start else {"by": self._owner})

    def _replace(self, row: Row, standing: Row) -> None:
        self._with_retries(lambda: self._store.put(row, replacing=standing))

    def _with_retries(self, call: Callable[[], Result]) -> Result:
        """Return what ``call`` returns, trying again with back-off while the store does not answer."""
        end, pause = time.monotonic() + self._retry_seconds, 0.1
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


def job_id(key: str) -> str:
    """Return the id of the job of a key."""
    return f"{KIND}:{key}"


def _spec_json(spec: DesignSpec) -> str:
    content: dict[str, Any] = {
        "problem": problem_record(spec.problem),
        "objective": str(spec.objective),
        "shape": spec.shape,
    }
    return canonical_json(content)
