"""Ways to release a majority on one footing: same voters, same neighbours, same total privacy, same number of queries.

Every way of releasing a vote between two answers that looks at the number of ones only, treats both answers alike and is
never worse than a coin *is* a noise function, γ(l) = 2·Pr[1 | l ones] − 1 for l > K/2 (Lemma 3.3 of the paper): GNMax and
SAA with their noise too. So one account serves all of them, the exact recursion on the bits of that γ, at the voters' own
privacy; each way has one knob, which is turned up as far as the total budget allows; and what remains to compare is how
often each is wrong.

    optimal              γ_opt, made for the whole sequence (`accounting.design_sequence`): never less useful than the others
    constant             γ_const, by its probability
    subsampling          γ_Sub, by the number of voters drawn
    double_subsampling   γ_DSub, by its allowance m
    gnmax                Gaussian noise on each count, by σ
    saa                  Laplace noise on each count, by its scale; where one record moves several votes, this is DPBag−
    majority             the plain majority, if it fits

DPBag itself is not in the table: its per-record loss is computed from the private data and is no (ε, δ) guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from darrm_opt.accounting.allowance import checked_total
from darrm_opt.accounting.refusals import BelowLeakFloor
from darrm_opt.accounting.release import Release
from darrm_opt.accounting.sequence_design import design_sequence
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.accounting.turning import turned_up
from darrm_opt.baselines import double_subsampling, subsampling
from darrm_opt.design.objective import AnyObjective, Objective, as_objective
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

NOT_COMPARED = {
    "dpbag": "its per-record loss is computed from the private data and is no (epsilon, delta) guarantee; "
    "DPBag-, which has one, is saa with one record moving as many votes as there are partitions"
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
    """

    problem: Problem
    queries: int
    total: Privacy
    objective: str
    prior: Prior
    rows: tuple[Row, ...]
    not_compared: dict[str, str]
    measure: Literal["tv_error", "disagreement"] = "disagreement"


def compare(
    problem: Problem,
    queries: int,
    total: Privacy,
    *,
    objective: str | AnyObjective = "rectangular",
    prior: Prior | None = None,
) -> Comparison:
    """Return how useful each way of releasing a majority is, all within one total budget.

    Args:
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q ≥ 1 releases, each chosen freely in view of the earlier answers.
        total: (ε, δ) of all of them together, ε > 0 and finite.
        objective: what γ_opt maximises and the rows are ordered by. For votes of your own, `histogram` of them.
        prior: how votes fall, for the errors; None for the objective's own.

    Guarantees:
        Every row's γ, released ``queries`` times, is within ``total``, by the same sound account. No row that fits has a
        larger utility than "optimal", but for rounding.

    Raises:
        InvalidInput: a number is outside its range.
        TooMuchWork: more releases than the exact account can do.

    >>> from darrm_opt import Privacy, Problem
    >>> table = compare(Problem.from_allowance(K=5, m=1, epsilon=0.3), 5, Privacy(1.0, 1e-3))
    >>> table.rows[0].name, all(row.epsilon <= 1.0 for row in table.rows if row.epsilon is not None)
    ('optimal', True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    checked_total(total)
    chosen = as_objective(objective)
    votes = prior if prior is not None or not isinstance(chosen, Objective) else chosen.prior
    if votes is None:
        raise InvalidInput("prior", None, "how votes fall", f"The objective {chosen} has no prior of its own.")
    own = prior is None and isinstance(chosen, Objective) and chosen.measure == "tv"
    measure: Literal["tv_error", "disagreement"] = "tv_error" if own else "disagreement"
    useful = chosen.aim(problem.K).utility

    def cost(noise: NoiseFunction) -> float:
        try:
            return exact_epsilon(noise, problem, queries, total.delta, points=POINTS)
        except BelowLeakFloor:
            return math.inf

    def row(name: str, knob: str, value: float | None, noise: NoiseFunction | None) -> Row:
        if noise is None or value is None or not (spent := cost(noise)) <= total.epsilon:
            return Row(name, knob, None, None, None, None, None, None)
        utility = useful(upper_half(noise.values))
        return Row(name, knob, value, noise, spent, utility, disagreement(noise, votes), _tv_error(noise, votes))

    def turned(name: str, knob: str, make: Callable[[float], NoiseFunction], start: float, most: float) -> Row:
        def made(value: float) -> tuple[NoiseFunction, float]:
            noise = make(value)
            return noise, cost(noise)

        end = turned_up(made, total.epsilon, most, guess=start, precision=PRECISION)
        return row(name, knob, None, None) if end is None else row(name, knob, end.value, end.made)

    def counted(name: str, knob: str, make: Callable[[int, int], NoiseFunction], most: int) -> Row:
        count = most_that_fit(lambda count: cost(make(problem.K, count)) <= total.epsilon, most)
        return row(name, knob, count, make(problem.K, count)) if count else row(name, knob, None, None)

    K = problem.K
    rows = [
        turned("constant", "gamma", lambda share: _constant(K, share), 0.5, 1.0),
        counted("subsampling", "m", subsampling, K),
        counted("double_subsampling", "m", double_subsampling, (K + 1) // 2),
        turned("gnmax", "1/sigma", lambda inverse: noise_function(K, GaussianNoise.of_sigma(1 / inverse)), 1 / K, 4.0),
        turned("saa", "1/scale", lambda inverse: noise_function(K, LaplaceNoise(1 / inverse)), 1 / K, 8.0),
        row("majority", "gamma", 1.0, _constant(K, 1.0)),
    ]
    seeds = [each.noise for each in rows if each.noise is not None]
    noise = design_sequence(problem, queries, total, chosen, seeds=seeds).noise
    each = Release(noise, problem).profile.epsilon(total.delta)  # finite: all Q of them are within the total
    rows = [row("optimal", "epsilon_each", each, noise), *rows]
    rows.sort(key=lambda each: (each.utility is None, -(each.utility or 0.0)))  # ties: optimal first
    return Comparison(problem, queries, total, str(chosen), votes, tuple(rows), dict(NOT_COMPARED), measure)


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
