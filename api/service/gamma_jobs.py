"""γ job handler: jobs of the kind "gamma" are solved by a process of the pool, stored, and read back.

An optimal answer is stored once, in the store's table of answers, and its job only says so. One that the time limit cut
short is private all the same: it is the result of its job, but not the answer of its key. Whatever is read is proved again.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from api.observability import metrics
from api.service.job_events import RunInThread
from api.service.job_worker import ProgressCallback
from api.service.repository import save_record
from api.settings import Settings
from api.tasks.design import DesignTask, design_gamma, recheck_record
from darrm_opt.design.program import Status
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.record import solution_record
from solver_cache.jobs import Job
from solver_cache.process_pool.pool import ProcessPool
from solver_cache.solve import recall
from solver_cache.store import Store

_LOG = logging.getLogger("api.jobs")

GAMMA_JOB = "gamma"
"""The kind of job that designs one γ; its id is the id of the answer."""

GRACE_SECONDS = 30.0
"""A process that has not returned this long after twice its time limit is stuck [s]: the limit is checked between steps,
and the last of them proves what was found."""


class GammaJobHandler:
    """Handler of γ jobs: designs, stores and loads γ.

    Args:
        store: of answers.
        settings: the time limit.
        run_in_thread: how a blocking call is made.
        solvers: the processes that solve.
    """

    def __init__(self, store: Store, settings: Settings, run_in_thread: RunInThread, solvers: ProcessPool) -> None:
        self._store, self._settings, self._solvers = store, settings, solvers
        self._run_in_thread = run_in_thread

    async def load(self, request: DesignSpec) -> dict[str, Any] | None:
        """Return the stored answer to a request, proved again, or None."""
        solution = await self._run_in_thread(recall, request, self._store)
        return None if solution is None else _with_id(solution_record(solution), request, cached=True)

    async def handle(self, job: Job, progress: ProgressCallback) -> tuple[str, dict[str, Any]]:
        """Do a job; return its result as JSON, and the answer for those who wait in this process."""
        task, limit = DesignTask.from_json(job.request), self._settings.time_limit
        stored = await self.load(task.spec) if job.attempts > 1 else None
        if stored is not None:  # the previous worker died after storing the answer and before finishing the job
            return canonical_json({"kept": True}), stored
        with metrics.track_solve() as solved:
            found = await self._solvers.run(
                design_gamma, (task, limit), time_limit=2 * limit + GRACE_SECONDS, progress=progress
            )
            record, trouble = found["record"], found["doubt"]
            solved(record["method"], record["status"])
        kept = False
        if trouble:
            _LOG.error("job %s: the answer fails its own check: %s", job.id, trouble)
        elif Status(record["status"]).settled:
            record, kept, trouble = await self._run_in_thread(save_record, task.spec, record, self._store)
        answer = _with_id(record, task.spec, cached=False)
        if kept:
            return canonical_json({"kept": True}), answer
        return canonical_json({"kept": False, "record": record, "time_limit": limit, "trouble": trouble}), answer

    async def load_result(self, job: Job) -> dict[str, Any] | None:
        """Return the result of a finished job, proved again; None if it is gone or a longer time limit would better it."""
        task = DesignTask.from_json(job.request)
        try:
            content = json.loads(job.result)
            if content["kept"]:
                return await self.load(task.spec)
            record = content["record"]
            if not Status(record["status"]).settled and content["time_limit"] < self._settings.time_limit:
                return None
            proved = await self._run_in_thread(recheck_record, record, task)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            # whoever can write to the database can write anything here
            _LOG.warning("job %s: its result cannot be read: %s", job.id, err)
            return None
        if proved is None:
            _LOG.warning("job %s: its result does not answer its request and is not used", job.id)
            return None
        return _with_id(proved, task.spec, cached=False)


def _with_id(record: dict[str, Any], request: DesignSpec, *, cached: bool) -> dict[str, Any]:
    return {"id": request.key, "cached": cached, "nearest": None, **record}
