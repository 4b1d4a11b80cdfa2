"""Release plan: how K trained voters release their majority within a total (ε, δ), decided before the data are seen.

Voters are trained once and asked many times. What one query releases says something of all later answers, so the
releases of *trained* private voters do not compose as if each voter were drawn afresh. Two accounts hold all the same,
and the better of them is taken:

* **post-processing**: a record reaches r voters, each (ε, Δ)-DP, so all models together are as private as r of them
  composed, and so is everything computed from them: the plain majority, for as many queries as one likes;
* **fixed models**: whatever the models are, given the randomness that they were trained with, a record changes at most
  r of them. That is a DaRRM with ε = inf and affected = r, whose coins are drawn afresh for each query, so its releases
  compose.

A single query is a release of fresh voters: there the γ for private voters holds, and it is the best.

The γ is the one that `darrm_opt.planning` recommends, whichever mechanism it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from darrm_opt.accounting.freshness import compose_models
from darrm_opt.budgeting import epsilon_each
from darrm_opt.design.report import text_above
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import solve
from darrm_opt.errors import InvalidInput
from darrm_opt.planning import plan
from darrm_opt.problem import Privacy, Problem, whole_number

MAX_EXACT = 1000
"""Queries beyond which the exact account is not asked, as it would take minutes: the targets are then those of the
optimal composition, which needs more privacy of each release."""


@dataclass(frozen=True)
class VotingPlan:
    """What will be released, and at what price.

    Attributes:
        method: "plain majority" or "noisy majority".
        solution: the certified γ of one release; None for the plain majority.
        queries: releases allowed; None: without limit.
        total: (ε, δ) that all releases together cost at most.
        why: in words.
    """

    method: str
    solution: Solution | None
    queries: int | None
    total: Privacy
    why: str


Design = Callable[[Problem], Solution]
"""Where γ comes from: `solve`, or the method ``gamma`` of a client of the service."""


def voting_plan(
    K: int, *, voter: Privacy | None, affected: int, queries: int, total: Privacy, design: Design | None = None
) -> VotingPlan:
    """Return how K trained voters should release their majority.

    Args:
        K: voters.
        voter: (ε, Δ) of one voter's training; None: not private.
        affected: voters that one record reaches, 1..K.
        queries: predictions wanted, ≥ 1.
        total: (ε, δ) for all of them.
        design: what makes or fetches γ; the target of one query is then that of optimal composition. None: the best
            target is searched, and γ made, here.

    Guarantees:
        What the plan releases is ``total``-DP as a whole, the queries being chosen freely in view of the answers.

    Raises:
        InvalidInput: a number is outside its range.

    >>> voting_plan(11, voter=Privacy(0.5), affected=1, queries=100, total=Privacy(1.0)).method
    'plain majority'
    >>> voting_plan(11, voter=None, affected=1, queries=100, total=Privacy(1.0, 1e-5)).method
    'noisy majority'
    """
    queries = whole_number(queries, "queries", "a whole number of predictions, at least 1")
    if voter is not None and voter.epsilon < math.inf:
        models = compose_models({voter: affected}, total.delta)
        if models.epsilon <= total.epsilon:
            return VotingPlan(
                "plain majority",
                None,
                None,
                models,
                f"A record reaches {affected} of the {K} voters, and {affected} of them together are within the total: "
                "so is everything computed from their models. The plain majority needs no noise and no limit.",
            )
        if queries == 1:
            single = _checked_solution(design or solve, Problem(K, voter, total, affected))
            return VotingPlan("noisy majority", single, 1, total, "One query: the best γ for voters of that privacy.")
    solution = (
        _best_solution(K, affected, queries, total)
        if design is None
        else _best_split(K, affected, queries, total, design)
    )
    return VotingPlan(
        "noisy majority",
        solution,
        queries,
        total,
        f"A record changes at most {affected} of the {K} models, whatever they are: the best γ for that, at "
        f"({text_above(solution.problem.target.epsilon, '.4g')}, {text_above(solution.problem.target.delta, '.4g')}) a "
        f"query, so that {queries} of them fit in the total.",
    )


@lru_cache(maxsize=64)
def _best_solution(K: int, affected: int, queries: int, total: Privacy) -> Solution:
    """Return the best γ of which ``queries`` releases fit in the total: the one that `plan` recommends."""
    if 1 < queries <= MAX_EXACT:
        found = plan(K, None, queries, total, affected, least_accuracy=0.5)
        best = next((option for option in found.options if option.fits and option.noise is not None), None)
        if best is not None:
            return best.to_solution(found.request.objective)
    return _best_split(K, affected, queries, total, solve)


def _best_split(K: int, affected: int, queries: int, total: Privacy, design: Design) -> Solution:
    """Return the better γ of two splits of δ between the queries and their composition."""
    shares = sorted({total.delta} if queries == 1 else {0.0, total.delta / (2 * queries)})
    targets = [total if queries == 1 else Privacy(epsilon_each(total, delta, queries), delta) for delta in shares]
    return max(
        (_checked_solution(design, _fixed_models(K, affected, target)) for target in targets),
        key=lambda solution: solution.utility,
    )


def _checked_solution(design: Design, problem: Problem) -> Solution:
    """Return the γ of exactly that problem; whoever releases with it proves it again.

    Raises:
        InvalidInput: the design answered another question.
    """
    solution = design(problem)
    if solution.problem != problem:
        raise InvalidInput("design", solution.problem, f"the γ of {problem}", "It answered another question.")
    return solution


def _fixed_models(K: int, affected: int, target: Privacy) -> Problem:
    return Problem(K, Privacy(math.inf), target, affected)
