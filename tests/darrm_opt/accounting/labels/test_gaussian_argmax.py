"""Three cells of Gaussian noise: each step by its formula, with artificial laws and large units of rounding."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from darrm_opt.accounting.labels import gaussian_argmax
from darrm_opt.accounting.labels.gaussian_argmax import CORNERS, CellFamily
from darrm_opt.accounting.labels.power_divergence import largest_loss_term
from darrm_opt.noise import Array

RNG = np.random.default_rng(5)

UNIT = 2.0**-9


@pytest.fixture(autouse=True)
def own_draws() -> None:
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state  # whichever tests ran before


def test_bends_are_second_derivatives() -> None:
    alpha, beta = RNG.uniform(-1.5, 3, (2, 50))
    step = 2.0**-10
    here = gaussian_argmax.cell_probabilities(alpha, beta)
    ((along, across),) = gaussian_argmax.cell_bends(alpha, beta)
    for bend, (da, db) in ((along, (step, 0.0)), (across, (0.0, step))):
        near = [gaussian_argmax.cell_probabilities(alpha + sign * da, beta + sign * db) for sign in (1, -1)]
        np.testing.assert_allclose((near[0] + near[1] - 2 * here) / step**2, bend, atol=2e-6)


def test_bounds_of_cells_include_their_errors(move: Callable[..., None]) -> None:
    move(gaussian_argmax, ULP=UNIT)
    relative, absolute = np.array([0.0, 0.0, 0.25]), np.array([0.125, 0.125, 0.0])
    move(gaussian_argmax, _RELATIVE_ERROR=relative, _ABSOLUTE_ERROR=absolute)
    alpha, beta = np.array([0.5, 6.0]), np.array([1.0, -3.0])
    cells = gaussian_argmax.cell_probabilities(alpha, beta)
    family = gaussian_argmax.gaussian_cells(4.0)
    ((below, above),) = family.bounds(alpha, beta)
    np.testing.assert_allclose(above, cells * (1 + relative) + absolute, rtol=1e-15)
    np.testing.assert_allclose(below, np.maximum(cells * (1 - relative) - absolute, 1e-200), rtol=1e-15)
    np.testing.assert_allclose(family.another(alpha, beta), cells[:, 2] * 1.25, rtol=1e-13)
    assert [gaussian_argmax.least_mean(sigma) for sigma in (1.0, 4.0)] == [-1.0, -1.5]


def test_outside_the_triangle_a_bit_and_rare_events_are_charged(move: Callable[..., None]) -> None:
    move(gaussian_argmax, ULP=UNIT)
    orders, sigma = np.array([0.5, 0.75, 1.5, 3.0]), 1.25
    rows = {0.8: np.array([1.0, 5, 1, 5]), -0.8: np.array([3.0, 2, 3, 2])}
    bits = {0.8: np.array([7.0, 1, 9, 2]), math.sqrt(2) * 0.8: np.array([2.0, 9, 3, 200])}
    move(
        gaussian_argmax,
        bit_values=lambda mu, _: bits[mu],
        censored_divergence=lambda mean, shift, _: rows[shift] if mean == -1.2 else None,
        gaussian_divergence=lambda mu, _: 1e6 * mu * np.arange(4.0),
        MAX_SUM=6.0,
    )
    tail = np.array([3.0, 5, 3, 5])
    rare = np.where(orders > 1, 1 + orders * (orders - 1) * tail, 1) * bits[0.8] + tail
    third = bits[math.sqrt(2) * 0.8] + math.erfc(3) / 2 * 1e6 * math.sqrt(2) * 0.8 * np.arange(4)
    assert 0 < np.count_nonzero(rare > third) < 4
    found = gaussian_argmax._outside(sigma, orders)
    np.testing.assert_allclose(found, np.maximum(rare, third) * (1 + 64 * UNIT), rtol=1e-12)


def test_the_range_of_noise_includes_its_ends(move: Callable[..., None]) -> None:
    move(
        gaussian_argmax,
        ULP=UNIT,
        MIN_SIGMA=2.0,
        MAX_SIGMA=2.0,
        _outside=lambda *_: 0.0,
        largest_in_boxes=lambda *of, **_: np.ones(of[1].size),
    )
    found = gaussian_argmax.label_divergence.__wrapped__(2.0)
    assert found.method == "three cells: boxes in two parameters"
    assert found.shift == math.sqrt(2) / 2.0 * (1 + 4 * UNIT)
    for sigma in (1.99, 2.01):
        assert gaussian_argmax.label_divergence.__wrapped__(sigma).method == "noisy counts"


def any_family() -> CellFamily:
    """Return irregular laws for two ways of breaking ties, on a lattice."""

    def laws(alpha: Array, beta: Array, shift: float) -> Array:
        x = np.stack([alpha + shift, 2 * beta - shift, alpha - beta], axis=1)
        return np.asarray(0.3 + 0.2 * np.sin(3 * x))

    return CellFamily(
        lambda alpha, beta: [(0.9 * laws(alpha, beta, s), 1.1 * laws(alpha, beta, s)) for s in (0.0, 2.0)],
        lambda alpha, beta: 0.3 + 0.2 * np.cos(alpha + 3 * beta),
        lambda alpha, beta: [(laws(alpha, beta, s), laws(beta, alpha, s)) for s in (4.0, 5.0)],
        *(-1.0, 0.5, 0.25, UNIT),
    )


def test_laws_of_boxes_are_those_of_their_corners(move: Callable[..., None]) -> None:
    move(gaussian_argmax, ULP=UNIT)
    family, side, h, orders, asked = any_family(), 0.25, 0.3, np.array([0.5, 2.5]), list[Any]()

    def curvature(*of: Any) -> list[Array]:
        asked.append(of)
        return [np.stack([of[0][:, 0] ** 2, of[1][:, 1] ** 2], axis=1) for _ in range(2)]

    move(gaussian_argmax, curvature_bound=curvature)
    i, j = RNG.integers(0, 12, (2, 40))
    boxes, rows = gaussian_argmax._BoxLaws(i, j, side, h, family), np.arange(39, 2, -2)
    values, bounds = boxes.divergences(rows, orders)
    ((low, high, weights, _, norms, bends, error),) = asked
    slack = gaussian_argmax.LATTICE_VARIANCE * family.spacing**2 * h * 2 * side
    assert (norms, error) == ((side * h * math.sqrt(13), side * math.sqrt(2)), gaussian_argmax.BEND_ERROR)
    for place, row in enumerate(rows.tolist()):

        def means(di: float, dj: float, row: int = row) -> tuple[Array, Array]:
            return np.array([-1.0 + side * (i[row] + di)]), np.array([-1.0 + side * (j[row] + dj)])

        laws = {}
        for corner in CORNERS:
            alpha, beta = means(*corner)
            pairs = zip(family.bounds(alpha, beta), family.bounds(alpha - h, beta + h), strict=True)
            laws[corner] = [[law[0] for law in (*p, *q)] for p, q in pairs]  # least and largest p, least and largest q
        lows = np.min([np.log(q_least / p) for _, p, q_least, _ in laws[0, 1]], axis=0) - slack
        highs = np.max([np.log(q / p_least) for p_least, _, _, q in laws[1, 0]], axis=0) + slack
        np.testing.assert_allclose([low[place], high[place]], [lows, highs], rtol=1e-12)
        alpha, beta = means(0, 0)
        most = [max(p[0] for _, p, _, _ in laws[1, 0]), max(q[1] for _, _, _, q in laws[0, 1])]
        most.append(family.another(alpha - h, beta)[0])
        np.testing.assert_allclose(weights[place], np.array(most) * (1 + UNIT), rtol=1e-14)
        alpha, beta = means(0.5, 0.5)
        for way, (here, there) in enumerate(
            zip(family.bends(alpha, beta), family.bends(alpha - h, beta + h), strict=True)
        ):
            for axis in range(2):
                difference, second = (each[place] for each in bends[axis][way])
                np.testing.assert_allclose(second, there[axis][0], rtol=1e-12)
                np.testing.assert_allclose(difference, (here[axis] - there[axis])[0], rtol=1e-9, atol=1e-14)
        corners = np.zeros((4, 2))
        for n, corner in enumerate(CORNERS):
            for p_least, p, q_least, q in laws[corner]:
                terms = largest_loss_term(
                    np.log(q_least / p)[:, np.newaxis], np.log(q / p_least)[:, np.newaxis], orders
                )
                corners[n] = np.maximum(corners[n], (p[:, np.newaxis] * terms).sum(axis=0))
        np.testing.assert_allclose(values[place], corners.max(axis=0), rtol=1e-12)
        bend = side**2 * (1 + UNIT) * np.array([low[place, 0] ** 2, high[place, 1] ** 2])
        exact = gaussian_argmax._largest_on_squares(corners[:, np.newaxis], bend[np.newaxis], bend[np.newaxis])
        np.testing.assert_allclose(bounds[place], exact[0] * (1 + 64 * UNIT), rtol=1e-12)
    assert gaussian_argmax._largest_between(np.ones(1), np.ones(1), np.zeros(1)) == 1.0  # no slope, no curvature


class AnyBoxes:
    """Replaces `_BoxLaws`: multiples of 1/8, larger if both means are near 1, and on larger boxes."""

    def __init__(self, i: Any, j: Any, side: float, *_: object) -> None:
        x, y = ((np.asarray(index) + 0.5) * side - 2.5 for index in (i, j))
        self.peak = np.maximum(0.0, 24 - np.round(3 * (abs(x) + abs(y)))) / 8
        self.side = side

    def divergences(self, rows: Any, orders: Array) -> tuple[Array, Array]:
        values = self.peak[rows][:, np.newaxis] * np.where(orders < 2, 1.0, 0.5)
        return values, values + self.side / 2


@pytest.mark.parametrize("most", [1000, 4 * 12, 4 * 12 - 1])
def test_boxes_are_refined_until_none_raises_the_bound(move: Callable[..., None], most: int) -> None:
    """Against a loop over the boxes of each group of orders."""
    move(gaussian_argmax, ULP=UNIT, MAX_SUM=3.0, MAX_BOXES=most, ORDER_GROUPS=2, _BoxLaws=AnyBoxes)
    orders, least, sigma, tolerance = np.array([3.0, 4.5, 0.5, 1.5]), np.array([1.625, 0.5, 9.0, 0.5]), 2.0, 0.015
    family = dataclasses.replace(any_family(), least=-1.5, side=0.5)
    found = gaussian_argmax.covering_boxes(sigma, orders, tolerance, family, least=least, groups=2)
    distance = tolerance * np.exp(2 * np.maximum(0.0, (orders - 0.5) / sigma * math.sqrt(2) - 1))
    counts, best = [], least.copy()
    for part in ([0, 1], [2, 3]):
        side, boxes, largest = 0.5, [(i, j) for i, j in product(range(12), repeat=2) if -3 + (i + j) / 2 <= 3.0], 0.0
        expected = []
        while boxes:
            values, bounds = AnyBoxes(*np.transpose(boxes), side).divergences(np.arange(len(boxes)), orders[part])
            largest = np.maximum(largest, values.max(axis=0))
            limit = np.maximum(largest * (1 + distance[part]), least[part])
            open_boxes = [box for box, bound in zip(boxes, bounds, strict=True) if np.any(bound > limit)]
            counts.append(len(open_boxes))
            if 4 * len(open_boxes) > most:
                open_boxes = []
            kept = [(box, bound) for box, bound in zip(boxes, bounds.tolist(), strict=True) if box not in open_boxes]
            expected += [(side, *box, *bound) for box, bound in kept]
            best[part] = np.max([best[part], *(bound for _, bound in kept)], axis=0)
            boxes, side = [(2 * i + di, 2 * j + dj) for i, j in open_boxes for di, dj in CORNERS], side / 2
        listed = [
            (each.side, *box)
            for each in found
            if each.part.tolist() == part
            for box in zip(each.i.tolist(), each.j.tolist(), *each.bounds.T.tolist(), strict=True)
        ]
        assert sorted(listed) == sorted(expected)
    assert max(counts) == 12
    assert gaussian_argmax.largest_in_boxes(sigma, orders, tolerance, family, least=least).tolist() == best.tolist()
