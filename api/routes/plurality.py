"""Routes of stored tables: votes among any number of classes, of one kind of voters or of groups."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from api.middleware.response_bodies import EncodedAnswer, permanent_response
from api.responses import (
    ETAG_HEADER,
    IF_NONE_MATCH_PARAMETER,
    JSON,
    NOT_MODIFIED_RESPONSE,
    error_responses,
    require_json,
)
from api.routes.requests import Service, create_router, stored_record
from api.schemas.designs import DesignId, TableAnswer, TableDesignAnswer
from darrm_opt.answers.tables import stored_table
from darrm_opt.tables.record import GROUP_KIND, KIND

router = create_router("design")


@router.get(
    "/plurality/{id}",
    summary="A stored table, by its id",
    openapi_extra={"parameters": [IF_NONE_MATCH_PARAMETER]},
    response_model=TableAnswer,
    responses={200: {"headers": ETAG_HEADER}, **NOT_MODIFIED_RESPONSE, **error_responses(404, 406, 422)},
)
async def get_plurality_by_id(id: DesignId, request: Request, service: Service) -> Response:
    """Read a stored table; it is proved again, and nothing is solved."""
    require_json(request)
    record = await stored_record(id, service, KIND, "/v1/plurality")
    return _permanent(TableAnswer.model_validate(stored_table(id, record)), request)


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


def _permanent(answer: Any, request: Request) -> Response:
    return permanent_response(EncodedAnswer.of(answer.model_dump_json().encode(), JSON, answer.id), request)
