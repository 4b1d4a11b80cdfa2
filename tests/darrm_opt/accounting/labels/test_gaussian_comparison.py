"""The Gaussian comparison: its bounds by their formulas, and its searches by the values they evaluate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.accounting.labels import gaussian_comparison as comparison
from darrm_opt.accounting.labels.gaussian_comparison import GaussianCost
from darrm_opt.accounting.labels.power_divergence import gaussian_counts
from darrm_opt.noise import Array

UNIT = 2.0**-9


def increase(s: float, t: float, order: float, rounding: float) -> float:
    """Return J by its definition on intervals."""
    total, n = 0.0, comparison.SHIFT_INTERVALS
    for low, high in ((k * t / n, (k + 1) * t / n) for k in range(n)):
        middle, bends = (low + high) / 2, [s * r / (s + r) for r in (low, high)]
        exponent = min((order - 0.5) ** 2 * sum(bends) / 4 - middle / 8, comparison.MAX_EXPONENT)
        total += math.exp(exponent) * t / n / 2 / math.sqrt(1 + middle / s)
    return total * (1 - rounding)


def test_increases_and_last_orders_follow_their_formulas(move: Callable[..., None]) -> None:
    orders = np.array([0.5, 1.5, 60.0, 1e4])
    move(comparison, ROUNDING=UNIT)
    for s, t in ((0.3, 0.1), (2.0, 0.01)):
        exact = [increase(s, t, order, UNIT) for order in orders.tolist()]
        np.testing.assert_allclose(comparison.gaussian_increase(s, t, orders), exact, rtol=1e-12)
    for unit, s, slack in ((0.1, 0.5, 1e-9), (0.02, 0.05, 1e-3)):
        # n_s·H is the slack: −sb²/2 + b(b + 1)μ²/2 = ln(η·2√(2πs)/μ²)
        (root,) = (
            each
            for each in np.roots([(unit - s) / 2, unit / 2, -math.log(slack * 2 * math.sqrt(2 * math.pi * s) / unit)])
            if each > 0
        )
        excess = (comparison.last_order(unit, s, slack) - 1) / root - 1
        assert 0.99e-9 < excess < 1.01e-9


@for_each("within_gaussian", [True, False])
@for_each("proved", ["few", "all", "none"])
def test_an_increment_is_searched_at_the_most_demanding_orders_and_proved_at_all_orders(
    within_gaussian: bool, proved: str
) -> None:
    shares, asked, unit, s = np.array([0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1]), list[Any](), 0.25, 1.25
    orders = 0.5 + 4 * shares
    values = np.array([0.04, 0.05, 0.06, 0.3, 0.2, 1.0, 0.7]) / 3
    release: Any = SimpleNamespace(
        shift=math.sqrt(unit), within_gaussian=within_gaussian, at=lambda at: values * np.all(at == orders[1:])
    )
    required = values * (1 + UNIT)

    def search(*of: Any) -> float:
        asked.append(of)
        return float(len(asked))

    def increased(_: float, t: float, __: Array) -> Array:
        return required * (1 if t >= {"few": 1, "all": 2, "none": 3}[proved] else 0.999)

    with pytest.MonkeyPatch.context() as patch:
        changes = {"_SHARES": shares, "BINDING": 2, "ROUNDING": UNIT, "last_order": lambda *_: 4.5}
        for name, value in {**changes, "_least_increase": search, "gaussian_increase": increased}.items():
            patch.setattr(comparison, name, value)
        found = comparison._increment(release, s, 1e-9)
    most = unit if within_gaussian else 2 * unit
    assert found == {"few": 1.0, "all": 2.0, "none": unit if within_gaussian else math.inf}[proved]
    t = 0.0
    for _ in range(3):
        needed = []
        for a, value in zip(orders[:-1].tolist(), required.tolist(), strict=True):
            c = ((a - 0.5) ** 2 * s / (s + t) - 0.25) / 2
            c = c if abs(c) >= 1e-9 else 1e-9  # the second order, 1, at first
            needed.append(math.log1p(max(2 * c * value * math.sqrt(1 + t / s / 2), -0.5)) / c)
        t = min(most, max(needed))
    for (required_there, at, *others), places in zip(asked, (np.argsort(needed)[-2:], np.arange(7)), strict=False):
        assert sorted(at.tolist()) == orders[:-1][np.sort(places)].tolist()
        assert sorted(required_there.tolist()) == pytest.approx(sorted(required[places].tolist()), rel=1e-14)
        assert others == [s, pytest.approx(t, rel=1e-12), most]
        t = 1.0  # the result of the first search
    assert len(asked) == (1 if proved == "few" else 2)


P = 0.25
STEP = 1 + P / 4


@for_each(
    ("bound", "t", "most", "precision", "expected", "found"),
    [
        # 1/J and the values tried: after two steps J = t² is a known power; the third is (1 + P/4) times the root
        (lambda t: t**2, 0.25, 100.0, P, [0.25, 4 * STEP, 4 * STEP * (4 * STEP) ** -1 * STEP], STEP),
        (lambda t: 4 / 3 + 0 * t, 1.0, 2.0, P, [1.0], 1.0),  # above by exactly the precision
        (lambda t: t, 1.0, 2.0, 0.0, [1.0], 1.0),  # the least value itself
        (lambda t: t / 1000, 2.0, 2.0, 0.0, [2.0], 2.0),  # none up to the largest
        (lambda t: t / 1000, 1.0, 2.0, P, [1.0, 1.5], 2.0),  # bisection until close enough
        (lambda t: t / 4, 1.0, 4.0, 0.0, [1.0, 2.5], None),  # an end is not evaluated
        (lambda t: 0.5 if t == 1 else 2.0**16, 1.0, 4.0, 0.0, [1.0, 2.0, 1.5], None),  # steps of at most the 16th power
        (lambda t: max(0.0, t - 1), 0.5, 4.0, 0.0, [0.5, 2.25, 1.8, 1.8 * 1.25**0.5], None),  # no bound
        (lambda t: 10 * max(0.0, t - 1), 3.5, 4.0, 0.0, [3.5, 3.5 / 25, (3.5 + 3.5 / 25) / 2], None),
        (lambda t: 1 / (t < 1.5), 1.0, 4.0, P, [1.0], 1.0),
        (lambda t: 1e250 if t == 1 else 1e-100, 1.0, 4.0, P, [1.0, 1e-250 * STEP], None),  # a quotient below 1e-308
        (lambda t: 1.01 * t**0.25, 0.5, 4.0, P, [0.5, 0.5 / (1.01 * 0.5**0.25) * STEP], None),
    ],
)
def test_the_least_increase_is_approached_by_powers(
    bound: Callable[[float], float], t: float, most: float, precision: float, expected: list[float], found: float | None
) -> None:
    asked: list[float] = []

    def increased(_: float, t: float, __: Array) -> Array:
        asked.append(t)
        return np.array([bound(t), 0.0])  # a divergence of 0 needs no increase

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "PRECISION", precision)
        patch.setattr(comparison, "gaussian_increase", increased)
        result = comparison._least_increase(np.array([1.0, 0.0]), np.zeros(2), 1.0, t, most)
    assert asked[: len(expected)] == pytest.approx(expected, rel=1e-12)
    if found is not None:
        assert result == pytest.approx(found, rel=1e-12)
        assert len(asked) == len(expected)


class Falling(comparison._Increments):
    """Given increments, at s = position."""

    def __init__(self, values: Callable[[int], float], stride: int = 1) -> None:
        super().__init__(gaussian_counts(0.5), 1e-3, stride)
        self.values = values

    def at(self, position: int) -> tuple[float, float]:
        return float(position), self.values(position)


@for_each(
    ("values", "stride", "knots"),
    [
        # Twice as far while nothing falls; then as far as a fall of 1/16, and never more than twice that
        (lambda n: min(1.0, 1 - (n - 20) / 64), 1, [3, 4, 6, 10, 18, 26, 31, 34, 37, 40]),
        (lambda n: 1.0 if n < 34 else 0.875, 1, [3, 4, 6, 10, 18, 34, 42]),
        (lambda n: 1.0 if n < 34 else 0.874, 1, [3, 4, 6, 10, 18, 26, 30]),
        (lambda n: 0.5**n, 3, [3, 6, 9, 12]),
        (lambda n: math.inf if n < 9 else 1.0, 1, [3, 4, 5, 6, 7, 8, 9, 10, 12, 16]),
    ],
)
def test_the_spacing_of_grid_points_follows_the_fall_of_increments(
    values: Callable[[int], float], stride: int, knots: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "DROP", 1 / 16)
        increments = Falling(values, stride)
        found = list(islice(increments.from_position(3), len(knots)))
        assert [s for s, _ in found] == knots
        assert [s for s, _ in islice(increments.from_position(knots[2]), 2)] == knots[2:4]


@for_each(("start", "charged"), [(0.0, 6), (0.25, 10)])
def test_the_bound_is_charged_for_its_tails(start: float, charged: int) -> None:
    """Two releases up to s = 2, two up to 4, and six at half; noisy counts from s = 0 need no proof."""
    points = [(2.0, 1.0), (4.0, 0.5), (8.0, 0.25)]

    def from_position(position: int) -> Iterator[tuple[float, float]]:
        yield from points[position:]
        raise AssertionError("asked beyond the last release")

    increments: Any = SimpleNamespace(from_position=from_position, slack=1e-3)
    found = comparison._accumulated(start, 1.0, increments, 0, 10)
    assert found.variance == pytest.approx(start + 7, rel=1e-14)
    assert found.slack == pytest.approx(charged * 1e-3, rel=1e-14)


def test_unlimited_losses_have_no_bound_and_others_start_at_a_grid_point(move: Callable[..., None]) -> None:
    for within in (True, False):
        unlimited = gaussian_counts(math.inf, within_gaussian=within)
        assert comparison.gaussian_cost.__wrapped__(unlimited, 3, 1e-9) == GaussianCost(math.inf, 0.0)
    asked = list[Any]()

    def accumulated(*of: Any) -> GaussianCost:
        asked.append(of)
        return GaussianCost(of[0], 0.0)

    move(comparison, _increment=lambda _, s, __: s, _accumulated=accumulated)
    release = gaussian_counts(0.5, within_gaussian=False)
    found = comparison.gaussian_cost.__wrapped__(release, 7, 1e-9)
    starts = [0.25 * 2 * 1.05**position for position in comparison.HEAD_STARTS]
    assert [of[:2] for of in asked] == [(pytest.approx(s), pytest.approx(s)) for s in starts]
    assert [of[3:] for of in asked] == [(position + 1, 7) for position in comparison.HEAD_STARTS]
    assert found.variance == asked[0][0]
