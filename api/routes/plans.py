"""What should be released."""

from __future__ import annotations

from fastapi import Request, Response

from api import planning, problems
from api.bounds import check_voters, check_work
from api.estimating import estimate
from api.routes.at import AtDesk, performed
from api.routes.reading import both_ways, new_router
from api.routes.rendering import jsoned, plain
from api.schemas import PlanAnswer, PlanRequest
from darrm_opt.record import problem_record

router = new_router("accounting")


@both_ways(
    router,
    "/plan",
    PlanRequest,
    summary="What to release within a total budget, and why",
    response_model=PlanAnswer,
    responses=problems.responses(406, 422),
)
async def plan(asked: PlanRequest, request: Request, desk: AtDesk) -> Response:
    """Weigh every way of answering so many queries within the total; say which is best, or that none is needed."""
    plain(request)
    check_voters(asked.K, desk.settings)
    question = await desk.apart(asked.question)
    check_work(planning.expected_seconds(estimate(question).seconds, asked.queries, asked.time_limit), desk.settings)
    found = await performed(
        request,
        desk,
        planning.advice,
        {
            "problem": problem_record(question.problem),
            "queries": asked.queries,
            "total_epsilon": asked.total_epsilon,
            "total_delta": asked.total_delta,
            "prior": asked.prior,
            "fresh": asked.fresh,
            "least_accuracy": asked.least_accuracy,
            "draw": asked.draw(),
            "time_limit": asked.time_limit,
        },
    )
    return jsoned(PlanAnswer.model_validate(found))
