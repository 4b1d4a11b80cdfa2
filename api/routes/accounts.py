"""What many releases cost."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from api import answering, problems
from api.bounds import check_voters
from api.desk import Pending
from api.routes.at import AtDesk, performed
from api.routes.reading import both_ways, new_router
from api.routes.rendering import ACCEPTED_LATER, jsoned, later, plain
from api.schemas import ComposeAnswer, ComposeRequest
from darrm_opt.noise import NoiseFunction
from darrm_opt.record import problem_record

router = new_router("accounting")


@both_ways(
    router,
    "/compose",
    ComposeRequest,
    summary="What many releases cost together",
    response_model=ComposeAnswer,
    responses={**ACCEPTED_LATER, **problems.responses(404, 406, 409, 422)},
)
async def compose(asked: ComposeRequest, request: Request, desk: AtDesk) -> Response:
    """Account for Q releases by every sound account; the best is the least of them."""
    plain(request)
    asked.check()
    record: dict[str, Any] | None = None
    gamma: list[float] | None = None
    if asked.K is None:
        epsilon, delta = asked.each()
    else:
        check_voters(asked.K, desk.settings)
        design = asked.design()
        if asked.gamma is None:
            found = await desk.gamma(design)
            if isinstance(found, Pending):
                return later(found)
            record, gamma = found["problem"], found["gamma"]
        else:
            problem = design.problem()
            record, gamma = problem_record(problem), NoiseFunction(asked.gamma, problem.K).values.tolist()
        epsilon, delta = record["target_epsilon"], record["delta"]
    accounts = await performed(
        request,
        desk,
        answering.composition,
        {
            "epsilon": epsilon,
            "delta": delta,
            "queries": asked.queries,
            "slack": asked.slack,
            "total_delta": asked.total_delta,
            "problem": record,
            "gamma": gamma,
            "fresh": asked.fresh,
        },
    )
    answer = {
        "each": {"epsilon": epsilon, "delta": delta},
        "queries": asked.queries,
        "fresh": asked.fresh,
        "problem": record,
        "gamma": gamma,
        "accounts": accounts,
    }
    return jsoned(ComposeAnswer.model_validate(answer))
