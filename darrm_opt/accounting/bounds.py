"""Upper bounds on losses, divergences and probabilities, safe against overflow and NaN.

A routine whose numbers overflow ends in ∞ or NaN. ∞ is a bound: nothing is proved. NaN is not, and it hides: max(0,
NaN) is 0, and NaN > target is False. So every bound leaves a numerical routine through `upper_bound`, which replaces
NaN by a value that always holds, and is compared with a target by `is_within`, which is False for NaN.

Powers of probabilities are summed by their logarithms: `log_power_sum` neither overflows nor loses rare outcomes.
"""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.noise import Array, ArrayLike


def upper_bound(values: ArrayLike | float, otherwise: ArrayLike | float = math.inf) -> Array:
    """Return the smaller of two upper bounds, shape as broadcast; a NaN is not a bound and gives the other one.

    ``otherwise``: a bound that always holds: a number, or ∞.

    >>> upper_bound([1.0, math.nan, math.inf], 5.0).tolist(), float(upper_bound(math.nan))
    ([1.0, 5.0, 5.0], inf)
    """
    return np.fmin(np.asarray(values, dtype=np.float64), np.where(np.isnan(otherwise), np.inf, otherwise))


def is_within(bound: float, limit: float) -> bool:
    """Return whether a bound is at most a limit; False if either is NaN."""
    return bool(bound <= limit)


def log_power_sum(log_p: Array, log_q: Array, order: float, axis: int = -1) -> Array:
    """Return ln Σ p^a·q^(1−a) of positive measures, given by logarithms, at an order a > 1.

    An outcome with p = 0 adds nothing; one with only q = 0 makes the sum infinite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.where(log_p > -np.inf, order * log_p - (order - 1) * log_q, -np.inf)
    return np.asarray(np.logaddexp.reduce(terms, axis=axis))
