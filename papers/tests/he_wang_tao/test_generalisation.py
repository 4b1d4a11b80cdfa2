"""Generalisation bounds: against mechanisms whose gap is known, and honest where they say nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.accounting.composition.optimal import optimal_composition, optimal_delta
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_papers.he_wang_tao.generalisation import (
    epsilon_floor,
    failure_probability,
    high_probability,
    kl_divergence,
    least_samples,
    multi_database,
    on_average,
    on_average_excess,
    rederived_threshold,
    threshold,
    total_variation,
)


@for_each("epsilon", [0.01, 0.3, 1.0, 4.0])
@for_each("choices", [2, 3, 10, 100])
def test_randomised_response_generalises_within_the_bounds(epsilon: float, choices: int) -> None:
    """One record z, hypothesis h = z with probability e^ε/(e^ε+m−1), loss 1[h = z]: the gap is known exactly."""
    gap = math.exp(epsilon) / (math.exp(epsilon) + choices - 1) - 1 / choices
    assert (
        gap <= total_variation(Privacy(epsilon)) <= on_average(Privacy(epsilon)) <= on_average_excess(Privacy(epsilon))
    )


def test_total_variation_is_the_profile_at_zero() -> None:
    for epsilon, delta in [(0.2676, 3e-4), (1e-9, 0.0), (5.0, 0.1), (0.0, 0.2)]:
        assert total_variation(Privacy(epsilon, delta)) == pytest.approx(
            optimal_delta(epsilon, delta, 1, 0.0), rel=1e-12
        )
    assert total_variation(Privacy(math.inf)) == 1.0


def test_kl_is_attained_by_randomised_response_and_passed_by_nothing() -> None:
    generator = np.random.default_rng(3)
    for epsilon in (0.1, 1.0, 3.0):
        p = 1 / (1 + math.exp(-epsilon))
        attained = (2 * p - 1) * epsilon
        assert kl_divergence(epsilon) == pytest.approx(attained, rel=1e-12)
        for _ in range(300):
            ratios = np.exp(generator.uniform(-epsilon, epsilon, 5))
            weights = generator.dirichlet(np.ones(5))
            other = weights * ratios / (weights @ ratios)
            if np.max(np.abs(np.log(weights / other))) <= epsilon:
                assert weights @ np.log(weights / other) <= kl_divergence(epsilon)


def test_high_probability_speaks_only_where_it_can() -> None:
    spoken = high_probability(Privacy(0.05, 1e-8), 10**6)
    assert (spoken.vacuous, spoken.reason, spoken.epsilon) == (False, "", 0.05)
    assert spoken.threshold == threshold(0.05)
    assert spoken.failure == failure_probability(Privacy(0.05, 1e-8))
    one = high_probability(Privacy(0.05, 1e-8), 10**6, sides="one", constant="rederived")
    assert one.failure == pytest.approx(spoken.failure / 2)
    assert 6 * 0.05 < one.threshold < 7 * 0.05
    loose = high_probability(Privacy(0.2676, 3e-4), 10**9)
    assert loose.vacuous
    assert "at least 1/9" in loose.reason
    assert (loose.threshold, loose.failure) == (1.0, 1.0)
    many = high_probability(Privacy(0.01, 0.009), 10**9)
    assert many.vacuous
    assert "failure probability" in many.reason
    composed = optimal_composition(0.2676, 3e-4, 100, 0.03)
    assert high_probability(composed, 10**12).vacuous
    assert high_probability(Privacy(math.inf, 1e-3), 10).vacuous


def test_too_few_records_raise_epsilon() -> None:
    used = Privacy(0.05, 1e-8)
    needed = least_samples(used)
    assert high_probability(used, needed).epsilon == 0.05
    fewer = high_probability(used, needed - 1)
    assert fewer.epsilon > 0.05
    assert fewer.samples_needed <= needed
    assert high_probability(Privacy(1e-6, 1e-8), 10**5).epsilon == epsilon_floor(10**5, 1e-8)
    assert epsilon_floor(10**5, 1e-8) == pytest.approx(0.0205980, abs=1e-7)


def test_thresholds_and_failures() -> None:
    assert rederived_threshold(Privacy(0.05, 0.05)) <= 7 * 0.05
    for epsilon in (1e-3, 0.05, 1 / 9):
        assert rederived_threshold(Privacy(epsilon, 1e-6)) < threshold(epsilon)
    with pytest.raises(InvalidInput, match="at least delta and below 1"):
        rederived_threshold(Privacy(0.01, 0.5))


def test_bounds_never_exceed_the_largest_loss_and_more_databases_never_help() -> None:
    assert on_average(Privacy(30.0, 0.5), 50) == 1.0
    assert on_average_excess(Privacy(30.0)) == 1.0
    growing = [on_average(Privacy(0.3, 1e-3), databases) for databases in (1, 2, 10)]
    assert growing == sorted(growing)


@for_each(
    ("call", "argument"),
    [
        (lambda: high_probability(Privacy(0.05), 100), "delta"),
        (lambda: high_probability(Privacy(0.05, 1e-6), 0), "samples"),
        (lambda: high_probability(Privacy(0.05, 1e-6), 10, sides="both"), "sides"),  # type: ignore[arg-type]
        (lambda: high_probability(Privacy(0.05, 1e-6), 10, constant="six"), "constant"),  # type: ignore[arg-type]
        (lambda: on_average(Privacy(0.05), 0), "databases"),
        (lambda: least_samples(Privacy(0.0, 1e-6)), "epsilon"),
        (lambda: kl_divergence(-1.0), "epsilon"),
        (lambda: multi_database(Privacy(1.2), 1), "epsilon"),
        (lambda: failure_probability(Privacy(2.0, 1e-6)), "epsilon"),
    ],
)
def test_bad_input_is_named(call: object, argument: str) -> None:
    with refused(argument):
        call()  # type: ignore[operator]
