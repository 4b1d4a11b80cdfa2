"""Ways to release a majority on one footing: same voters, same neighbours, same total privacy, same number of queries.

Every way of releasing a vote between two answers that looks at the number of ones only, treats both answers alike and is
never worse than a coin *is* a noise function, γ(l) = 2·Pr[1 | l ones] − 1 for l > K/2 (Lemma 3.3 of the paper): GNMax and
SAA with their noise too. So one account serves all of them, the exact recursion on the bits of that γ, at the voters' own
privacy; each way has one knob, which is turned up as far as the total budget allows; and what remains to compare is how
often each is wrong.

    optimal_sequence     the best γ known for all releases: `accounting.design_sequence`, γ_opt of one target or any way below
    randomized_response  γ_const, by its probability
    subsampling          γ_Sub, by the mean number of voters drawn: a coin decides between two numbers
    double_subsampling   γ_DSub, by its allowance m
    gnmax                Gaussian noise on each count, by σ
    permute_and_flip     Laplace (or geometric) noise on the difference of the counts, by its rate
    exponential_mechanism  either answer with probability ∝ e^(rate·votes), by its rate
    saa                  Laplace noise on each count, by its scale, accounted for by the most voters that a record reaches
    dpbag                the same noise, accounted for by the number of voters that a record does reach
    majority             the plain majority, if it fits

Where the voters are models trained on subsamples (`Bags`), chance decides how many of them one record reaches. Every way is
accounted for by the average over that law (`accounting.reach`), so γ_opt still is never less useful than the others. All
but one: what is known as SAA has an account that never looks at who reached whom, and with bags its row is DPBag−, which is
what the row called dpbag is an improvement on. Where nothing is said of a draw, a record reaches ``affected`` voters for
certain, as with that many partitions: then these two rows are one.

DPBag's own account is not in the table: it computes each record's loss from the private votes and is no (ε, δ) guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.allowance import checked_total, largest_allowance
from darrm_opt.accounting.freshness import counted_voters
from darrm_opt.accounting.reach import Reach, reached_epsilon
from darrm_opt.accounting.reach_estimate import estimated_epsilon
from darrm_opt.accounting.refusals import BelowLeakFloor
from darrm_opt.accounting.sequence_design import design_sequence
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.accounting.turning import turned_up
from darrm_opt.baselines import double_subsampling, exponential_mechanism, permute_and_flip, subsampling_mixture
from darrm_opt.design.objective import AnyObjective, Objective, as_objective
from darrm_opt.ensembles.bagging import Sampling
from darrm_opt.ensembles.bags import Bags, checked_bags
from darrm_opt.ensembles.comparable import check_comparable
from darrm_opt.ensembles.voting import GaussianNoise, LaplaceNoise, noise_function
from darrm_opt.error import disagreement, tv_error
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import Prior, upper_half
from darrm_opt.problem import Privacy, Problem, whole_number

PRECISION = 2e-3
"""Relative precision to which a knob is turned, from the private side."""

POINTS = 8001
"""Grid points of each account: sound for any number; finer would change the fourth digit of ε."""

SCOUT_PRECISION, REACHED_PRECISION = 2e-2, 5e-3
"""As `PRECISION`, for finding about where a knob stands by an estimate, and then by an account that is an average over many
counts."""

ADAPTIVE = 0.95
"""Share of the place that the estimate finds where the account begins: an adversary gets a little more than it says."""

NOT_COMPARED = {
    "dpbag_data_dependent": "DPBag's own per-record loss is computed from the private votes and is no (epsilon, delta) "
    "guarantee; the row dpbag counts the voters that a record reaches instead, which does not look at the data"
}
"""What has no place in the table, and why."""


@dataclass(frozen=True)
class Row:
    """One way of releasing, at its best within the budget.

    Attributes:
        name: which way.
        knob: name of its parameter.
        value: where the knob stands.
        noise: the γ that the way amounts to; None where even its noisiest setting does not fit.
        epsilon: total ε that it spends, at the total δ [nats]; None likewise.
        utility: share of the noiseless utility kept, by the objective.
        disagreement: Pr[release ≠ majority that was voted] over the prior [probability].
        tv_error: |Pr[release = 1] − Pr[majority = 1]| over the prior [probability]; None where it has no closed form.
    """

    name: str
    knob: str
    value: float | None
    noise: NoiseFunction | None
    epsilon: float | None
    utility: float | None
    disagreement: float | None
    tv_error: float | None


@dataclass(frozen=True)
class Comparison:
    """Every way on one footing, the most useful first.

    Attributes:
        problem: the voters; its target plays no part.
        queries: Q.
        total: (ε, δ) of all releases together.
        objective: what γ_opt maximises, and what utility means.
        prior: how votes fall, for the two errors.
        rows: one a way, by utility; those that do not fit last.
        not_compared: what has no place here, and why.
        measure: the error to look at: the one that the objective weighs, or disagreement over a prior of its own.
        bags: how the voters' subsamples are drawn; None where a record reaches ``problem.affected`` voters for certain.
        fresh: whether the voters were taken to be fresh.
    """

    problem: Problem
    queries: int
    total: Privacy
    objective: str
    prior: Prior
    rows: tuple[Row, ...]
    not_compared: dict[str, str]
    measure: Literal["tv_error", "disagreement"] = "disagreement"
    bags: Bags | None = None
    fresh: bool = False


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
) -> Comparison:
    """Return how useful each way of releasing a majority is, all within one total budget.

    Args:
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q ≥ 1 releases, each chosen freely in view of the earlier answers.
        total: (ε, δ) of all of them together, ε > 0 and finite.
        objective: what γ_opt maximises and the rows are ordered by. For votes of your own, `histogram` of them.
        prior: how votes fall, for the errors; None for the objective's own.
        n: records in the dataset, ≥ 2, where each voter is a model trained on a subsample of its own; neighbours replace one
            record. The voters' (ε, Δ) must hold with the subsample given.
        subsample_size: records drawn for one model, with ``n``.
        replacement: whether a record can be drawn twice within a subsample.
        sampling: without replacement, subsamples ``independent`` or ``disjoint``.
        fresh: True where every voter draws new randomness for every query, so that (ε, Δ) is the privacy of one answer; False
            where the voters were trained once, and (ε, Δ) is the privacy of the whole voter (`accounting.FRESH`).

    Guarantees:
        Every row's γ, released ``queries`` times, is within ``total``: by the exact recursion on its bits, averaged over the
        draw where there is one, with voters that were trained once taken as not private; or, without a draw, as their models
        together are within it. No row that fits has a larger utility than "optimal_sequence", but for rounding.

    Raises:
        InvalidInput: a number is outside its range.
        BelowLeakFloor: a total δ of 0, or so small that rounding alone exceeds it.
        TooMuchWork: more releases than the exact account can do in about a minute.

    >>> from darrm_opt import Privacy, Problem
    >>> table = compare(Problem.from_allowance(K=5, m=1, epsilon=0.3), 5, Privacy(1.0, 1e-3), fresh=True)
    >>> table.rows[0].name, all(row.epsilon <= 1.0 for row in table.rows if row.epsilon is not None)
    ('optimal_sequence', True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    checked_total(total)
    chosen = as_objective(objective)
    votes = prior if prior is not None or not isinstance(chosen, Objective) else chosen.prior
    if votes is None:
        raise InvalidInput("prior", None, "how votes fall", f"The objective {chosen} has no prior of its own.")
    own = prior is None and isinstance(chosen, Objective) and chosen.measure == "tv"
    measure: Literal["tv_error", "disagreement"] = "tv_error" if own else "disagreement"
    bags = checked_bags(problem, n, subsample_size, sampling, replacement=replacement)
    reach = None if bags is None else bags.reach(problem.K)
    counted = counted_voters(problem, queries, fresh=fresh)
    check_comparable(counted, queries, total, reach)
    footing = _Footing(problem, counted, queries, total, reach, fresh, chosen.aim(problem.K).utility, votes)
    rows = _baselines(footing, None if reach is None else replace(footing, reach=None))
    seeds = [each.noise for each in rows if each.noise is not None]
    if reach is None:  # a target of one release is no account of a draw
        K, voter, affected = problem.K, problem.voter, problem.affected
        seeds.append(largest_allowance(K, voter, queries, total, affected, chosen, fresh=fresh).solution.noise)
    design = design_sequence(problem, queries, total, chosen, seeds=seeds, reach=reach, fresh=fresh)
    each = footing.spent(design.noise, 1)  # finite: all Q of them are within the total
    rows = [footing.row("optimal_sequence", "epsilon_each", each, design.noise, design.total.epsilon), *rows]
    rows.sort(key=lambda each: (each.utility is None, -(each.utility or 0.0)))  # ties: optimal first
    return Comparison(
        problem, queries, total, str(chosen), votes, tuple(rows), dict(NOT_COMPARED), measure, bags, fresh
    )


@dataclass(frozen=True)
class _Footing:
    """What all ways share: the voters, as given and as `counted_voters` takes them, the budget, the account, and what a γ is worth."""

    problem: Problem
    taken: Problem
    queries: int
    total: Privacy
    reach: Reach | None
    fresh: bool
    useful: Callable[[NDArray[np.float64]], float]
    votes: Prior

    def spent(self, noise: NoiseFunction, queries: int) -> float:
        """Return the total ε of releases at the total δ; raises `BelowLeakFloor` where there is none."""
        if self.reach is None:
            return exact_epsilon(noise, self.problem, queries, self.total.delta, fresh=self.fresh, points=POINTS)
        return reached_epsilon(noise, self.taken, queries, self.total.delta, self.reach, fresh=self.fresh)

    def cost(self, noise: NoiseFunction) -> float:
        """Return the total ε of all releases at the total δ, ``inf`` where there is none."""
        try:
            return self.spent(noise, self.queries)
        except BelowLeakFloor:
            return math.inf

    def about(self, noise: NoiseFunction) -> float:
        """Return about the same, a little too small, at no great expense; 0 where there is no such estimate."""
        if self.reach is None:
            return 0.0
        return estimated_epsilon(noise, self.taken, self.queries, self.total.delta, self.reach)

    def row(
        self, name: str, knob: str, value: float | None, noise: NoiseFunction | None, spent: float | None = None
    ) -> Row:
        """Return the row of a way, empty where it does not fit; ``spent`` is its cost, where that is known."""
        if noise is not None and spent is None:
            spent = self.cost(noise)
        if noise is None or value is None or spent is None or not spent <= self.total.epsilon:
            return Row(name, knob, None, None, None, None, None, None)
        errors = disagreement(noise, self.votes), _tv_error(noise, self.votes)
        return Row(name, knob, value, noise, spent, self.useful(upper_half(noise.values)), *errors)

    def turned(self, name: str, knob: str, make: Callable[[float], NoiseFunction], start: float, most: float) -> Row:
        """Return the row of a way whose knob is turned up as far as it fits."""
        budget, precision = self.total.epsilon, PRECISION
        if self.reach is not None:
            scout = turned_up(_priced(make, self.about), budget, most, guess=start, precision=SCOUT_PRECISION)
            if scout is None:  # what is hopeless by an estimate from below does not fit
                return self.row(name, knob, None, None)
            start, precision = ADAPTIVE * scout.value, REACHED_PRECISION
        end = turned_up(_priced(make, self.cost), budget, most, guess=start, precision=precision)
        return self.row(name, knob, None, None) if end is None else self.row(name, knob, end.value, end.made, end.cost)

    def counted(self, name: str, knob: str, make: Callable[[int, int], NoiseFunction], most: int) -> Row:
        """Return the row of a way whose knob is a whole number, the largest that fits."""
        K, budget, costs = self.problem.K, self.total.epsilon, dict[int, float]()

        def fits(count: int) -> bool:
            costs[count] = self.cost(make(K, count))
            return costs[count] <= budget

        # A draw's account is long: what is hopeless by an estimate from below need not be asked, and the rest is near.
        likely = most if self.reach is None else most_that_fit(lambda count: self.about(make(K, count)) <= budget, most)
        near = self.reach is not None and likely > 0 and fits(likely)
        count = likely if near else most_that_fit(fits, likely)
        return self.row(name, knob, count, make(K, count), costs[count]) if count else self.row(name, knob, None, None)


def _priced(
    make: Callable[[float], NoiseFunction], price: Callable[[NoiseFunction], float]
) -> Callable[[float], tuple[NoiseFunction, float]]:
    """Return what a knob makes, and what that costs."""

    def made(value: float) -> tuple[NoiseFunction, float]:
        noise = make(value)
        return noise, price(noise)

    return made


def _baselines(footing: _Footing, worst: _Footing | None) -> list[Row]:
    """Return the row of each way but the optimum; ``worst`` takes the most voters that a record reaches for granted."""
    K = footing.problem.K

    def laplace(inverse: float) -> NoiseFunction:
        return noise_function(K, LaplaceNoise(1 / inverse))

    saa = (worst or footing).turned("saa", "1/scale", laplace, 1 / K, 8.0)
    return [
        footing.turned("randomized_response", "gamma", lambda share: _constant(K, share), 0.5, 1.0),
        footing.turned("subsampling", "voters", lambda voters: subsampling_mixture(K, voters), 1.0, K - 1.0 + K % 2),
        footing.counted("double_subsampling", "m", double_subsampling, (K + 1) // 2),
        footing.turned(
            "gnmax", "1/sigma", lambda inverse: noise_function(K, GaussianNoise.of_sigma(1 / inverse)), 1 / K, 4.0
        ),
        footing.turned("permute_and_flip", "rate", lambda rate: permute_and_flip(K, rate), 1 / K, 8.0),
        footing.turned("exponential_mechanism", "rate", lambda rate: exponential_mechanism(K, rate), 1 / K, 16.0),
        saa,
        footing.turned("dpbag", "1/scale", laplace, 1 / K, 8.0) if worst else replace(saa, name="dpbag"),
        footing.row("majority", "gamma", 1.0, _constant(K, 1.0)),
    ]


def _constant(K: int, share: float) -> NoiseFunction:
    return NoiseFunction.from_upper_half(np.full((K + 1) // 2, share), K)


def most_that_fit(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest whole number up to ``most`` that fits; cost grows with it. 0 where none does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _tv_error(noise: NoiseFunction, votes: Prior) -> float | None:
    try:
        return tv_error(noise, votes)
    except InvalidInput:
        return None
