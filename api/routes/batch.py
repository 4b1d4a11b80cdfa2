"""Route of batches: many problems in one request, answered in order, each with its own status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from api.errors.handlers import problem_of, validation_problem
from api.errors.problem_details import ProblemDetails
from api.errors.problem_types import WorkLimitExceeded
from api.middleware.admission import client_name
from api.responses import Columns, error_responses, negotiated_form, pending_answer, table_content, table_response
from api.routes.requests import Service, create_router
from api.schemas import BatchAnswer, BatchItem, BatchRequest, DesignRequest, GammaAnswer
from api.service.design_service import DesignService, Pending
from api.service.work_limits import check_work
from darrm_opt.answers.running_time import estimate_cost
from darrm_opt.errors import DarrmError

router = create_router("design")


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
    designs = [item for item in items if isinstance(item, DesignRequest)]
    check_work(await asyncio.to_thread(_expected_seconds, designs, service), service.settings, "problems")
    answer = BatchAnswer(results=list(await asyncio.gather(*(_answer_one(item, service, turn) for item in items))))
    return table_response(answer, form, "gamma-batch", _columns(answer.results))


def _parse(problem: Any) -> DesignRequest | ProblemDetails:
    try:
        return DesignRequest.model_validate(problem)
    except ValidationError as err:
        errors = err.errors(include_url=False)
        return validation_problem(
            RequestValidationError([{**error, "loc": ("problem", *error["loc"])} for error in errors])
        )


def _expected_seconds(designs: Sequence[DesignRequest], service: DesignService) -> float:
    """Return the expected solving time of the valid problems that are not stored [s]."""
    seconds: dict[str, float] = {}
    for params in designs:
        if service.settings.max_voters >= params.K:
            try:
                request = params.spec()
                seconds[request.key] = estimate_cost(request, params.method).seconds
            except DarrmError:  # its own result will say so
                continue
    if sum(seconds.values()) <= service.settings.max_work_seconds:
        return 0.0
    return sum(cost for key, cost in seconds.items() if service.store.get(key) is None)


async def _answer_one(
    params: DesignRequest | ProblemDetails, service: DesignService, turn: Callable[[], Awaitable[None]]
) -> BatchItem:
    await turn()
    if isinstance(params, ProblemDetails):
        return _failed_item(params)
    try:
        answer = await service.design(params)
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
        if item.answer is not None:
            gamma = item.answer.gamma
            lines += [(i, item.status, item.answer.id, l, value, "") for l, value in enumerate(gamma)]
        elif item.pending is not None:
            lines.append((i, item.status, item.pending.id, None, None, item.pending.state))
        elif item.problem is not None:
            lines.append((i, item.status, "", None, None, item.problem.detail))
    names = ("problem", "status", "id", "l", "gamma", "detail")
    return dict(zip(names, map(list, zip(*lines, strict=True)), strict=True)) if lines else {name: [] for name in names}
