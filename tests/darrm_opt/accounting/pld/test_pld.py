"""Privacy loss distributions: just above the exact optimum, and composable with others."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused
from support.rounded import hardly_above

from darrm_opt import NoiseFunction, Problem
from darrm_opt.accounting import accounts, pld
from darrm_opt.accounting.composition.optimal import (
    least_possible_delta,
    optimal_composition,
    optimal_composition_of_sequence,
    optimal_delta,
)
from darrm_opt.accounting.gaussian import gaussian_delta
from darrm_opt.accounting.pld import (
    TRUNCATION,
    Pld,
    _composed_cells,
    _ends,
    common_discretisation,
    fast_length,
    library_distribution,
    pld_composition,
    pld_composition_of_sequence,
    pld_from_profile,
    pld_of,
    profile_of_event,
    symmetric_profile,
)
from darrm_opt.accounting.release_profile import Release
from darrm_opt.errors import BackendUnavailable, DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.noise import Array
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP

SETTINGS = [
    (0.2676, 3e-4, 100, 0.03),
    (0.05, 0.0, 2000, 1e-5),
    (1.0, 1e-6, 700, 1e-3),
    (1e-9, 1e-12, 1000, 1e-6),
    (50.0, 1e-6, 100, 1e-3),
    (0.1, 0.0, 1, 1e-3),
    (0.01, 1e-9, 10**6, 0.01),
]


@for_each(("epsilon", "delta", "k", "total_delta"), SETTINGS)
def test_epsilon_exceeds_the_optimum_by_no_more_than_the_guard(
    epsilon: float, delta: float, k: int, total_delta: float
) -> None:
    found = pld_composition(epsilon, delta, k, total_delta)
    assert found.privacy.epsilon >= optimal_composition(epsilon, delta, k, total_delta).epsilon
    assert found.privacy.epsilon <= optimal_composition(epsilon, delta, k, total_delta - 2 * found.guard).epsilon * (
        1 + 1e-9
    )
    assert found.guard < 2e-5
    assert found.discretisation == epsilon


def test_delta_is_never_below_the_optimum_on_a_grid() -> None:
    total = pld_of(Privacy(0.3, 1e-4), common_discretisation([0.3])).repeated(40)
    for epsilon in np.linspace(0, 13, 40).tolist():
        exact = optimal_delta(0.3, 1e-4, 40, epsilon)
        assert exact <= total.delta(epsilon) <= exact + 2 * total.guard


def test_the_guard_covers_the_errors_of_the_library() -> None:
    """At (0.05, 0, 2000) the ε of the library is below the exact optimum for δ near its noise; ours is not."""
    total = pld_of(Privacy(0.05), 0.05 / 100).repeated(2000)
    for epsilon in (0.1, 2.0, 8.0, 14.0):
        raw, exact = total._delta(epsilon), optimal_delta(0.05, 0.0, 2000, epsilon)
        assert abs(raw - exact) <= total.guard
        assert total.delta(epsilon) >= exact


MIXED = {Privacy(0.3, 1e-4): 20, Privacy(0.1, 1e-4): 50, Privacy(0.5): 5}
UNEVEN = {Privacy(0.3141, 1e-4): 20, Privacy(0.1177, 1e-4): 20, Privacy(0.5): 5}


@pytest.mark.parametrize(("events", "above"), [(MIXED, 1e-5), (UNEVEN, 1e-4)])
def test_different_events_are_composed_in_any_order(events: dict[Privacy, int], above: float) -> None:
    exact = optimal_composition_of_sequence(events, 0.03).epsilon
    found = pld_composition_of_sequence(events, 0.03)
    assert exact <= found.privacy.epsilon <= exact + above
    assert pld_composition_of_sequence(dict(reversed(events.items())), 0.03) == found


def test_delta_is_never_below_the_profile() -> None:
    """For the exact profile of a Gaussian mechanism: δ is above it, and closer on a finer grid."""

    def profile(epsilons: Array) -> Array:
        return np.array([gaussian_delta(0.4, epsilon) for epsilon in epsilons.tolist()])

    worst = []
    for step in (0.1, 0.02):
        one = pld_from_profile(symmetric_profile(profile), discretisation=step, max_loss=3.0)
        twice = one.repeated(2)
        gaps = []
        for epsilon in np.linspace(0, 2, 41).tolist():
            assert one.delta(epsilon) >= gaussian_delta(0.4, epsilon)
            exact_twice = gaussian_delta(0.4 * 2**0.5, epsilon)  # two Gaussians are one with √2 times the shift
            assert twice.delta(epsilon) >= exact_twice
            gaps.append(twice.delta(epsilon) - exact_twice)
        worst.append(max(gaps))
    assert worst[1] < worst[0] / 10
    assert worst[1] < 1e-4


def test_the_profile_of_a_mechanism_gives_its_pld() -> None:
    event = Privacy(0.3, 1e-4)
    exact = optimal_composition(0.3, 1e-4, 50, 0.02).epsilon
    found = pld_from_profile(profile_of_event(event), discretisation=1e-3, max_loss=0.3).repeated(50).epsilon(0.02)
    assert exact <= found <= exact + 1e-6


def test_extreme_compositions_are_answered_or_refused() -> None:
    assert pld_composition(0.3, 1e-3, 0, 0.0).privacy == Privacy(0.0, 0.0)
    assert pld_composition(0.0, 1e-3, 3, 0.01).privacy.epsilon == 0.0
    with pytest.raises(DeltaTooSmall, match="that is the probability of an infinite loss") as caught:
        pld_composition(0.3, 1e-3, 3, 1e-3)
    assert caught.value.floor >= least_possible_delta(1e-3, 3)
    with pytest.raises(TooMuchWork, match="Use a coarser discretisation"):
        pld_of(Privacy(0.3), 3e-5).repeated(10**7)
    with pytest.raises(TooMuchWork, match=r"would need \d+ cells; the limit is 16777216"):  # before any allocation
        pld_of(Privacy(0.1, 1e-15), 0.1).repeated(10**13)
    with pytest.raises(TooMuchWork, match="needs more than"):
        pld_from_profile(profile_of_event(Privacy(0.3)), discretisation=1e-9, max_loss=1.0)


@for_each("bad", [0.0, -1.0, float("inf"), float("nan"), True])
def test_invalid_discretisations_are_refused(bad: float) -> None:
    with refused("discretisation"):
        pld_composition(0.3, 0.0, 2, 1e-3, discretisation=bad)


def test_the_error_of_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dp_accounting", "dp_accounting.pld", "dp_accounting.pld.pld_pmf"):
        monkeypatch.setitem(sys.modules, name, None)
    total = pld_of(Privacy(0.3, 1e-3), 0.3).repeated(3)
    assert total.epsilon(0.1) == pytest.approx(optimal_composition(0.3, 1e-3, 3, 0.1).epsilon, rel=1e-9)
    with pytest.raises(BackendUnavailable, match=r"pip install 'darrm-opt\[accounting\]'"):
        _ = total.library


# ---------------------------------------------------------------------------------------------- parts


def test_sequences_compose_every_class() -> None:
    events = {Privacy(0.25): 1, Privacy(0.5): 2, Privacy(0.75, 1e-3): 1}
    found = pld_composition_of_sequence(events, 0.01).privacy.epsilon
    exact = optimal_composition_of_sequence(events, 0.01).epsilon
    assert exact <= found <= exact * (1 + 1e-6)
    with refused("delta"):
        pld_composition_of_sequence(events, 2.0, -1.0)  # the total is checked first
    with refused("k"):
        pld_composition(0.1, 0.0, 2.0, 0.1)  # type: ignore[arg-type]


def test_a_leak_alone_is_a_loss_of_0_or_an_infinite_one() -> None:
    leak, response = pld_of(Privacy(0.0, 0.25), 0.5), pld_of(Privacy(0.5), 0.5)
    assert leak.delta(0.0) == pytest.approx(0.25, rel=1e-13)
    assert leak.then(response).delta(0.0) == pytest.approx(0.25 + 0.75 * math.tanh(0.25), rel=1e-12)
    assert pld_of(Privacy(0.0, 1 - 2.0**-53), 0.5).delta(0.0) == 1.0


def test_a_profile_is_evaluated_only_on_its_grid() -> None:
    """At points rounded down, since it decreases; its values are made decreasing and at least 1 − e^ε."""
    asked: list[float] = []

    def bumpy(epsilons: Array) -> Array:
        asked.extend(epsilons.tolist())
        return np.where(epsilons > 0.3, 0.2, np.where(epsilons > -0.15, 0.1, 0.0))

    step = 0.1
    pld = pld_from_profile(bumpy, discretisation=step, max_loss=0.55)
    assert pld.max_loss == pytest.approx(0.6)
    assert len(asked) == 13
    assert all(Fraction(each) <= i * Fraction(step) for i, each in zip(range(-6, 7), asked, strict=True))
    assert pld.mass_error == pytest.approx(16 * ULP / math.tanh(step / 2), rel=1e-12, abs=0)
    assert pld.delta(0.4) == pytest.approx(0.1, rel=1e-9)
    response = pld_of(Privacy(0.5), 0.25)
    nothing = pld_from_profile(lambda epsilons: 0 * epsilons, discretisation=0.25, max_loss=1.0)
    assert nothing.then(response).delta(0.1) == pytest.approx(response.delta(0.1), rel=1e-9)


def test_invalid_profiles_are_refused() -> None:
    with refused("max_loss"):
        pld_from_profile(lambda epsilons: 0 * epsilons, discretisation=0.25, max_loss=-1.0)
    wrong: list[Any] = [lambda e, at=at: np.where(e > 0.9, at, 0.5) for at in (-1e-9, 1.0 + 1e-9, 2.0, math.nan)]
    for profile in (*wrong, lambda e: e[1:], lambda e: e[:-1], lambda _: 0.1):
        with refused("profile"):
            pld_from_profile(profile, discretisation=0.25, max_loss=1.0)


def test_extreme_profiles_and_discretisations() -> None:
    assert profile_of_event(Privacy(0.7, 0.01))(np.array([-50.0])).tolist() == [1.0]
    assert common_discretisation([1.0], 5.0) == 1.0
    step = Fraction(common_discretisation([1.1, 0.1]))  # 1.1 is slightly more than 11 times 0.1
    assert 11 * step >= Fraction(1.1)
    assert step >= Fraction(0.1)


def test_invalid_arguments_of_a_distribution_are_refused() -> None:
    pld = pld_of(Privacy(0.5), 0.5)
    for epsilon in (-0.1, "0.1"):
        with refused("epsilon"):
            pld.delta(epsilon)  # type: ignore[arg-type]
    for k in (0, 2.0):
        with pytest.raises(InvalidInput, match=f"k = {k} .* a whole number of mechanisms, at least 1"):
            pld.repeated(k)  # type: ignore[arg-type]


def test_the_length_of_a_composition_is_known_in_advance() -> None:
    one = pld_of(Privacy(0.25), 0.25)
    for k in (10, 3000):
        low, high = _composed_cells(one.masses, k)
        assert high - low + 1 == one.repeated(k).masses.size


@for_each("k", [2, 3, 3000])
def test_the_charge_of_a_transform_is_by_the_longer_of_input_and_result(k: int) -> None:
    """By the formula at the head of the module."""
    one = pld_of(Privacy(0.25), 0.05)
    many = one.repeated(k)
    points = 2 * max(one.masses.size, many.masses.size)
    stages = 4 * math.log2(points)
    exact = math.expm1(k * one.mass_error) + math.sqrt(points) * ((k + 1) * stages + 8 * k) * ULP
    assert exact <= many.mass_error <= exact * (1 + 20 * ULP)


def test_a_certain_loss_stays_certain() -> None:
    nothing = pld_from_profile(lambda epsilons: 0 * epsilons, discretisation=0.25, max_loss=1.0)
    assert nothing.repeated(10).delta(0.1) < 1e-11
    for rare in (0.0, 1e-6):  # the best orders of a normal law are above 1e150, and above 600
        low, high = _composed_cells(np.array([0.0, rare, 1 - 2 * rare, rare, 0.0]), 10)
        assert low <= 20 <= high


def test_a_composition_can_be_composed_further() -> None:
    """A transform leaves masses slightly below 0; one loss in 10⁴ is 2, the others are 0."""
    one = pld_from_profile(lambda x: 1e-4 * -np.expm1(np.minimum(x - 2, 0.0)), discretisation=0.5, max_loss=2.0)
    twice, once = one.repeated(20).repeated(50), one.repeated(1000)
    for epsilon in (0.0, 0.5, 2.0, 5.0, 9.0):
        assert abs(twice.delta(epsilon) - once.delta(epsilon)) <= twice.guard + once.guard


def test_releases_without_noise_are_composed() -> None:
    everything = pld_from_profile(np.ones_like, discretisation=0.1, max_loss=2.0)
    assert [everything.repeated(k).delta(1.0) for k in (1, 2, 3, 2000)] == [1.0] * 4
    both = everything.then(pld_of(Privacy(0.3, 1e-3), 0.1))
    assert both.repeated(3).then(both).delta(1.0) == 1.0
    with pytest.raises(DeltaTooSmall):
        both.epsilon(0.5)


def test_the_guard_grows_with_masses_that_exceed_1() -> None:
    """As for a profile that is not convex in e^ε."""
    one = pld_from_profile(lambda x: np.clip(1 - np.exp(x - 1), 0.0, 0.5), discretisation=1 - math.log(2), max_loss=1.0)
    assert one.masses.sum() > 1.1
    exact = one.masses
    for _ in range(99):
        exact = np.convolve(exact, one.masses)
    power = one.repeated(100)
    padded = np.zeros(exact.size)
    first = power.lowest - 100 * one.lowest
    padded[first : first + power.masses.size] = power.masses
    assert np.abs(padded - exact).sum() <= power.mass_error + TRUNCATION
    both = power.then(power)
    assert both.mass_error >= 2 * power.mass_error * one.masses.sum() ** 100 * 0.99
    assert one.repeated(10**6).delta(3.0) == 1.0


def test_many_kinds_are_refused_before_any_composition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty kinds of 10^7 releases once took minutes until they were refused."""

    def composed(_: Pld, k: int) -> Pld:
        raise AssertionError(k)

    monkeypatch.setattr(Pld, "repeated", composed)
    with pytest.raises(TooMuchWork, match=r"would need \d+ cells"):
        Pld.of_all([(pld_of(Privacy(0.1 + 0.001 * kind, 1e-9), 1e-3), 10**7) for kind in range(60)])
    with pytest.raises(AssertionError, match="9"):
        Pld.of_all([(pld_of(Privacy(0.1 + 0.001 * kind, 1e-9), 1e-3), 9) for kind in range(60)])


