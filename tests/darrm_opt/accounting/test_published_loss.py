"""A published loss: its bound by all numbers of voters, its steps, noise and quantile by their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.accounting import published_loss
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy

UNIT = 2.0**-9


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets names of the module, such as ULP."""

    def set_all(**values: Any) -> None:
        for name, value in values.items():
            monkeypatch.setattr(published_loss, name, value)

    return set_all


@for_each(
    ("bounds", "unit", "asked"),
    [
        ([1.0, 1, 1, 1, 1, 1, 1, 1, 2], 0.0, {0, 8}),  # half of the last is no more than the first
        ([1.0, 1, 1, 1, 1, 1, 1, 1, 2], UNIT, {0, 8, 4}),  # but for rounding
        ([1.0, 3, 3, 9, 30, 30, 30, 30, 30], UNIT, {0, 8, 4, 2, 3}),
        ([0.0, 0, 0, 0, 0, 0, 0, 0, 2], UNIT, {0, 8, 4, 6, 7}),
    ],
)
def test_the_smooth_bound_is_the_largest_of_all_voters_moved(bounds: list[float], unit: float, asked: set[int]) -> None:
    found: set[int] = set()

    def renyi(moved: int) -> float:
        found.add(moved)
        return bounds[moved]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published_loss, "ULP", unit)
        smooth = published_loss._smooth(renyi, 8, math.log(2))
    largest = max(bound / 2**moved for moved, bound in enumerate(bounds))
    assert smooth == pytest.approx(largest * (1 + 16 * unit), rel=1e-14)
    assert found == asked


@for_each(("smooth", "noise", "any_votes"), [(3.0, 7, 99.0), (0.2, -3, 99.0), (3.0, 70, 1.5)])
def test_what_is_published_is_a_quantile_above_the_noisy_steps(smooth: float, noise: int, any_votes: float) -> None:
    drawn: Any = SimpleNamespace(end=5, at_least=lambda k: np.array([0.5, 0.625, 0.75, 0.9, 0.99])[-k])
    batch: Any = SimpleNamespace(loss=lambda *_: None, renyi=lambda _: any_votes, epsilon=lambda _: 9.0)

    def epsilon(divergences: Array, *_: Any) -> tuple[float, float]:
        return float(divergences[0]), 0.0

    changes = {"ULP": UNIT, "STEPS": 10, "SMOOTHNESS": 0.5, "CONFIDENCE": 0.75, "LatticeNoise": lambda *_: drawn}
    changes |= {"smooth_loss": lambda *_: smooth, "_order_for": lambda *_: 4.0, "rdp_epsilon": epsilon}
    changes |= {"discrete_gaussian": lambda *_: noise, "gaussian_rdp": lambda *_: [0.125]}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(published_loss, name, value)
        found = published_loss.publish_loss(batch, np.zeros((1, 2), dtype=np.int64), 0.1)
    above = 1 + 8 * UNIT if smooth > 1 else 1 - 8 * UNIT
    steps = math.ceil(10 * math.log(smooth) / 0.5 * above) + 2 + noise  # 2 is the quantile
    renyi = min(any_votes, math.exp(0.05 * steps) * (1 + 16 * UNIT))
    assert (found.order, found.confidence, found.spent) == (4.0, 0.75, Privacy(0.125, 0.1))
    assert found.renyi == pytest.approx(renyi, rel=1e-14)
    assert found.epsilon == pytest.approx(min(renyi, 9.0), rel=1e-14)


def test_the_order_is_that_of_the_least_epsilon(move: Callable[..., None]) -> None:
    move(
        TRIED_ORDERS=(2.0, 3.0, 4.0),
        Reference=lambda *_: SimpleNamespace(renyi=max),
        _smooth=lambda *_: 1.0,
        rdp_epsilon=lambda _, __, orders: (abs(orders[0] - 3), orders[0]),
    )
    batch: Any = SimpleNamespace(K=3)
    assert published_loss._order_for(batch, 0.1, 0.5) == 3.0
