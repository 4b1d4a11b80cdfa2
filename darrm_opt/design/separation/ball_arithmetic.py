"""Worst-case search in ball arithmetic (python-flint): slow, independent, exact up to 2^-`BITS`.

Every double of the strictest problem is taken as the rational it is; e^ε, x, y and q become balls that contain the true
value. Results are rounded outward to doubles explicitly, since ``float(arb)`` rounds to nearest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from darrm_opt.design.constraint import ConstraintGenerator, Counts, PrivacyConstraint
from darrm_opt.design.separation.result import WorstCase
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import NoiseFunction
from darrm_opt.optional_packages import require
from darrm_opt.problem import Problem

if TYPE_CHECKING:
    from flint import arb

BITS = 256  # working precision [bits]: balls stay below 1e-60 for every affordable K


class BallConstraint:
    """φ and its limit for the strictest reading of a problem, as balls."""

    def __init__(self, problem: Problem) -> None:
        flint = require("flint", "arithmetic = 'ball'")
        flint.ctx.prec = BITS
        self._arb = flint.arb
        strict = problem.strictest
        self._points = strict.voter.points
        self.K, self.affected = problem.K, problem.affected
        self.Delta = self.exact(strict.voter.delta)
        if strict.voter.epsilon == math.inf:
            self.x, self.y = self.exact(1.0), self.exact(0.0)
        else:
            shrink = (-self.exact(strict.voter.epsilon)).exp()  # e^ε overflows even here, to an infinite ball
            self.x = (1 + self.Delta * shrink) / (1 + shrink)
            self.y = (1 - self.Delta) * shrink / (1 + shrink)
        target = self.exact(strict.target.epsilon)
        self.q = (-target).exp()
        self.limit = -(-target).expm1() + 2 * self.q * self.exact(strict.target.delta)

    def exact(self, value: float) -> arb:
        """Return the double ``value`` exactly."""
        exact: arb = self._arb(value)
        return exact

    def step(self, coefficients: list[Any], t: Any) -> list[Any]:
        """Return the coefficients after one de Casteljau step."""
        return [low + t * (high - low) for low, high in pairwise(coefficients)]

    def steps(self, coefficients: list[Any], *voters: tuple[Any, int]) -> list[Any]:
        """Return the coefficients after a step for each of (probability, number of voters)."""
        for t, count in voters:
            for _ in range(int(count)):
                coefficients = self.step(coefficients, t)
        return coefficients

    def vertices(self) -> list[tuple[Any, Any]]:
        """Return (p, 1 − p′) of the corners, in the order of `LABELS`, or of a profile's `ProfileVertices`."""
        zero, one, x, y, Delta = self.exact(0.0), self.exact(1.0), self.x, self.y, self.Delta
        if len(self._points) == 1:
            near_zero, near_one = [(zero, 1 - Delta), (Delta, one)], [(1 - Delta, zero), (one, Delta)]
            return [(zero, one), (one, zero), (x, x), (y, y), *near_zero, *near_one]
        lines = [(self.exact(epsilon).exp(), self.exact(delta)) for epsilon, delta in reversed(self._points)]
        half = [(zero, lines[0][1])] if self._points[-1][1] > 0 else []
        flat = self._points[0][0] == 0  # a line of slope 1 is its own mirror image
        for (slope, height), (next_slope, next_height) in pairwise([*lines, (-one, one)]):
            p_prime = (next_height - height) / (slope - next_slope)
            half.append((p_prime, height + slope * p_prime))
        if flat:
            half.pop()
        upper = [*half, *((1 - p, 1 - p_prime) for p_prime, p in reversed(half if flat else half[:-1]))]
        return [
            (zero, one),
            (one, zero),
            *((p, 1 - p_prime) for p_prime, p in upper),
            *((p_prime, 1 - p) for p_prime, p in upper),
        ]

    def value_at(self, noise: NoiseFunction, counts: Counts, vertices: list[tuple[Any, Any]]) -> Any:
        """Return φ at one multiset of the vertices."""
        signed = [self.exact(value) for value in noise.signed]
        on_data, on_neighbour = (
            self.steps(signed, *zip(side, counts, strict=True)) for side in zip(*vertices, strict=True)
        )
        return self.q * on_data[0] + on_neighbour[0]

    def skeletons(self, coefficients: list[Any], nx: int, ny: int) -> Iterator[tuple[tuple[int, ...], Any]]:
        """Yield every multiset with nx at (x, y) and ny at (y, x), with an upper bound on φ."""
        n = len(coefficients) - 1
        # For Δ = 0 the four corners near the ends coincide with (0, 0) and (1, 1).
        moving = min(n, self.affected - nx - ny) if self.Delta > 0 else 0
        # Blossoms by the number of voters at Δ and at 1 − Δ; φ needs two of them (docs/proofs.md, "Complete search for
        # Δ > 0").
        table = {}
        by_zero = coefficients
        for near_zero in range(moving + 1):
            by_one = by_zero
            for near_one in range(moving - near_zero + 1):
                table[near_zero, near_one] = by_one
                by_one = self.step(by_one, 1 - self.Delta) if len(by_one) > 1 else by_one
            by_zero = self.step(by_zero, self.Delta) if len(by_zero) > 1 else by_zero
        for n1 in range(n + 1):
            n0 = n - n1
            for down, up_to_one in product(range(min(n0, moving) + 1), range(min(n1, moving) + 1)):
                # One budget of affected voters for both ends: otherwise φ would cover further neighbours.
                remaining = moving - down - up_to_one
                if remaining < 0:
                    continue
                # p depends on `down` and `up_to_one` alone, p′ on the other two.
                on_data = self.q * table[down, up_to_one][n1 - up_to_one]
                for up in range(min(n0 - down, remaining) + 1):
                    for down_from_one in range(min(n1 - up_to_one, remaining - up) + 1):
                        value = on_data + table[down_from_one, up][n0 - up]
                        zero, one = n0 - up - down, n1 - up_to_one - down_from_one
                        yield (zero, one, nx, ny, up, down, up_to_one, down_from_one), value.upper()


