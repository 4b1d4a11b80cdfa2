"""Adaptive recursion: the exact total of a few releases with any number of answers, given all their pairs of laws.

As for bits (`bits.recursion`): the adversary picks a pair (P, Q) of the list after all earlier answers, so with V_1 the
δ of one release at x = e^ε, ε of either sign,

    V_t(x) = max over pairs of Σ_c P_c·V_{t−1}(x·Q_c/P_c).

V is convex and decreasing in x, from V(0) = 1. It is stored on a grid of ε and replaced by its chords; left of the grid
by the chord from x = 0, right of it by its last value: each of these is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from darrm_opt.accounting.bits.backward_step import chord_weight
from darrm_opt.accounting.composition.optimal import epsilon_at_delta
from darrm_opt.accounting.law_pairs import LEAK, LawPairs, largest_deltas
from darrm_opt.errors import TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP

POINTS, MAX_POINTS = 1500, 20_000  # smallest and largest number of grid points on either side of ε = 0
STEP, MAX_STEP = 0.01, 0.05  # desired grid spacing, and the spacing from which a total is not worth its time [nats]
MAX_WORK = 3e7  # maximum number of terms summed: a tenth of a second


def adaptive_epsilon(pairs: Sequence[LawPairs], releases: int, delta: float) -> float:
    """Return ε of adaptive releases, each with one of the listed pairs (P, Q), at δ > 0 [nats].

    Raises:
        TooMuchWork: there are too many pairs or releases.
    """
    if releases == 1:
        return max(laws.epsilon(delta) for laws in pairs)
    bounds = [laws.bounds for laws in pairs]
    reach = releases * max(_largest_loss(p, q) for p, q in bounds) + STEP
    points = min(MAX_POINTS, max(POINTS, math.ceil(reach / STEP)))
    terms = sum(p.size for p, _ in bounds)
    if reach / points > MAX_STEP or (2 * points + 1) * terms * releases > MAX_WORK:
        raise TooMuchWork(f"The adaptive recursion on {terms:,} answers of pairs takes too long.")
    step = reach / points
    values = largest_deltas(pairs, np.asarray(np.arange(-points, points + 1) * step))
    moves = [_moves(p, q, step) for p, q in bounds]
    for _ in range(releases - 1):
        values = _backward_step(values, moves, step)
    known = values[points:]

    def curve(epsilon: float) -> float:
        place = min(int(epsilon / step * (1 - 4 * ULP)), points)  # V decreases: the point to the left is above
        share = chord_weight(min(1.0, max(0.0, epsilon / step * (1 - 4 * ULP) - place)), step)
        beyond = known[min(place + 1, points)]
        return min(1.0, float((1 - share) * known[place] + share * beyond) * (1 + 8 * ULP))

    return epsilon_at_delta(curve, delta, reach, LEAK)


def _largest_loss(p: Array, q: Array) -> float:
    known = (p > 0) & (q > 0)
    # a difference of logarithms, since the quotient of two doubles may overflow.
    return float(np.abs(np.log(p[known]) - np.log(q[known])).max(initial=0.0))


Move = tuple[float, list[tuple[int, float, float]]]
"""The terms of one pair: a constant, and weights of V at a cell and at the next."""


def _moves(p: Array, q: Array, step: float) -> list[Move]:
    """Return the pairs in the coordinates of a grid."""
    moves = []
    for on_data, on_neighbour in zip(p.tolist(), q.tolist(), strict=True):
        constant, cells = 0.0, []
        for a, b in zip(on_data, on_neighbour, strict=True):
            weight = a * (1 + 16 * ULP)
            if not b:
                constant += weight  # V(0) = 1
            elif a:
                shift = math.log(b) - math.log(a)
                # V decreases, so an error to the left increases it.
                place = (shift - 32 * ULP * (1 + abs(math.log(a)) + abs(math.log(b)))) / step
                place -= 4 * ULP * abs(place)
                cell = math.floor(place)
                share = chord_weight(min(place - cell, 1.0), step)
                cells.append((cell, weight * (1 - share), weight * share))
        moves.append((constant, cells))
    return moves


def _backward_step(values: Array, moves: Sequence[Sequence[Move]], step: float) -> Array:
    """Return V_t from V_{t−1}."""
    cells = [cell for family in moves for _, terms in family for cell, _, _ in terms]
    left, right = max(0, -min(cells, default=0)), max(0, max(cells, default=0) + 1)
    beyond = np.exp(-step * np.arange(left, 0, -1)) * (1 - 8 * ULP)
    known = np.concatenate([1 - (1 - values[0]) * beyond, values, np.full(right, values[-1])])
    best, size = np.zeros(values.size), values.size
    for family in moves:
        for constant, terms in family:
            total = np.full(size, constant)
            for cell, near, far in terms:
                start = left + cell
                total += near * known[start : start + size]
                total += far * known[start + 1 : start + 1 + size]
            np.maximum(best, total, out=best)
    return np.asarray(np.minimum(best * (1 + 64 * ULP), 1.0))
