"""Composition, comparison and planning of releases: their tasks, and their results as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from darrm_opt.accounting.composition import general, simple
from darrm_opt.accounting.optimal import optimal
from darrm_opt.accounting.pld import pld
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release import Release
from darrm_opt.accounting.total import MOST_RELEASES, best, probability, total_delta_of
from darrm_opt.answers import Report
from darrm_opt.ensembles.bags import Bags
from darrm_opt.ensembles.compare import Comparison
from darrm_opt.ensembles.teaching import Lesson, Taught
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.record import problem_from_record, problem_record

if TYPE_CHECKING:
    from darrm_opt.planning import Option, Plan


def composition_to_dict(
    each: Privacy, queries: int, slack: float, total_delta: float | None = None, release: Release | None = None
) -> dict[str, dict[str, Any]]:
    """Return the total privacy of ``queries`` releases by each account.

    Args:
        each: (ε, δ) of one release, ε finite.
        queries: Q, 1..`MOST_RELEASES`.
        slack: δ′ of the closed form ``general`` [probability], in [0, 1).
        total_delta: δ at which every account but ``simple`` and ``general`` is asked [probability]; None for that of
            ``general``.
        release: the γ that is released; with it also ``profile``, ``bits`` and ``best``.

    Raises:
        InvalidInput: a number is outside its range.
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries > MOST_RELEASES:
        raise InvalidInput("queries", queries, f"at most {MOST_RELEASES} releases")
    wanted = total_delta_of(each, queries, slack) if total_delta is None else probability(total_delta, "total_delta")
    answer = {
        "simple": _account_to_dict(lambda: simple(each.epsilon, each.delta, queries)),
        "general": _account_to_dict(lambda: general(each.epsilon, each.delta, queries, slack)),
    }
    if release is None:
        answer["optimal"] = _account_to_dict(lambda: optimal(each.epsilon, each.delta, queries, wanted))
        answer["pld"] = _account_to_dict(lambda: pld(each.epsilon, each.delta, queries, wanted).privacy)
        return answer
    total = best(release, queries, wanted)
    for name in ("optimal", "pld", "profile", "bits"):
        refusal = total.refused.get(name)
        answer[name] = _refusal_to_dict(refusal) if refusal is not None else _total_to_dict(total.totals[name])
    answer["best"] = _account_to_dict(lambda: total.best)
    if answer["best"]["epsilon"] is not None:
        answer["best"]["method"] = total.method
    return answer


def _account_to_dict(account: Callable[[], Privacy]) -> dict[str, Any]:
    try:
        total = account()
    except (BelowLeakFloor, TooMuchWork, BackendUnavailable) as err:
        return _refusal_to_dict(err)
    if total.epsilon == float("inf"):
        return {"epsilon": None, "delta": None, "refused": "nothing is promised: the total delta reaches 1"}
    return _total_to_dict(total)


def _total_to_dict(total: Privacy) -> dict[str, Any]:
    return {"epsilon": total.epsilon, "delta": total.delta}


def _refusal_to_dict(err: Exception) -> dict[str, Any]:
    return {"epsilon": None, "delta": None, "refused": str(err)}


