"""What gets into the queue, and what leaves the list of jobs."""

from __future__ import annotations

import asyncio
import logging
import time

from api.board import Threaded
from api.designing import GAMMA
from api.refusals import Busy
from solver_cache.errors import CacheError
from solver_cache.jobs import Job, Jobs

_LOG = logging.getLogger("api.jobs")

COUNTED = 0.5
"""How long a count of the queue is believed [s]."""

PRUNED = 3600.0
"""How often jobs that were over long ago are forgotten [s]."""

REMEMBERED = {"off": 600.0, "memory": 3600.0}
"""How long a job that is over is kept [s], by store; in a database `DAYS`."""

DAYS = 30 * 86400.0
"""How long one in a database is kept [s]; its answer stays."""


class Intake:
    """Queues jobs as long as there is room.

    Args:
        jobs: where they are kept.
        most: how many may wait.
    """

    def __init__(self, jobs: Jobs, most: int) -> None:
        self._jobs, self._most = jobs, most
        self._counted, self._waiting = 0.0, 0

    def submit(self, id: str, text: str, afresh: bool) -> Job:  # noqa: A002, FBT001 — called through a thread
        """Return the job, queued now unless it is there; blocks.

        Raises:
            Busy: it would have to be queued, and the queue is full.
        """
        there = self._jobs.get(id)
        if there is None or there.state in {"failed", "cancelled"} or (afresh and there.state == "done"):
            self._check()
        return self._jobs.submit(id, GAMMA, text, afresh=afresh)

    async def prune(self, apart: Threaded, url: str) -> None:
        """Forget jobs that were over long ago, now and then, for ever."""
        keep = REMEMBERED.get(url, DAYS)
        while True:
            try:
                await apart(self._jobs.prune, time.time() - keep)
            except CacheError as err:
                _LOG.warning("old jobs cannot be forgotten: %s", err)
            await asyncio.sleep(min(keep, PRUNED))

    def _check(self) -> None:
        full = self._waiting >= self._most
        if full or time.monotonic() - self._counted > COUNTED:
            self._waiting, self._counted = self._jobs.counts()["queued"], time.monotonic()
        if self._waiting >= self._most:
            raise Busy(f"{self._waiting} jobs wait to be solved already, and more than that are not taken.")
        self._waiting += 1
