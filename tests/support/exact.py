"""The privacy constraint of the paper in exact arithmetic: the oracle of the tests of the design.

Nothing here knows of blossoms, reflections, or the division by e^(mε). A voter at a corner answers 1 with probability
p on the dataset and p′ on its neighbour; H is the mean of the signed γ under the Poisson-binomial distribution; a γ
is private at a multiset if H(p) − e^(mε)·H(p′) ≤ e^(mε) − 1 + 2δ (Lemma 3.4). `Number` is `Fraction` where every
probability is rational, and `Decimal` with `DIGITS` digits where e^ε is not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

import numpy as np

from darrm_opt.design.constraint import LABELS
from darrm_opt.problem import Problem

Number = TypeVar("Number", Fraction, Decimal)

DIGITS = 70  # digits of `Decimal` here: its errors are below 1e-60, those of doubles 1e-16
NEGLIGIBLE = Decimal("1e-55")  # above all errors of `Decimal` in tests, below all relevant differences


def precise() -> AbstractContextManager[Context]:
    """Give `Decimal` its digits and a range of exponents wider than that of doubles."""
    return localcontext(Context(prec=DIGITS, Emin=-999_999, Emax=999_999))


@cache
def exponential(epsilon: float) -> Decimal:
    """Return e^ε, correctly rounded; cached."""
    with precise():
        return Decimal(epsilon).exp()


def distribution(ones: Sequence[Number]) -> list[Number]:
    """Return Pr[L = 0..K] if voter i answers 1 with probability ``ones[i]``, one voter at a time."""
    masses: list[Any] = [1]
    for t in ones:
        if_zero = [mass * (1 - t) for mass in masses] + [0]
        if_one = [0] + [mass * t for mass in masses]
        masses = [a + b for a, b in zip(if_zero, if_one, strict=True)]
    return masses


def signed(gamma: Iterable[float], number: Callable[[Any], Number]) -> list[Number]:
    """Return g(l) = sign(l − K/2)·γ(l) exactly, from the doubles in ``gamma``."""
    values = [*gamma]
    K = len(values) - 1
    return [((2 * l > K) - (2 * l < K)) * number(float(value)) for l, value in enumerate(values)]


def mean(coefficients: Sequence[Number], ones: Sequence[Number]) -> Number:
    """Return H: the mean of ``coefficients[L]``."""
    total: Number = sum(mass * value for mass, value in zip(distribution(ones), coefficients, strict=True))  # type: ignore[assignment]  # typed int | Number for an empty sum
    return total


@dataclass(frozen=True)
class Voters:
    """K voters and the target of their majority, with every double as an exact rational.

    e^ε and e^(mε) are correctly rounded to `DIGITS` digits.
    """

    K: int
    epsilon: float
    Delta: float
    target_epsilon: float
    delta: float

    @classmethod
    def of(cls, problem: Problem) -> Voters:
        """Return the voters of a problem, with its exact numbers."""
        return cls(problem.K, problem.voter.epsilon, problem.voter.delta, problem.target.epsilon, problem.target.delta)

    def corners(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Return (p, p′) at each corner, by name."""
        with precise():
            zero, one, Delta = Decimal(0), Decimal(1), Decimal(self.Delta)
            if self.epsilon == math.inf:
                x, y = one, zero
            else:
                growth = exponential(self.epsilon)
                x, y = (growth + Delta) / (growth + 1), (1 - Delta) / (growth + 1)
            four = {"zero": (zero, zero), "one": (one, one), "xy": (x, y), "yx": (y, x)}
            if self.Delta == 0:
                return four
            return four | {
                "up": (zero, Delta),
                "down": (Delta, zero),
                "up_to_one": (1 - Delta, one),
                "down_from_one": (one, 1 - Delta),
            }

    def excess(self, gamma: Iterable[float], voters: Mapping[str, int]) -> Decimal:
        """Return (H(p) − c·H(p′) − (c − 1 + 2δ))/c at one multiset, c = e^(mε): private there if it is ≤ 0.

        The division by c is the scale of the design; it changes no sign.
        """
        with precise():
            growth = exponential(self.target_epsilon)
            return self.phi(gamma, voters) - (growth - 1 + 2 * Decimal(self.delta)) / growth

    def phi(self, gamma: Iterable[float], voters: Mapping[str, int]) -> Decimal:
        """Return (H(p) − c·H(p′))/c at one multiset."""
        with precise():
            corners = self.corners()
            pairs = [corners[label] for label, count in voters.items() for _ in range(int(count))]
            if len(pairs) != self.K:
                raise ValueError(f"{len(pairs)} voters where there are {self.K}")
            g = signed(gamma, Decimal)
            return mean(g, [p for p, _ in pairs]) / exponential(self.target_epsilon) - mean(g, [q for _, q in pairs])

    def limit(self) -> Decimal:
        """Return (c − 1 + 2δ)/c, c = e^(mε)."""
        with precise():
            growth = exponential(self.target_epsilon)
            return (growth - 1 + 2 * Decimal(self.delta)) / growth


def named(counts: Iterable[int]) -> dict[str, int]:
    """Return a row of counts by the names of its corners."""
    return {label: int(count) for label, count in zip(LABELS, counts, strict=False)}


def multisets(K: int, corners: int, affected: int) -> set[tuple[int, ...]]:
    """Return every multiset of K corners, the first two stationary, with at most ``affected`` others."""
    rows = set()
    for places in itertools.combinations_with_replacement(range(corners), K):
        counts = tuple(places.count(corner) for corner in range(corners))
        if sum(counts[2:]) <= affected:
            rows.add(counts)
    return rows


def random_multiset(rng: np.random.Generator, problem: Problem) -> dict[str, int]:
    """Return voters of the constraint set with random numbers of moving voters and of kinds."""
    labels = LABELS if problem.voter.delta > 0 else LABELS[:4]
    moving = int(rng.integers(0, problem.affected + 1))
    kinds = len(labels) - 2
    shares = rng.dirichlet(np.full(kinds, float(rng.choice([0.1, 1.0, 5.0]))))
    counts = dict(zip(labels[2:], map(int, rng.multinomial(moving, shares)), strict=True))
    ones = int(rng.integers(0, problem.K - moving + 1))
    return {"zero": problem.K - moving - ones, "one": ones} | counts
