"""Composition, comparison and planning of releases: their tasks, and their results as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from darrm_opt.accounting.accounts import MAX_RELEASES
from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.pld import pld_composition
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import probability, total_delta_of, total_privacy
from darrm_opt.answers import (
    Report,
    budget_body,
    draw_body,
    drawn_bags,
    drawn_problem,
    sampling_of,
    voters_body,
)
from darrm_opt.answers.filed import filed
from darrm_opt.answers.verification import verify_plan
from darrm_opt.arguments import whole_number
from darrm_opt.bagging import Bags
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import problem_from_record, problem_record

if TYPE_CHECKING:
    from darrm_opt.planning import Option, Plan


def composition_to_dict(
    privacy: Privacy,
    queries: int,
    slack: float,
    total_delta: float | None = None,
    release: Release | None = None,
    *,
    fresh: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the total privacy of ``queries`` releases by each account.

    ``slack``: δ′ of the closed form; ``total_delta``: that of the other accounts, by default that of the closed form. A
    ``release`` adds ``profile``, ``bits`` and ``total_privacy``, and ``models`` for voters that were trained once,
    which the other accounts then take as not private.
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries > MAX_RELEASES:
        raise InvalidInput("queries", queries, f"at most {MAX_RELEASES} releases")
    if release is None and fresh:
        raise InvalidInput(
            "fresh", fresh, "no fresh without voters", "(epsilon, delta) of a release is all that counts here."
        )
    delta = total_delta_of(privacy, queries, slack) if total_delta is None else probability(total_delta, "total_delta")
    # Of a release that is known by its (ε, δ) alone these are all; laws, below, allow more accounts.
    answer = {
        "simple": _account_to_dict(lambda: basic_composition(privacy.epsilon, privacy.delta, queries)),
        "general": _account_to_dict(lambda: kov_composition(privacy.epsilon, privacy.delta, queries, slack)),
    }
    if release is None:
        answer["optimal"] = _account_to_dict(
            lambda: optimal_composition(privacy.epsilon, privacy.delta, queries, delta)
        )
        answer["pld"] = _account_to_dict(
            lambda: pld_composition(privacy.epsilon, privacy.delta, queries, delta).privacy
        )
        return answer
    total = total_privacy(release, queries, delta, fresh=fresh)
    names = ["optimal", "pld", "profile", "bits"]
    if release.effective(queries, fresh=fresh) is not release:  # (mε, δ) is no longer what one release costs
        names = ["simple", "general", *names, "models"]
    for name in names:
        refusal = total.refused.get(name)
        answer[name] = _refusal_to_dict(refusal) if refusal is not None else asdict(total.totals[name])
    if total.epsilon_at_least not in (None, math.inf):
        answer["bits"]["epsilon_at_least"] = total.epsilon_at_least
    # The least of those above, named: a reader need not know which of them hold.
    answer["best"] = _account_to_dict(lambda: total.best)
    if answer["best"]["epsilon"] is not None:
        answer["best"]["method"] = total.method
    return answer


def _account_to_dict(account: Callable[[], Privacy]) -> dict[str, Any]:
    try:
        total = account()
    except (DeltaTooSmall, TooMuchWork, BackendUnavailable) as err:
        return _refusal_to_dict(err)
    if total.epsilon == math.inf:
        return {"epsilon": None, "delta": None, "refused": "nothing is promised: the total delta reaches 1"}
    return asdict(total)


def _refusal_to_dict(err: Exception) -> dict[str, Any]:
    return {"epsilon": None, "delta": None, "refused": str(err)}


def compose_releases(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the total privacy of ``queries`` releases of (``epsilon``, ``delta``), or of ``gamma`` for ``problem``."""
    report(None)
    problem, release = argument["problem"], None
    if problem is not None:
        release = Release.of((argument["gamma"], problem_from_record(problem)))
    privacy = Privacy(argument["epsilon"], argument["delta"])
    return composition_to_dict(
        privacy, argument["queries"], argument["slack"], argument["total_delta"], release, fresh=argument["fresh"]
    )


