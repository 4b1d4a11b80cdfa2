"""Upkeep of the store: reads are noted, and answers beyond the operator's limits leave."""

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

UPKEEP_SECONDS = 60.0
"""Time between two rounds [s]: the store may grow beyond its limit for so long."""

KEPT_SHARE = 0.9
"""Share of the limit that stays once it is exceeded: answers are put in order of their last use at most now and then,
which takes a second or two of a million."""

UPKEEP_KEY = "upkeep"
"""Key of the claim that lets one of all servers of a store do a round."""


class Upkeep:
    """Upkeep of a store by one server process; of all that share the store, one at a time removes answers."""

    def __init__(self, store: Store, settings: Settings, run_in_thread: RunInThread) -> None:
        self._store, self._settings, self._run_in_thread = store, settings, run_in_thread
        self._owner = f"upkeep {secrets.token_hex(8)}"

    async def run(self) -> None:
        """Do a round now and then, until cancelled."""
        while True:
            try:
                removed = await self._run_in_thread(self.do_round)
            except ReadOnlyCache:
                return
            except CacheError as err:
                _LOG.warning("the store cannot be kept within its limits: %s", err)
            else:
                metrics.count_evictions(removed)
            await asyncio.sleep(UPKEEP_SECONDS)

    def do_round(self) -> int:
        """Note reads, and remove what is beyond the limits if it is this process's turn; return how many; blocks."""
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
            count += designs.evict_of_clients(max_own)
        if max_bytes is not None or max_days is not None:
            kept = None if max_bytes is None else int(KEPT_SHARE * max_bytes)
            count += designs.evict(max_bytes, None if max_days is None else not_since(max_days), kept)
        if count:
            _LOG.info(
                "%d answers beyond the limits of the store were removed in %.1f s", count, time.monotonic() - start
            )
        return count
