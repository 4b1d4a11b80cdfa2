"""Design of many class releases: every mechanism within one total (ε, δ), with its shares of right and wrong answers.

Q queries come, and each is answered by a class or by ⊥. An *option* is a mechanism for all of them, private as a whole:

    optimal            the linear program's rule, one table for each release
    optimal_sequence   between two classes, the γ that is made for all releases
    every mechanism with a parameter (`darrm_opt.mechanisms`), as it is drawn and as a table for the label alone
    confident_gnmax    Q checks, and a label only where a check passes and fewer than ``cap`` labels were released

All are held to the same neighbours, the same transcript (classes and ⊥, nothing else) and the same total, and all are
judged by Pr[right] − price·Pr[wrong] over the same law of votes. Which parameters are proposed is a search on a grid;
what they cost is then proved, and shares are those of the noise that is drawn, on whole numbers.

With queries drawn independently from the law, checks pass with one chance p, so that N ~ Binomial(Q, p) of them pass
and E[min(N, cap)] labels are released; each released label has the law of votes given that its check passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from darrm_opt.budgeting import design_sequence, epsilon_each, release_target
from darrm_opt.design.objective import histogram
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, calibrated_names, mechanism_class
from darrm_opt.mechanisms.calibrated_table import CONFIDENT, calibrate_confident, calibrate_mechanism, tables
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.mechanisms.noisy_maximum import NoisyMaximum, calibrated_check, pass_chances
from darrm_opt.mechanisms.table import RuleMechanism
from darrm_opt.noise import NoiseFunction
from darrm_opt.plurality.vote_law import VoteLaw
from darrm_opt.problem import Privacy, Problem, whole_number
from darrm_opt.tables.priors import PastVotes, PluralityObjective, PluralityPrior
from darrm_opt.tables.problem import PluralityProblem, has_table
from darrm_opt.tables.rule import PluralityRule
from darrm_opt.tables.solver import as_objective, solve_plurality

MAX_RULE_PARTITIONS = 600
"""Partitions up to which an optimal rule is made where a choice of mechanisms is asked for: seconds."""

MAX_SEQUENCE = 1000
"""Most queries for which a γ is made for all of them together: seconds."""

CAP_SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
"""Labels at most, as shares of the queries."""

CHECK_COSTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of the variance μ² that all checks together may cost."""

THRESHOLD_STEPS = 40
"""Thresholds that are tried: multiples of K/40, from 0 to K."""

PARAMETER_PRECISION = 2e-4
"""Relative distance of a parameter from the most useful one that fits."""

SCALE_PRECISION = 0.01
"""Relative distance of a table's ε from the largest one of which Q fit."""

TABLE_PRECISION = 1e-6
"""Relative distance of a table's rate from the largest one that is private."""

MAX_SCALE = 4.0
"""Largest ε of a table that is tried, over the one that optimal composition allows."""


