"""What an answer would cost."""

from __future__ import annotations

from fastapi import Request, Response

from api import estimating, kept, problems
from api.desk import Desk
from api.routes.at import AtDesk
from api.routes.reading import both_ways, new_router
from api.routes.rendering import jsoned, plain
from api.schemas import DesignRequest, EstimateAnswer
from darrm_opt.record import problem_record

router = new_router("design")


@both_ways(
    router,
    "/estimate",
    DesignRequest,
    summary="What a γ would cost",
    response_model=EstimateAnswer,
    responses=problems.responses(406, 422),
)
async def estimate(asked: DesignRequest, request: Request, desk: AtDesk) -> Response:
    """Count the constraints and say how long the solve is expected to take; nothing is solved."""
    plain(request)
    return jsoned(await desk.apart(_estimated, asked, desk))


def _estimated(asked: DesignRequest, desk: Desk) -> EstimateAnswer:
    settings = desk.settings
    asked.check_estimable()
    question = asked.request()
    found, there = estimating.estimate(question, asked.method), kept.is_kept(question.key, desk.store)
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
