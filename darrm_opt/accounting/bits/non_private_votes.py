"""Pairs that one release shows if voters are not private (ε = ∞): all of them at once, without a search.

Such voters may as well be fixed votes. With v ones on one dataset, a record that affects r voters makes any v′ with
|v − v′| ≤ r possible on a neighbour, so the pairs are (Pr[1 | v], Pr[1 | v′]), Pr[1 | v] = (1 + g(v))/2 with g
antisymmetric: O(K·r) of them, known exactly, and only the vertices of the region they span matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from darrm_opt.accounting.bits.region import BitRegion, spanned_region
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import MAX_TARGET_EPSILON
from darrm_opt.rounding import ULP, up


@dataclass(frozen=True, eq=False)
class NonPrivateVotes:
    """The pairs (Pr[1|D], Pr[1|D′]) that one release of a γ can show where votes are fixed.

    Args:
        noise: γ of K voters.
        affected: voters that one record affects, r in 1..K.
    """

    noise: NoiseFunction
    affected: int

    @cached_property
    def pairs(self) -> Array:
        """All pairs (p, q), p rounded up and q down by an ulp, both orders and both answers, shape (pairs, 2)."""
        chances = (1 + self.noise.signed) / 2  # one rounding: 1 + g is exact where it is small
        K = chances.size - 1
        v, shift = np.meshgrid(np.arange(K + 1), np.arange(-self.affected, self.affected + 1), indexing="ij")
        inside = (v + shift >= 0) & (v + shift <= K)
        v, neighbour = v[inside], (v + shift)[inside]
        return np.stack([np.minimum(1.0, chances[v] * (1 + ULP)), chances[neighbour] * (1 - ULP)], axis=1)

    def delta(self, epsilon: float) -> float:
        """Return δ at ``epsilon`` ≥ 0 [nats], rounded up."""
        return self._excess(math.exp(min(epsilon, MAX_TARGET_EPSILON)) * (1 - 2 * ULP))

    @cached_property
    def max_loss(self) -> float:
        """The largest finite loss [nats]: beyond it δ is that of the pairs with q = 0."""
        p, q = self.pairs.T
        return up(math.log(float(np.max(p[q > 0] / q[q > 0]))), 8)  # above 1 where v′ = v: the loss of rounding

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """Return (δ, P, Q) at ``epsilon`` ≥ 0 [nats]: δ rounded up, and a pair that attains it.

        As `design.privacy_profile.ProfileSearch`. (P, Q) is (0, 0), that of equal datasets, where no
        pair attains a δ above 0.
        """
        p, q = self.pairs.T
        excess = p - math.exp(min(epsilon, MAX_TARGET_EPSILON)) * q
        best = int(np.argmax(excess))
        if excess[best] <= 0:
            return self.delta(epsilon), 0.0, 0.0
        return self.delta(epsilon), float(p[best]), float(q[best])

    @cached_property
    def region(self) -> BitRegion:
        """The polygon that the pairs span, for `bits.recursion.compose_bits`: exact but for rounding outward."""
        return spanned_region(self._highest_pairs)

    @cached_property
    def inner(self) -> BitRegion:
        """The same, rounded inward: each of its vertices can be shown."""
        return spanned_region(self._highest_pairs, "inner")

    @property
    def _highest_pairs(self) -> list[tuple[Fraction, Fraction]]:
        """For each v′ the pair with the largest p: they span the others."""
        chances = [(1 + Fraction(g)) / 2 for g in self.noise.signed.tolist()]
        r = self.affected
        return [(max(chances[max(0, v - r) : v + r + 1]), q) for v, q in enumerate(chances)]

    def _excess(self, slope: float) -> float:
        """Return the largest p − slope·q, in [0, 1]; rounding only raises it."""
        p, q = self.pairs.T
        return min(1.0, max(0.0, float(np.max(p * (1 + ULP) - slope * q * (1 - ULP)))) * (1 + ULP))
