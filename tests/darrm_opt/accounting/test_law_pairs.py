"""Pairs of fixed votes: all of them in fractions, each bound to the unit of its charge for rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt import NoiseFunction
from darrm_opt.accounting import law_pairs
from darrm_opt.accounting.bits.region import spanned_region
from darrm_opt.accounting.labels.composition import TABLE_ERROR, table_divergence
from darrm_opt.accounting.law_pairs import MAX_VERTICES, BitPairs, LawPairs
from darrm_opt.problem import MAX_TARGET_EPSILON
from darrm_opt.rounding import ULP

Pair = tuple[Fraction, Fraction]
U = Fraction(ULP)
EIGHTHS = NoiseFunction(np.array([0.75, 0.0, 0.0, 0.75]), 3)  # Pr[1 | v] = 1/8, 1/2, 1/2, 7/8
NOT_MONOTONE = NoiseFunction(np.array([0.1, 0.9, 0.3, 0.3, 0.9, 0.1]), 5)


def exact_pairs(noise: NoiseFunction, affected: int) -> list[Pair]:
    ones, K = [(1 + Fraction(float(g))) / 2 for g in noise.signed], noise.K
    return [(ones[v], ones[w]) for v in range(K + 1) for w in range(K + 1) if abs(v - w) <= affected]


@for_each("noise", [EIGHTHS, NOT_MONOTONE, NoiseFunction(np.ones(6), 5)])
@for_each("affected", [1, 2, 3])
def test_all_pairs_are_listed_rounded_outward(noise: NoiseFunction, affected: int) -> None:
    found = BitPairs.of_gamma(noise, affected).pairs.tolist()
    exact = exact_pairs(noise, affected)
    assert len(found) == len(exact)
    for (p, q), (exact_p, exact_q) in zip(sorted(found), sorted(exact), strict=True):
        assert exact_p <= p <= min(1, exact_p * (1 + 2 * U))
        assert exact_q * (1 - 2 * U) <= q <= exact_q


def test_delta_is_the_excess_plus_its_charge() -> None:
    """At ε = ln 2 the excess of (1/2, 1/8) is 1/4; p is charged two units, 2q six, and the result one."""
    assert math.exp(math.log(2)) == 2.0
    found = BitPairs.of_gamma(EIGHTHS, 1).delta(math.log(2))
    assert Fraction(found) == Fraction(1, 4) + (1 + Fraction(4, 4) + Fraction(1, 4)) * U


def test_delta_is_a_probability() -> None:
    votes = BitPairs.of_gamma(NoiseFunction(np.ones(6), 5), 1)
    assert votes.delta(0.0) == votes.at(0.0)[0] == 1.0


@pytest.mark.parametrize("affected", [1, 2, 5])
def test_delta_is_never_below_that_of_a_pair(affected: int) -> None:
    votes, pairs = BitPairs.of_gamma(NOT_MONOTONE, affected), exact_pairs(NOT_MONOTONE, affected)
    for epsilon in (0.0, 0.2, 1.0, 2.5, 40.0, MAX_TARGET_EPSILON, 1e300, math.inf):
        slope = Fraction(math.exp(min(epsilon, MAX_TARGET_EPSILON)))
        exact = max(Fraction(0), *(p - slope * q for p, q in pairs))
        delta, p, q = votes.at(epsilon)
        assert delta == votes.delta(epsilon)
        assert exact <= Fraction(delta) <= exact + 16 * U
        if exact > 16 * U:
            assert abs(Fraction(p) - slope * Fraction(q) - exact) <= 16 * U
            assert any(abs(Fraction(p) - a) < 4 * U and abs(Fraction(q) - b) < 4 * U for a, b in pairs)
        elif not exact:
            assert (p, q) == (0.0, 0.0)


@for_each(("noise", "affected"), [(EIGHTHS, 1), (EIGHTHS, 2), (NOT_MONOTONE, 1), (NoiseFunction(np.ones(6), 5), 1)])
def test_the_largest_finite_loss_is_that_of_the_pairs(noise: NoiseFunction, affected: int) -> None:
    ratio = max(p / q for p, q in exact_pairs(noise, affected) if q > 0)
    found = BitPairs.of_gamma(noise, affected).max_loss
    exact = math.log(ratio)
    assert exact * (1 + 8 * ULP) < found < exact * (1 + 14 * ULP) + 8 * ULP
    assert ratio > 1 or 0 < found < 1e-14


@for_each("seed", range(6))
@for_each("affected", [1, 2])
def test_the_regions_are_those_of_all_pairs(seed: int, affected: int) -> None:
    rng = np.random.default_rng((seed, 44))
    K = int(rng.integers(2, 7))
    noise = NOT_MONOTONE if seed == 0 else NoiseFunction.from_upper_half(rng.random((K + 1) // 2), K)
    pairs, votes = exact_pairs(noise, affected), BitPairs.of_gamma(noise, affected)
    assert votes.region.moves.tolist() == spanned_region(pairs).moves.tolist()
    assert votes.inner.moves.tolist() == spanned_region(pairs, "inner").moves.tolist()
    assert (votes.region.guaranteed, votes.inner.guaranteed) == (True, False)


# ------------------------------------------------------------------------------------------ laws that err


def laws_of(on_data: list[list[float]], on_neighbour: list[list[float]], error: float = 0.0) -> LawPairs:
    return LawPairs(np.array(on_data), np.array(on_neighbour), error=error)


def test_the_excess_of_laws_includes_its_charge() -> None:
    """At ε = ln 2 the excess of (1/2, 1/8) is 1/4; p is charged two units, 2q four, and the sum of two terms four."""
    laws = laws_of([[0.5, 0.5]], [[0.125, 0.875]])
    exact = Fraction(1, 4) + (1 + Fraction(4, 4) + Fraction(4, 4)) * U
    assert Fraction(laws.delta(math.log(2))) == Fraction(laws.deltas(np.array([math.log(2)]))[0]) == exact
    certain = laws_of([[1.0, 0.0]], [[0.0, 1.0]])
    assert certain.delta(0.0) == certain.deltas(np.array([-3.0]))[0] == 1.0
    error = 2.0**-20  # each probability may be off by that share: at worst 1/2 up and 1/8 down
    off = laws_of([[0.5, 0.5]], [[0.125, 0.875]], error=error)
    worst = Fraction(1, 2) * (1 + Fraction(error)) - Fraction(1, 4) * (1 - Fraction(error))
    for found in (off.delta(math.log(2)), off.deltas(np.array([math.log(2)]))[0]):
        assert worst <= Fraction(found) <= worst + 8 * U


@for_each(("rare", "kept"), [(0.0, 3), (1 / 8, 2)])
def test_rare_answers_are_omitted_and_their_probability_lowers_the_slope(rare: float, kept: int) -> None:
    """With units of 2^-20, to the last digit; an answer exactly at the limit is omitted, too."""
    u, p, q = Fraction(1, 2**20), [1 / 2, 3 / 8, 1 / 8], [1 / 8, 7 / 8, 0.0]
    limit = rare * (1 + 2.0**-20)  # probabilities are rounded up before they are compared
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(law_pairs, "ULP", float(u))
        found = laws_of([p, [1 / 4, 1 / 4, 1 / 2]], [q, [1 / 4, 1 / 4, 1 / 2]]).deltas(np.array([math.log(2)]), limit)
    slope = 2 * (1 - 2 * u) - 3 * Fraction(limit) * (1 + 4 * u)
    pairs = [(Fraction(a) * (1 + u) ** 2, Fraction(b) * (1 - u) ** 2) for a, b in zip(p, q, strict=True)]
    exact = sum(max(Fraction(0), a - slope * b) for a, b in pairs[:kept]) * (1 + 6 * u)
    assert found.tolist() == pytest.approx([float(exact)], rel=1e-14)


def test_the_affinity_is_the_least_over_pairs() -> None:
    assert laws_of([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]).affinity == math.sqrt(0.5)
    assert laws_of([[0.1] * 10], [[0.1] * 10]).affinity <= 1


def test_the_region_of_inexact_probabilities_is_larger_by_their_errors() -> None:
    """A quarter of each probability: four units more for a complement, and five for moving the vertices."""
    found = laws_of([[0.25, 0.75]], [[0.5, 0.5]], error=0.25).region
    exact = spanned_region([(Fraction(1, 4), Fraction(1, 2))])
    above, below = 1.25 + 9 * ULP, 0.75 - 9 * ULP
    assert found.moves.tolist() == (exact.moves * [above, above, below, below]).tolist()
    assert found.guaranteed


def test_a_region_of_many_pairs_has_fewer_lines_that_contain_them() -> None:
    chances = np.arange(1, 128) / 128
    laws = [np.stack([chance, 1 - chance], axis=1) for chance in (1 - (1 - chances) ** 2, chances)]
    found = LawPairs(np.concatenate(laws), np.concatenate(laws[::-1]), error=2.0**-40).region
    assert found.moves.shape[0] <= 2 * MAX_VERTICES + 2
    assert found.guaranteed
    for slope in (1.0, 1.05, 1.2, 1.5, 1.9, 1.98):
        exact = max(float(np.max(p - slope * q)) for p, q in (laws, laws[::-1]))
        drawn = float(np.max(found.moves[:, 0] - slope * found.moves[:, 2]))
        assert exact <= drawn <= exact + (1e-11 if slope == 1 else 1e-4)


def test_lines_replace_vertices_only_above_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a vertical edge, whose slope is undefined."""
    laws = laws_of([[0.1, 0.9], [0.2, 0.8], [0.4, 0.6], [0.5, 0.5]], [[0, 1], [0, 1], [0.05, 0.95], [0.15, 0.85]], 1e-9)
    exact = laws.region.moves
    small = laws_of([[2.0**-60, 1.0]], [[1.0, 2.0**-60]])  # the smaller probability is exact, the other its complement
    assert small._spanning == [(Fraction(2.0**-60), 1 - Fraction(2.0**-60))]
    monkeypatch.setattr(law_pairs, "MAX_VERTICES", exact.shape[0])
    assert laws_of([*laws.on_data], [*laws.on_neighbour], laws.error).region.moves.tolist() == exact.tolist()
    monkeypatch.setattr(law_pairs, "MAX_VERTICES", exact.shape[0] - 1)
    drawn = laws_of([*laws.on_data], [*laws.on_neighbour], laws.error).region.moves
    assert drawn.tolist() != exact.tolist()
    for slope in (1.0, 2.0, 4.0, 50.0):
        pairs = zip(laws.on_data.ravel(), laws.on_neighbour.ravel(), strict=True)
        assert np.max(drawn[:, 0] - slope * drawn[:, 2]) >= max(p - slope * q for p, q in pairs)


