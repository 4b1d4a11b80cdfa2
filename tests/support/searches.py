"""Slow and simple searches for the worst case, the reference for those of the design."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from darrm_opt import NoiseFunction, Problem
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.polar_form import layers
from darrm_opt.design.separation import separable
from darrm_opt.design.separation.first_order import Rows
from darrm_opt.design.separation.result import Collector, WorstCase
from support.strategies import random_noise


def enumerated_worst_case(
    noise: NoiseFunction, problem: Problem, constraint: PrivacyConstraint | None = None
) -> WorstCase:
    """Evaluate φ at every vector of the constraint generator; by default the φ of the problem."""
    collector, constraint = Collector(), constraint or PrivacyConstraint.of(problem)
    for counts in ConstraintGenerator(problem).blocks():
        collector.offer(constraint.values(noise.signed, counts), counts)
    return collector.result(0.0, "complete")


def separable_worst_case(noise: NoiseFunction, constraint: PrivacyConstraint) -> WorstCase:
    """Search every multiset by the separable method only, for Δ > 0."""
    collector = Collector()
    for s, first, layer in layers(noise.signed, constraint.corners.x, constraint.corners.y, constraint.affected):
        nx = first + np.arange(layer.shape[0])
        separable.search_separable(Rows(layer, nx, s - nx), constraint, collector)
        separable.search_separable(Rows(-layer[:, ::-1], s - nx, nx), constraint, collector)
    return collector.result(0.0, "complete")


def uneven(rng: np.random.Generator, K: int) -> NoiseFunction:
    """Return a γ that is not monotone if K allows one."""
    noise = random_noise(rng, K, str(rng.choice(["uniform", "coin", "alternating", "spike", "small"])))
    return NoiseFunction.from_upper_half(noise.values[K // 2 + 1 :][::-1], K) if noise.is_monotone else noise


def splits(n0: int, n1: int, moving: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the numbers of voters (down, up, up to one, down from one) of n₀ near 0 and n₁ near 1, at most ``moving``."""
    for down, up, up_to_one, down_from_one in itertools.product(*2 * [range(n0 + 1)], *2 * [range(n1 + 1)]):
        if down + up <= n0 and up_to_one + down_from_one <= n1 and down + up + up_to_one + down_from_one <= moving:
            yield down, up, up_to_one, down_from_one
