"""Amplification by subsampling: the privacy of a step that sees a random batch of the records."""

from __future__ import annotations

import math

from darrm_opt.problem import Privacy, real_number
from darrm_opt.rounding import ULP, up

SUBNORMAL_ERROR = 2 * math.ulp(0.0)
"""Absolute error of an exponential and of a product where both are subnormal; elsewhere it is lost in rounding."""


def amplify_by_subsampling(event: Privacy, rate: float) -> Privacy:
    """Return the privacy of an (ε, δ)-DP step on a random batch: (ln(1 + q(e^ε − 1)), qδ).

    The batch is drawn uniformly without replacement; neighbours replace one record.

    Guarantees: Sound for every q and ε, under replace-one; rounded up.
    Source: Balle, Barthe, Gaboardi 2018 (amplification by sampling without replacement).
    """
    rate = _check_rate(rate)
    if event.epsilon > 1:  # ln(1 + q(e^ε − 1)) = ε + ln(q + (1−q)e^(−ε)), which cannot overflow
        share = rate + (1 - rate) * math.exp(-event.epsilon) + SUBNORMAL_ERROR
        epsilon = up(event.epsilon + math.log(share) + 4 * ULP * event.epsilon, 8)
    else:
        epsilon = up(math.log1p(rate * math.expm1(event.epsilon)), 8)
    return Privacy(min(epsilon, event.epsilon), min(event.delta, up(rate * event.delta, 2)))


def _check_rate(rate: float) -> float:
    accepted = "a share of the records, above 0 and at most 1"
    return real_number(rate, "rate", accepted, above=0, most=1)
