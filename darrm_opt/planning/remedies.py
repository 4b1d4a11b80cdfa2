"""What would make an option of use where none is: fewer queries, or a larger total. Each is proved, none a guess.

The γ at hand is turned up until it is accurate enough; then the accounts say how many releases of it fit the total, and
what all that are wanted cost. Both hold; another γ may do with a little less.
"""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.accounting.allowance import least_cost
from darrm_opt.accounting.freshness import models_together
from darrm_opt.accounting.release import Release
from darrm_opt.mechanism.quota import most_releases
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.noisy import cost, proved_for
from darrm_opt.planning.option import Remedy
from darrm_opt.planning.situation import Situation
from darrm_opt.problem import LARGEST_TARGET_EPSILON, Privacy

STEPS = 60
"""Halvings of the factor by which a γ is turned up."""


def remedies(situation: Situation, noise: NoiseFunction | None) -> tuple[Remedy, ...]:
    """Return changes with which the accuracy that is wanted is reached.

    Args:
        situation: as asked.
        noise: γ of the most accurate option, which is not accurate enough; None: there is none.
    """
    found = [_of_models(situation)]
    release = None if noise is None else _useful(noise, situation)
    if release is not None:
        accuracy = situation.accuracy(release.noise)
        found += [_fewer(release, accuracy, situation), _larger(release, accuracy, situation)]
    return tuple(each for each in found if each is not None)


def _useful(noise: NoiseFunction, situation: Situation) -> Release | None:
    """Return the γ turned up until it is accurate enough, where that can be proved of one release."""

    def turned(factor: float) -> NoiseFunction:
        return NoiseFunction(np.minimum(noise.values * factor, 1.0), situation.K)

    low, high = 1.0, 1.0
    while situation.accuracy(turned(high)) < situation.least_accuracy:
        low, high = high, 2 * high
        if high > 2.0**STEPS:
            return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        if situation.accuracy(turned(middle)) >= situation.least_accuracy:
            high = middle
        else:
            low = middle
    enough = turned(high)
    problem = proved_for(enough, situation)
    return None if problem is None else Release(enough, problem)


def _fewer(release: Release, accuracy: float, situation: Situation) -> Remedy | None:
    if situation.reach is not None:
        return None  # a quota counts the most voters that a record reaches, not how many it does
    most = most_releases(release, situation.total, fresh=situation.fresh).queries
    if not 1 <= most < situation.queries:
        return None
    words = f"Ask {most:,} {'query' if most == 1 else 'queries'} instead of {situation.queries:,}."
    return Remedy("queries", most, situation.total, accuracy, words)


def _larger(release: Release, accuracy: float, situation: Situation) -> Remedy | None:
    total = situation.total
    if situation.reach is None:
        epsilon, _ = least_cost(release, situation.queries, total.delta, fresh=situation.fresh)
    else:
        epsilon, _ = cost(release.noise, situation)
    if not total.epsilon < epsilon <= LARGEST_TARGET_EPSILON:
        return None
    enough = Privacy(
        _above(epsilon), total.delta
    )  # what the words say: a total is read to fewer digits than this one has
    words = f"Allow a total ε of {enough.epsilon:g} at the same δ."
    return Remedy("total", situation.queries, enough, accuracy, words)


def _of_models(situation: Situation) -> Remedy | None:
    """Return the total at which private models need no noise."""
    if not situation.private or situation.fresh:
        return None
    total, r = situation.total, situation.affected
    models = models_together({situation.voter: r}, total.delta)
    if models.epsilon == math.inf:  # the models' own Δ is more than the δ of the total
        models = models_together({situation.voter: r}, min(2 * r * situation.voter.delta, 0.5))
    if models.epsilon > LARGEST_TARGET_EPSILON:
        return None
    enough = Privacy(_above(models.epsilon), _above(models.delta))
    words = (
        f"Allow a total of ({enough.epsilon:g}, {enough.delta:g}): then the models themselves are private "
        "enough, and their plain majority needs no noise, for any number of queries."
    )
    return Remedy("total", None, enough, 1.0, words)


def _above(value: float) -> float:
    """Return a number of four digits that is not below ``value``.

    >>> _above(1.23456), _above(0.5), _above(0.0)
    (1.235, 0.5, 0.0)
    """
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    shown = float(f"{value:.4g}")
    return shown if shown >= value else float(f"{shown + unit:.4g}")
