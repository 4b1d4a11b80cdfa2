"""Plain majority: whether it is private enough without noise, for any number of classes.

Three accounts compete: the models together, after which everything is post-processing (voters trained once); all votes
of all answers, composed; and the exact account of the released bits.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from darrm_opt.accounting.accounts import PLANNED, SLOW, compose_models
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.mixture import BaggedMajority
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import total_of
from darrm_opt.baselines import plain_majority_sharp, subsampling
from darrm_opt.design.certificate import certify
from darrm_opt.design.report import guarantee, text_above
from darrm_opt.design.solution import Solution, Statistics, Status
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.option import Option
from darrm_opt.planning.question import Question
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import multiple_up
from darrm_opt.search import largest_count_between


def majority(question: Question) -> Option:
    """Return the plain majority of all voters: post-processing of private models, else by its total privacy."""
    if (option := _from_draw(question)) is not None:
        return option
    if not question.private:
        why = (
            "Voters are not private and there is no noise: one record can change the answer with certainty, which no "
            "finite ε covers."
        )
        return Option.unfit("majority", question, why)
    return _from_fresh_answers(question) if question.fresh else _from_models(question)


def fewer_voters(question: Question) -> Option:
    """Return the plain majority of the most trained models that are private enough together, chosen without data.

    A record that affects r models affects at most n of any n. Averaged over a random choice, an answer is as far from
    the majority of all as subsampling n voters; all queries share one choice.
    """
    name = "fewer_voters"
    if not question.private:
        why = "Voters that are not private stay so, however few of them vote."
        return Option.unfit(name, question, why, "does not apply")
    if question.fresh:
        why = "Voters with fresh randomness can be drawn anew for each query, which is subsampling."
        return Option.unfit(name, question, why, "does not apply")
    voter, total = question.voter, question.total
    n = private_model_count(question.voters, total)
    if n == 0:
        why = f"One model alone is ({voter.epsilon:.4g}, {voter.delta:.4g})-DP, which is more than the total."
        return Option.unfit(name, question, why)
    if n == question.affected:
        return Option.unfit(name, question, "All voters fit: see majority.", "does not apply")
    n -= 1 - n % 2  # the last of an even number only breaks ties, no better than a coin, at a cost
    why = (
        f"Keep any one of the {question.K} models, chosen without looking at the data, and discard the others: it is "
        "within the total, and its answers are post-processing, for any number of queries."
        if n == 1
        else f"Keep any {n} of the {question.K} models, chosen without looking at the data, and discard the others: a "
        f"record affects at most {n} of them, and {n} together are within the total. Their plain majority is "
        "post-processing, for any number of queries."
    )
    spent = compose_models({voter: n}, total.delta)
    # For its accuracy: averaged over a random choice, the majority of n is subsampling.
    noise = subsampling(question.K, n)
    shares = question.accuracy(noise), 1.0
    option = Option.fitting(name, question, why, shares, spent, "post-processing", noise=noise, voters=n)
    return replace(option, noise=None, parameters={"voters": float(n)})


def _plain(question: Question, why: str, spent: Privacy, account: str, queries: int | None) -> Option:
    """Return the plain majority, which is always right."""
    ones = _ones(question.K) if question.classes == 2 else None
    option = Option.fitting("majority", question, why, (1.0, 1.0), spent, account, noise=ones, queries=queries)
    return replace(option, noise=None, parameters={"gamma": 1.0})


def _from_draw(question: Question) -> Option | None:
    """Return the plain majority of models of random subsamples, if the draw protects records enough."""
    distribution, total, Q, fresh = question.affected_distribution, question.total, question.queries, question.fresh
    if distribution is None:
        return None
    bagged = BaggedMajority(_ones(question.K), question.released, distribution, fresh)
    epsilon = total_of([(bagged.guarantee, Q)], total.delta).epsilon
    # Otherwise the accounts without the draw, which follow, give a better reason; models never cost less than the draw.
    if not epsilon <= min(total.epsilon, answers_total(question.voters, Q, total.delta, fresh=fresh)[0]):
        return None
    why = "A record is so unlikely to be drawn that the models need no noise: that is bagging's own privacy."
    return _plain(question, why, Privacy(epsilon, total.delta), "bits", Q)


def _from_models(question: Question) -> Option:
    """Return the majority of models trained once: post-processing."""
    r, K, total = question.affected, question.K, question.total
    # Anything computed from the models is post-processing of the r that a record reaches, for any number of queries.
    models = compose_models({question.voter: r}, total.delta)
    if models.epsilon <= total.epsilon:
        affects = f"A record affects at most {r} of the {K} models, which compose"
        if r == 1:
            affects = f"A record affects at most one model, so all {K} together are as private as one"
        elif r == K:
            affects = f"A record may affect all {K} models, which compose"
        why = (
            f"{affects}: the models themselves are {guarantee(models, '.4g')}, and so is everything computed from "
            "them. The plain majority needs neither noise nor a limit on queries."
        )
        return _plain(question, why, models, "post-processing", None)
    if models.epsilon < math.inf:
        cost = text_above(models.epsilon, ".4g")
        why = f"A record affects {r} of the {K} models: together they cost ε = {cost}, more than the total."
    else:
        why = f"The models' own Δ, for {r} of them together, exceeds the δ of the total: nothing is proved at that δ."
    # A single release has no earlier one, so its voters count as fresh: their vote may cost less than their models.
    if question.queries > 1:
        return Option.unfit("majority", question, why)
    single = _from_fresh_answers(question)
    return single if single.fits else replace(single, why=why)


def _from_fresh_answers(question: Question) -> Option:
    """Return the majority of fresh answers, by the cheapest account of Q of them."""
    Q, total = question.queries, question.total
    epsilon, account = answers_total(
        question.voters, Q, total.delta, fresh=question.fresh, quick=question.quick, classes=question.classes
    )
    answers = "One plain majority costs" if Q == 1 else f"{Q:,} plain majorities cost"
    if not epsilon <= total.epsilon:
        cost = (
            f"{answers} ε = {text_above(epsilon, '.4g')} at that δ"
            if epsilon < math.inf
            else "No finite ε is proved at that δ"
        )
        return Option.unfit("majority", question, f"{cost}, more than the total.")
    why = (
        f"{answers} ε = {text_above(epsilon, '.4g')} at that δ, within the total: noise would only make the answers "
        "worse."
    )
    spent = Privacy(epsilon, total.delta)
    return _plain(question, why, spent, account, Q)


def answers_total(
    problem: Problem, queries: int, total_delta: float, *, fresh: bool, quick: bool = False, classes: int = 2
) -> tuple[float, str]:
    """Return the total ε of majorities whose answers compose [nats], and its account: "votes", "bits" or "optimal".

    (inf, "none") for voters that are not private, and for several answers of voters trained once: one record can then
    change a majority with certainty. ``quick`` skips the accounts whose time grows with Q.
    """
    if effective_voters(problem, queries, fresh=fresh).voter.epsilon == math.inf:
        return math.inf, "none"
    votes = compose_models({problem.voter: problem.affected * queries}, total_delta)
    if classes > 2:
        return (votes.epsilon, "votes") if votes.epsilon < math.inf else (math.inf, "none")
    if problem.voter.delta == 0:  # half of the votes decide a majority
        epsilon = plain_majority_sharp(problem.K, problem.voter, problem.affected).epsilon
        votes = Privacy(min(votes.epsilon, multiple_up(queries, epsilon)), total_delta)
    parts = [(NoisyMajority(_ones(problem.K), problem).guarantee, queries)]
    found = total_of(parts, total_delta, effort=PLANNED, skip=SLOW if quick else ()).or_less({"votes": votes.epsilon})
    return found.epsilon, found.account


def private_model_count(problem: Problem, total: Privacy) -> int:
    """Return the number of affected models, trained once, that are within ``total`` together; 0 if not even one."""
    if problem.voter.epsilon == math.inf:
        return 0
    return largest_count_between(
        lambda n: compose_models({problem.voter: n}, total.delta).epsilon <= total.epsilon, 0, problem.affected + 1
    )


MIN_PLAIN_GAMMA = 1 - 1e-6
"""Minimum γ(l) of a plain majority that is written as a γ: rounding costs some 1e-12."""


def majority_solution(question: Question) -> Solution | None:
    """Return the plain majority of two classes as γ = 1, less what rounding costs, with its certificate.

    None if γ = 1 is not private for what the affected voters cost together, as with a draw of subsamples.
    """
    voters = question.voters
    voter, r = voters.voter, voters.affected
    if question.classes > 2 or question.law is not None or question.bags is not None or not question.private:
        return None
    if len(voter.points) == 1 and voter.epsilon > 0:
        problem = Problem.from_allowance(voters.K, r, voter.epsilon, voter.delta, affected=r)
    else:
        models = compose_models({voter: r}, question.total.delta)
        if models.epsilon == math.inf:
            return None
        problem = Problem(voters.K, voter, models, r)
    noise, certificate = certify(problem, _ones(voters.K))
    if noise.values.min() < MIN_PLAIN_GAMMA:
        return None
    return Solution(
        problem=problem,
        objective=question.gamma_objective,
        shape="free",
        noise=noise,
        utility=question.gamma_objective.linear_goal(voters.K).utility(noise.upper_half),
        upper_bound=1.0,
        status=Status.PLANNED,
        certificate=certificate,
        method="plan",
        backend="majority",
        statistics=Statistics(0, 0, 0),
    )


def _ones(K: int) -> NoiseFunction:
    return NoiseFunction(np.ones(K + 1), K)
