"""Suggestions: fewer queries or a larger total that make an option useful if none is; each is proved.

The parameter of each mechanism, or a factor of γ_opt, is raised until it is just accurate enough. The accounts then
give the cost of all queries, and the number that fits the total; γ_opt designed for that number is another proposal, as
its shape depends on it. Another γ may need slightly less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from darrm_opt.accounting.accounts import SLOW, STATED, compose_models
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import estimated_epsilon, most_releases, total_of
from darrm_opt.design.report import text_above
from darrm_opt.design.solution import Solution
from darrm_opt.mechanisms import calibrated_names, mechanism_class
from darrm_opt.mechanisms.base import faults_left_out
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.candidates import best_target_of, calibrated_option, cost, provable_problem
from darrm_opt.planning.option import Option, Suggestion
from darrm_opt.planning.question import Question
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy
from darrm_opt.search import least_fitting

MAX_SHAPES = 3  # number of options whose γ are made accurate enough if accounts are quick; elsewhere one
MAX_RAISES = 4  # maximum number of times that a total is raised because a search within it is not accurate enough
MIN_LEAD = 0.01  # smallest lead over a coin from which the accuracy shows by how much to raise a total
MAX_FACTOR = 2.0**60  # largest factor by which a γ is scaled


@dataclass(frozen=True)
class _Proposal:
    """A γ that is just accurate enough, and its option: a mechanism with a parameter, or optimal."""

    name: str
    release: Release


def suggestions(question: Question, options: Sequence[Option]) -> tuple[Suggestion, ...]:
    """Return changes of the request that give the required accuracy."""
    with_gamma = [option for option in options if option.fits and option.noise is not None]
    found = []
    for option in with_gamma[: MAX_SHAPES if question.quick else 1]:
        with faults_left_out(option.name):
            found.append(_tuned_proposal(option, question))
    proposals = _cheapest([each for each in found if each is not None], question)
    fewer = [_fewer_queries(each.release, question) for each in proposals]
    most = max((each.queries or 0 for each in fewer if each is not None), default=0)
    if most and (question.quick or not question.total.delta):
        # γ_opt has another shape for fewer queries.
        designed = _scaled_proposal(_quick_design(question, most, question.total).noise, question)
        proposals += [] if designed is None else [designed]
        fewer += [] if designed is None else [_fewer_queries(designed.release, question)]
    candidates = [
        _private_models_total(question),
        max((each for each in fewer if each is not None), key=lambda each: each.queries or 0, default=None),
        _least_total(proposals, question),
    ]
    return tuple(suggestion for suggestion in candidates if suggestion is not None)


def _least_total(proposals: Sequence[_Proposal], question: Question) -> Suggestion | None:
    """Return the smallest total of a proposal; if searches are quick, one within which a search finds it."""
    totals = [(_larger_total(each.release, question), each.name) for each in proposals]
    found = sorted(((each, name) for each, name in totals if each is not None), key=lambda pair: pair[0].total.epsilon)
    least: Suggestion | None = None
    for total, name in found if question.quick else found[:1]:
        if least is None or total.total.epsilon < least.total.epsilon:
            confirmed = _confirmed_suggestion(total, question, name) if question.quick else total
            least = min(least or confirmed, confirmed, key=lambda each: each.total.epsilon)
    return least


def _cheapest(proposals: list[_Proposal], question: Question) -> list[_Proposal]:
    """Return the proposal of which all queries cost least by an estimate; all of them without an estimate."""
    if question.quick:  # each account takes a tenth of a second
        parts = [each.release.guarantees(question.queries, fresh=question.fresh) for each in proposals]
        estimates = [estimated_epsilon(each, question.total.delta) for each in parts]
        known = [estimate for estimate in estimates if estimate is not None]
        if known and len(known) == len(proposals):
            return [proposals[estimates.index(min(known))]]
    return proposals


def _quick_design(question: Question, queries: int, total: Privacy) -> Solution:
    """Return γ_opt of the best target of a number of queries within a total, as `plan` finds it."""
    return best_target_of(question, question.released, queries, total, quick=True).solution


def _confirmed_suggestion(larger: Suggestion, question: Question, name: str) -> Suggestion:
    """Return the total, raised until a quick search for a mechanism within it is accurate enough, too."""
    for _ in range(MAX_RAISES):
        accuracy = None
        if name in calibrated_names():
            with faults_left_out(name):
                accuracy = calibrated_option(name, replace(question, total=larger.total)).accuracy
        if accuracy is None:
            accuracy = question.accuracy(_quick_design(question, question.queries, larger.total).noise)
        if accuracy >= question.least_accuracy:
            break
        # an accuracy close to that of a coin does not show how much more is needed.
        share = (question.least_accuracy - accuracy) / max(accuracy - 0.5, MIN_LEAD)
        larger = _of_total(larger.total.epsilon * (1 + 1.5 * share), question, larger.accuracy)
    return larger


def _of_total(epsilon: float, question: Question, accuracy: float) -> Suggestion:
    larger = Privacy(float(text_above(epsilon, ".4g")), question.total.delta)  # up to the digits that the text shows
    words = f"Allow a total ε of {larger.epsilon:g} at the same δ."
    return Suggestion("total", question.queries, larger, accuracy, words)


def _tuned_proposal(option: Option, question: Question) -> _Proposal | None:
    """Return the γ of an option's mechanism at the parameter that is accurate enough; scaled if it has none."""
    assert option.noise is not None  # noqa: S101 - for the type checker: those without are left out
    kind, K = mechanism_class(option.name) if option.name in calibrated_names() else None, question.K
    if kind is None or "epsilon" in option.parameters:  # a table is better than the mechanism
        return _scaled_proposal(option.noise, question)
    value, most = option.parameters[kind.parameter], kind.most_information(K, 2)
    information = value if kind.increases else 1 / value
    return _accurate(
        option.name, lambda factor: kind.of_information(K, 2, min(most, information * factor)).gamma, question
    )