def subsampling_to_dict(bags: Bags, K: int) -> dict[str, Any]:
    """Return how subsamples are drawn, and whom one record reaches."""
    return asdict(bags) | {"chance": bags.chance, "reached": bags.affected_distribution(K).mean}


def plan_releases(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the plan of a ``problem``'s voters: what it advises, and a row for each option."""
    from darrm_opt.planning import plan

    report(None)
    voters = problem_from_record(argument["problem"])
    return plan_to_dict(
        plan(
            voters.K,
            voters.voter,
            argument["queries"],
            Privacy(argument["total_epsilon"], argument["total_delta"]),
            voters.affected,
            argument["prior"],
            fresh=argument["fresh"],
            least_accuracy=argument["least_accuracy"],
            bags=drawn_bags(argument.get("draw", {})),
            sampling=sampling_of(argument) if argument.get("records") is not None else None,
            time_limit=argument.get("time_limit"),
        )
    )


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain data: the request as it was understood, the advice, and a row for each option."""
    question = plan.question
    return {
        "voters": voters_body(question.voters),
        "fresh": question.fresh,
        "draw": None if question.bags is None else subsampling_to_dict(question.bags, question.K),
        "queries": question.queries,
        "total": asdict(question.total),
        "prior": str(question.objective) if question.law is None else question.prior_text,
        "least_accuracy": question.least_accuracy,
        "options": [_option_to_dict(option) for option in plan.options],
        **_filed(plan),
        **conclusion_to_dict(plan),
    }


def _filed(plan: Plan) -> dict[str, Any]:
    """Return what a statement says of the γ that is recommended; None where another thing is, or with samples."""
    question, best, mechanism = plan.question, plan.best, None
    if best is not None and best.noise is not None and best.problem is not None and question.sampling is None:
        mechanism = CertifiedNoiseFunction(Release(best.noise, best.problem), fresh=question.fresh)
    return filed(mechanism, question.total, question.queries)


def conclusion_to_dict(plan: Plan) -> dict[str, Any]:
    """Return what a plan concludes from its options, as plain data."""
    return {
        "verdict": plan.verdict,
        "advice": plan.advice,
        "suggestions": [asdict(suggestion) for suggestion in plan.suggestions],
        "warnings": list(plan.warnings),
    }


def _option_to_dict(option: Option) -> dict[str, Any]:
    return {
        "mechanism": option.name,
        "fits": option.fits,
        "outcome": option.outcome,
        "accuracy": option.accuracy,
        "queries": option.queries,
        "spent": None if option.spent is None else asdict(option.spent),
        "account": option.account,
        "voters": option.voters,
        "problem": None if option.problem is None else problem_record(option.problem),
        "gamma": None if option.noise is None else option.noise.values.tolist(),
        "why": option.why,
    }


def recheck_plan(argument: dict[str, Any], result: dict[str, Any]) -> None:
    """Prove every γ of a stored plan again; raises as `verify_plan`."""
    trained_once = not argument["fresh"] and argument["queries"] > 1
    problem = problem_from_record(argument["problem"])
    if argument.get("records") is not None:
        problem = drawn_problem(problem, sampling_of(argument))
    verify_plan(result, problem, _stated_question(problem, {**argument, **argument["draw"]}), trained_once=trained_once)


def _stated_question(problem: Problem, argument: dict[str, Any]) -> dict[str, Any]:
    """Return the question of a task as a client states it."""
    names = ("queries", "total_epsilon", "total_delta", "objective", "prior", "fresh", "least_accuracy")
    draw = draw_body(drawn_bags(argument))
    return budget_body(problem, argument["queries"], Privacy(argument["total_epsilon"], argument["total_delta"])) | {
        **{name: argument[name] for name in names if name in argument},
        **draw,
    }


def composition_answer(argument: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the totals with what they are totals of."""
    return {
        "each": {"epsilon": argument["epsilon"], "delta": argument["delta"]},
        **{name: argument[name] for name in ("queries", "fresh", "problem", "gamma")},
        "accounts": result,
    }
