"""About what releases cost where chance decides how many voters one record reaches: a fast estimate, from below, no proof.

Instead of an adversary who chooses each pair in view of the earlier bits: one and the same pair Q times, the worst of those
that a γ can show. That is two binomial laws, and costs a hundredth of the recursion. It says where to look for a knob's
place, and which places are hopeless: what `reach` proves for the same counts is never less, but for rounding.
"""

from __future__ import annotations

import math

import numpy as np

from darrm_opt.accounting.bit_region import upper_hull
from darrm_opt.accounting.open_votes import OpenVotes
from darrm_opt.accounting.reach import Reach, affected_by, counts_of
from darrm_opt.accounting.release import NoisyMajority
from darrm_opt.accounting.sequence_region import apart, log_masses
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.problem import LARGEST_TARGET_EPSILON, Problem

PAIRS = 12
"""Most pairs that are tried for one number of voters."""

PRECISION = 1e-4
"""Relative precision of the estimate."""


def estimated_epsilon(noise: NoiseFunction, problem: Problem, queries: int, total_delta: float, reach: Reach) -> float:
    """Return about the total ε of releases at a total δ, a little too small.

    Args:
        noise: γ.
        problem: K and the voters count.
        queries: Q ≥ 1.
        total_delta: allowed in total [probability], in [0, 1).
        reach: how many voters one record reaches.

    Returns:
        ε [nats], ``inf`` where there is none.

    >>> from darrm_opt.accounting.reach import reached_epsilon
    >>> from darrm_opt.problem import Privacy
    >>> voters = Problem(5, Privacy(math.inf), Privacy(1.0))
    >>> gamma = NoiseFunction.from_upper_half([0.1, 0.2, 0.3], 5)
    >>> about = estimated_epsilon(gamma, voters, 30, 0.01, Reach.binomial(5, 0.1))
    >>> proved = reached_epsilon(gamma, voters, 30, 0.01, Reach.binomial(5, 0.1))
    >>> 0.9 * proved < about <= proved
    True
    """
    parts, beyond = counts_of(problem, queries, reach, total_delta)
    if beyond > total_delta:
        return math.inf
    laws = [log_masses(_pairs(noise, affected_by(problem, part.count)), queries) for part in parts]
    chances = np.array([part.chance for part in parts])

    def fits(epsilon: float) -> bool:
        found = np.array([np.max(apart(*law, epsilon), initial=0.0) for law in laws])
        return beyond + float(chances @ found) <= total_delta

    if not parts or fits(0.0):
        return 0.0
    low, high = 0.0, 1e-3
    while not fits(high):
        low, high = high, 2 * high
        if low > LARGEST_TARGET_EPSILON:
            return math.inf
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low


def _pairs(noise: NoiseFunction, problem: Problem) -> Array:
    """Return the pairs that matter most: vertices of the region that one release can show, p > q."""
    if problem.voter.epsilon == math.inf:
        shown = OpenVotes(noise, problem.affected).pairs
    else:
        shown = NoisyMajority(noise, problem).profile.pairs
    hull = upper_hull(np.clip(shown, 0.0, 1.0))
    hull = hull[hull[:, 0] > hull[:, 1]]
    tried = np.linspace(0, max(0, len(hull) - 1), min(PAIRS, len(hull)))
    return np.asarray(hull[np.unique(tried.round().astype(int))])
