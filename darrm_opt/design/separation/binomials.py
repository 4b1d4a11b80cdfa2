"""Binomial means over the few voters near 0 and 1 that answer against their end: E[A(N + Bin(a, Δ) − Bin(a′, Δ))].

With aΔ of order one a binomial has few terms; it is cut where at most `TAIL` of its mass remains.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from darrm_opt.design.separation.result import Indices, terms_of
from darrm_opt.noise import Array


def binomial(trials: Indices, Delta: float, terms: int) -> Array:
    """Return Pr[Bin(trials, Δ) = t] for t = 0..terms, shape (terms+1, many)."""
    # From the likelier end: (1−Δ)^trials would underflow for Δ near 1, and all other masses with it.
    if Delta > 1 / 2:
        max_trials = int(trials.max(initial=0))
        zeros = _ratios_from(np.power(Delta, trials), trials, (1.0 - Delta) / Delta, max_trials)
        zero_counts = trials - np.arange(terms + 1)[:, np.newaxis]
        ones: Array = np.where(zero_counts >= 0, np.take_along_axis(zeros, np.maximum(zero_counts, 0), axis=0), 0.0)
        return ones
    return _ratios_from(np.exp(trials * math.log1p(-Delta)), trials, Delta / (1.0 - Delta), terms)


def _ratios_from(first: Array, trials: Indices, odds: float, terms: int) -> Array:
    """Return the masses of 0..terms from the mass of 0, shape (terms+1, many)."""
    t = np.arange(terms)[:, np.newaxis]
    mass = np.empty((terms + 1, trials.size))
    mass[0] = first
    mass[1:] = np.maximum(trials - t, 0) / (t + 1) * odds
    return np.multiply.accumulate(mass, axis=0, out=mass)


def expected(A: Array, i: Indices, N: Indices, plus: Indices, minus: Indices, Delta: float, moving: int) -> Array:
    """Return E[A[i](N + Bin(plus, Δ) − Bin(minus, Δ))] for rows i and places N, shape (many,)."""
    terms = min(terms_of(moving * Delta), moving)
    plus_masses, minus_masses = binomial(plus, Delta, terms), binomial(minus, Delta, terms)
    weights = np.zeros((2 * terms + 1, i.size))  # of the offsets −terms..terms
    for t in range(terms + 1):
        weights[t : t + terms + 1] += plus_masses[t] * minus_masses[::-1]
    offsets = np.arange(-terms, terms + 1)[:, np.newaxis]
    weights *= A[i, np.minimum(np.maximum(N + offsets, 0), A.shape[1] - 1)]
    mean: Array = weights.sum(axis=0)
    return mean


def bound_by_distance(A: Array, trials: int, Delta: float) -> Array:
    """Return a bound on E[A[i](N + Bin(a, Δ) − Bin(a′, Δ))] over all a + a′ ≤ trials, for all rows i and places N."""
    # The two numbers sum to Bin(a + a′, Δ), so the value is at most the largest A within that distance of N, whose mean
    # grows with a + a′. Looser than `bound_by_extremes`, and T times cheaper.
    weights = binomial(np.array([trials]), Delta, min(terms_of(trials * Delta), trials))[:, 0]
    largest = A.copy()
    mean: Array = weights[0] * A
    for t, weight in enumerate(weights[1:], 1):
        np.maximum(largest[:, t:], A[:, :-t], out=largest[:, t:])
        np.maximum(largest[:, :-t], A[:, t:], out=largest[:, :-t])
        mean += weight * largest
    return mean


def bound_by_extremes(
    A: Array, i: Indices, N: Indices, plus: Indices, minus: Indices, Delta: float, moving: int
) -> Array:
    """Return a bound on E[A[i](N + Bin(a, Δ) − Bin(a′, Δ))] over all a ≤ plus, a′ ≤ minus, shape (many,)."""
    # The value at N + X − Y is at most the largest A between N − Y and N + X. That never falls as X or Y grows, and X
    # and Y grow with a and a′ (in distribution), so its mean at a = plus, a′ = minus is a bound. It is tight if A is
    # flat around N.
    terms = min(terms_of(moving * Delta), moving)
    plus_masses, minus_masses = binomial(plus, Delta, terms), binomial(minus, Delta, terms)
    t = np.arange(terms + 1)[:, np.newaxis]
    last = A.shape[1] - 1
    above = np.maximum.accumulate(A[i, np.minimum(N + t, last)], axis=0)
    below = np.maximum.accumulate(A[i, np.maximum(N - t, 0)], axis=0)
    mean = np.zeros(i.size)
    for weight, largest in zip(plus_masses, above, strict=True):
        mean += weight * np.sum(minus_masses * np.maximum(largest, below), axis=0)
    return mean


def expected_all(A: Array, N: int, most_plus: int, most_minus: int, Delta: float, moving: int) -> Array:
    """Return E[A(N + Bin(a, Δ) − Bin(a′, Δ))] for all a ≤ most_plus, a′ ≤ most_minus, as a table [a, a′]."""
    terms = min(terms_of(moving * Delta), moving)
    t = np.arange(terms + 1)
    window = A[np.clip(N + t[:, np.newaxis] - t, 0, A.size - 1)]
    masses = _all_binomials(max(most_plus, most_minus, moving), Delta, terms)
    mean: Array = masses[:, : most_plus + 1].T @ window @ masses[:, : most_minus + 1]
    return mean


@functools.lru_cache(maxsize=4)
def _all_binomials(max_trials: int, Delta: float, terms: int) -> Array:
    """Return `binomial` for 0..max_trials: the same for all skeletons of a layer."""
    return binomial(np.arange(max_trials + 1), Delta, terms)