def _scaled_proposal(noise: NoiseFunction, question: Question) -> _Proposal | None:
    return _accurate("optimal", lambda factor: NoiseFunction(np.minimum(noise.values * factor, 1.0), noise.K), question)


def _accurate(name: str, shape: Callable[[float], NoiseFunction], question: Question) -> _Proposal | None:
    """Return the first γ of a shape that is accurate enough, if one release of it can be proved private."""
    low, high = 0.0, 1.0
    while question.accuracy(shape(high)) < question.least_accuracy:
        low, high = high, 2 * high
        if high > MAX_FACTOR:
            return None
    noise = shape(least_fitting(lambda factor: question.accuracy(shape(factor)) >= question.least_accuracy, low, high))
    problem = provable_problem(noise, question)
    return None if problem is None else _Proposal(name, Release(noise, problem))


def _fewer_queries(release: Release, question: Question) -> Suggestion | None:
    if question.affected_distribution is not None:
        return None  # a quota assumes the largest number of affected voters
    most = most_releases(release, question.total, fresh=question.fresh, quick=question.quick).queries
    if not 1 <= most < question.queries:
        return None
    words = f"Ask {most:,} {'query' if most == 1 else 'queries'} instead of {question.queries:,}."
    return Suggestion("queries", most, question.total, question.accuracy(release.noise), words)


def _larger_total(release: Release, question: Question) -> Suggestion | None:
    if question.affected_distribution is None:
        parts, skip = release.guarantees(question.queries, fresh=question.fresh), SLOW if question.quick else ()
        epsilon = total_of(parts, question.total.delta, effort=STATED, skip=skip).epsilon
    else:
        epsilon, _ = cost(release.noise, question)
    if not question.total.epsilon < epsilon <= MAX_TARGET_EPSILON:
        return None
    return _of_total(epsilon, question, question.accuracy(release.noise))


def _private_models_total(question: Question) -> Suggestion | None:
    """Return the total at which private models need no noise."""
    if not question.private or question.fresh:
        return None
    total, r = question.total, question.affected
    models = compose_models({question.voter: r}, total.delta)
    if models.epsilon == math.inf:  # the models' own Δ exceeds the δ of the total
        models = compose_models({question.voter: r}, min(2 * r * question.voter.delta, 0.5))
    if models.epsilon > MAX_TARGET_EPSILON:
        return None
    larger = Privacy(float(text_above(models.epsilon, ".4g")), float(text_above(models.delta, ".4g")))
    words = (
        f"Allow a total of ({larger.epsilon:g}, {larger.delta:g}): then the models themselves are private "
        "enough, and their plain majority needs no noise, for any number of queries."
    )
    return Suggestion("total", None, larger, 1.0, words)
