"""Routes of noise functions: design of one or of a batch, lookup by id, cost estimate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from api.errors.handlers import problem_of, validation_problem
from api.errors.problem_details import ProblemDetails, WorkLimitExceeded
from api.middleware.admission import client_name
from api.middleware.response_bodies import (
    REVALIDATE,
    EncodedAnswer,
    ResponseCache,
    conditional_response,
    permanent_response,
    query_key,
)
from api.observability import access_log, metrics
from api.responses import (
    DESIGN_RESPONSES,
    ETAG_HEADER,
    IF_NONE_MATCH_PARAMETER,
    NOT_MODIFIED_RESPONSE,
    Columns,
    encode,
    encoded_response,
    error_responses,
    json_response,
    negotiated_form,
    pending_answer,
    pending_response,
    require_json,
    table_content,
    table_response,
)
from api.routes.requests import (
    Service,
    create_router,
    from_query,
    get_and_post,
    get_service,
    name_fields,
    stored_record,
)
from api.schemas.jobs import BatchAnswer, BatchItem, BatchRequest
from api.schemas.questions import DesignRequest, EstimateAnswer, GammaAnswer
from api.service.design_service import DesignService, Pending, design_task
from darrm_opt.answers.running_time import MAX_ESTIMATED_VOTERS, estimate_running_time, estimate_to_dict
from darrm_opt.errors import DarrmError, InvalidInput
from darrm_opt.questions.design import Design

router = create_router("design")

_parse_query = from_query(DesignRequest)

_GAMMA = table_content("The certified γ; as CSV or npz, the columns l and gamma.")


@router.get(
    "/gamma",
    summary="The certified γ_opt of one problem",
    openapi_extra={"parameters": [DesignRequest, IF_NONE_MATCH_PARAMETER]},
    response_model=GammaAnswer,
    responses={
        200: {**_GAMMA, "headers": ETAG_HEADER},
        **NOT_MODIFIED_RESPONSE,
        **DESIGN_RESPONSES,
    },
)
async def get_gamma(request: Request) -> Response:
    """Design the noise function with the largest utility among all private ones."""
    form = negotiated_form(request)  # recent queries do not come here: `api.middleware.response_bodies`
    return await _design(Design(**vars(await _parse_query(request))), form, request, query_key(request.scope))


@router.post(
    "/gamma",
    summary="The certified γ_opt of one problem",
    response_model=GammaAnswer,
    responses={200: _GAMMA, **DESIGN_RESPONSES},
)
async def post_gamma(params: DesignRequest, request: Request) -> Response:  # type: ignore[valid-type]
    """Design the noise function with the largest utility among all private ones."""
    return await _design(Design(**vars(params)), negotiated_form(request), request)


@router.get(
    "/gamma/{id}",
    summary="A stored γ by its id",
    openapi_extra={"parameters": [IF_NONE_MATCH_PARAMETER]},
    response_model=GammaAnswer,
    responses={
        200: {
            **_GAMMA,
            "headers": ETAG_HEADER
            | {"Cache-Control": {"description": "It never changes.", "schema": {"type": "string"}}},
        },
        **NOT_MODIFIED_RESPONSE,
        **error_responses(404, 406, 422),
    },
)
async def get_gamma_by_id(
    id: Annotated[str, Path(description="Content key of the problem, objective and shape, as every answer has it.")],
    request: Request,
) -> Response:
    """Read a stored answer; it is proved again, and nothing is solved."""
    form = negotiated_form(request)
    access_log.mention_question(id[:64])
    service = await get_service(request)
    body = _response_cache(request).get(id, form) if await service.may_see(id) else None
    if body is None:
        record = await stored_record(id, service, None, "/v1/gamma")
        body = _encode_and_cache({"id": id, "cached": True, "nearest": None, **record}, form, _response_cache(request))
    return permanent_response(body, request)


async def _design(asked: Design, form: str, request: Request, query: tuple[str, ...] = ()) -> Response:
    """Return the answer: cached under its canonical key, however the question is spelt, or else designed."""
    service, cache = await get_service(request), _response_cache(request)
    task = service.design_task(asked)
    body = cache.get(task.key, form)
    if body is None:
        answer = await service.answer(task)
        if isinstance(answer, Pending):
            return pending_response(answer)
        if not is_final(answer):
            return table_response(GammaAnswer.model_validate(answer), form, "gamma", gamma_columns(answer))
        body = _encode_and_cache(answer, form, cache, query)
    else:
        await service.grant(task, {"id": task.key})
        service.store.reads.add(task.key)
        access_log.mention_question(task.key)
        metrics.count_lookups("memory")
        if query:
            cache.put(body, *query)
    return conditional_response(body, request, REVALIDATE) if query else encoded_response(body.content, form, "gamma")


def is_final(answer: dict[str, Any]) -> bool:
    """Tell whether an answer will never change: it is stored, optimal, and the answer to this very question."""
    return bool(answer["cached"] and answer["nearest"] is None and answer["status"] == "optimal")


def _encode_and_cache(
    record: dict[str, Any], form: str, cache: ResponseCache, query: tuple[str, ...] = ()
) -> EncodedAnswer:
    """Return a stored answer encoded, and put it into the response cache under its id, and under its query if any."""
    answer = GammaAnswer.model_validate(record)
    body = EncodedAnswer.of(encode(answer, form, gamma_columns(record)), form, record["id"])
    cache.put(body, record["id"], form)
    if query:
        cache.put(body, *query)
    return body


def gamma_columns(answer: dict[str, Any]) -> Columns:
    """Return the table of an answer."""
    return {"l": range(len(answer["gamma"])), "gamma": answer["gamma"]}


def _response_cache(request: Request) -> ResponseCache:
    cache: ResponseCache = request.app.state.response_cache
    return cache


@get_and_post(
    router,
    "/estimate",
    DesignRequest,
    summary="What a γ would cost",
    response_model=EstimateAnswer,
    responses=error_responses(406, 422),
)
async def estimate(params: DesignRequest, request: Request, service: Service) -> Response:  # type: ignore[valid-type]
    """Count the constraints and estimate the solving time; nothing is solved."""
    require_json(request)
    return json_response(await service.run_in_reader(_estimate, Design(**vars(params)), service, service.viewer))


def _estimate(asked: Design, service: DesignService, viewer: str | None) -> BaseModel:
    settings = service.settings
    if asked.K > MAX_ESTIMATED_VOTERS:  # before the objective is looked at, for so many
        raise InvalidInput("K", asked.K, f"at most {MAX_ESTIMATED_VOTERS} voters")
    spec = design_task(asked).spec  # refuses what the design would refuse
    cost, stored = estimate_running_time(spec, asked.method), service.store.designs.get(spec.key, viewer) is not None
    allowed = settings.max_voters >= asked.K and cost.seconds <= settings.max_work_seconds and settings.solve == "on"
    return EstimateAnswer.model_validate({**estimate_to_dict(spec, cost, stored=stored), "allowed": stored or allowed})


@router.post(
    "/gamma/batch",
    summary="The certified γ_opt of many problems",
    response_model=BatchAnswer,
    responses={
        200: table_content(
            "One result for each problem, in order; as CSV or npz, the columns problem, status, id, l, gamma, detail: "
            "a line for each l of each γ, and one for each problem without."
        ),
        **error_responses(406, 422),
    },
)
async def post_batch(params: BatchRequest, request: Request, service: Service) -> Response:
    """Design a noise function for each problem. An invalid or slow one does not delay the others."""
    form = negotiated_form(request)
    limit = service.settings.max_batch
    if len(params.problems) > limit:
        detail = f"problems has {len(params.problems)} entries: expected at most {limit} problems in one batch."
        raise WorkLimitExceeded(detail, field="problems")
    # each problem as a request of its own would be: other clients' requests are answered meanwhile
    turn = partial(request.app.state.turns.begin, client_name(request.scope))
    items = []
    for problem in params.problems:
        await turn()
        items.append(_parse(problem))
    designs = [item for item in items if isinstance(item, Design)]
    service.check_work(await asyncio.to_thread(_expected_seconds, designs, service), "problems")
    answer = BatchAnswer(results=list(await asyncio.gather(*(_answer_one(item, service, turn) for item in items))))
    return table_response(answer, form, "gamma-batch", _columns(answer.results))


def _parse(problem: Any) -> Design | ProblemDetails:
    try:
        return Design(**vars(DesignRequest.model_validate(problem)))
    except ValidationError as err:
        errors: list[Any] = [{**error, "loc": ("problem", *error["loc"])} for error in err.errors(include_url=False)]
        name_fields(errors, DesignRequest)
        return validation_problem(RequestValidationError(errors))


def _expected_seconds(designs: Sequence[Design], service: DesignService) -> float:
    """Return the expected solving time of the valid problems that are not stored [s]."""
    seconds: dict[str, float] = {}
    for asked in designs:
        if service.settings.max_voters >= asked.K:
            try:
                spec = design_task(asked).spec
                seconds[spec.key] = estimate_running_time(spec, asked.method).seconds
            except DarrmError:  # its own result will say so
                continue
    if sum(seconds.values()) <= service.settings.max_work_seconds:
        return 0.0
    return sum(cost for key, cost in seconds.items() if service.store.get(key) is None)


async def _answer_one(
    asked: Design | ProblemDetails, service: DesignService, turn: Callable[[], Awaitable[None]]
) -> BatchItem:
    await turn()
    if isinstance(asked, ProblemDetails):
        return _failed_item(asked)
    try:
        answer = await service.design(asked)
    except DarrmError as err:
        return _failed_item(problem_of(err))
    if isinstance(answer, Pending):
        return BatchItem(status=202, answer=None, pending=pending_answer(answer), problem=None)
    return BatchItem(status=200, answer=GammaAnswer.model_validate(answer), pending=None, problem=None)


def _failed_item(details: ProblemDetails) -> BatchItem:
    return BatchItem.model_validate({"status": details.status, "answer": None, "pending": None, "problem": details})


def _columns(results: Sequence[BatchItem]) -> Columns:
    lines: list[tuple[Any, ...]] = []
    for i, item in enumerate(results):
        answer: Any = item.answer
        if answer is not None:
            lines += [(i, item.status, answer.id, l, value, "") for l, value in enumerate(answer.gamma)]
        elif item.pending is not None:
            lines.append((i, item.status, item.pending.id, None, None, item.pending.state))
        elif item.problem is not None:
            lines.append((i, item.status, "", None, None, item.problem.detail))
    names = ("problem", "status", "id", "l", "gamma", "detail")
    return {name: [line[place] for line in lines] for place, name in enumerate(names)}
