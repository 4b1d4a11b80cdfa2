"""Curves: errors over p, utility over the allowance, δ over ε."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from api import answering, formats, kept, problems
from api.bounds import check_voters, check_work
from api.desk import Desk, Pending
from api.estimating import estimate
from api.refusals import NotKept
from api.routes.at import AtDesk, performed
from api.routes.reading import both_ways, new_router
from api.routes.rendering import ACCEPTED_LATER, form_of, later, tabled
from api.schemas import (
    ACCEPTED,
    MAX_POINTS,
    CurveRequest,
    ErrorCurveAnswer,
    ProfileAnswer,
    ProfileRequest,
    TradeoffAnswer,
    TradeoffRequest,
)
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.record import problem_record
from solver_cache.key import Request as Question

router = new_router("curves")


@both_ways(
    router,
    "/error-curve",
    CurveRequest,
    summary="Errors of γ_opt and of the baselines over p",
    response_model=ErrorCurveAnswer,
    responses={
        200: formats.content("The curves; as CSV or npz, the columns curve, p, tv_error, disagreement."),
        **ACCEPTED_LATER,
        **problems.responses(404, 406, 409, 422),
    },
)
async def error_curve(asked: CurveRequest, request: Request, desk: AtDesk) -> Response:
    """Compare γ_opt with every baseline that is as private, where all voters share one p."""
    form = form_of(request)
    if not 2 <= asked.points <= MAX_POINTS:
        raise InvalidInput("points", asked.points, ACCEPTED["points"])
    found = await desk.gamma(asked)
    if isinstance(found, Pending):
        return later(found)
    solution = {name: value for name, value in found.items() if name not in {"id", "cached", "nearest"}}
    drawn = await performed(
        request,
        desk,
        answering.error_curve,
        {"solution": solution, "points": asked.points, "baselines": asked.baselines},
    )
    rows = [
        (name, p, tv, both)
        for name, curve in drawn["curves"].items()
        for p, tv, both in zip(drawn["p"], curve["tv_error"], curve["disagreement"], strict=True)
    ]
    names = ("curve", "p", "tv_error", "disagreement")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    told = {name: found[name] for name in _OF_A_CURVE} | drawn
    return tabled(ErrorCurveAnswer.model_validate(told), form, "error-curve", columns)


_OF_A_CURVE = ("id", "cached", "nearest", "shape", "status", "warnings")


@both_ways(
    router,
    "/tradeoff",
    TradeoffRequest,
    summary="Utility over the privacy allowance",
    response_model=TradeoffAnswer,
    responses={
        200: formats.content(
            "The points in the order asked; as CSV or npz, the columns m, target_epsilon, delta, utility, upper_bound, "
            "gap, status, id, and those of the average errors, such as optimal_tv_error."
        ),
        **problems.responses(404, 406, 422),
    },
)
async def tradeoff(asked: TradeoffRequest, request: Request, desk: AtDesk) -> Response:
    """Design γ_opt at many allowances; each certified, and kept like any other."""
    form = form_of(request)
    check_voters(asked.K, desk.settings)
    questions, known = await desk.apart(_known, asked, desk)
    found = await performed(
        request,
        desk,
        answering.tradeoff,
        {
            "problems": [problem_record(question.problem) for question in questions],
            "known": known,
            "objective": str(questions[0].objective),
            "shape": asked.shape,
            "backend": asked.backend,
            "baselines": asked.baselines,
            "time_limit": desk.settings.time_limit,
        },
    )
    records: list[dict[str, Any]] = found["solutions"]
    new = [
        (question, record)
        for question, record, old, doubt in zip(questions, records, known, found["doubts"], strict=True)
        if old is None and not doubt
    ]
    await desk.apart(kept.keep_records, new, desk.store)
    points = [
        {"id": question.key, "cached": old is not None, **{name: record[name] for name in _OF_A_POINT}}
        for question, old, record in zip(questions, known, records, strict=True)
    ]
    told = [record["problem"] for record in records]
    answer = {
        "over": "m" if asked.target_epsilons is None else "target_epsilon",
        "objective": records[0]["objective"],
        "shape": records[0]["shape"],
        **{name: [problem[name] for problem in told] for name in ("m", "target_epsilon", "delta")},
        "utility": [record["utility"] for record in records],
        "points": points,
        "curves": found["curves"],
    }
    return tabled(TradeoffAnswer.model_validate(answer), form, "tradeoff", _tradeoff_columns(answer))


_OF_A_POINT = ("problem", "gamma", "utility", "upper_bound", "gap", "status", "warnings")


def _known(asked: TradeoffRequest, desk: Desk) -> tuple[list[Question], list[dict[str, Any] | None]]:
    """Return the questions, and their kept answers; refuse what would take too long, or what is not to be solved."""
    questions = asked.questions()
    known = kept.kept_records(questions, desk.store)
    missing = [question for question, record in zip(questions, known, strict=True) if record is None]
    if missing and desk.settings.solve == "off":
        raise NotKept(
            f"{len(missing)} of these {len(questions)} answers are not kept, and solving is off on this server."
        )
    check_work(sum(estimate(question).seconds for question in missing), desk.settings)
    return questions, known


def _tradeoff_columns(answer: dict[str, Any]) -> formats.Columns:
    columns = {name: answer[name] for name in ("m", "target_epsilon", "delta", "utility")}
    columns |= {name: [point[name] for point in answer["points"]] for name in ("upper_bound", "gap", "status", "id")}
    for name, curve in (answer["curves"] or {}).items():
        columns |= {f"{name}_{measure}": curve[measure] for measure in ("tv_error", "disagreement")}
    return columns


@both_ways(
    router,
    "/profile",
    ProfileRequest,
    summary="How private one release really is",
    response_model=ProfileAnswer,
    responses={
        200: formats.content("The profile; as CSV or npz, the columns epsilon, delta, attained."),
        **ACCEPTED_LATER,
        **problems.responses(404, 406, 409, 422),
    },
)
async def profile(asked: ProfileRequest, request: Request, desk: AtDesk) -> Response:
    """Find the least δ at each ε′, for γ_opt or for a γ that is given, whether that is private or not."""
    form = form_of(request)
    check_voters(asked.K, desk.settings)
    asked.check()
    told: dict[str, Any] = {"id": None, "nearest": None}
    if asked.gamma is None:
        found = await desk.gamma(asked)
        if isinstance(found, Pending):
            return later(found)
        told |= {name: found[name] for name in ("id", "nearest", "problem", "gamma", "warnings")}
    else:
        problem = asked.problem()
        gamma = NoiseFunction(asked.gamma, problem.K).values.tolist()  # refuses what is none, before any work
        told |= {"problem": problem_record(problem), "gamma": gamma, "warnings": list(problem.warnings)}
    wanted = {"epsilons": asked.epsilons, "points": asked.points}
    drawn = await performed(
        request, desk, answering.profile, {"problem": told["problem"], "gamma": told["gamma"], **wanted}
    )
    columns = {name: drawn[name] for name in ("epsilon", "delta", "attained")}
    return tabled(ProfileAnswer.model_validate(told | drawn), form, "profile", columns)
