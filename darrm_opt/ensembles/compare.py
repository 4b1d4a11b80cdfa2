"""Ways to release a majority on one footing: same voters, same neighbours, same total privacy, same number of queries.

Every way of releasing a vote between two answers that looks at the number of ones only, treats both answers alike and is
never worse than a coin *is* a noise function, γ(l) = 2·Pr[1 | l ones] − 1 for l > K/2 (Lemma 3.3 of the paper): GNMax and
SAA with their noise too. So one account serves all of them, the exact recursion on the bits of that γ, at the voters' own
privacy; each way has one knob, which is turned up as far as the total budget allows; and what remains to compare is how
often each is wrong.

    optimal              γ_opt, by the ε that one release may cost: the best for that, not always for the whole sequence
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

import numpy as np

from darrm_opt.accounting.refusals import BelowLeakFloor
from darrm_opt.accounting.release import exact_epsilon
from darrm_opt.baselines import double_subsampling, subsampling
from darrm_opt.design.objective import Objective, as_objective
from darrm_opt.design.solver import solve
from darrm_opt.ensembles.voting import GaussianNoise, LaplaceNoise, VoteNoise
from darrm_opt.error import disagreement, tv_error
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import Prior
from darrm_opt.problem import LARGEST_TARGET_EPSILON, Privacy, Problem, whole_number

PRECISION = 2e-3
"""Relative precision to which a knob is turned, from the private side."""

POINTS = 8001
"""Grid points of each account: sound for any number; finer would change the fourth digit of ε."""

LEAST_SHARE = 1e-4
"""A knob below this share of where its search begins counts as not to be turned at all: the release is a coin."""

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
        disagreement: Pr[release ≠ majority that was voted] over the prior [probability].
        tv_error: |Pr[release = 1] − Pr[majority = 1]| over the prior [probability]; None where it has no closed form.
    """

    name: str
    knob: str
    value: float | None
    noise: NoiseFunction | None
    epsilon: float | None
    disagreement: float | None
    tv_error: float | None


@dataclass(frozen=True)
class Comparison:
    """Every way on one footing, the most accurate first.

    Attributes:
        problem: the voters; its target plays no part.
        queries: Q.
        total: (ε, δ) of all releases together.
        objective: what γ_opt maximises.
        rows: one a way, by disagreement.
        not_compared: what has no place here, and why.
    """

    problem: Problem
    queries: int
    total: Privacy
    objective: str
    rows: tuple[Row, ...]
    not_compared: dict[str, str]


