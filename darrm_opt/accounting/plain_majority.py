"""Plain majority: the total (ε, δ) of Q majorities that are released without noise, by the cheapest account that holds.

Three accounts compete: the models together, after which everything is post-processing (voters that were trained once);
all votes of all answers, composed; and the exact account of the released bits. `plan` and `compare` both ask here, so
they agree on whether noise is needed.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress

import numpy as np

from darrm_opt.accounting.cheapest import cheapest
from darrm_opt.accounting.freshness import compose_models, effective_voters
from darrm_opt.accounting.mixture import AffectedDistribution, mixture_epsilon
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import bits_total, optimal_total_of_profile
from darrm_opt.baselines import plain_majority_sharp
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import multiple_up
from darrm_opt.search import largest_count_between

POINTS = 8001
"""Grid points of the exact account of plain majorities: sound for any number."""


def plain_majority_total(
    problem: Problem,
    queries: int,
    total_delta: float,
    *,
    fresh: bool = False,
    distribution: AffectedDistribution | None = None,
) -> tuple[float, str]:
    """Return the total ε of plain majorities [nats], and the account that proves it; (inf, "none") if none does."""
    totals = [answers_total(problem, queries, total_delta, fresh=fresh)]
    if not fresh:
        totals.append((compose_models({problem.voter: problem.affected}, total_delta).epsilon, "post-processing"))
    if distribution is not None:
        voters = effective_voters(problem, queries, fresh=fresh)
        with suppress(DeltaTooSmall):
            totals.append(
                (mixture_epsilon(_ones(problem.K), voters, queries, total_delta, distribution, fresh=fresh), "bits")
            )
    epsilon, account = min(totals)
    return (epsilon, account) if epsilon < math.inf else (math.inf, "none")


def answers_total(
    problem: Problem, queries: int, total_delta: float, *, fresh: bool, quick: bool = False, classes: int = 2
) -> tuple[float, str]:
    """Return the total ε of majorities whose answers compose [nats], and its account: "votes", "bits" or "optimal".

    (inf, "none") for voters that are not private, and for several answers of voters that were trained once: one record
    can then turn a majority with certainty.

    ``quick`` leaves out the accounts whose time grows with Q.
    """
    if effective_voters(problem, queries, fresh=fresh).voter.epsilon == math.inf:
        return math.inf, "none"
    votes = compose_models({problem.voter: problem.affected * queries}, total_delta)
    if classes > 2:
        return (votes.epsilon, "votes") if votes.epsilon < math.inf else (math.inf, "none")
    if problem.voter.delta == 0:  # half of the votes decide a majority
        epsilon = plain_majority_sharp(problem.K, problem.voter, problem.affected).epsilon
        votes = Privacy(min(votes.epsilon, multiple_up(queries, epsilon)), total_delta)
    majority = NoisyMajority(_ones(problem.K), problem)
    if quick:
        released = "optimal", lambda: optimal_total_of_profile(majority, queries, total_delta)
    else:
        released = "bits", lambda: bits_total(Counter({majority: queries}), total_delta, POINTS)
    return cheapest(dict([("votes", lambda: votes), released]))


def private_model_count(problem: Problem, total: Privacy) -> int:
    """Return how many of the affected models, trained once, are within ``total`` together; 0 if not even one."""
    if problem.voter.epsilon == math.inf:
        return 0
    return largest_count_between(
        lambda n: compose_models({problem.voter: n}, total.delta).epsilon <= total.epsilon, 0, problem.affected + 1
    )


def _ones(K: int) -> NoiseFunction:
    return NoiseFunction(np.ones(K + 1), K)
