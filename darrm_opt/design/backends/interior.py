"""Interior-point method in NumPy, for programs of thousands of voters, to the gap that the cutting-plane loop needs.

    maximise  w·y    subject to    A·y + s = b,  s ≥ 0,  0 ≤ y ≤ 1

With thousands of voters, rows and weights are smooth: neither determines γ at short distances. The simplex method
returns a vertex of the optimal face, which jumps between 0 and 1 there, and as many cuts as there are such vertices
only lead to the next one. This method approaches the centre of the optimal face: a smooth, nearly private γ, so that a
few dozen cuts end the search. It stops as soon as its gap is small against that of the loop, and needs neither a basis
nor a feasibility of 1e-10.

Each iteration is a predictor and a corrector of Mehrotra, both from the normal equations on the shorter side of A:

    (AᵀΛS⁻¹A + D)·dy = …    or    (A·D⁻¹·Aᵀ + SΛ⁻¹)·dλ = …,      D = z₀/y + z₁/(1−y).

No guarantee rests on the result: any λ ≥ 0 proves a bound, and a γ is proved on its own.

Source: S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optimization 2 (1992); cuts
from centres: J. Gondzio, P. González-Brevis, P. Munari, "New developments in the primal-dual column generation
technique", European J. Operational Research 224 (2013).
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from darrm_opt.design.backends import ColdProgram, Outcome
from darrm_opt.design.solution import Status
from darrm_opt.noise import Array

MAX_ITERATIONS = 100  # three times as many iterations as any program was seen to need

MIN_STEP, MAX_SHORT_STEPS = 0.1, 3
"""Share of a direction below which a step is short, and number of consecutive short steps that ends a solve."""

MIN_SLACK = 0.1  # smallest initial slack of a row, as a share of its limit

MIN_LIMIT_SHARE = 1e-3
"""Rows are scaled to limits of 1, or, if the limit is below this share of the entries' sum, to that share."""

TO_BOUNDARY = 0.99  # share of the distance to the boundary that a step takes
CENTRE_SHARE = 0.1  # share of the requested gap to which products of slacks and multipliers are centred


class _Point(NamedTuple):
    """An iterate, or a direction; in an iterate everything but ``y`` stays positive."""

    y: Array  # variables, shape (columns,)
    u: Array  # 1 − y
    s: Array  # slacks of the rows, shape (rows,)
    multipliers: Array  # of the rows
    lower: Array  # multipliers of y ≥ 0
    upper: Array  # multipliers of y ≤ 1

    @property
    def products(self) -> float:
        """Sum of the products of slacks and multipliers."""
        return float(self.multipliers @ self.s + self.lower @ self.y + self.upper @ self.u)

    def steps(self, direction: _Point) -> tuple[float, float]:
        """Return the step lengths of the variables and of the multipliers along a direction, at most 1."""

        def longest(values: Array, change: Array) -> float:
            falling = change < 0
            return float(np.min(-values[falling] / change[falling], initial=1.0))

        lengths = [longest(values, change) for values, change in zip(self, direction, strict=True)]
        return min(lengths[:3]), min(lengths[3:])

    def moved(self, direction: _Point, primal_step: float, dual_step: float) -> _Point:
        """Return the point after these steps along a direction."""
        steps = (primal_step,) * 3 + (dual_step,) * 3
        return _Point(*(values + step * change for values, change, step in zip(self, direction, steps, strict=True)))


class InteriorPoint(ColdProgram):
    """A growing program that is solved to a given gap (see `Backend`)."""

    gap = 0.0  # the gap to which a solve must come

    def solve(self, weights: Array, seconds: float | None = None) -> Outcome:
        deadline = np.inf if seconds is None else time.perf_counter() + seconds
        size = np.maximum(np.abs(self._limits), MIN_LIMIT_SHARE * np.abs(self._rows).sum(axis=1))
        scales = 1.0 / np.where(size > 0, size, 1.0)
        wanted = max(self.gap, self._tolerance)
        program = _Program(self._rows * scales[:, np.newaxis], self._limits * scales, weights, wanted)
        with np.errstate(all="ignore"):  # slacks fall to 0 if no point satisfies the rows strictly
            status, best, iterations = _solve(program, deadline)
        return Outcome(status, best.y, best.multipliers * scales, iterations)


