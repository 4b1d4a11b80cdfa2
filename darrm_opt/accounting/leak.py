"""1 − (1−δ)^k, the least total δ of k mechanisms that may each leak everything with probability δ.

A mechanism that reveals the record with probability δ and is blank otherwise is (ε, δ)-DP for every ε. After k runs the
record is out with probability 1 − (1−δ)^k, an event that a neighbour without the record never shows. So no accounting
whatever, at any finite ε, can promise a smaller δ; one that does is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from darrm_opt.rounding import float_above, up

FEW = 64
"""Up to this k the power is computed in rationals. Beyond, 1 − (1−δ)^k is never a double itself (with δ = a/2^b in
lowest terms its odd numerator is above 2^(b(k−1)) ≥ 2^64), so a decimal approximation decides the rounding."""

TINY_DELTA = 1e-30
"""Below this kδ is as good: it is above 1 − (1−δ)^k by the share kδ/2."""

_DIGITS = 120
"""Decimal digits: 1 − δ ≥ 1e-30 keeps more than 80 correct ones after a power and a subtraction."""

_MARGIN = Decimal("1e-60")
"""Relative charge for the decimal arithmetic, whose own error is below 1e-70."""


def leak_floor(delta: float, k: int) -> float:
    """Return 1 − (1−δ)^k rounded up to the nearest double.

    Args:
        delta: failure probability of one mechanism [probability], in [0, 1).
        k: number of mechanisms, ≥ 0.

    Returns:
        The least double that is not below the exact value [probability] (δ ≥ 1e-30; at smaller δ, kδ rounded up).

    Source: the mechanism described at the top of this module.

    >>> leak_floor(0.5, 2)
    0.75
    """
    return leaks_floor([(delta, k)])


def leaks_floor(classes: Iterable[tuple[float, int]]) -> float:
    """Return 1 − Π(1−δ_c)^(k_c), rounded up, for classes (δ_c, k_c); the order does not matter."""
    counted = sorted((delta, k) for delta, k in classes if delta > 0 and k > 0)
    tiny = [(delta, k) for delta, k in counted if delta < TINY_DELTA]
    others = counted[len(tiny) :]
    floor = _floor(others)
    for delta, k in tiny:
        floor = up(floor + k * delta, 2)
    return min(floor, 1.0)


def _floor(classes: list[tuple[float, int]]) -> float:
    if not classes:
        return 0.0
    if sum(k for _, k in classes) <= FEW:
        kept = math.prod((1 - Fraction(delta)) ** k for delta, k in classes)
        return float_above(1 - Fraction(kept))
    with localcontext(Context(prec=_DIGITS)):
        product = Decimal(1)
        for delta, k in classes:
            product *= (1 - Decimal(delta)) ** k
        return float_above(Fraction(min((1 - product) * (1 + _MARGIN), Decimal(1))))
