"""Estimates of running time: the regression recovers a known dependence, and all estimates are plausible."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refused

from benchmarks import estimates
from darrm_opt import Privacy, Problem
from darrm_opt.answers import class_plans, running_time, tables
from darrm_opt.answers.coefficients import COEFFICIENTS
from darrm_opt.answers.running_time import NUMPY_FACTOR, solve_seconds
from darrm_opt.design.constraint import ConstraintGenerator
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.record import DesignSpec


def seconds(problem: Problem) -> float:
    return solve_seconds(DesignSpec(problem)) / (1.0 if running_time._has_kernel() else NUMPY_FACTOR)


def test_an_estimate_is_the_exponential_of_coefficients_times_features(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Problem.from_allowance(51, 2.0, 0.25, 0.01, delta=0.0)
    values = running_time.features(asked)
    chosen = {2: 0.5, 7: 1.0}
    monkeypatch.setitem(COEFFICIENTS, "small", (-5.0, *(chosen.get(place, 0.0) for place in range(1, len(values)))))
    expected = -5 + 0.5 * math.log(51) ** 2  # more than m voters are affected
    assert seconds(asked) == pytest.approx(math.exp(expected))
    monkeypatch.setitem(COEFFICIENTS, "stages", (-3.0,) + (0.0,) * (len(values) - 1))
    assert seconds(Problem.from_allowance(1202, 2.0, 0.25)) == pytest.approx(4 * math.exp(-3))  # grows as K² above 601
    assert running_time.clip(-1.0, 0.0, 1.0) == 0.0


@given(
    st.integers(3, 100_000),
    st.floats(0, 1),
    st.floats(1e-6, 5) | st.just(math.inf),
    st.sampled_from([0.0]) | st.floats(1e-12, 0.9),
    st.sampled_from([0.0, 1e-5, 0.5]),
    st.floats(0, 1),
)
def test_all_estimates_are_plausible(
    K: int, place: float, epsilon: float, Delta: float, delta: float, reach: float
) -> None:
    affected = max(1, round(K**reach))
    if epsilon == math.inf:
        problem = Problem(K, Privacy(math.inf), Privacy(0.01 + place, delta), affected)
    else:
        allowance = min((K / 2) ** place, 20 / epsilon)
        problem = Problem.from_allowance(K, allowance, epsilon, Delta, delta=delta, affected=affected)
    assert 5e-4 < seconds(problem) < 400 * max(1.0, K / 501) ** 3


@given(st.integers(2, 30), st.integers(2, 6), st.floats(0.01, 5), st.sampled_from([0.0, 1e-5]), st.integers(1, 2))
def test_all_estimates_of_tables_and_plans_are_plausible(
    K: int, classes: int, epsilon: float, delta: float, affected: int
) -> None:
    alike = Problem(K, NOT_PRIVATE, Privacy(epsilon, delta), affected, classes=classes)
    assert 1e-4 < tables.plurality_seconds(alike) < 1e5
    assert 1e-2 < class_plans.options_seconds(alike, 100) < 1e5
    pair = Problem(groups=[(1 + K // 10, Privacy(0.1)), (2, Privacy(0.5))], target=Privacy(epsilon, delta))
    assert 1e-4 < tables.group_seconds(pair) < 60


def test_estimates_of_unmeasured_tables_are_high() -> None:
    problems = {K: Problem(K, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=5) for K in (20, 60)}
    fitted = {K: running_time.fitted_seconds("plurality", tables.plurality_features(p)) for K, p in problems.items()}
    seconds = {K: tables.plurality_seconds(problem) for K, problem in problems.items()}
    assert fitted[20] < estimates.MAX_SECONDS < fitted[60]
    assert seconds[20] == fitted[20]
    assert seconds[60] > 300  # it takes many minutes
    large = Problem(groups=[(50, 0.1), (50, 0.5)], target=Privacy(1.0))
    slow = running_time.fitted_seconds("groups", tables.group_features(large))
    assert slow > estimates.MAX_SECONDS
    assert tables.group_seconds(large) == pytest.approx(slow**2 / estimates.MAX_SECONDS)


def test_a_plan_takes_longer_than_its_designs() -> None:
    assert running_time.plan_seconds(1000.0, 10) > 1000
    assert running_time.plan_seconds(0.2, 10) == pytest.approx(2 * running_time.plan_seconds(0.1, 10))
    slow = Problem(14, NOT_PRIVATE, Privacy(1.0, 1e-5), 3, classes=8)
    assert class_plans.options_seconds(slow, 10) >= tables.plurality_seconds(slow)


def test_the_fit_recovers_a_known_dependence() -> None:
    rng = random.Random(1)
    drawn = [estimates.gamma(rng) for _ in range(500)]
    asked = [one for one in drawn if estimates.features_of("gamma", one)[0] == "small"]
    rows = np.array([estimates.features_of("gamma", one)[1] for one in asked])
    true = rows @ np.linspace(-1, 1, rows.shape[1]) - 6
    noise = np.random.default_rng(0).normal(0, 0.05, len(true))
    noise[::40] += 4.0  # a few outliers, weighted by their absolute error
    errors = estimates.unseen_errors(rows, true + noise) + noise
    assert estimates.share(errors, 2.0) > 0.95
    assert estimates.share(np.array([0.0, 1.0, 1.2]), 3.0) == pytest.approx(2 / 3)


def test_coefficients_are_fitted_to_measured_draws() -> None:
    records = []
    for seed in range(30):
        rng = random.Random(seed)
        for program in ("gamma", "groups"):
            asked = estimates.DRAWS[program][0](rng)
            records.append({"program": program, "asked": asked, "seconds": 0.01 + seed / 100, "ended": True})
    before = dict(COEFFICIENTS)
    try:
        found, lines = estimates.fit_all(records)
    finally:
        COEFFICIENTS.clear()
        COEFFICIENTS.update(before)
    assert {"small", "groups"} <= {*found}
    assert any(line.startswith("γ, affected < K: ") for line in lines)
    text = estimates.text_of(found, lines)
    namespace: dict[str, dict[str, tuple[float, ...]]] = {}
    exec(text, namespace)  # noqa: S102 - written by the campaign
    assert namespace["COEFFICIENTS"] == found
    assert set(COEFFICIENTS) == {"small", "exact", "stages", "not private", "plurality", "groups", "plan", "options"}


@pytest.mark.parametrize("program", ["gamma", "plurality", "groups"])
def test_a_draw_can_be_run(program: str) -> None:
    rng = random.Random(3)
    asked = min((estimates.DRAWS[program][0](rng) for _ in range(20)), key=lambda one: one.get("K", 99))
    assert estimates.run(program, asked)


def test_tables_too_large_are_refused_by_estimate() -> None:
    assert tables.group_seconds(Problem(groups=[(2, 0.1), (2, 0.5)], target=Privacy(0.6), classes=3)) < 1
    medium = Problem(groups=[(25, 0.1), (25, 0.5)], target=Privacy(1.0))
    assert 1 < tables.group_seconds(medium) < 16  # it takes about 4 s
    with refused("groups"):
        tables.group_seconds(Problem(groups=[(30, 0.5, 1e-3)], target=Privacy(1.0), classes=4))
    # Not by the coefficients of the other program: it takes about 8 s.
    assert 3 < tables.plurality_seconds(Problem(30, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=6)) < 25


def test_estimates_of_accounts_grow_with_the_releases() -> None:
    short, long = (running_time.composition_seconds(count, designed=True, fresh=False) for count in (3000, 10_000))
    assert short < 1 < long
    assert running_time.composition_seconds(3000, designed=True, fresh=True) > 5


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.0, 1e-5]), st.sampled_from([0.1, math.inf]))
def test_constraints_are_counted_in_closed_form(K: int, affected: int, Delta: float, epsilon: float) -> None:
    problem = Problem(K, Privacy(epsilon, Delta), Privacy(0.2, 1e-4), min(affected, K))
    assert running_time.constraint_count(problem) == ConstraintGenerator(problem).size


def test_estimates_grow_with_every_parameter() -> None:
    def seconds(K: int = 35, Delta: float = 1e-5, objective: str = "rectangular", method: str = "auto") -> float:
        spec = DesignSpec(Problem.from_allowance(K, 3, 0.1, Delta), objective)
        return running_time.estimate_running_time(spec, method).seconds

    assert seconds(11) < seconds(35) < seconds(101) < seconds(1001) < seconds(5001)
    assert seconds(501, Delta=0) < seconds(501, Delta=1e-2)
    assert seconds() < seconds(objective="minimax(points=1000)")
    assert seconds(11) < seconds(11, method="enumerate")
    assert 0.001 < seconds(35) < 0.1  # measured: 0.004 s
