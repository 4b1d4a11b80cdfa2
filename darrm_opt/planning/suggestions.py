"""Suggestions: fewer queries or a larger total that make an option useful if none is. Each is proved, none a guess.

The given γ is scaled up until it is accurate enough; then the accounts give how many releases of it fit the total, and
the total of all queries. Both hold; another γ may need slightly less.
"""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.accounting.freshness import compose_models
from darrm_opt.accounting.release_profile import Release
from darrm_opt.budgeting.best_target import least_cost
from darrm_opt.budgeting.quota import most_releases
from darrm_opt.design.report import text_above
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.noisy_majorities import cost, provable_problem
from darrm_opt.planning.options import Suggestion
from darrm_opt.planning.request import PlanRequest
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy
from darrm_opt.search import least_fitting

MAX_FACTOR = 2.0**60
"""Largest factor by which a γ is scaled."""


def suggestions(request: PlanRequest, noise: NoiseFunction | None) -> tuple[Suggestion, ...]:
    """Return changes of the request that give the wanted accuracy.

    Args:
        request: the question.
        noise: γ of the most accurate option, which is not accurate enough; None if there is none.
    """
    candidates = [_private_models_total(request)]
    release = None if noise is None else _accurate_release(noise, request)
    if release is not None:
        accuracy = request.accuracy(release.noise)
        candidates += [_fewer_queries(release, accuracy, request), _larger_total(release, accuracy, request)]
    return tuple(suggestion for suggestion in candidates if suggestion is not None)


def _accurate_release(noise: NoiseFunction, request: PlanRequest) -> Release | None:
    """Return the γ scaled until it is accurate enough, if one release of it can be proved private."""

    def scaled(factor: float) -> NoiseFunction:
        return NoiseFunction(np.minimum(noise.values * factor, 1.0), request.K)

    low, high = 1.0, 1.0
    while request.accuracy(scaled(high)) < request.least_accuracy:
        low, high = high, 2 * high
        if high > MAX_FACTOR:
            return None
    if high > low:
        high = least_fitting(lambda factor: request.accuracy(scaled(factor)) >= request.least_accuracy, low, high)
    accurate_noise = scaled(high)
    problem = provable_problem(accurate_noise, request)
    return None if problem is None else Release(accurate_noise, problem)


def _fewer_queries(release: Release, accuracy: float, request: PlanRequest) -> Suggestion | None:
    if request.affected_distribution is not None:
        return None  # a quota assumes the largest number of affected voters, not its distribution
    most = most_releases(release, request.total, fresh=request.fresh).queries
    if not 1 <= most < request.queries:
        return None
    words = f"Ask {most:,} {'query' if most == 1 else 'queries'} instead of {request.queries:,}."
    return Suggestion("queries", most, request.total, accuracy, words)


def _larger_total(release: Release, accuracy: float, request: PlanRequest) -> Suggestion | None:
    total = request.total
    if request.affected_distribution is None:
        epsilon, _ = least_cost(release, request.queries, total.delta, fresh=request.fresh)
    else:
        epsilon, _ = cost(release.noise, request)
    if not total.epsilon < epsilon <= MAX_TARGET_EPSILON:
        return None
    larger = Privacy(float(text_above(epsilon, ".4g")), total.delta)  # rounded up to the digits that the text shows
    words = f"Allow a total ε of {larger.epsilon:g} at the same δ."
    return Suggestion("total", request.queries, larger, accuracy, words)


def _private_models_total(request: PlanRequest) -> Suggestion | None:
    """Return the total at which private models need no noise."""
    if not request.private or request.fresh:
        return None
    total, r = request.total, request.affected
    models = compose_models({request.voter: r}, total.delta)
    if models.epsilon == math.inf:  # the models' own Δ is more than the δ of the total
        models = compose_models({request.voter: r}, min(2 * r * request.voter.delta, 0.5))
    if models.epsilon > MAX_TARGET_EPSILON:
        return None
    larger = Privacy(float(text_above(models.epsilon, ".4g")), float(text_above(models.delta, ".4g")))
    words = (
        f"Allow a total of ({larger.epsilon:g}, {larger.delta:g}): then the models themselves are private "
        "enough, and their plain majority needs no noise, for any number of queries."
    )
    return Suggestion("total", None, larger, 1.0, words)
