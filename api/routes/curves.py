"""Errors of γ_opt and of what it is compared with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api import problems
from api.routes.at import AtDesk
from api.schemas import CurveRequest, ErrorCurveAnswer, from_query, query_parameters

router = APIRouter(prefix="/v1", tags=["design"])

Curve = Annotated[CurveRequest, Depends(from_query(CurveRequest))]


@router.get(
    "/error-curve",
    summary="Errors of γ_opt and of the baselines over p",
    openapi_extra=query_parameters(CurveRequest),
    responses=problems.responses(422, 500, 503),
)
async def get_error_curve(asked: Curve, desk: AtDesk) -> ErrorCurveAnswer:
    """Compare γ_opt with every baseline that is as private, where all voters share one p."""
    return ErrorCurveAnswer.model_validate(await desk.error_curve(asked))


@router.post(
    "/error-curve",
    summary="Errors of γ_opt and of the baselines over p",
    responses=problems.responses(422, 500, 503),
)
async def post_error_curve(asked: CurveRequest, desk: AtDesk) -> ErrorCurveAnswer:
    """Compare γ_opt with every baseline that is as private, where all voters share one p."""
    return ErrorCurveAnswer.model_validate(await desk.error_curve(asked))
