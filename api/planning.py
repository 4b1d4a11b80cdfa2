"""A plan as plain data, and what working one out would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api.comparing import drawn
from api.solver_process import Report
from darrm_opt.problem import Privacy
from darrm_opt.record import problem_from_record, problem_record

if TYPE_CHECKING:
    from darrm_opt.planning import Option, Plan

DESIGNS = 60
"""About how many γ a plan designs until its budget is met."""

QUERY_SECONDS = 0.03
"""Time that the accounts of a plan take for one query more [s], up to `MAX_COUNTED`, from where on they are coarser."""

MAX_COUNTED = 1000
"""Queries beyond which a plan takes no longer."""


def expected_seconds(of_a_solve: float, queries: int, time_limit: float | None = None) -> float:
    """Return about how long a plan takes [s], from how long one solve does; with a limit, little longer than that."""
    seconds = DESIGNS * of_a_solve + QUERY_SECONDS * min(queries, MAX_COUNTED)
    return seconds if time_limit is None else min(seconds, time_limit + of_a_solve)


def advice(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the plan of a ``problem``'s voters: what a solver process does (`api.answering`)."""
    from darrm_opt.planning import plan

    report(None)
    voters = problem_from_record(argument["problem"])
    return planned(
        plan(
            voters.K,
            voters.voter,
            argument["queries"],
            Privacy(argument["total_epsilon"], argument["total_delta"]),
            voters.affected,
            argument["prior"],
            fresh=argument["fresh"],
            least_accuracy=argument["least_accuracy"],
            **argument.get("draw", {}),
            time_limit=argument.get("time_limit"),
        )
    )


def planned(found: Plan) -> dict[str, Any]:
    """Return a plan as plain data: the situation as it was understood, the advice, and a row for each option."""
    asked = found.request
    voters = problem_record(asked.voters)
    return {
        "voters": {name: voters[name] for name in ("K", "epsilon", "Delta", "affected")},
        "fresh": asked.fresh,
        "draw": None if asked.bags is None else drawn(asked.bags, asked.K),
        "queries": asked.queries,
        "total": _privacy(asked.total),
        "prior": str(asked.objective),
        "least_accuracy": asked.least_accuracy,
        "verdict": found.verdict,
        "advice": found.advice,
        "options": [_option(option) for option in found.options],
        "remedies": [
            {
                "change": remedy.change,
                "queries": remedy.queries,
                "total": _privacy(remedy.total),
                "accuracy": remedy.accuracy,
                "words": remedy.words,
            }
            for remedy in found.suggestions
        ],
        "warnings": list(found.warnings),
    }


def _option(option: Option) -> dict[str, Any]:
    return {
        "way": option.mechanism,
        "fits": option.fits,
        "accuracy": option.accuracy,
        "queries": option.queries,
        "spent": None if option.spent is None else _privacy(option.spent),
        "account": option.account,
        "voters": option.voters,
        "problem": None if option.problem is None else problem_record(option.problem),
        "gamma": None if option.noise is None else option.noise.values.tolist(),
        "why": option.why,
    }


def _privacy(privacy: Privacy) -> dict[str, float]:
    return {"epsilon": privacy.epsilon, "delta": privacy.delta}
