"""Privacy curves: values rounded up, chosen points, and their text and JSON forms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from flint import arb, ctx
from support.refusals import refused

from darrm_opt import Privacy, Problem, solve
from darrm_opt.errors import InvalidInput
from darrm_opt.privacy_curves import (
    PrivacyCurve,
    dp_sgd,
    gaussian,
    laplace,
    of_event,
    rdp,
    stated_curve,
    stated_profile,
    zcdp,
)
from darrm_opt.voters import PrivacyProfile


@pytest.mark.parametrize("mu", [0.001, 0.0325, 0.7, 5.0, 25.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 2.0, 30.0])
def test_gaussian_values_are_the_exact_ones_rounded_up(mu: float, epsilon: float) -> None:
    bits, ctx.prec = ctx.prec, 4000
    try:
        m, e, root = arb(mu), arb(epsilon), arb(2).sqrt()
        exact = ((e / m - m / 2) / root).erfc() / 2 - e.exp() * ((e / m + m / 2) / root).erfc() / 2
        found = arb(gaussian(mu).delta(epsilon))
        assert found >= exact
        tail = epsilon / mu - mu / 2 > 40
        assert tail or found <= exact * (1 + arb(2) ** -46) + arb(2) ** -1070
    finally:
        ctx.prec = bits


def test_laplace_is_pure_and_its_total_variation_is_exact() -> None:
    curve = laplace(10.0)
    assert curve.delta(0.0) == pytest.approx(1 - math.exp(-0.05), rel=1e-12)
    assert curve.delta(0.1 + 1e-12) == 0
    last, delta = curve.profile(Privacy(0.1), 3).points[-1]
    assert last == pytest.approx(0.1, rel=1e-11)
    assert delta == 0


def test_zcdp_and_rdp_curves_are_above_that_of_their_gaussian() -> None:
    mu = 0.3
    exact, by_rho = gaussian(mu), zcdp(mu * mu / 2)
    by_orders = rdp([(alpha, alpha * mu * mu / 2) for alpha in (1.5, 2, 4, 8, 16, 32, 64)])
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert exact.delta(epsilon) <= by_rho.delta(epsilon) <= 1.001 * by_orders.delta(epsilon)
    assert by_rho.delta(1.0) < 5 * exact.delta(1.0)


def test_dp_sgd_matches_the_stated_setting() -> None:
    profile = dp_sgd(13.7, 0.05, 100).profile(Privacy(0.0892, 1e-4), 3)
    assert profile.epsilon == pytest.approx(0.089, abs=5e-4)
    assert profile.points[0][1] == pytest.approx(0.01458, abs=1e-4)


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1.1, 0.01, 2000), (2.0, 0.02, 50), (3.0, 1.0, 5)])
def test_dp_sgd_is_between_a_lower_bound_and_the_rdp_accountant(sigma: float, q: float, steps: int) -> None:
    """Also where δ is below the rounding error of the PLD's transforms, 3.6e-8 after 2,000 steps."""
    from dp_accounting import dp_event, rdp
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    numbers: dict[str, Any] = {"sampling_prob": q, "value_discretization_interval": 1e-3, "use_connect_dots": False}
    least = from_gaussian_mechanism(sigma, pessimistic_estimate=False, **numbers).self_compose(steps)
    accountant = rdp.RdpAccountant([*range(2, 65)])
    accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma)), steps)
    curve = dp_sgd(sigma, q, steps)
    for epsilon in (0.0, 1.0, 2.0, 3.0, 4.0, 6.0):
        true, found = least.get_delta_for_epsilon(epsilon), curve.delta(epsilon)
        assert true < 1e-11 or true <= found  # an optimistic PLD has a rounding error, too
        assert found <= max(10 * accountant.get_delta(epsilon), 1e-12)  # profiles end there
    last, delta = curve.profile(Privacy(1.0, 1e-10)).points[-1]
    assert last < 6
    assert 0 < delta <= 1e-10


