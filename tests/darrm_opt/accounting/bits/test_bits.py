"""Adaptive releases of one bit: against exact recursion, all adaptive strategies and related accounts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import for_each
from support.enumeration import Pair, adaptive_bits_delta, exp_fraction
from support.refusals import refused
from support.rounded import hardly_above

from darrm_opt.accounting.bits import recursion
from darrm_opt.accounting.bits.recursion import BitTotal, compose_bits, compose_bits_any_order
from darrm_opt.accounting.bits.region import inner_region, outer_region, privacy_region
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.errors import DeltaTooSmall, InvalidInput, TooMuchWork
from darrm_opt.problem import Privacy

EVENTS = [
    Privacy(0.5, 0.05),
    Privacy(1.0, 0.02),
    Privacy(0.2676, 3e-4),
    Privacy(0.1),
    Privacy(0.0, 0.1),
    Privacy(3.0, 1e-6),
]
TOTALS = (0.0, 0.07, 0.3, 0.5, 1.1, 2.0, 9.0)


def polygon(event: Privacy) -> list[Pair]:
    """Return the vertices of the (ε, δ) polygon up to relabelling, as rationals."""
    odds, delta = exp_fraction(event.epsilon), Fraction(event.delta)
    return [(delta, Fraction(0)), (Fraction(0), delta), ((odds + delta) / (odds + 1), (1 - delta) / (odds + 1))]


def of_tree(choice: tuple[Pair, ...], depth: int, total_epsilon: float) -> Fraction:
    """Return δ of one adaptive strategy: ``choice`` lists the pair at every node of the binary tree, by levels."""
    odds, total = exp_fraction(total_epsilon), Fraction(0)
    for bits in product((0, 1), repeat=depth):
        node, on_data, on_neighbour = 0, Fraction(1), Fraction(1)
        for bit in bits:
            p, q = choice[node]
            on_data, on_neighbour = on_data * (p if bit else 1 - p), on_neighbour * (q if bit else 1 - q)
            node = 2 * node + 1 + bit
        total += max(on_data - odds * on_neighbour, Fraction(0))
    return total


@for_each(("event", "k"), [*product(EVENTS, (1, 2, 3)), (EVENTS[0], 5)])
def test_the_grid_is_just_above_the_exact_recursion(event: Privacy, k: int) -> None:
    total = compose_bits([(privacy_region(event), k)])
    for epsilon in TOTALS:
        exact = adaptive_bits_delta([polygon(event)] * k, epsilon)
        # V has slopes of at most 1 in log x: a chord costs less than the spacing of the grid.
        assert exact <= Fraction(total.delta(epsilon)) <= exact + k * Fraction(total.step)


def test_the_recursion_is_the_worst_of_all_strategies() -> None:
    """All adaptive choices of vertices for three releases: 3⁷ strategies."""
    corners = polygon(EVENTS[0])
    best = max(of_tree(choice, 3, 0.4) for choice in product(corners, repeat=7))
    assert best == adaptive_bits_delta([corners] * 3, 0.4)


def test_at_delta_0_it_is_the_optimal_composition() -> None:
    for epsilon, k in [(0.1, 50), (1.0, 20), (0.2676, 100)]:
        found = compose_bits([(privacy_region(Privacy(epsilon)), k)]).epsilon(1e-3)
        assert found == pytest.approx(optimal_composition(epsilon, 0.0, k, 1e-3).epsilon, rel=1e-9)


def test_the_region_of_one_line_is_the_polygon() -> None:
    for event in EVENTS:
        outer = compose_bits([(outer_region([math.exp(event.epsilon)], [event.delta]), 4)])
        exact = compose_bits([(privacy_region(event), 4)])
        for epsilon in TOTALS:
            assert outer.delta(epsilon) == pytest.approx(exact.delta(epsilon), rel=1e-9, abs=1e-6)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_the_region_is_between_the_inner_and_the_outer_one(seed: int) -> None:
    """Pairs of random mechanisms: lines of their profile give an outer region, the pairs an inner one."""
    generator = np.random.default_rng(seed)
    p = generator.uniform(0, 1, 6)
    q = np.clip(p * generator.uniform(0.6, 1.6, 6) + generator.uniform(-0.02, 0.02, 6), 0, 1)
    shown = [(Fraction(a), Fraction(b)) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
    shown += [(b, a) for a, b in shown]
    shown += [(1 - a, 1 - b) for a, b in shown]
    slopes = np.exp(generator.uniform(0, 2, 5))
    deltas = [math.nextafter(float(max(a - Fraction(c) * b for a, b in shown)), 1.0) for c in slopes.tolist()]
    outer = outer_region(slopes, np.maximum(deltas, 0.0))
    inner = inner_region(np.column_stack((p, q)))
    assert outer.guaranteed
    assert not inner.guaranteed
    outside, inside = (compose_bits([(region, 2)], points=4001) for region in (outer, inner))
    for epsilon in (0.0, 0.3, 1.0):
        exact = adaptive_bits_delta([shown] * 2, epsilon)
        assert exact <= Fraction(outside.delta(epsilon))
        assert inside.delta(epsilon) <= outside.delta(epsilon) + 1e-4
        assert float(exact) == pytest.approx(inside.delta(epsilon), abs=1e-4)
    assert outside.guaranteed
    assert not inside.guaranteed


def test_the_order_matters_and_any_order_covers_all() -> None:
    """The adversary gains more with randomised response first and the leaky kind second."""
    plain, leaky = Privacy(1.0), Privacy(0.3, 0.1)
    first, second = [polygon(plain), polygon(leaky)], [polygon(leaky), polygon(plain)]
    exact = [adaptive_bits_delta(order, 0.5) for order in (first, second)]
    assert exact[0] > exact[1] * Fraction(101, 100)
    parts = [(privacy_region(plain), 1), (privacy_region(leaky), 1)]
    given_order = [compose_bits(order).delta(0.5) for order in (parts, parts[::-1])]
    assert given_order == [pytest.approx(float(value), abs=1e-6) for value in exact]
    anyhow = compose_bits_any_order(parts)
    assert anyhow.delta(0.5) >= max(given_order) * (1 - 1e-12)
    assert anyhow.delta(0.5) == compose_bits_any_order(parts[::-1]).delta(0.5)
    assert anyhow.delta(0.5) == pytest.approx(float(exact[0]), abs=1e-6)


def test_an_order_chosen_bit_by_bit_is_covered() -> None:
    """Four releases of two kinds: the exact game in which the adversary also chooses the next kind."""
    kinds = [polygon(Privacy(1.0)), polygon(Privacy(0.3, 0.1))]

    def worst(left: tuple[int, int], a: Fraction, b: Fraction) -> Fraction:
        if left == (0, 0):
            return max(a - b, Fraction(0))
        values = []
        for kind in (0, 1):
            if left[kind]:
                after = (left[0] - (kind == 0), left[1] - (kind == 1))
                values += [worst(after, a * p, b * q) + worst(after, a * (1 - p), b * (1 - q)) for p, q in kinds[kind]]
        return max(values)

    found = compose_bits_any_order([(privacy_region(Privacy(1.0)), 2), (privacy_region(Privacy(0.3, 0.1)), 2)])
    for epsilon in (0.0, 0.5, 1.5):
        exact = worst((2, 2), Fraction(1), exp_fraction(epsilon))
        assert exact <= Fraction(found.delta(epsilon)) <= exact + Fraction(1, 10**6)


def test_invalid_arguments_and_long_recursions_are_refused() -> None:
    region = privacy_region(Privacy(0.3, 1e-3))
    with pytest.raises(TooMuchWork, match=r"Use optimal_composition\(\) or a PLD"):
        compose_bits([(region, 10**6)])
    with pytest.raises(TooMuchWork, match="exact adaptive composition of single bits"):
        compose_bits_any_order([(region, 1000), (region, 1000)])
    with pytest.raises(TooMuchWork, match="inf updates"):  # more states than a double can count
        compose_bits_any_order([(region, 10**9)] * 40)
    with pytest.raises(DeltaTooSmall, match="probability of an infinite loss"):
        compose_bits([(region, 10)]).epsilon(1e-3)
    for delta in (1.0, -0.1, math.nan):
        with pytest.raises(InvalidInput, match=rf"^delta = {delta} is not valid: expected a probability in \[0, 1\)"):
            compose_bits([(region, 10)]).epsilon(delta)
    with refused("count"):
        compose_bits([(region, -1)])
    with refused("points"):
        compose_bits([(region, 1)], points=2)
    with refused("parts"):
        compose_bits([(Privacy(0.3), 1)])  # type: ignore[list-item]


def test_a_region_without_privacy_is_refused() -> None:
    with refused("epsilon"):
        privacy_region(Privacy(math.inf))


CURVE = BitTotal(0.5, np.array([0.5, 0.2, 0.1]), guaranteed=True)


def test_between_grid_points_delta_is_linear_in_the_odds() -> None:
    for epsilon, exact in ((0.0, 0.5), (0.5, 0.2), (1.0, 0.1), (7.0, 0.1), (math.inf, 0.1)):
        assert hardly_above(CURVE.delta(epsilon), exact), epsilon
    for cell, (left, right) in enumerate([(0.5, 0.2), (0.2, 0.1)]):
        for inside in (0.1, 0.25, 0.4):
            share = math.expm1(inside) / math.expm1(0.5)
            assert hardly_above(CURVE.delta(0.5 * cell + inside), left + share * (right - left) - 1e-15)
    assert BitTotal(0.5, np.zeros(3), guaranteed=True).delta(0.2) == 0.0
    assert BitTotal(0.5, np.full(3, 1.0), guaranteed=True).delta(0.2) == 1.0
    with refused("epsilon"):
        CURVE.delta(-0.1)


def test_a_total_epsilon_is_the_one_at_which_the_curve_reaches_delta() -> None:
    assert CURVE.epsilon(0.6) == 0.0
    assert hardly_above(CURVE.epsilon(0.2), 0.5)
    assert hardly_above(CURVE.epsilon(0.1 + 1e-12), 1.0 - 1e-10, 1e-9)
    assert hardly_above(BitTotal(2.0, CURVE.values, guaranteed=True).epsilon(0.1 + 1e-12), 4.0 - 1e-9, 1e-8)
    with pytest.raises(DeltaTooSmall) as refused:
        CURVE.epsilon(0.0999)
    assert hardly_above(refused.value.floor, 0.1)
    assert "that is the probability of an infinite loss, rounding included" in str(refused.value)


def test_the_work_of_a_recursion_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    region = privacy_region(Privacy(0.3))
    updates = region.moves.shape[0] * 3 * 11
    monkeypatch.setattr(recursion, "MAX_WORK", updates)
    assert compose_bits([(region, 3)], points=11).values.size == 11
    monkeypatch.setattr(recursion, "MAX_WORK", updates - 1)
    with pytest.raises(TooMuchWork, match=r"updates exceed the limit of"):
        compose_bits([(region, 3)], points=11)
    with pytest.raises(TooMuchWork):  # of one kind there is one order
        compose_bits_any_order([(region, 3)], points=11)
    monkeypatch.setattr(recursion, "MAX_WORK", updates)
    assert compose_bits_any_order([(region, 3)], points=11).values.size == 11
    other = privacy_region(Privacy(0.4))
    states = (region.moves.shape[0] + other.moves.shape[0]) * (3 + 1) * (2 + 1)  # 0 to 3 and 0 to 2 of them done
    monkeypatch.setattr(recursion, "MAX_WORK", states * 11)
    assert compose_bits_any_order([(region, 3), (other, 2)], points=11).values.size == 11
    monkeypatch.setattr(recursion, "MAX_WORK", states * 11 - 1)
    with pytest.raises(TooMuchWork):
        compose_bits_any_order([(region, 3), (other, 2)], points=11)


def test_zero_releases_cost_nothing() -> None:
    region = privacy_region(Privacy(0.3))
    assert compose_bits([(region, 0)], points=3).epsilon(0.0) == 0.0
    assert not compose_bits([(region, 1)], points=3).values.flags.writeable
