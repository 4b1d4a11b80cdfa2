"""Monotone search: complete in O(K²) for γ that never decreases away from K/2, for any Δ.

If g is non-decreasing, H is non-decreasing in every p_i, so φ = q·H(p) + H(1−p′) grows with p_i and with 1 − p′_i. Any
point (p, p′) of F is dominated by one on the chain (Δ,0) – (x,y) – (1,1−Δ) of its boundary: move p up to it, or, if
p′ > 1−Δ, go to (1,1−Δ). Along the chain φ is affine in each voter, so its vertices suffice; and a voter that may move
but does not is dominated too. So with r voters affected the complete constraint set is

    {(x,y)^i, (Δ,0)^j, (1,1−Δ)^k, (0,0)^s₀, (1,1)^s₁},   i + j + k = r,  s₀ + s₁ = K − r:

C(K+2, 2) multisets for r = K. With A_i the coefficients after i steps with x,

    H(p) = E[A_i(k + s₁ + Bin(j, Δ))],   H(1−p′) = E[A_i(j + s₀ + Bin(k, Δ))].

Every A_i is one step from the last: no array of size K² is stored.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from darrm_opt.design.constraint import DOWN, DOWN_FROM_ONE, ONE, STEP_ERROR, XY, ZERO, Counts, PrivacyConstraint
from darrm_opt.design.kernel.library import LARGEST, MIN_THREADED_WORK, in_threads, kernel
from darrm_opt.design.polar_form import step
from darrm_opt.design.separation.result import MAX_TABLE_ENTRIES, TAIL, Collector, Indices, WorstCase, terms_of
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array

MAX_TERMS = 64
"""With more terms, a mean in NumPy is a product with a matrix of (r+1)² doubles instead of a loop over terms."""

MAX_MATRIX_GIB = 4.0  # largest such matrix, with the table of masses that makes it or that the kernel loops over [GiB]


def search_monotone(signed: Array, constraint: PrivacyConstraint, collector: Collector) -> WorstCase:
    """Offer the worst multiset for every i; complete if g is non-decreasing."""
    library = kernel()
    terms = min(terms_of(constraint.affected * constraint.corners.Delta), constraint.affected)
    if constraint.corners.Delta == 0:
        terms = 0
    _check_memory(constraint.affected, terms)
    if library is not None:  # faster than products of matrices, and without their library's threads
        _offer_compiled(library, signed, constraint, collector, terms)
    else:
        _offer_by_matrices(signed, constraint, collector, terms)
    largest = float(np.abs(signed).max())
    # in any order of summation: the table's masses carry the error of r steps in total, their products and sums one
    # more each; two tails are cut
    extra = (1.0 + constraint.q) * largest * ((constraint.affected + terms + 3) * STEP_ERROR + TAIL)
    return collector.result(constraint.error(largest) + extra, "monotone")


def _offer_by_matrices(signed: Array, constraint: PrivacyConstraint, collector: Collector, terms: int) -> None:
    """Offer the worst multiset for every i, for a block of s₁ at a time."""
    r, corners = constraint.affected, constraint.corners
    stationary = constraint.K - r
    mass = _binomial_table(r, corners.Delta, terms, collector)
    shifted_mass = _shifted_masses(mass) if mass.shape[0] > MAX_TERMS else None
    coefficients, block = signed, max(1, MAX_TABLE_ENTRIES // (r + 1))
    for i in range(r + 1):
        j = np.arange(r - i + 1)[:, np.newaxis]
        for start in range(0, stationary + 1, block):
            collector.tick()
            s1 = np.arange(start, min(start + block, stationary + 1))
            # E[A_i(j + s₀ + Bin(k, Δ))]: j and k, s₀ and s₁ exchanged
            on_data, on_neighbour = (
                _shifted_means(coefficients, r - i - j + ones, j[:, 0], mass)
                if shifted_mass is None
                else shifted_mass[: r - i + 1, i:] @ sliding_window_view(coefficients, stationary + 1)[:, ones]
                for ones in (s1, stationary - s1)
            )
            values = constraint.q * on_data + on_neighbour[::-1]
            index = np.unravel_index(int(values.argmax()), values.shape)
            if values[index] > collector.floor:
                multiset = (np.array([part]) for part in (i, index[0], start + index[1]))
                collector.offer(values[index][np.newaxis], _chain(constraint, *multiset))
        # One more voter at x: the next i needs only the present blossom.
        if i < r:
            coefficients = step(coefficients, corners.x, corners.y)


def _check_memory(r: int, terms: int) -> None:
    """Reject, before any work, a matrix that would take too much memory."""
    if terms < MAX_TERMS:
        return
    gib = 8 * (r + 1) * (r + terms + 2) / 2**30
    if gib > MAX_MATRIX_GIB:
        advice = f"The search for the worst case would take {gib:.3g} GiB of memory, more than {MAX_MATRIX_GIB:g}."
        raise InvalidInput("affected", r, "fewer voters that one record affects, or a smaller Delta", advice)


def _offer_compiled(
    library: ctypes.CDLL, signed: Array, constraint: PrivacyConstraint, collector: Collector, terms: int
) -> None:
    """Offer the same, computed by the kernel."""
    r, corners = constraint.affected, constraint.corners
    signed = np.ascontiguousarray(signed)
    values, splits = np.empty(r + 1), np.empty((r + 1, 2), dtype=np.int64)
    numbers = (corners.x, corners.y, constraint.q, corners.Delta, terms, min(collector.remaining, LARGEST))
    inputs = (constraint.K, r, signed.ctypes.data, *numbers)

    def call(stop: int) -> int:
        return int(library.search_monotone(*inputs, stop or None, values.ctypes.data, splits.ctypes.data))

    work = (constraint.K - r + 1) * (terms + 2) * r * (r + 1) / 2
    collector.check(call(0) if work <= MIN_THREADED_WORK else in_threads([call], 1)[0])
    i = np.flatnonzero(values > collector.floor)
    collector.offer(values[i], _chain(constraint, i, splits[i, 0], splits[i, 1]))


def _chain(constraint: PrivacyConstraint, i: Indices, down: Indices, ones: Indices) -> Counts:
    """Return {(x,y)^i, (Δ,0)^down, (1,1−Δ)^(r−i−down), (1,1)^ones, (0,0)^rest} for each of many."""
    r, Delta = constraint.affected, constraint.corners.Delta
    counts = np.zeros((i.size, len(constraint.corners.labels)), dtype=np.int64)
    counts[:, XY] = i
    counts[:, ONE], counts[:, ZERO] = ones, constraint.K - r - ones
    counts[:, DOWN if Delta > 0 else ZERO] += down
    counts[:, DOWN_FROM_ONE if Delta > 0 else ONE] += r - i - down
    return counts


def _shifted_means(A: Array, places: np.ndarray, trials: np.ndarray, mass: Array) -> Array:
    """Return E[A(places + Bin(trials, Δ))], shape of ``places``; trials belongs to its first axis."""
    mean = np.zeros(places.shape)
    for t in range(mass.shape[0]):
        weight = mass[t, trials][:, np.newaxis]
        mean += weight * A[np.minimum(places + t, A.size - 1)]
    return mean


def _shifted_masses(mass: Array) -> Array:
    """Return P[j, l] = Pr[r − j + Bin(j, Δ) = l], shape (r+1, r+1)."""
    # So E[A_i(r−i−j + s + Bin(j, Δ))] = Σ_l P[j, l]·A_i(l−i+s).
    terms, r = mass.shape[0] - 1, mass.shape[1] - 1
    table = np.zeros((r + 1, r + 1))
    for j in range(r + 1):
        count = min(j, terms) + 1
        table[j, r - j : r - j + count] = mass[:count, j]
    return table


def _binomial_table(max_trials: int, Delta: float, terms: int, collector: Collector) -> Array:
    """Return Pr[Bin(trials, Δ) = t], shape (terms+1, most+1), by one convolution step a trial."""
    table = np.zeros((terms + 1, max_trials + 1))
    table[0, 0] = 1.0
    for trials in range(max_trials):
        if trials % 64 == 0:
            collector.tick()
        table[:, trials + 1] = (1.0 - Delta) * table[:, trials]
        table[1:, trials + 1] += Delta * table[:-1, trials]
    return table
