"""Regions of pairs that neighbours may show, made for a sequence of releases rather than for one.

The pairs (p, q) that, shown alike Q times, cost no more than a total (E, D) fill a region; its supporting lines are as many
(ε, δ), each of them a privacy constraint of one release.
"""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.accounting.bit_region import upper_hull
from darrm_opt.accounting.release import NoisyMajority
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Privacy, Problem

LINES = 24
"""Supporting lines of the region, at most."""

STEEPEST = math.exp(30.0)
"""Slope beyond which a line says no more than that the chance of an infinite loss is bounded."""

CHANCES = 61
"""Values of q at which the region's border is found."""


def region_lines(queries: int, total: Privacy, lines: int = LINES, tilt: float = 0.0) -> list[Privacy]:
    """Return lines (ε, δ) around the pairs that ``queries`` times alike cost no more than ``total``.

    Args:
        queries: Q ≥ 1.
        total: (ε, δ) of Q bits alike.
        lines: most lines.
        tilt: τ ≥ 0, as `sequence_design.TILTS`.
    """
    if queries == 1:
        return [total]
    q = np.concatenate([[0.0], np.geomspace(1e-6 / queries, 0.5, CHANCES // 2 + 1)])
    q = np.concatenate([q, 1 - q[-2::-1]])
    low, high = q.copy(), np.ones_like(q)
    for _ in range(46):
        middle = (low + high) / 2
        fits = repeated_delta(middle, q, queries, total.epsilon) <= total.delta
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    around = (low + q) / 2
    low = q + (low - q) * (4 * around * (1 - around)) ** tilt
    p, q = upper_hull(np.stack([low, q], axis=1)).T
    slopes = np.unique(np.clip(np.diff(p) / np.diff(q), 1.0, STEEPEST))
    chosen = slopes[np.unique(np.linspace(0, slopes.size - 1, lines).round().astype(int))]
    return [Privacy(math.log(c), float(np.clip(np.max(p - c * q), 0.0, 1 - 1e-9))) for c in chosen.tolist()]


def lines_of(noise: NoiseFunction, problem: Problem) -> list[Privacy]:
    """Return lines around all that a release of ``noise`` can show."""
    profile = NoisyMajority(noise, problem).profile
    return [
        Privacy(float(epsilon), min(float(delta) * (1 + 1e-12), 1 - 1e-9))
        for epsilon, delta in zip(profile.epsilons, profile.deltas, strict=True)
    ]


def repeated_delta(p: Array, q: Array, queries: int, epsilon: float) -> Array:
    """Return the larger of the two hockey-sticks at ε between Q bits of chance p and Q of chance q."""
    return apart(*log_masses(np.stack([p, q], axis=1), queries), epsilon)


def apart(on_data: Array, on_neighbour: Array, epsilon: float) -> Array:
    """Return the larger of the two hockey-sticks at ε between laws of `log_masses`, shape (pairs,)."""
    forth = np.maximum(np.exp(on_data) - np.exp(on_neighbour + epsilon), 0.0).sum(axis=1)
    back = np.maximum(np.exp(on_neighbour) - np.exp(on_data + epsilon), 0.0).sum(axis=1)
    return np.asarray(np.maximum(forth, back))


def log_masses(pairs: Array, queries: int) -> tuple[Array, Array]:
    """Return the logarithms of the binomial laws of Q bits of chance p, and of chance q, shape (pairs, Q + 1) each."""
    ones = np.arange(queries + 1.0)
    log_ways = np.array([math.lgamma(queries + 1) - math.lgamma(j + 1) - math.lgamma(queries - j + 1) for j in ones])

    def law(chance: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(ones > 0, ones * np.log(chance)[:, None], 0.0)
            terms += np.where(ones < queries, (queries - ones) * np.log1p(-chance)[:, None], 0.0)
        return np.asarray(terms + log_ways)

    return law(pairs[:, 0]), law(pairs[:, 1])
