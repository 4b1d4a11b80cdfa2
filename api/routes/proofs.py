"""Certificates for posted γ."""

from __future__ import annotations

from fastapi import Request, Response

from api import answering, problems
from api.bounds import check_voters
from api.routes.at import AtDesk, performed
from api.routes.reading import new_router
from api.routes.rendering import jsoned, plain
from api.schemas import VerifyAnswer, VerifyRequest
from darrm_opt.noise import NoiseFunction
from darrm_opt.record import problem_record

router = new_router("design")


@router.post(
    "/verify",
    summary="The certificate of a γ of yours",
    response_model=VerifyAnswer,
    responses=problems.responses(406, 422),
)
async def post_verify(asked: VerifyRequest, request: Request, desk: AtDesk) -> Response:
    """Prove from γ alone that a release is private, or refuse with the counterexample.

    A γ that is not private is a problem of the type `not-private`, which carries `worst_corners` and `excess`; one that
    can be neither proved nor refuted, within rounding, is `not-proven`.
    """
    plain(request)
    check_voters(asked.K, desk.settings)
    problem = asked.problem()
    gamma = NoiseFunction(asked.gamma, problem.K).values.tolist()  # refuses what is none, before any work
    record = problem_record(problem)
    proof = await performed(
        request, desk, answering.certificate, {"problem": record, "gamma": gamma, "arithmetic": asked.arithmetic}
    )
    answer = {"private": True, "problem": record, "certificate": proof, "warnings": list(problem.warnings)}
    return jsoned(VerifyAnswer.model_validate(answer))