def test_a_guess_is_at_the_epsilon_of_the_delta() -> None:
    """δ is linear in e^ε between two losses, where the guess is exact."""
    pld = pld_of(Privacy(0.5, 1e-3), 0.25).repeated(4)
    for epsilon in (0.1, 0.6, 1.2, 1.9):
        assert pld._guess(pld.delta(epsilon)) == pytest.approx(epsilon, rel=1e-9)
    assert pld._guess(0.0) is None


def test_truncated_masses_of_a_composition_count_as_larger_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pld_of(Privacy(0.5, 1e-3), 0.25), pld_of(Privacy(0.75), 0.25)
    whole = one.then(other)
    monkeypatch.setattr("darrm_opt.accounting.pld.TRUNCATION", 0.9)
    cut = one.then(other)
    assert math.fsum(cut.masses) + cut.infinite == pytest.approx(1.0, abs=1e-14)
    assert 0.4 < cut.infinite < 0.45 + 1e-3
    assert cut.masses[-1] > 0.2  # the cells at both ends have mass
    assert cut.masses[0] > 0.2
    for epsilon in np.linspace(0, 2, 9).tolist():
        assert cut.delta(epsilon) >= whole.delta(epsilon) - 1e-14
    uneven = Pld(0.25, 1.0, 0.0, 0, np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1]), 0.0)
    cut = uneven.then(Pld(0.25, 0.0, 0.0, 0, np.ones(1), 0.0))
    assert cut.infinite == pytest.approx(0.4, abs=1e-14)
    assert cut.masses == pytest.approx([0.5, 0.1], abs=1e-14)


