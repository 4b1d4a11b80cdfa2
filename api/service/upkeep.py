"""Upkeep of the store: records reads, and removes answers beyond the operator's limits."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time

from api.observability import metrics
from api.settings import Settings
from api.tasks.task import RunInThread
from solver_cache.database.designs import not_since
from solver_cache.location import CacheError, ReadOnlyCache
from solver_cache.store import Store

_LOG = logging.getLogger("api.upkeep")

UPKEEP_SECONDS = 60.0  # interval between rounds, in which the store may grow beyond its limit
CALL_SECONDS = 0.5  # interval between calls while the store is above its limit, so that other writers get their turn

KEPT_SHARE = 0.9
"""Share of the limit that stays once it is exceeded, so that answers are rarely sorted by last use. Removing
10,000 of 100,000 takes 1.7 s of processor time on SQLite; 0.2 s, and the server's, on PostgreSQL."""

MAX_REMOVED = 2_000  # answers removed per call: no call to the store may take long (`StoreCalls`)
UPKEEP_KEY = "upkeep"  # key of the claim under which one server of a store does a round


class Upkeep:
    """Upkeep of a store by one server process; of all that share the store, one at a time removes answers."""

    def __init__(self, store: Store, settings: Settings, run_in_thread: RunInThread) -> None:
        self._store, self._settings, self._run_in_thread = store, settings, run_in_thread
        self._owner = f"upkeep {secrets.token_hex(8)}"
        self._is_above = False  # above `KEPT_SHARE` after exceeding the limit

    async def run(self) -> None:
        """Do rounds periodically, until cancelled."""
        while True:
            pause = UPKEEP_SECONDS
            try:
                removed = await self._run_in_thread(self.do_round)
            except ReadOnlyCache:
                return
            except CacheError as err:
                _LOG.warning("the store cannot be kept within its limits: %s", err)
            else:
                metrics.EVICTED.inc(removed)
                pause = CALL_SECONDS if self._is_above else UPKEEP_SECONDS
            await asyncio.sleep(pause)

    def do_round(self) -> int:
        """Record reads, and remove answers beyond the limits if it is this process's turn; return how many; blocks."""
        self._store.save_reads()
        settings, designs = self._settings, self._store.designs
        max_bytes, max_days, max_own = (
            settings.max_stored_bytes,
            settings.max_stored_days,
            settings.max_stored_bytes_per_client,
        )
        if max_bytes is max_days is max_own is None:
            return 0
        if self._store.claim(self._owner, 2 * UPKEEP_SECONDS, {UPKEEP_KEY})[UPKEEP_KEY] != "taken":
            return 0
        start, count = time.monotonic(), 0
        if max_own is not None:
            count += designs.evict_of_clients(max_own, MAX_REMOVED)
        if max_bytes is not None or max_days is not None:
            kept = None if max_bytes is None else int(KEPT_SHARE * max_bytes)
            before = None if max_days is None else not_since(max_days)
            removed = designs.evict(kept if self._is_above else max_bytes, before, kept, MAX_REMOVED)
            self._is_above = removed >= MAX_REMOVED
            count += removed
        if count:
            _LOG.info(
                "%d answers beyond the limits of the store were removed in %.1f s", count, time.monotonic() - start
            )
        return count
