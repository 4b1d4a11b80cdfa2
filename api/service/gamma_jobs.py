"""Jobs of the kind "gamma": done by a solver process, kept in the store, and read from there.

An optimal answer is kept once, in the store's table of answers, and its job only says so. One that was cut short by the
time limit is private all the same, and is the result of its job, but no key's answer. Whatever is read is proved again.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from api.observability import metrics
from api.process_pool.pool import ProcessPool
from api.service.job_events import RunInThread
from api.service.job_worker import ProgressCallback
from api.service.repository import save_record
from api.settings import Settings
from api.tasks.design import design_gamma, recheck, request_of
from darrm_opt.design.program import Status
from darrm_opt.design_spec import DesignSpec, canonical_json
from darrm_opt.record import solution_record
from solver_cache.jobs import Job
from solver_cache.solve import recall
from solver_cache.store import Store

_LOG = logging.getLogger("api.jobs")

GAMMA_JOB = "gamma"
"""The kind of job that designs one γ; its id is the id of the answer."""

GRACE_SECONDS = 30.0
"""A process that has not returned so long after twice its time limit [s] is beyond hope: the limit is checked between
steps, and the last of them proves what was found."""


class GammaJobHandler:
    """Designs, keeps and recalls γ.

    Args:
        store: where answers are kept.
        settings: the time limit.
        apart: how a blocking call is made.
        solvers: the processes that solve.
    """

    def __init__(self, store: Store, settings: Settings, apart: RunInThread, solvers: ProcessPool) -> None:
        self._store, self._settings, self._apart, self._solvers = store, settings, apart, solvers

    async def recalled(self, request: DesignSpec) -> dict[str, Any] | None:
        """Return the kept answer to a request, proved again, or None."""
        solution = await self._apart(recall, request, self._store)
        return None if solution is None else _with_id(solution_record(solution), request, cached=True)

    async def do(self, job: Job, progress: ProgressCallback) -> tuple[str, dict[str, Any]]:
        """Do a job of kind `GAMMA_JOB`; return its result, and the answer for those who wait."""
        asked = json.loads(job.request)
        request, limit = request_of(asked), self._settings.time_limit
        kept_already = await self.recalled(request) if job.attempts > 1 else None
        if kept_already is not None:  # whoever had it before died between keeping the answer and saying so
            return canonical_json({"kept": True}), kept_already
        with metrics.track_solve() as solved:
            found = await self._solvers.run(
                design_gamma, {**asked, "time_limit": limit}, time_limit=2 * limit + GRACE_SECONDS, progress=progress
            )
            record, trouble = found["record"], found["doubt"]
            solved(record["method"], record["status"])
        kept = False
        if trouble:
            _LOG.error("the answer to %s does not pass its own check: %s", job.id, trouble)
        elif Status(record["status"]).settled:
            record, kept, trouble = await self._apart(save_record, request, record, self._store)
        answer = _with_id(record, request, cached=False)
        if kept:
            return canonical_json({"kept": True}), answer
        return canonical_json({"kept": False, "record": record, "time_limit": limit, "trouble": trouble}), answer

    async def result(self, job: Job) -> dict[str, Any] | None:
        """Return what came of a job that is done, proved again; None if that is no longer there or of use."""
        asked = json.loads(job.request)
        request = request_of(asked)
        try:
            told = json.loads(job.result)
            if told["kept"]:
                return await self.recalled(request)
            record = told["record"]
            if not Status(record["status"]).settled and told["time_limit"] < self._settings.time_limit:
                return None
            again = await self._apart(recheck, {"asked": asked, "record": record}, _ignore_progress)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as err:  # anyone may have written it
            _LOG.warning("the result of job %s cannot be read: %s", job.id, err)
            return None
        if again is None:
            _LOG.warning("the result of job %s is not what was asked, and is not used", job.id)
            return None
        return _with_id(again, request, cached=False)


def _with_id(record: dict[str, Any], request: DesignSpec, *, cached: bool) -> dict[str, Any]:
    return {"id": request.key, "cached": cached, "nearest": None, **record}


def _ignore_progress(_content: Any) -> None:
    """Report to nobody."""