def test_lengths_of_transforms_are_minimal() -> None:
    lengths = sorted(2**a * 3**b * 5**c for a in range(13) for b in range(3) for c in range(3))
    assert all(fast_length(cells) == next(each for each in lengths if each >= cells) for cells in range(1, 2049))


def test_the_cells_of_a_composition_are_limited() -> None:
    """A short one has all cells, a long one no more than the limit."""
    assert [_ends(np.full(3, 1 / 3), k) for k in (1, 2)] == [(0, 2), (0, 4)]
    assert _composed_cells(np.full(3, 1 / 3), 2) == (0, 4)


def test_the_largest_number_of_cells_is_accepted_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Privacy(0.5, 1e-6)
    parts = [(pld_of(event, 0.25), 3000), (pld_of(Privacy(0.25), 0.25), 2000)]
    cells = sum(high - low + 1 for low, high in (_ends(pld.masses, count) for pld, count in parts))
    makes: list[tuple[int, Callable[[], object]]] = [
        (4, lambda: pld_of(event, 0.25)),
        (8, lambda: pld_from_profile(profile_of_event(event), discretisation=0.25, max_loss=1.0)),
        (math.ceil(math.sqrt(2) * cells), lambda: Pld.of_all(parts)),
    ]
    monkeypatch.setattr(Pld, "repeated", lambda pld, _: pld)
    for most, make in makes:
        monkeypatch.setattr("darrm_opt.accounting.pld.MAX_CELLS", most)
        make()
        monkeypatch.setattr("darrm_opt.accounting.pld.MAX_CELLS", most - 1)
        with pytest.raises(TooMuchWork):
            make()


