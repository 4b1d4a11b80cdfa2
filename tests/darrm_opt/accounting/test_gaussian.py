"""Gaussian mechanism: the profile exceeds that of ball arithmetic by the charge for rounding and no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.cases import for_each

from darrm_opt.accounting.gaussian import (
    ERFCX_ULPS,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_epsilon_tail,
    positive_delta,
)
from darrm_opt.errors import InvalidInput
from darrm_opt.rounding import ULP

flint = pytest.importorskip("flint")
LEAST = math.ulp(0.0)


def ball(value: float) -> Any:
    flint.ctx.prec = 1200
    return flint.arb(value)


def hold(comparison: Any, mu: float, at: float, found: float, exact: Any) -> None:
    """Fail with the numbers: pytest prints each ball with hundreds of digits."""
    holds = bool(comparison)
    assert holds, f"mu = {mu!r}, at {at!r}: found {found!r}, exact {float(exact.mid())!r}"


def scaled_tail(z: Any) -> Any:
    """Return e^(z²/2)·Φ(−z) in ball arithmetic, for large z by its asymptotic series."""
    if z < 1e8:
        return (z * z / 2).exp() * (z / ball(2).sqrt()).erfc() / 2
    return (1 - 1 / (z * z)) / (z * (2 * flint.arb.pi()).sqrt())


def profile(mu: float, epsilon: float) -> tuple[Any, Any, Any]:
    """Return the exact (δ, Φ(−z₁), e^ε Φ(−z₂)), the last two of which differ by δ."""
    near, far = (ball(epsilon) / ball(mu) + sign * ball(mu) / 2 for sign in (-1, 1))
    first = (near / ball(2).sqrt()).erfc() / 2
    second = scaled_tail(far) * (-near * near / 2).exp()
    return first - second, first, second


def charge(mu: float, epsilon: float) -> Any:
    """Return the charge for rounding by the comments of `gaussian_delta`, from the exact values."""
    delta, first, second = profile(mu, epsilon)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near >= 0:
        of_erfcx = ERFCX_ULPS + 8 + 4 * far / max(near, 1.0)
        return (of_erfcx * first + (16 + 4 * near * far) * delta) * ULP
    return ((ERFCX_ULPS + 4 * far) * first + (ERFCX_ULPS + 16 - 4 * near * far) * second + 8 * delta) * ULP


@for_each("mu", [1e-3, 0.07, 0.9, 1.0, 3.0, 40.0, 900.0, 3e5, 1e9, 1e12])
def test_the_profile_exceeds_the_exact_one_by_the_charge(mu: float) -> None:
    """SciPy's functions err by far less than the `ERFCX_ULPS` charged for them."""
    for z in (-30.0, -6.0, -1.5, -0.3, -1e-9, 0.01, 0.4, 0.9, 1.3, 2.5, 7.0, 25.0):
        epsilon = mu * (z + mu / 2)
        if epsilon >= 0:
            found, (exact, _, _), charged = gaussian_delta(mu, epsilon), profile(mu, epsilon), charge(mu, epsilon)
            if found < 1:
                excess = ball(found) - exact
                hold(0.6 * charged <= excess, mu, epsilon, found, exact)
                hold(excess <= 1.4 * charged + 3 * ball(LEAST), mu, epsilon, found, exact)
            else:
                hold(exact + 1.4 * charged >= 1, mu, epsilon, found, exact)
    assert gaussian_delta(mu, math.inf) == 0.0


@pytest.mark.parametrize("z", [0.5, -0.01])
def test_the_charge_is_exact_on_average(z: float) -> None:
    """The errors of single values nearly cancel, so that a quarter of the charge is visible."""
    ratios = []
    for mu in np.linspace(0.03, 0.5 if z < 0 else 3.0, 60).tolist():
        epsilon = max(0.0, mu * (z + mu / 2))
        exact, charged = profile(mu, epsilon)[0], charge(mu, epsilon)
        ratios.append(float(((ball(gaussian_delta(mu, epsilon)) - exact) / charged).mid()))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.08)


