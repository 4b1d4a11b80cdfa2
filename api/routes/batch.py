"""Many problems in one request: answers in order, each with a status of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from api import formats, kept, problems
from api.bounds import check_work
from api.desk import Desk, Pending
from api.estimating import estimate
from api.problem_details import ProblemDetails
from api.refusals import TooMuchAsked
from api.routes.at import AtDesk
from api.routes.reading import new_router
from api.routes.rendering import form_of, pending_answer, tabled
from api.schemas import BatchAnswer, BatchItem, BatchRequest, DesignRequest, GammaAnswer
from darrm_opt.errors import DarrmError

router = new_router("design")


@router.post(
    "/gamma/batch",
    summary="The certified γ_opt of many problems",
    response_model=BatchAnswer,
    responses={
        200: formats.content(
            "One result for each problem, in order; as CSV or npz, the columns problem, status, id, l, gamma, detail: a "
            "line for each l of each γ, and one for each problem without."
        ),
        **problems.responses(406, 422),
    },
)
async def post_batch(asked: BatchRequest, request: Request, desk: AtDesk) -> Response:
    """Design a noise function for each problem. One that is not valid, or takes long, holds up no other."""
    form = form_of(request)
    most = desk.settings.batch_length
    if len(asked.problems) > most:
        told = f"problems has {len(asked.problems)} entries: expected at most {most} problems in one batch."
        raise TooMuchAsked(told, field="problems")
    read = [_read(problem) for problem in asked.problems]
    designs = [one for one in read if isinstance(one, DesignRequest)]
    check_work(await asyncio.to_thread(_cost, designs, desk), desk.settings, "problems")
    answer = BatchAnswer(results=list(await asyncio.gather(*(_item(one, desk) for one in read))))
    return tabled(answer, form, "gamma-batch", _columns(answer.results))


def _read(problem: Any) -> DesignRequest | ProblemDetails:
    try:
        return DesignRequest.model_validate(problem)
    except ValidationError as err:
        told = err.errors(include_url=False)
        return problems.malformed(RequestValidationError([{**e, "loc": ("problem", *e["loc"])} for e in told]))


def _cost(designs: Sequence[DesignRequest], desk: Desk) -> float:
    """Return the expected solving time of what is valid and within bounds and not kept [s]."""
    seconds: dict[str, float] = {}
    for asked in designs:
        if desk.settings.most_voters >= asked.K:
            try:
                request = asked.request()
                seconds[request.key] = estimate(request, asked.method).seconds
            except DarrmError:  # its own result will say so
                continue
    if sum(seconds.values()) <= desk.settings.most_work:
        return 0.0
    return sum(cost for key, cost in seconds.items() if not kept.is_kept(key, desk.store))


async def _item(asked: DesignRequest | ProblemDetails, desk: Desk) -> BatchItem:
    if isinstance(asked, ProblemDetails):
        return _failed(asked)
    try:
        found = await desk.gamma(asked)
    except DarrmError as err:
        return _failed(problems.details_of(err))
    if isinstance(found, Pending):
        return BatchItem(status=202, answer=None, pending=pending_answer(found), problem=None)
    return BatchItem(status=200, answer=GammaAnswer.model_validate(found), pending=None, problem=None)


def _failed(details: ProblemDetails) -> BatchItem:
    return BatchItem.model_validate({"status": details.status, "answer": None, "pending": None, "problem": details})


def _columns(results: Sequence[BatchItem]) -> formats.Columns:
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
