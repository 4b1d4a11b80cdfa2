"""Design of many class releases: every mechanism within one total (ε, δ), with its shares of right, wrong and abstained answers.

Q queries come, and each is answered by a class or by ⊥. An *option* is a mechanism for all of them, private as a whole:

    gnmax              the largest noisy count, Q labels
    confident_gnmax    Q checks, and a label only where a check passes and fewer than ``cap`` labels were released
    optimal            the linear program's rule, one table for each release
    permute_and_flip, exponential, laplace    as tables, for the label alone; the first two without one where there are too many
                                              partitions for tables

All are held to the same neighbours, the same transcript (classes and ⊥, nothing else) and the same total, and all are
judged by Pr[right] − price·Pr[wrong] over the same law of votes. Which parameters are proposed is a search on a grid; what they
cost is then proved, and shares are those of the noise that is drawn, on whole numbers.

With queries drawn independently from the law, checks pass with one chance p, so that N ~ Binomial(Q, p) of them pass and
E[min(N, cap)] labels are released; each released label has the law of votes given that its check passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.budgeting import epsilon_each
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.plurality.accounting.calibration import calibrate_noise
from darrm_opt.plurality.accounting.composition import composed_epsilon, table_divergence
from darrm_opt.plurality.accounting.lattice_cells import LatticeNoise
from darrm_opt.plurality.mechanisms import MECHANISMS, calibrate_confident, calibrate_mechanism
from darrm_opt.plurality.plan import MAX_RULE_PARTITIONS, release_target, selection_for
from darrm_opt.plurality.priors import PastVotes, PluralityObjective, PluralityPrior, sample_counts
from darrm_opt.plurality.problem import PluralityProblem, has_table
from darrm_opt.plurality.rule import PluralityRule, edge_laws
from darrm_opt.plurality.samplers import SELECTIONS, NoisyMaximum, RuleMechanism, VoteMechanism
from darrm_opt.plurality.solver import as_objective, solve_plurality
from darrm_opt.problem import Privacy, whole_number
from darrm_opt.rounding import multiple_up

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

BLOCK = 5000
"""Numbers of votes whose chances are computed at a time."""

MAX_NODES, MAX_NODES_SMOOTH = 24, 8
"""Most nodes of the integral over ties, for σ below and from `SMOOTH_SIGMA` on: more change nothing that a double shows."""

SMOOTH_SIGMA = 4.0

SAMPLES, MIN_SAMPLES, SAMPLED_NUMBERS = 2000, 100, 100_000
"""Most and fewest vote counts that are drawn from a prior where they cannot be listed, and numbers of votes in all of them."""

CountTable = NDArray[np.intp]


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
        parameters: what was chosen: sigma, check_sigma, threshold [votes] and cap; or the (ε, δ) of each release, and its rate
            [nats a vote] where there is no table.
        gap: of the optimum, by how much another table of the same (ε, δ) each could raise the utility, at most; None of the others.
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
        named = ("name", "right", "wrong", "abstained", "utility", "epsilon", "account", "parameters", "gap")
        return {each: getattr(self, each) for each in named}


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
        samples: how many vote counts stand for the prior where there are too many to list them: then shares are estimates,
            with a standard error below 1/√samples. None: the whole law, or past votes.
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
        objective: the law of votes and the price of a wrong label, as for `solve_plurality`. The parameters depend on it: past
            votes must be public, or not protected.

    Returns:
        Tables only up to `MAX_RULE_PARTITIONS` partitions, noise only where δ > 0. With price 0 nothing abstains.

    Guarantees:
        Each option is ``total``-DP over all queries, each chosen freely in view of earlier answers; ``option.epsilon`` is proved for
        what is drawn. Shares are expectations under the law, and no guarantee.

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
    law = _VoteLaw(as_objective(objective), problem)
    options: list[ReleaseOption] = []
    if has_table(K, classes, MAX_RULE_PARTITIONS):
        options += _table_options(problem, queries, law)
    else:
        options += _selection_options(problem, queries, law)
    if total.delta > 0:
        options += _noise_options(problem, queries, law)
    ordered = sorted(options, key=lambda option: -option.utility)
    first = {option.name: option for option in reversed(ordered)}  # of two of one name the better one
    return ReleaseDesign(
        problem.K,
        problem.classes,
        queries,
        total,
        problem.affected,
        law.objective,
        tuple(option for option in ordered if first[option.name] is option),
        law.samples,
    )


def leader_chances(counts: CountTable, sigma: float) -> Array:
    """Return Pr[one of the leaders has the largest noisy count], discrete Gaussian noise σ, ties broken uniformly.

    With f and F the law of the noise, d_j how far class j is behind and s the place of a leader among those it ties with,

        Pr[a given leader is released] = Σ_x f(x)·∫₀¹ Π_j (F(x + d_j − 1) + s·f(x + d_j)) ds.

    Args:
        counts: decreasing vote counts, shape (N, C).
        sigma: ≥ 1 [votes].

    Returns:
        Shape (N,), to about 1e-12: where σ is large every ⌊σ/4⌋-th x is enough, as the sum of a bell curve.
    """
    noise, step = LatticeNoise(sigma, 0.0), max(1, math.floor(sigma / 4))
    reach = math.ceil(9 * sigma / step)
    x = np.arange(-reach, reach + 1) * step
    exact = counts.shape[1] // 2 + 1  # the integrand has degree C − 1
    s, ds = _unit_nodes(min(exact, MAX_NODES if sigma < SMOOTH_SIGMA else MAX_NODES_SMOOTH))
    behind = counts[:, :1] - counts
    leaders = np.count_nonzero(behind == 0, axis=1)
    behind = np.minimum(behind, reach * step + noise.end + 1)  # from there on F = 1
    chances = np.empty(len(counts))
    rows_at_a_time = max(1, BLOCK // counts.shape[1])
    for start in range(0, len(counts), rows_at_a_time):
        rows = slice(start, start + rows_at_a_time)
        gaps, places = np.unique(behind[rows], return_inverse=True)
        places = places.reshape(behind[rows].shape)
        shifted = x[None, :] + gaps[:, None]
        factors = noise.below(shifted)[:, :, None] + s * noise.at(shifted)[:, :, None]
        product = factors[places[:, 1]]
        for column in range(2, counts.shape[1]):
            product = product * factors[places[:, column]]
        chances[rows] = step * ((product @ ds) @ noise.at(x))
    return np.asarray(np.minimum(chances * leaders, 1.0))


def pass_chances(largest: CountTable, threshold: float, sigma: float) -> Array:
    """Return Pr[largest count + discrete Gaussian noise σ ≥ threshold], same shape as ``largest``."""
    needed = np.ceil(threshold - largest).astype(np.intp)
    return np.asarray(LatticeNoise(sigma, 0.0).at_least(needed))


def selection_chances(counts: CountTable, name: str, rate: float) -> Array:
    """Return Pr[one of the leaders is released] by permute-and-flip or the exponential mechanism, shape (N,).

    Args:
        counts: decreasing vote counts, shape (N, C).
        name: one of `SELECTIONS`.
        rate: t [nats a vote].
    """
    behind = counts[:, :1] - counts
    leaders = np.count_nonzero(behind == 0, axis=1)
    raised = np.exp(-rate * behind)
    if name == "exponential":
        return np.asarray(leaders / raised.sum(axis=1))
    s, ds = _unit_nodes(counts.shape[1] // 2 + 1)
    product = np.ones((len(counts), s.size))
    for column in range(1, counts.shape[1]):
        product *= 1 - raised[:, column, None] * s
    return np.asarray(np.minimum(leaders * (product @ ds), 1.0))


def _unit_nodes(nodes: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes and weights on [0, 1]."""
    at, shares = np.polynomial.legendre.leggauss(nodes)
    return (at + 1) / 2, shares / 2


