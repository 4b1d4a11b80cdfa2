"""Candidates among any number of classes: certified tables, and checked noise.

    optimal            the table of the linear program for each release, with ⊥ if wrong answers have a price
    every mechanism    as a table, for the label alone
    confident_gnmax    Q checks, and a label only if its check passes and fewer than ``cap`` labels were released

A grid search proposes parameters; their cost is then proved, and shares are those of the integer noise that is drawn.
For queries drawn independently from the law of votes, checks pass with the same probability p: N ~ Binomial(Q, p) pass,
E[min(N, cap)] labels are released, and each released label has the law of votes given that its check passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from darrm_opt.accounting.calibrate import Calibration, calibrate, epsilon_each, release_target
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.base import CONFIDENT
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum, calibrated_check, pass_chances
from darrm_opt.mechanisms.table import TableMechanism
from darrm_opt.planning.candidates import provable_problem
from darrm_opt.planning.option import Option
from darrm_opt.planning.question import Question
from darrm_opt.planning.table_baselines import calibrate_confident, calibrate_mechanism, tables
from darrm_opt.problem import Privacy, Problem
from darrm_opt.tables.problem import has_table
from darrm_opt.tables.solver import solve_table
from darrm_opt.tables.table import Table

MAX_RULE_PARTITIONS = 600  # number of partitions up to which an optimal table takes only seconds and is designed
CAP_SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)  # candidate caps, as shares of the queries

CHECK_COSTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of the variance μ² that all checks together may cost."""

THRESHOLD_STEPS = 40  # candidate thresholds: multiples of K/40, from 0 to K
CHECK_PRECISION = 2e-4  # relative distance of the noise of labels and checks from the least that fits
SCALE_PRECISION = 0.005  # relative distance of a table's ε, or of the cost of Q tables, from the largest that fits
TABLE_PRECISION = 1e-6  # relative distance of a table's rate from the largest one that is private
MAX_SCALE = 4.0  # largest ε of a table that is tried, relative to that of optimal composition


def table_options(name: str, question: Question) -> Iterator[Option]:
    """Yield the options of a name as certified tables, by each of two accounts; none if tables are too large.

    One charges every release an (ε, δ), by optimal composition; the other sets δ = 0 for each and composes the laws.
    """
    make = _table_maker(name, question)
    if make is None or not has_table(question.K, question.classes, MAX_RULE_PARTITIONS):
        return
    problem, queries, total, law = question.problem, question.queries, question.total, question.vote_law
    made: list[ProvedTable | None] = [_proved_table(make, release_target(total, queries), problem)]
    # At a total δ of 0 nothing composes better than the sum of ε, which the first target already uses.
    if queries > 1 and total.delta > 0 and name != CONFIDENT:
        made.append(_composed_table(make, problem, queries))
    for mechanism, gap, parameters in filter(None, made):
        # The target only guided the search: the account of the table's own laws decides.
        cost, target = mechanism.cost(queries, total.delta), mechanism.problem.target
        # a table of two classes without ⊥ is a γ: with a proved target the other interfaces can read it.
        is_gamma = question.classes == 2 and not mechanism.problem.abstention and cost.epsilon <= total.epsilon
        proved = provable_problem(mechanism.gamma, question) if is_gamma else None
        option = Option.of_mechanism(
            name,
            question,
            mechanism,
            law.table_shares(mechanism.table),
            cost,
            {**parameters, "epsilon": target.epsilon, "delta": target.delta},
            noise=None if proved is None else mechanism.gamma,
            problem=proved,
            gap=gap,
        )
        if option.fits:
            yield option


Maker = Callable[[Privacy], tuple[Table, float | None, dict[str, float]]]
"""Makes a table for an (ε, δ) of one release, with the gap of an optimum, and the parameters of a mechanism."""


def _table_maker(name: str, question: Question) -> Maker | None:
    """Return the maker of the tables of a name; None if it has no table."""
    law, abstention = question.vote_law, question.price > 0

    def problem(target: Privacy, *, abstention: bool = False) -> Problem:
        return replace(question.problem, target=target, abstention=abstention)

    def optimal(target: Privacy) -> tuple[Table, float | None, dict[str, float]]:
        solution = solve_table(problem(target, abstention=abstention), law.objective)
        return solution.table, solution.gap, {}

    def confident(target: Privacy) -> tuple[Table, float | None, dict[str, float]]:
        silent = problem(target, abstention=True)
        rate, table = calibrate_confident(silent, lambda table: law.utility(law.table_shares(table)))
        return table, None, {"sigma": 1 / rate} if rate else {}

    def calibrated(target: Privacy) -> tuple[Table, float | None, dict[str, float]]:
        rate, table = calibrate_mechanism(problem(target), name, precision=TABLE_PRECISION)
        kind = mechanism_class(name)
        value = rate if kind.increases else 1 / rate if rate else math.inf
        return table, None, {kind.parameter: value}

    if name == "optimal":
        return optimal
    if name == CONFIDENT:
        return confident
    return calibrated if name in tables() else None


