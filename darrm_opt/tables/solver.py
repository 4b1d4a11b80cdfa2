"""The optimal plurality rule: solve the program, find the worst sets, add them, stop, prove."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from darrm_opt.design.solution import Status
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import real_number
from darrm_opt.tables.certificate import PluralityCertificate, certify_rule
from darrm_opt.tables.priors import PluralityObjective, PluralityPrior, parse_prior
from darrm_opt.tables.problem import ABSTENTION, Histograms, PluralityProblem
from darrm_opt.tables.rule import PluralityRule

CANONICAL_WEIGHT = 1e-8
"""Share of the objective that asks for the class with most votes everywhere, also where the prior gives little weight.
`gap` accounts for it. Where the prior gives no weight at all, it is too small to decide every entry: see the
documentation, "One answer"."""

VIOLATION = 2e-12
"""Excess below which a constraint counts as met; what is left is repaired."""

STEP_INWARD = 0.8
"""Cuts are sought at this share of the way from the program's answer to a private rule: such cuts are deeper."""

MAX_ROUNDS = 1000
"""Rounds after which the solve stops short."""


@dataclass(frozen=True)
class PluralityStatistics:
    """What a solve took."""

    partitions: int  # of the votes
    cuts: int  # privacy constraints in the final program
    rounds: int  # programs solved
    iterations: int  # simplex iterations in all
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class PluralitySolution:
    """A certified rule.

    Attributes:
        problem: what was asked.
        objective: what was maximised.
        rule: the table; its `values` are the array.
        utility: of the rule (`PluralityObjective`).
        upper_bound: proven bound on the utility of any private rule.
        status: how the solve ended.
        certificate: why the rule is private.
        statistics: what it took.
    """

    problem: PluralityProblem
    objective: PluralityObjective
    rule: PluralityRule
    utility: float
    upper_bound: float
    status: Status
    certificate: PluralityCertificate
    statistics: PluralityStatistics

    @property
    def gap(self) -> float:
        """How much larger the utility of the best private rule could be, at most; ≥ 0."""
        return max(0.0, self.upper_bound - self.utility)


def solve_plurality(
    problem: PluralityProblem,
    objective: PluralityObjective | PluralityPrior | str = "dirichlet(1)",
    *,
    time_limit: float | None = None,
) -> PluralitySolution:
    """Return the best private rule for one release of the plurality, with its certificate.

    Args:
        problem: voters, classes and target.
        objective: the utility of a release; a prior, or the text of one, stands for its probability of a right label
            given that one class alone leads.
        time_limit: [s]; when it has passed, the best rule so far is returned with a gap.

    Guarantees:
        The rule is (ε, δ)-DP for its doubles exactly as stored; no private rule that sees the counts alone has a
        utility above ``upper_bound``.

    Raises:
        InvalidInput: an argument is out of range, the prior does not fit, or there are too many partitions.
        SolveFailed: the solver refused the program.

    Source: ours; the documentation, "Votes among any number of classes".

    >>> from darrm_opt import Privacy
    >>> solution = solve_plurality(PluralityProblem(11, 3, Privacy(1.0, 1e-5)), "favoured(0.4,0.5,0.6,0.7,0.8,0.9)")
    >>> round(solution.utility, 3)
    0.901
    """
    start = time.perf_counter()
    if not isinstance(problem, PluralityProblem):
        raise InvalidInput("problem", problem, "a PluralityProblem")
    if time_limit is not None:
        real_number(time_limit, "time_limit", "seconds, above 0", above=0)
    deadline = math.inf if time_limit is None else start + time_limit
    goal = as_objective(objective)
    cells = problem.histograms
    weights, constant = goal.weights(cells)
    # Everything below is proved for any multipliers and any rule; the solver only proposes them.
    from darrm_opt.tables.linear_program import Cuts, PluralityProgram

    cuts, program = Cuts(cells, problem.strictest_target), PluralityProgram(cells, _canonical(weights, cells))
    inside = _private_start(cells, problem.target.epsilon / (2 * problem.affected))
    status, rounds, iterations, bound = Status.ITERATION_LIMIT, 0, 0, math.inf
    x, multipliers = inside, np.zeros(0)
    while rounds < MAX_ROUNDS:
        optimal, x, multipliers, steps = program.solve(deadline - time.perf_counter())
        rounds, iterations = rounds + 1, iterations + steps
        if not optimal:
            status = Status.TIME_LIMIT if time.perf_counter() >= deadline else Status.NUMERICAL
            break
        edges, sets, worst = cuts.violated(x, VIOLATION)
        if worst > 1e-3 or edges.size > len(cells.partitions) // 4:
            between = STEP_INWARD * inside + (1 - STEP_INWARD) * x
            deeper = cuts.violated(between, VIOLATION)
            if deeper[0].size:
                edges, sets = deeper[:2]
            else:
                inside = between
        count_before = len(cuts)
        program.add(cuts.add(edges, sets), cuts.limit)
        if len(cuts) == count_before:  # nothing is violated, or nothing that the program does not know already
            status = Status.OPTIMAL
            break
    bound = cuts.dual_bound(weights, multipliers)
    # Constant rules are private whatever the target is: where it leaves next to nothing, repair may cost more than
    # that.
    silent = cells.values == ABSTENTION
    some_class = (1 - 2.0**-50) / cells.classes  # the same double in every cell: exactly constant
    constants = [np.where(silent, 0.0, some_class), np.where(silent, 1.0, 0.0)]
    candidates = [PluralityRule.normalised(problem, table) for table in (x, inside)][
        : 1 if status is Status.OPTIMAL else 2
    ]
    candidates += [PluralityRule.of(problem, table) for table in constants]
    certified = [certify_rule(problem, candidate) for candidate in candidates]
    rule, certificate = max(certified, key=lambda pair: weighted_sum(pair[0], weights))
    statistics = PluralityStatistics(len(cells.partitions), len(cuts), rounds, iterations, time.perf_counter() - start)
    return PluralitySolution(
        problem, goal, rule, weighted_sum(rule, weights) + constant, bound + constant, status, certificate, statistics
    )


def as_objective(objective: PluralityObjective | PluralityPrior | str) -> PluralityObjective:
    """Return an objective, given one, its prior, or the prior's text."""
    if isinstance(objective, PluralityObjective):
        return objective
    return PluralityObjective(parse_prior(objective) if isinstance(objective, str) else objective)


def weighted_sum(rule: PluralityRule, weights: Array) -> float:
    """Return Σ w·x over the cells of a rule, x its probabilities."""
    return math.fsum((weights * rule.nearest).tolist())


def _private_start(cells: Histograms, rate: float) -> Array:
    """Return probabilities ∝ e^(rate·votes) of the classes: 2·rate·affected-DP, and strictly so almost everywhere."""
    weights = np.where(
        cells.values == ABSTENTION, 0.0, np.exp(rate * (cells.values - cells.values[cells.starts][cells.owners]))
    )
    return np.asarray(weights / np.add.reduceat(weights * cells.multiplicities, cells.starts)[cells.owners])


def _canonical(weights: Array, cells: Histograms) -> Array:
    """Return weights that leave no entry to chance: also where the prior has none, more votes are worth more."""
    scores = np.where(cells.values == ABSTENTION, 0, cells.values) / cells.values[cells.starts][cells.owners]
    everywhere = scores * cells.multiplicities / len(cells.partitions)
    return (1 - CANONICAL_WEIGHT) * weights + CANONICAL_WEIGHT * everywhere
