"""Monotone search: complete in O(K²) for γ that never decreases away from K/2, for any Δ.

If g is non-decreasing, H is non-decreasing in every p_i, so φ = q·H(p) + H(1−p′) grows with p_i and with 1 − p′_i. Any
point (p, p′) of F is dominated by one on the chain (Δ,0) – (x,y) – (1,1−Δ) of its boundary: move p up to it, or, where
p′ > 1−Δ, go to (1,1−Δ). Along the chain φ is affine in each voter, so its vertices suffice; and a voter that may move
but does not is dominated too. So with r voters affected the complete constraint set is

    {(x,y)^i, (Δ,0)^j, (1,1−Δ)^k, (0,0)^s₀, (1,1)^s₁},   i + j + k = r,  s₀ + s₁ = K − r:

C(K+2, 2) multisets for r = K. With A_i the coefficients after i steps with x,

    H(p) = E[A_i(k + s₁ + Bin(j, Δ))],   H(1−p′) = E[A_i(j + s₀ + Bin(k, Δ))].

Every A_i is one step from the last: nothing of size K² is ever kept.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from darrm_opt.design.polytope.constraint import PrivacyConstraint
from darrm_opt.design.polytope.corners import DOWN, DOWN_FROM_ONE, ONE, XY, ZERO
from darrm_opt.design.polytope.polar_form import STEP_ERROR, step
from darrm_opt.design.separation.binomials import TAIL, terms_of
from darrm_opt.design.separation.result import Collector, WorstCase
from darrm_opt.noise import Array

MAX_TERMS = 64
"""With more terms than this a mean is a product with a matrix, which takes (r+1)² doubles and no loop over terms."""


def search_monotone(signed: Array, constraint: PrivacyConstraint, collector: Collector) -> WorstCase:
    """Offer the worst multiset for every i; complete if g is non-decreasing.

    Args:
        signed: g(0..K), non-decreasing.
        constraint: the privacy constraint, any Δ.
        collector: takes what is found.
    """
    r, corners = constraint.affected, constraint.corners
    stationary = constraint.K - r
    mass = _binomial_table(r, corners.Delta, collector)
    shifted = _shifted_masses(mass) if mass.shape[0] > MAX_TERMS else None
    many_down = DOWN if corners.Delta > 0 else ZERO
    many_down_from_one = DOWN_FROM_ONE if corners.Delta > 0 else ONE
    coefficients = signed
    for i in range(r + 1):
        collector.tick()
        j = np.arange(r - i + 1)[:, np.newaxis]
        s1 = np.arange(stationary + 1)
        if shifted is None:
            on_data = _shifted_means(coefficients, r - i - j + s1, j[:, 0], mass)
        else:
            on_data = shifted[: r - i + 1, i:] @ np.ascontiguousarray(sliding_window_view(coefficients, stationary + 1))
        on_neighbour = on_data[::-1, ::-1]  # E[A_i(j + s₀ + Bin(k, Δ))]: j and k, s₀ and s₁ exchanged
        values = constraint.q * on_data + on_neighbour
        best = np.unravel_index(int(values.argmax()), values.shape)
        if values[best] > collector.floor:
            down, ones = int(best[0]), int(best[1])
            counts = np.zeros((1, len(corners.labels)), dtype=np.int64)
            counts[0, XY] = i
            counts[0, many_down] += down
            counts[0, many_down_from_one] += r - i - down
            counts[0, ONE] += ones
            counts[0, ZERO] += stationary - ones
            collector.offer(values[best][np.newaxis], counts)
        if i < r:
            coefficients = step(coefficients, corners.x, corners.y)
    largest = float(np.abs(signed).max())
    # however the products are added up: the table's masses carry r steps' error in sum, their products and sums one more each; two tails are cut off
    extra = (1.0 + constraint.q) * largest * ((r + mass.shape[0] + 2) * STEP_ERROR + TAIL)
    return collector.result(constraint.error(largest) + extra, "monotone")


def _shifted_means(A: Array, at: np.ndarray, trials: np.ndarray, mass: Array) -> Array:
    """Return E[A(at + Bin(trials, Δ))], shape of ``at``; trials belongs to its first axis."""
    mean = np.zeros(at.shape)
    for t in range(mass.shape[0]):
        weight = mass[t, trials][:, np.newaxis]
        mean += weight * A[np.minimum(at + t, A.size - 1)]
    return mean


def _shifted_masses(mass: Array) -> Array:
    """Return P[j, l] = Pr[r − j + Bin(j, Δ) = l], shape (r+1, r+1), so that E[A_i(r−i−j + s + Bin(j, Δ))] = Σ_l P[j, l]·A_i(l−i+s)."""
    terms, r = mass.shape[0] - 1, mass.shape[1] - 1
    shifted = np.zeros((r + 1, r + 1))
    for j in range(r + 1):
        some = min(j, terms) + 1
        shifted[j, r - j : r - j + some] = mass[:some, j]
    return shifted


def _binomial_table(most: int, Delta: float, collector: Collector) -> Array:
    """Return Pr[Bin(trials, Δ) = t], shape (terms+1, most+1), by one convolution step a trial."""
    terms = min(terms_of(most * Delta), most) if Delta > 0 else 0
    table = np.zeros((terms + 1, most + 1))
    table[0, 0] = 1.0
    for trials in range(most):
        if trials % 64 == 0:
            collector.tick()
        table[:, trials + 1] = (1.0 - Delta) * table[:, trials]
        table[1:, trials + 1] += Delta * table[:-1, trials]
    return table
