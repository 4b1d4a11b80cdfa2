"""Supporting lines of regions of pairs, for a sequence of releases rather than for one.

The pairs (p, q) that, shown Q times each, cost no more than a total (E, D) fill a region; each of its supporting lines
is an (ε, δ), that is a privacy constraint of one release.
"""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.accounting.bits.region import upper_hull
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem

MAX_LINES = 24
"""Supporting lines of the region, at most."""

MAX_SLOPE = math.exp(30.0)
"""Slope beyond which a line only bounds the chance of an infinite loss."""

BORDER_POINTS = 61
"""Values of q at which the border of the region is computed."""


def region_lines(queries: int, total: Privacy, lines: int = MAX_LINES, tilt: float = 0.0) -> list[Privacy]:
    """Return lines (ε, δ) around the pairs that, shown ``queries`` times, cost no more than ``total``."""
    if queries == 1:
        return [total]
    q = np.concatenate([[0.0], np.geomspace(1e-6 / queries, 0.5, BORDER_POINTS // 2 + 1)])
    q = np.concatenate([q, 1 - q[-2::-1]])
    low, high = q.copy(), np.ones_like(q)
    # Halvings of [q, 1]: to 1e-14, as finely as a δ computed in doubles can tell.
    for _ in range(46):
        middle = (low + high) / 2
        fits = repeated_delta(middle, q, queries, total.epsilon) <= total.delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    midpoint = (low + q) / 2
    low = q + (low - q) * (4 * midpoint * (1 - midpoint)) ** tilt
    p, q = upper_hull(np.stack([low, q], axis=1)).T
    slopes = np.unique(np.clip(np.diff(p) / np.diff(q), 1.0, MAX_SLOPE))
    slopes = slopes[np.unique(np.linspace(0, slopes.size - 1, lines).round().astype(int))]
    return [Privacy(math.log(c), float(np.clip(np.max(p - c * q), 0.0, 1 - 1e-9))) for c in slopes.tolist()]


def profile_lines(noise: NoiseFunction, problem: Problem) -> list[Privacy]:
    """Return lines around the pairs that a release of ``noise`` can show."""
    profile = NoisyMajority(noise, problem).profile
    return [
        Privacy(float(epsilon), min(float(delta) * (1 + 1e-12), 1 - 1e-9))
        for epsilon, delta in zip(profile.epsilons, profile.deltas, strict=True)
    ]


def repeated_delta(p: Array, q: Array, queries: int, epsilon: float) -> Array:
    """Return the larger of the two hockey-stick divergences at ε between Q bits of chance p and Q of chance q."""
    return hockey_stick(*log_binomials(np.stack([p, q], axis=1), queries), epsilon)


def hockey_stick(on_data: Array, on_neighbour: Array, epsilon: float) -> Array:
    """Return the larger of the two hockey-stick divergences at ε between laws of `log_binomials`, shape (pairs,)."""
    with np.errstate(over="ignore"):  # e^ε beyond the doubles: the difference is below 0, and counts as 0
        forward = np.maximum(np.exp(on_data) - np.exp(on_neighbour + epsilon), 0.0).sum(axis=1)
        backward = np.maximum(np.exp(on_neighbour) - np.exp(on_data + epsilon), 0.0).sum(axis=1)
    return np.asarray(np.maximum(forward, backward))


def log_binomials(pairs: Array, queries: int) -> tuple[Array, Array]:
    """Return the logarithms of the binomial laws of Q bits of chance p, and of chance q, shape (pairs, Q + 1) each."""
    ones = np.arange(queries + 1.0)
    log_ways = np.array([math.lgamma(queries + 1) - math.lgamma(j + 1) - math.lgamma(queries - j + 1) for j in ones])

    def law(chance: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(ones > 0, ones * np.log(chance)[:, None], 0.0)
            terms += np.where(ones < queries, (queries - ones) * np.log1p(-chance)[:, None], 0.0)
        return np.asarray(terms + log_ways)

    return law(pairs[:, 0]), law(pairs[:, 1])
