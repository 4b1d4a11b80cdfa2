"""GNMax: known answers, exact accounts against enumeration, and a data-dependent bound that is marked as sensitive."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.refusals import refused

from darrm_opt import Privacy
from darrm_opt.mechanisms.vote_noise import GaussianNoise
from darrm_papers.pate import (
    gnmax_epsilon,
    gnmax_sigma,
    gnmax_wins,
    log_wrong_winner,
    sensitive_epsilon,
    sensitive_rdp,
)

# ------------------------------------------------------------------------------------------- known answers


def test_the_papers_sigma_and_its_true_minimiser() -> None:
    for epsilon, sigma, order in ((0.2676, 21.46, 62.3), (0.2556, 22.46, 64.7)):
        grid = gnmax_sigma(epsilon, 0.0003, search="grid")
        assert round(grid.sigma, 2) == sigma
        assert round(grid.order, 1) == order
        exact = gnmax_sigma(epsilon, 0.0003)
        assert exact.sigma <= grid.sigma < exact.sigma * (1 + 1e-4)
        assert abs(exact.order - grid.order) < 0.5
    printed = 34.31  # the λ printed beside σ = 21.46 gives another σ
    assert math.sqrt(printed / (0.2676 - math.log(1 / 0.0003) / (printed - 1))) == pytest.approx(37.7, abs=0.05)


def test_a_unanimous_vote_is_released_with_the_known_probability() -> None:
    assert gnmax_wins(11, 11, 21.46) == pytest.approx(0.641, abs=5e-4)
    assert gnmax_wins(11, 11, 21.46, "discrete") == pytest.approx(0.641, abs=1e-3)
    assert gnmax_wins(11, 0, 21.46) == pytest.approx(1 - gnmax_wins(11, 11, 21.46))
    assert gnmax_wins(10, 5, 3.0) == 0.5


@given(st.floats(1e-3, 20), st.floats(1e-9, 0.3), st.integers(1, 10**4), st.integers(1, 5))
def test_calibrate_then_evaluate_returns_to_the_start(
    epsilon: float, delta: float, queries: int, affected: int
) -> None:
    noise = gnmax_sigma(epsilon, delta, queries=queries, affected=affected)
    spent = gnmax_epsilon(noise.sigma, delta, queries=queries, affected=affected)
    assert epsilon * (1 - 1e-9) <= spent <= epsilon
    at_its_order = queries * affected**2 * noise.order / noise.sigma**2 - math.log(delta) / (noise.order - 1)
    assert at_its_order == pytest.approx(epsilon, rel=1e-9)


def test_rdp_is_dp_accountings() -> None:
    """The same divergence as Google's Gaussian event of noise multiplier σ/√2 (sensitivity √2)."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    dp_accounting = pytest.importorskip("dp_accounting")
    accountant = rdp.RdpAccountant(orders=[2.0, 8.0, 62.3])
    accountant.compose(dp_accounting.GaussianDpEvent(21.46 / math.sqrt(2)), 7)
    assert accountant._rdp == pytest.approx([7 * order / 21.46**2 for order in (2.0, 8.0, 62.3)])
    assert gnmax_epsilon(21.46, 1e-3, queries=7) >= accountant.get_epsilon(1e-3) * 0.8


# ------------------------------------------------------------------------------------------- data-dependent bound


def renyi(p: float, q: float, order: float) -> float:
    """Divergence of Bernoulli(p) from Bernoulli(q), small probabilities kept."""
    this, that = (order * math.log(a) + (1 - order) * math.log(b) for a, b in ((p, q), (1 - p, 1 - q)))
    return float(np.logaddexp(this, that)) / (order - 1)


def test_the_bound_holds_for_two_classes_in_the_direction_it_claims() -> None:
    applied = 0
    for n, sigma, order in product((20, 250), (5.0, 20.0, 40.0), (1.5, 2.0, 5.0, 20.0)):
        noise = GaussianNoise.of_sigma(sigma)
        for winner in range(math.ceil(n / 2), n + 1):
            margin = 2 * winner - n
            if noise.loses(margin) < 1e-15:
                continue
            bound = sensitive_rdp([winner, n - winner], sigma, order)
            for other in (margin - 2, margin + 2):
                assert renyi(noise.loses(margin), noise.loses(other) if other >= 0 else noise.wins(-other), order) <= (
                    bound.value * (1 + 1e-7) + 1e-12
                )
            assert bound.value <= bound.data_independent
            applied += bound.applies
    assert applied > 100


def test_the_precondition_is_needed() -> None:
    """At these votes the formula without its precondition would be negative or complex: the bound falls back."""
    bound = sensitive_rdp([6, 5], 21.46, 5.0)
    assert not bound.applies
    assert bound.formula == math.inf
    assert bound.value == bound.data_independent
    high = sensitive_rdp([250, 0], 40.0, 10_000.0)  # an order above μ₁
    assert not high.applies


def test_a_large_majority_costs_less_and_the_saving_is_sensitive() -> None:
    agreed = sensitive_epsilon([[250, 0]] * 100, 40.0, 1e-5)
    split = sensitive_epsilon([[130, 120]] * 100, 40.0, 1e-5)
    assert agreed.epsilon < 0.2 * agreed.data_independent_epsilon
    assert split.epsilon == pytest.approx(split.data_independent_epsilon, rel=0.02)
    for found in (agreed, sensitive_rdp([250, 0], 40.0, 5.0)):
        assert not isinstance(found, Privacy)
        assert "sensitive itself" in found.warning
    assert sensitive_epsilon(np.empty((0, 2), dtype=int), 40.0, 1e-5).epsilon == 0


def test_the_wrong_winner_bound() -> None:
    exact = GaussianNoise.of_sigma(10.0).loses(20)
    assert log_wrong_winner([40, 20], 10.0) == pytest.approx(math.log(exact))
    assert log_wrong_winner([40, 20], 10.0, "continuous") == pytest.approx(math.log(0.5 * math.erfc(1.0)))
    assert log_wrong_winner([10, 10, 10, 10], 10.0) == 0.0  # never above 1
    assert log_wrong_winner([10**6, 0], 1.0) == -math.inf
    assert sensitive_rdp([10**6, 0], 1.0, 5.0).value == 0


@for_each(
    ("make", "argument"),
    [
        (lambda: gnmax_sigma(0.0, 1e-3), "epsilon"),
        (lambda: gnmax_sigma(1.0, 0.0), "delta"),
        (lambda: gnmax_sigma(1e-3, 1e-3, search="grid"), "epsilon"),
        (lambda: gnmax_sigma(1.0, 1e-3, search="random"), "search"),  # type: ignore[arg-type]
        (lambda: gnmax_sigma(1.0, 1e-3, queries=0), "queries"),
        (lambda: gnmax_epsilon(0.0, 1e-3), "sigma"),
        (lambda: gnmax_wins(5, 6, 1.0), "ones"),
        (lambda: sensitive_rdp([5, 1], 1.0, 1.0), "order"),
    ],
)
def test_refusals(make: Any, argument: str) -> None:
    with refused(argument):
        make()
