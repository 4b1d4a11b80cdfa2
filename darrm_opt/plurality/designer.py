"""Design of many class releases: every mechanism within one total (ε, δ), with its shares of right and wrong answers.

Q queries come, and each is answered by a class or by ⊥. An *option* is a mechanism for all of them, private as a whole:

    gnmax              the largest noisy count, Q labels
    confident_gnmax    Q checks, and a label only where a check passes and fewer than ``cap`` labels were released
    optimal            the linear program's rule, one table for each release
    permute_and_flip, exponential, laplace    as tables, for the label alone; where partitions are too many for tables,
                                              the first two without one

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

from darrm_opt.accounting.labels.calibration import calibrate_noise
from darrm_opt.accounting.labels.composition import composed_epsilon
from darrm_opt.budgeting import epsilon_each
from darrm_opt.errors import InvalidInput
from darrm_opt.plurality.mechanisms import MECHANISMS, calibrate_confident, calibrate_mechanism
from darrm_opt.plurality.plan import MAX_RULE_PARTITIONS, release_target, selection_for
from darrm_opt.plurality.vote_law import VoteLaw, leader_chances, pass_chances, selection_chances
from darrm_opt.plurality.vote_mechanisms import SELECTIONS, NoisyMaximum, RuleMechanism, VoteMechanism
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import multiple_up
from darrm_opt.tables.priors import PastVotes, PluralityObjective, PluralityPrior
from darrm_opt.tables.problem import PluralityProblem, has_table
from darrm_opt.tables.rule import PluralityRule, rule_laws
from darrm_opt.tables.solver import as_objective, solve_plurality

CAP_SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
"""Labels at most, as shares of the queries."""

CHECK_COSTS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""Shares of the variance μ² that all checks together may cost."""

THRESHOLD_STEPS = 40
"""Thresholds that are tried: multiples of K/40, from 0 to K."""

SIGMA_PRECISION = 2e-3
"""Relative distance of σ from the least one that fits."""

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
    else:
        options += _selection_options(problem, queries, law)
    if total.delta > 0:
        options += _noise_options(problem, queries, law)
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


def _selection_options(problem: PluralityProblem, queries: int, law: VoteLaw) -> Iterator[ReleaseOption]:
    """Yield permute-and-flip and the exponential mechanism, without tables."""
    K, classes, total, affected = problem.K, problem.classes, problem.target, problem.affected
    for name in SELECTIONS:
        mechanism = selection_for(name, total, queries, K=K, classes=classes, affected=affected)
        if total.delta > 0:
            epsilon, account = mechanism.epsilon(queries, total.delta), "optimal composition, or of a bounded range"
        else:
            epsilon, account = multiple_up(queries, mechanism.each.epsilon), "simple composition"
        right = float(law.judged @ selection_chances(law.counts, name, mechanism.rate))
        parameters = {"rate": mechanism.rate, "epsilon": mechanism.each.epsilon, "delta": 0.0}
        yield _option(law, name, (right, 1.0), (epsilon, account), parameters, mechanism)


