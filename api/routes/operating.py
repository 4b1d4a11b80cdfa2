"""What an operator asks: whether the process is up, whether it can answer, and what it has counted."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException

from api import metrics
from api.denials import TITLES, Denial
from api.problem_details import MEDIA_TYPE, ProblemDetails
from api.readiness import Readiness, ready
from api.request_id import current
from api.routes.at import AtDesk
from api.schemas import HealthAnswer, ReadyAnswer
from darrm_opt import __version__
from solver_cache.errors import CacheError

router = APIRouter(tags=["operating"])


@router.get("/healthz", summary="Whether the process is up")
async def get_health() -> HealthAnswer:
    """Answer without touching the cache or the solver."""
    return HealthAnswer(status="ok", version=__version__)


@router.get(
    "/readyz",
    summary="Whether answers can be given",
    responses={503: {"model": ProblemDetails, "description": f"{TITLES['not-ready']} The detail says what is wrong."}},
)
async def get_readiness(request: Request, desk: AtDesk) -> Response:
    """Read and write where answers are kept, and solve a tiny problem; a finding is repeated for some seconds."""
    state = request.app.state
    if state.stopping.begun:
        return _not_ready("The server is shutting down.")
    if not hasattr(state, "readiness"):
        state.readiness = Readiness(desk)
    found = await state.readiness.look()
    if ready(found):
        return Response(ReadyAnswer(status="ready", checks=found).model_dump_json(), media_type="application/json")
    wrong = "; ".join(f"{part}: {word}" for part, word in found.items() if word not in {"ok", "busy", "off"})
    return _not_ready(f"{wrong}.")


@router.get(
    "/metrics",
    summary="What has been counted, for Prometheus",
    response_class=PlainTextResponse,
    responses={401: {"model": ProblemDetails}, 404: {"model": ProblemDetails}, 429: {"model": ProblemDetails}},
)
async def get_metrics(request: Request, desk: AtDesk) -> Response:
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
    return Response(metrics.text(now), media_type=metrics.CONTENT_TYPE)


def _not_ready(detail: str) -> Response:
    return Response(Denial(503, "not-ready", detail).body(current()), 503, {"retry-after": "5"}, MEDIA_TYPE)
