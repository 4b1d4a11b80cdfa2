"""Laws of labels of noisy vote counts, by enumeration, independent of the product."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from support.plurality_exact import Counts

Law = NDArray[np.float64]


@cache
def label_law(counts: Counts, sigma: float) -> Law:
    """Return the probabilities of the classes: the largest count plus discrete Gaussian noise, ties broken uniformly."""
    reach = math.ceil(14 * sigma)
    noise = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    noise /= noise.sum()
    at = np.zeros((len(counts), 2 * reach + max(counts) + 1))
    for label, count in enumerate(counts):
        at[label, count : count + noise.size] = noise
    below = np.cumsum(at, axis=1) - at
    chances = np.zeros(len(counts))
    for label in range(len(counts)):
        others = [other for other in range(len(counts)) if other != label]
        for size in range(len(counts)):
            for tied in combinations(others, size):
                term = at[label].copy()
                for other in others:
                    term *= at[other] if other in tied else below[other]
                chances[label] += term.sum() / (size + 1)
    return chances


def checked_law(counts: Counts, sigma: float, threshold: float, check_sigma: float) -> Law:
    """Return the probabilities of the classes and of ⊥, released unless the noisy largest count reaches a threshold."""
    reach = math.ceil(14 * check_sigma)
    values = np.arange(-reach, reach + 1)
    noise = np.exp(-(values**2) / (2 * check_sigma**2))
    passes = float(noise[max(counts) + values >= threshold].sum() / noise.sum())
    return np.append(passes * label_law(counts, sigma), 1 - passes)


def renyi(p: Law, q: Law, order: float) -> float:
    """Return D_λ(p‖q) [nats]."""
    logs = order * np.log(p) - (order - 1) * np.log(q)
    return float(logs.max() + math.log(np.exp(logs - logs.max()).sum())) / (order - 1)