def _solve(program: _Program, deadline: float) -> tuple[Status, _Point, int]:
    """Return the status of a solve, the point with the smallest gap, and the number of iterations."""
    point, iterations = program.start(), 0
    best, best_gap, short_steps = point, program.gap(point), 0
    # after a short step, the next only centres; if that does not help, rounding dominates the directions
    while best_gap > program.wanted and short_steps < MAX_SHORT_STEPS and iterations < MAX_ITERATIONS:
        if time.perf_counter() > deadline:
            return Status.TIME_LIMIT, best, iterations
        try:
            point, step = program.improved(point, centre=short_steps > 0)
        except np.linalg.LinAlgError:  # singular by rounding
            break
        short_steps = short_steps + 1 if step < MIN_STEP else 0
        iterations += 1
        reached = program.gap(point)
        if not reached < np.inf:
            break
        if reached < best_gap:
            best, best_gap = point, reached
    return Status.OPTIMAL, best, iterations


class _Program(NamedTuple):
    """One program with scaled rows."""

    rows: Array  # A, shape (rows, columns)
    limits: Array  # b
    weights: Array  # w
    wanted: float  # the gap at which to stop

    def start(self) -> _Point:
        """Return a point in the middle of the box, with equal products of slacks and multipliers."""
        middle = np.full(self.weights.size, 0.5)
        slacks = np.maximum(self.limits - self.rows @ middle, MIN_SLACK)
        product = max(float(np.abs(self.weights).sum()), MIN_SLACK) / (self.limits.size + 2 * self.weights.size)
        ends = product / middle
        return _Point(middle, 1.0 - middle, slacks, product / slacks, ends, ends)

    def gap(self, point: _Point) -> float:
        """Return the distance from a point's value to the bound by its multipliers, plus its largest row violation."""
        multipliers = point.multipliers
        bound = self.limits @ multipliers + np.maximum(self.weights - multipliers @ self.rows, 0.0).sum()
        excess = np.max(self.rows @ point.y - self.limits, initial=0.0)
        return float(bound - self.weights @ point.y + excess)

    def improved(self, point: _Point, *, centre: bool) -> tuple[_Point, float]:
        """Return the next iterate and the length of the shorter step."""
        rows, (y, u, s, multipliers, lower, upper) = self.rows, point
        size = s.size + 2 * y.size
        primal, dual = self.limits - rows @ y - s, self.weights - multipliers @ rows + lower - upper
        mean = point.products / size
        curvature, stiffness = lower / y + upper / u, multipliers / s  # D, ΛS⁻¹
        by_columns = y.size <= s.size
        # the product of a matrix with its own transpose takes half the work
        half: Array = rows.T * np.sqrt(stiffness) if by_columns else rows / np.sqrt(curvature)
        matrix: Array = half @ half.T
        matrix[np.diag_indices(len(half))] += curvature if by_columns else 1.0 / stiffness

        def direction(at_rows: Array, at_lower: Array, at_upper: Array) -> _Point:
            # λ·ds + s·dλ = at_rows, and so on at the ends; A·dy + ds = primal; Aᵀ·dλ − dz₀ + dz₁ = dual
            costs, excess = dual + at_lower / y - at_upper / u, primal - at_rows / multipliers
            if by_columns:
                dy = _solution(matrix, costs + (stiffness * excess) @ rows)
                d_multipliers = stiffness * (rows @ dy - excess)
            else:
                d_multipliers = _solution(matrix, rows @ (costs / curvature) - excess)
                dy = (costs - d_multipliers @ rows) / curvature
            d_lower, d_upper = (at_lower - lower * dy) / y, (at_upper + upper * dy) / u
            return _Point(dy, -dy, primal - rows @ dy, d_multipliers, d_lower, d_upper)

        ahead = direction(-multipliers * s, -lower * y, -upper * u)
        share = 1.0 if centre else min(1.0, max(point.moved(ahead, *point.steps(ahead)).products / size / mean, 0.0))
        target = max(share**3 * mean, CENTRE_SHARE * self.wanted / size)
        corrected = direction(
            target - multipliers * s - ahead.multipliers * ahead.s,
            target - lower * y - ahead.lower * ahead.y,
            target - upper * u - ahead.upper * ahead.u,
        )
        steps = [one if one == 1.0 else TO_BOUNDARY * one for one in point.steps(corrected)]
        return point.moved(corrected, *steps), min(steps)


def _solution(matrix: Array, right: Array) -> Array:
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
