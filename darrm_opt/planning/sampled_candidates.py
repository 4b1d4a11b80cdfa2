"""Candidates where every query has a fresh and secret sample of the records (`darrm_opt.accounting.sampling`).

    optimal          the table with the most right answers among those of one Rényi divergence (`renyi_tables`), at
                     the best order; for few queries, at δ = 0, or where one sample or record reaches more, that of the
                     linear program at the largest ε of one release of which all queries fit
    every mechanism  at the parameter of which all queries fit

All are accounted for by every account of sampled releases.
"""

from __future__ import annotations

import math
from functools import cache

from darrm_opt.accounting.calibrate import Calibration, calibrate
from darrm_opt.accounting.cost import Cost, cost
from darrm_opt.accounting.quota import epsilon_each
from darrm_opt.accounting.sampling import EACH_VOTER, Sampling
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.table import RuleMechanism
from darrm_opt.planning.option import Option
from darrm_opt.planning.question import Question
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy
from darrm_opt.tables.problem import PluralityProblem, has_table
from darrm_opt.tables.solver import PluralitySolution, solve_plurality

MAX_PARTITIONS = 600
"""Vote counts up to which a table is designed: seconds."""

MIN_COMPOSED_QUERIES = 10
"""Queries below which a table of a single release may be better by a few 1e-4."""

PRECISION = 2e-3
"""Relative distance of the cost, or of the ε of one release, from the largest that fits."""

NOTHING_FITS = "No setting of it is proved to fit the total."


def sampled_option(name: str, question: Question, sampling: Sampling) -> Option:
    """Return the option of a name for sampled queries."""
    if name == "optimal":
        return _best_table(question, sampling)
    try:
        mechanism = mechanism_class(name).calibrated(
            question.K,
            question.classes,
            question.total,
            question.queries,
            affected=question.affected,
            sampling=sampling,
            quick=question.classes == 2,  # there convolutions for a mean number of voters take seconds
        )
    except InvalidInput as err:
        why = f"It is for {err.accepted} classes." if err.argument == "classes" else NOTHING_FITS
        return Option.unfit(name, question, why)
    parameters = {mechanism.parameter: mechanism.value}
    shares = question.vote_law.leader_shares(mechanism)
    return _fitting(name, question, sampling, mechanism, shares, parameters)


def _best_table(question: Question, sampling: Sampling) -> Option:
    """Return the better of a composed table and one of a single release, where they differ little or cannot be made."""
    composes = question.total.delta > 0 and sampling.labels == 1 and sampling.scheme not in EACH_VOTER
    tables = [_composed_table(question, sampling)] if composes else []
    if question.queries < MIN_COMPOSED_QUERIES or not any(option.fits for option in tables):
        tables.append(_table(question, sampling))
    return max(tables, key=lambda option: (option.fits, option.utility or 0.0))


def _table(question: Question, sampling: Sampling) -> Option:
    """Return the best table of one release whose Q sampled releases fit."""
    # The ε of one release only proposes a table. What it costs is proved from its own laws, and is far less than what
    # any mechanism of that ε may cost: the ε is searched for by that.
    if not has_table(question.K, question.classes, MAX_PARTITIONS):
        return Option.unfit("optimal", question, "There are too many vote counts for a table.", "not computed")
    queries, total, law = question.queries, question.total, question.vote_law

    def make(epsilon: float) -> tuple[tuple[PluralitySolution, RuleMechanism], float]:
        target = Privacy(epsilon)
        problem = PluralityProblem(
            question.K, question.classes, target, question.affected, abstention=question.price > 0
        )
        solution = solve_plurality(problem, law.objective)
        mechanism = RuleMechanism(problem, solution.rule)
        return (solution, mechanism), _cost(mechanism, question, sampling).epsilon

    # By the generic bound so much is sure to fit where a record reaches one voter.
    each = epsilon_each(total, 0.0, queries)
    guess = math.log1p(math.expm1(min(each, 700.0)) / sampling.chance)
    if sampling.scheme in EACH_VOTER:
        guess = each
    found: Calibration[tuple[PluralitySolution, RuleMechanism]] | None = calibrate(
        make,
        total.epsilon,
        MAX_TARGET_EPSILON,
        guess=min(guess, MAX_TARGET_EPSILON),
        precision=PRECISION,
        stop=question.stop,
    )
    if found is None:
        return Option.unfit("optimal", question, NOTHING_FITS)
    solution, mechanism = found.result
    parameters = {"epsilon": mechanism.problem.target.epsilon, "delta": mechanism.problem.target.delta}
    shares = law.rule_shares(mechanism.rule)
    return _fitting("optimal", question, sampling, mechanism, shares, parameters, gap=solution.gap)


