"""Comparison of mechanisms for a majority: same voters, same neighbours, same total privacy, same number of queries.

Every mechanism for a vote between two answers that looks at the number of ones only, treats both answers alike and is
never worse than a coin *is* a noise function, γ(l) = 2·Pr[1 | l ones] − 1 for l > K/2 (Lemma 3.3 of the paper): GNMax
and SAA with their noise too. So one account serves all of them, the exact recursion on the bits of that γ, at the
voters' own privacy; each mechanism has one parameter, which is calibrated to the total budget; and what remains to
compare is how often each is wrong.

    optimal_sequence     the best γ known for all releases: `design_sequence`, γ_opt of one target or any row below
    every mechanism with a parameter   at its best value (`darrm_opt.mechanisms`); laplace is SAA, accounted for by the
                         most voters a record affects
    double_subsampling   γ_DSub, by its allowance m
    dpbag                laplace, accounted for by the distribution of the affected voters
    majority             the plain majority, if it fits

Where the voters are models trained on subsamples (`Bags`), chance decides how many of them one record affects. Every
row is accounted for by the average over that law (`accounting.mixture`), so γ_opt still is never less useful than the
others. The exception: the account of SAA ignores which voters a record affects, and with bags its row is DPBag−, on
which the row dpbag improves. Without a draw, a record affects exactly ``affected`` voters, as with that many
partitions: then these two rows are equal.

DPBag's own account is not in the table: it is computed from the private votes and is no (ε, δ) guarantee.

Comparisons that would take much longer than a minute are refused before any of the work is done (`check_comparable`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.accounting.freshness import effective_voters
from darrm_opt.accounting.mixture import AffectedDistribution, count_groups, estimated_epsilon, mixture_epsilon
from darrm_opt.accounting.plain_majority import plain_majority_total, private_model_count
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.accuracy import disagreement, tv_error
from darrm_opt.bagging.bags import Bags, checked_bags
from darrm_opt.bagging.guarantee import Sampling
from darrm_opt.baselines import double_subsampling, subsampling
from darrm_opt.budgeting.best_target import best_target, check_total
from darrm_opt.budgeting.sequence_design import MAX_QUERIES, design_sequence
from darrm_opt.design.objective import AnyObjective, Objective, as_objective
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import VoteMechanism, calibrated_names, mechanism_class
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import Prior, upper_half
from darrm_opt.problem import Privacy, Problem, whole_number
from darrm_opt.search import largest_count_between

PRECISION = 1e-4
"""Relative precision of a calibration, from the private side."""

POINTS = 8001
"""Grid points of each account: sound for any number; finer would change the fourth digit of ε."""

ESTIMATE_PRECISION, MIXTURE_PRECISION = 2e-2, 5e-3
"""As `PRECISION`, for a first calibration by an estimate, and for an account that is an average over many counts."""

ADAPTIVITY_MARGIN = 0.95
"""Share of the estimated value at which the account starts: an adversary gets a little more than estimated."""

NOT_COMPARED = {
    "dpbag_data_dependent": "DPBag's own per-record loss is computed from the private votes and is no (epsilon, delta) "
    "guarantee; the row dpbag uses the distribution of the affected voters instead, which does not depend on the data"
}
"""What has no place in the table, and why."""


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism, at its best within the budget.

    Attributes:
        name: of the mechanism.
        parameter: name of its parameter.
        value: value of the parameter.
        noise: its γ; None where even its noisiest setting does not fit.
        epsilon: total ε that it spends, at the total δ [nats]; None likewise.
        utility: share of the noiseless utility kept, by the objective.
        disagreement: Pr[release ≠ majority that was voted] over the prior [probability].
        tv_error: |Pr[release = 1] − Pr[majority = 1]| over the prior [probability]; None where it has no closed form.
    """

    name: str
    parameter: str
    value: float | None = None
    noise: NoiseFunction | None = None
    epsilon: float | None = None
    utility: float | None = None
    disagreement: float | None = None
    tv_error: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Every mechanism on the same terms, the most useful first.

    Attributes:
        problem: the voters; its target plays no part.
        queries: Q.
        total: (ε, δ) of all releases together.
        objective: what γ_opt maximises, and what utility means.
        prior: how votes fall, for the two errors.
        rows: one for each mechanism, by utility; those that do not fit last.
        not_compared: what has no place here, and why.
        measure: the error to look at: the one that the objective weighs, or disagreement over a prior of its own.
        bags: how the voters' subsamples are drawn; None where a record reaches ``problem.affected`` voters for certain.
        fresh: whether the voters were taken to be fresh.
        without_noise: what needs no noise within the total, in a sentence; empty if nothing does.
    """

    problem: Problem
    queries: int
    total: Privacy
    objective: str
    prior: Prior
    rows: tuple[ComparisonRow, ...]
    not_compared: dict[str, str]
    measure: Literal["tv_error", "disagreement"] = "disagreement"
    bags: Bags | None = None
    fresh: bool = False
    without_noise: str = ""


def compare(
    problem: Problem,
    queries: int,
    total: Privacy,
    *,
    objective: str | AnyObjective = "rectangular",
    prior: Prior | None = None,
    n: int | None = None,
    subsample_size: int | None = None,
    replacement: bool = True,
    sampling: Sampling = "independent",
    fresh: bool = False,
    progress: Callable[[ComparisonRow], None] | None = None,
) -> Comparison:
    """Return the utility of each mechanism for a majority, all within one total budget.

    Args:
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q ≥ 1 releases, each chosen freely in view of the earlier answers.
        total: (ε, δ) of all of them together, ε > 0 and finite.
        objective: what γ_opt maximises and the rows are ordered by. For votes of your own, `histogram` of them.
        prior: how votes fall, for the errors; None for the objective's own.
        n: records in the dataset, ≥ 2, where each voter is a model trained on a subsample of its own; neighbours
            replace one record. The voters' (ε, Δ) must hold with the subsample given.
        subsample_size: records drawn for one model, with ``n``.
        replacement: whether a record can be drawn twice within a subsample.
        sampling: without replacement, subsamples ``independent`` or ``disjoint``.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer;
            False where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`accounting.FRESH`).
        progress: called with each row as soon as it is known.

    Guarantees:
        Every row's γ, released ``queries`` times, is within ``total``: by the exact recursion on its bits, averaged
        over the draw where there is one, with voters that were trained once taken as not private; or, without a draw,
        as their models together are within it. No row that fits has a larger utility than "optimal_sequence", but for
        rounding.

    Raises:
        InvalidInput: a number is outside its range.
        DeltaTooSmall: a total δ of 0, or so small that rounding alone exceeds it.
        TooMuchWork: more releases than the exact account can do in a minute or two.

    >>> from darrm_opt import Privacy, Problem
    >>> table = compare(Problem.from_allowance(K=5, m=1, epsilon=0.3), 5, Privacy(1.0, 1e-3), fresh=True)
    >>> table.rows[0].name, all(row.epsilon <= 1.0 for row in table.rows if row.epsilon is not None)
    ('optimal_sequence', True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    check_total(total)
    goal = as_objective(objective)
    votes = prior if prior is not None or not isinstance(goal, Objective) else goal.prior
    if votes is None:
        raise InvalidInput("prior", None, "how votes fall", f"The objective {goal} has no prior of its own.")
    own_prior = prior is None and isinstance(goal, Objective) and goal.measure == "tv"
    measure: Literal["tv_error", "disagreement"] = "tv_error" if own_prior else "disagreement"
    bags = checked_bags(problem, n, subsample_size, sampling, replacement=replacement)
    distribution = None if bags is None else bags.affected_distribution(problem.K)
    composed_problem = effective_voters(problem, queries, fresh=fresh)
    check_comparable(composed_problem, queries, total, distribution)
    terms = _SharedTerms(
        problem=problem,
        composed_problem=composed_problem,
        queries=queries,
        total=total,
        distribution=distribution,
        fresh=fresh,
        utility=goal.linear_goal(problem.K).utility,
        votes=votes,
    )
    rows = []
    for row in _baselines(terms, None if distribution is None else replace(terms, distribution=None)):
        rows.append(row)
        if progress is not None:
            progress(row)
    without_noise = _without_noise(terms, rows[-1])
    rows.insert(0, _optimal_sequence(terms, goal, rows))  # first, and the sort is stable: before what is as useful
    rows.sort(key=lambda row: (row.utility is None, -(row.utility or 0.0)))
    return Comparison(
        problem=problem,
        queries=queries,
        total=total,
        objective=str(goal),
        prior=votes,
        rows=tuple(rows),
        not_compared=dict(NOT_COMPARED),
        measure=measure,
        bags=bags,
        fresh=fresh,
        without_noise=without_noise,
    )


def _optimal_sequence(terms: _SharedTerms, goal: AnyObjective, rows: list[ComparisonRow]) -> ComparisonRow:
    """Return the row of the best γ for all releases, given those of all other mechanisms, the plain majority's last."""
    if rows[-1].noise is not None:  # no γ is more useful than the plain majority
        return replace(rows[-1], name="optimal_sequence")
    problem, queries, total, fresh = terms.problem, terms.queries, terms.total, terms.fresh
    seeds = [row.noise for row in rows if row.noise is not None]
    if terms.distribution is None:  # a target of one release is no account of a draw
        K, voter, affected = problem.K, problem.voter, problem.affected
        seeds.append(best_target(K, voter, queries, total, affected, goal, fresh=fresh).solution.noise)
    design = design_sequence(problem, queries, total, goal, seeds=seeds, distribution=terms.distribution, fresh=fresh)
    epsilon_each = terms.spent(design.noise, 1)  # finite: all Q of them are within the total
    return terms.row("optimal_sequence", "epsilon_each", epsilon_each, design.noise, design.total.epsilon)


def _without_noise(terms: _SharedTerms, majority: ComparisonRow) -> str:
    """Return what needs no noise within the total, as `plan` says it; empty if nothing does."""
    if majority.noise is not None:
        return "The plain majority is within this total: no noise is needed."
    count = 0 if terms.fresh else private_model_count(terms.problem, terms.total)
    if count == 0:
        return ""
    agreement = 1.0 - disagreement(subsampling(terms.problem.K, count), terms.votes)
    return (
        f"Without noise: the plain majority of any {count} of the {terms.problem.K} models, chosen without looking at "
        "the data, is within this total for any number of queries, and is the majority of all with probability "
        f"{agreement:.4f} (`darrm plan`: fewer_voters)."
    )


@dataclass(frozen=True)
class _SharedTerms:
    """Terms that all mechanisms share: voters (as given and as in `effective_voters`), budget, account and utility."""

    problem: Problem
    composed_problem: Problem
    queries: int
    total: Privacy
    distribution: AffectedDistribution | None
    fresh: bool
    utility: Callable[[NDArray[np.float64]], float]
    votes: Prior

    def spent(self, noise: NoiseFunction, queries: int) -> float:
        """Return the total ε of releases at the total δ; raises `DeltaTooSmall` where there is none."""
        if self.distribution is None:
            return exact_epsilon(noise, self.problem, queries, self.total.delta, fresh=self.fresh, points=POINTS)
        return mixture_epsilon(
            noise, self.composed_problem, queries, self.total.delta, self.distribution, fresh=self.fresh
        )

    def cost(self, noise: NoiseFunction) -> float:
        """Return the total ε of all releases at the total δ, ``inf`` where there is none."""
        try:
            return self.spent(noise, self.queries)
        except DeltaTooSmall:
            return math.inf

    def estimate(self, noise: NoiseFunction) -> float:
        """Return a fast estimate from below of the same; 0 if there is none."""
        if self.distribution is None:
            return 0.0
        return estimated_epsilon(noise, self.composed_problem, self.queries, self.total.delta, self.distribution)

    def row(
        self, name: str, parameter: str, value: float | None, noise: NoiseFunction | None, spent: float | None = None
    ) -> ComparisonRow:
        """Return the row of a mechanism, empty if it does not fit; ``spent`` is its cost, if known."""
        if noise is not None and spent is None:
            spent = self.cost(noise)
        if noise is None or value is None or spent is None or not spent <= self.total.epsilon:
            return ComparisonRow(name, parameter)
        errors = disagreement(noise, self.votes), _tv_error(noise, self.votes)
        utility = self.utility(upper_half(noise.values))
        return ComparisonRow(name, parameter, value, noise, spent, utility, *errors)

    def plain_majority(self) -> ComparisonRow:
        """Return the row of the plain majority, by the same accounts as in `plan`."""
        K, total = self.problem.K, self.total
        spent, _ = plain_majority_total(
            self.problem, self.queries, total.delta, fresh=self.fresh, distribution=self.distribution
        )
        return self.row("majority", "gamma", 1.0, NoiseFunction(np.ones(K + 1)), spent)

    def calibrated(self, name: str, mechanism: type[VoteMechanism]) -> ComparisonRow:
        """Return the row of a mechanism with a real parameter, calibrated to the budget."""
        K, budget, precision = self.problem.K, self.total.epsilon, PRECISION

        def make(information: float) -> NoiseFunction:
            return mechanism.of_information(K, 2, information).gamma

        start, most = 1 / K, mechanism.most_information(K, 2)
        if self.distribution is not None:
            first = calibrate(_with_cost(make, self.estimate), budget, most, guess=start, precision=ESTIMATE_PRECISION)
            if first is None:  # what exceeds the budget by an estimate from below does not fit
                return self.row(name, mechanism.parameter, None, None)
            start, precision = ADAPTIVITY_MARGIN * first.value, MIXTURE_PRECISION
        best = calibrate(_with_cost(make, self.cost), budget, most, guess=start, precision=precision)
        if best is None:
            return self.row(name, mechanism.parameter, None, None)
        value = mechanism.of_information(K, 2, best.value).value
        return self.row(name, mechanism.parameter, value, best.result, best.cost)

    def calibrated_count(
        self, name: str, parameter: str, make: Callable[[int, int], NoiseFunction], most: int
    ) -> ComparisonRow:
        """Return the row of a mechanism whose parameter is a whole number, the largest that fits."""
        K, budget, costs = self.problem.K, self.total.epsilon, dict[int, float]()

        def fits(count: int) -> bool:
            costs[count] = self.cost(make(K, count))
            return costs[count] <= budget

        fits_most = False
        if self.distribution is not None:
            # The account of a draw is slow: an estimate from below, close to the answer, excludes what cannot fit.
            most = largest_count_between(lambda count: self.estimate(make(K, count)) <= budget, 0, most + 1)
            fits_most = most > 0 and fits(most)
        count = most if fits_most else largest_count_between(fits, 0, most + 1)
        if not count:
            return self.row(name, parameter, None, None)
        return self.row(name, parameter, count, make(K, count), costs[count])


def _with_cost(
    make: Callable[[float], NoiseFunction], price: Callable[[NoiseFunction], float]
) -> Callable[[float], tuple[NoiseFunction, float]]:
    """Return the γ of a parameter, and its cost."""

    def noise_and_cost(value: float) -> tuple[NoiseFunction, float]:
        noise = make(value)
        return noise, price(noise)

    return noise_and_cost


def _baselines(terms: _SharedTerms, worst: _SharedTerms | None) -> Iterator[ComparisonRow]:
    """Yield the row of each mechanism but the optimum; ``worst`` assumes the largest number of affected voters."""
    K = terms.problem.K
    rows = {}
    for name in calibrated_names():
        rows[name] = (worst if worst and name == "laplace" else terms).calibrated(name, mechanism_class(name))
        yield rows[name]
    yield terms.calibrated_count("double_subsampling", "m", double_subsampling, (K + 1) // 2)
    yield terms.calibrated("dpbag", mechanism_class("laplace")) if worst else replace(rows["laplace"], name="dpbag")
    yield terms.plain_majority()


def _tv_error(noise: NoiseFunction, votes: Prior) -> float | None:
    try:
        return tv_error(noise, votes)
    except InvalidInput:
        return None


MAX_MIXTURE_STEPS = 15_000
"""Releases times numbers of affected voters, in one account: about a minute or two for the whole comparison. Without a
draw that is what `MAX_QUERIES` releases take, the best target included."""

PRIVATE_STEPS = 25
"""Voters for which a step takes as long again where they are private: the region of their bits has more sides."""


def mixture_steps(problem: Problem, queries: int, total: Privacy, distribution: AffectedDistribution) -> float:
    """Return the size of one account of a draw: releases times numbers of voters, as in `MAX_MIXTURE_STEPS`."""
    counts = max(1, len(count_groups(problem, queries, distribution, total.delta)[0]))
    return queries * counts * (1.0 if problem.voter.epsilon == math.inf else max(1.0, problem.K / PRIVATE_STEPS))


def check_comparable(problem: Problem, queries: int, total: Privacy, distribution: AffectedDistribution | None) -> None:
    """Raise `TooMuchWork` for a comparison that would take much longer than a minute or two, before any of it is done.

    Raises:
        TooMuchWork: the comparison is too long; the message says what can be asked instead.
    """
    if queries > MAX_QUERIES:
        raise TooMuchWork(
            f"{queries} releases are more than the {MAX_QUERIES} that are compared by the exact account of their bits. "
            "Compare fewer queries, or account for one mechanism by itself: darrm compose, /v1/compose."
        )
    if distribution is None or (steps := mixture_steps(problem, queries, total, distribution)) <= MAX_MIXTURE_STEPS:
        return
    fewer = int(queries * MAX_MIXTURE_STEPS / steps)
    raise TooMuchWork(
        f"{queries} releases of {problem.K} voters, averaged over the draw of their subsamples, would take minutes. "
        f"Ask for about {fewer} queries at most, for fewer voters, or leave out n and subsample_size: "
        f"affected = {problem.K} is then accounted for, which is as safe and less useful."
    )