def test_an_answer_possible_on_one_side_only_has_no_divergence_and_errors_are_those_of_laws_or_tables() -> None:
    one_side = laws_of([[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]])
    other_side = laws_of([[1.0, 0.0, 0.0]], [[0.5, 0.5, 0.0]])
    neither = laws_of([[0.5, 0.5, 0.0]], [[0.25, 0.75, 0.0]])
    assert [laws.finite for laws in (one_side, other_side, neither)] == [False, False, True]
    assert one_side.divergence is None
    ones = [Fraction(1, 8), Fraction(1, 4), Fraction(3, 4), Fraction(7, 8)]
    for error, charged in ((2.0**-20, 2.0**-20), (2.0**-50, TABLE_ERROR)):
        for laws in (laws_of([[0.5, 0.5]], [[0.25, 0.75]], error), BitPairs(ones, 1, error=error)):
            found, exact = laws.divergence, table_divergence(laws.on_data, laws.on_neighbour, charged)
            assert found is not None
            assert found.shift == exact.shift
            np.testing.assert_allclose(found.values, exact.values, rtol=1e-15)


def test_the_total_of_a_bit_is_in_closed_form_unless_leaks_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law_pairs, "epsilon_at_delta", lambda *_: math.pi)
    leaking = BitPairs([Fraction(0), Fraction(1, 8), Fraction(7, 8), Fraction(1)], 1)
    least = float(leaking.pairs[leaking.pairs[:, 1] == 0, 0].max())
    assert [leaking.epsilon(delta) for delta in (0.0, 1 / 16, math.nextafter(least, 0))] == [math.pi] * 3
    assert leaking.epsilon(least) == pytest.approx(math.log((7 / 8 - 1 / 8) * 8), rel=1e-14)
    two = BitPairs([Fraction(0), Fraction(1, 8), Fraction(1, 4), Fraction(3, 4), Fraction(7, 8), Fraction(1)], 2)
    assert two.epsilon(3 / 16) == math.pi  # between the leaks of both directions
    monkeypatch.setattr(law_pairs, "ULP", 0.0)
    assert BitPairs.of_gamma(EIGHTHS, 1).epsilon(0.375) == 0.0  # (1/2 − δ)/(1/8) is 1
    assert BitPairs.of_gamma(EIGHTHS, 1).epsilon(0.0) == pytest.approx(math.log(4), rel=1e-14)


