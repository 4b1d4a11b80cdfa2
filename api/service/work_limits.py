"""Work limits: what the operator allows for one request, and how many jobs may wait, in all and for one client."""

from __future__ import annotations

import asyncio
import logging
import time

from api.access.client_shares import RateLimiter, shared_table
from api.access.clients import Client
from api.errors.problem_details import Overloaded, TooManyJobs, WorkLimitExceeded
from api.settings import Settings
from api.tasks.task import RunInThread, Task
from darrm_opt.answers.running_time import design_memory, estimate_cost
from darrm_opt.errors import InvalidInput
from darrm_opt.record import DesignSpec
from solver_cache.database.jobs import Job, Jobs
from solver_cache.location import CacheError

ACCOUNT_TIMES = 10
"""Voters of an account, a ranking or a table of classes, in multiples of those of a γ. Their estimated time is what
limits them; this bounds memory, which some calibrations need in proportion to K²."""


_LOG = logging.getLogger("api.jobs")

COUNT_SECONDS = 0.5
"""How long a count of the queue is reused [s]."""

SHARE_RETRY_SECONDS = 5.0
"""When a client whose share of the queue is used up should ask again [s]."""

PRUNE_SECONDS = 3600.0
"""Time between removals of old finished jobs [s]."""

RETENTION = {"off": 600.0, "memory": 3600.0}
"""How long a finished job is stored [s], by store; in a database `DATABASE_RETENTION`."""

DATABASE_RETENTION = 30 * 86400.0
"""How long a finished job stays in a database [s]; its answer stays for good."""

DEFAULT_JOB_RATE = 1.0
"""New jobs of an address or key in the long run, where the settings do not say [1/s]."""


def check_voters(K: int, settings: Settings, times: int = 1) -> None:
    """Reject more voters than the operator allows, or than so many times as many."""
    if times * settings.max_voters < K:
        raise InvalidInput(
            "K",
            K,
            f"at most {times * settings.max_voters} voters on this server",
            "Solve it with the command line, or have the operator raise DARRM_MAX_VOTERS.",
        )


def check_work(seconds: float, settings: Settings, field: str = "") -> None:
    """Reject more estimated solving time [s] than the operator allows for one request."""
    if seconds > settings.max_work_seconds:
        raise WorkLimitExceeded(
            f"The expected solving time is {seconds:.3g} s, and one request may ask for {settings.max_work_seconds:g} "
            "s on this server. Ask for less at a time, or have the operator raise DARRM_MAX_WORK_SECONDS.",
            seconds,
            field,
        )


def check_design(spec: DesignSpec, method: str, settings: Settings) -> None:
    """Reject a design that is expected to take more time or memory than the operator allows."""
    memory = design_memory(spec, method)
    if memory > settings.solver_memory:
        raise WorkLimitExceeded(
            f"Solving by {method} is expected to need {memory:.0f} MiB, and a solver process may take "
            f"{settings.solver_memory} MiB on this server. method = 'cuts' gives the same answer with less.",
            estimate_cost(spec, method).seconds,
            "method",
        )
    check_work(estimate_cost(spec, method).seconds, settings)


class JobAdmission:
    """Admission of jobs to the queue, as long as there is room, and not all of it for one client.

    A job that exists already is free. A new one is charged to the client that submits it, in a second token bucket
    beside the one of requests (`api.middleware.admission`): a request is answered in a millisecond, a job may take a
    minute.
    """

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs, self._max_queued = jobs, settings.max_queued_jobs
        self._rate, self._burst = settings.job_rate, settings.job_burst
        self._limiter = RateLimiter(shared_table(settings.run_folder))
        self._count_time, self._queued = 0.0, 0

    def submit(
        self, task: Task, client: Client | None = None, seconds: float = 0.0, trace: str = "", *, afresh: bool = False
    ) -> Job:
        """Return the job of a task, queued now unless it exists; blocks."""
        # Looked up first, since asking for what is under way must stay free, however full the queue is: a client that
        # polls by asking again would otherwise use up its own share.
        existing = self._jobs.get(task.key)
        if existing is None or existing.state in {"failed", "cancelled"} or (afresh and existing.state == "done"):
            self._check_queue(client)
            self._charge(client)
        name = "" if client is None else client.name
        return self._jobs.submit(
            task.key, task.kind, task.text, afresh=afresh, client=name, seconds=seconds, trace=trace
        )

    async def prune(self, run_in_thread: RunInThread, url: str) -> None:
        """Remove old finished jobs now and then, until cancelled."""
        retention = RETENTION.get(url, DATABASE_RETENTION)
        while True:
            try:
                await run_in_thread(self._jobs.prune, time.time() - retention)
            except CacheError as err:
                _LOG.warning("old jobs cannot be removed: %s", err)
            await asyncio.sleep(min(retention, PRUNE_SECONDS))

    def _charge(self, client: Client | None) -> None:
        if client is None:
            return
        rate = self._rate
        if rate is None:
            rate = 0.0 if client.local else DEFAULT_JOB_RATE
        if rate > 0:
            delay = self._limiter.take(f"jobs of {client.name}", rate, self._burst)
            if delay > 0:
                raise TooManyJobs(
                    f"One client may submit {rate:g} new problems a second in the long run, {self._burst} at once.",
                    delay,
                )

    def _check_queue(self, client: Client | None) -> None:
        # Half of the queue, so that one client alone cannot fill it.
        share = max(1, self._max_queued // 2)
        if client is not None and not client.local and self._jobs.counts(client.name)["queued"] >= share:
            raise TooManyJobs(f"One client may have {share} jobs waiting, and this one has.", SHARE_RETRY_SECONDS)
        # The count of all is reused, and counted up here, since it is asked for at every submission; a full queue is
        # counted anew each time, so that nobody is refused by a count of half a second ago.
        is_full = self._queued >= self._max_queued
        if is_full or time.monotonic() - self._count_time > COUNT_SECONDS:
            self._queued, self._count_time = self._jobs.counts()["queued"], time.monotonic()
        if self._queued >= self._max_queued:
            raise Overloaded(f"{self._queued} jobs wait to be solved, which is as many as this server accepts.")
        self._queued += 1
