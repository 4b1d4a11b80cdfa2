"""What an answer would cost."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from api import kept, problems
from api.desk import Desk
from api.estimating import estimate
from api.routes.at import AtDesk
from api.routes.rendering import jsoned, plain
from api.schemas import DesignRequest, EstimateAnswer, from_query, query_parameters
from darrm_opt.record import problem_record

router = APIRouter(prefix="/v1", tags=["design"])

Design = Annotated[DesignRequest, Depends(from_query(DesignRequest))]

_ESTIMATE: dict[str, Any] = {
    "summary": "What a γ would cost",
    "response_model": EstimateAnswer,
    "responses": problems.responses(406, 422),
}


@router.get("/estimate", openapi_extra=query_parameters(DesignRequest), **_ESTIMATE)
async def get_estimate(asked: Design, request: Request, desk: AtDesk) -> Response:
    """Count the constraints and say how long the solve is expected to take; nothing is solved."""
    return await _estimate(asked, request, desk)


@router.post("/estimate", **_ESTIMATE)
async def post_estimate(asked: DesignRequest, request: Request, desk: AtDesk) -> Response:
    """Count the constraints and say how long the solve is expected to take; nothing is solved."""
    return await _estimate(asked, request, desk)


async def _estimate(asked: DesignRequest, request: Request, desk: Desk) -> Response:
    plain(request)
    return jsoned(await desk.apart(_estimated, asked, desk))


def _estimated(asked: DesignRequest, desk: Desk) -> EstimateAnswer:
    settings = desk.settings
    asked.check_estimable()
    question = asked.request()
    found, there = estimate(question, asked.method), kept.is_kept(question.key, desk.store)
    within = settings.most_voters >= asked.K and found.seconds <= settings.most_work and settings.solve == "on"
    return EstimateAnswer.model_validate(
        {
            "id": question.key,
            "problem": problem_record(question.problem),
            "objective": str(question.objective),
            "shape": question.shape,
            "constraints": found.constraints,
            "method": found.method,
            "seconds": 0.0 if there else found.seconds,
            "kept": there,
            "allowed": there or within,
            "basis": found.basis,
            "warnings": list(question.problem.warnings),
        }
    )
