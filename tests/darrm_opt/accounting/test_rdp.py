"""Rényi differential privacy: conversions exceed their formulas in ball arithmetic by the charge for rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting import rdp as rdp_module
from darrm_opt.accounting.rdp import ORDERS, Conversion, gaussian_rdp, gaussian_rdp_epsilon, rdp_delta, rdp_epsilon
from darrm_opt.errors import InvalidInput
from darrm_opt.rounding import ULP

flint = pytest.importorskip("flint")
ALPHAS = (1 + ULP, 1 + 1e-9, 1.001, 1.5, 2.0, 7.3, 400.0, 1e5, 1e12)
LEAST = math.ulp(0.0)


def ball(value: float) -> Any:
    flint.ctx.prec = 500
    return flint.arb(value)


def charged(found: float, exact: Any, charge: Any) -> bool:
    """Return whether ``found`` exceeds the exact value by the charge for rounding, within two fifths."""
    return bool(0.6 * charge <= ball(found) - exact <= 1.4 * charge)


def test_the_orders_are_those_of_the_documentation() -> None:
    orders = rdp_module.ORDERS
    assert orders.size == 400
    assert (orders[0], orders[199], orders[200], orders[-1]) == (1.001, 10.0, 10.5, 1e5)
    steps = np.diff(np.log(orders - 1))
    assert np.ptp(steps[:199]) < 1e-9
    assert np.ptp(np.diff(np.log(orders[200:]))) < 1e-9
    assert max(steps.max(), np.diff(np.log(orders)).max()) < math.log(1.06)
    assert not orders.flags.writeable
    assert gaussian_rdp(1.0).size == orders.size


@for_each(
    ("sigma", "sensitivity"),
    [(0.7, 1.0), (21.46, 2**0.5), (1e-100, 1.0), (1e-3, 1e-160), (1e200, 1.0), (1e300, 1e-300), (3e5, LEAST)],
)
def test_a_gaussian_divergence_is_just_above_its_formula(sigma: float, sensitivity: float) -> None:
    for alpha, found in zip(ALPHAS, gaussian_rdp(sigma, ALPHAS, sensitivity).tolist(), strict=True):
        exact = ball(alpha) * (ball(sensitivity) / ball(sigma)) ** 2 / 2
        assert found >= exact
        assert charged(found, exact, 8 * exact * ULP) or (exact < 1e-300 and found < alpha * 1e-307)
    assert gaussian_rdp(sigma, ALPHAS, 0.0).tolist() == [0.0] * len(ALPHAS)
    assert gaussian_rdp(sigma).tolist() == gaussian_rdp(sigma, ORDERS, 1.0).tolist()
    assert gaussian_rdp(1e-200, [2.0]).tolist() == [math.inf]


@for_each("alpha", ALPHAS)
@for_each("divergence", [0.0, 1e-7, 0.4, 30.0])
def test_an_epsilon_is_just_above_its_formula(alpha: float, divergence: float) -> None:
    for delta in (1e-300, 1e-5, 0.3, 0.999):
        a = ball(alpha)
        slope = -ball(delta).log() / (a - 1)
        tight = (1 - 1 / a).log() - a.log() / (a - 1)
        corrections: dict[Conversion, Any] = {"tight": tight, "standard": ball(0.0)}
        for conversion, correction in corrections.items():
            exact = divergence + slope + correction
            charge = 8 * ULP * (1 + a / (a - 1)) * (divergence + slope + abs(correction) + 1)
            found, order = rdp_epsilon([divergence], delta, [alpha], conversion=conversion)
            assert order == alpha
            if exact + charge > 2 * charge:
                assert charged(found, exact, charge + 8 * exact * ULP)
            else:
                assert found <= exact + 3 * charge or found == 0
            assert found >= exact
        assert rdp_epsilon([divergence], delta, [alpha]) == rdp_epsilon(
            [divergence], delta, [alpha], conversion="tight"
        )


@for_each("alpha", ALPHAS)
@for_each("divergence", [0.0, 1e-7, 0.4, 30.0])
def test_a_delta_is_just_above_its_formula(alpha: float, divergence: float) -> None:
    for epsilon in (0.0, 1e-3, 2.0, 31.0, 700.0):
        a = ball(alpha)
        exponent = (a - 1) * (divergence - ball(epsilon) + (1 - 1 / a).log()) - a.log()
        charge = 8 * ULP * (a * (divergence + epsilon + 1) + a.log())
        found, order = rdp_delta([divergence], epsilon, [alpha])
        assert order == alpha
        if exponent + 2 * charge < 0:
            exact = exponent.exp()
            assert ball(found) >= exact
            charge += 8 * ULP
            assert ball(found) >= (exponent + 0.8 * charge).exp()
            assert ball(found) <= (exponent + 1.2 * charge + 2 * ULP).exp() + 2 * ball(LEAST)
        else:
            assert found == 1.0 or ball(found) >= exponent.exp()
    assert rdp_delta([30.0], 1.0, [2.0]) == (1.0, 2.0)


def test_the_best_order_is_used() -> None:
    curve = gaussian_rdp(3.0, [2.0, 15.0, 40.0])
    alone = [rdp_epsilon([each], 1e-5, [order]) for each, order in zip(curve, (2.0, 15.0, 40.0), strict=True)]
    assert rdp_epsilon(curve, 1e-5, [2.0, 15.0, 40.0]) == min(alone) == alone[1]
    small = [rdp_delta([each], 1.4, [order]) for each, order in zip(curve, (2.0, 15.0, 40.0), strict=True)]
    assert rdp_delta(curve, 1.4, [2.0, 15.0, 40.0]) == min(small) == small[1]
    assert rdp_epsilon([math.inf, 1.0], 1e-5, [2.0, 3.0])[1] == 3.0
    assert rdp_delta([math.inf, 1.0], 3.0, [2.0, 3.0])[1] == 3.0
    assert rdp_epsilon([math.inf], 1e-5, [2.0]) == (math.inf, 2.0)
    assert rdp_delta([math.inf], 3.0, [2.0]) == (1.0, 2.0)
    assert rdp_epsilon([0.0], 0.9, [1e5]) == (0.0, 1e5)
    whole = gaussian_rdp(3.0)
    assert rdp_epsilon(whole, 1e-5) == rdp_epsilon(whole, 1e-5, ORDERS)
    assert rdp_delta(whole, 1.4) == rdp_delta(whole, 1.4, ORDERS)


@for_each("sigma", [0.3, 20.0, 1e150, 1e200])
def test_the_best_real_order_is_just_above_its_formula(sigma: float) -> None:
    for k, sensitivity, delta in ((1, 1.0, 1e-5), (50, 2**0.5, 1e-300), (10**6, 3.0, 0.9)):
        rho = ball(0) + flint.arb(k) * (ball(sensitivity) / ball(sigma)) ** 2 / 2
        exact = rho + 2 * (-rho * ball(delta).log()).sqrt()
        found = gaussian_rdp_epsilon(sigma, k, delta, sensitivity)
        assert found >= exact
        assert exact < 1e-140 or charged(found, exact, 20 * exact * ULP) or found == math.inf
    assert gaussian_rdp_epsilon(sigma, 3, 0.1) == gaussian_rdp_epsilon(sigma, 3, 0.1, 1.0)
    assert gaussian_rdp_epsilon(sigma, 0, 0.1) == gaussian_rdp_epsilon(sigma, 3, 0.1, 0.0) == 0.0


def test_the_epsilon_of_too_many_gaussians_is_infinite() -> None:
    assert gaussian_rdp_epsilon(1.0, 10**400, 0.1) == math.inf
    assert gaussian_rdp_epsilon(1e-200, 1, 0.1) == math.inf
    assert gaussian_rdp_epsilon(1e-200, 0, 0.1) == 0.0


@for_each(
    ("argument", "values", "accepted"),
    [
        ("sigma", [0.0, -1.0, math.inf, math.nan, "1"], "a finite standard deviation above 0"),
        ("sensitivity", [-1.0, math.inf, math.nan, "1"], "a finite distance, at least 0"),
        ("k", [-1, 1.5, math.inf, "3", True], "a whole number of mechanisms, at least 0"),
        ("delta", [0.0, 1.0, -0.5, math.nan], "a probability above 0 and below 1"),
    ],
)
def test_numbers_out_of_range_are_refused(argument: str, values: list[Any], accepted: str) -> None:
    good = {"sigma": 1.0, "k": 0, "delta": 0.1, "sensitivity": 1.0}
    for value in values:
        with pytest.raises(InvalidInput, match=rf"^{argument} = {value!r} is not valid: expected {accepted}"):
            gaussian_rdp_epsilon(**(good | {argument: value}))
    for epsilon in (-1.0, math.inf, math.nan):
        with refused("epsilon"):
            rdp_delta([1.0], epsilon, [2.0])
    for delta in (0.0, 1.0, -0.5, math.nan):
        with pytest.raises(
            InvalidInput, match=rf"^delta = {delta} is not valid: expected a probability above 0 and below"
        ):
            rdp_epsilon([1.0], delta, [2.0])
    unknown: Any = "best"
    with refused("conversion", "'best'"):
        rdp_epsilon([1.0], 0.1, [2.0], conversion=unknown)


@for_each("orders", [[1.0], [0.5], [math.inf], [math.nan], [], [[2.0, 3.0]], 2.0, [2.0, 1.0]])
def test_orders_out_of_range_are_refused(orders: Any) -> None:
    said = r"^orders = .* is not valid: expected orders, each a finite number above 1"
    for refuses in (lambda: gaussian_rdp(1.0, orders), lambda: rdp_delta(np.ones_like(orders), 1.0, orders)):
        with pytest.raises(InvalidInput, match=said):
            refuses()


@for_each("rdp", [[1.0], [1.0, -0.1], [1.0, math.nan], [[1.0, 1.0]], []])
def test_divergences_of_another_shape_are_refused(rdp: Any) -> None:
    with refused("rdp"):
        rdp_epsilon(rdp, 1e-5, [2.0, 3.0])
