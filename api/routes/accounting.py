"""Routes of accounting: composition, comparison and planning of releases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import Request, Response

from api.responses import DESIGN_RESPONSES, JOB_RESPONSES, pending_response, require_json
from api.routes.plurality import plurality_options
from api.routes.requests import Service, create_router, get_and_post, respond
from api.schemas.accounts import (
    ComposeAnswer,
    ComposeRequest,
    TotalRequest,
)
from api.schemas.comparison import PlanAnswer, PlanRequest, ReleasePlanRequest
from api.schemas.plurality import PluralityOptionsAnswer, PluralityOptionsRequest
from api.service.design_service import ACCOUNT_TIMES, Pending
from darrm_opt.answers.class_plans import group_plan_seconds
from darrm_opt.answers.running_time import (
    composition_seconds,
    estimate_cost,
    plan_account_seconds,
    plan_seconds,
)
from darrm_opt.noise import NoiseFunction
from darrm_opt.questions.design import Design
from darrm_opt.record import DesignSpec, problem_record

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


@get_and_post(
    router,
    "/plan",
    ReleasePlanRequest,
    summary="What to release within a total budget, and why",
    response_model=PlanAnswer | PluralityOptionsAnswer,
    responses=JOB_RESPONSES,
)
async def plan(params: PlanRequest, request: Request, service: Service) -> Response:
    """Compare every mechanism that answers so many queries within the total; say which is best, if one is needed.

    Voters that are not alike are named by `groups`, which a body has, and a query has not.
    """
    require_json(request)
    if isinstance(params, ReleasePlanRequest):
        return await _plan(params, request, service)
    service.check_voters(sum(group.K for group in params.groups))
    alike = await service.run_in_thread(params.alike)
    if isinstance(alike, ReleasePlanRequest):
        return await _plan(alike, request, service)
    if isinstance(alike, PluralityOptionsRequest):
        return await plurality_options(alike, request, service)
    problem = await service.run_in_thread(params.problem)
    seconds = await service.run_in_thread(partial(group_plan_seconds, problem, params.queries, fresh=params.fresh))
    return await respond(request, service, "plurality/options", params.model_dump(exclude_none=True), seconds, params)


async def _plan(params: ReleasePlanRequest, request: Request, service: Service) -> Response:
    """Return the plan of voters that are alike."""
    service.check_voters(params.K, ACCOUNT_TIMES)
    options = params.options()
    if options is not None:
        return await plurality_options(options, request, service)
    spec = await service.run_in_thread(params.spec)
    argument = _argument(params, spec, "prior", "least_accuracy", "time_limit")
    argument |= {"draw": params.draw(), **params.sampling_fields()}
    accounts = await service.run_in_thread(_account_seconds, plan_account_seconds, params, spec)
    seconds = plan_seconds(estimate_cost(spec).seconds, params.queries, params.time_limit, accounts)
    return await respond(request, service, "plan", argument, seconds, params)


def _argument(params: TotalRequest, spec: DesignSpec, *names: str) -> dict[str, Any]:
    """Return what the tasks of a comparison and of a plan have in common, and the fields that one alone has."""
    given = params.model_dump(include={"queries", "total_epsilon", "total_delta", "fresh", *names})
    return {"problem": problem_record(spec.problem), **given}


def _account_seconds(estimate: Callable[..., float], params: TotalRequest, spec: DesignSpec) -> float:
    """Return the expected time of the accounts [s]."""
    return estimate(spec.problem, params.queries, params.total(), params.draw(), fresh=params.fresh)
