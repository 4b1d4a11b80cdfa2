"""Noise functions: designed, certified, kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api import problems
from api.routes.at import AtDesk
from api.schemas import DesignRequest, GammaAnswer, from_query, query_parameters

router = APIRouter(prefix="/v1", tags=["design"])

Design = Annotated[DesignRequest, Depends(from_query(DesignRequest))]


@router.get(
    "/gamma",
    summary="The certified γ_opt of one problem",
    openapi_extra=query_parameters(DesignRequest),
    responses=problems.responses(422, 500, 503),
)
async def get_gamma(asked: Design, desk: AtDesk) -> GammaAnswer:
    """Design the noise function with the largest utility among all private ones."""
    return GammaAnswer.model_validate(await desk.gamma(asked))


@router.post("/gamma", summary="The certified γ_opt of one problem", responses=problems.responses(422, 500, 503))
async def post_gamma(asked: DesignRequest, desk: AtDesk) -> GammaAnswer:
    """Design the noise function with the largest utility among all private ones."""
    return GammaAnswer.model_validate(await desk.gamma(asked))
