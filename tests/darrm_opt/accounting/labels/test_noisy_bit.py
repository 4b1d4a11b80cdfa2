"""Noisy bits: each step by its formula in plain loops, with large units of rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from support.cases import for_each

from darrm_opt.accounting.labels import noisy_bit
from darrm_opt.accounting.labels.power_divergence import gaussian_divergence, largest_loss_term
from darrm_opt.noise import Array

RNG = np.random.default_rng(3)

UNIT = 2.0**-9


@pytest.fixture(autouse=True)
def own_draws() -> None:
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state  # whichever tests ran before


def any_gradients(losses: Array, orders: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return irregular numbers of both signs, with visible errors."""
    x = losses * orders
    return (np.sin(3 * x), 0.3 + 0.2 * np.cos(5 * x)), (np.cos(7 * x), 0.4 + 0.3 * np.sin(9 * x))


def test_curvature_is_bounded_by_its_formula(move: Callable[..., None]) -> None:
    move(noisy_bit, ULP=UNIT, loss_gradients=any_gradients)
    n, cells, orders, norms, error = 60, 2, np.array([0.5, 1.5]), (1.3, 0.4), 0.05
    low = RNG.uniform(-1, 0.5, (n, cells))
    high = low + RNG.exponential(0.4, (n, cells))
    low[:6], high[6:12] = 0.0, 0.0  # a loss of 0 occurs only at the end of its range
    weights = RNG.exponential(1, (n, cells)) * RNG.choice([0.01, 1], (n, cells))
    bends = [[tuple(RNG.normal(0, 4, (2, n, cells))) for _ in range(2)] for _ in range(2)]
    found = noisy_bit.curvature_bound(low, high, weights, orders, norms, bends, error)
    (alone,) = noisy_bit.curvature_bound(low, high, weights, orders, norms)
    decides = set()
    for row, (place, a) in ((row, each) for row in range(n) for each in enumerate(orders)):
        first_squares = both_squares = largest = uncertain = 0.0
        known = np.zeros((2, 2))
        for c in range(cells):
            ends = [any_gradients(bound[row, c], a) for bound in (low, high)]
            A, wrong, B, more = (np.array([end[pair][part] for end in ends]) for pair in (0, 1) for part in (0, 1))
            first, both = max(abs(A)) + max(wrong), max(abs(B)) + max(more)
            first_squares += weights[row, c] * first**2
            both_squares += weights[row, c] * both**2
            largest, uncertain = max(largest, both), uncertain + error * (2 * first + both)
            top = 0.0 if low[row, c] < 0 < high[row, c] else max(B)
            for coordinate, family in np.ndindex(2, 2):
                d, e = (bend[row, c] for bend in bends[coordinate][family])
                known[coordinate, family] += abs(d) * max(wrong) - min(d * A)
                known[coordinate, family] += abs(e) * max(more) - (e * min(B) if e > 0 else e * top)
        unknown = norms[0] * math.sqrt(first_squares) + norms[1] * min(math.sqrt(both_squares), largest / 2)
        bounds = known.max(axis=1) + unknown + uncertain
        decides |= {math.sqrt(both_squares) < largest / 2, *(bounds < 0).tolist()}
        np.testing.assert_allclose(
            [each[row, place] for each in found], np.maximum(bounds, 0) * (1 + 64 * UNIT), rtol=1e-11
        )
        np.testing.assert_allclose(alone[row, place], unknown * (1 + 64 * UNIT), rtol=1e-11)
    assert decides == {True, False}


@for_each("bent", [0.0, 0.02])
def test_a_grid_is_bounded_by_its_points_and_the_curvature_between(bent: float) -> None:
    """First on long intervals, then between all points of those that may contain the largest value."""
    mu, error, slack, charge, step, orders = 0.4, 0.01, 0.03, 0.02, 0.3, np.array([0.5, 2.5])
    u, asked = np.linspace(-2.6, 3, 21), list[tuple[Array, ...]]()
    p, q = (np.stack([noisy_bit.normal_cdf(z), noisy_bit.normal_cdf(-z)], axis=1) for z in (u, u - mu))

    def curvature(low: Array, high: Array, weights: Array, *others: Any) -> list[Array]:
        assert others[0] is orders
        assert others[1:] == ((mu * math.sqrt(6), math.sqrt(2)),)
        asked.append((low, high, weights))
        return [bent * np.stack([low[:, 0] ** 2, high[:, 1] ** 2], axis=1)]

    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("ULP", UNIT), ("LONG_INTERVAL", 3), ("curvature_bound", curvature)):
            patch.setattr(noisy_bit, name, value)
        found = noisy_bit.values_on_grid(p, q, error, mu, orders, step=step, slack=slack, charge=charge)
    losses = np.log(q / p)
    margin = error + 4 * UNIT * (1 + np.abs(losses))
    first, second = (
        p[:, [c]] * (1 + error) * largest_loss_term((losses - margin)[:, [c]], (losses + margin)[:, [c]], orders)
        for c in (0, 1)
    )
    at_points = first + second
    steps = [[*range(0, 20, 3), 20]]
    for (lows, highs, weights), width in zip(asked, (3 * step, step), strict=True):
        ends = steps[-1]
        low, high = losses - margin - slack, losses + margin + slack
        np.testing.assert_allclose(lows, low[ends[:-1]], rtol=1e-13)
        np.testing.assert_allclose(highs, high[ends[1:]], rtol=1e-13)
        most = [[p[b, 0], max(p[a, 1], q[a, 1])] for a, b in pairwise(ends)]
        np.testing.assert_allclose(weights, np.array(most) * (1 + error + charge), rtol=1e-13)
        bend = bent * np.stack([low[ends[:-1], 0] ** 2, high[ends[1:], 1] ** 2], axis=1)
        tops = np.maximum(at_points[ends[:-1]], at_points[ends[1:]]) + width**2 / 8 * (1 + charge) * bend
        left = np.flatnonzero((tops >= at_points[ends].max(axis=0)).any(axis=1))
        steps.append([*range(ends[left[0]], ends[left[-1] + 1] + 1)])
    assert 0 < steps[1][0] < steps[1][-1] < 20
    np.testing.assert_allclose(found, tops.max(axis=0), rtol=1e-12)


