"""Voters with a privacy profile, by all multisets: half-planes intersected pairwise, votes convolved."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from darrm_opt import NoiseFunction


def random_gamma(K: int, draw: np.random.Generator) -> NoiseFunction:
    """Return a γ that is flat, jagged, sorted, or almost a step."""
    upper = draw.uniform(0, 1, (K + 1) // 2) ** draw.choice([0.1, 1.0, 5.0])
    forms = [np.sort(upper), upper, (upper > 0.5).astype(float), np.round(upper, 1)]
    return NoiseFunction.from_upper_half(forms[int(draw.integers(4))], K)


def region(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the vertices (p, p′) of the region, by intersecting the lines of its half-planes."""
    planes = [(1.0, 0.0, 1.0), (0.0, 1.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)]  # a·p + b·p′ ≤ c
    for epsilon, delta in points:
        t = math.exp(epsilon)
        planes += [(1, -t, delta), (-t, 1, delta), (-1, t, t - 1 + delta), (t, -1, t - 1 + delta)]
    found: list[tuple[float, float]] = []
    for (a, b, c), (d, e, f) in itertools.combinations(planes, 2):
        determinant = a * e - b * d
        if abs(determinant) < 1e-12:
            continue
        p, p_prime = (c * e - b * f) / determinant, (a * f - c * d) / determinant
        inside = all(g * p + h * p_prime <= i + 1e-10 for g, h, i in planes)
        if inside and all(math.dist((p, p_prime), other) > 1e-9 for other in found):
            found.append((min(max(p, 0.0), 1.0), min(max(p_prime, 0.0), 1.0)))
    return found


def votes(chances: Any) -> np.ndarray[Any, Any]:
    """Return the law of the number of ones."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


def rows(K: int, points: Any, E: float, affected: int) -> np.ndarray[Any, Any]:
    """Return every constraint Σ γ(l)·row(l) ≤ e^E − 1 + 2δ, shape (many, ⌈K/2⌉), over l > K/2."""
    vertices, c, made = region(points), math.exp(E), []
    for multiset in itertools.combinations_with_replacement(range(len(vertices)), K):
        if sum(abs(vertices[v][0] - vertices[v][1]) > 1e-12 for v in multiset) > affected:
            continue
        row = votes(vertices[v][0] for v in multiset) - c * votes(vertices[v][1] for v in multiset)
        made.append([row[l] - row[K - l] for l in range(K // 2 + 1, K + 1)])
    return np.array(made)
