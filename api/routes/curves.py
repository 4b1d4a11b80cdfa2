"""Routes of curves: errors over p, utility over the allowance, δ over ε."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from api.errors.problem_details import NotCached
from api.responses import (
    DESIGN_RESPONSES,
    Columns,
    negotiated_form,
    pending_response,
    require_json,
    table_content,
    table_response,
)
from api.routes.requests import Service, create_router, find_answer, get_and_post, respond, until_disconnect
from api.schemas.curves import (
    CurveRequest,
    ErrorCurveAnswer,
    LeastAnswer,
    LeastRequest,
    ProfileAnswer,
    ProfileRequest,
    TradeoffAnswer,
    TradeoffRequest,
)
from api.service.design_service import DesignService, Pending
from darrm_opt.answers.curves import compute_error_curve
from darrm_opt.answers.running_time import (
    error_curve_seconds,
    estimate_cost,
    inverse_seconds,
    profile_seconds,
    tradeoff_seconds,
)
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.baselines import BASELINES
from darrm_opt.record import DesignSpec, problem_from_record, problem_record

router = create_router("curves")


@get_and_post(
    router,
    "/error-curve",
    CurveRequest,
    summary="Errors of γ_opt and of the baselines over p",
    response_model=ErrorCurveAnswer,
    responses={
        200: table_content("The curves; as CSV or npz, the columns curve, p, tv_error, disagreement."),
        **DESIGN_RESPONSES,
    },
)
async def error_curve(params: CurveRequest, request: Request, service: Service) -> Response:
    """Compare γ_opt with every baseline that is as private, where all voters share one p."""
    form = negotiated_form(request)
    # Certified first, and stored: many curves are of one γ.
    answer = await service.design(params)
    if isinstance(answer, Pending):
        return pending_response(answer)
    # Without what the answer says of its own place in the store: the process reads a solution's record.
    solution = {name: value for name, value in answer.items() if name not in {"id", "cached", "nearest"}}
    argument = {"solution": solution, "points": params.points, "baselines": params.baselines}
    seconds = error_curve_seconds(params.K, params.points)
    curves = await until_disconnect(request, service.compute(compute_error_curve, argument, seconds))
    rows = [
        (name, p, tv, disagreement)
        for name, curve in curves["curves"].items()
        for p, tv, disagreement in zip(curves["p"], curve["tv_error"], curve["disagreement"], strict=True)
    ]
    names = ("curve", "p", "tv_error", "disagreement")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    record = {name: answer[name] for name in _CURVE_FIELDS} | curves
    return table_response(ErrorCurveAnswer.model_validate(record), form, "error-curve", columns)


_CURVE_FIELDS = ("id", "cached", "nearest", "shape", "status", "warnings")


@get_and_post(
    router,
    "/tradeoff",
    TradeoffRequest,
    summary="Utility over the privacy allowance",
    response_model=TradeoffAnswer,
    responses={
        200: table_content(
            "The points in the order asked; as CSV or npz, the columns m, target_epsilon, delta, utility, upper_bound, "
            "gap, status, id, and those of the average errors, such as optimal_tv_error."
        ),
        **DESIGN_RESPONSES,
    },
)
async def tradeoff(params: TradeoffRequest, request: Request, service: Service) -> Response:
    """Design γ_opt at many allowances; each is certified and stored like any other."""
    form = negotiated_form(request)
    service.check_voters(params.K)
    specs, seconds = await service.run_in_reader(_estimate, params, service)
    argument = {
        "problems": [problem_record(spec.problem) for spec in specs],
        "over": "m" if params.target_epsilons is None else "target_epsilon",
        "objective": str(specs[0].objective),
        "time_limit": service.settings.time_limit,
        **params.model_dump(include={"shape", "backend", "baselines"}),
    }
    answer = await find_answer(request, service, "tradeoff", argument, seconds, params)
    if isinstance(answer, Pending):
        return pending_response(answer)
    return table_response(answer, form, "tradeoff", _tradeoff_columns(answer.model_dump()))


def _estimate(params: TradeoffRequest, service: DesignService) -> tuple[list[DesignSpec], float]:
    """Return the designs, and the expected time of those not stored [s]; reject what this server may not solve."""
    specs = params.specs()
    present = service.store.present({spec.key for spec in specs})
    missing = [spec for spec in specs if spec.key not in present]
    if missing and service.settings.solve == "off":
        raise NotCached(
            f"{len(missing)} of these {len(specs)} answers are not stored, and solving is off on this server."
        )
    compared = len(BASELINES if params.baselines is None else params.baselines)
    return specs, tradeoff_seconds(missing, specs, compared)


def _tradeoff_columns(answer: dict[str, Any]) -> Columns:
    columns = {name: answer[name] for name in ("m", "target_epsilon", "delta", "utility")}
    columns |= {name: [point[name] for point in answer["points"]] for name in ("upper_bound", "gap", "status", "id")}
    for name, curve in (answer["curves"] or {}).items():
        columns |= {f"{name}_{measure}": curve[measure] for measure in ("tv_error", "disagreement")}
    return columns


@get_and_post(
    router,
    "/least",
    LeastRequest,
    summary="The least m, target ε or voter's ε for a wanted utility",
    response_model=LeastAnswer,
    responses=DESIGN_RESPONSES,
)
async def least(params: LeastRequest, request: Request, service: Service) -> Response:
    """Search for the least number whose certified γ reaches a utility or an agreement, and the one next below."""
    require_json(request)
    service.check_voters(params.K)
    spec = await service.run_in_thread(params.spec)
    if service.settings.solve == "off":
        raise NotCached("The search solves many problems, and solving is off on this server.")
    argument = params.model_dump() | {"objective": str(spec.objective), "time_limit": service.settings.time_limit}
    if params.profile is not None:  # the points that are chosen from a curve
        argument["profile"] = [list(point) for point in spec.problem.voter.points]
    seconds = inverse_seconds(estimate_cost(spec).seconds, params.digits)
    return await respond(request, service, "least", argument, seconds, params)


@get_and_post(
    router,
    "/profile",
    ProfileRequest,
    summary="Privacy profile of one release",
    response_model=ProfileAnswer,
    responses={
        200: table_content("The profile; as CSV or npz, the columns epsilon, delta, attained."),
        **DESIGN_RESPONSES,
    },
)
async def profile(params: ProfileRequest, request: Request, service: Service) -> Response:
    """Find the least δ at each ε′, for γ_opt or for a given γ, private or not."""
    form = negotiated_form(request)
    service.check_voters(params.K)
    fields: dict[str, Any] = {"id": None, "nearest": None}
    if params.gamma is None:
        # A γ that is not given is the best one, found as by `POST /v1/gamma`: stored, or a job.
        design = await service.design(params)
        if isinstance(design, Pending):
            return pending_response(design)
        fields |= {name: design[name] for name in ("id", "nearest", "problem", "gamma", "warnings")}
    else:
        problem = await service.run_in_thread(params.problem)
        gamma = NoiseFunction(params.gamma, problem.K).values.tolist()  # refuses what is none, before any work
        fields |= {"problem": problem_record(problem), "gamma": gamma, "warnings": list(problem.warnings(gamma))}
    points = params.points if params.epsilons is None else len(params.epsilons)
    argument = {**fields, "epsilons": params.epsilons, "points": params.points}
    seconds = profile_seconds(problem_from_record(fields["problem"]), points)
    answer = await find_answer(request, service, "profile", argument, seconds, params)
    if isinstance(answer, Pending):
        return pending_response(answer)
    columns = answer.model_dump()
    return table_response(answer, form, "profile", {name: columns[name] for name in ("epsilon", "delta", "attained")})
