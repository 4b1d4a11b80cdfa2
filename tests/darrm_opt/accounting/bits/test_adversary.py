"""Adversary against bits: charges for rounding, one step against a plain loop, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.accounting.bits.adversary import (
    PAIRS_ROUNDING,
    POINTS,
    _backward_step,
    _moves,
    _moves_on_grid,
    attained_epsilon,
)
from darrm_opt.accounting.bits.region import inner_region
from darrm_opt.errors import InvalidInput
from darrm_opt.rounding import ULP

Q = 0.5
P = Q * (1 + 2.0**-20)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_rounding_is_charged_against_the_adversary(count: int) -> None:
    """At δ = 0 it accepts after ones only: ε is n·ln(p/q), small enough to show the charge subtracted from it."""
    attained = attained_epsilon([(inner_region([[P, Q]]), count)], 0.0, points=101)
    charged = 2 * 16 * ULP * (1 + count) + 16 * ULP + PAIRS_ROUNDING * count * 2.0**-20
    (p, _, q, _) = _moves(inner_region([[P, Q]]))[0]
    exact = count * math.log1p((p - q) / q)
    assert exact - attained == pytest.approx(charged, rel=0.04, abs=0)


def test_delta_is_subtracted_from_the_accepted_probability() -> None:
    region = inner_region([[0.6, 0.2]])
    for delta in (0.0, 0.1, 0.3):
        best = max(math.log((0.6 - delta) / 0.2), math.log((0.8 - delta) / 0.4))
        assert attained_epsilon([(region, 1)], delta) == pytest.approx(best * (1 - PAIRS_ROUNDING), rel=1e-12)
    assert attained_epsilon([(region, 1)], 0.45) == 0.0
    assert attained_epsilon([(region, 1)], 0.9) == 0.0
    assert attained_epsilon([], 0.1) == attained_epsilon([(region, 0)], 0.1) == 0.0
    assert attained_epsilon([(inner_region([[0.3, 0.0]]), 1)], 0.2) == math.inf
    assert attained_epsilon([(inner_region([[0.3, 0.0]]), 1)], 0.31) < math.inf
    assert attained_epsilon([(region, 3)], 0.1) == attained_epsilon([(region, 3)], 0.1, points=POINTS)
    for epsilon in (690.0, 30_000.0):  # a grid that ends above all doubles
        assert attained_epsilon([(inner_region([[0.6, 0.6 * math.exp(-epsilon)]]), 2)], 0.3) > 680
    assert attained_epsilon([(region, 3)], 0.1, points=3) <= attained_epsilon([(region, 3)], 0.1)


@pytest.mark.parametrize("delta", [1.0, -0.1, math.nan])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(InvalidInput, match=rf"^delta = {delta} is not valid: expected a probability in \[0, 1\)"):
        attained_epsilon([(inner_region([[0.6, 0.2]]), 1)], delta)


@for_each("points", [2, 2.5, True, "9"])
def test_points_out_of_range_are_refused(points: Any) -> None:
    said = rf"^points = {points!r} is not valid: expected a whole number of grid points, at least 3"
    with pytest.raises(InvalidInput, match=said):
        attained_epsilon([(inner_region([[0.6, 0.2]]), 1)], 0.1, points=points)


def test_moves_are_the_distinct_informative_pairs() -> None:
    region = inner_region([[0.6, 0.2], [0.2, 0.6], [0.4, 0.8], [0.5, 0.5]])
    found = [[round(each, 12) for each in move] for move in _moves(region)]
    assert found == [[0.6, 0.4, 0.2, 0.8], [0.8, 0.2, 0.4, 0.6]]


def plain_step(
    accepted: list[float], other: list[float], moves: list[list[float]], x: list[float], step: float
) -> tuple[list[float], list[float]]:
    """Return one step of the recursion by its definition, cell by cell."""
    last = len(x) - 1

    def stored(cell: int) -> tuple[float, float]:
        at = min(abs(cell), last)
        return (accepted[at], other[at]) if cell >= 0 else (1 - other[at], 1 - accepted[at])

    results = []
    for i, odds in enumerate(x):
        best, best_other = accepted[i], other[i]
        for p, p_rest, q, q_rest in moves:
            here = there = 0.0
            for a, b in ((p, q), (p_rest, q_rest)):
                if a > 0 == b:
                    here += a
                elif a > 0:
                    cell = i + math.floor(max(-2 * last, min(2 * last, math.log(b / a) / step)))
                    y = odds * (b / a)
                    gain, P, Q = max((P - y * Q, P, Q) for P, Q in (stored(cell), stored(cell + 1)))
                    if gain > 0:
                        here, there = here + a * P, there + b * Q
            if here - odds * there > best - odds * best_other:
                best, best_other = here, there
        results.append((best, best_other))
    return [each[0] for each in results], [each[1] for each in results]


@for_each("seed", range(6))
def test_one_step_is_that_of_the_plain_loop(seed: int) -> None:
    rng = np.random.default_rng((seed, 43))
    pairs = rng.random((4, 2)) ** 3
    pairs[0] = 1e-12, 1 - 1e-9  # beyond both ends of the grid
    if seed % 2:
        pairs[1] = 0.0, 0.3
    region, points, step = inner_region(pairs), int(rng.integers(3, 40)), float(rng.uniform(0.02, 0.4))
    x = np.exp(step * np.arange(points))
    on_grid = _moves_on_grid(region, x, step)
    accepted, other = np.sort(rng.random((2, points)), axis=0)[::-1]
    for _ in range(4):
        found = _backward_step(accepted, other, on_grid, x)
        expected = plain_step(accepted.tolist(), other.tolist(), _moves(region), x.tolist(), step)
        assert [each.tolist() for each in found] == [*expected]
        accepted, other = found
    for (certain, answers), (p, p_rest, q, q_rest) in zip(on_grid, _moves(region), strict=True):
        assert certain == (p if q == 0 else 0.0) + (p_rest if q_rest == 0 else 0.0)
        for answer in answers:
            assert (answer.a, answer.b) in ((p, q), (p_rest, q_rest))
            assert answer.y.tolist() == (x * (answer.b / answer.a)).tolist()
            assert answer.high == slice(answer.low.start + 1, answer.low.stop + 1)
