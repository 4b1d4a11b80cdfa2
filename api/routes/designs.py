"""Routes of stored designs: list, read, tag, and compare two.

All clients share the tags: each may add and remove any, unless designs are private; then each client sees the tags that
it added, and those that were added for all. Tags are stored in a table of their own and change no answer.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from api.errors.problem_details import NotCached
from api.observability import access_log
from api.responses import error_responses, json_response, require_json
from api.routes.requests import Service, create_router, from_query
from api.schemas.designs import (
    ComparisonAnswer,
    DesignAnswer,
    DesignId,
    DesignsAnswer,
    DesignsRequest,
    DesignSummary,
    TableAnswer,
    TableDesignAnswer,
    TagName,
    comparison,
    summary,
)
from api.schemas.questions import GammaAnswer
from api.service.design_service import DesignService
from darrm_opt.answers.tables import stored_table
from darrm_opt.tables.record import GROUP_KIND, KIND
from solver_cache.database.designs import StoredDesign
from solver_cache.solve import load_record

router = create_router("designs", "/v1/designs")

Params = Annotated[DesignsRequest, Depends(from_query(DesignsRequest))]


@router.get(
    "",
    summary="Stored designs, the newest first",
    openapi_extra={"parameters": [DesignsRequest]},
    response_model=DesignsAnswer,
    responses=error_responses(406, 422),
)
async def list_designs(params: Params, request: Request, service: Service) -> Response:
    """List stored designs page by page, all or by voters, ε, m or tag; nothing is proved, and no γ is sent."""
    require_json(request)
    designs = await service.run_in_reader(
        service.store.designs.list, params.filter(), params.limit, params.after, service.viewer
    )
    next_id = designs[-1].key if len(designs) == params.limit else None
    summaries = [item for item in map(summary, designs) if item is not None]
    return json_response(DesignsAnswer(designs=summaries, next=next_id))


@router.get(
    "/{id}",
    summary="A stored design and its tags",
    response_model=DesignAnswer,
    responses=error_responses(404, 406, 422),
)
async def get_design(id: DesignId, request: Request, service: Service) -> Response:
    """Read a stored design; its γ is proved again."""
    require_json(request)
    return json_response(await _design(id, service))


@router.get(
    "/{id}/compare/{other}",
    summary="Two stored designs side by side",
    response_model=ComparisonAnswer,
    responses=error_responses(404, 406, 422),
)
async def compare_designs(id: DesignId, other: DesignId, request: Request, service: Service) -> Response:
    """Read two stored designs, each proved again, with the differences of their numbers and of their γ."""
    require_json(request)
    return json_response(comparison(await _design(id, service), await _design(other, service)))


@router.put(
    "/{id}/tags/{tag}",
    summary="Give a stored design a tag",
    response_model=DesignSummary,
    responses=error_responses(404, 406, 422),
)
async def tag_design(id: DesignId, tag: TagName, request: Request, service: Service) -> Response:
    """Give a design a tag, unless it has it. All who use this server share tags, unless its designs are private."""
    require_json(request)
    return _summary(id, await service.run_in_thread(service.store.designs.tag, id, tag, service.viewer))


@router.delete(
    "/{id}/tags/{tag}",
    summary="Take a tag from a stored design",
    response_model=DesignSummary,
    responses=error_responses(404, 406, 422),
)
async def untag_design(id: DesignId, tag: TagName, request: Request, service: Service) -> Response:
    """Take a tag from a design, if it has it."""
    require_json(request)
    return _summary(id, await service.run_in_thread(service.store.designs.untag, id, tag, service.viewer))


async def _design(id: str, service: DesignService) -> DesignAnswer:
    access_log.mention_question(id)
    stored = await service.run_in_reader(service.store.designs.get, id, service.viewer)
    record = None if stored is None else await service.run_in_reader(load_record, id, service.store)
    if stored is None or record is None:
        raise _unknown(id)
    model = {KIND: TableAnswer, GROUP_KIND: TableDesignAnswer}.get(record.get("kind", ""), GammaAnswer)
    of_gamma = model is GammaAnswer
    answer = {"id": id, "cached": True, "nearest": None, **record} if of_gamma else stored_table(id, record)
    return DesignAnswer(id=id, created=stored.created, tags=list(stored.tags), design=model.model_validate(answer))


def _summary(id: str, stored: StoredDesign | None) -> Response:
    access_log.mention_question(id)
    item = None if stored is None else summary(stored)
    if item is None:
        raise _unknown(id)
    return json_response(item)


def _unknown(id: str) -> NotCached:
    return NotCached(f"No design is stored under the id {id}. Ask for its problem at /v1/gamma.")