def checked_maximum(question: Question) -> Option:
    """Return the checked noisy maximum, at the noise proved by the account of the drawn noise."""
    K, classes, total, affected = question.K, question.classes, question.total, question.affected
    queries, law = question.queries, question.vote_law
    try:
        sigma = NoisyMaximum.calibrated(K, classes, total, queries, affected=affected).sigma
    except InvalidInput:
        return Option.nothing_fits(CONFIDENT, question)
    # a label costs about 2/σ² and a check 1/σ₁² of the same variance: a proposal, which the account then proves.
    thresholds = np.arange(THRESHOLD_STEPS + 1) * (K / THRESHOLD_STEPS)
    largest = law.counts[:, 0]
    proposals: list[tuple[float, float, float, int]] = []  # utility, σ₁/σ, threshold, cap
    for share in CHECK_COSTS:
        check_sigma = max(1.0, sigma / math.sqrt(2 * share))
        passes = [pass_chances(largest, threshold, check_sigma) for threshold in thresholds]
        for cap in sorted({max(1, math.ceil(cap_share * queries)) for cap_share in CAP_SHARES}):
            label_sigma = max(1.0, sigma * math.sqrt(cap / queries / (1 - share)))
            leads = NoisyMaximum(K, classes, label_sigma).leader_chances(law.counts)
            utilities = [law.utility(law.checked_shares(leads, chances, queries, cap)) for chances in passes]
            best = int(np.argmax(utilities))
            proposals.append((utilities[best], check_sigma / label_sigma, float(thresholds[best]), cap))
    _, ratio, proposed, cap = max(proposals)
    label_cap = cap if cap < queries else None
    found = calibrated_check(K, classes, total, queries, ratio, proposed, label_cap, affected, CHECK_PRECISION)
    sigma, check_sigma = found.sigma, float(found.check_sigma or 1.0)
    leads = found.leader_chances(law.counts)
    shares = {
        float(threshold): law.checked_shares(leads, pass_chances(largest, threshold, check_sigma), queries, cap)
        for threshold in thresholds
    }

    def at(threshold: float) -> NoisyMaximum:
        check = {"threshold": threshold, "check_sigma": check_sigma, "cap": label_cap}
        return NoisyMaximum.of(K, classes, sigma, affected, **check)

    # Of few voters the threshold enters the cost: another than was calibrated may be beyond the total.
    threshold = max(shares, key=lambda threshold: law.utility(shares[threshold]))
    cost = at(threshold).cost(queries, total.delta)
    if cost.epsilon > total.epsilon:
        threshold, cost = proposed, found.cost(queries, total.delta)
    parameters = {"sigma": sigma, "check_sigma": check_sigma, "threshold": threshold, "cap": cap}
    return Option.of_mechanism(CONFIDENT, question, at(threshold), shares[threshold], cost, parameters)


ProvedTable = tuple[TableMechanism, float | None, dict[str, float]]  # a proved table, its gap and its parameters


def _proved_table(make: Maker, target: Privacy, problem: Problem) -> ProvedTable:
    table, gap, parameters = make(target)
    proved = replace(problem, target=target, abstention=table.cells.abstention)
    return TableMechanism(proved, table), gap, parameters


def _composed_table(make: Maker, problem: Problem, queries: int) -> ProvedTable | None:
    """Return the table with nearly the largest ε, δ = 0, of which Q fit in the total."""
    total = problem.target

    def proved(epsilon: float) -> tuple[ProvedTable, float]:
        found = _proved_table(make, Privacy(epsilon, 0.0), problem)
        return found, found[0].cost(queries, total.delta).epsilon

    start = epsilon_each(total, 0.0, queries)  # this ε fits; laws nearly always cost less
    found: Calibration[ProvedTable] | None = calibrate(
        proved, total.epsilon, MAX_SCALE * start, guess=start, precision=SCALE_PRECISION
    )
    return None if found is None else found.result
