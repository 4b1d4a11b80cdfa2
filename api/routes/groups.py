"""Route of tables for groups of voters among any number of classes."""

from __future__ import annotations

from fastapi import Request, Response

from api.routes.requests import Service, create_router, respond
from api.routes.responses import JOB_RESPONSES, require_json
from api.schemas.groups import TableDesignAnswer, TableRequest
from api.service.work_limits import check_voters
from darrm_opt.answers.groups import group_seconds
from darrm_opt.tables.group_table import problem_record

router = create_router("design")


@router.post(
    "/table",
    summary="The optimal table for groups of voters and any number of classes",
    response_model=TableDesignAnswer,
    responses=JOB_RESPONSES,
)
async def post_table(params: TableRequest, request: Request, service: Service) -> Response:
    """Design the best private release of the votes of groups, each voter with the privacy of its group."""
    require_json(request)
    check_voters(sum(group.K for group in params.groups), service.settings)
    problem = await service.run_in_thread(params.problem)
    seconds = await service.run_in_thread(group_seconds, problem)
    argument = {
        "problem": problem_record(problem),
        "objective": params.objective,
        "price": params.price,
        "time_limit": service.settings.max_work_seconds,
    }
    return await respond(request, service, "table", argument, seconds, params)
