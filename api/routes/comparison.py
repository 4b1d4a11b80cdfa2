"""Which way of releasing is the most accurate within one budget."""

from __future__ import annotations

from fastapi import Request, Response

from api import answering, problems
from api.bounds import check_voters, check_work
from api.estimating import estimate
from api.routes.at import AtDesk, performed
from api.routes.reading import both_ways, new_router
from api.routes.rendering import jsoned, plain
from api.schemas import CompareAnswer, CompareRequest
from darrm_opt.record import problem_record

router = new_router("accounting")

SOLVES = 25
"""About how many γ a comparison designs until its budget is met."""

DRAWN_SOLVES = 100
"""What that comes to where every account is an average over the voters that a record reaches."""


@both_ways(
    router,
    "/compare",
    CompareRequest,
    summary="Every way of releasing, at the same total privacy",
    response_model=CompareAnswer,
    responses=problems.responses(406, 422),
)
async def compare(asked: CompareRequest, request: Request, desk: AtDesk) -> Response:
    """Turn every way of releasing up as far as the total budget allows, and see how often each is wrong."""
    plain(request)
    check_voters(asked.K, desk.settings)
    asked.check()
    question = await desk.apart(asked.question)
    check_work((SOLVES if asked.n is None else DRAWN_SOLVES) * estimate(question).seconds, desk.settings)
    found = await performed(
        request,
        desk,
        answering.comparison,
        {
            "problem": problem_record(question.problem),
            "queries": asked.queries,
            "total_epsilon": asked.total_epsilon,
            "total_delta": asked.total_delta,
            "objective": asked.objective,
            "prior": asked.prior,
            **asked.draw(),
        },
    )
    return jsoned(CompareAnswer.model_validate(found))
