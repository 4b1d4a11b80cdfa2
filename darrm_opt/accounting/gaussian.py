"""Gaussian mechanism: its exact privacy profile.

A Gaussian mechanism whose mean moves by at most μ standard deviations has the privacy profile

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

With z₁ = ε/μ − μ/2 and z₂ = ε/μ + μ/2, e^ε φ(z₂) = φ(z₁), so δ = ½ e^(−z₁²/2) (erfcx(z₁/√2) − erfcx(z₂/√2)) where
z₁ ≥ 0: no factor overflows and the difference keeps its digits.
"""

from __future__ import annotations

import math

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.composition.optimal import least_epsilon, nats
from darrm_opt.arguments import real_number
from darrm_opt.optional_packages import needed_by
from darrm_opt.rounding import ULP, up

ERFCX_ULPS = 64  # relative error charged for one value of SciPy's erfcx or ndtr; measured below 8 (see the tests)

MAX_RATIO = 1e300
"""Largest ε/μ that is used, so that no sum overflows; beyond it δ only decreases, and is far below every double."""

_MU = "a shift in standard deviations, a finite number above 0"


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the exact δ of the Gaussian mechanism, rounded up.

    ``mu``: largest shift of the mean over neighbours, in standard deviations.

    Guarantees: Never below the exact value if SciPy's erfcx and ndtr are accurate to `ERFCX_ULPS`.
    Source: Balle, Wang 2018, Theorem 8.
    """
    with needed_by("The exact profile of Gaussian noise"):
        from scipy.special import erfcx, ndtr

    mu, epsilon = _check_shift(mu), nats(epsilon, "epsilon")
    if epsilon == math.inf:
        return 0.0
    ratio = min(epsilon / mu, MAX_RATIO)
    near, far = ratio - mu / 2, ratio + mu / 2
    blur = 4 * ULP * far  # near errs by less than half of it
    if near * blur >= 1:  # beyond the linear charges below: no second term; half of blur covers all other rounding
        least = near - blur
        return (
            up(0.5 * math.exp(-least * least / 2) * float(erfcx(least / math.sqrt(2))), ERFCX_ULPS)
            if least > 0
            else 1.0
        )
    # near has an absolute error of an ulp of far: e^(−near²/2) errs by near·far ulps relative, erfcx (of relative slope
    # at most 1.2 at 0 and 1/z further out) by far/max(near, 1), ndtr by far; all with a margin.
    front = 0.5 * math.exp(-near * near / 2)
    second = float(erfcx(far / math.sqrt(2)))
    if near >= 0:
        first = float(erfcx(near / math.sqrt(2)))
        charge = (ERFCX_ULPS + 8 + 4 * far / max(near, 1.0)) * ULP * first
        return float(upper_bound(up(front * (max(first - second, 0.0) + charge), 16 + int(4 * near * far)), 1.0))
    first = float(ndtr(-near))
    second *= front
    charge = (ERFCX_ULPS + 4 * far) * ULP * first + (ERFCX_ULPS + 16 - 4 * near * far) * ULP * second
    return float(upper_bound(up(max(first - second, 0.0) + charge, 8), 1.0))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least ε at which the Gaussian mechanism has at most ``delta``, rounded up [nats].

    ``mu``: largest shift of the mean over neighbours, in standard deviations.

    Guarantees: `gaussian_delta` of the result is at most ``delta``.
    Source: Balle, Wang 2018.
    """
    return least_epsilon(lambda epsilon: gaussian_delta(mu, epsilon), delta, gaussian_epsilon_tail(mu, delta))


def gaussian_epsilon_tail(mu: float, delta: float) -> float:
    """Return μ²/2 + μ√(2 ln(1/δ)) [nats], rounded up: the tail bound, about a third above `gaussian_epsilon`.

    Source: P[loss > ε] ≤ δ for the loss N(μ²/2, μ²).
    """
    mu, delta = _check_shift(mu), positive_delta(delta)
    return up(mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)), 16)


def positive_delta(delta: float) -> float:
    """Return a valid δ in (0, 1)."""
    return real_number(delta, "delta", "a probability above 0 and below 1", above=0, below=1)


def _check_shift(mu: float) -> float:
    return real_number(mu, "mu", _MU, above=0, below=math.inf)
