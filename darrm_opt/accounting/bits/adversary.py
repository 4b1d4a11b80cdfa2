"""Adversary against many single-bit releases: a lower bound on every account of them.

An adversary picks a pair (p, q) for each release after the earlier bits, and finally accepts or not: with probability P
on one dataset and Q on its neighbour. So D(E) ≥ P − e^E·Q at every E, a line in x = e^E that never crosses the value
function V of `recursion`. The best (P, Q) found is stored for each point of a grid in x, and one release earlier it is

    P′ = p·P₁ + (1−p)·P₂,   Q′ = q·Q₁ + (1−q)·Q₂,

for any pairs (P₁, Q₁), (P₂, Q₂) that continue after the answers 1 and 0: those stored next to x·q/p and x·(1−q)/(1−p).
The grid only decides which adversaries are tried; what each attains is exact, without interpolation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from darrm_opt.accounting.bits.backward_step import BitReleases, grid_spacing
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.arguments import whole_number
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP

POINTS = 2001  # default number of grid points: the bound is within 0.1 % of the best that the pairs allow
_ROUNDING = 16 * ULP  # relative error of P and Q in one release
PAIRS_ROUNDING = 1e-9  # share of ε subtracted for the rounding of pairs found by a search


def attained_epsilon(parts: BitReleases, delta: float, *, points: int = POINTS) -> float:
    """Return a lower bound on the ε of every account of the releases.

    At every smaller ε some adversary attains more than ``delta``; ``inf`` if an infinite loss is more probable than
    ``delta``. The regions are spanned by pairs that the mechanism can show (`inner_region`).

    Guarantees: A lower bound on every sound account, if each pair can be shown as stored. It is not a guarantee of
    privacy:
        it shows how far an account can be from the truth.
    Source: the definition of (ε, δ)-indistinguishability.

    >>> from darrm_opt.accounting.bits.region import inner_region
    >>> from darrm_opt.accounting.bits.recursion import compose_bits
    >>> region = inner_region([[0.55, 0.5], [0.3, 0.27]])
    >>> attained, total = attained_epsilon([(region, 20)], 1e-3), compose_bits([(region, 20)]).epsilon(1e-3)
    >>> 0.999 * total < attained <= total
    True
    """
    delta = Privacy(0.0, delta).delta
    points = whole_number(points, "points", "a whole number of grid points, at least 3", least=3)
    runs = [(region, count) for region, count in parts if count]
    step = grid_spacing(runs, points)
    P = Q = np.zeros(points)  # before any release: never accept
    with np.errstate(over="ignore", invalid="ignore"):  # nothing is tried at an x or y that overflows
        x = np.exp(step * np.arange(points))
        for region, count in reversed(runs):
            moves = _moves_on_grid(region, x, step)
            for _ in range(count):
                P, Q = _backward_step(P, Q, moves, x)
    charge = _ROUNDING * (1 + sum(count for _, count in runs))
    P, Q = P * (1 - charge) - delta, Q * (1 + charge)
    positive = P > 0
    if not positive.any():
        return 0.0
    with np.errstate(divide="ignore"):
        epsilon = float(np.max(np.log(P[positive]) - np.log(Q[positive])))
    return max(0.0, epsilon * (1 - PAIRS_ROUNDING) - _ROUNDING)


def _moves(region: BitRegion) -> list[list[float]]:
    """Return the pairs (p, 1−p, q, 1−q) with p > q, one of two that are each other's complement."""
    moves = np.where(region.moves[:, [0]] >= region.moves[:, [2]], region.moves, region.moves[:, [1, 0, 3, 2]])
    _, indices = np.unique(np.round(moves, 15), axis=0, return_index=True)
    return [move for move in moves[indices].tolist() if move[0] > move[2]]


class _Answer(NamedTuple):
    """One answer of a move: its probabilities a on D and b on D′, y = x·b/a, and the padded grid's cells next to y."""

    a: float
    b: float
    y: Array
    low: slice
    high: slice


def _moves_on_grid(region: BitRegion, x: Array, step: float) -> list[tuple[float, list[_Answer]]]:
    """Return, for each move, the probability of answers that cannot happen on the neighbour, and its other answers."""
    last = x.size - 1
    answers_by_move = []
    for p, p_rest, q, q_rest in _moves(region):
        certain, answers = 0.0, []
        for a, b in ((p, q), (p_rest, q_rest)):
            if a == 0:
                continue  # never accept what cannot happen
            if b == 0:
                certain += a  # always accept what cannot happen on the neighbour
                continue
            start = 2 * last + math.floor(max(-2.0 * last, min(2.0 * last, math.log(b / a) / step)))
            answers.append(
                _Answer(a, b, x * (b / a), slice(start, start + x.size), slice(start + 1, start + 1 + x.size))
            )
        answers_by_move.append((certain, answers))
    return answers_by_move


def _backward_step(P: Array, Q: Array, moves: list[tuple[float, list[_Answer]]], x: Array) -> tuple[Array, Array]:
    """Return (P, Q) for each x one release earlier: one step of the backward recursion."""
    last = x.size - 1
    # At 1/x the neighbours swap: the adversary that accepts there with (P, Q) rejects here with (1 − Q, 1 − P).
    P_wide = np.pad(np.concatenate([1 - Q[:0:-1], P]), (last, 2 * last + 2), mode="edge")
    Q_wide = np.pad(np.concatenate([1 - P[:0:-1], Q]), (last, 2 * last + 2), mode="edge")
    best_P, best_Q, best_divergence = P, Q, P - x * Q  # a release without information is always possible
    for certain, answers in moves:
        new_P, new_Q = np.full(x.size, certain), np.zeros(x.size)
        for a, b, y, low, high in answers:
            gain, gain_next = P_wide[low] - y * Q_wide[low], P_wide[high] - y * Q_wide[high]
            low_is_better = gain >= gain_next
            continues = np.maximum(gain, gain_next) > 0  # continue as at the better cell, or reject
            new_P += continues * (a * np.where(low_is_better, P_wide[low], P_wide[high]))
            new_Q += continues * (b * np.where(low_is_better, Q_wide[low], Q_wide[high]))
        divergence = new_P - x * new_Q
        is_better = divergence > best_divergence
        best_P, best_Q = np.where(is_better, new_P, best_P), np.where(is_better, new_Q, best_Q)
        best_divergence = np.maximum(divergence, best_divergence)
    return best_P, best_Q