def test_an_event_has_the_curve_of_its_distribution() -> None:
    from dp_accounting import dp_event

    curve = of_event(dp_event.GaussianDpEvent(2.0))
    assert gaussian(0.5).delta(0.3) <= curve.delta(0.3) <= gaussian(0.5).delta(0.3) + 1e-4
    for compositions in (0, -5, 1.5, math.nan):  # a negative number would lower δ below the proved value
        with refused("compositions"):
            of_event(dp_event.GaussianDpEvent(2.0), compositions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "points"),
    [
        ("0:0.013, 0.1:1e-5", ((0.0, 0.013), (0.1, 1e-5))),
        ([[0, 0.013], [0.1, 1e-5]], ((0.0, 0.013), (0.1, 1e-5))),
        (Privacy(0.1, 1e-5), ((0.1, 1e-5),)),
    ],
)
def test_points_are_read(statement: Any, points: Any) -> None:
    assert stated_profile(statement).points == points


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("gaussian(0.0325)", {"gaussian": {"mu": 0.0325}}),
        ("gaussian(noise_multiplier=30)", {"gaussian": {"noise_multiplier": 30}}),
        ("laplace(scale=4)", {"laplace": {"scale": 4}}),
        ("zcdp(0.01)", {"zcdp": {"rho": 0.01}}),
        ("rdp(2:0.01, 8:0.05)", {"rdp": [[2, 0.01], [8, 0.05]]}),
        (
            "dp_sgd(13.7, 0.05, 100)",
            {"dp_sgd": {"noise_multiplier": 13.7, "sampling_probability": 0.05, "steps": 100}},
        ),
    ],
)
def test_text_and_json_name_the_same_curve(text: str, json: Any) -> None:
    one, other = stated_curve(text), stated_curve(json)
    assert isinstance(one, PrivacyCurve)
    assert one == other
    assert stated_profile(one.text) == stated_profile(json)


def test_a_file_of_points_is_read(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("epsilon,delta\n0,0.013\n0.1,1e-5\n", encoding="utf-8")
    assert stated_profile(str(path)) == PrivacyProfile([(0, 0.013), (0.1, 1e-5)])


@pytest.mark.parametrize(
    "statement",
    [
        "gaussian()",
        "gaussian(0.1, 0.2)",
        "gaussian(-1)",
        "gaussian(nan)",
        "normal(1)",
        "0:0.1,1",
        "no-such-file.csv",
        "zcdp(sigma=1)",
        "dp_sgd(1,2)",
        "dp_sgd(1,0.1,2.5)",
        {},
        {"gaussian": 1},
        {"gaussian": {"sigma": 1}},
        {"rdp": [[1, 2]]},
        {"rdp": [3]},
        {"laplace": {}},
        [[0, 0.1, 3]],
        7,
    ],
)
def test_invalid_statements_are_rejected(statement: Any) -> None:
    with pytest.raises(InvalidInput):
        stated_profile(statement)


@pytest.mark.parametrize(
    ("statement", "argument", "accepted"),
    [
        ("gaussian(31)", "mu", "at most 30"),
        ("gaussian(noise_multiplier=0.01)", "noise_multiplier", "at least 1/30"),
        ("laplace(0.01)", "scale", "above 0.01"),
        ("zcdp(101)", "rho", "at most 100"),
        ("rdp(1000000:1)", "alpha", "below 1,000,000"),
        ("dp_sgd(1,0.1,10000001)", "steps", "1 to 10,000,000"),
        ("dp_sgd(0.01,1.0,1000)", "σ, q and T", "at least 0.2"),
        ("dp_sgd(0.01,0.001,10)", "σ, q and T", "at least 0.2"),
        ("dp_sgd(1.0,1,1000)", "fewer steps", "at most 450 nats; it is at least 500"),
        ("dp_sgd(0.2,0.5,1000)", "fewer steps", "at most 450 nats"),
        ("dp_sgd(1,0.01)", "T is the number of steps", "σ, q, T"),
    ],
)
def test_the_accepted_range_excludes_the_refused_value(statement: str, argument: str, accepted: str) -> None:
    with pytest.raises(InvalidInput, match=f"{accepted}.*{argument}"):
        stated_profile(statement)


def test_points_lie_on_their_curve_and_the_inner_region_bounds_the_gain_of_more_points() -> None:
    curve, target = gaussian(0.0325), Privacy(0.1, 1e-5)
    few, many = curve.profile(target, 3), curve.profile(target, 9)
    for epsilon, delta in many.points:
        assert curve.delta(epsilon) <= delta <= curve.delta(epsilon) * (1 + 1e-6)
    bound = solve(Problem(7, curve.inner_profile(many), target)).upper_bound
    one, other = (solve(Problem(7, profile, target)).utility for profile in (few, many))
    assert one < other <= bound
    assert bound - other < 0.02
