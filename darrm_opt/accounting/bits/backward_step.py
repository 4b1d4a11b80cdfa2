"""Grid of the bit recursion: rounding and interpolation only increase the value function V.

V is stored at x = e^(ih), i ≥ 0. Left of it V_t(x) = 1 − x + x·V_t(1/x), since every pair may also be swapped. Between
grid points V is replaced by its chord in x, and right of the grid by its last value: upper bounds, since V is convex
and decreasing. Rounding: W increases with a and decreases with b, so p and 1−p are rounded up, q and 1−q and all shifts
down; the rest are products and sums of non-negative numbers, covered by the coefficients.

The end and the spacing of the grid affect tightness, not soundness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.design.kernel.library import kernel
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP, down

MAX_EPSILON = 1e5  # largest ε of a grid [nats]; beyond it the last value is used, which is sound but loose

FLAT_TOLERANCE, FLAT_SHARE = 1e-20, 1e-6
"""The grid ends where every V_t is this close to its limit, the probability of an infinite loss, or at this share
of it."""

MIN_LIMIT = 1e-9  # smaller limits come from rounding

COARSE_POINTS, MIN_COARSE_POINTS = 2001, 201
"""Grid points of the coarse pass that finds where a total with a limit above 0 becomes flat."""

ORDERS = 120  # orders λ at which the losses' tail is bounded
MAX_STEP = 700.0  # width of a cell [nats] from which its right end is ignored
_ROUNDING = 16 * ULP  # relative error of one step: two coefficients of three operations each, two products, three sums
BitReleases = Sequence[tuple[BitRegion, int]]  # releases in the order in which they are made: (region, number)


@dataclass(frozen=True, eq=False)
class Moves:
    """The vertices of a region in the coordinates of one grid: each adds up to a constant and four products."""

    left: int  # cells needed left of the grid
    right: int  # cells needed right of it
    scale: Array  # x = e^(−jh) at the j-th cell left of the grid
    offset: Array  # 1 − x there, rounded up. V = offset + scale·V(1/x)
    constants: Array  # of each vertex, shape (vertices,)
    cells: NDArray[np.int64]  # first cell of the extended grid that a product uses, shape (vertices, 4)
    weights: Array  # its factor
    # For each vertex the row of ``base`` and ``factor`` of its answer left of every cell, or −1, as for most; that
    # answer adds base + factor·V at the grid's end.
    far: NDArray[np.int64]
    base: Array  # shape (rows, points)
    factor: Array  # the same

    @cached_property
    def kernel_arguments(self) -> tuple[int, ...]:
        """Arguments of the kernel's `backward_step`: sizes, and addresses of arrays that this object keeps alive."""
        arrays = (self.constants, self.cells, self.weights, self.far, self.base, self.factor)
        sides = (self.left, self.right, self.scale.ctypes.data, self.offset.ctypes.data)
        return *sides, self.constants.size, *(array.ctypes.data for array in arrays)


def compile_moves(region: BitRegion, step: float, points: int) -> Moves:
    """Return the vertices of a region in the coordinates of a grid of ``points``, ``step`` [nats] apart."""
    vertices = region.moves.tolist()
    constants = np.zeros(len(vertices))
    cells, weights = np.zeros((len(vertices), 4), dtype=np.int64), np.zeros((len(vertices), 4))
    far, far_terms = np.full(len(vertices), -1, dtype=np.int64), list[Array]()
    for vertex, (p, p_rest, q, q_rest) in enumerate(vertices):
        for answer, (a, b) in enumerate(((p, q), (p_rest, q_rest))):
            if a == 0:
                continue  # W(0, ·) = 0
            if b == 0:
                constants[vertex] += a * (1 + _ROUNDING)  # V(0) = 1
                continue
            # V decreases, so an error to the left increases it: the subtracted term covers the rounding of both
            # logarithms and of the division.
            shift = math.log(b) - math.log(a)
            position = shift / step
            position -= 4 * ULP * (1 + abs(math.log(a)) + abs(shift)) / step + 4 * ULP * abs(position)
            if position < -2 * points:  # V(x) = 1 − x + x·V(1/x), and the grid has ended before 1/x
                # At most one answer: q/p or (1−q)/(1−p) is at least 1.
                log_x = (position + np.arange(points)) * step
                far[vertex] = len(far_terms)
                far_terms.append(np.stack([-np.expm1(log_x), np.exp(log_x)]) * (a * (1 + _ROUNDING)))
                continue
            # a·V(x·b/a) on the chord: near·V at a cell + far·V one further
            cell = math.floor(min(position, float(points)))
            share = chord_weight(min(position - cell, 1.0), step)
            cells[vertex, 2 * answer : 2 * answer + 2] = cell, cell + 1
            weights[vertex, 2 * answer : 2 * answer + 2] = (
                a * (1 - share) * (1 + _ROUNDING),
                a * share * (1 + _ROUNDING),
            )
    # Cells left of the grid, x < 1, come from V(x) = 1 − x + x·V(1/x); those right of it have the last value.
    left = max(0, -int(cells.min(initial=0)))
    outside = -step * np.arange(1, left + 1)
    scale, offset = np.exp(outside) * (1 + _ROUNDING), -np.expm1(outside) * (1 + _ROUNDING)
    right = max(0, int(cells.max(initial=0)))
    base, factor = np.stack(far_terms, axis=1) if far_terms else np.zeros((2, 0, points))
    return Moves(left, right, scale, offset, constants, cells + left, weights, far, base, factor)


