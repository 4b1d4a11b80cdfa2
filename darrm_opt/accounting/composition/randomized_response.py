"""Privacy loss of k-fold randomised response, as masses that never fall below the exact ones.

Randomised response tells the truth with probability p = e^ε/(1+e^ε). Its privacy loss over k runs with l lies is
(k−2l)ε, with probability C(k,l) p^(k−l) q^l, q = 1−p. It is the worst ε-DP mechanism to compose, so these numbers
decide every exact composition.

The masses are built outward from the mode by their ratios, (k−l)/(l+1)·e^(−ε), and normalised by their own sum: no
factorial, no power that overflows, and an error bound that is a count of operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP, up

NEGLIGIBLE = 1e-300
"""Masses below this share of the largest one are dropped, and charged for in `Losses.missing`."""

RATIO_ULPS = 4
"""Relative error of one ratio and its product into the running one: e^(−ε) 1 ulp, three operations ½ ulp each; 2.5, and
the rest pays for second order terms and for joining blocks."""

SUM_ULPS = 64
"""Relative error of a sum of non-negative doubles: pairwise in blocks of 128 added eight abreast (16 + log₂ of the
number of blocks additions at ½ ulp), below 32 ulps for any array that fits in memory, and as much again in reserve."""

MAX_WINDOW = 50_000_000
"""Most masses held at once; at ε → 0 this is reached at k of about 10¹²."""

_FIRST_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Losses:
    """A privacy loss distribution that dominates the exact one."""

    losses: Array  # values of the privacy loss, in any order [nats], each within ``loss_error`` of exact
    masses: Array  # their probabilities, each at least the exact one
    missing: float  # at least the probability of all losses that are not listed
    loss_error: float  # bound on the rounding of a loss [nats]

    def delta(self, epsilon: float) -> float:
        """Return Σ masses·(1 − e^(ε−loss))₊ + missing, rounded up: the δ at ``epsilon`` ≥ 0 [nats]."""
        excess = self.losses - epsilon
        # Raised by what the loss, the product and the subtraction may have lost; 1 − e^(−x) grows with x.
        excess += self.loss_error + 2 * ULP * (np.abs(self.losses) + epsilon)
        counts = excess > 0
        terms = -np.expm1(-excess[counts]) * self.masses[counts]
        total = float(np.sum(terms))
        return min(1.0, (up(total, SUM_ULPS + 4) if total else 0.0) + self.missing)


@lru_cache(maxsize=32)
def response_losses(epsilon: float, k: int) -> Losses:
    """Return the privacy loss of k-fold ε-randomised response.

    Guarantees: Every mass is at least the exact one, and above it by a relative 1e-9 at most for k ≤ 10⁶.
    Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    shrink = math.exp(-epsilon)  # q/p
    mode = min(k, int((k + 1) * (shrink / (1 + shrink))))
    rising = _ratio_products(k - mode, lambda i: (k - mode - i) / (mode + 1 + i) * shrink, k)
    falling = _ratio_products(mode, lambda i: (mode - i) / ((k - mode + 1 + i) * shrink), k)
    lies = mode + np.arange(-falling.size, rising.size + 1, dtype=np.float64)
    weights = np.concatenate((falling[::-1], [1.0], rising))
    error = ULP * RATIO_ULPS * np.abs(lies - mode)
    least_sum = float(np.sum(weights * (1 - error))) * (1 - SUM_ULPS * ULP)
    masses = weights * ((1 + error) * (1 + 8 * ULP) / least_sum)
    is_truncated = weights.size < k + 1
    with np.errstate(over="ignore"):  # a loss beyond the doubles counts as infinite
        losses = (k - 2 * lies) * epsilon  # whole numbers below 2^53 times ε: one rounding
    for array in (losses, masses):
        array.setflags(write=False)
    return Losses(losses, masses, 2.0 * k * NEGLIGIBLE if is_truncated else 0.0, 0.0)


def _ratio_products(count: int, ratio: Callable[[Array], Array], k: int) -> Array:
    """Return the running products of ratio(0), ratio(1), … until they are negligible: they only decrease."""
    blocks: list[Array] = []
    last, start, size = 1.0, 0, _FIRST_BLOCK
    while start < count and last > NEGLIGIBLE:
        if start > MAX_WINDOW:
            raise InvalidInput(
                "k", k, "few enough mechanisms that their losses fit in memory", "Use kov_composition() instead."
            )
        steps = np.arange(start, min(start + size, count), dtype=np.float64)
        block: Array = np.cumprod(ratio(steps), dtype=np.float64)
        block *= last
        last = float(block[-1])
        blocks.append(block)
        start, size = start + steps.size, min(2 * size, 1 << 20)
    products = np.concatenate(blocks) if blocks else np.empty(0)
    return products[products > NEGLIGIBLE]
