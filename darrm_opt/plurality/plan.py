"""Many releases from one total (ε, δ): the target of each release, and the noise of noisy maxima.

The counts of votes are fixed by the data, so releases compose without any assumption on the voters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from darrm_opt.budgeting import epsilon_each
from darrm_opt.design.report import guarantee
from darrm_opt.errors import InvalidInput
from darrm_opt.plurality.mechanisms import gnmax_table
from darrm_opt.plurality.vote_mechanisms import (
    MAX_SELECTION_RATE,
    NoisyMaximum,
    RuleMechanism,
    SelectionMechanism,
    VoteMechanism,
)
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.search import largest_fitting
from darrm_opt.tables.priors import PluralityObjective, PluralityPrior
from darrm_opt.tables.problem import PluralityProblem, has_table
from darrm_opt.tables.solver import as_objective, solve_plurality

RATE_PRECISION = 1e-3
"""Relative distance of a selection mechanism's rate from the largest one that fits."""

MAX_RULE_PARTITIONS = 600
"""Partitions up to which an optimal rule is made where a choice of mechanisms is asked for: seconds."""


@dataclass(frozen=True)
class PluralityPlan:
    """What will be released, and at what price.

    Attributes:
        mechanism: a certified rule, or noise on the counts.
        queries: releases allowed.
        total: (ε, δ) that all of them together cost at most.
        utility: of a release, expected under the prior; of the continuous Gaussian where the noise is discrete; None
            where there are too many partitions to say.
        why: in words.
    """

    mechanism: VoteMechanism
    queries: int
    total: Privacy
    utility: float | None
    why: str


@lru_cache(maxsize=32)
def plurality_plan(
    K: int,
    classes: int,
    total: Privacy,
    queries: int,
    *,
    affected: int = 1,
    objective: PluralityObjective | PluralityPrior | str = "dirichlet(1)",
) -> PluralityPlan:
    """Return the better of an optimal rule for each release and noise on the counts for all of them.

    This is what an estimator releases by: every answer is a class, and one rule and one calibration are made, nothing
    more. `design_releases` compares all mechanisms with their shares, and tables under several targets, which takes
    several times as long, and answers ⊥ where wrong classes have a price; its utilities are of the discrete noise, or
    estimated where there is no table.

    Args:
        K: voters.
        classes: C ≥ 2.
        total: (ε, δ) of all releases.
        queries: Q ≥ 1 releases.
        affected: votes that one record can move.
        objective: the utility of a release, as for `solve_plurality`.

    Guarantees:
        All releases together are ``total``-DP, each being chosen freely in view of the earlier ones.

    Raises:
        InvalidInput: a number is outside its range; with δ = 0 and too many partitions there is neither.

    >>> plurality_plan(11, 3, Privacy(1.0, 1e-5), 1).why[:12]
    'optimal rule'
    """
    goal, plans = as_objective(objective), []
    has_rule = has_table(K, classes, MAX_RULE_PARTITIONS)
    if has_rule:
        problem = PluralityProblem(K, classes, release_target(total, queries), affected)
        solution = solve_plurality(problem, goal)
        privacy = guarantee(problem.target, ".4g")
        why = f"optimal rule, {privacy} a release, so that {queries} of them fit in the total by optimal composition"
        rule = RuleMechanism(problem, solution.rule)
        plans.append(PluralityPlan(rule, queries, total, solution.utility, why))
    if total.delta > 0 and (queries > 1 or not has_rule):
        noisy, utility = noise_for(total, queries, K=K, classes=classes, affected=affected), None
        if has_rule:
            cells = PluralityProblem(K, classes, total, affected).histograms
            weights, constant = goal.weights(cells)
            utility = float(weights @ gnmax_table(cells, 1 / noisy.sigma)) + constant
        why = f"GNMax, σ = {noisy.sigma:.4g} votes: the account of {queries} labels, not of counts, fits in the total"
        plans.append(PluralityPlan(noisy, queries, total, utility, why))
    if not plans:
        raise InvalidInput("delta", total.delta, "δ above 0 where there are too many partitions for a rule")
    return max(plans, key=lambda plan: -1.0 if plan.utility is None else plan.utility)


def release_target(total: Privacy, queries: int) -> Privacy:
    """Return an (ε, δ) of each release with which ``queries`` of them are within a total, by optimal composition.

    Args:
        total: (ε, δ) of all releases.
        queries: Q ≥ 1.

    Returns:
        The total for one release; else half of δ goes to the releases, half to their composition.

    Raises:
        InvalidInput: a number is outside its range.

    >>> target = release_target(Privacy(2.0, 1e-5), 50)
    >>> 0.04 < target.epsilon < 0.1, 50 * target.delta <= 1e-5
    (True, True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if queries == 1:
        return total
    delta = total.delta / (2 * queries)
    return Privacy(epsilon_each(total, delta, queries), delta)


def selection_for(
    name: str, total: Privacy, queries: int, *, K: int, classes: int, affected: int = 1
) -> SelectionMechanism:
    """Return a selection mechanism at about the largest rate at which Q releases fit in a total.

    Args:
        name: one of `SELECTIONS`.
        total: (ε, δ) of all releases, ε > 0 and finite.
        queries: Q ≥ 1.
        K: voters.
        classes: C ≥ 2.
        affected: votes that one record can move.

    Guarantees:
        ``selection_for(...).epsilon(queries, total.delta) <= total.epsilon`` where δ > 0; else Q times ``each`` is
        within it.

    Raises:
        InvalidInput: a number is outside its range.

    >>> round(selection_for("permute_and_flip", Privacy(2.0, 1e-5), 1, K=250, classes=10).rate, 4)
    1.0
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")

    def mechanism(rate: float) -> SelectionMechanism:
        return SelectionMechanism(name, K, classes, min(rate, MAX_SELECTION_RATE), affected=affected)

    def fits(rate: float) -> bool:
        return mechanism(rate).epsilon(queries, total.delta) <= total.epsilon

    start = epsilon_each(total, 0.0, queries) / (2 * affected)
    if total.delta == 0 or queries == 1:
        return mechanism(start)
    start *= 1 - 2.0**-40  # ε of the total is rounded up
    if name == "permute_and_flip" or start >= MAX_SELECTION_RATE:
        return mechanism(start)
    return mechanism(largest_fitting(fits, start, 3 * start, RATE_PRECISION))


def noise_for(total: Privacy, queries: int, *, K: int, classes: int, affected: int = 1) -> NoisyMaximum:
    """Return GNMax with about the least noise for a total over Q queries.

    Args:
        total: (ε, δ) of all queries, ε > 0 and finite, δ > 0.
        queries: Q ≥ 1.
        K: voters.
        classes: C ≥ 2.
        affected: votes that one record can move.

    Returns:
        σ within a share of 1e-4 of the least one that the account of the discrete noise proves, and at least 1.

    Guarantees:
        ``noise_for(...).epsilon(queries, total.delta) <= total.epsilon``, for the discrete noise that is drawn.

    Raises:
        InvalidInput: a number is outside its range.

    >>> noise_for(Privacy(2.0, 1e-5), 100, K=250, classes=10).sigma < 26
    True
    """
    from darrm_opt.accounting.labels.calibration import calibrate_noise

    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    calibration = calibrate_noise(total, queries, classes=classes, affected=affected, noise="discrete")
    return NoisyMaximum(K, classes, calibration.label_sigma, affected=affected)
