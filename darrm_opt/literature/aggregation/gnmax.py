"""GNMax: release the class whose vote count, plus Gaussian noise, is largest.

A record that moves r votes changes two counts by r each, so the counts have l₂-sensitivity √2·r and the
release is (λ, λr²/σ²)-RDP at every order λ > 1, Q releases (λ, Qλr²/σ²). At δ that is ε = Qλr²/σ² +
ln(1/δ)/(λ−1), and to reach a target ε one needs σ² = Qλr²/(ε − ln(1/δ)/(λ−1)), least over λ.

The noise that is drawn is a *discrete* Gaussian on the counts: the same RDP (Canonne, Kamath, Steinke
2020, Theorem 4), exact sampling, no floating-point hole. A released label costs much less than noisy counts:
`mechanisms.noisy_maximum.NoisyMaximum` accounts for it.

Source: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning with PATE" (2018);
the DaRRM paper, Section 5 and Table 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from darrm_opt.accounting.rdp import gaussian_rdp_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.moments_accountant import checked_epsilon, log_one_over
from darrm_opt.mechanisms.vote_noise import GaussianNoise, Kind
from darrm_opt.problem import whole_number
from darrm_opt.rounding import GUARD

GRID_END = 500.0
"""Largest λ of the paper's grid."""

GRID_STEP = 0.5
"""Step of the paper's grid, which starts at λ_min = 1 + ln(1/δ)/ε."""


@dataclass(frozen=True)
class GnmaxNoise:
    """Noise for a target, and the RDP order at which it is proved."""

    sigma: float  # σ [votes], rounded up
    order: float  # λ, the minimiser


def gnmax_sigma(
    epsilon: float,
    delta: float,
    *,
    queries: int = 1,
    affected: int = 1,
    search: Literal["continuous", "grid"] = "continuous",
) -> GnmaxNoise:
    """Return the least σ for which RDP proves (ε, δ) for all releases together.

    ``search``: ``continuous`` for the exact minimiser over λ > 1; ``grid`` for the paper's {λ_min, λ_min + 0.5, …} up
    to 500. The λ printed in the DaRRM paper beside σ = 21.46, 34.31, is not its minimiser: there the formula gives σ =
    37.7.

    Guarantees: ``gnmax_epsilon(sigma, delta, ...) <= epsilon``.
    Source: DaRRM paper, Figure 10 and Table 4. With u = λ − 1 and c = ln(1/δ), minimising (u² + u)/(εu − c) gives εu² −
    2cu − c = 0.

    >>> noise = gnmax_sigma(0.2676, 0.0003, search="grid")
    >>> round(noise.sigma, 2), round(noise.order, 1)
    (21.46, 62.3)
    """
    epsilon, c = checked_epsilon(epsilon), log_one_over(delta)
    Q = whole_number(queries, "queries", "a number of releases, at least 1")
    r = whole_number(affected, "affected", "a number of votes, at least 1")

    def variance(order: float) -> float:
        epsilon_left = epsilon - c / (order - 1) if order > 1 else 0.0
        return Q * r * r * order / epsilon_left if epsilon_left > 0 else math.inf

    if search == "continuous":
        # The positive root of εu² − 2cu − c, see Source.
        best_order = 1 + (c + math.sqrt(c * c + epsilon * c)) / epsilon
    elif search == "grid":
        least_order = 1 + c / epsilon
        # The grid starts half a step above λ_min, where no ε is left and σ is infinite.
        steps = math.floor((GRID_END - least_order) / GRID_STEP)
        if steps < 1:
            raise InvalidInput(
                "epsilon",
                epsilon,
                f"large enough that 1 + ln(1/delta)/epsilon = {least_order:g} is below 500",
                "Use 'continuous'.",
            )
        best_order = min((least_order + GRID_STEP * i for i in range(1, steps + 1)), key=variance)
    else:
        raise InvalidInput("search", search, "'continuous' or 'grid'")
    # The formula is a bound at every λ: the guard is for its own rounding, not for that of the minimiser.
    sigma = math.sqrt(variance(best_order)) * GUARD
    if not math.isfinite(sigma):
        accepted = "a number of nats that is neither so small that σ is infinite nor so large that λ − 1 rounds to 0"
        raise InvalidInput("epsilon", epsilon, accepted)
    return GnmaxNoise(sigma, best_order)


def gnmax_epsilon(sigma: float, delta: float, *, queries: int = 1, affected: int = 1) -> float:
    """Return ε at δ of Q releases by RDP, least over all orders λ > 1, rounded up.

    Source: ρ + 2√(ρ·ln(1/δ)) with ρ = Q·r²/σ², the minimum of λρ + ln(1/δ)/(λ−1) (Bun, Steinke 2016).

    >>> round(gnmax_epsilon(21.46, 0.0003), 4)
    0.2676
    """
    Q = whole_number(queries, "queries", "a number of releases, at least 0", least=0)
    r = whole_number(affected, "affected", "a number of votes, at least 1")
    return gaussian_rdp_epsilon(sigma, Q, delta, math.sqrt(2) * r)


def gnmax_wins(K: int, ones: int, sigma: float, kind: Kind = "continuous") -> float:
    """Return the probability that GNMax releases 1 when ``ones`` of K voters say 1, two classes.

    >>> round(gnmax_wins(11, 11, 21.46), 3)
    0.641
    """
    K = whole_number(K, "K", "a number of voters, at least 1")
    ones = whole_number(ones, "ones", f"a number of votes in 0..{K}", least=0, most=K)
    return GaussianNoise.of_sigma(sigma).wins(2 * ones - K, kind)
