"""Regressions of running time: ln seconds of each program is a sum of coefficients times features of its problem.

`tests/campaigns/estimates.py` measures problems that it draws at random, fits the coefficients and writes them to
`coefficients.py`. The features stand beside the estimates that they serve (`running_time`, `tables`, `class_plans`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from darrm_opt.answers.coefficients import COEFFICIENTS

MAX_LOGARITHM = 30.0
"""Largest logarithm of an estimate, which is then of some 10^13 seconds: far outside what was measured."""


def clip(value: float, least: float, most: float) -> float:
    """Return the number of an interval that is nearest to a value.

    >>> clip(3.0, 0.0, 1.0)
    1.0
    """
    return min(max(value, least), most)


def fitted_seconds(program: str, features: Sequence[float]) -> float:
    """Return the expected time of a program [s]."""
    total = math.fsum(c * x for c, x in zip(COEFFICIENTS[program], features, strict=True))
    return math.exp(min(total, MAX_LOGARITHM))
