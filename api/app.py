"""The HTTP API. It designs noise; it never sees a vote.

Routes parse, call and render. What they call is the `Desk` that the app's lifespan opens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi

from api import problems
from api.desk import Desk
from api.schemas import (
    CurveRequest,
    DesignRequest,
    ErrorCurveAnswer,
    GammaAnswer,
    HealthAnswer,
    from_query,
    query_parameters,
)
from api.settings import Settings, read_settings
from darrm_opt import __version__
from solver_cache.store import open_store

DESCRIPTION = """
K voters each give a 0/1 answer, each (ε, Δ)-differentially private. Ask for the noise function γ with which their
majority can be released privately at the smallest loss: with l ones, release the majority with probability γ(l), else
a fair coin. Every γ comes with a certificate. Votes are never sent here: the release is made where the votes are.

Numbers carry their unit in brackets: [voters], [nats], [probability], [s]. Infinity is the text "inf". Errors are
problem details (RFC 9457), media type `application/problem+json`, and name the field at fault.
"""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application; nothing is opened before it starts.

    Args:
        settings: None reads them from the environment, once.

    Raises:
        InvalidInput: a setting in the environment is not valid.
    """
    chosen = read_settings() if settings is None else settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk = Desk(open_store(chosen.cache_url), chosen)
        app.state.desk = desk
        try:
            yield
        finally:
            desk.close()

    app = FastAPI(
        title="darrm-opt",
        version=__version__,
        summary="Optimal private majority votes: γ tables with a certificate.",
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.include_router(_V1)
    app.include_router(_OPERATING)
    problems.install(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, summary=app.summary, description=app.description, routes=app.routes
        )
        app.openapi_schema = problems.document(made)
    return app.openapi_schema


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
Design = Annotated[DesignRequest, Depends(from_query(DesignRequest))]
Curve = Annotated[CurveRequest, Depends(from_query(CurveRequest))]

_V1 = APIRouter(prefix="/v1", tags=["design"])
_OPERATING = APIRouter(tags=["operating"])


@_V1.get(
    "/gamma",
    summary="The certified γ_opt of one problem",
    openapi_extra=query_parameters(DesignRequest),
    responses=problems.responses(422, 500, 503),
)
async def get_gamma(asked: Design, desk: AtDesk) -> GammaAnswer:
    """Design the noise function with the largest utility among all private ones."""
    return GammaAnswer.model_validate(await desk.gamma(asked))


@_V1.post("/gamma", summary="The certified γ_opt of one problem", responses=problems.responses(422, 500, 503))
async def post_gamma(asked: DesignRequest, desk: AtDesk) -> GammaAnswer:
    """Design the noise function with the largest utility among all private ones."""
    return GammaAnswer.model_validate(await desk.gamma(asked))


@_V1.get(
    "/error-curve",
    summary="Errors of γ_opt and of the baselines over p",
    openapi_extra=query_parameters(CurveRequest),
    responses=problems.responses(422, 500, 503),
)
async def get_error_curve(asked: Curve, desk: AtDesk) -> ErrorCurveAnswer:
    """Compare γ_opt with every baseline that is as private, where all voters share one p."""
    return ErrorCurveAnswer.model_validate(await desk.error_curve(asked))


@_V1.post(
    "/error-curve",
    summary="Errors of γ_opt and of the baselines over p",
    responses=problems.responses(422, 500, 503),
)
async def post_error_curve(asked: CurveRequest, desk: AtDesk) -> ErrorCurveAnswer:
    """Compare γ_opt with every baseline that is as private, where all voters share one p."""
    return ErrorCurveAnswer.model_validate(await desk.error_curve(asked))


@_OPERATING.get("/healthz", summary="Whether the process is up")
async def get_health() -> HealthAnswer:
    """Answer without touching the cache or the solver."""
    return HealthAnswer(status="ok", version=__version__)
