"""The estimates of running time: what the text of a spline means, and that no problem has an absurd estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from campaigns import cost
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scan import Point, points
from darrm_opt import Privacy, Problem
from darrm_opt.answers import running_time
from darrm_opt.answers.running_time import NUMPY_FACTOR, solve_seconds
from darrm_opt.record import DesignSpec


def seconds(problem: Problem) -> float:
    return solve_seconds(DesignSpec(problem)) / (1.0 if running_time._has_kernel() else NUMPY_FACTOR)


def use(monkeypatch: pytest.MonkeyPatch, splines: dict[str, str]) -> None:
    monkeypatch.setattr(running_time, "SPLINES", splines)
    for cached in (running_time._terms, running_time._spline_seconds):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _own_splines() -> None:
    """Forget what another test's splines gave."""
    for cached in (running_time._terms, running_time._spline_seconds):
        cached.cache_clear()


def test_a_spline_is_the_sum_of_products_of_hinges_and_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {"small": "-5; 0.5 K>20; 2 m√ε<3 δ=0; 7 Δ=0 K<40; 0.1 1+KΔ>1", "exact": "-4", "stages": "-3"})
    asked = Problem.from_allowance(51, 2.0, 0.25, 0.01, delta=0.0)
    expected = -5 + 0.5 * math.log(51 / 20) + 2 * math.log(3 / (2 * 0.5)) + 0.1 * math.log(1 + 51 * 0.01)
    assert seconds(asked) == pytest.approx(math.exp(expected))
    assert seconds(Problem.from_allowance(101, 2.0, 0.25)) == pytest.approx(math.exp(-4))
    assert seconds(Problem.from_allowance(401, 2.0, 0.25)) == pytest.approx(math.exp(-3))
    assert seconds(Problem.from_allowance(1002, 2.0, 0.25)) == pytest.approx(4 * math.exp(-3))  # as K² beyond 501


@given(
    st.integers(3, 100_000),
    st.floats(0, 1),
    st.floats(1e-6, 5) | st.just(math.inf),
    st.sampled_from([0.0]) | st.floats(1e-12, 0.9),
    st.sampled_from([0.0, 1e-5, 0.5]),
)
def test_no_estimate_is_absurd(K: int, place: float, epsilon: float, Delta: float, delta: float) -> None:
    if epsilon == math.inf:
        problem = Problem(K, Privacy(math.inf), Privacy(0.01 + place, delta), 1 + int(place * (K - 1)))
    else:
        problem = Problem.from_allowance(K, min((K / 2) ** place, 20 / epsilon), epsilon, Delta, delta=delta)
    assert 5e-4 < seconds(problem) < 400 * max(1.0, K / 501) ** 3


def test_the_fit_finds_what_times_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [point for point in points() if math.isfinite(point.epsilon) and point.K <= 201][::3]
    true = [-6 + 2 * max(0.0, math.log(point.K / 35)) - (point.m * point.epsilon**0.5 > 15) for point in made]
    data = cost.Data({point: math.exp(value) for point, value in zip(made, true, strict=True)})
    found = {name: cost.spline(data, data.schedules == name, 12) for name in ("small", "exact", "stages")}
    use(monkeypatch, found)
    errors = np.log([seconds(point.problem) for point in made]) - true
    assert np.mean(np.abs(errors) < math.log(1.5)) > 0.95
    assert " K" in found["stages"]
    assert isinstance(made[0], Point)
