"""Calibration: the largest parameter, ε or number of queries that fits a budget."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Problem, solve
from darrm_opt.accounting.calibrate import (
    MIN_SHARE,
    _interpolated,
    calibrate,
    epsilon_each,
    largest_quota,
    near_value,
    release_target,
)
from darrm_opt.accounting.composition.optimal import optimal_composition, optimal_delta
from darrm_opt.accounting.release_profile import Release
from darrm_opt.accounting.total import most_releases
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.mechanisms.noise_function import CertifiedNoiseFunction
from darrm_opt.problem import Privacy


def test_calibrate_returns_the_largest_value_that_fits() -> None:
    asked: list[float] = []

    def asking(cost: Callable[[float], float]) -> Callable[[float], tuple[float, float]]:
        asked.clear()

        def evaluated(x: float) -> tuple[float, float]:
            asked.append(x)
            return x, cost(x)

        return evaluated

    assert calibrate(asking(lambda _: math.inf), 1.0, 1.0, guess=0.5, precision=1e-3) is None
    assert MIN_SHARE / 100 <= min(asked) < MIN_SHARE  # nothing is tried below
    for estimate in (None, lambda value: value / 0.5):
        found = calibrate(asking(lambda _: 0.0), 1.0, 3.0, guess=0.5, precision=1e-3, estimate=estimate)
        assert found == (3.0, 0.0, 3.0)
        assert len(asked) == 3  # the largest value ends the search
    end = calibrate(asking(lambda x: math.exp(x) if x < 1 else math.inf), 100.0, 50.0, guess=30.0, precision=1e-4)
    assert end is not None
    assert 0.999 <= end.value < 1
    assert len(asked) <= 21


def test_between_two_values_a_third_one_is_interpolated() -> None:
    """Exact if the cost is a power of the value; the midpoint if costs do not grow or the result lies outside."""
    assert _interpolated([(1.0, 1.0), (2.0, 4.0)], (3.0, 9.0), 2.25) == pytest.approx(1.5, rel=1e-14)
    assert _interpolated([(1.0, 1.0), (2.0, 2.0)], (1.5, 3.0), 1.5) == 1.5
    assert _interpolated([(1.0, 1.0), (2.0, 50.0)], (50.0, 51.0), 25.0) == 1.5


@for_each("account", ["simple", "another"])
def test_the_largest_number_of_releases_that_fits_is_found(account: str) -> None:
    """To 1 %, and exactly by an account that takes no time, within the limit."""
    for most in (5, 10**6):
        asked: list[int] = []

        def spent(count: int, asked: list[int] = asked) -> tuple[float, str]:
            asked.append(count)
            return float(count), account

        for budget in (0.5, 1.0, 7.0, 123_456.0):
            quota, fits = largest_quota(spent, budget, most, exact=("simple",)), min(most, int(budget))
            assert (fits if account == "simple" else 0.99 * fits) <= quota.queries <= fits
            assert quota.account == (account if fits else "none")
        assert 1 <= min(asked) <= max(asked) <= most


def test_a_number_of_releases_is_found_in_a_few_steps_however_costs_grow() -> None:
    """Steps by the square root once took a million evaluations for costs in proportion, as at δ = 0."""
    for power in (0.3, 0.5, 0.75, 1.0, 2.0):
        for fits in (7, 3000, 123_456, 3 * 10**8):
            asked: list[int] = []

            def spent(count: int, power: float = power, asked: list[int] = asked) -> tuple[float, str]:
                asked.append(count)
                return count**power, "account"

            assert 0.98 * fits <= largest_quota(spent, fits**power, 10**12).queries <= fits
            assert len(asked) <= 25


COSTS: dict[str, tuple[Callable[[float], float], float, int]] = {
    "linear": (lambda x: x, 1.0, 31),
    "square": (lambda x: x * x, 1.0, 54),
    "root": (math.sqrt, 1.0, 72),
    "exponential": (lambda x: math.expm1(8 * x), math.expm1(5.6), 82),
    "steep": (lambda x: x**12, 1.0, 96),
    "two powers": (lambda x: x + 5 * x**3, 1.0, 73),
}
"""A cost, a budget, and a limit of the steps that eight searches take together."""


@for_each("name", COSTS)
def test_a_budget_is_met_in_a_few_steps_from_any_guess(name: str) -> None:
    cost, budget, most_steps = COSTS[name]
    asked: list[float] = []

    def make(value: float) -> tuple[None, float]:
        asked.append(value)
        return None, cost(value)

    for guess in (0.01, 0.5, 0.9, 3.0):
        for guess_error in (None, 0.01):
            found = calibrate(make, budget, 9.0, guess=guess, precision=1e-6, guess_error=guess_error)
            assert found is not None
            assert found.value in asked
            assert cost(found.value) == found.cost
            assert budget * (1 - 3e-6) <= found.cost <= budget
    assert len(asked) <= most_steps


def test_a_cost_that_follows_a_power_is_met_in_three_steps() -> None:
    asked: list[float] = []

    def make(value: float) -> tuple[None, float]:
        asked.append(value)
        return None, 1.0003 * value**1.1 * (1 + 0.01 * value)

    found = calibrate(
        make, 1.0, 9.0, guess=0.5, precision=1e-6, estimate=lambda value: value**1.1 * (1 + 0.01 * value), finer=10.0
    )
    assert found is not None
    assert 1 - 1e-7 <= found.cost <= 1
    assert len(asked) <= 3


def test_an_estimate_that_is_missing_or_jumps_gives_no_guess() -> None:
    for cost in (
        lambda _: None,
        lambda value: 2.0 + (value > 0.6),
        lambda _: math.inf,
        lambda _: 0.0,
        lambda value: value * 1e-30,
    ):
        assert near_value(cost, 1.0, 9.0, guess=0.5) is None


def test_quotients_of_costs_may_be_beyond_the_range_of_doubles() -> None:
    assert near_value(lambda value: 5e199 if value == 0.5 else 1e-200, 1e200, 9.0, guess=0.5) is None
    found = calibrate(
        lambda value: (None, value * 1e-250), 1.0, 9.0, guess=0.5, precision=1e-6, estimate=lambda value: value**0.6
    )
    assert found is not None
    assert found.value == 9.0


def test_one_release_may_have_the_whole_total() -> None:
    assert release_target(Privacy(1.0, 1e-5), 1) == Privacy(1.0, 1e-5)
    assert 1 - 1e-12 <= epsilon_each(Privacy(1.0, 1e-3), 1e-3, 1) <= 1.0  # all of δ
    assert 0.3 * 1.7e308 <= epsilon_each(Privacy(1.7e308, 1e-6), 0.0, 3) < 1.7e308  # twice that overflows


@for_each(
    "budget", [Privacy(1.0, 1e-5), Privacy(11.6, 0.03), Privacy(1e-6, 1e-9), Privacy(200.0, 0.5), Privacy(5e-324, 1e-9)]
)
@for_each("k", [1, 7, 1000])
def test_epsilon_each_fits_and_more_does_not(budget: Privacy, k: int) -> None:
    for delta in (0.0, budget.delta / k / 2):
        each = epsilon_each(budget, delta, k)
        assert each >= budget.epsilon / k * (1 - 1e-12)
        assert optimal_delta(each, delta, k, budget.epsilon) <= budget.delta
        assert optimal_delta(each * (1 + 1e-6), delta, k, budget.epsilon) > budget.delta
        assert optimal_composition(each, delta, k, budget.delta).epsilon <= budget.epsilon * (1 + 1e-12)


def test_impossible_calibrations_are_refused() -> None:
    with pytest.raises(DeltaTooSmall):
        epsilon_each(Privacy(1.0, 1e-5), 1e-5, 2)
    with refused("k", "0"):
        epsilon_each(Privacy(1.0, 1e-5), 0.0, 0)
    with refused("budget"):
        epsilon_each(Privacy(0.0, 1e-5), 0.0, 1)


def test_no_release_fits_in_a_total_below_its_loss() -> None:
    solution = solve(Problem(3, Privacy(math.inf), Privacy(0.6, 0.02), 1))
    for budget in (Privacy(0.01, 1e-3), Privacy(0.01)):
        for quick in (False, True):
            assert most_releases(solution, budget, quick=quick).queries == 0
        assert not CertifiedNoiseFunction(Release.of(solution)).fits(budget, 1)


def test_the_count_of_each_account_fits_its_budget() -> None:
    solution = solve(Problem(3, Privacy(math.inf), Privacy(0.3, 0.01), 1))
    for total in (Privacy(1.0, 0.04), Privacy(3.0, 0.2)):
        for quick in (False, True):
            found = most_releases(solution, total, quick=quick)
            assert (found.account in ("optimal", "bits"), found.queries >= 3) == (True, True)
            assert CertifiedNoiseFunction(Release.of(solution)).fits(total, found.queries)
            assert not CertifiedNoiseFunction(Release.of(solution)).fits(total, 2 * found.queries)
