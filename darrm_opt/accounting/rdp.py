"""Rényi differential privacy: the accountant of Gaussian noise without an exact profile.

An (α, r)-RDP mechanism has D_α(P‖Q) ≤ r for all neighbours. At one order α, r adds up over adaptive compositions; (ε,
δ) is converted at the best order. Every conversion rounds outward.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.gaussian import positive_delta
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike
from darrm_opt.rounding import ULP, multiple_up, up

Conversion = Literal["tight", "standard"]

ORDERS: Array = np.concatenate((1 + np.geomspace(1e-3, 9, 200), np.geomspace(10.5, 1e5, 200)))
"""Default orders α: 400, spaced by less than 5 %, so the ε at the best is within about 0.1 % of the best α's."""
ORDERS.setflags(write=False)

MIN_RATIO = 1.5e-154
"""Smallest ratio of a distance to a standard deviation: the square of a smaller one would lose digits."""

_ORDERS = "orders, each a finite number above 1"


def gaussian_rdp(sigma: float, orders: ArrayLike = ORDERS, sensitivity: float = 1.0) -> Array:
    """Return the Rényi divergences α·sensitivity²/(2σ²) of the Gaussian mechanism, rounded up [nats].

    ``sensitivity``: 2-norm by which neighbours move the mean; GNMax's vote counts move by √2: α/σ².

    Source: Mironov 2017, Proposition 7.
    """
    alphas = _check_orders(orders)
    distance = real_number(sensitivity, "sensitivity", "a finite distance, at least 0", least=0, below=math.inf)
    deviation = real_number(sigma, "sigma", "a finite standard deviation above 0", above=0, below=math.inf)
    ratio = max(distance / deviation, MIN_RATIO) if distance else 0.0
    with np.errstate(over="ignore"):
        return np.asarray(alphas * (ratio * ratio) / 2 * (1 + 8 * ULP))


def rdp_epsilon(
    rdp: ArrayLike, delta: float, orders: ArrayLike = ORDERS, *, conversion: Conversion = "tight"
) -> tuple[float, float]:
    """Return (ε, the order α that attains it): the least ε at ``delta`` proved by the divergences.

    "tight": r + ln(1 − 1/α) − ln(δα)/(α−1); "standard": r + ln(1/δ)/(α−1), as in the paper.

    Guarantees: Sound, rounded up.
    Source: Canonne, Kamath, Steinke 2020, Proposition 12; Mironov 2017, Proposition 3.
    """
    alphas, divergences = _check_divergences(orders, rdp)
    delta = positive_delta(delta)
    slope = -math.log(delta) / (alphas - 1)
    if conversion == "tight":
        correction = np.log1p(-1 / alphas) - np.log(alphas) / (alphas - 1)
    elif conversion == "standard":
        correction = np.zeros_like(alphas)
    else:
        raise InvalidInput("conversion", conversion, "'tight' or 'standard'")
    epsilons = divergences + slope + correction
    # α − 1 cancels: an ulp of α, relative to α − 1, in every term that divides by it.
    epsilons += 8 * ULP * (1 + alphas / (alphas - 1)) * (divergences + slope + np.abs(correction) + 1)
    epsilons = upper_bound(epsilons)
    best = int(np.argmin(epsilons))
    return 0.0 if epsilons[best] <= 0 else up(float(epsilons[best]), 8), float(alphas[best])


def rdp_delta(rdp: ArrayLike, epsilon: float, orders: ArrayLike = ORDERS) -> tuple[float, float]:
    """Return (δ, the order α that attains it): the least δ at ``epsilon`` proved by the divergences, rounded up.

    Source: Canonne, Kamath, Steinke 2020, Proposition 12: δ = e^((α−1)(r−ε)) (1 − 1/α)^(α−1)/α.
    """
    alphas, divergences = _check_divergences(orders, rdp)
    epsilon = real_number(epsilon, "epsilon", "a finite number of nats, at least 0", least=0, below=math.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = (alphas - 1) * (divergences - epsilon + np.log1p(-1 / alphas)) - np.log(alphas)
        exponent = upper_bound(exponent + 8 * ULP * (alphas * (divergences + epsilon + 1) + np.log(alphas)))
    best = int(np.argmin(exponent))
    return min(1.0, up(math.exp(min(0.0, float(exponent[best]))), 8)), float(alphas[best])


def gaussian_rdp_epsilon(sigma: float, k: int, delta: float, sensitivity: float = 1.0) -> float:
    """Return the ε of k Gaussian mechanisms at the best real order, by the standard conversion: ρ + 2√(ρ ln(1/δ)).

    Guarantees: Sound, rounded up.
    Source: ρ = k·sensitivity²/(2σ²), minimised over α = 1 + √(ln(1/δ)/ρ).
    """
    k = whole_number(k, "k", "a whole number of mechanisms, at least 0", least=0)
    log_delta = math.log(positive_delta(delta))
    single_rho = float(gaussian_rdp(sigma, [2.0], sensitivity)[0]) / 2
    rho = multiple_up(k, single_rho) if math.isfinite(single_rho) else math.inf if k else 0.0
    return up(rho + 2 * math.sqrt(rho * -log_delta), 16) if rho else 0.0


def _check_orders(orders: ArrayLike) -> Array:
    alphas = np.asarray(orders, dtype=np.float64)
    if alphas.ndim != 1 or not alphas.size or not np.all((alphas > 1) & np.isfinite(alphas)):
        raise InvalidInput("orders", np.asarray(orders).tolist(), _ORDERS)
    return alphas


def _check_divergences(orders: ArrayLike, rdp: ArrayLike) -> tuple[Array, Array]:
    alphas, divergences = _check_orders(orders), np.asarray(rdp, dtype=np.float64)
    if divergences.shape != alphas.shape or not np.all(divergences >= 0):
        accepted = f"{alphas.size} divergences of at least 0, one for each order"
        raise InvalidInput("rdp", np.asarray(rdp).tolist(), accepted)
    return alphas, divergences
