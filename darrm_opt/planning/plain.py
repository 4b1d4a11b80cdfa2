"""The plain majority, where it is private enough by itself."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np

from darrm_opt.accounting.accounts import bits_total
from darrm_opt.accounting.freshness import models_together
from darrm_opt.accounting.reach import reached_epsilon
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release import NoisyMajority
from darrm_opt.baselines import plain_majority_sharp, subsampling
from darrm_opt.ensembles.compare import most_that_fit
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.option import Option, Way
from darrm_opt.planning.situation import Situation
from darrm_opt.problem import Privacy
from darrm_opt.rounding import multiple_up

POINTS = 8001
"""Grid points of the exact account of plain majorities: sound for any number."""


def majority(situation: Situation) -> Option:
    """Return the plain majority of all voters: free for trained models that are private together, else by what it costs."""
    if not situation.private:
        if (drawn := _of_draw(situation)) is not None:
            return drawn
        why = (
            "Voters that are not private, without noise: one record can turn the answer with certainty, and no finite ε "
            "covers that."
        )
        return Option.unfit("majority", situation, why)
    return _of_answers(situation) if situation.fresh else _of_models(situation)


def fewer_voters(situation: Situation) -> Option:
    """Return the plain majority of as many trained models as are private enough together, chosen without the data.

    A record that reaches r models reaches at most n of any n. Under a random choice an answer is, on average, as far from
    the majority of all as subsampling n voters; all queries share one choice.
    """
    name: Way = "fewer_voters"
    if not situation.private:
        return Option.unfit(name, situation, "Voters that are not private stay so, however few of them are asked.")
    if situation.fresh:
        why = "Voters with fresh randomness can be drawn anew for each query, which is subsampling."
        return Option.unfit(name, situation, why)
    voter, total = situation.voter, situation.total
    n = most_that_fit(lambda n: models_together({voter: n}, total.delta).epsilon <= total.epsilon, situation.affected)
    if n == 0:
        why = f"One model alone is ({voter.epsilon:.4g}, {voter.delta:.4g})-DP, which is more than the total."
        return Option.unfit(name, situation, why)
    if n == situation.affected:
        return Option.unfit(name, situation, "All voters fit: see majority.")
    why = (
        f"Keep any {n} of the {situation.K} models, chosen without looking at the data, and forget the others: a record "
        f"reaches at most {n} of them, and {n} together are within the total. Their plain majority is post-processing, for "
        "any number of queries."
    )
    spent = models_together({voter: n}, total.delta)
    accuracy = situation.accuracy(subsampling(situation.K, n))
    return Option(name, True, accuracy, None, spent, "post-processing", None, None, None, n, why)  # noqa: FBT003


def _of_draw(situation: Situation) -> Option | None:
    """Return the plain majority of models that are not private, where the draw of their subsamples protects records enough."""
    reach, total = situation.reach, situation.total
    if reach is None:
        return None
    one = NoiseFunction(np.ones(situation.K + 1), situation.K)
    with suppress(BelowLeakFloor):
        epsilon = reached_epsilon(one, situation.released, situation.queries, total.delta, reach)
        if epsilon <= total.epsilon:
            spent = Privacy(epsilon, total.delta)
            why = "A record is so unlikely to be drawn that the models need no noise: that is bagging's own privacy."
            Q, K = situation.queries, situation.K
            return Option("majority", True, 1.0, Q, spent, "bits", None, None, None, K, why)  # noqa: FBT003
    return None


def _of_models(situation: Situation) -> Option:
    """Return the majority of models trained once: post-processing."""
    r, K, total = situation.affected, situation.K, situation.total
    models = models_together({situation.voter: r}, total.delta)
    many = "one of them, which together are as private as one" if r == 1 else f"{r} of them, which compose"
    if models.epsilon <= total.epsilon:
        why = (
            f"A record reaches at most {many}: the {K} models themselves are ({models.epsilon:.4g}, {models.delta:.4g})-DP, "
            "and so is everything computed from them. The plain majority needs neither noise nor a limit of queries."
        )
        return Option("majority", True, 1.0, None, models, "post-processing", None, None, None, K, why)  # noqa: FBT003
    if models.epsilon < math.inf:
        why = (
            f"A record reaches {r} of the {K} models: together they cost ε = {models.epsilon:.4g}, more than the total."
        )
    else:
        why = (
            f"The models' own Δ, of {r} of them together, is more than the δ of the total: nothing is proved at that δ."
        )
    if situation.queries > 1:
        return Option.unfit("majority", situation, why)
    single = _of_answers(situation)
    return single if single.fits else replace(single, why=why)


def _of_answers(situation: Situation) -> Option:
    """Return the majority of fresh answers, by the least account of what Q of them cost."""
    K, Q, total = situation.K, situation.queries, situation.total
    votes = models_together({situation.voter: situation.affected * Q}, total.delta)
    found: list[tuple[float, str]] = [(votes.epsilon, "votes")]
    if situation.voter.delta == 0:  # half of the votes decide a majority
        each = plain_majority_sharp(K, situation.voter, situation.affected).epsilon
        found.append((multiple_up(Q, each), "votes"))
    one = NoiseFunction(np.ones(K + 1), K)
    with suppress(BelowLeakFloor, TooMuchWork):
        found.append(
            (bits_total(Counter({NoisyMajority(one, situation.released): Q}), total.delta, POINTS).epsilon, "bits")
        )
    epsilon, account = min(found)
    answers = "One plain majority costs" if Q == 1 else f"{Q:,} plain majorities cost"
    if not epsilon <= total.epsilon:
        cost = f"{answers} ε = {epsilon:.4g} at that δ" if epsilon < math.inf else "No finite ε is proved at that δ"
        return Option.unfit("majority", situation, f"{cost}, more than the total.")
    why = f"{answers} ε = {epsilon:.4g} at that δ, within the total: noise would only make the answers worse."
    spent = Privacy(epsilon, total.delta)
    return Option("majority", True, 1.0, Q, spent, account, None, None, None, K, why)  # noqa: FBT003