def test_a_profile_is_charged_for_its_rounding() -> None:
    """δ(ε′) of randomised response with twenty more digits, and exactly 0 above all losses."""
    event, e = Privacy(0.75), Decimal("0.75").exp()
    profile = profile_of_event(event)
    for epsilon in (0.0, 0.25, 0.5):
        exact = (e - Decimal(epsilon).exp()) / (1 + e)
        assert (
            exact * Decimal(1 + 8 * ULP)
            <= Decimal(float(profile(np.array([epsilon]))[0]))
            <= exact * Decimal(1 + 64 * ULP)
        )
    assert profile(np.array([0.75, 3.0])).tolist() == [0.0, 0.0]
    reverse = float(symmetric_profile(lambda each: np.full_like(each, 0.25))(np.array([-1.0]))[0])
    exact = 1 - Decimal("0.75") * Decimal(-1).exp()
    assert exact + Decimal(3 * ULP) <= Decimal(reverse) <= exact + Decimal(5 * ULP)


def test_a_converted_distribution_is_charged_for_rounding() -> None:
    ours = pld_of(Privacy(0.5, 1e-3), 0.25).repeated(20)
    guarded = library_distribution(ours, guarded=True)
    for epsilon in (0.0, 1.0, 20.0):
        assert ours.delta(epsilon) * (1 - 1e-15) <= guarded.get_delta_for_epsilon(epsilon) + 1e-15
        assert guarded.get_delta_for_epsilon(epsilon) <= ours.delta(epsilon) + ours.guard