def test_epsilon_at_a_delta_is_the_remaining_loss_plus_its_charge() -> None:
    """At δ = 1/4 the pair (1/2, 1/8) leaves (1/2 − δ)/(1/8) = 2: seven units of it are charged, eight of ln 2."""
    votes = BitPairs.of_gamma(EIGHTHS, 1)
    above = Fraction(votes.epsilon(0.25)) - Fraction(math.log(2))
    assert (7 + 3) * U <= above <= (7 + 7) * U
    for wrong in (1.0, 1.5, -0.1):
        with refused("delta"):
            votes.epsilon(wrong)


def test_a_noise_function_needs_a_value_for_each_number_of_ones_and_a_tie_of_a_half() -> None:
    for losses, K, exact in (([0.5, 0.25], 2, [0.25, 0.5, 0.75]), ([0.375, 0.25], 3, [0.25, 0.375, 0.625, 0.75])):
        assert [float(each) for each in BitPairs.of_noise(losses, K, 1).chances] == exact


def test_delta_at_an_infinite_loss_is_that_at_the_largest_double() -> None:
    laws = LawPairs(np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.0, 0.75]]))
    assert laws.deltas(np.array([500.0, 710.0, 1e6])).tolist() == pytest.approx([0.5] * 3)


def test_all_neighbours_are_listed_if_probabilities_are_not_monotone() -> None:
    """The furthest suffice only for increasing probabilities: here adjacent counts differ most."""
    chances = [Fraction(1, 2), Fraction(1, 8), Fraction(7, 8), Fraction(1, 2)]
    computed = BitPairs(chances, 2, error=2.0**-45)
    assert {*map(tuple, computed.pairs.round(6).tolist())} >= {(0.875, 0.125), (0.125, 0.875), (0.5, 0.875)}
    assert computed.epsilon(0.0) == pytest.approx(math.log(7), rel=1e-9)
    rising = BitPairs(sorted(chances), 2, error=2.0**-45)
    assert rising.epsilon(0.0) == pytest.approx(math.log(4), rel=1e-9)
    level = BitPairs([Fraction(1, 4), Fraction(1, 2), Fraction(1, 2), Fraction(3, 4)], 2, error=2.0**-45)
    assert level.on_data.shape == rising.on_data.shape == (8, 2)  # the furthest only
    assert np.all(computed.on_data.sum(axis=1) == 1)
    assert BitPairs.of_noise([0.375, 0.25], 3, 9).affected == 3
    assert computed.is_bit
    assert not LawPairs(np.array([[0.5, 0.3, 0.2]]), np.array([[0.4, 0.4, 0.2]])).is_bit