class _VoteLaw:
    """Vote counts with their masses: all that can occur, and those that are judged (ties may be left out)."""

    def __init__(self, objective: PluralityObjective, problem: PluralityProblem) -> None:
        self.objective, self.samples = objective, None
        K, classes = problem.K, problem.classes
        prior = objective.prior
        if isinstance(prior, PastVotes):
            prior.check_shape(K, classes)
            self.counts = np.array([each for each, _ in prior.counts], dtype=np.intp)
            masses = np.array([times for _, times in prior.counts], dtype=np.float64)
        elif has_table(K, classes):
            cells = PluralityProblem(K, classes, problem.target).histograms
            self.counts, masses = np.array(cells.partitions, dtype=np.intp), prior.masses(cells)
        else:
            self.samples = min(SAMPLES, max(MIN_SAMPLES, SAMPLED_NUMBERS // classes))
            self.counts, masses = sample_counts(prior, K, classes, self.samples), np.ones(self.samples)
        self.masses = masses / masses.sum()
        strict = self.counts[:, 0] > self.counts[:, 1]
        judged = np.where(strict, self.masses, 0.0) if objective.ties == "excluded" else self.masses
        if not judged.sum() > 0:
            raise InvalidInput("prior", str(prior), "a prior under which one class can lead alone")
        self.judged = judged / judged.sum()

    def option(
        self,
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
        utility = right - self.objective.price * wrong
        return ReleaseOption(
            name, right, wrong, max(1.0 - right - wrong, 0.0), utility, *cost, parameters, mechanism, gap
        )

    def utility(self, shares: tuple[float, float]) -> float:
        """Return right − price·wrong."""
        return shares[0] - self.objective.price * (shares[1] - shares[0])

    def rule_shares(self, rule: PluralityRule) -> tuple[float, float]:
        """Return the shares of right answers and of answers of a table."""
        cells = rule.cells
        places = [cells.numbers[tuple(each)] for each in self.counts.tolist()]
        leaders = cells.starts[places]
        right = float(self.judged @ (rule.nearest[leaders] * cells.multiplicities[leaders]))
        if not rule.abstention:
            return right, 1.0
        silent = np.append(cells.starts[1:], cells.values.size)[places] - 1
        return right, 1.0 - float(self.judged @ rule.nearest[silent])

    def checked_shares(self, leads: Array, passes: Array, queries: int, cap: int) -> tuple[float, float]:
        """Return the shares of right answers and of answers where a check precedes each label, and ``cap`` labels are allowed."""
        chance = float(self.masses @ passes)
        allowed = _released_labels(queries, min(chance, 1.0), cap) / (queries * chance) if chance > 0 else 0.0
        return allowed * float(self.judged @ (leads * passes)), allowed * float(self.judged @ passes)


def _released_labels(queries: int, chance: float, cap: int) -> float:
    """Return E[min(N, cap)], N ~ Binomial(queries, chance)."""
    with needed_by("A vote among several classes"):
        from scipy.special import bdtr, bdtrc

    if cap >= queries:
        return queries * chance
    # Σ_{j ≤ cap} j·Pr[N = j] = Q·p·Pr[Binomial(Q − 1, p) ≤ cap − 1]
    return float(queries * chance * bdtr(cap - 1, queries - 1, chance) + cap * bdtrc(cap, queries, chance))


def _selection_options(problem: PluralityProblem, queries: int, law: _VoteLaw) -> Iterator[ReleaseOption]:
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
        yield law.option(name, (right, 1.0), (epsilon, account), parameters, mechanism)


def _noise_options(problem: PluralityProblem, queries: int, law: _VoteLaw) -> Iterator[ReleaseOption]:
    """Yield GNMax, and where wrong labels have a price Confident-GNMax, at the noise that a discrete account proves."""
    K, classes, total, affected = problem.K, problem.classes, problem.target, problem.affected
    known = {"classes": classes, "affected": affected, "precision": SIGMA_PRECISION}
    plain = calibrate_noise(total, queries, noise="discrete", **known)  # type: ignore[arg-type]
    sigma = plain.label_sigma
    right = float(law.judged @ leader_chances(law.counts, sigma))
    yield law.option(
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
        passes = [pass_chances(largest, each, check_sigma) for each in thresholds]
        for cap in sorted({max(1, math.ceil(each * queries)) for each in CAP_SHARES}):
            label_sigma = max(1.0, sigma * math.sqrt(cap / queries / (1 - share)))
            leads = leader_chances(law.counts, label_sigma)
            utility = max(law.utility(law.checked_shares(leads, each, queries, cap)) for each in passes)
            proposals.append((utility, check_sigma / label_sigma, cap))
    _, ratio, cap = max(proposals)
    found = calibrate_noise(total, cap, checks=queries, check_ratio=ratio, noise="discrete", **known)  # type: ignore[arg-type]
    check_sigma = found.releases[1].sigma
    leads = leader_chances(law.counts, found.label_sigma)
    shares = {
        float(each): law.checked_shares(leads, pass_chances(largest, each, check_sigma), queries, cap)
        for each in thresholds
    }
    threshold = max(shares, key=lambda each: law.utility(shares[each]))
    noises = {"threshold": threshold, "check_sigma": check_sigma}
    mechanism = NoisyMaximum(
        K, classes, found.label_sigma, **noises, affected=affected, cap=cap if cap < queries else None
    )
    yield law.option(
        "confident_gnmax",
        shares[threshold],
        (found.cost.epsilon, found.cost.labels_recursion.method),
        {"sigma": found.label_sigma, "check_sigma": check_sigma, "threshold": threshold, "cap": cap},
        mechanism,
    )


def _table_options(problem: PluralityProblem, queries: int, law: _VoteLaw) -> Iterator[ReleaseOption]:
    """Yield the linear program's rule and the mechanisms that people use, as tables: the better of two accounts of each.

    One charges every release an (ε, δ), by optimal composition; the other takes δ = 0 for each and composes the laws themselves.
    """
    abstention = law.objective.price > 0
    total, K, classes, affected = problem.target, problem.K, problem.classes, problem.affected

    gaps: dict[PluralityRule, float] = {}

    def optimal(target: Privacy) -> PluralityRule:
        found = solve_plurality(PluralityProblem(K, classes, target, affected, abstention=abstention), law.objective)
        gaps[found.rule] = found.gap
        return found.rule

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
        each = release_target(total, queries)
        found = [(make(each), each, total.epsilon, "optimal composition of (ε, δ)")]
        if queries > 1 and total.delta > 0 and name != "confident_gnmax":
            found.append(_composed_table(make, total, queries, affected))
        for rule, target, epsilon, account in found:
            parameters = {"epsilon": target.epsilon, "delta": target.delta}
            mechanism = RuleMechanism(PluralityProblem(K, classes, target, affected, abstention=rule.abstention), rule)
            gap = gaps[rule] if name == "optimal" else None
            yield law.option(name, law.rule_shares(rule), (epsilon, account), parameters, mechanism, gap)


def _composed_table(
    make: Callable[[Privacy], PluralityRule], total: Privacy, queries: int, affected: int
) -> tuple[PluralityRule, Privacy, float, str]:
    """Return the table with about the largest ε, δ = 0, of which Q fit in the total, its target and its proof."""
    start = epsilon_each(total, 0.0, queries)

    def cost(rule: PluralityRule) -> tuple[float, str]:
        p, q = edge_laws(rule, affected)
        proved = composed_epsilon([(table_divergence(p, q), queries)], total.delta)
        return proved.epsilon, proved.method

    target = Privacy(start, 0.0)
    found = (make(target), target, total.epsilon, "optimal composition of (ε, 0)")
    low, high = 1.0, MAX_SCALE
    while high - low > SCALE_PRECISION * low:
        scale = math.sqrt(low * high)
        target = Privacy(start * scale, 0.0)
        rule = make(target)
        epsilon, account = cost(rule)
        if epsilon <= total.epsilon:
            low, found = scale, (rule, target, epsilon, account)
        else:
            high = scale
    return found
