"""The exact privacy of one released bit: a noisy vote of K teachers between two classes.

Teachers need not be private; one record moves at most ``affected`` of the K votes, and Pr[1 | v ones] is known in
closed form and grows with v, so the pairs (Pr[1|D], Pr[1|D′]) that neighbours can show are finitely many. Every
account below is a maximum over all of them: nothing depends on the data.

One bit of noisy counts says less than the counts, so these accounts afford about four times the labels of the
sources', and more where the noise is as large as the vote. All of it is ours, except what composes bits
(`darrm_opt.accounting.bits.recursion`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from darrm_opt.aggregators.moments_accountant import ORDERS, Array, checked_orders, pure_composition, tight_epsilon
from darrm_opt.aggregators.noisy_votes import Kind, VoteNoise
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import real_number, whole_number
from darrm_opt.rounding import GUARD

if TYPE_CHECKING:
    from darrm_opt.accounting.bits.region import BitRegion

IntArray = NDArray[np.int64]

PROBABILITY_ERROR = 2.0**-40
"""Relative error of a computed Pr[1 | v], 9e-13: an exponential errs by its exponent, at most 700, in ulps."""

Costs = Callable[[int], list[tuple[float, str]]]
"""A number of releases → (ε [nats], which account proves it), one or more."""

MIN_PROBABILITY = 1e-300
"""Below this an answer is as good as excluded and its logarithm means nothing."""

MAX_SLOPES = 48
"""Supporting lines of the region handed to the composition of bits; fewer lines are a larger, still sound, region."""


@dataclass(frozen=True)
class TwoClassVote:
    """One bit: the winner of K votes plus noise on each of two counts.

    Args:
        K: teachers in all (chunks times partitions), ≥ 1.
        noise: noise added to each count.
        affected: votes that one record can move (one per partition), ≥ 1.
        kind: the noise that is drawn, or the continuous form of the sources.

    Raises:
        InvalidInput: a number out of range, or so little noise that an answer's probability is below 1e-300.

    >>> from darrm_opt.aggregators.noisy_votes import GaussianNoise
    >>> TwoClassVote(11, GaussianNoise.of_sigma(21.46)).epsilon(3e-4) < 0.1
    True
    """

    K: int
    noise: VoteNoise
    affected: int = 1
    kind: Kind = "discrete"

    def __post_init__(self) -> None:
        whole_number(self.K, "K", "a number of teachers, at least 1")
        whole_number(self.affected, "affected", "a number of votes, at least 1")
        if self.noise.loses(self.K, self.kind) < MIN_PROBABILITY:
            raise InvalidInput(
                "noise", self.noise, "noise that leaves each answer a chance above 1e-300", "Add more noise."
            )

    @cached_property
    def ones(self) -> Array:
        """Pr[1 | v ones] for v = 0..K, each to a relative `PROBABILITY_ERROR`."""
        loses = np.array([self.noise.loses(d, self.kind) for d in range(self.K % 2, self.K + 1, 2)])
        return np.concatenate([loses[::-1], 1 - loses[1 - self.K % 2 :]])  # margin 0 (even K) is counted once

    @cached_property
    def _neighbours(self) -> tuple[IntArray, IntArray]:
        """Numbers of ones (v, v′) of the neighbours furthest apart: v ± affected, within 0..K."""
        v = np.arange(self.K + 1)
        other = np.concatenate([np.minimum(v + self.affected, self.K), np.maximum(v - self.affected, 0)])
        return np.tile(v, 2), other

    @property
    def pairs(self) -> tuple[Array, Array]:
        """(Pr[1|D], Pr[1|D′]) of the neighbours furthest apart, two arrays of shape (2(K+1),).

        The pairs of answer 0 are the same: Pr[0 | v] = Pr[1 | K − v].
        """
        v, other = self._neighbours
        return self.ones[v], self.ones[other]

    def delta(self, epsilon: float) -> float:
        """Return δ of one release at ``epsilon`` ≥ 0 [nats]: max of p − e^ε·p′, rounded up.

        Raises:
            InvalidInput: ε is outside its range.
        """
        epsilon = real_number(epsilon, "epsilon", "a number of nats, at least 0")
        if epsilon < 0:
            raise InvalidInput("epsilon", epsilon, "a number of nats, at least 0")
        return self._excess(math.exp(min(epsilon, 700.0)))

    def epsilon(self, delta: float) -> float:
        """Return ε [nats] of one release at ``delta`` in [0, 1) [probability]: max of ln((p − δ)/p′), rounded up.

        Raises:
            InvalidInput: δ is outside its range.
        """
        delta = real_number(delta, "delta", "a probability in [0, 1)")
        if not 0 <= delta < 1:
            raise InvalidInput("delta", delta, "a probability in [0, 1)")
        p, other = self.pairs
        excess = p * (1 + PROBABILITY_ERROR) - delta
        ratio = float(np.max(excess / (other * (1 - PROBABILITY_ERROR))))
        return math.log(ratio) * GUARD if ratio > 1 else 0.0

    def moments(self, orders: Iterable[float] = ORDERS) -> Array:
        """Return the worst moment at each order l ≥ 1: max of ln Σ_o p_o·(p_o/p′_o)^l, rounded up.

        It adds up over queries, adaptive ones too. A divergence grows as its arguments part, so the neighbours furthest
        apart are the worst.
        """
        l = checked_orders(orders)[:, None]
        v, other = self._neighbours
        one = np.log(self.ones)
        zero = one[::-1]  # ln Pr[0 | v]: small probabilities keep their digits
        moment = np.logaddexp(one[v] + l * (one[v] - one[other]), zero[v] + l * (zero[v] - zero[other]))
        # Each logarithm carries a few ulps of itself; the order multiplies them.
        size = 4 - one[v] - one[other] - zero[v] - zero[other]
        return np.asarray(np.max(moment + 2.0**-50 * (l + 1) * size, axis=1), dtype=np.float64)

    def region(self) -> BitRegion:
        """Return a polygon that contains every pair that neighbours can show, for `bits.recursion.compose_bits`."""
        from darrm_opt.accounting.bits.region import outer_region

        p, other = self.pairs
        steepest = float(np.max(p / other)) * (1 + 4 * PROBABILITY_ERROR)
        slopes = np.concatenate([[1.0], _hull_slopes(p, other), [steepest]])
        slopes = np.unique(slopes[(slopes >= 1) & (slopes <= steepest)])
        if slopes.size > MAX_SLOPES:
            slopes = slopes[np.unique(np.linspace(0, slopes.size - 1, MAX_SLOPES).astype(int))]
        return outer_region(slopes, [self._excess(float(slope)) for slope in slopes])

    def composed_epsilon(self, queries: int, delta: float, *, points: int = 4001) -> float:
        """Return ε of ``queries`` adaptive releases at ``delta`` by the exact composition of bits: tightest, slowest.

        Args:
            queries: ≥ 0.
            delta: δ of all together [probability], in [0, 1).
            points: grid points; the answer is sound for any number.

        Raises:
            DeltaTooSmall: δ = 0 and a pair of probability 0.
            TooMuchWork: too many releases for this method.
        """
        from darrm_opt.accounting.bits.recursion import compose_bits

        queries = whole_number(queries, "queries", "a number of releases, at least 0", least=0)
        if queries == 0:
            return 0.0
        return compose_bits([(self.region(), queries)], points=points).epsilon(delta)

    def costs(self, delta: float, orders: Iterable[float], *, exact: bool) -> Costs:
        """Return the function from a number of releases to what they cost at ``delta``, by each account that applies.

        Args:
            delta: δ of all together [probability], in [0, 1).
            orders: moment orders l ≥ 1.
            exact: include `composed_epsilon`, which is slower.

        Returns:
            T ↦ [(ε, which account), …].
        """
        one_release = self.epsilon(delta)
        compose_pure = pure_composition(self.epsilon(0.0), delta)
        orders = tuple(orders)
        moments = self.moments(orders)

        def cost(T: int) -> list[tuple[float, str]]:
            options = [(compose_pure(T), "two-class vote, optimal composition of its pure epsilon")]
            if T == 1:
                options.append((one_release, "two-class vote, exact"))
            if delta > 0:
                options.append((tight_epsilon(T * moments, delta, orders), "two-class vote, exact moments"))
            if exact and delta > 0:  # at δ = 0 the optimal composition of the pure ε is exact
                options.append((self.composed_epsilon(T, delta), "two-class vote, exact composition of bits"))
            return options

        return cost

    def _excess(self, slope: float) -> float:
        """Return the largest p − slope·p′, 0 at least, rounded up."""
        p, other = self.pairs
        return min(1.0, max(0.0, float(np.max(p * (1 + PROBABILITY_ERROR) - slope * other * (1 - PROBABILITY_ERROR)))))


def _hull_slopes(p: Array, other: Array) -> Array:
    """Return the slopes of the edges of the upper convex hull of the points (other, p)."""
    hull: list[tuple[float, float]] = []
    for x, y in sorted(zip(other.tolist(), p.tolist(), strict=True)):
        while hull and (
            hull[-1][0] == x
            or (
                len(hull) > 1
                and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) <= (y - hull[-2][1]) * (hull[-1][0] - hull[-2][0])
            )
        ):
            hull.pop()
        hull.append((x, y))
    edges = np.array(hull)
    return np.asarray(np.diff(edges[:, 1]) / np.diff(edges[:, 0])) if len(hull) > 1 else np.empty(0)