def compare(
    problem: Problem,
    queries: int,
    total: Privacy,
    *,
    objective: str | Objective = "rectangular",
    prior: Prior | None = None,
) -> Comparison:
    """Return how accurate each way of releasing a majority is, all within one total budget.

    Args:
        problem: its voters count (K, voter, affected); its target does not.
        queries: Q ≥ 1 releases, each chosen freely in view of the earlier answers.
        total: (ε, δ) of all of them together, ε > 0 and finite.
        objective: what γ_opt maximises.
        prior: how votes fall, for the accuracy; None for the objective's own.

    Guarantees:
        Every row's γ, released ``queries`` times, is within ``total``, by the same sound account.

    Raises:
        InvalidInput: a number is outside its range.
        TooMuchWork: more releases than the exact account can do.

    >>> from darrm_opt import Privacy, Problem
    >>> table = compare(Problem.from_allowance(K=5, m=1, epsilon=0.3), 5, Privacy(1.0, 1e-3))
    >>> table.rows[0].name, all(row.epsilon <= 1.0 for row in table.rows if row.epsilon is not None)
    ('optimal', True)
    """
    queries = whole_number(queries, "queries", "a whole number of releases, at least 1")
    if not 0 < total.epsilon <= LARGEST_TARGET_EPSILON:
        raise InvalidInput(
            "total_epsilon", total.epsilon, f"a number of nats above 0, at most {LARGEST_TARGET_EPSILON:g}"
        )
    chosen = as_objective(objective)
    votes = prior if prior is not None or not isinstance(chosen, Objective) else chosen.prior
    if votes is None:
        raise InvalidInput("prior", None, "how votes fall", f"The objective {chosen} has no prior of its own.")

    def cost(noise: NoiseFunction) -> float:
        try:
            return exact_epsilon(noise, problem, queries, total.delta, points=POINTS)
        except BelowLeakFloor:
            return math.inf

    def row(name: str, knob: str, value: float | None, noise: NoiseFunction | None) -> Row:
        if noise is None or not (spent := cost(noise)) <= total.epsilon:
            return Row(name, knob, None, None, None, None, None)
        return Row(name, knob, value, noise, spent, disagreement(noise, votes), _tv_error(noise, votes))

    def turned(name: str, knob: str, make: Callable[[float], NoiseFunction], start: float, most: float) -> Row:
        value = _largest(lambda value: cost(make(value)) <= total.epsilon, start, most)
        return row(name, knob, value, None if value is None else make(value))

    def counted(name: str, knob: str, make: Callable[[int, int], NoiseFunction], most: int) -> Row:
        count = _most(lambda count: cost(make(problem.K, count)) <= total.epsilon, most)
        return row(name, knob, count or None, make(problem.K, count) if count else None)

    def optimal(epsilon: float) -> NoiseFunction:
        return solve(_with_target(problem, epsilon, total.delta / (2 * queries)), chosen).noise

    K = problem.K
    rows = [
        turned("optimal", "epsilon_each", optimal, total.epsilon / queries, total.epsilon),
        turned("constant", "gamma", lambda share: _constant(K, share), 0.5, 1.0),
        counted("subsampling", "m", subsampling, K),
        counted("double_subsampling", "m", double_subsampling, (K + 1) // 2),
        turned("gnmax", "1/sigma", lambda inverse: noisy(K, GaussianNoise.of_sigma(1 / inverse)), 1 / K, 4.0),
        turned("saa", "1/scale", lambda inverse: noisy(K, LaplaceNoise(1 / inverse)), 1 / K, 8.0),
        row("majority", "gamma", 1.0, _constant(K, 1.0)),
    ]
    rows.sort(key=lambda each: (each.disagreement is None, each.disagreement))
    return Comparison(problem, queries, total, str(chosen), tuple(rows), dict(NOT_COMPARED))


def noisy(K: int, noise: VoteNoise) -> NoiseFunction:
    """Return the γ that a vote with noise on each of two counts amounts to: 2·Pr[winner wins] − 1.

    >>> from darrm_opt.ensembles.voting import GaussianNoise
    >>> round(float(noisy(11, GaussianNoise.of_sigma(21.46)).values[11]), 3)
    0.283
    """
    margins = range(1 + (K + 1) % 2, K + 1, 2)
    return NoiseFunction.from_upper_half(np.array([1 - 2 * noise.loses(margin) for margin in margins]), K)


def _constant(K: int, share: float) -> NoiseFunction:
    return NoiseFunction.from_upper_half(np.full((K + 1) // 2, share), K)


def _with_target(problem: Problem, epsilon: float, delta: float) -> Problem:
    """Return the problem with another target: δ that m voters leak, or ``delta`` if that is more."""
    voter = problem.voter
    m = 1.0 if voter.epsilon in (0.0, math.inf) else epsilon / voter.epsilon
    leaked = -math.expm1(m * math.log1p(-voter.delta))
    return Problem(problem.K, voter, Privacy(epsilon, min(max(leaked, delta), 1 - 1e-9)), problem.affected)


def _most(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest whole number up to ``most`` that fits; cost grows with it. 0 where none does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _largest(fits: Callable[[float], bool], start: float, most: float) -> float | None:
    """Return the largest value found that fits, to `PRECISION`; cost grows with it. None where hardly any does."""
    low, high = start, start
    while fits(high):
        if high >= most:
            return most
        low, high = high, min(2 * high, most)
    if low == high:
        while not fits(low):
            if low < LEAST_SHARE * start:
                return None
            low, high = low / 2, low
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _tv_error(noise: NoiseFunction, votes: Prior) -> float | None:
    try:
        return tv_error(noise, votes)
    except InvalidInput:
        return None
