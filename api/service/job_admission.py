"""What gets into the queue, and what leaves the list of jobs."""

from __future__ import annotations

import asyncio
import logging
import time

from api.access.clients import Client
from api.access.rate_limits import RateLimiter, shared_table
from api.errors.exceptions import Overloaded, TooManyJobs, WorkLimitExceeded
from api.service.gamma_jobs import GAMMA_JOB
from api.service.job_events import RunInThread
from api.settings import Settings
from darrm_opt.answers.cost_model import estimate_cost
from darrm_opt.design_spec import DesignSpec
from darrm_opt.errors import InvalidInput
from solver_cache.errors import CacheError
from solver_cache.jobs import Job, Jobs

_LOG = logging.getLogger("api.jobs")

COUNT_SECONDS = 0.5
"""How long a count of the queue is believed [s]."""

PRUNE_SECONDS = 3600.0
"""How often jobs that were over long ago are forgotten [s]."""

RETENTION = {"off": 600.0, "memory": 3600.0}
"""How long a job that is over is kept [s], by store; in a database `DATABASE_RETENTION`."""

DATABASE_RETENTION = 30 * 86400.0
"""How long one in a database is kept [s]; its answer stays."""

DEFAULT_JOB_RATE = 1.0
"""Jobs that an address or key may have queued in the long run, where nothing is set [1/s]."""


class JobAdmission:
    """Queues jobs as long as there is room, and not all of it for one client.

    A job that is there already costs nobody anything. One that is new is charged to who asks for it, by a second bucket
    beside the one of requests (`api.gate`): a request is answered in a millisecond, a job may take a minute.

    Args:
        jobs: where they are kept.
        settings: how many may wait, and how many of them one client may have queued.
    """

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs, self._most = jobs, settings.queue_length
        self._rate, self._burst = settings.job_rate, settings.job_burst
        self._rates = RateLimiter(shared_table(settings.run_folder))
        self._counted, self._waiting = 0.0, 0

    def submit(self, id: str, text: str, afresh: bool, client: Client | None = None) -> Job:  # noqa: A002, FBT001 — called through a thread
        """Return the job, queued now unless it is there; blocks.

        Args:
            id: of the job.
            text: what is asked.
            afresh: whether to queue it also if it is done.
            client: who asks; None: nobody is charged.

        Raises:
            Busy: it would have to be queued, and the queue is full.
            TooManyJobs: it would have to be queued, and the client has had many queued lately.
        """
        there = self._jobs.get(id)
        if there is None or there.state in {"failed", "cancelled"} or (afresh and there.state == "done"):
            self._check()
            self._charge(client)
        return self._jobs.submit(id, GAMMA_JOB, text, afresh=afresh)

    async def prune(self, apart: RunInThread, url: str) -> None:
        """Forget jobs that were over long ago, now and then, for ever."""
        keep = RETENTION.get(url, DATABASE_RETENTION)
        while True:
            try:
                await apart(self._jobs.prune, time.time() - keep)
            except CacheError as err:
                _LOG.warning("old jobs cannot be forgotten: %s", err)
            await asyncio.sleep(min(keep, PRUNE_SECONDS))

    def _charge(self, client: Client | None) -> None:
        if client is None:
            return
        rate = self._rate
        if rate is None:
            rate = 0.0 if client.local else DEFAULT_JOB_RATE
        if rate > 0:
            wait = self._rates.take(f"jobs of {client.name}", rate, self._burst)
            if wait > 0:
                told = (
                    f"{rate:g} new problems a second are taken from one client in the long run, {self._burst} at once."
                )
                raise TooManyJobs(told, wait)

    def _check(self) -> None:
        full = self._waiting >= self._most
        if full or time.monotonic() - self._counted > COUNT_SECONDS:
            self._waiting, self._counted = self._jobs.counts()["queued"], time.monotonic()
        if self._waiting >= self._most:
            raise Overloaded(f"{self._waiting} jobs wait to be solved already, and more than that are not taken.")
        self._waiting += 1


def check_voters(K: int, settings: Settings) -> None:
    """Refuse more voters than the operator allows.

    Raises:
        InvalidInput: naming K and the setting.
    """
    if settings.most_voters < K:
        raise InvalidInput(
            "K",
            K,
            f"at most {settings.most_voters} voters on this server",
            "Solve it with the command line, or have the operator raise DARRM_MOST_VOTERS.",
        )


def check_work(seconds: float, settings: Settings, field: str = "") -> None:
    """Refuse more estimated solving time [s] than the operator allows one request.

    Raises:
        TooMuchAsked: with the estimate.
    """
    if seconds > settings.most_work:
        raise WorkLimitExceeded(
            f"The expected solving time is {seconds:.3g} s, and one request may ask for {settings.most_work:g} s on this "
            "server. Ask for less at a time, or have the operator raise DARRM_MOST_WORK.",
            seconds,
            field,
        )


def check_design(request: DesignSpec, method: str, settings: Settings) -> None:
    """Refuse a design that is expected to take longer than the operator allows; raises as `check_work`."""
    check_work(estimate_cost(request, method).seconds, settings)
