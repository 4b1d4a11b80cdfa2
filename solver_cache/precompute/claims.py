"""Claims of one owner, who is a run, or a worker that writes to the shared store itself.

Keys are claimed, and answers stored, many at a time: what a transaction costs is paid once for all of them. A store
that does not answer for a while is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from solver_cache.location import CacheError, ReadOnlyCache
from solver_cache.model import ClaimResult, Row
from solver_cache.store import Store
from solver_cache.validate import validate_row

LEASE = 30.0
"""Lease of a claim [s]: how long the keys of a killed run stay claimed. It must outlast whatever
keeps a live one from renewing, such as a database that starts again."""

RETRY_SECONDS = 60.0
"""Time limit for retries while the store does not answer [s]."""

_LOG = logging.getLogger("solver_cache.precompute")

Result = TypeVar("Result")


class Claims:
    """Claims of one owner. Not safe to share between threads, but for `renew`.

    Every method raises CacheError where the store cannot be used for longer than that.
    """

    def __init__(self, store: Store, owner: str, lease: float = LEASE, retry_seconds: float = RETRY_SECONDS) -> None:
        self._store, self._owner, self.lease, self._retry_seconds = store, owner, lease, retry_seconds
        self._held: set[str] = set()
        self._renewed = time.monotonic()

    def take(self, keys: Collection[str]) -> dict[str, ClaimResult]:
        """Claim keys; say what became of each, as `solver_cache.store.Store.claim` does."""
        results: dict[str, ClaimResult] = dict.fromkeys(keys, "taken")
        if missing := [key for key in keys if key not in self._held]:  # the others are held since a worker was lost
            results |= self._with_retries(lambda: self._store.claim(self._owner, self.lease, missing))
        self._held |= {key for key in missing if results[key] == "taken"}
        return results

    def complete(self, rows: Sequence[Row]) -> set[str]:
        """Store answers, which ends their claims; return the keys of those that were stored.

        The others are claimed by another owner by now, who was thought lost or thought so of this one, and left to it.
        An answer that is stored already and good stays.
        """
        stored = self._with_retries(lambda: self._store.complete(self._owner, rows))
        self._held -= {row.key for row in rows}
        for row in rows:
            before = stored.get(row.key, row)
            if before != row and validate_row(before).decision != "hit":
                self._with_retries(partial(self._store.put, row, replacing=before))
        return {*stored}

    def renew(self) -> None:
        """Hold every claim for longer, if it is time to; a store that cannot be reached is tried again next time."""
        if time.monotonic() - self._renewed < self.lease / 3:
            return
        self._renewed = time.monotonic()
        try:
            self._store.renew_claims(self._owner, self.lease, tuple(self._held))
        except CacheError as err:
            _LOG.warning("claims cannot be renewed: %s", err)

    def release(self, keys: Collection[str] | None = None) -> None:
        """Let go of claims, of all unless told which, so that another run need not wait until they run out."""
        released = self._held & set(self._held if keys is None else keys)
        self._held -= released
        if not released:
            return
        try:
            self._store.release_claims(self._owner, released)
        except CacheError as err:
            _LOG.warning("claims run out by themselves: %s", err)

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
