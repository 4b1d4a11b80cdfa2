"""Operations: health, readiness, metrics, and the access log."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, HTTPException, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import Field

from api.errors.problem_details import CONTENT, MEDIA_TYPE, PROBLEM_TYPES, Rejection
from api.observability import access_log, metrics
from api.observability.logs import REQUEST_ID
from api.responses import error_responses, require_json
from api.routes.requests import Service, create_router, from_query
from api.schemas.fields import AnswerModel, RequestModel, about
from api.tasks.design import is_database, solve_smallest
from darrm_opt import __version__
from darrm_opt.errors import DarrmError
from solver_cache.location import CacheError
from solver_cache.task_loop import PoolFunction

if TYPE_CHECKING:
    from api.service.design_service import DesignService

_LOG = logging.getLogger("api")

CHECK_SECONDS = 5.0  # maximum time for a component to show that it works [s]; health checks time out soon after

router = create_router("operating", "")


class HealthAnswer(AnswerModel):
    """Health of the process."""

    status: Literal["ok"]
    version: str = Field(description="Version of darrm-opt.")


class ReadyAnswer(AnswerModel):
    """Readiness of the server."""

    status: Literal["ready"]
    checks: dict[str, str] = Field(
        description="Findings of database, solver, queue, and access_log if it is written to a file; 'ok', "
        "'busy' (all solver processes are at work) or 'off'."
    )


@router.get("/healthz", summary="Whether the process is up")
async def get_health() -> HealthAnswer:
    """Answer without using the store or the solver."""
    return HealthAnswer(status="ok", version=__version__)


@router.get(
    "/readyz",
    summary="Whether the server can give answers",
    responses={
        503: {
            "content": CONTENT,
            "description": f"{PROBLEM_TYPES['not-ready'].title} The detail says what is wrong.",
        }
    },
)
async def get_readiness(request: Request, service: Service) -> Response:
    """Say whether a new problem would be answered: write to the store, look at the queue, solve a tiny problem.

    A finding is reused for some seconds.
    """
    state = request.app.state
    if state.shutdown.is_set():
        return _not_ready("The server is shutting down.")
    if not hasattr(state, "readiness"):
        state.readiness = ReadinessCheck(service, state.access_log)
    findings = await state.readiness.check()
    if found := failures(findings):
        return _not_ready(f"{'; '.join(found)}.")
    return Response(ReadyAnswer(status="ready", checks=findings).model_dump_json(), media_type="application/json")


@router.get(
    "/metrics",
    summary="Metrics, for Prometheus",
    response_class=PlainTextResponse,
    responses={status: {"content": CONTENT} for status in (401, 404, 429)},
)
async def get_metrics(request: Request, service: Service) -> Response:
    """Return the metrics of all workers in Prometheus's text format."""
    if service.settings.metrics == "off":
        raise HTTPException(404)
    request.app.state.metrics.collect()
    try:
        counts = await service.run_in_reader(service.jobs.counts)
        limit = service.settings.max_stored_bytes
        gauges = {
            "darrm_stored_bytes": float(await service.run_in_reader(service.store.designs.stored_bytes)),
            "darrm_max_stored_bytes": math.inf if limit is None else float(limit),
            "darrm_jobs_queued": float(counts["queued"]),
            "darrm_jobs_running": float(counts["running"]),
            "darrm_jobs_oldest_seconds": await service.run_in_reader(service.jobs.waiting_seconds),
        }
    except CacheError:  # which /readyz tells; the rest is worth having all the more
        gauges = {}
    return Response(metrics.render(gauges), media_type=metrics.CONTENT_TYPE)


def _not_ready(detail: str) -> Response:
    return Response(Rejection("not-ready", detail).body(REQUEST_ID.get()), 503, {"retry-after": "5"}, MEDIA_TYPE)


class ReadinessCheck:
    """Readiness of the parts that answers depend on; a finding is reused for some seconds."""

    def __init__(self, service: DesignService, log: access_log.AccessLog | None = None) -> None:
        self._service, self._log = service, log
        self._last_check = -math.inf
        self._findings: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def check(self) -> dict[str, str]:
        """Return a finding by part: "ok", "busy" (which is fine), "off", or in a few words what is wrong."""
        async with self._lock:  # one check for all who ask at once
            if time.monotonic() - self._last_check >= self._service.settings.ready_seconds:
                database, solver, queue = await asyncio.gather(
                    self._finding(self._database()), self._finding(self._solver()), self._finding(self._queue())
                )
                self._findings = {"database": database, "solver": solver, "queue": queue}
                if isinstance(self._log, access_log.AccessLogFile):
                    trouble = self._log.find_trouble()
                    self._findings["access_log"] = f"it cannot be written: {trouble}" if trouble else "ok"
                self._last_check = time.monotonic()
            return self._findings

    async def _database(self) -> str:
        store = self._service.store
        write = self._service.run_in_thread(store.health_check)
        if store.file is None:
            await write
            return "ok"
        _, intact = await asyncio.gather(write, self._compute(is_database, str(store.file)))
        return "it cannot be used: its file was overwritten" if intact is False else "ok"

    async def _solver(self) -> str:
        if self._service.settings.solve == "off":
            return "off"
        gamma = await self._compute(solve_smallest, None)
        if gamma is None:
            return "busy"
        return "ok" if math.isclose(gamma, 1 / 3, abs_tol=1e-9) else "it solves wrongly"

    async def _compute(self, task: PoolFunction, argument: Any) -> Any:
        """Return the result of short work; None where its processes are busy with other work for so long."""
        try:
            async with asyncio.timeout(CHECK_SECONDS - 0.5):
                return await self._service.compute(task, argument)
        except TimeoutError:
            compute = self._service.pools["compute"]
            if compute.busy == compute.size and compute.tasks:
                return None
            raise

    async def _queue(self) -> str:
        return self._service.stalled or "ok"

    @staticmethod
    async def _finding(work: Awaitable[str]) -> str:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await work
        except TimeoutError:
            return "it does not answer in time"
        except DarrmError as err:
            _LOG.warning("not ready: %s", err)
            return "it cannot be used; the server's log says why"


def failures(findings: dict[str, str]) -> list[str]:
    """Return what is wrong, by part: nothing where every part can be used."""
    return [f"{name}: {finding}" for name, finding in findings.items() if finding not in {"ok", "busy", "off"}]


class AccessLogRequest(RequestModel):
    """How much of the access log to read."""

    limit: Annotated[int, about("limit")] = 100


class AccessLogAnswer(AnswerModel):
    """The last entries of the access log."""

    entries: list[access_log.AccessLogEntry] = Field(description="The newest first.")


Params = Annotated[AccessLogRequest, Depends(from_query(AccessLogRequest))]


@router.get(
    "/v1/access-log",
    summary="The last entries of the access log",
    openapi_extra={"parameters": [AccessLogRequest]},
    responses=error_responses(404, 406, 422),
)
async def get_access_log(params: Params, request: Request, service: Service) -> AccessLogAnswer:
    """Read the end of the access log's file; for keys with the role admin."""
    require_json(request)
    log = request.app.state.access_log
    if not isinstance(log, access_log.AccessLogFile):
        raise HTTPException(404, "The access log is not written to a file: the operator sets DARRM_ACCESS_LOG.")
    try:
        entries = await service.run_in_reader(log.last, params.limit)
    except OSError as err:
        raise HTTPException(503, "The access log cannot be read; the server's log says why.") from err
    return AccessLogAnswer.model_validate({"entries": entries})
