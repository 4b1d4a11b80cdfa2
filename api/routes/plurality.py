"""Routes of stored tables: votes among any number of classes, of one kind of voters or of groups."""

from __future__ import annotations

from fastapi import Request, Response
from pydantic import BaseModel

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


def _add(path: str, kind: str, model: type[BaseModel], summary: str) -> None:
    async def route(id: DesignId, request: Request, service: Service) -> Response:
        """Read a stored table; it is proved again, and nothing is solved."""
        require_json(request)
        answer = model.model_validate(stored_table(id, await stored_record(id, service, kind, f"/v1/{path}")))
        return permanent_response(EncodedAnswer.of(answer.model_dump_json().encode(), JSON, id), request)

    router.add_api_route(
        f"/{path}/{{id}}",
        route,
        methods=["GET"],
        name=f"get_{path}_by_id",
        summary=summary,
        openapi_extra={"parameters": [IF_NONE_MATCH_PARAMETER]},
        response_model=model,
        responses={200: {"headers": ETAG_HEADER}, **NOT_MODIFIED_RESPONSE, **error_responses(404, 406, 422)},
    )


_add("plurality", KIND, TableAnswer, "A stored table, by its id")
_add("table", GROUP_KIND, TableDesignAnswer, "A stored table for groups of voters, by its id")
