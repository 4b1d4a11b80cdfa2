"""Closed forms: the best certified noise function in closed form, for a solve with little time.

Each is monotone, so one search proves it in O(K²), and scaling by R/V makes it private for any target (`certificate`):

    1              the plain majority; scaled: randomised response with the best constant
    |2l/K − 1|     one voter drawn at random; proved without a search, so always available
    γ_DSub(⌊m⌋)    2⌊m⌋ − 1 voters drawn at random (`baselines`), private without scaling if Δ = δ = 0

The best monotone γ is at least as good as all of them, but takes a linear program.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from darrm_opt.baselines import double_subsampling, subsampling
from darrm_opt.design.certificate import Certificate, certificate_of, repair
from darrm_opt.design.constraint import ZERO, PrivacyConstraint
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.separation.monotone import MAX_TERMS
from darrm_opt.design.separation.oracle import worst_case, worst_case_of_no_release
from darrm_opt.design.separation.result import TimeLimitReached, WorstCase, terms_of
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import Problem
from darrm_opt.rounding import UNIT_ROUNDOFF

COMPILED_SECONDS_PER_TERM, COMPILED_SECONDS_PER_ENTRY = 2.5e-10, 1e-9
"""Times of the compiled monotone search per product of one mean or comparison of a value, and per entry of a step, on a
core of 2020 or later [s]. Fitted to 1 ms to 1 s of K = 301 to 5001 with 1 to 55 terms, AMD EPYC, 2026-11-22."""

SECONDS_PER_TERM = 5e-9  # time per product of one mean in NumPy, likewise [s]
SECONDS_PER_PRODUCT = 1e-9  # time per product within a matrix product [s]
SECONDS_PER_STEP = 1e-5  # further time per step [s]
ROUNDING = 256 * UNIT_ROUNDOFF  # bound on the rounding of φ for one voter drawn at random (`one_voter`)
MAX_EXACT_K = 2001  # largest K for which γ_DSub is computed: its exact binomials have thousands of digits beyond it


def monotone_search_seconds(problem: Problem) -> float:
    """Return the estimated time of one search of a monotone γ here [s], compiled or by NumPy."""
    r, splits = problem.affected, problem.K - problem.affected + 1
    terms = min(terms_of(r * problem.voter.delta), r) + 1 if problem.voter.delta > 0 else 1
    if kernel() is not None:
        comparisons = (r + 1) * (r + 2) / 2 * splits
        return comparisons * (terms + 1) * COMPILED_SECONDS_PER_TERM + (r + 1) * problem.K * COMPILED_SECONDS_PER_ENTRY
    if terms > MAX_TERMS:  # matrix products
        return (r + 1) ** 3 / 3 * splits * SECONDS_PER_PRODUCT + (r + 1) * (r + splits) * SECONDS_PER_TERM
    products = (r + 1) * (r + 2) / 2 * splits * terms
    return products * SECONDS_PER_TERM + (r + 1) * (terms * SECONDS_PER_STEP + problem.K * SECONDS_PER_TERM)


def closed_forms(problem: Problem) -> Iterator[NoiseFunction]:
    """Yield the closed forms to try, the cheapest first."""
    K, m = problem.K, problem.m
    yield NoiseFunction.from_upper_half(np.ones((K + 1) // 2), K)
    if K > MAX_EXACT_K:
        upper = np.arange(K // 2 + 1, K + 1)
        yield NoiseFunction.from_upper_half((2 * upper - K) / K, K)
        return
    yield subsampling(K, 1)
    if m is not None and 2 <= m < (K + 1) / 2:
        yield double_subsampling(K, math.floor(m))


def best_closed_form(
    problem: Problem, constraint: PrivacyConstraint, utility: Callable[[Array], float], deadline: float = math.inf
) -> tuple[NoiseFunction, Certificate]:
    """Return the closed form with the largest utility after scaling until it is private, and its certificate.

    If nothing was proved by the deadline, it is `one_voter`.
    """
    best: tuple[float, NoiseFunction, WorstCase] | None = None
    try:
        for noise in closed_forms(problem):
            start = time.perf_counter()
            worst = worst_case(noise, constraint, deadline=deadline)
            value = utility(noise.upper_half * min(1.0, constraint.limit / worst.bound))
            if best is None or value > best[0]:
                best = (value, noise, worst)
            now = time.perf_counter()
            if now + 3 * (now - start) > deadline:  # room for one more search, and rarely another one as the proof
                break
        if best is not None:
            return repair(best[1], best[2], constraint, deadline, search_again=False)
    except TimeLimitReached:
        pass
    return one_voter(problem, constraint)


def one_voter(problem: Problem, constraint: PrivacyConstraint) -> tuple[NoiseFunction, Certificate]:
    """Return s·|2l/K − 1| with its certificate, immediately: its worst case is known without a search."""
    # g(l) = s(2l/K − 1) is linear, so H(p) = s·mean(2p_i − 1) and φ = s·mean(f_i), f = q(2p − 1) + 2(1 − p′) − 1: it is
    # largest with all r affected voters at the corner where f is, and the others at (0,0), where f = 1 − q. In doubles
    # p and 1 − p′ are good to 12u, q to 4u, so f to 60u and their mean to 70u; γ's entries carry 3u each, which moves φ
    # by at most 6u: together below `ROUNDING`.
    K, r, q = problem.K, constraint.affected, constraint.q
    at_corners = q * (2 * constraint.corners.p - 1) + (2 * constraint.corners.reflected - 1)
    corner = int(at_corners.argmax())
    largest = (r * float(at_corners[corner]) + (K - r) * (1 - q)) / K
    scale = min(1.0, max(0.0, (constraint.limit - 4 * ROUNDING) / (largest + ROUNDING)))
    bound = scale * largest + 2 * ROUNDING
    if scale == 0 or not bound <= constraint.limit:
        return NoiseFunction(np.zeros(K + 1)), certificate_of(worst_case_of_no_release(constraint), constraint)
    counts = np.zeros(at_corners.size, dtype=np.int64)
    counts[ZERO] = K - r
    counts[corner] += r
    upper = np.arange(K // 2 + 1, K + 1)
    noise = NoiseFunction.from_upper_half(scale * ((2 * upper - K) / K), K)
    worst = WorstCase(
        bound, scale * largest, counts, np.empty((0, counts.size), dtype=np.int64), "monotone", 2 * ROUNDING
    )
    return noise, certificate_of(worst, constraint)
