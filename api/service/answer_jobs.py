"""Answer job handler: comparisons, plans, curves and accounts that take longer than a moment, as jobs like those of γ.

Their result is the result of their job: it is read back for as long as the job is stored, re-checked
(`api.tasks.answers`).
"""

from __future__ import annotations

import json
import logging
import math
from typing import Any

from api.observability import metrics
from api.service import repository
from api.service.job_events import RunInThread
from api.service.job_worker import ProgressCallback
from api.settings import Settings
from api.tasks.answers import ANSWER_KINDS, AnswerTask, recheck_answer
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.errors import SolveFailed
from darrm_opt.record import problem_from_record
from solver_cache.jobs import DAMAGED_ROW, Job
from solver_cache.process_pool.pool import ProcessPool
from solver_cache.store import Store

_LOG = logging.getLogger("api.jobs")

ANSWER_JOBS = tuple(ANSWER_KINDS)
"""The kinds of jobs that compute answers."""


ESTIMATE_ERROR = 2.0
"""Factor by which a job may exceed the most time that is admitted before it is stopped: estimates are rough."""


class AnswerJobHandler:
    """Handler of answer jobs: computes and loads results.

    Args:
        store: of answers; a trade-off reads and stores its γ there, and the inverse question stores its own.
        settings: the time that is admitted, which is also the time after which work is stopped.
        read: how a blocking call is made that only reads.
        write: how one is made that may write.
        solvers: the processes that compute.
        short: the processes that re-check.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        read: RunInThread,
        write: RunInThread,
        solvers: ProcessPool,
        short: ProcessPool,
    ) -> None:
        self._store, self._settings, self._solvers, self._short = store, settings, solvers, short
        self._read, self._write = read, write

    async def handle(self, job: Job, progress: ProgressCallback) -> tuple[str, dict[str, Any]]:
        """Do a job; return its result as JSON, and the answer for those who wait in this process."""
        task = read_task(job)
        if task is None:
            raise SolveFailed(DAMAGED_ROW)
        limit = ESTIMATE_ERROR * self._settings.max_work_seconds
        answer = await self.compute(task, self._solvers, limit, progress)
        return canonical_json({"answer": answer}), answer

    async def compute(
        self,
        task: AnswerTask,
        pool: ProcessPool,
        time_limit: float,
        progress: ProgressCallback | None = None,
        processor_limit: float = math.inf,
    ) -> dict[str, Any]:
        """Return the result of a task, computed in a process of ``pool``; limits, errors as for `ProcessPool.run`."""
        argument, specs = task.argument, list[DesignSpec]()
        if task.kind == "tradeoff":
            specs = [
                DesignSpec(problem_from_record(record), argument["objective"], argument["shape"])
                for record in argument["problems"]
            ]
            stored = await self._read(repository.load_records, specs, self._store)
            argument = {**argument, "known": stored}
        result: dict[str, Any] = await pool.run(
            ANSWER_KINDS[task.kind].compute,
            argument,
            time_limit=time_limit,
            processor_limit=processor_limit,
            progress=progress,
        )
        if "doubts" not in result:
            return result
        if task.kind == "least":
            specs = [
                DesignSpec(problem_from_record(record["problem"]), record["objective"], record["shape"])
                for record in result["solutions"]
            ]
        stored = argument.get("known", [None] * len(specs))
        additions = [
            (spec, record)
            for spec, record, stored_record, doubt in zip(
                specs, result["solutions"], stored, result["doubts"], strict=True
            )
            if stored_record is None and not doubt
        ]
        await self._write(repository.save_records, additions, self._store)
        return {**result, "cached": [stored_record is not None for stored_record in stored]}

    async def load_result(self, job: Job) -> dict[str, Any] | None:
        """Return the result of a finished job, re-checked; None if it is none."""
        task = read_task(job)
        try:
            result = dict(json.loads(job.result)["answer"])
        except (LookupError, TypeError, ValueError) as err:
            _LOG.warning("job %s: its result cannot be read: %s", job.id, err)
            return None
        if task is None:
            return None
        trouble = await self._short.run(recheck_answer, (task.kind, task.argument, result))
        if trouble:
            _LOG.warning("job %s: its result does not answer its request and is not used: %s", job.id, trouble)
            return None
        metrics.count_lookups("hit")
        return result


def read_task(job: Job) -> AnswerTask | None:
    """Return the task of an answer job; None if its row is damaged, or holds the task of another."""
    try:
        task = AnswerTask.from_json(job.request)
    except (LookupError, TypeError, ValueError):
        return None
    return task if task.kind == job.kind and task.key == job.id else None