def test_the_rounding_of_the_quotient_is_charged_at_large_shifts() -> None:
    """Near μ = 1e16 ε/μ − μ/2 errs by about 1; a charge in proportion was once too small by orders of magnitude."""
    rng = np.random.default_rng(12)
    for exponent in (13, 14, 15, 16, 17):
        for _ in range(40):
            mu = float(10 ** (exponent + rng.uniform(0, 1)))
            epsilon = mu * (mu / 2 + float(rng.uniform(0, 40))) * (1 + int(rng.integers(-3, 4)) * ULP)
            found = gaussian_delta(mu, epsilon)
            exact = profile(mu, epsilon)[0]
            hold(found == 1 or ball(found) >= exact, mu, epsilon, found, exact)
    for mu in (1e13, 1e15, 1e16, 1e18):
        for delta in (1e-300, 1e-5, 0.5):
            epsilon = gaussian_epsilon(mu, delta)
            assert gaussian_delta(mu, epsilon) <= delta
            exact = profile(mu, epsilon)[0]
            hold(exact <= ball(delta), mu, epsilon, delta, exact)
            assert epsilon <= gaussian_epsilon_tail(mu, delta)


def test_a_quotient_with_visible_rounding_is_taken_at_its_least() -> None:
    """Φ(−z) at the least z allowed by near·blur ≥ 1, plus the charge for erfcx."""
    for mu, z in ((1e15, 1.5), (1e15, 3.0), (4e15, 9.0), (6e14, 20.0)):
        epsilon = mu * (z + mu / 2)
        near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        assert near * 4 * ULP * far >= 1
        least = (ball(near - 4 * ULP * far) / ball(2).sqrt()).erfc() / 2
        found = gaussian_delta(mu, epsilon)
        hold(abs(ball(found) / least - 1 - ball(ERFCX_ULPS * ULP)) < (20 + z * z) * ULP, mu, epsilon, found, least)
    assert gaussian_delta(1e16, 5e31 * (1 + ULP)) == 1.0


@for_each(
    ("mu", "epsilon", "delta"),
    [
        (1e-300, 1.0, LEAST),
        (1e-160, 1.0, LEAST),
        (LEAST, 1.0, LEAST),
        (1e-5, 1e300, LEAST),
        (1e-10, 1e-3, LEAST),
        (1e3, 0.0, 1.0),
        (1e16, 5e31, 1.0),
        (1e200, 1.0, 1.0),
        (1e300, 1e308, 1.0),
        (1e308, 1.0, 1.0),
    ],
)
def test_extreme_shifts_have_exact_values(mu: float, epsilon: float, delta: float) -> None:
    assert gaussian_delta(mu, epsilon) == delta


def test_every_shift_has_an_epsilon() -> None:
    assert gaussian_epsilon(LEAST, 1e-5) == 0.0
    for mu, delta in ((LEAST, 1e-300), (1e-300, 1e-300), (1e-3, LEAST)):
        assert gaussian_delta(mu, gaussian_epsilon(mu, delta)) <= delta


@for_each("mu", [1e-3, 0.3, 1.0, 7.0])
def test_the_tail_is_rounded_up(mu: float) -> None:
    for delta in (1e-300, 1e-5, 0.3, 0.999):
        exact = ball(mu) ** 2 / 2 + ball(mu) * (-2 * ball(delta).log()).sqrt()
        found = gaussian_epsilon_tail(mu, delta)
        hold(exact * (1 + 10 * ball(ULP)) <= ball(found), mu, delta, found, exact)
        hold(ball(found) <= exact * (1 + 24 * ball(ULP)), mu, delta, found, exact)


@for_each("delta", [0.0, 1.0, -0.1, 1.5, math.nan, True, "0.1"])
def test_a_delta_out_of_range_is_refused(delta: Any) -> None:
    said = rf"^delta = {delta!r} is not valid: expected a probability above 0 and below 1"
    for refuses in (
        positive_delta,
        lambda each: gaussian_epsilon(1.0, each),
        lambda each: gaussian_epsilon_tail(1.0, each),
    ):
        with pytest.raises(InvalidInput, match=said):
            refuses(delta)
    assert positive_delta(LEAST) == LEAST
    assert positive_delta(1 - ULP) == 1 - ULP


@for_each("mu", [0.0, -1.0, math.inf, math.nan, "1"])
def test_a_shift_out_of_range_is_refused(mu: Any) -> None:
    said = rf"^mu = {mu!r} is not valid: expected a shift in standard deviations, a finite number above 0"
    for function, other in ((gaussian_delta, 1.0), (gaussian_epsilon, 0.1), (gaussian_epsilon_tail, 0.1)):
        with pytest.raises(InvalidInput, match=said):
            function(mu, other)
    for epsilon in (-1e-9, math.nan):
        with pytest.raises(
            InvalidInput, match=rf"^epsilon = {epsilon} is not valid: expected a number of nats, at least 0"
        ):
            gaussian_delta(1.0, epsilon)
