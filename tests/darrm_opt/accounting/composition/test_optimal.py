"""The exact optimal composition: against enumeration in fractions, related functions and extremes."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.enumeration import enumerated_delta, exp_fraction, worst_mechanism
from support.refusals import refused, refuses

from darrm_opt.accounting.composition import optimal
from darrm_opt.accounting.composition.optimal import (
    NEGLIGIBLE,
    Losses,
    add_leak,
    epsilon_at_delta,
    leak_of,
    least_epsilon,
    least_possible_delta,
    least_possible_delta_of_sequence,
    optimal_composition,
    optimal_composition_of_sequence,
    optimal_delta,
    optimal_delta_of_sequence,
    response_losses,
    sequence_losses,
)
from darrm_opt.errors import DeltaTooSmall, TooMuchWork
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP
from darrm_opt.search import least_fitting

EPSILONS = [1e-9, 1e-3, 0.1, 0.2676, 1.0, 3.0, 50.0]
DELTAS = [0.0, 1e-12, 3e-4, 0.05]
CLOSE = Fraction(1, 10**12)
"""Largest relative excess of a rounded answer over the exact value, for the small k enumerated here."""

ORACLE = Fraction(1, 10**60)
"""Error of the oracle's e^ε: at E = kε and δ = 0 the exact answer is 0 and the oracle's is not."""


def just_above(value: float, exact: Fraction, total: float) -> bool:
    """Return whether ``value`` ≥ exact, within the rounding of losses of size ``total``."""
    return exact - ORACLE <= Fraction(value) <= exact * (1 + CLOSE) + Fraction(1 + total) / 10**15


@for_each("epsilon", EPSILONS)
@for_each("delta", DELTAS)
def test_delta_is_the_enumerated_one_rounded_up(epsilon: float, delta: float) -> None:
    for k, share in product((1, 2, 4), (0.0, 0.01, 0.5, 0.77, 0.999, 1.0, 1.5)):
        outcomes = [worst_mechanism(Privacy(epsilon, delta))] * k
        total = share * k * epsilon
        assert just_above(optimal_delta(epsilon, delta, k, total), enumerated_delta(outcomes, total), total), total


@for_each("epsilon", EPSILONS)
@for_each("delta", DELTAS)
def test_epsilon_holds_in_exact_arithmetic_and_a_little_less_does_not(epsilon: float, delta: float) -> None:
    for k in (1, 2, 4):
        outcomes = [worst_mechanism(Privacy(epsilon, delta))] * k
        floor = least_possible_delta(delta, k)
        for share in (0.0, 1e-6, 0.1, 0.5):
            total_delta = floor + share * (1 - floor)
            found = optimal_composition(epsilon, delta, k, total_delta)
            assert found.delta == total_delta
            assert enumerated_delta(outcomes, found.epsilon) <= Fraction(total_delta) + ORACLE
            if found.epsilon > 1e-12 and share > 0:
                less = found.epsilon * (1 - 1e-7)
                assert enumerated_delta(outcomes, less) > Fraction(total_delta) * (1 - CLOSE)


@for_each(
    "events",
    [
        [Privacy(0.1, 1e-3), Privacy(0.7, 0.02), Privacy(0.1, 0.0), Privacy(2.0, 1e-5)],
        [Privacy(0.3), Privacy(0.6), Privacy(0.9)],
        [Privacy(0.0, 0.1), Privacy(1.0, 0.1)],
        [Privacy(1e-9, 1e-9), Privacy(50.0, 0.0)],
        [],
    ],
)
def test_sequences_are_the_enumerated_ones_in_every_order(events: list[Privacy]) -> None:
    total = math.fsum(event.epsilon for event in events)
    outcomes = [worst_mechanism(event) for event in events]
    for share in (0.0, 0.2, 0.51, 0.93, 1.0):
        found = optimal_delta_of_sequence(events, share * total)
        assert just_above(found, enumerated_delta(outcomes, share * total), total)
        assert found == optimal_delta_of_sequence(events[::-1], share * total)


@for_each("delta", [1e-300, 1e-30, 1e-12, 3e-4, 0.5, 0.999, 1 - 2.0**-53])
@for_each("k", [0, 1, 2, 63, 65, 200])
def test_the_leak_floor_is_the_least_double_above(delta: float, k: int) -> None:
    exact = 1 - (1 - Fraction(delta)) ** k
    floor = least_possible_delta(delta, k)
    assert Fraction(floor) >= exact
    if delta >= 1e-30 and floor > 0:
        assert Fraction(math.nextafter(floor, 0.0)) < exact


def test_the_leak_floor_of_one_mechanism_is_its_delta() -> None:
    for delta in (1e-300, 3e-4, 0.1, 1 - 2.0**-53):
        assert least_possible_delta(delta, 1) == pytest.approx(delta, rel=1e-15, abs=0)
    assert least_possible_delta(3e-4, 1) == 3e-4
    assert optimal_composition(0.5, 3e-4, 1, 3e-4) == Privacy(0.5, 3e-4)
    assert least_possible_delta_of_sequence([(0.1, 2), (0.2, 1)]) == least_possible_delta_of_sequence(
        [(0.2, 1), (0.1, 1), (0.1, 1)]
    )


def test_no_mechanism_costs_nothing() -> None:
    assert optimal_composition(0.3, 1e-3, 0, 0.0) == Privacy(0.0, 0.0)
    assert optimal_delta(0.3, 1e-3, 0, 0.0) == 0.0
    assert optimal_composition(0.0, 1e-3, 5, 0.1).epsilon == 0.0


def test_a_delta_below_the_leak_floor_is_refused_with_the_floor() -> None:
    with pytest.raises(
        DeltaTooSmall, match=r"no finite epsilon exists at delta = 0\.004.*Raise the total delta"
    ) as caught:
        optimal_composition(0.1, 1e-3, 5, 0.004)
    assert caught.value.floor == least_possible_delta(1e-3, 5)
    assert optimal_composition(0.1, 1e-3, 5, caught.value.floor).epsilon == pytest.approx(0.5, rel=1e-15)
    with pytest.raises(DeltaTooSmall):
        optimal_composition_of_sequence([Privacy(0.1, 1e-3), Privacy(0.1, 2e-3)], 0.002)


def test_too_many_different_events_are_refused() -> None:
    with pytest.raises(TooMuchWork, match=r"Use pld_composition_of_sequence\(\)"):
        optimal_delta_of_sequence({Privacy(0.1 + i / 100): 30 for i in range(8)}, 1.0)


def test_invalid_arguments_are_refused() -> None:
    for account in (optimal_composition, optimal_delta):
        ask: Any = lambda epsilon, delta, k, account=account: account(epsilon, delta, k, 0.1)  # noqa: E731
        valid = {"epsilon": 0.1, "delta": 0.0, "k": 3}
        refuses(ask, valid, epsilon=[-0.1, math.inf, math.nan], delta=[1.0], k=[-1, True, 2.0])
    for total_delta in (1.0, "0.5"):
        with refused("delta", repr(total_delta)):
            optimal_composition(0.1, 0.0, 3, total_delta)  # type: ignore[arg-type]  # refused


@for_each("guess", [None, 1e-300, 0.5, 2.0, 2.0 + 1e-12, 2.0 - 1e-12, 2.5, 3.0, 4.0, math.inf, math.nan])
def test_a_guess_saves_steps_and_does_not_change_the_result(guess: float | None) -> None:
    tried: list[float] = []

    def delta(epsilon: float) -> float:
        tried.append(epsilon)
        return max(0.0, 2 - epsilon)

    found = least_epsilon(delta, 0.0, 3.0, guess)
    assert 2.0 <= found <= 2.0 + 2e-14
    assert delta(found) == 0.0
    if guess is not None and abs(guess - 2.0) < 1e-9:
        assert len(tried) < 30


@pytest.mark.parametrize("total", [1e-12, 1e-5, 0.3])
def test_secants_save_steps_and_find_the_result_of_bisection(total: float) -> None:
    tried: list[float] = []

    def delta(epsilon: float) -> float:
        tried.append(epsilon)
        return math.exp(-(epsilon**1.5))

    found = least_epsilon(delta, total, 40.0)
    assert len(tried) < 36  # bisection alone takes 50
    assert found == least_fitting(lambda epsilon: delta(epsilon) <= total, 0.0, 40.0)


def test_if_delta_is_not_monotone_the_result_was_evaluated() -> None:
    def delta(epsilon: float) -> float:
        return 0.5 if epsilon < 1 or 1.5 < epsilon < 2.9 else 0.0

    assert delta(least_epsilon(delta, 0.1, 3.0)) <= 0.1


def test_there_is_no_search_if_epsilon_0_suffices() -> None:
    tried: list[float] = []

    def delta(epsilon: float) -> float:
        tried.append(epsilon)
        return 0.1 - epsilon

    assert least_epsilon(delta, 0.1, 5.0) == 0.0
    assert tried == [0.0]


def test_at_the_sum_of_all_epsilons_delta_is_the_leak() -> None:
    """Exactly: no rounding is charged if no loss is larger."""
    for total in (2.0, 3.0, math.inf):
        assert optimal_delta(0.5, 1e-3, 4, total) == least_possible_delta(1e-3, 4)
        events = {Privacy(0.5, 1e-3): 2, Privacy(0.25, 1e-4): 4}
        assert optimal_delta_of_sequence(events, total) == leak_of(events)
    assert optimal_delta(0.5, 1e-3, 4, math.nextafter(2.0, 0.0)) > least_possible_delta(1e-3, 4)


def test_a_leak_is_at_most_certain() -> None:
    assert least_possible_delta_of_sequence([(0.5, 5000), (1e-31, 10)]) == 1.0


def test_joint_losses_cover_the_products_and_sums_of_two_kinds() -> None:
    classes = {Privacy(0.1): 3, Privacy(0.7): 4}
    one, two = response_losses(0.1, 3), response_losses(0.7, 4)
    both = sequence_losses(classes)
    pairs = list(product(range(one.losses.size), range(two.losses.size)))
    inexact = 0
    for (i, j), loss, mass in zip(pairs, both.losses.tolist(), both.masses.tolist(), strict=True):
        assert Fraction(mass) >= Fraction(float(one.masses[i])) * Fraction(float(two.masses[j]))
        error = abs(Fraction(loss) - Fraction(float(one.losses[i])) - Fraction(float(two.losses[j])))
        assert error <= Fraction(both.loss_error)
        inexact += error > 0
    assert inexact > 0
    assert both.loss_error == ULP * sum(float(np.max(np.abs(each.losses))) for each in (one, both))


@for_each("k", [1, 2, 1000])
@for_each("epsilon", [5e-324, 1e-323, 1e-320, 1e-310])
def test_the_least_doubles_have_a_delta(epsilon: float, k: int) -> None:
    # At ε → 0 the distance between the answers of k coins is ε·E|k − 2L|/2, L ~ Bin(k, ½), less a relative kε.
    distance = Fraction(epsilon) * sum(math.comb(k, lies) * abs(k - 2 * lies) for lies in range(k + 1)) / 2 ** (k + 1)
    assert Fraction(optimal_delta(epsilon, 0.0, k, 0.0)) >= distance * (1 - Fraction(1, 10**12))


def test_the_excess_of_a_loss_is_charged_for_its_rounding() -> None:
    certain, other = np.array([1.0]), np.array([3.0])
    assert 4 * ULP * (1 - 1e-9) <= Losses(certain, certain, 0.0, 0.0).delta(1.0) <= 5 * ULP  # 2 units of each of both
    assert Losses(other, certain, 0.0, 1e-6).delta(3.0) == pytest.approx(1e-6, rel=1e-6)
    assert Losses(np.array([800.0]), certain, 0.5, 0.0).delta(0.0) == 1.0  # a δ is a probability


def test_omitted_masses_add_up() -> None:
    one, two = response_losses(40.0, 100), response_losses(50.0, 100)
    assert 0 < one.missing == two.missing == 200 * NEGLIGIBLE
    both = sequence_losses({Privacy(40.0): 100, Privacy(50.0): 100})
    exact = Fraction(one.missing) + Fraction(two.missing) + both.losses.size * Fraction(NEGLIGIBLE)
    assert exact <= Fraction(both.missing) <= exact * 2


def test_the_number_of_terms_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    events = {Privacy(0.11): 3, Privacy(0.13): 4}
    monkeypatch.setattr(optimal, "MAX_TERMS", 4 * 5 - 1)
    with pytest.raises(TooMuchWork, match="more than 19 terms"):
        optimal_delta_of_sequence(events, 0.1)
    monkeypatch.setattr(optimal, "MAX_TERMS", 4 * 5)
    assert 0 < optimal_delta_of_sequence(events, 0.1) < 1


def test_delta_must_be_a_probability_above_the_floor() -> None:
    for wrong in (1.0, -0.1, "0.2"):
        with refused("delta"):
            epsilon_at_delta(lambda epsilon: 0.0 * epsilon, wrong, 1.0, "why")  # type: ignore[arg-type]
    with pytest.raises(DeltaTooSmall, match="why"):
        epsilon_at_delta(lambda epsilon: max(0.2, 1 - epsilon), 0.1, 1.0, "why")
    assert epsilon_at_delta(lambda epsilon: max(0.2, 1 - epsilon), 0.2, 1.0, "why") == pytest.approx(0.8)


def test_invalid_totals_and_events_are_refused() -> None:
    for wrong in (-1.0, "1"):
        with refused("total_epsilon"):
            optimal_delta(0.1, 0.0, 3, wrong)  # type: ignore[arg-type]
        with refused("total_epsilon"):
            optimal_delta_of_sequence([Privacy(0.1)], wrong)  # type: ignore[arg-type]
    with refused("events"):
        optimal_delta_of_sequence([(0.1, 0.2)], 1.0)  # type: ignore[list-item]


def test_losses_that_exceed_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal, "MAX_WINDOW", 4095)
    with refused("k"):
        optimal_delta(1e-3, 0.0, 987_654, 0.5)
    with refused("k", "1000000000000000"):
        optimal_delta(1e-12, 0.0, 10**15, 0.5)


@for_each("log_no_leak", [-1e-3, -0.7, -30.0])
def test_adding_a_leak_is_charged_for_its_rounding(log_no_leak: float) -> None:
    exact = exp_fraction(log_no_leak) * Fraction(0.3)
    charge = (2 * abs(log_no_leak) + 4) * ULP
    assert exact * Fraction(1 + charge) <= add_leak(0.0, log_no_leak, 0.3) <= exact * Fraction(1 + charge + 16 * ULP)


def test_a_sequence_of_equal_mechanisms_is_the_homogeneous_case() -> None:
    for epsilon, delta, k, total in [(0.3, 1e-4, 50, 0.02), (1.0, 0.0, 7, 1e-3), (0.05, 1e-6, 1000, 2e-3)]:
        assert optimal_composition_of_sequence([Privacy(epsilon, delta)] * k, total) == optimal_composition(
            epsilon, delta, k, total
        )
        parts = {Privacy(epsilon, delta): k, Privacy(0.0): 3}
        assert optimal_composition_of_sequence(parts, total) == optimal_composition(epsilon, delta, k, total)


def test_masses_are_charged_for_their_ratios_and_their_sum() -> None:
    """The error of each ratio, the error of a sum and 8 units, and no less."""
    losses = optimal.response_losses(0.05, 2000)
    lies = (2000 - losses.losses / 0.05) / 2
    mean_distance = float(losses.masses @ np.abs(lies - lies[np.argmax(losses.masses)]))
    charge = (2 * optimal.RATIO_ULPS * mean_distance + optimal.SUM_ULPS + 8) * ULP
    assert charge - 8 * ULP <= math.fsum(losses.masses) - 1 <= charge + 8 * ULP


def test_dropped_masses_are_charged_if_there_are_any() -> None:
    assert optimal.response_losses(0.5, 10).missing == 0.0
    assert optimal.response_losses(750.0, 1).missing >= exp_fraction(-750.0)


def test_an_event_with_count_0_is_omitted() -> None:
    assert optimal.count_events({Privacy(1.0): 0, Privacy(2.0): 1}) == {Privacy(2.0): 1}


# ------------------------------------------------------------------------------------------- losses of randomised response


def one_loss(loss: float, mass: float, missing: float = 0.0, error: float = 0.0) -> Losses:
    return Losses(np.array([loss]), np.array([mass]), missing, error)


def test_the_error_of_a_loss_is_charged() -> None:
    found = one_loss(1.0, 0.5, 0.01, 0.1).delta(0.95)
    assert found == pytest.approx(0.5 * -math.expm1(-0.15) + 0.01, rel=1e-12)
    assert one_loss(1e8, 1.0).delta(1e8) == pytest.approx(2 * ULP * 2e8, rel=1e-6)  # rounding of so large a difference
    assert one_loss(-1.0, 1.0, 0.01).delta(0.5) == 0.01
    assert one_loss(50.0, 1.0, 0.5).delta(0.0) == 1.0


@pytest.mark.parametrize(("epsilon", "k"), [(0.2676, 100), (0.05, 2000)])
def test_masses_exceed_the_binomial_ones_by_the_charge(epsilon: float, k: int) -> None:
    """4 ulps for each step from the mode, in the mass and in the sum that it is divided by; 64 for the sum, 8 for the rest."""
    losses = response_losses(epsilon, k)
    lies = np.rint((k - losses.losses / epsilon) / 2)
    mode = int(lies[np.argmax(losses.masses)])
    far = float(losses.masses @ np.abs(lies - mode))
    above = sum(map(Fraction, losses.masses.tolist())) - 1
    assert float(above) == pytest.approx((64 + 8 + 2 * 4 * far) * ULP, rel=0.05, abs=0)
    with localcontext() as context:
        context.prec = 60
        p = Decimal(epsilon).exp() / (1 + Decimal(epsilon).exp())
        for place in (0, losses.masses.size // 3, int(np.argmax(losses.masses)), losses.masses.size - 1):
            l = int(lies[place])  # as in the paper
            exact = math.comb(k, l) * p ** (k - l) * (1 - p) ** l
            charged = (64 + 8 + 4 * far + 4 * abs(l - mode)) * ULP
            assert float(Decimal(float(losses.masses[place])) / exact - 1) == pytest.approx(charged, rel=0.25, abs=0)


def test_only_dropped_masses_are_charged() -> None:
    assert response_losses(0.3, 5).missing == 0.0
    assert response_losses(0.3, 5).masses.size == 6
    assert response_losses(400.0, 2).masses.size == 2  # the third is below e^−800
    assert response_losses(400.0, 2).missing == 4 * NEGLIGIBLE


def test_cached_losses_are_read_only() -> None:
    for array in (response_losses(0.3, 5).losses, response_losses(0.3, 5).masses):
        assert not array.flags.writeable


def test_masses_decrease_from_the_mode_across_blocks() -> None:
    losses = response_losses(0.05, 200_000)
    assert losses.masses.size > 2 * 4096
    mode = int(np.argmax(losses.masses))
    assert np.all(np.diff(losses.masses[mode:]) <= 0)
    assert np.all(np.diff(losses.masses[: mode + 1]) >= 0)
    assert 1 <= sum(map(Fraction, losses.masses.tolist())) <= 1 + Fraction(1, 10**9)
