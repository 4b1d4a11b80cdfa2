"""Which way of releasing is the most accurate within one budget."""

from __future__ import annotations

from fastapi import Request, Response

from api import answering, problems
from api.bounds import check_voters, check_work
from api.estimating import estimate
from api.routes.at import AtDesk, performed
from api.routes.reading import both_ways, new_router
from api.routes.rendering import jsoned, plain
from api.schemas import CompareAnswer, CompareRequest
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_record

router = new_router("accounting")

SOLVES = 25
"""About how many γ a comparison designs until its budget is met."""

DRAWN_SOLVES = 100
"""What that comes to where every account is an average over the voters that a record reaches."""


ACCOUNTS, RELEASE_SECONDS, DRAWN_SECONDS = 50, 3e-4, 2e-4
"""Accounts that a comparison takes, and the time for one release in one of them [s]: one with all affected voters; each number
of voters that a record may reach."""


def accounts_seconds(problem: Problem, asked: CompareRequest) -> float:
    """Return about how long the accounts of a comparison take [s]; they grow with the releases.

    Raises:
        TooMuchWork: it is refused anyway.
    """
    from darrm_opt.accounting.freshness import effective_voters
    from darrm_opt.bagging.bags import checked_bags
    from darrm_opt.comparison.compare import check_comparable, mixture_steps

    bags = checked_bags(problem, **asked.draw())
    reach, total = (
        None if bags is None else bags.affected_distribution(problem.K),
        Privacy(asked.total_epsilon, asked.total_delta),
    )
    problem = effective_voters(problem, asked.queries, fresh=asked.fresh)
    check_comparable(problem, asked.queries, total, reach)
    if reach is None:
        return ACCOUNTS * RELEASE_SECONDS * asked.queries
    return ACCOUNTS * DRAWN_SECONDS * mixture_steps(problem, asked.queries, total, reach)


@both_ways(
    router,
    "/compare",
    CompareRequest,
    summary="Every way of releasing, at the same total privacy",
    response_model=CompareAnswer,
    responses=problems.responses(406, 422),
)
async def compare(asked: CompareRequest, request: Request, desk: AtDesk) -> Response:
    """Turn every way of releasing up as far as the total budget allows, and see how often each is wrong."""
    plain(request)
    check_voters(asked.K, desk.settings)
    asked.check()
    question = await desk.apart(asked.question)
    accounts = await desk.apart(lambda: accounts_seconds(question.problem, asked))
    solves = SOLVES if asked.n is None else DRAWN_SOLVES
    check_work(solves * estimate(question).seconds + accounts, desk.settings)
    found = await performed(
        request,
        desk,
        answering.comparison,
        {
            "problem": problem_record(question.problem),
            "queries": asked.queries,
            "total_epsilon": asked.total_epsilon,
            "total_delta": asked.total_delta,
            "objective": asked.objective,
            "prior": asked.prior,
            "fresh": asked.fresh,
            **asked.draw(),
        },
    )
    return jsoned(CompareAnswer.model_validate(found))
