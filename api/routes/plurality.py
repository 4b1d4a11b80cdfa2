"""Routes of tables: votes among any number of classes, of one kind of voters or of groups."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Request, Response

from api.middleware.response_bodies import EncodedAnswer, permanent_response
from api.responses import (
    ETAG_HEADER,
    IF_NONE_MATCH_PARAMETER,
    JOB_RESPONSES,
    JSON,
    NOT_MODIFIED_RESPONSE,
    error_responses,
    require_json,
)
from api.routes.requests import Service, create_router, get_and_post, respond, stored_record
from api.schemas.designs import DesignId
from api.schemas.plurality import (
    PluralityAnswer,
    PluralityRequest,
    TableAnswer,
    TableDesignAnswer,
    TableRequest,
)
from api.service.design_service import ACCOUNT_TIMES, DesignService
from darrm_opt.answers.tables import group_answer_seconds, plurality_seconds, stored_table, table_spec
from darrm_opt.tables.record import GROUP_KIND, KIND, TableSpec, problem_record

router = create_router("design")

STORED_SECONDS = 0.1
"""About how long the mechanisms take that are compared with a stored rule [s]."""


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
    service.check_voters(params.K, ACCOUNT_TIMES)
    problem = await service.run_in_thread(params.problem)
    argument = {"problem": problem_record(problem), "time_limit": service.settings.max_work_seconds}
    argument |= params.model_dump(include={"prior", "ties", "price"})
    is_stored = await _is_stored(argument, service)
    seconds = STORED_SECONDS if is_stored else await service.run_in_thread(plurality_seconds, problem)
    return await respond(request, service, "plurality", argument, seconds, params)


@router.get(
    "/plurality/{id}",
    summary="A stored rule, by its id",
    openapi_extra={"parameters": [IF_NONE_MATCH_PARAMETER]},
    response_model=TableAnswer,
    responses={200: {"headers": ETAG_HEADER}, **NOT_MODIFIED_RESPONSE, **error_responses(404, 406, 422)},
)
async def get_plurality_by_id(id: DesignId, request: Request, service: Service) -> Response:
    """Read a stored rule; it is proved again, and nothing is solved."""
    require_json(request)
    record = await stored_record(id, service, KIND, "/v1/plurality")
    return _permanent(TableAnswer.model_validate(stored_table(id, record)), request)


@router.post(
    "/table",
    summary="The optimal table for groups of voters and any number of classes",
    response_model=TableDesignAnswer,
    responses=JOB_RESPONSES,
)
async def post_table(params: TableRequest, request: Request, service: Service) -> Response:
    """Design the best private release of the votes of groups, each voter with the privacy of its group."""
    require_json(request)
    service.check_voters(sum(group.K for group in params.groups))
    goal = params.goal()
    problem = await service.run_in_thread(params.problem)
    spec = TableSpec(problem, goal)
    argument = {**spec.record, "time_limit": service.settings.max_work_seconds}
    is_stored = await _is_stored(argument, service)
    if not is_stored or spec.kind == KIND:  # a table that somebody made on purpose is an answer like others
        params.refuse_what_has_another_answer(problem, goal)
    seconds = await service.run_in_thread(partial(group_answer_seconds, problem, stored=is_stored))
    return await respond(request, service, "table", argument, max(seconds, STORED_SECONDS), params)


@router.get(
    "/table/{id}",
    summary="A stored table for groups of voters, by its id",
    openapi_extra={"parameters": [IF_NONE_MATCH_PARAMETER]},
    response_model=TableDesignAnswer,
    responses={200: {"headers": ETAG_HEADER}, **NOT_MODIFIED_RESPONSE, **error_responses(404, 406, 422)},
)
async def get_table_by_id(id: DesignId, request: Request, service: Service) -> Response:
    """Read a stored table; it is proved again, and nothing is solved."""
    require_json(request)
    record = await stored_record(id, service, GROUP_KIND, "/v1/table")
    return _permanent(TableDesignAnswer.model_validate(stored_table(id, record)), request)


async def _is_stored(argument: dict[str, Any], service: DesignService) -> bool:
    return bool(await service.run_in_reader(service.store.present, {table_spec(argument).key}))


def _permanent(answer: TableAnswer | TableDesignAnswer, request: Request) -> Response:
    return permanent_response(EncodedAnswer.of(answer.model_dump_json().encode(), JSON, answer.id), request)