@dataclass(frozen=True)
class ReleaseOption:
    """A mechanism for all queries, with what it achieves and what it costs.

    Attributes:
        name: as in the module's list.
        right: share of the queries that are answered by the plurality, in expectation.
        wrong: share that is answered by another class.
        abstained: share that is answered by ⊥.
        utility: right − price·wrong, a query.
        epsilon: proved ε of all answers together at the total's δ, at most the total's [nats].
        account: how it was proved.
        parameters: what was chosen: sigma, check_sigma, threshold [votes] and cap; or the (ε, δ) of each release, and
            its rate [nats a vote] where there is no table.
        gap: of the optimum, by how much another table of the same (ε, δ) each could raise the utility, at most; None of
            the others.
        mechanism: what releases, its cap included.
    """

    name: str
    right: float
    wrong: float
    abstained: float
    utility: float
    epsilon: float
    account: str
    parameters: dict[str, float]
    mechanism: VoteMechanism
    gap: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the option as plain data, without its mechanism."""
        names = ("name", "right", "wrong", "abstained", "utility", "epsilon", "account", "parameters", "gap")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ReleaseDesign:
    """Every mechanism for Q queries within a total, the best first.

    Attributes:
        K: voters.
        classes: C.
        queries: Q.
        total: (ε, δ) of all answers together.
        affected: votes that one record can move.
        objective: law of votes, ties and price.
        options: in order of decreasing utility.
        samples: how many vote counts stand for the prior where there are too many to list them: then shares are
            estimates, with a standard error below 1/√samples. None: the whole law, or past votes.
    """

    K: int
    classes: int
    queries: int
    total: Privacy
    affected: int
    objective: PluralityObjective
    options: tuple[ReleaseOption, ...]
    samples: int | None = None

    @property
    def best(self) -> ReleaseOption:
        """The option of the largest utility."""
        return self.options[0]

    def as_dict(self) -> dict[str, Any]:
        """Return the design as plain data."""
        return {
            "K": self.K,
            "classes": self.classes,
            "queries": self.queries,
            "total": {"epsilon": self.total.epsilon, "delta": self.total.delta},
            "affected": self.affected,
            "prior": type(self.objective.prior).__name__
            if isinstance(self.objective.prior, PastVotes)
            else str(self.objective.prior),
            "ties": self.objective.ties,
            "price": self.objective.price,
            "samples": self.samples,
            "options": [option.as_dict() for option in self.options],
        }


def design_releases(
    K: int,
    classes: int,
    total: Privacy,
    queries: int,
    *,
    affected: int = 1,
    objective: PluralityObjective | PluralityPrior | str = "dirichlet(1)",
) -> ReleaseDesign:
    """Return every mechanism for Q queries within a total (ε, δ), the best first.

    Args:
        K: voters, whose votes are not private in themselves.
        classes: C ≥ 2.
        total: (ε, δ) of all answers together; ε > 0 and finite.
        queries: Q ≥ 1.
        affected: votes that one record can move.
        objective: the law of votes and the price of a wrong label, as for `solve_plurality`. The parameters depend on
            it: past votes must be public, or not protected.

    Returns:
        Tables only up to `MAX_RULE_PARTITIONS` partitions, noise only where δ > 0. With price 0 nothing abstains.

    Guarantees:
        Each option is ``total``-DP over all queries, each chosen freely in view of earlier answers; ``option.epsilon``
        is proved for what is drawn. Shares are expectations under the law, and no guarantee.

    Raises:
        InvalidInput: a number is outside its range.

    >>> design = design_releases(11, 3, Privacy(2.0, 1e-5), 2, objective="favoured(0.5,0.9)")
    >>> design.best.name, design.best.epsilon <= 2.0
    ('optimal', True)
    """
    problem = PluralityProblem(K, classes, total, affected)
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if not 0 < total.epsilon < math.inf:
        raise InvalidInput("epsilon", total.epsilon, "a finite number of nats above 0")
    law = VoteLaw(as_objective(objective), problem)
    options: list[ReleaseOption] = []
    if has_table(K, classes, MAX_RULE_PARTITIONS):
        options += _table_options(problem, queries, law)
    noisy = {option.name: option for option in _noisy_options(problem, queries, law)}
    options += noisy.values()
    if law.objective.price and total.delta > 0 and NoisyMaximum.name in noisy:
        options += _checked_options(problem, queries, law, noisy[NoisyMaximum.name].mechanism)
    if classes == 2 and total.delta > 0 and 1 < queries <= MAX_SEQUENCE:
        options += _gamma_options(problem, queries, law, [option.mechanism.gamma for option in noisy.values()])
    by_utility = sorted(options, key=lambda option: -option.utility)
    best = {option.name: option for option in reversed(by_utility)}  # of two of one name the better one
    return ReleaseDesign(
        problem.K,
        problem.classes,
        queries,
        total,
        problem.affected,
        law.objective,
        tuple(option for option in by_utility if best[option.name] is option),
        law.samples,
    )


def _option(
    law: VoteLaw,
    name: str,
    shares: tuple[float, float],
    cost: tuple[float, str],
    parameters: dict[str, float],
    mechanism: VoteMechanism,
    gap: float | None = None,
) -> ReleaseOption:
    """Return an option with these shares of right answers and of answers."""
    right, answered = shares
    wrong = max(answered - right, 0.0)
    utility = right - law.objective.price * wrong
    return ReleaseOption(name, right, wrong, max(1.0 - right - wrong, 0.0), utility, *cost, parameters, mechanism, gap)


def _noisy_options(problem: PluralityProblem, queries: int, law: VoteLaw) -> Iterator[ReleaseOption]:
    """Yield every mechanism with a parameter that is proved within the total, at the most useful value."""
    K, classes, total, affected = problem.K, problem.classes, problem.target, problem.affected
    for name in calibrated_names():
        try:
            mechanism = mechanism_class(name).calibrated(
                K, classes, total, queries, affected=affected, precision=PARAMETER_PRECISION
            )
        except InvalidInput:  # it is for two classes, or not proved without δ
            continue
        cost = mechanism.cost(queries, total.delta)
        shares = (float(law.judged @ mechanism.leader_chances(law.counts)), 1.0)
        parameters = {mechanism.parameter: mechanism.value}
        yield _option(law, name, shares, (cost.epsilon, cost.account), parameters, mechanism)


def _checked_options(
    problem: PluralityProblem, queries: int, law: VoteLaw, plain: VoteMechanism
) -> Iterator[ReleaseOption]:
    """Yield the checked noisy maximum, at the noise that the account of what is drawn proves.

    ``plain`` is that without a check.
    """
    K, classes, total, affected, sigma = problem.K, problem.classes, problem.target, problem.affected, plain.value
    # A label costs 2/σ² and a check 1/σ₁² of the same variance, nearly: a proposal, which the account then proves.
    thresholds = np.arange(THRESHOLD_STEPS + 1) * (K / THRESHOLD_STEPS)
    largest = law.counts[:, 0]
    proposals: list[tuple[float, float, int]] = []  # utility, σ₁/σ, cap
    for share in CHECK_COSTS:
        check_sigma = max(1.0, sigma / math.sqrt(2 * share))
        passes = [pass_chances(largest, threshold, check_sigma) for threshold in thresholds]
        for cap in sorted({max(1, math.ceil(cap_share * queries)) for cap_share in CAP_SHARES}):
            label_sigma = max(1.0, sigma * math.sqrt(cap / queries / (1 - share)))
            leads = NoisyMaximum(K, classes, label_sigma).leader_chances(law.counts)
            utility = max(law.utility(law.checked_shares(leads, chances, queries, cap)) for chances in passes)
            proposals.append((utility, check_sigma / label_sigma, cap))
    _, ratio, cap = max(proposals)
    label_cap = cap if cap < queries else None
    checked = calibrated_check(K, classes, total, queries, ratio, label_cap, affected, PARAMETER_PRECISION)
    sigma, check_sigma = checked.sigma, float(checked.check_sigma or 1.0)
    leads = checked.leader_chances(law.counts)
    shares = {
        float(threshold): law.checked_shares(leads, pass_chances(largest, threshold, check_sigma), queries, cap)
        for threshold in thresholds
    }
    threshold = max(shares, key=lambda threshold: law.utility(shares[threshold]))
    mechanism = NoisyMaximum(
        K, classes, sigma, threshold=threshold, check_sigma=check_sigma, affected=affected, cap=label_cap
    )
    cost = mechanism.cost(queries, total.delta)
    parameters = {"sigma": sigma, "check_sigma": check_sigma, "threshold": threshold, "cap": cap}
    yield _option(law, CONFIDENT, shares[threshold], (cost.epsilon, cost.account), parameters, mechanism)


def _gamma_options(
    problem: PluralityProblem, queries: int, law: VoteLaw, seeds: list[NoiseFunction]
) -> Iterator[ReleaseOption]:
    """Yield the γ made for all releases between two classes, at least as useful as the ``seeds``."""
    total, K = problem.target, problem.K
    voters = Problem(K, Privacy(math.inf), total, problem.affected)
    masses = np.zeros(K + 1)
    masses[law.counts[:, 0]] += law.judged / 2
    masses[law.counts[:, 1]] += law.judged / 2
    design = design_sequence(voters, queries, total, histogram(masses), seeds=seeds)
    mechanism = NoiseFunctionMechanism(design.noise, affected=problem.affected)
    cost = mechanism.cost(queries, total.delta)
    if cost.epsilon <= total.epsilon:
        shares = (float(law.judged @ mechanism.leader_chances(law.counts)), 1.0)
        yield _option(law, "optimal_sequence", shares, (cost.epsilon, cost.account), {}, mechanism)


def _table_options(problem: PluralityProblem, queries: int, law: VoteLaw) -> Iterator[ReleaseOption]:
    """Yield the linear program's rule and the mechanisms that people use, as tables, by each of two accounts.

    One charges every release an (ε, δ), by optimal composition; the other takes δ = 0 for each and composes the laws.
    """
    abstention = law.objective.price > 0
    total, K, classes, affected = problem.target, problem.K, problem.classes, problem.affected

    gaps: dict[PluralityRule, float] = {}

    def optimal(target: Privacy) -> PluralityRule:
        solution = solve_plurality(PluralityProblem(K, classes, target, affected, abstention=abstention), law.objective)
        gaps[solution.rule] = solution.gap
        return solution.rule

    def calibrated(name: str) -> Callable[[Privacy], PluralityRule]:
        return lambda target: (
            calibrate_mechanism(PluralityProblem(K, classes, target, affected), name, precision=TABLE_PRECISION).rule
        )

    makers: dict[str, Callable[[Privacy], PluralityRule]] = {"optimal": optimal}
    makers |= {name: calibrated(name) for name in tables()}
    if abstention:
        makers[CONFIDENT] = lambda target: (
            calibrate_confident(
                PluralityProblem(K, classes, target, affected, abstention=True),
                lambda rule: law.utility(law.rule_shares(rule)),
            ).rule
        )
    for name, make in makers.items():
        equal = release_target(total, queries)
        made = [_of_target(make, equal, problem)]
        if queries > 1 and total.delta > 0 and name != CONFIDENT:
            made.append(_composed_table(make, problem, queries))
        for mechanism in made:
            cost, target = mechanism.cost(queries, total.delta), mechanism.problem.target
            parameters = {"epsilon": target.epsilon, "delta": target.delta}
            gap = gaps[mechanism.rule] if name == "optimal" else None
            yield _option(
                law, name, law.rule_shares(mechanism.rule), (cost.epsilon, cost.account), parameters, mechanism, gap
            )


def _of_target(make: Callable[[Privacy], PluralityRule], target: Privacy, problem: PluralityProblem) -> RuleMechanism:
    rule = make(target)
    return RuleMechanism(
        PluralityProblem(problem.K, problem.classes, target, problem.affected, abstention=rule.abstention), rule
    )


def _composed_table(make: Callable[[Privacy], PluralityRule], problem: PluralityProblem, queries: int) -> RuleMechanism:
    """Return the table with about the largest ε, δ = 0, of which Q fit in the total."""
    total = problem.target
    start = epsilon_each(total, 0.0, queries)
    best = _of_target(make, Privacy(start, 0.0), problem)
    low, high = 1.0, MAX_SCALE
    while high - low > SCALE_PRECISION * low:
        scale = math.sqrt(low * high)
        mechanism = _of_target(make, Privacy(start * scale, 0.0), problem)
        if mechanism.fits(total, queries):
            low, best = scale, mechanism
        else:
            high = scale
    return best
