"""Enumeration of votes: all pairs of neighbouring histograms of a small vote, and the recursion over their labels.

A slow and simple oracle for `darrm_opt.accounting.labels`. The laws of a label are integrals to some 1e-14 and
nothing is rounded outward, so these numbers guarantee nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from scipy.special import ndtr
from support.enumeration import exp_fraction, whole

from darrm_opt.noise import Array

Histogram = tuple[int, ...]
Pair = tuple[Array, Array]  # laws of one release on neighbouring data, each of shape (outcomes,)
POINTS = 4001  # grid points of the recursion by default

QUADRATURE_END, QUADRATURE_STEP = 12.0, 1 / 32
"""The trapezoidal rule on [−12, 12] is exact to rounding for analytic integrands of Gaussian width."""


def histograms(K: int, classes: int) -> Iterator[Histogram]:
    """Yield the votes per class of K voters, largest first: every histogram up to the names of the classes.

    Args:
        K: voters, ≥ 1.
        classes: C ≥ 2.

    >>> list(histograms(3, 2))
    [(3, 0), (2, 1)]
    """

    def parts(left: int, cells: int, most: int) -> Iterator[Histogram]:
        if cells == 0:
            if left == 0:
                yield ()
            return
        for first in range(min(left, most), (left + cells - 1) // cells - 1, -1):
            for rest in parts(left - first, cells - 1, first):
                yield (first, *rest)

    return parts(K, classes, K)


def edges(K: int, classes: int) -> Iterator[tuple[Histogram, Histogram]]:
    """Yield all pairs of histograms of which one moved vote makes one from the other, up to the names of the classes.

    >>> list(edges(2, 2))
    [((2, 0), (1, 1)), ((1, 1), (0, 2))]
    """
    for counts in histograms(K, classes):
        seen = set()
        for a in range(classes):
            for b in range(classes):
                if a == b or counts[a] == 0 or (counts[a], counts[b]) in seen:
                    continue
                seen.add((counts[a], counts[b]))
                neighbour = list(counts)
                neighbour[a] -= 1
                neighbour[b] += 1
                yield counts, tuple(neighbour)


def label_law(counts: Sequence[int], sigma: float) -> Array:
    """Return the probability that each class has the largest count + N(0, σ²), shape (classes,).

    >>> label_law([3, 3], 2.0).tolist()
    [0.5, 0.5]
    """
    means = np.asarray(counts) / sigma
    t = np.arange(-QUADRATURE_END, QUADRATURE_END + QUADRATURE_STEP, QUADRATURE_STEP)
    density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi) * QUADRATURE_STEP
    below = ndtr(t + (means[:, np.newaxis] - means)[:, :, np.newaxis])  # [c, j]: class j below class c at t
    below[np.arange(means.size), np.arange(means.size)] = 1.0
    law = below.prod(axis=1) @ density
    return np.asarray(law / law.sum())


def label_pairs(K: int, classes: int, sigma: float) -> list[Pair]:
    """Return the laws of the label on every edge."""
    return [(label_law(p, sigma), label_law(q, sigma)) for p, q in edges(K, classes)]


def check_pairs(K: int, classes: int, sigma: float, threshold: float) -> list[Pair]:
    """Return the laws of the check "largest count + N(0, σ²) ≥ threshold" on every edge, without repetitions."""
    tops = sorted({(max(p_counts), max(q_counts)) for p_counts, q_counts in edges(K, classes)})
    means = [[(top - threshold) / sigma for top in pair] for pair in tops]
    return [(np.array([ndtr(p), ndtr(-p)]), np.array([ndtr(q), ndtr(-q)])) for p, q in means]


def recursion_delta(steps: Sequence[Sequence[Pair]], epsilons: Array, *, points: int = POINTS) -> Array:
    """Return the largest δ at each total ε of releases whose pairs are chosen adaptively.

    V_0(x) = (1 − x)₊, V_n(x) = max over the pairs of Σ_c P_c·V_{n−1}(xQ_c/P_c), on a grid in ln x with chords in x
    between the points, which lie above the convex V.

    Args:
        steps: for each release in turn the pairs (P, Q), all entries > 0; the pairs swapped must be among them.
        epsilons: ε ≥ 0 [nats].
        points: odd number of grid points over positive and negative ε.
    """
    reach = max(float(np.max(epsilons)), sum(max(_largest_loss(pair) for pair in pairs) for pairs in steps)) + 1e-9
    logs = np.linspace(-reach, reach, points)
    x = np.exp(logs)
    values = np.maximum(1 - x, 0.0)
    for pairs in reversed(steps):
        following = np.zeros(points)
        for p, q in pairs:
            total = np.zeros(points)
            for p_chance, q_chance in zip(p, q, strict=True):
                total += p_chance * _interpolate(x * (q_chance / p_chance), x, values)
            np.maximum(following, total, out=following)
        values = following
    return _interpolate(np.exp(np.asarray(epsilons)), x, values)


def exact_recursion_delta(
    steps: Sequence[Sequence[Sequence[tuple[Fraction, Fraction]]]], total_epsilon: float
) -> Fraction:
    """Return the same in rationals, by enumeration of all transcripts.

    Args:
        steps: for each release in turn the pairs, each a sequence of outcomes (P, Q).
        total_epsilon: ε ≥ 0 [nats].
    """
    odds, common, scaled = exp_fraction(total_epsilon), 1, []
    for pairs in steps:
        unit, outcomes = whole([outcome for pair in pairs for outcome in pair])
        left = iter(outcomes)
        scaled.append([[next(left) for _ in pair] for pair in pairs])
        common *= unit

    def worst(step: int, p_mass: int, q_mass: int) -> int:
        if step == len(steps):
            return max(p_mass - q_mass, 0)
        return max(sum(worst(step + 1, p_mass * p, q_mass * q) for p, q in pair) for pair in scaled[step])

    return Fraction(worst(0, odds.denominator, odds.numerator), odds.denominator * common)


def _largest_loss(pair: Pair) -> float:
    return float(np.max(np.abs(np.log(pair[0] / pair[1]))))


def _interpolate(points: Array, x: Array, values: Array) -> Array:
    """Return V by chords; 1 − x to the left of the grid, where no loss is that large, and 0 to the right."""
    chords = np.interp(points, x, values, right=0.0)
    return np.where(points < x[0], 1 - points, chords)