@for_each(
    ("mean", "shift", "counts_decide"), [(-2.5, 0.9, False), (-0.6, -0.7, False), (0.3, 0.9, False), (4.0, 0.5, True)]
)
def test_noise_censored_by_a_threshold_is_charged_by_its_closed_form(
    mean: float, shift: float, counts_decide: bool
) -> None:
    orders = np.array([0.5, 0.8, 1.6, 3.5])
    tail = UNIT / 64
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noisy_bit, "ULP", UNIT / 64)
        patch.setattr(noisy_bit, "TAIL_ERROR", tail)
        found = noisy_bit.censored_divergence(mean, shift, orders)

    def normal(z: float) -> float:
        return math.erfc(-z / math.sqrt(2)) / 2

    chances = normal(-mean), normal(-mean - shift)
    loss, error = math.log(chances[1] / chances[0]), 2 * tail * (1 - math.log(chances[1]))
    for a, value in zip(orders.tolist(), found.tolist(), strict=True):
        terms = [
            (math.exp((1 - a) * x) - a + (a - 1) * math.exp(x)) / (a * (a - 1)) for x in (loss - error, loss + error)
        ]

        def power(x: float, a: float = a) -> float:
            """Return the densities to the powers a and 1 − a."""
            return math.exp(-(a * (x - mean) ** 2 + (1 - a) * (x - mean - shift) ** 2) / 2) / math.sqrt(2 * math.pi)

        parts = [quad(power, 0, 20, epsabs=0, epsrel=1e-13)[0], -a * normal(mean), (a - 1) * normal(mean + shift)]
        charge = (4 * tail + UNIT / 8 * abs(a * (a - 1)) * shift**2 / 2) * sum(map(abs, parts))
        exact = chances[0] * (1 + tail) * max(terms) + sum(parts) / (a * (a - 1)) + charge / abs(a * (a - 1))
        counts = float(gaussian_divergence(abs(shift), np.array([a]))[0])
        assert value == pytest.approx(min(exact, counts), rel=1e-11)
        assert (counts <= exact) == counts_decide


def test_a_bit_is_the_larger_of_grid_and_tails_and_ranges_include_their_ends(move: Callable[..., None]) -> None:
    move(noisy_bit, ULP=UNIT)
    assert noisy_bit.GRID[0] == -9
    assert noisy_bit.GRID[-1] >= 9
    assert np.diff(noisy_bit.GRID).max() <= noisy_bit.GRID_STEP * (1 + 2e-13)  # of 1e-4 of a bound, charged 16 ulps
    tails = {0.5: [2.0, 7.0, 1.0], -0.5: [6.0, 3.0, 1.0]}
    move(
        noisy_bit,
        values_on_grid=lambda *_: np.array([4.0, 4.0, 4.0]),
        censored_divergence=lambda mean, shift, _: np.array(tails[shift]) if mean == -9 else None,
    )
    orders = np.array([0.5, 1.5, 2.5])
    assert noisy_bit.bit_values(0.5, orders).tolist() == [6 * (1 + 16 * UNIT), 7 * (1 + 16 * UNIT), 4 * (1 + 16 * UNIT)]
    move(
        noisy_bit,
        MIN_SHIFT=0.5,
        MAX_SHIFT=0.5,
        MIN_DISTANCE_FROM_ONE=0.5,
        bit_values=lambda _, orders: np.ones(orders.size),
    )
    bound = noisy_bit.bit_divergence.__wrapped__(0.5)
    assert bound.method.startswith("noisy bit")
    # Λ = 0, 0.1, … over μ = ½: ½, 0.7, 0.9, 1.1, 1.3, then 1.5 and larger.
    assert bound.orders[:2].tolist() == [0.5, 1.5]
    for shift in (0.499, 0.501):
        assert noisy_bit.bit_divergence.__wrapped__(shift).method == "noisy counts"
