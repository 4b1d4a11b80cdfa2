"""Pairs of neighbouring laws: the output of one release on two neighbouring datasets, if all such pairs are known.

Voters that are not private may as well be fixed votes. A record that moves r of them makes finitely many pairs (P, Q)
of laws of the released answer possible: between two classes, for v ones on one side, those of every v′ with |v − v′| ≤
r; for a table, one for each edge. The privacy profile is a maximum over the pairs, a bit has a region of (Pr[1|D],
Pr[1|D′]), and power divergences are sums over the answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from darrm_opt.accounting.bits.region import BitRegion, in_whole_units, outer_region, spanned_region
from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.composition.optimal import epsilon_at_delta, nats
from darrm_opt.accounting.labels.composition import TABLE_ERROR, table_divergence
from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike, NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON
from darrm_opt.rounding import ULP, up

MAX_VERTICES = 48
"""Maximum number of vertices of the region of a bit with an error; with more, fewer lines bound a larger region."""

PROBABILITY_ERROR = 2.0**-40
"""Relative error of a probability computed from noise, 9e-13: an exponential errs by its exponent, ≤ 700, in ulps."""

DIFFERENCES = 2**14  # number of differences of probabilities computed at a time, which fit in the cache

LEAK = "one release may leak with that probability, rounding included"
"""Reason why no ε is proved for one release at a δ."""


class LawPairs:
    """All pairs (P, Q) of laws of one release on neighbours, in both orders."""

    def __init__(self, on_data: ArrayLike, on_neighbour: ArrayLike, *, error: float = 0.0) -> None:
        self.on_data, self.on_neighbour = np.asarray(on_data, np.float64), np.asarray(on_neighbour, np.float64)
        self.error = error  # relative error of each probability, in addition to its rounding
        if self.on_data.ndim != 2 or self.on_data.shape != self.on_neighbour.shape or not self.on_data.size:
            raise InvalidInput("on_neighbour", self.on_neighbour.shape, f"laws of shape {self.on_data.shape}")
        for name, laws in (("on_data", self.on_data), ("on_neighbour", self.on_neighbour)):
            if not np.all((laws >= 0) & (laws <= 1)):
                raise InvalidInput(name, laws.tolist(), "probabilities in [0, 1]")
        if not 0 <= error < 1:  # with NaN or a larger error, losses would not be charged
            raise InvalidInput("error", error, "a relative error in [0, 1)")

    def delta(self, epsilon: float) -> float:
        """Return δ of one release at ``epsilon`` ≥ 0 [nats], rounded up."""
        epsilon = min(nats(epsilon, "epsilon"), MAX_TARGET_EPSILON)
        return self._largest_excess(math.exp(epsilon) * (1 - 2 * ULP))

    def deltas(self, epsilons: Array, rare: float = 0.0) -> Array:
        """Return δ of one release at any real ε [nats], rounded up, shape as given."""
        p, q = self.bounds
        p = np.where(p > rare, p * (1 + ULP), 0.0)
        q = q * (1 - ULP)
        # δ does not increase with ε; an e^ε that overflows would make inf·0 of an impossible answer.
        slopes = np.exp(np.minimum(epsilons, MAX_TARGET_EPSILON)) * (1 - 2 * ULP) - p.shape[1] * rare * (1 + 4 * ULP)
        p, q = np.ascontiguousarray(p.T), np.ascontiguousarray(q.T)  # sums over answers are fast along columns
        excesses, many = np.empty(slopes.size), max(1, DIFFERENCES // p.shape[1])
        for start in range(0, slopes.size, many):
            some = slopes.ravel()[start : start + many, np.newaxis]
            totals = sum(np.maximum(on_data - some * other, 0.0) for on_data, other in zip(p, q, strict=True))
            excesses[start : start + many] = np.max(totals, axis=1)
        return np.asarray(np.minimum(1.0, excesses * (1 + 2 * p.shape[0] * ULP))).reshape(slopes.shape)

    def __call__(self, epsilons: Array) -> Array:
        """Return δ of one release at any real ε [nats], rounded up, shape as given."""
        return self.deltas(epsilons)

    def epsilon(self, delta: float) -> float:
        """Return ε of one release [nats] at ``delta`` [probability] in [0, 1), rounded up."""
        if delta == 0 and self.finite:
            return self.largest_loss
        return epsilon_at_delta(self.delta, delta, self.max_loss, LEAK)

    @property
    def finite(self) -> bool:
        """Whether each answer is possible on both sides of a pair or on neither."""
        return not np.any((self.on_data > 0) != (self.on_neighbour > 0))

    @cached_property
    def max_loss(self) -> float:
        """The largest finite loss [nats], at least 0: beyond it δ is that of answers possible on one side only."""
        p, q = self._bounds
        possible = q > 0
        largest = float(np.max(p[possible] / q[possible], initial=1.0))
        return up(math.log(largest), 8)  # positive for equal laws: a loss from rounding

    @property
    def largest_loss(self) -> float:
        """The largest loss [nats], at least 0; ∞ if an answer is possible on one side only."""
        return self.max_loss if self.finite else math.inf

    @cached_property
    def divergence(self) -> PowerDivergence | None:
        """Bound on the power divergences of the pairs; None if an answer is possible on one side only."""
        if not self.finite:
            return None
        return table_divergence(self.on_data, self.on_neighbour, max(self.error, TABLE_ERROR))

    @property
    def affinity(self) -> float:
        """The smallest Σ √(P·Q) of a pair, at most 1, for estimates."""
        return min(1.0, float(np.min(np.sqrt(self.on_data * self.on_neighbour).sum(axis=1))))

    @property
    def is_bit(self) -> bool:
        """Whether the answer is one of two."""
        return bool(self.on_data.shape[1] == 2)

    @cached_property
    def region(self) -> BitRegion:
        """The polygon spanned by the pairs of a bit, rounded outward, for `bits.recursion.compose_bits`."""
        exact, error = spanned_region(self._spanning), self._spanning_error
        if not error:
            return exact
        if exact.moves.shape[0] > MAX_VERTICES:
            return self._lined_region(exact)
        # All four probabilities of a pair have a relative error. The sums of `recursion` grow with p and 1 − p,
        # decrease with q and 1 − q, and are convex in the four: so it is enough to move the vertices.
        moves = np.asarray(exact.moves * (1 + (error * (1 + 4 * ULP) + 4 * ULP) * np.array([1, 1, -1, -1])))
        moves.setflags(write=False)
        return BitRegion(moves, "outer")

    @property
    def _spanning(self) -> list[tuple[Fraction, Fraction]]:
        """Pairs (p, q) of the first of two answers that span the others, with their mirror images, exactly."""
        # The larger probability is the complement of the smaller one, so that both keep their relative error.
        firsts = [
            [Fraction(one) if one <= other else 1 - Fraction(other) for one, other in law.tolist()]
            for law in (self.on_data, self.on_neighbour)
        ]
        return list(zip(*firsts, strict=True))

    @property
    def _spanning_error(self) -> float:
        """Relative error of the four probabilities of those pairs."""
        return self.error + 4 * ULP  # a complement errs by a little more, near ½

    @property
    def bounds(self) -> tuple[Array, Array]:
        """P rounded up and Q rounded down, shape (pairs, answers) each."""
        error = self.error + ULP
        return np.minimum(1.0, self.on_data * (1 + error)), self.on_neighbour * (1 - error)

    @property
    def _bounds(self) -> tuple[Array, Array]:
        """`bounds`, for as many answers as are needed."""
        return self.bounds

    def _largest_excess(self, slope: float) -> float:
        """Return the largest Σ (p − slope·q)₊ of a pair, in [0, 1]; rounding only increases it."""
        p, q = self._bounds
        excess = np.maximum(p * (1 + ULP) - slope * q * (1 - ULP), 0.0).sum(axis=1)
        return min(1.0, float(np.max(excess) * (1 + 2 * p.shape[1] * ULP)))

    def _lined_region(self, exact: BitRegion) -> BitRegion:
        """Return a polygon of fewer lines around all pairs."""
        p, _, q, _ = exact.moves[np.argsort(exact.moves[:, 2])].T
        rises, runs = np.diff(p), np.diff(q)
        slopes = rises[runs > 0] / runs[runs > 0]
        slopes = np.unique(np.append(slopes[slopes > 1], 1.0))
        slopes = slopes[np.unique(np.linspace(0, slopes.size - 1, MAX_VERTICES).astype(int))]
        return outer_region(slopes, [self._largest_excess(slope) for slope in slopes.tolist()])


def largest_deltas(pairs: Sequence[LawPairs], losses: Array, rare: float = 0.0) -> Array:
    """Return the largest δ of several families at any losses, as `LawPairs.deltas`."""
    return np.asarray(np.max([laws.deltas(losses, rare) for laws in pairs], axis=0))


@dataclass(frozen=True, eq=False)
class AnyVotes:
    """Pairs of laws that dominate one release for any votes."""

    pairs: LawPairs  # in both orders
    missing: float = 0.0  # bound on the probability of cut-off noise: the laws are conditional on the rest
    times: int = 1  # maximum number of such independent pairs in a release

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", float(upper_bound(self.missing, 1.0)))  # NaN: possibly all of it


class BitPairs(LawPairs):
    """The pairs of one released bit that is symmetric in its answers."""

    def __init__(self, chances: Sequence[Fraction], affected: int, *, error: float = 0.0) -> None:
        K = len(chances) - 1
        ones = np.array([float(chance) for chance in chances])
        # If the probability never decreases with the ones, the most distant neighbours are enough for computed
        # probabilities.
        furthest = error > 0 and bool(np.all(np.diff(ones) >= 0))
        shifts = np.array([-affected, affected]) if furthest else np.arange(-affected, affected + 1)
        v, shift = np.meshgrid(np.arange(K + 1), shifts, indexing="ij")
        neighbour = np.clip(v + shift, 0, K) if furthest else v + shift
        inside = (neighbour >= 0) & (neighbour <= K)
        self._laws = np.stack([ones, ones[::-1]], axis=1)
        super().__init__(self._laws[v[inside]], self._laws[neighbour[inside]], error=error)
        self.chances, self.affected = tuple(chances), affected

    @classmethod
    def of_gamma(cls, noise: NoiseFunction, affected: int) -> BitPairs:
        """Return the pairs of a γ of voters that are not private, of whom a record affects r in 1..K."""
        return cls([(1 + Fraction(g)) / 2 for g in noise.signed.tolist()], affected)

    @classmethod
    def of_noise(cls, losses: Sequence[float], K: int, affected: int) -> BitPairs:
        """Return the pairs of a noisy vote between two classes, computed to `PROBABILITY_ERROR`."""
        behind = [Fraction(loss) for loss in reversed(losses)]
        ahead = [1 - loss for loss in reversed(behind)]
        return cls([*behind, *ahead[1 - K % 2 :]], min(affected, K), error=PROBABILITY_ERROR)  # a tie is counted once

    @cached_property
    def divergence(self) -> PowerDivergence | None:
        """Bound from the pairs that span the others: power divergences are convex in a pair."""
        if not self.finite:
            return None
        return table_divergence(self._laws[self._highest], self._laws, max(self.error, TABLE_ERROR))

    @cached_property
    def pairs(self) -> Array:
        """All pairs (p, q) of the first answer, p rounded up and q down, shape (pairs, 2)."""
        error = self.error + ULP
        return np.stack(
            [np.minimum(1.0, self.on_data[:, 0] * (1 + error)), self.on_neighbour[:, 0] * (1 - error)], axis=1
        )

    def epsilon(self, delta: float) -> float:
        """Return ε of one release [nats] at ``delta`` in [0, 1) [probability]: max of ln((p − δ)/q), rounded up."""
        p, q = self._bounds
        if delta == 0 or float(np.max(p[q == 0], initial=0.0)) > delta:
            return super().epsilon(delta)
        excess = (p[q > 0] - delta) * (1 + 4 * ULP)
        ratio = float(np.max(excess / q[q > 0], initial=0.0))
        return super().epsilon(delta) if not 0 <= delta < 1 else up(math.log(ratio), 8) if ratio > 1 else 0.0

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """Return (δ, P, Q) at ``epsilon`` ≥ 0 [nats]: δ rounded up, and a pair that attains it.

        As `design.privacy_profile.ProfileSearch`. (P, Q) is (0, 0), that of equal datasets, if no pair attains a δ
        above 0.
        """
        p, q = self.pairs.T
        excess = p - math.exp(min(epsilon, MAX_TARGET_EPSILON)) * q
        best = int(np.argmax(excess))
        if excess[best] <= 0:
            return self.delta(epsilon), 0.0, 0.0
        return self.delta(epsilon), float(p[best]), float(q[best])

    @cached_property
    def inner(self) -> BitRegion:
        """The region rounded inward: each vertex can be shown if the probabilities are exact."""
        return spanned_region(self._spanning, "inner")

    @property
    def _spanning(self) -> list[tuple[Fraction, Fraction]]:
        """For each v′ the pair with the largest p: with their mirror images they span the others."""
        return [(self.chances[v], q) for v, q in zip(self._highest, self.chances, strict=True)]

    @cached_property
    def _highest(self) -> list[int]:
        """For each v′ the v with the largest probability."""
        r, K = self.affected, len(self.chances) - 1
        _, whole = in_whole_units(self.chances)
        return [max(range(max(0, v - r), min(K, v + r) + 1), key=whole.__getitem__) for v in range(K + 1)]

    @property
    def _spanning_error(self) -> float:
        """Error of the probabilities: 0 for fractions that were not computed from noise."""
        return self.error

    @property
    def _bounds(self) -> tuple[Array, Array]:
        """P rounded up and Q rounded down of the first answer: the second one has the same pairs."""
        return self.pairs[:, 0], self.pairs[:, 1]

    def _largest_excess(self, slope: float) -> float:
        """Return the largest p − slope·q, in [0, 1]; rounding only increases it."""
        p, q = self._bounds
        return min(1.0, max(0.0, float(np.max(p * (1 + ULP) - slope * q * (1 - ULP)))) * (1 + ULP))
