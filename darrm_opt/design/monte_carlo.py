"""Monte Carlo estimate of the tv weights, the paper's own way: average α_l − α_{K−l} over random vectors p.

`darrm_opt.design.objective` has the exact values in closed form. This is kept to reproduce the paper,
and as an independent check of the closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.priors import IndependentVoters, poisson_binomial, upper_half
from darrm_opt.problem import whole_number

BLOCK_DRAWS = 1000
"""Vectors p drawn at once; part of what a seed means."""


@dataclass(frozen=True, eq=False)
class WeightEstimate:
    """Weights estimated by sampling.

    Args:
        weights: w_l for l = ⌊K/2⌋+1..K, shape (⌈K/2⌉,), normalised to sum to 1.
        standard_error: of each weight, to first order in 1/draws.
    """

    weights: Array
    standard_error: Array


def monte_carlo_weights(
    K: int,
    lower: float = 0.5,
    tau: int = 50,
    draws: int = 10_000,
    *,
    seed: int,
    algorithm: Literal[4, 5] = 5,
) -> WeightEstimate:
    """Return the paper's own estimate of the tv weights, E(α_l − α_{K−l}) over random vectors p.

    The closed forms `rectangular` (Algorithm 5) and `uniform` (Algorithm 4) are its exact values; this
    exists to reproduce the paper, and to test them.

    Args:
        K: number of voters, ≥ 1.
        lower: a [probability], in [0.5, 1).
        tau: number of grid points of [a, 1), for Algorithm 5.
        draws: number of random vectors p, ≥ 2.
        seed: of NumPy's default generator, ≥ 0; equal seeds give equal results.
        algorithm: 4 draws each p_i uniformly from [a, 1), 5 from the grid a + (1−a)·i/τ.

    Raises:
        InvalidInput: an argument is outside its range.

    Source: Algorithms 4 and 5 of the paper.
    """
    K = whole_number(K, "K", "a whole number of voters, at least 1")
    draws = whole_number(draws, "draws", "a whole number of draws, at least 2", least=2)
    seed = whole_number(seed, "seed", "a whole number, at least 0", least=0)
    if algorithm not in (4, 5):
        raise InvalidInput("algorithm", algorithm, "4 or 5, as numbered in the paper")
    prior = IndependentVoters(lower, tau if algorithm == 5 else None)
    if not prior.gap(1).any():
        raise InvalidInput("tau", tau, "at least 2 for lower = 0.5", "With every p_i = 1/2 no answer leads.")
    generator = np.random.default_rng(seed)
    sums, products = np.zeros((K + 1) // 2), np.zeros((2, (K + 1) // 2))
    for start in range(0, draws, BLOCK_DRAWS):
        shape = (min(BLOCK_DRAWS, draws - start), K)
        share = generator.random(shape) if prior.tau is None else generator.integers(prior.tau, size=shape) / prior.tau
        alpha = poisson_binomial(prior.lower + (1 - prior.lower) * share)
        gaps = upper_half(alpha) - upper_half(alpha[:, ::-1])
        sums += gaps.sum(axis=0)
        products += np.stack(((gaps**2).sum(axis=0), gaps.T @ gaps.sum(axis=1)))
    means, (squares, crosses) = sums / draws, products / draws
    total = means.sum()
    weights = means / total
    # A ratio of means: the variance of gap_l − w_l·Σgap, whose mean is 0, over total²·draws (delta method).
    variance = squares - 2 * weights * crosses + weights**2 * crosses.sum()
    error = np.sqrt(np.maximum(variance, 0.0) / draws) / total
    return WeightEstimate(weights, error)
