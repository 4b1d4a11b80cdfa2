"""Route of the composition of releases."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from api.responses import DESIGN_RESPONSES, pending_response, require_json
from api.routes.requests import Service, create_router, get_and_post, respond
from api.schemas.accounts import ComposeAnswer, ComposeRequest
from api.service.design_service import Pending
from darrm_opt.answers.running_time import composition_seconds
from darrm_opt.noise import NoiseFunction
from darrm_opt.questions.design import Design
from darrm_opt.record import problem_record

router = create_router("accounting")


@get_and_post(
    router,
    "/compose",
    ComposeRequest,
    summary="What many releases cost together",
    response_model=ComposeAnswer,
    responses=DESIGN_RESPONSES,
)
async def compose(params: ComposeRequest, request: Request, service: Service) -> Response:
    """Account for Q releases by every sound account; the best is the least of them."""
    require_json(request)
    record: dict[str, Any] | None = None
    gamma: list[float] | None = None
    if params.K is None:
        epsilon, delta = params.each()
    else:
        service.check_voters(params.K)
        design = Design.of(vars(params))
        if params.gamma is None:
            # A γ that is not given is the best one for the problem, found as by `POST /v1/gamma`: stored, or a job.
            answer = await service.design(design)
            if isinstance(answer, Pending):
                return pending_response(answer)
            record, gamma = answer["problem"], answer["gamma"]
        else:
            problem = await service.run_in_thread(design.problem)
            # Only its form is checked here: the task proves it private before anything is composed.
            record, gamma = problem_record(problem), NoiseFunction(params.gamma, problem.K).values.tolist()
        epsilon, delta = record["target_epsilon"], record["delta"]
    argument = {"epsilon": epsilon, "delta": delta, "problem": record, "gamma": gamma}
    argument |= params.model_dump(include={"queries", "slack", "total_delta", "fresh"})
    seconds = composition_seconds(params.queries, designed=record is not None, fresh=params.fresh)
    return await respond(request, service, "compose", argument, seconds, params)
