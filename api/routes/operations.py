"""What an operator asks: whether the process is up, whether it can answer, and what it has counted."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import Field
from starlette.exceptions import HTTPException

from api.errors.problem_details import MEDIA_TYPE, ProblemDetails, Rejection
from api.errors.problem_types import PROBLEM_TYPES
from api.observability import metrics
from api.observability.logs import current_request_id
from api.routes.requests import Service
from api.schemas.fields import AnswerModel
from api.tasks.design import solve_smallest
from darrm_opt import __version__
from darrm_opt.errors import DarrmError
from solver_cache.errors import CacheError

if TYPE_CHECKING:
    from api.service.design_service import DesignService

router = APIRouter(tags=["operating"])


class HealthAnswer(AnswerModel):
    """The process is up."""

    status: Literal["ok"]
    version: str = Field(description="Version of darrm-opt.")


class ReadyAnswer(AnswerModel):
    """Answers can be given."""

    status: Literal["ready"]
    checks: dict[str, str] = Field(
        description="What was looked at: database, solver; 'ok', 'busy' (all solver processes are at work) or 'off'."
    )


@router.get("/healthz", summary="Whether the process is up")
async def get_health() -> HealthAnswer:
    """Answer without touching the cache or the solver."""
    return HealthAnswer(status="ok", version=__version__)


@router.get(
    "/readyz",
    summary="Whether answers can be given",
    responses={
        503: {
            "model": ProblemDetails,
            "description": f"{PROBLEM_TYPES['not-ready'].title} The detail says what is wrong.",
        }
    },
)
async def get_readiness(request: Request, desk: Service) -> Response:
    """Read and write where answers are kept, and solve a tiny problem; a finding is repeated for some seconds."""
    state = request.app.state
    if state.stopping.begun:
        return _not_ready("The server is shutting down.")
    if not hasattr(state, "readiness"):
        state.readiness = ReadinessCheck(desk)
    found = await state.readiness.look()
    if is_ready(found):
        return Response(ReadyAnswer(status="ready", checks=found).model_dump_json(), media_type="application/json")
    wrong = "; ".join(f"{part}: {word}" for part, word in found.items() if word not in {"ok", "busy", "off"})
    return _not_ready(f"{wrong}.")


@router.get(
    "/metrics",
    summary="What has been counted, for Prometheus",
    response_class=PlainTextResponse,
    responses={401: {"model": ProblemDetails}, 404: {"model": ProblemDetails}, 429: {"model": ProblemDetails}},
)
async def get_metrics(request: Request, desk: Service) -> Response:
    """Return the counts of all workers in Prometheus's text format."""
    if desk.settings.metrics == "off":
        raise HTTPException(404)
    request.app.state.counting.note()
    try:
        counts = await desk.apart(desk.store.jobs.counts)
        now = {
            "darrm_jobs_queued": ("Jobs that wait to be solved.", float(counts["queued"])),
            "darrm_jobs_running": ("Jobs that are being solved.", float(counts["running"])),
        }
    except CacheError:  # which /readyz tells; the rest is worth having all the more
        now = {}
    return Response(metrics.render(now), media_type=metrics.CONTENT_TYPE)


def _not_ready(detail: str) -> Response:
    return Response(Rejection("not-ready", detail).body(current_request_id()), 503, {"retry-after": "5"}, MEDIA_TYPE)


_LOG = logging.getLogger("api")

CHECK_SECONDS = 5.0
"""How long a part may take to show that it works [s]; whoever asks gives up soon after."""


class ReadinessCheck:
    """Looks at the parts that answers depend on, at most once in a while.

    Args:
        desk: whose parts are looked at.
    """

    def __init__(self, desk: DesignService) -> None:
        self._desk = desk
        self._looked = -math.inf
        self._found: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def look(self) -> dict[str, str]:
        """Return by part "ok", "busy" (which is well), "off", or in a few words what is wrong."""
        async with self._lock:  # however many ask, one looks
            if time.monotonic() - self._looked >= self._desk.settings.ready_seconds:
                database, solver = await asyncio.gather(self._shown(self._database()), self._shown(self._solver()))
                self._found = {"database": database, "solver": solver}
                self._looked = time.monotonic()
            return self._found

    async def _database(self) -> str:
        await self._desk.apart(self._desk.store.health_check)
        return "ok"

    async def _solver(self) -> str:
        if self._desk.settings.solve == "off":
            return "off"
        try:
            async with asyncio.timeout(CHECK_SECONDS - 0.5):
                gamma = await self._desk.perform(solve_smallest, None)
        except TimeoutError:
            errands = self._desk.pools["errands"]
            return "busy" if errands.busy == errands.size and errands.tasks else "nothing was solved in time"
        return "ok" if math.isclose(gamma, 1 / 3, abs_tol=1e-9) else "it solves wrongly"

    @staticmethod
    async def _shown(work: Awaitable[str]) -> str:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await work
        except TimeoutError:
            return "it does not answer in time"
        except DarrmError as err:
            _LOG.warning("not ready: %s", err)
            return "it cannot be used; the server's log says why"


def is_ready(found: dict[str, str]) -> bool:
    """Tell whether all is well."""
    return all(word in {"ok", "busy", "off"} for word in found.values())