def test_the_guard_is_that_of_its_derivation() -> None:
    one = pld_of(Privacy(0.25, 1e-3), 0.25)
    assert one.mass_error == pld.MASS_ERROR
    assert hardly_above(one.guard, one.mass_error + (one.masses.size + 4 * one.max_loss + 8) * ULP, 1e-29)
    many = one.repeated(7)
    points = 2 * max(3, many.masses.size)
    eta = 4 * ULP * math.log2(points)
    fourier = math.sqrt(points) * (8 * eta + 7 * 8 * ULP)
    assert many.mass_error == pytest.approx(math.expm1(7 * one.mass_error) + fourier, rel=1e-12, abs=0)
    assert hardly_above(many.max_loss, 1.75, 1e-15)
    both = one.then(many)
    points = 2 * (3 + many.masses.size)
    error = one.mass_error + many.mass_error * (1 + one.mass_error)
    error += 3 * math.sqrt(points) * 4 * ULP * math.log2(points)
    assert both.mass_error == pytest.approx(error, rel=1e-12, abs=0)
    assert hardly_above(both.max_loss, 2.0, 1e-15)
    assert one.repeated(1) is one


def test_profiles_compose_on_the_grid_of_the_longest() -> None:
    voters = Problem(3, Privacy(0.3), Privacy(0.3))
    short, long = (Release(NoiseFunction(np.full(4, gamma)), voters) for gamma in (0.05, 0.1))
    assert short.profile.max_loss < long.profile.max_loss
    composed = accounts.compose_profiles([(short.profile, 1), (long.profile, 2)])
    assert composed.discretisation == long.profile.discretisation(3)