def compare_mechanisms(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return every way of releasing for ``voters`` within ``total_epsilon`` and ``total_delta`` over ``queries``."""
    from darrm_opt.design.objective import Objective, as_objective
    from darrm_opt.ensembles.compare import compare

    report(None)
    prior: Any = None if argument["prior"] is None else as_objective(argument["prior"])
    return comparison_to_dict(
        compare(
            problem_from_record(argument["problem"]),
            argument["queries"],
            Privacy(argument["total_epsilon"], argument["total_delta"]),
            objective=argument["objective"],
            prior=prior.prior if isinstance(prior, Objective) else None,
            **{name: argument[name] for name in ("n", "subsample_size", "replacement", "sampling") if name in argument},
        )
    )


def compose_releases(argument: dict[str, Any], report: Report) -> dict[str, Any]:
    """Return the total privacy of ``queries`` releases, each (``epsilon``, ``delta``), or of ``gamma`` for ``problem``."""
    from darrm_opt.accounting.release import Release

    report(None)
    release = None
    if argument["problem"] is not None:
        release = Release.of((argument["gamma"], problem_from_record(argument["problem"])))
    each = Privacy(argument["epsilon"], argument["delta"])
    return composition_to_dict(each, argument["queries"], argument["slack"], argument["total_delta"], release)


def comparison_to_dict(found: Comparison) -> dict[str, Any]:
    """Return a comparison as plain data: the voters, the budget, and a row for each way."""
    voters = problem_record(found.problem)
    return {
        "voters": {name: voters[name] for name in ("K", "epsilon", "Delta", "affected")},
        "queries": found.queries,
        "total": {"epsilon": found.total.epsilon, "delta": found.total.delta},
        "objective": found.objective,
        "draw": None if found.bags is None else _subsampling_to_dict(found.bags, found.problem.K),
        "rows": [
            {
                "name": row.name,
                "knob": row.knob,
                "value": row.value,
                "gamma": None if row.noise is None else row.noise.values.tolist(),
                "epsilon": row.epsilon,
                "utility": row.utility,
                "disagreement": row.disagreement,
                "tv_error": row.tv_error,
            }
            for row in found.rows
        ],
        "not_compared": found.not_compared,
    }


def _subsampling_to_dict(bags: Bags, K: int) -> dict[str, Any]:
    return {
        "n": bags.n,
        "subsample_size": bags.subsample_size,
        "replacement": bags.replacement,
        "sampling": bags.sampling,
        "chance": bags.chance,
        "reached": bags.reach(K).mean,
    }


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
        )
    )


def plan_to_dict(found: Plan) -> dict[str, Any]:
    """Return a plan as plain data: the situation as it was understood, the advice, and a row for each option."""
    asked = found.situation
    voters = problem_record(asked.voters)
    return {
        "voters": {name: voters[name] for name in ("K", "epsilon", "Delta", "affected")},
        "fresh": asked.fresh,
        "queries": asked.queries,
        "total": _privacy_to_dict(asked.total),
        "prior": str(asked.objective),
        "least_accuracy": asked.least_accuracy,
        "verdict": found.verdict,
        "advice": found.advice,
        "options": [_option_to_dict(option) for option in found.options],
        "remedies": [
            {
                "change": remedy.change,
                "queries": remedy.queries,
                "total": _privacy_to_dict(remedy.total),
                "accuracy": remedy.accuracy,
                "words": remedy.words,
            }
            for remedy in found.remedies
        ],
        "warnings": list(found.warnings),
    }


def _option_to_dict(option: Option) -> dict[str, Any]:
    return {
        "way": option.way,
        "fits": option.fits,
        "accuracy": option.accuracy,
        "queries": option.queries,
        "spent": None if option.spent is None else _privacy_to_dict(option.spent),
        "account": option.account,
        "voters": option.voters,
        "problem": None if option.problem is None else problem_record(option.problem),
        "gamma": None if option.noise is None else option.noise.values.tolist(),
        "why": option.why,
    }


def _privacy_to_dict(privacy: Privacy) -> dict[str, float]:
    return {"epsilon": privacy.epsilon, "delta": privacy.delta}


def lesson_to_dict(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as plain data: the data, the budget, and a row for each aggregator."""
    return {
        "data": lesson.data.name,
        "records": len(lesson.data.y),
        "labels": len(lesson.data.truth),
        "teachers": lesson.n_chunks,
        "partitions": lesson.n_partitions,
        "total": {"epsilon": lesson.total.epsilon, "delta": lesson.total.delta},
        "stopping": "the number of labels is fixed before the data are looked at, and paid for in advance",
        "accuracy_without_noise": lesson.teachers_accuracy,
        "aggregators": [_aggregator_to_dict(each) for each in lesson.taught],
    }


def _aggregator_to_dict(each: Taught) -> dict[str, Any]:
    guarantee = each.guarantee
    told: dict[str, Any] = {
        "name": each.name,
        each.noise[0]: each.noise[1],
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "basis": guarantee.basis,
        "accuracy": each.accuracy,
        "expected_accuracy": each.expected_accuracy,
        "labels": each.labels.tolist(),
    }
    if each.loss is not None and each.records is not None:
        told["for_the_owner_only"] = {
            "warning": each.loss.warning,
            "epsilon_of_this_dataset": each.loss.epsilon,
            "epsilon_of_records": dict(
                zip(("least", "median", "largest"), np.quantile(each.records, (0, 0.5, 1)).tolist(), strict=True)
            ),
            "labels_by_the_stopping_rule_of_the_source": each.leaking_labels,
        }
    return told
