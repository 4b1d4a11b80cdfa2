"""Route of plurality rules: votes among any number of classes."""

from __future__ import annotations

from fastapi import Request, Response

from api.routes.requests import (
    Service,
    create_router,
    get_and_post,
    respond,
)
from api.routes.responses import JOB_RESPONSES, require_json
from api.schemas.plurality import PluralityAnswer, PluralityOptionsAnswer, PluralityOptionsRequest, PluralityRequest
from api.service.work_limits import check_voters
from darrm_opt.answers.plurality import options_seconds, plurality_seconds
from darrm_opt.tables.record import problem_record

router = create_router("design")


@get_and_post(
    router,
    "/plurality",
    PluralityRequest,
    summary="The optimal release of the plurality among any number of classes",
    response_model=PluralityAnswer,
    responses=JOB_RESPONSES,
)
async def plurality(params: PluralityRequest, request: Request, service: Service) -> Response:
    """Design the best private release of one of C classes, and compare it with the mechanisms that people use."""
    require_json(request)
    check_voters(params.K, service.settings)
    problem = await service.run_in_thread(params.problem)
    seconds = await service.run_in_thread(plurality_seconds, problem)
    argument = {
        "problem": problem_record(problem),
        "prior": params.prior,
        "ties": params.ties,
        "price": params.price,
        "time_limit": service.settings.max_work_seconds,
    }
    return await respond(request, service, "plurality", argument, seconds, params)


@get_and_post(
    router,
    "/plurality/options",
    PluralityOptionsRequest,
    summary="Every mechanism for queries among any number of classes within a total",
    response_model=PluralityOptionsAnswer,
    responses=JOB_RESPONSES,
)
async def plurality_options(params: PluralityOptionsRequest, request: Request, service: Service) -> Response:
    """Design all releases together by every mechanism; say what share of the answers is right, wrong, or no class."""
    require_json(request)
    check_voters(params.K, service.settings)
    problem = await service.run_in_thread(params.total)
    seconds = await service.run_in_thread(options_seconds, problem, params.queries)
    argument = {
        "problem": problem_record(problem),
        "queries": params.queries,
        "prior": params.prior,
        "ties": params.ties,
        "price": params.price,
    }
    return await respond(request, service, "plurality/options", argument, seconds, params)
