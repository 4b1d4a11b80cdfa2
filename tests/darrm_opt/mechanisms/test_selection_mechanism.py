"""Draws of mechanisms at a stated power; permute-and-flip and the exponential mechanism without a table."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from support.cases import for_each
from support.draws import hold_draws
from support.plurality_exact import neighbours, vote_counts
from support.refusals import refused, refuses

from darrm_opt import Privacy
from darrm_opt.accounting import Sampling
from darrm_opt.accounting.labels.composition import bounded_range_divergence, composed_epsilon, table_divergence
from darrm_opt.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, SelectionMechanism
from darrm_opt.plurality import (
    Dirichlet,
    PluralityObjective,
    TableMechanism,
    mechanism_class,
    solve_table,
)
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.randomness import SeededRandomnessForTestsOnly

Counts = tuple[int, ...]
SELECTIONS = ("permute_and_flip", "exponential")


def law(name: str, counts: Counts, rate: float) -> list[float]:
    """Return the probability of each class by definition, over all orders of the coins."""
    coins = [math.exp(-rate * (max(counts) - count)) for count in counts]
    if name == "exponential":
        return [coin / math.fsum(coins) for coin in coins]
    chances = [0.0] * len(counts)
    orders = list(permutations(range(len(counts))))
    for order in orders:
        left = 1.0
        for place in order:
            chances[place] += left * coins[place] / len(orders)
            left *= 1 - coins[place]
    return chances


@for_each("name", SELECTIONS)
@for_each(("counts", "rate"), [((3, 1, 0), 0.4), ((1, 2, 2, 1), 0.7), ((0, 5, 2), 0.25)])
def test_classes_follow_the_law_at_a_stated_power(name: str, counts: Counts, rate: float) -> None:
    hold_draws(mechanism_class(name).of(sum(counts), len(counts), rate), counts, law(name, counts, rate))


def test_classes_of_a_table_follow_it_at_a_stated_power() -> None:
    problem = Problem(7, NOT_PRIVATE, Privacy(1.0, 1e-3), 1, classes=3, abstention=True)
    rule = solve_table(problem, PluralityObjective(Dirichlet(1.0), price=2.0)).table
    for counts in ((4, 2, 1), (0, 1, 6)):
        hold_draws(TableMechanism(problem, rule), counts, [float(each) for each in rule.probabilities(counts)])


@for_each("K", [1, 2, 5, 8])
@for_each("rate", [0.1, 1.0, 4.0])
@for_each("name", SELECTIONS)
def test_gamma_is_that_of_the_definition(name: str, rate: float, K: int) -> None:
    gamma = mechanism_class(name).of(K, 2, rate).gamma.values
    for ones in range(K + 1):
        if 2 * ones != K:
            assert gamma[ones] == pytest.approx(abs(2 * law(name, (K - ones, ones), rate)[1] - 1), abs=1e-12)
    with refused("classes"):
        _ = mechanism_class(name).of(K, 3, rate).gamma


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_unanimous_vote_at_the_largest_rate_is_released_unchanged(name: str) -> None:
    mechanism = mechanism_class(name).of(10**6, 1000, 1000.0)
    bits = SeededRandomnessForTestsOnly(3)
    counts = tuple(10**6 if place == 777 else 0 for place in range(1000))
    assert {mechanism.draw(counts, bits) for _ in range(5)} == {777}
    assert {mechanism_class(name).of(3, 2, 5e-324).draw((3, 0), bits) for _ in range(60)} == {0, 1}


# ------------------------------------------------------------------------------------ the account


@for_each("affected", [1, 2])
@for_each("name", SELECTIONS)
def test_epsilon_is_the_largest_loss_over_all_neighbours(name: str, affected: int) -> None:
    K, classes, rate = 5, 3, 0.35
    mechanism = mechanism_class(name).of(K, classes, rate, affected)
    assert isinstance(mechanism, SelectionMechanism)
    each = mechanism.each.epsilon
    losses, spread = [], 0.0
    for counts in vote_counts(K, classes):
        for other in neighbours(counts, affected):
            p, q = law(name, counts, rate), law(name, other, rate)
            here = [math.log(a / b) for a, b in zip(p, q, strict=True)]
            losses += here
            spread = max(spread, max(here) - min(here))
    assert max(losses) <= each * (1 + 1e-12)
    if name == "exponential":  # the premise of its account
        assert spread == pytest.approx(each)
    else:  # which permute-and-flip does not satisfy
        assert max(losses) > 0.9 * each
        assert spread > 1.2 * each


def pairs(width: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    s = (np.arange(count) + 0.5) * (width / count)
    q = np.expm1(s - width) / (np.expm1(s - width) - np.expm1(s))
    return q * np.exp(s), q


@for_each("width", [1e-3, 0.3, 2.0, 8.0])
def test_the_divergence_of_a_range_is_just_above_that_of_its_members(width: float) -> None:
    p, q = pairs(width, 4001)
    members = table_divergence(np.stack([p, 1 - p], axis=1), np.stack([q, 1 - q], axis=1))
    bound = bounded_range_divergence(width)
    orders = 0.5 + np.array([0.0, 0.25, 1.0, 2.0, 6.0]) / max(width, 0.5)
    orders = orders[np.abs(orders - 1) > 1e-2]
    assert (bound.at(orders) >= members.at(orders) * (1 - 1e-9)).all()
    assert (bound.at(orders) <= members.at(orders) * 1.02).all()


def test_the_divergence_of_all_neighbours_is_within_that_of_their_range() -> None:
    K, classes, rate = 5, 3, 0.35
    edges = [(counts, other) for counts in vote_counts(K, classes) for other in neighbours(counts, 1)]
    p, q = ([law("exponential", edge[side], rate) for edge in edges] for side in (0, 1))
    orders = np.array([0.5, 0.8, 1.5, 3.0, 8.0])
    assert (table_divergence(p, q).at(orders) <= bounded_range_divergence(2 * rate).at(orders)).all()


def test_a_total_is_never_below_the_recursion_over_the_family() -> None:
    width, releases, epsilon = 0.6, 6, 1.5
    p, q = pairs(width, 60)
    p, q = np.concatenate([p, q]), np.concatenate([q, p])  # both directions
    grid = np.linspace(-releases * width - 1, releases * width + 1, 2401)  # ln x
    value = np.maximum(1 - np.exp(grid), 0.0)
    for _ in range(releases):  # V_t(x) = sup over pairs of Σ_c P_c·V_{t−1}(x·Q_c/P_c)
        up, down = np.log(q / p), np.log((1 - q) / (1 - p))
        value = np.max(
            [
                a * np.interp(grid + x, grid, value) + (1 - a) * np.interp(grid + y, grid, value)
                for a, x, y in zip(p, up, down, strict=True)
            ],
            axis=0,
        )
    delta = float(np.interp(epsilon, grid, value))
    assert 1e-4 < delta < 0.1
    proved = composed_epsilon([(bounded_range_divergence(width), releases)], delta)
    assert epsilon < proved < 1.35 * epsilon


@pytest.mark.parametrize("name", SELECTIONS)
def test_the_rates_for_a_total(name: str) -> None:
    total = Privacy(2.0, 1e-5)
    found = mechanism_class(name).calibrated(40, 6, total, 50, affected=2)
    assert 1.98 < found.epsilon(50, 1e-5) <= 2.0
    most = found.most_releases(total)
    assert 49 <= most.queries <= 51
    assert most.account == ("optimal" if name == "permute_and_flip" else "renyi")
    pure = mechanism_class(name).calibrated(40, 6, Privacy(2.0), 50)
    assert pure.most_releases(Privacy(2.0)).queries >= 50
    assert 50 * 2 * pure.value <= 2.0
    assert mechanism_class(name).calibrated(40, 6, Privacy(400.0), 1).value == pytest.approx(200, rel=1e-9)


@pytest.mark.parametrize("epsilon", [5e-324, 1.7e308])
def test_a_total_at_either_end_of_the_doubles_has_a_rate(epsilon: float) -> None:
    found = mechanism_class("permute_and_flip").calibrated(11, 2, Privacy(epsilon, 0.9), 100)
    assert found.epsilon(100, 0.9) <= epsilon


def test_the_exponential_mechanism_has_twice_the_rate_over_many_releases() -> None:
    flip, exponential = (mechanism_class(name).calibrated(40, 6, Privacy(2.0, 1e-5), 1000).value for name in SELECTIONS)
    assert exponential > 1.9 * flip


# ------------------------------------------------------------------------------- logs, refusals


def test_invalid_selection_mechanisms_are_refused() -> None:
    valid = {"K": 7, "classes": 3, "rate": 0.5}
    rates = [0.0, -1.0, math.nan, math.inf, 1000.5]
    refuses(ExponentialMechanism, valid, rate=rates)
    refuses(PermuteAndFlip, valid, rate=rates, affected=[8, 0], classes=[1, 2**20 + 1], K=[0])
    refuses(bounded_range_divergence, {}, width=[0.0, 701.0])


@pytest.mark.parametrize("rate", [350.0, 400.0, 1000.0])
def test_the_largest_rates_have_an_account(rate: float) -> None:
    mechanism = ExponentialMechanism(7, 3, rate)
    assert mechanism.epsilon(10, 1e-5) <= 20 * rate
    assert mechanism.epsilon(10, 1e-5, Sampling(1000, 20)) < mechanism.epsilon(10, 1e-5)