ORDERS, ORDER_STEP = 4, 1.5
"""Steps of the search for the order of a composed table, and the factor of λ − 1 between the first ones."""


def _composed_table(question: Question, sampling: Sampling) -> Option:
    """Return the best table by the Rényi divergence of all queries together, at the best order."""
    from darrm_opt.planning.renyi_tables import RenyiTables

    total, queries, law = question.total, question.queries, question.vote_law
    problem = PluralityProblem(
        question.K, question.classes, Privacy(1.0), question.affected, abstention=question.price > 0
    )
    weights, _ = law.objective.weights(problem.histograms)
    tables = RenyiTables(problem, weights, sampling)
    if not tables.is_possible:
        return Option.unfit("optimal", question, "There are too many vote counts for a table.", "not computed")

    @cache
    def at(order: float) -> float:
        return float(weights @ tables.best(order, divergence(order), question.stop))

    def divergence(order: float) -> float:
        """Return about the Rényi divergence of one release within the total."""
        slack = math.log1p(-1 / order) - math.log(total.delta * order) / (order - 1)
        return max((total.epsilon - slack) / queries, 1e-9 * total.epsilon)

    # That of a Gaussian mechanism of the same total, and from there on uphill.
    bits = -math.log(total.delta)
    order = 1 + math.sqrt(bits) / (math.sqrt(total.epsilon + bits) - math.sqrt(bits))
    step = ORDER_STEP
    for _ in range(ORDERS):
        around = [1 + (order - 1) / step, order, 1 + (order - 1) * step]
        best = max(around, key=at)
        if best == order:
            step = math.sqrt(step)
        order = best
        if question.stop():
            break

    def make(share: float) -> tuple[RuleMechanism, float]:
        mechanism = tables.mechanism(tables.best(order, share * divergence(order), question.stop))
        return mechanism, _cost(mechanism, question, sampling).epsilon

    found: Calibration[RuleMechanism] | None = calibrate(
        make, total.epsilon, MAX_SHARE, guess=1.0, precision=PRECISION, guess_error=GUESS_ERROR, stop=question.stop
    )
    if found is None:
        return Option.unfit("optimal", question, NOTHING_FITS)
    mechanism = found.result
    parameters = {"epsilon": mechanism.problem.target.epsilon, "delta": 0.0}
    return _fitting("optimal", question, sampling, mechanism, law.rule_shares(mechanism.rule), parameters)


MAX_SHARE, GUESS_ERROR = 4.0, 0.01
"""Most of the divergence that is estimated, as a multiple, and the share by which that may be off."""


def _cost(mechanism: VoteMechanism, question: Question, sampling: Sampling) -> Cost:
    return cost(mechanism, question.queries, question.total.delta, sampling)


def _fitting(
    name: str,
    question: Question,
    sampling: Sampling,
    mechanism: VoteMechanism,
    shares: tuple[float, float],
    parameters: dict[str, float],
    gap: float | None = None,
) -> Option:
    spent = _cost(mechanism, question, sampling)
    if spent.epsilon > question.total.epsilon:
        return Option.unfit(name, question, NOTHING_FITS)
    text = f"{mechanism.description[0].upper()}{mechanism.description[1:]}."
    return Option.fitting(
        name,
        question,
        f"{text} Every query has a fresh and secret sample: {sampling.words}, {sampling.neighbours}.",
        shares,
        Privacy(spent.epsilon, question.total.delta),
        spent.account,
        queries=question.queries,
        parameters=parameters,
        mechanism=mechanism,
        gap=gap,
    )