def test_lengths_of_distributions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    one = pld_of(Privacy(0.25, 1e-3), 0.25)
    whole = one.repeated(9)
    monkeypatch.setattr(pld, "MAX_CELLS", whole.masses.size)
    assert one.repeated(9).masses.size == whole.masses.size
    monkeypatch.setattr(pld, "MAX_CELLS", whole.masses.size - 1)
    with pytest.raises(TooMuchWork, match=r"a PLD at discretisation 0.25 would need 19 cells; the limit is 18"):
        one.repeated(9)
    monkeypatch.setattr(pld, "MAX_CELLS", 11)
    with pytest.raises(TooMuchWork, match=r"would need 12 cells; the limit is 11"):
        one.then(one)
    with refused("discretisation"):
        one.then(pld_of(Privacy(0.5), 0.5))


def test_no_mechanism_costs_nothing() -> None:
    nothing = pld.pld_composition_of_sequence({}, 0.1)
    assert (nothing.privacy, nothing.guard) == (Privacy(0.0, 0.1), 0.0)


def test_a_common_discretisation_divides_the_decimals_as_written() -> None:
    assert common_discretisation([0.3, 0.2]) == pytest.approx(0.1, rel=1e-15)
    assert common_discretisation([0.0, 0.0]) == 1.0
    assert common_discretisation([0.0], 0.25) == 0.25
    assert common_discretisation([0.7]) == 0.7
    assert common_discretisation([1.0], 0.3) == pytest.approx(1 / 3, rel=1e-15)
    assert common_discretisation([1.0, 0.5], 0.3) == 0.3
    cells = pld.DEFAULT_CELLS
    assert common_discretisation([1.0, 1.0 + 1e-12]) == (1.0 + 1e-12) / cells
    for bad in (0.0, -1.0, math.inf):
        with refused("discretisation"):
            common_discretisation([1.0], bad)


def test_the_profile_of_a_mechanism_is_that_of_randomised_response_rounded_up() -> None:
    profile = pld.profile_of_event(Privacy(0.7, 0.01))
    p = Fraction(1) / (1 + Fraction(math.exp(-0.7)))
    at = np.array([-3.0, -0.7, -0.2, 0.0, 0.3, 0.7, 2.0])
    for epsilon, found in zip(at.tolist(), profile(at).tolist(), strict=True):
        behind, before = (max(Fraction(0), 1 - Fraction(math.exp(epsilon - loss))) for loss in (0.7, -0.7))
        exact = Fraction(0.01) + (1 - Fraction(0.01)) * (p * behind + (1 - p) * before)
        assert exact - Fraction(1, 10**16) <= Fraction(found) <= exact * (1 + Fraction(1, 10**14)), epsilon
    assert profile(np.array([0.7]))[0] <= 0.01 * (1 + 20 * ULP)


def test_a_symmetric_profile_holds_at_every_epsilon() -> None:
    def half(epsilons: Array) -> Array:
        return np.asarray(np.maximum(0.0, 0.3 - epsilons))

    everywhere = symmetric_profile(half)
    assert everywhere(np.array([0.1])).tolist() == half(np.array([0.1])).tolist()
    (found,) = everywhere(np.array([-0.1]))
    assert hardly_above(found, 1 - math.exp(-0.1) * (1 - 0.2) - 1e-16, 2e-15)
    assert everywhere(np.array([-50.0])).tolist() == [1.0]


def test_a_profile_that_would_take_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    profile: Callable[..., object] = lambda at: np.where(at < 0, 1.0, 0.0)  # noqa: E731
    monkeypatch.setattr(pld, "MAX_CELLS", 8)
    assert pld_from_profile(profile, discretisation=0.25, max_loss=1.0).max_loss == 1.0  # type: ignore[arg-type]
    with pytest.raises(TooMuchWork, match=r"max_loss = 1.01 at discretisation 0.25 needs more than 8 cells"):
        pld_from_profile(profile, discretisation=0.25, max_loss=1.01)  # type: ignore[arg-type]
    assert pld_from_profile(lambda at: 0 * at, discretisation=0.25, max_loss=0.0).max_loss == 0.25