def _noise_options(problem: PluralityProblem, queries: int, law: VoteLaw) -> Iterator[ReleaseOption]:
    """Yield GNMax, and where wrong labels have a price Confident-GNMax, at the noise that a discrete account proves."""
    K, classes, total, affected = problem.K, problem.classes, problem.target, problem.affected
    common = {"classes": classes, "affected": affected, "precision": SIGMA_PRECISION}
    plain = calibrate_noise(total, queries, noise="discrete", **common)  # type: ignore[arg-type]
    sigma = plain.label_sigma
    right = float(law.judged @ leader_chances(law.counts, sigma))
    yield _option(
        law,
        "gnmax",
        (right, 1.0),
        (plain.cost.epsilon, plain.cost.labels_recursion.method),
        {"sigma": sigma, "cap": queries},
        NoisyMaximum(K, classes, sigma, affected=affected),
    )
    if not law.objective.price:
        return
    # A label costs 2/σ² and a check 1/σ₁² of the same variance, nearly: a proposal, which the account then proves.
    thresholds = np.arange(THRESHOLD_STEPS + 1) * (K / THRESHOLD_STEPS)
    largest = law.counts[:, 0]
    proposals: list[tuple[float, float, int]] = []  # utility, σ₁/σ, cap
    for share in CHECK_COSTS:
        check_sigma = max(1.0, sigma / math.sqrt(2 * share))
        passes = [pass_chances(largest, threshold, check_sigma) for threshold in thresholds]
        for cap in sorted({max(1, math.ceil(cap_share * queries)) for cap_share in CAP_SHARES}):
            label_sigma = max(1.0, sigma * math.sqrt(cap / queries / (1 - share)))
            leads = leader_chances(law.counts, label_sigma)
            utility = max(law.utility(law.checked_shares(leads, chances, queries, cap)) for chances in passes)
            proposals.append((utility, check_sigma / label_sigma, cap))
    _, ratio, cap = max(proposals)
    calibration = calibrate_noise(total, cap, checks=queries, check_ratio=ratio, noise="discrete", **common)  # type: ignore[arg-type]
    check_sigma = calibration.releases[1].sigma
    leads = leader_chances(law.counts, calibration.label_sigma)
    shares = {
        float(threshold): law.checked_shares(leads, pass_chances(largest, threshold, check_sigma), queries, cap)
        for threshold in thresholds
    }
    threshold = max(shares, key=lambda threshold: law.utility(shares[threshold]))
    noises = {"threshold": threshold, "check_sigma": check_sigma}
    mechanism = NoisyMaximum(
        K, classes, calibration.label_sigma, **noises, affected=affected, cap=cap if cap < queries else None
    )
    yield _option(
        law,
        "confident_gnmax",
        shares[threshold],
        (calibration.cost.epsilon, calibration.cost.labels_recursion.method),
        {"sigma": calibration.label_sigma, "check_sigma": check_sigma, "threshold": threshold, "cap": cap},
        mechanism,
    )


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
    makers |= {name: calibrated(name) for name in MECHANISMS}
    if abstention:
        makers["confident_gnmax"] = lambda target: (
            calibrate_confident(
                PluralityProblem(K, classes, target, affected, abstention=True),
                lambda rule: law.utility(law.rule_shares(rule)),
            ).rule
        )
    for name, make in makers.items():
        equal = release_target(total, queries)
        tables = [(make(equal), equal, total.epsilon, "optimal composition of (ε, δ)")]
        if queries > 1 and total.delta > 0 and name != "confident_gnmax":
            tables.append(_composed_table(make, total, queries, affected))
        for rule, target, epsilon, account in tables:
            parameters = {"epsilon": target.epsilon, "delta": target.delta}
            mechanism = RuleMechanism(PluralityProblem(K, classes, target, affected, abstention=rule.abstention), rule)
            gap = gaps[rule] if name == "optimal" else None
            yield _option(law, name, law.rule_shares(rule), (epsilon, account), parameters, mechanism, gap)


def _composed_table(
    make: Callable[[Privacy], PluralityRule], total: Privacy, queries: int, affected: int
) -> tuple[PluralityRule, Privacy, float, str]:
    """Return the table with about the largest ε, δ = 0, of which Q fit in the total, its target and its proof."""
    start = epsilon_each(total, 0.0, queries)

    def cost(rule: PluralityRule) -> tuple[float, str]:
        divergence = rule_laws(rule, affected).divergence
        if divergence is None:
            return math.inf, "none"
        bound = composed_epsilon([(divergence, queries)], total.delta)
        return bound.epsilon, bound.method

    target = Privacy(start, 0.0)
    best = (make(target), target, total.epsilon, "optimal composition of (ε, 0)")
    low, high = 1.0, MAX_SCALE
    while high - low > SCALE_PRECISION * low:
        scale = math.sqrt(low * high)
        target = Privacy(start * scale, 0.0)
        rule = make(target)
        epsilon, account = cost(rule)
        if epsilon <= total.epsilon:
            low, best = scale, (rule, target, epsilon, account)
        else:
            high = scale
    return best
