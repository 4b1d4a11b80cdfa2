"""A black-box auditor: is a claim of (ε, δ) refuted by what a mechanism releases?

It sees samples of the mechanism on two neighbouring datasets and nothing else. An event is chosen on the first half of
them, and the claim is refuted if, on the second half, the event is provably too likely on one dataset: by Clopper and
Pearson's exact bounds, Pr[event | D] > e^ε·Pr[event | D′] + δ. A true claim is refuted with probability at most
``error``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Samples = NDArray[np.int64]


def at_least(successes: int, trials: int, error: float) -> float:
    """Return a lower bound on a probability, wrong with probability at most ``error``."""
    return float(stats.beta.ppf(error, successes, trials - successes + 1)) if successes else 0.0


def at_most(successes: int, trials: int, error: float) -> float:
    """Return an upper bound on a probability, wrong with probability at most ``error``."""
    return float(stats.beta.isf(error, successes + 1, trials - successes)) if successes < trials else 1.0


@dataclass(frozen=True)
class Auditor:
    """Tests claims with a stated rate of false refutations."""

    error: float

    def refutes(self, p: Samples, q: Samples, epsilon: float, delta: float) -> bool:
        """Return whether the claim is refuted; ``p`` and ``q`` are outcomes (whole numbers) on the two datasets."""
        half = len(p) // 2
        tests = [(p, q), (q, p)]
        level = self.error / (2 * len(tests))  # two bounds a test
        for first, second in tests:
            event = chosen(first[:half], second[:half], epsilon)
            hits = [int(np.isin(samples[half:], event).sum()) for samples in (first, second)]
            lower_bound = at_least(hits[0], len(first) - half, level)
            upper_bound = at_most(hits[1], len(second) - half, level)
            if lower_bound > math.exp(epsilon) * upper_bound + delta:
                return True
        return False


def chosen(first: Samples, second: Samples, epsilon: float) -> NDArray[np.int64]:
    """Return the outcomes that look more likely on the first dataset by more than e^ε."""
    outcomes = np.unique(np.concatenate([first, second]))
    share = [np.array([np.mean(samples == outcome) for outcome in outcomes]) for samples in (first, second)]
    event: NDArray[np.int64] = outcomes[share[0] > math.exp(epsilon) * share[1]]
    return event
