"""γ job handler: jobs of the kind "gamma" are solved by a process of the pool, stored, and read back.

An optimal answer is stored once, in the store's table of answers, and its job only says so. One that the time limit cut
short is private all the same: it is the result of its job, but not the answer of its key. Whatever is read is proved
again.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from api.observability import metrics, traces
from api.service.job_events import RunInThread
from api.service.job_worker import ProgressCallback
from api.service.repository import save_record
from api.settings import Settings
from api.tasks.design import DesignTask, design_gamma, recheck_record
from darrm_opt.design.solution import Status
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.errors import DarrmError, SolveFailed
from darrm_opt.record import solution_record
from solver_cache.jobs import DAMAGED_ROW, Job
from solver_cache.process_pool.pool import ProcessPool
from solver_cache.solve import recall
from solver_cache.store import Store

_LOG = logging.getLogger("api.jobs")

GAMMA_JOB = "gamma"
"""The kind of job that designs one γ; its id is the id of the answer."""

GRACE_SECONDS = 30.0
"""A process that has not returned this long after twice its time limit is stuck [s].

The limit is checked between steps, and the last of them proves the solution.
"""


class GammaJobHandler:
    """Handler of γ jobs: designs, stores and loads γ.

    Args:
        store: of answers.
        settings: the time limit.
        read: how a blocking call is made that only reads.
        write: how one is made that may write.
        solvers: the processes that solve.
    """

    def __init__(
        self, store: Store, settings: Settings, read: RunInThread, write: RunInThread, solvers: ProcessPool
    ) -> None:
        self._store, self._settings, self._solvers = store, settings, solvers
        self._read, self._write = read, write

    async def load(self, request: DesignSpec) -> dict[str, Any] | None:
        """Return the stored answer to a request, proved again, or None."""
        solution = await self._read(recall, request, self._store)
        return None if solution is None else _with_id(solution_record(solution), request, cached=True)

    async def handle(self, job: Job, progress: ProgressCallback) -> tuple[str, dict[str, Any]]:
        """Do a job; return its result as JSON, and the answer for those who wait in this process."""
        task = read_task(job)
        if task is None:
            raise SolveFailed(DAMAGED_ROW)
        limit = self.time_limit(task)
        stored = await self.load(task.spec) if job.attempts > 1 else None
        if stored is not None:  # the previous worker died after storing the answer and before finishing the job
            return canonical_json({"kept": True}), stored
        with metrics.track_solve() as set_outcome:
            result = await self._solvers.run(
                design_gamma, (task, limit), time_limit=2 * limit + GRACE_SECONDS, progress=progress
            )
            record, trouble = result["record"], result["doubt"]
            set_outcome(record["method"], record["status"])
            traces.annotate_job(
                {f"darrm.{name}": record["statistics"][name] for name in ("rounds", "rows", "iterations")}
            )
            traces.annotate_job({"darrm.solve_seconds": record["statistics"]["seconds"]["total"]})
        is_stored = False
        if trouble:
            _LOG.error("job %s: the answer fails its own check: %s", job.id, trouble)
        elif Status(record["status"]).is_final:
            record, is_stored, trouble = await self._write(save_record, task.spec, record, self._store)
        answer = _with_id(record, task.spec, cached=False)
        if is_stored:
            return canonical_json({"kept": True}), answer
        time_limit = 0.0 if record["status"] == Status.INTERRUPTED.value else limit  # more time would better it
        return canonical_json({"kept": False, "record": record, "time_limit": time_limit, "trouble": trouble}), answer

    def time_limit(self, task: DesignTask) -> float:
        """Return the time limit of a solve [s]: the server's, or the request's if it is shorter."""
        limit = self._settings.time_limit
        return limit if task.time_limit is None else min(limit, task.time_limit)

    async def load_result(self, job: Job, request: DesignTask | None = None) -> dict[str, Any] | None:
        """Return the result of a finished job, proved again; None if it is gone, or not what is asked.

        Args:
            job: done.
            request: what is asked now: an answer that is not optimal is none to it if more time would better it, unless
                its gap is as small as was asked for. None: whatever the job came to, for those who know it by its id.
        """
        task = read_task(job)
        if task is None:
            return None
        try:
            content = json.loads(job.result)
            if content["kept"]:
                return await self.load(task.spec)
            record, limit = content["record"], float(content["time_limit"])
            if request is not None and not Status(record["status"]).is_final:
                good_enough = request.gap is not None and record["gap"] <= request.gap
                if not good_enough and limit < self.time_limit(request):
                    return None
            verified = await self._read(recheck_record, record, task)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
            # whoever can write to the database can write anything here
            _LOG.warning("job %s: its result cannot be read: %s", job.id, err)
            return None
        if verified is None:
            _LOG.warning("job %s: its result does not answer its request and is not used", job.id)
            return None
        return _with_id(verified, task.spec, cached=False)

    async def settle(self, job: Job) -> str | None:
        """Return the result of a running job that stops now, as JSON: its best certified γ; None if it has none."""
        task, record = read_task(job), read_incumbent(job)
        if task is None or record is None:
            return None
        verified = await self._read(recheck_record, record, task)
        if verified is None:
            return None
        return canonical_json({"kept": False, "record": verified, "time_limit": 0.0, "trouble": ""})


def read_task(job: Job) -> DesignTask | None:
    """Return the task of a γ job; None if its row is damaged, or holds the task of another."""
    try:
        task = DesignTask.from_json(job.request)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, DarrmError):
        return None
    return task if task.key == job.id else None


def read_incumbent(job: Job) -> dict[str, Any] | None:
    """Return the record of the best γ that a job has reported, as stored and not proved again; None without one."""
    try:
        incumbent = json.loads(job.progress)["incumbent"]
    except (LookupError, TypeError, ValueError):
        return None
    return incumbent if isinstance(incumbent, dict) else None


def _with_id(record: dict[str, Any], spec: DesignSpec, *, cached: bool) -> dict[str, Any]:
    return {"id": spec.key, "cached": cached, "nearest": None, **record}
