"""Accounts averaged over the affected voters: against enumeration of draws and of answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.enumeration import adaptive_bits_delta, vote_pairs

from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bits.region import outer_region
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.mixture import AffectedDistribution, DrawnMajority, mixture_total
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.bagging import Bags
from darrm_opt.design.privacy_profile import ProfileSearch
from darrm_opt.errors import DeltaTooSmall
from darrm_opt.mechanisms.vote_noise import LaplaceNoise, noise_function
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem

OPEN = Problem(3, Privacy(math.inf), Privacy(1.0))
GAMMA = NoiseFunction.from_upper_half(np.array([0.5, 0.3]), 3)  # not monotone
EPSILONS = (0.0, 0.3, 0.8, 1.5, 2.5)


def answers(gamma: NoiseFunction) -> list[Fraction]:
    """Return Pr[1 | v ones], exactly."""
    return [(1 + Fraction(float(g))) / 2 for g in gamma.signed]


@cache
def worst_delta(affected: int, queries: int, epsilon: float) -> Fraction:
    """Return the worst hockey-stick of adaptive queries on fixed votes by `GAMMA`."""
    return adaptive_bits_delta([vote_pairs(GAMMA, affected)] * queries, epsilon)


def draws(bags: Bags, K: int) -> list[tuple[tuple[int, ...], ...]]:
    """Return all equally likely draws of K subsamples."""
    records = range(bags.n)
    if bags.replacement:
        one = list(product(records, repeat=bags.subsample_size))
    else:
        one = list(combinations(records, bags.subsample_size))
    together = list(product(one, repeat=K))
    if bags.sampling == "disjoint":
        together = [draw for draw in together if len({i for part in draw for i in part}) == K * bags.subsample_size]
    return together


SMALL_DRAWS = [Bags(3, 1), Bags(3, 2), Bags(4, 2, False), Bags(4, 1, False, "disjoint")]


@for_each("bags", SMALL_DRAWS)
def test_the_law_is_that_of_all_draws(bags: Bags) -> None:
    together = draws(bags, 3)
    counts = [sum(0 in part for part in draw) for draw in together]
    law = bags.affected_distribution(3)
    for r, chance in enumerate(law.chances):
        exact = Fraction(counts.count(r), len(together))
        assert exact <= Fraction(chance) <= exact + Fraction(1, 10**14)


@for_each("queries", [1, 2, 3])
@for_each("bags", SMALL_DRAWS)
def test_the_account_is_the_exact_average_over_all_draws(bags: Bags, queries: int) -> None:
    """With the draw in view, the worst adversary gets the average of the worst of each draw: no more, no less."""
    total = mixture_total(GAMMA, OPEN, queries, bags.affected_distribution(3), points=8001)
    together = draws(bags, 3)
    counts = [sum(0 in part for part in draw) for draw in together]
    for epsilon in EPSILONS:
        exact = sum(
            Fraction(counts.count(r), len(counts)) * worst_delta(r, queries, epsilon) for r in set(counts) - {0}
        )
        found = total.delta(epsilon)
        assert found >= exact * (1 - Fraction(1, 10**12))
        assert found <= float(exact) + 2e-6


@for_each(
    ("problem", "queries"),
    [
        (OPEN, 1),
        (OPEN, 5),
        (Problem(4, Privacy(0.5, 1e-3), Privacy(1.0)), 4),
        (Problem(5, Privacy(0.4), Privacy(1.0)), 3),
    ],
)
def test_a_certain_count_is_the_account_with_that_many_affected(problem: Problem, queries: int) -> None:
    gamma = noise_function(problem.K, LaplaceNoise(3.0))
    for count in (1, problem.K - 1, problem.K):
        affected = Problem(problem.K, problem.voter, problem.target, count)
        expected = exact_epsilon(gamma, affected, queries, 0.01, points=4001, fresh=True)
        law = AffectedDistribution.exactly(count, problem.K)
        total = mixture_total(gamma, problem, queries, law, fresh=True, total_delta=0.01, points=4001)
        found = total.epsilon(0.01)
        assert found == pytest.approx(expected, rel=2e-3)


def test_a_record_that_affects_no_voter_loses_nothing() -> None:
    assert DrawnMajority(GAMMA, OPEN, AffectedDistribution.exactly(0, 3)).epsilon(50, 0.0) == 0.0
    rare = AffectedDistribution.binomial(3, 1e-9)
    certain = NoiseFunction.from_upper_half(np.ones(2), 3)
    assert DrawnMajority(certain, OPEN, rare).epsilon(1000, 1e-8) == 0.0  # bagging's own privacy is enough
    with pytest.raises(DeltaTooSmall, match="over draws and answers"):
        DrawnMajority(certain, OPEN, rare).epsilon(1000, 1e-10)


@for_each("queries", [2, 30, 400])
@for_each("voters", [Privacy(math.inf), Privacy(0.4), Privacy(0.3, 1e-4)])
def test_the_estimate_is_about_what_is_proved(voters: Privacy, queries: int) -> None:
    problem, law = Problem(7, voters, Privacy(1.0)), AffectedDistribution.binomial(7, 0.2)
    gamma = noise_function(7, LaplaceNoise(40.0))
    proved = DrawnMajority(gamma, problem, law, fresh=True).epsilon(queries, 1e-3)
    about = DrawnMajority(gamma, problem, law).estimate(queries, 1e-3)
    assert about is not None
    assert 0.85 * proved < about < 1.15 * proved


def test_the_estimate_of_extremes() -> None:
    certain = NoiseFunction.from_upper_half(np.ones(2), 3)
    assert DrawnMajority(certain, OPEN, AffectedDistribution.binomial(3, 0.2)).estimate(10, 1e-3) == math.inf
    assert DrawnMajority(certain, OPEN, AffectedDistribution.binomial(3, 1e-9)).estimate(1000, 1e-8) == 0.0
    assert DrawnMajority(certain, OPEN, AffectedDistribution.exactly(0, 3)).estimate(10, 0.0) == 0.0
    assert DrawnMajority(GAMMA, OPEN, AffectedDistribution.binomial(3, 0.1)).estimate(1, 0.99) == 0.0
    assert DrawnMajority(NoiseFunction(np.zeros(4)), OPEN, AffectedDistribution.exactly(3, 3)).estimate(10, 0.01) == 0.0


@given(st.integers(1, 60), st.fractions(0, 1, max_denominator=10**6), st.integers(1, 12), st.floats(0, 0.1))
def test_groups_cover_all_counts(K: int, chance: Fraction, most: int, spared: float) -> None:
    law = AffectedDistribution.binomial(K, chance)
    exact = [math.comb(K, r) * chance**r * (1 - chance) ** (K - r) for r in range(K + 1)]
    for told, true in zip(law.chances, exact, strict=True):
        assert Fraction(told) >= true
        assert told <= float(true) * (1 + 1e-12) + 1e-300
    parts, beyond = law.parts(spared, most)
    assert len(parts) <= most
    assert beyond <= spared
    shapes: list[Callable[[int], Fraction]] = [
        lambda r: Fraction(int(r > 0)),
        lambda r: Fraction(r, K),
        lambda r: Fraction(r, K) ** 4,
        lambda r: Fraction(int(2 * r > K)),
    ]
    for D in shapes:
        together = sum((Fraction(part.chance) * D(part.count) for part in parts), Fraction(beyond))
        assert together >= sum(true * D(r) for r, true in enumerate(exact))


@for_each("affected", [1, 2, 5])
@for_each("upper", [[0.1, 0.3, 0.9], [0.9, 0.2, 1.0], [0.0, 0.0, 0.0]])
def test_fixed_votes_show_what_the_search_finds(upper: list[float], affected: int) -> None:
    gamma = NoiseFunction.from_upper_half(np.array(upper), 5)
    direct = BitPairs.of_gamma(gamma, affected)
    search = ProfileSearch(gamma, Problem(5, Privacy(math.inf), Privacy(1.0), affected))
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
        slope = Fraction(math.exp(epsilon))
        exact = max(p - slope * q for p, q in vote_pairs(gamma, affected))
        assert max(exact, Fraction(0)) <= Fraction(direct.delta(epsilon)) * (1 + Fraction(1, 10**15))
        assert direct.delta(epsilon) <= max(float(exact), 0.0) * (1 + 1e-13) + 1e-14
        assert direct.delta(epsilon) == pytest.approx(search.at(epsilon)[0], abs=1e-9)
    assert direct.delta(direct.max_loss) <= direct.delta(direct.max_loss + 5) + 1e-15
    if 0 < max(upper) < 1:
        slopes = np.exp(np.linspace(0.0, direct.max_loss, 200))
        searched = outer_region(slopes, [search.at(math.log(slope))[0] for slope in slopes])
        few = compose_bits([(direct.region, 6)], points=2001).epsilon(0.05)
        assert few <= compose_bits([(searched, 6)], points=2001).epsilon(0.05) <= few * (1 + 2e-2)


def test_private_voters_trained_once_are_taken_as_not_private() -> None:
    gamma, law = noise_function(5, LaplaceNoise(9.0)), AffectedDistribution.binomial(5, 0.3)
    voters, taken = Problem(5, Privacy(0.3), Privacy(1.0)), Problem(5, Privacy(math.inf), Privacy(1.0))
    for queries in (1, 6):
        once = DrawnMajority(gamma, voters, law).epsilon(queries, 1e-3)
        counted = voters if queries == 1 else taken
        assert once == DrawnMajority(gamma, counted, law, fresh=True).epsilon(queries, 1e-3)
    assert once > DrawnMajority(gamma, voters, law, fresh=True).epsilon(6, 1e-3)