def ball_worst_case(noise: NoiseFunction, problem: Problem) -> WorstCase:
    """Search every multiset in ball arithmetic; the interface is that of `worst_case`."""
    # For each (nx, ny) the blossom's tables are built once and every multiset is looked up in them: O(K³) for Δ = 0,
    # O(K⁷) for Δ > 0. Affordable up to K of about 100 and 15.
    ball = BallConstraint(problem)
    if len(problem.voter.points) > 1:
        return _profile_worst_case(ball, noise, problem)
    by_x = [ball.exact(value) for value in noise.signed]
    worst: Any = None
    worst_counts: tuple[int, ...] = ()
    for nx in range(ball.affected + 1):
        by_y = by_x
        for ny in range(ball.affected - nx + 1):
            for multiset, upper in ball.skeletons(by_y, nx, ny):
                # Upper ends are numbers; overlapping balls have no order.
                if worst is None or upper > worst:
                    worst, worst_counts = upper, multiset
            by_y = ball.step(by_y, ball.y) if len(by_y) > 1 else by_y
        by_x = ball.step(by_x, ball.x) if len(by_x) > 1 else by_x
    constraint = PrivacyConstraint.of(problem)
    value, bound = _outward(worst)
    counts = np.array(worst_counts[: len(constraint.corners.labels)], dtype=np.int64)
    return WorstCase(bound, value, counts, np.empty((0, counts.size), dtype=np.int64), "ball", bound - value)


MAX_MULTISETS = 20_000  # maximum number of multisets of a profile's vertices searched in ball arithmetic, some seconds


def _profile_worst_case(ball: BallConstraint, noise: NoiseFunction, problem: Problem) -> WorstCase:
    """Search every multiset of a profile's vertices, one by one."""
    generator, vertices = ConstraintGenerator(problem), ball.vertices()
    if generator.size > MAX_MULTISETS:
        advice = f"This problem has {generator.size:,}; arithmetic = 'float' proves it."
        raise InvalidInput("arithmetic", "ball", f"at most {MAX_MULTISETS:,} multisets with a privacy profile", advice)
    worst: Any = None
    worst_counts = np.empty(0, dtype=np.int64)
    for block in generator.blocks():
        for counts in block:
            upper = ball.value_at(noise, counts, vertices).upper()
            if worst is None or upper > worst:
                worst, worst_counts = upper, counts
    value, bound = _outward(worst)
    none = np.empty((0, worst_counts.size), dtype=np.int64)
    return WorstCase(bound, value, worst_counts.copy(), none, "ball", bound - value)


def _outward(ball: Any) -> tuple[float, float]:
    """Return doubles (below, above) that enclose a ball."""
    below, above = float(ball.lower()), float(ball.upper())
    return (
        below if below <= ball.lower() else math.nextafter(below, -math.inf),
        above if above >= ball.upper() else math.nextafter(above, math.inf),
    )