def backward_step(values: Array, moves: Moves) -> Array:
    """Return V_t from V_{t−1}: one step of the backward recursion, the maximum over the vertices.

    The kernel performs the same operations in the same order: both return the same doubles.
    """
    library = kernel()
    if library is None:
        return _backward_step(values, moves)
    points, best = values.size, np.empty(values.size)
    work = np.empty(moves.left + points + moves.right)
    library.backward_step(points, *moves.kernel_arguments, values.ctypes.data, work.ctypes.data, best.ctypes.data)
    return best


def _backward_step(values: Array, moves: Moves) -> Array:
    points = values.size
    # V decreases: its last value is an upper bound beyond the end of the grid, and beyond its mirror image on the left.
    grid_values = np.empty(moves.left + points + moves.right)
    grid_values[moves.left : moves.left + points] = values
    grid_values[moves.left + points :] = values[-1]
    mirror = np.full(moves.left, values[-1])
    mirror[: points - 1] = values[1 : moves.left + 1]
    grid_values[: moves.left] = (moves.offset + moves.scale * mirror)[::-1]
    best, part = np.zeros(points), np.empty(points)
    # The same operations in the same order as in `bits.c`: their totals agree to the last bit.
    for constant, cells, weights, far in zip(
        moves.constants.tolist(), moves.cells.tolist(), moves.weights.tolist(), moves.far.tolist(), strict=True
    ):
        total = np.zeros(points)
        for cell, weight in zip(cells, weights, strict=True):
            if weight:
                np.multiply(grid_values[cell : cell + points], weight, out=part)
                total += part
        if far >= 0:
            total += moves.factor[far] * values[-1]
            total += moves.base[far]
        total += constant
        np.maximum(best, total, out=best)
    return np.minimum(best, 1.0, out=best)


def chord_weight(share: float, step: float) -> float:
    """Return the weight of a cell's right end on the chord in x, at ``share`` of the cell in log x, rounded down.

    0 for a cell so wide that e^step overflows: V is then taken at its left end, where it is larger.
    """
    return down(math.expm1(share * step) / math.expm1(step), 8) if step < MAX_STEP else 0.0


def terminal_values(points: int) -> Array:
    """Return V_0, the values after the last release."""
    return np.zeros(points)  # V_0(x) = (1 − x)₊ at x ≥ 1


def grid_spacing(runs: BitReleases, points: int) -> float:
    """Return h such that ``points`` cover the ε at which the total is not yet flat."""
    full = sum(count * _largest_shift(region) for region, count in runs)
    if full == 0:
        return 1.0  # no release, or only infinite losses: V is flat
    step = _grid_end(runs, min(full, MAX_EPSILON), points) / (points - 1)
    # The move with the largest p − q matters most: its shift is an integer number of cells, without interpolation.
    p, _, q, _ = max((move for region, _ in runs for move in region.moves.tolist()), key=lambda move: move[0] - move[2])
    if 0 < q < p:
        loss = math.log(p) - math.log(q)
        if loss > step:
            step = loss / math.floor(loss / step)
    return step


def _grid_end(runs: BitReleases, full: float, points: int) -> float:
    """Return an ε up to ``full`` beyond which the total decreases by at most `FLAT_TOLERANCE` or `FLAT_SHARE`."""
    shift = max(_largest_shift(region) for region, _ in runs)
    leak = sum(count * _infinite_loss(region) for region, count in runs)
    end = min(full, max(shift, _loss_tail_end(runs, shift, max(FLAT_TOLERANCE, FLAT_SHARE * min(leak, 1.0)))))
    if sum(count for _, count in runs) == 1 or leak < MIN_LIMIT:
        return end
    # With infinite losses the total is flat long before the tail of the finite ones ends: find the end on a coarse
    # grid.
    points = max(MIN_COARSE_POINTS, min(COARSE_POINTS, points // 2))
    step = end / (points - 1)
    values, flat = terminal_values(points), 0
    for region, count in reversed(runs):
        moves = compile_moves(region, step, points)
        for _ in range(count):
            values = backward_step(values, moves)
            flat = max(flat, int(np.argmax(values <= values[-1] * (1 + 1e-9) + FLAT_TOLERANCE)))
    return min(end, (flat + 2) * step)


def _loss_tail_end(runs: BitReleases, shift: float, chance: float) -> float:
    """Return an E that the finite losses exceed with at most a given probability."""
    # Chernoff: however the pairs are chosen, E[e^(λ·loss)] over the finite losses is at most the product of the largest
    # such mean of one pair, so they exceed E with at most e^(−λE) times that product, for every λ > 0.
    orders = np.geomspace(1e-6, 1e3, ORDERS) / shift
    log_mean = np.zeros(ORDERS)
    for region, count in runs:
        p, p_rest, q, q_rest = region.moves.T
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [
                np.where((a > 0) & (b > 0), np.log(a) + orders[:, np.newaxis] * (np.log(a) - np.log(b)), -np.inf)
                for a, b in ((p, q), (p_rest, q_rest))
            ]
        log_mean += count * np.max(np.logaddexp(*parts), axis=1)
    return float(np.min((log_mean - math.log(chance)) / orders))


def _infinite_loss(region: BitRegion) -> float:
    """Return the largest probability of an infinite loss in one release; rounding makes it slightly positive."""
    p, p_rest, q, q_rest = region.moves.T
    return float(np.max(np.concatenate((p[q == 0], p_rest[q_rest == 0])), initial=0.0))


def _largest_shift(region: BitRegion) -> float:
    p, p_rest, q, q_rest = region.moves.T
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = np.abs(np.log(np.concatenate((q / p, q_rest / p_rest))))
    finite = shifts[np.isfinite(shifts)]
    return float(np.max(finite, initial=0.0))
