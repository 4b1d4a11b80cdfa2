"""Bit recursion: the exact total privacy of many adaptive releases, each a single bit.

One bit shows a neighbouring pair as (p, q) = (Pr[1|D], Pr[1|D′]) in a polygon (`region`). Let W_t(a, b) be the largest
hockey-stick Σ (a·P − b·Q)₊ that t more releases can show. The adversary picks (p, q) after seeing all earlier bits, so

    W_0(a, b) = (a − b)₊,    W_t(a, b) = max over (p, q) of W_{t−1}(ap, bq) + W_{t−1}(a(1−p), b(1−q)),

and D(E) = W_k(1, e^E) is the worst δ at total ε E. W is convex and homogeneous, so the maximum is at a vertex and one
variable is enough: with V_t(x) = W_t(1, x), x = e^E,

    V_0(x) = (1−x)₊,    V_t(x) = max over vertices of p·V_{t−1}(xq/p) + (1−p)·V_{t−1}(x(1−q)/(1−p)).

V is stored on the grid of `backward_step`, where it is never too small.

Valid only if the whole transcript of a query is that one bit: no count, time, error text or abstention depends on the
data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from darrm_opt.accounting.bits.backward_step import (
    BitReleases,
    backward_step,
    chord_weight,
    compile_moves,
    grid_spacing,
    terminal_values,
)
from darrm_opt.accounting.bits.region import BitRegion
from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.composition.optimal import least_epsilon, nats
from darrm_opt.arguments import whole_number
from darrm_opt.errors import DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import check_arithmetic, down, up

POINTS = 40_001  # default number of grid points; it increases ε by at most 1e-3 (measured in the tests)
MAX_WORK = 2e10  # maximum number of vertex-point updates in one call, about a minute; beyond it `TooMuchWork`
MIN_POINTS = 1001  # coarsest grid of an account with a time limit; if it is too slow, the account is rejected


@dataclass(frozen=True, eq=False)
class BitTotal:
    """Total privacy of single-bit releases: V on its grid."""

    step: float  # h [nats], the grid's spacing in ε
    values: Array  # δ at ε = 0, h, 2h, …: upper bounds for the regions, read-only [probability]
    # Whether every region contains all pairs that its mechanism can show; if not, the numbers are optimistic.
    guaranteed: bool

    def delta(self, epsilon: float) -> float:
        """Return δ at ``epsilon`` ≥ 0 [nats]."""
        epsilon = nats(epsilon, "epsilon")
        last = self.values.size - 1
        position = min(down(epsilon / self.step, 2), float(last))
        cell = min(int(position), last - 1)
        share = chord_weight(position - cell, self.step)
        delta = float((1 - share) * self.values[cell] + share * self.values[cell + 1])
        return min(1.0, up(delta, 4)) if delta else 0.0

    def epsilon(self, delta: float) -> float:
        """Return ε [nats] at ``delta`` [probability] in [0, 1)."""
        delta = Privacy(0.0, delta).delta
        grid_end = up((self.values.size - 1) * self.step, 4)
        floor = self.delta(grid_end)
        if not is_within(floor, delta):
            raise DeltaTooSmall(delta, floor, "that is the probability of an infinite loss, rounding included")
        return least_epsilon(self.delta, delta, grid_end)


def compose_bits(parts: BitReleases, *, points: int = POINTS) -> BitTotal:
    """Return the exact cost of single-bit releases made in the given order.

    The order matters: a release with many choices is worth more to the adversary after others than before them. If it
    is not fixed beforehand, use `compose_bits_any_order`.

    Guarantees: With outer regions: sound for every adaptive sequence of such releases.
    Source: docs/proofs.md, "Many releases".

    >>> from darrm_opt.accounting.bits.region import privacy_region
    >>> region = privacy_region(Privacy(0.2676, 0.0003))
    >>> round(compose_bits([(region, 20)]).epsilon(0.006), 2)
    3.63
    """
    runs, points = _check_runs(parts, points)
    _check_work(sum(region.moves.shape[0] * count for region, count in runs) * points)
    step = grid_spacing(runs, points)
    values = terminal_values(points)
    for region, count in reversed(runs):
        moves = compile_moves(region, step, points)
        for _ in range(count):
            values = backward_step(values, moves)
    return _total(values, step, runs)


def compose_bits_any_order(parts: BitReleases, *, points: int = POINTS) -> BitTotal:
    """Return the cost of single-bit releases whose order, too, the adversary chooses bit by bit.

    An upper bound on `compose_bits` for every order, attained by an adversary who chooses the order adaptively.
    ``parts`` should be few kinds: the state is the remaining number of each.
    """
    runs, points = _check_runs(parts, points)
    # Sorted by content, so that the result does not depend on the caller's order.
    runs.sort(key=lambda run: run[0].moves.tobytes())
    _check_work(points * updates_of(runs) if runs else 0.0)
    step = grid_spacing(runs, points)
    moves = [compile_moves(region, step, points) for region, _ in runs]
    # Backwards from the end: a layer has every state with a given number of bits left, and the adversary takes the kind
    # with the larger value.
    layer = {(0,) * len(runs): terminal_values(points)}
    for _ in range(sum(count for _, count in runs)):
        following: dict[tuple[int, ...], Array] = {}
        for state, values in layer.items():
            for kind, (_, count) in enumerate(runs):
                if state[kind] < count:
                    next_state = (*state[:kind], state[kind] + 1, *state[kind + 1 :])
                    candidate = backward_step(values, moves[kind])
                    following[next_state] = (
                        np.maximum(candidate, following[next_state]) if next_state in following else candidate
                    )
        layer = following
    return _total(next(iter(layer.values())), step, runs)


def updates_of(parts: BitReleases) -> float:
    """Return the updates per grid point for releases in any order, of every state by every vertex; inf for too many.

    >>> from darrm_opt.accounting.bits.region import privacy_region
    >>> updates_of([(privacy_region(Privacy(0.1)), 10**9)] * 40)  # 10^361 states
    inf
    """
    states = parts[0][1] if len(parts) == 1 else math.prod(count + 1 for _, count in parts)
    try:
        return float(states * sum(region.moves.shape[0] for region, _ in parts))
    except OverflowError:
        return math.inf


def _check_runs(parts: BitReleases, points: int) -> tuple[list[tuple[BitRegion, int]], int]:
    check_arithmetic()
    runs = []
    for region, count in parts:
        if not isinstance(region, BitRegion):
            raise InvalidInput("parts", region, "pairs (BitRegion, count)")
        if whole_number(count, "count", "a whole number of releases, at least 0", least=0):
            runs.append((region, count))
    return runs, whole_number(points, "points", "a whole number of grid points, at least 3", least=3)


def _check_work(work: float) -> None:
    if work > MAX_WORK:
        raise TooMuchWork(
            f"{work:.3g} updates exceed the limit of {MAX_WORK:.3g} for the exact adaptive composition of single bits. "
            "Use optimal_composition() or a PLD, which handle longer sequences, or fewer grid points."
        )


def _total(values: Array, step: float, runs: BitReleases) -> BitTotal:
    values.setflags(write=False)
    return BitTotal(step, values, all(region.guaranteed for region, _ in runs))
