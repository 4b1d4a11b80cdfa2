"""Plain majority: whether it is private enough without noise."""

from __future__ import annotations

import math
from dataclasses import replace

from darrm_opt.accounting.freshness import compose_models
from darrm_opt.accounting.plain_majority import answers_total, plain_majority_total, private_model_count
from darrm_opt.baselines import subsampling
from darrm_opt.design.report import guarantee, text_above
from darrm_opt.planning.options import Mechanism, Option
from darrm_opt.planning.request import PlanRequest
from darrm_opt.problem import Privacy


def majority(request: PlanRequest) -> Option:
    """Return the plain majority of all voters: post-processing of private models, else by its total privacy."""
    if (option := _from_draw(request)) is not None:
        return option
    if not request.private:
        why = (
            "Voters that are not private, without noise: one record can turn the answer with certainty, and no finite "
            "ε covers that."
        )
        return Option.unfit("majority", request, why)
    return _from_fresh_answers(request) if request.fresh else _from_models(request)


def fewer_voters(request: PlanRequest) -> Option:
    """Return the plain majority of as many trained models as are private enough together, chosen without the data.

    A record that affects r models affects at most n of any n. Under a random choice an answer is, on average, as far
    from the majority of all as subsampling n voters; all queries share one choice.
    """
    name: Mechanism = "fewer_voters"
    if not request.private:
        why = "Voters that are not private stay so, however few of them vote."
        return Option.unfit(name, request, why, "does not apply")
    if request.fresh:
        why = "Voters with fresh randomness can be drawn anew for each query, which is subsampling."
        return Option.unfit(name, request, why, "does not apply")
    voter, total = request.voter, request.total
    n = private_model_count(request.voters, total)
    if n == 0:
        why = f"One model alone is ({voter.epsilon:.4g}, {voter.delta:.4g})-DP, which is more than the total."
        return Option.unfit(name, request, why)
    if n == request.affected:
        return Option.unfit(name, request, "All voters fit: see majority.", "does not apply")
    why = (
        f"Keep any {n} of the {request.K} models, chosen without looking at the data, and discard the others: a record "
        f"affects at most {n} of them, and {n} together are within the total. Their plain majority is post-processing, "
        "for any number of queries."
    )
    spent = compose_models({voter: n}, total.delta)
    accuracy = request.accuracy(subsampling(request.K, n))
    return Option(mechanism=name, voters=n, why=why, accuracy=accuracy, spent=spent, account="post-processing")


def _from_draw(request: PlanRequest) -> Option | None:
    """Return the plain majority of models of random subsamples, if their draw protects records enough."""
    distribution, total = request.affected_distribution, request.total
    if distribution is None:
        return None
    Q, K = request.queries, request.K
    epsilon, account = plain_majority_total(
        request.voters, Q, total.delta, fresh=request.fresh, distribution=distribution
    )
    if account != "bits" or not epsilon <= total.epsilon:
        return None
    spent = Privacy(epsilon, total.delta)
    why = "A record is so unlikely to be drawn that the models need no noise: that is bagging's own privacy."
    return Option(mechanism="majority", voters=K, why=why, accuracy=1.0, queries=Q, spent=spent, account="bits")


def _from_models(request: PlanRequest) -> Option:
    """Return the majority of models trained once: post-processing."""
    r, K, total = request.affected, request.K, request.total
    models = compose_models({request.voter: r}, total.delta)
    subset = "one of them, which together are as private as one" if r == 1 else f"{r} of them, which compose"
    if models.epsilon <= total.epsilon:
        why = (
            f"A record affects at most {subset}: the {K} models themselves are {guarantee(models, '.4g')}, "
            "and so is everything computed from them. The plain majority needs neither noise nor a limit of queries."
        )
        return Option(mechanism="majority", voters=K, why=why, accuracy=1.0, spent=models, account="post-processing")
    if models.epsilon < math.inf:
        cost = text_above(models.epsilon, ".4g")
        why = f"A record affects {r} of the {K} models: together they cost ε = {cost}, more than the total."
    else:
        why = (
            f"The models' own Δ, of {r} of them together, is more than the δ of the total: nothing is proved at that δ."
        )
    if request.queries > 1:
        return Option.unfit("majority", request, why)
    single = _from_fresh_answers(request)
    return single if single.fits else replace(single, why=why)


def _from_fresh_answers(request: PlanRequest) -> Option:
    """Return the majority of fresh answers, by the cheapest account of Q of them."""
    K, Q, total = request.K, request.queries, request.total
    epsilon, account = answers_total(request.voters, Q, total.delta, fresh=request.fresh, quick=request.quick)
    answers = "One plain majority costs" if Q == 1 else f"{Q:,} plain majorities cost"
    if not epsilon <= total.epsilon:
        cost = (
            f"{answers} ε = {text_above(epsilon, '.4g')} at that δ"
            if epsilon < math.inf
            else "No finite ε is proved at that δ"
        )
        return Option.unfit("majority", request, f"{cost}, more than the total.")
    why = (
        f"{answers} ε = {text_above(epsilon, '.4g')} at that δ, within the total: noise would only make the answers "
        "worse."
    )
    spent = Privacy(epsilon, total.delta)
    return Option(mechanism="majority", voters=K, why=why, accuracy=1.0, queries=Q, spent=spent, account=account)
