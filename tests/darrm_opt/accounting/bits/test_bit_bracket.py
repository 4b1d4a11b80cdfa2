"""Bounds on the exact account of bits: the outer region is proved, the inner one is attained, and they agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from support.cases import for_each
from support.enumeration import adaptive_bits_delta, vote_pairs

from darrm_opt import Privacy, Problem
from darrm_opt.accounting.bits.adversary import attained_epsilon
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bits.region import inner_region, privacy_region
from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.accounting.release_profile import MAX_LINES, TOLERANCE, NoisyMajority, Release, release_profile
from darrm_opt.accounting.total import exact_epsilon, total_privacy, total_privacy_of_sequence
from darrm_opt.design.objective import as_objective
from darrm_opt.mechanisms.vote_noise import GaussianNoise, LaplaceNoise, VoteNoise, noise_function
from darrm_opt.noise import NoiseFunction
from darrm_opt.priors import upper_half


@for_each(("seed", "queries"), [*product(range(8), (1, 2)), *product(range(3), (3,))])
def test_the_outer_and_the_attained_total_enclose_that_of_all_strategies(seed: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    K, affected = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    gamma = NoiseFunction.from_upper_half(rng.uniform(0, 1, (K + 1) // 2), K)
    pairs = vote_pairs(gamma, affected)
    shown = [pairs] * queries
    votes = BitPairs.of_gamma(gamma, affected)
    total = compose_bits([(votes.region, queries)], points=4001)
    for epsilon in (0.0, 0.4, 1.1, 2.0):
        exact = adaptive_bits_delta(shown, epsilon)
        assert total.delta(epsilon) >= exact * (1 - Fraction(1, 10**12))
        assert total.delta(epsilon) <= float(exact) + 1e-5
    inner = inner_region([[float(p), float(q)] for p, q in pairs])
    for delta in (1e-6, 1e-3, 0.05):
        attained = attained_epsilon([(inner, queries)], delta)
        if 0 < attained < 500:  # at every smaller ε some strategy exceeds δ
            assert adaptive_bits_delta(shown, attained * (1 - 1e-9)) >= Fraction(delta)
        if attained < math.inf:
            assert adaptive_bits_delta(shown, min(attained, 500) * 1.002 + 1e-4) <= Fraction(delta)


@for_each("epsilon", [700.0, 709.0, 720.0, 735.0, 740.0, 743.0, 744.4, 760.0])
@for_each("delta", [0.0, 1e-3, 1.0 - 2.0**-53])
def test_the_vertices_of_a_region_enclose_the_exact_one_down_to_the_least_doubles(epsilon: float, delta: float) -> None:
    [p, rest_of_p, q, rest_of_q] = min(privacy_region(Privacy(epsilon, delta)).moves.tolist(), key=lambda move: move[1])
    with localcontext(prec=60):
        grown = Decimal(epsilon).exp()
        x, y = (grown + Decimal(delta)) / (grown + 1), (1 - Decimal(delta)) / (grown + 1)
        assert Decimal(p) >= x
        assert Decimal(rest_of_p) >= y
        assert Decimal(q) <= y
        assert Decimal(rest_of_q) <= x


@for_each(
    ("K", "epsilon", "affected", "noise"),
    [
        (101, 1.0, 1, GaussianNoise.of_sigma(20.0)),
        (101, 2.0, 5, GaussianNoise.of_sigma(5.0)),
        (61, 0.3, 61, LaplaceNoise(20)),
        (401, math.inf, 1, GaussianNoise.of_sigma(50.0)),  # more vertices than lines
        (401, math.inf, 1, GaussianNoise.of_sigma(400.0)),  # almost no loss
        (201, math.inf, 3, LaplaceNoise(30)),
    ],
)
def test_regions_of_smooth_noise_agree(K: int, epsilon: float, affected: int, noise: VoteNoise) -> None:
    profile = release_profile(noise_function(K, noise), Problem(K, Privacy(epsilon), Privacy(1.0), affected))
    assert len(profile.epsilons) <= MAX_LINES
    for queries in (1, 20):
        total = compose_bits([(profile.outer, queries)], points=8001).epsilon(1e-5)
        attained = attained_epsilon([(profile.inner, queries)], 1e-5)
        assert total * (1 - 2 * TOLERANCE) <= attained <= total


def test_a_profile_meets_its_tolerance_and_is_sound() -> None:
    gamma, problem = noise_function(51, GaussianNoise.of_sigma(9.0)), Problem(51, Privacy(0.8), Privacy(1.0), 3)
    profiles = [release_profile(gamma, problem, tolerance=tolerance) for tolerance in (1e-1, 1e-2, 1e-3, 1e-5)]
    totals = [compose_bits([(profile.outer, 20)], points=8001).epsilon(1e-5) for profile in profiles]
    attained = attained_epsilon([(profiles[-1].inner, 20)], 1e-5)
    assert attained <= totals[-1] <= min(totals) * (1 + 1e-5)
    assert totals[1] <= totals[-1] * 1.01
    assert [len(profile.epsilons) for profile in profiles] == sorted(len(profile.epsilons) for profile in profiles)


def test_smooth_noise_has_a_tight_account() -> None:
    """K = 101, ε = 1, one voter affected: lines chosen from the low end once gave 1.10."""
    release = Release(noise_function(101, GaussianNoise.of_sigma(20.0)), Problem(101, Privacy(1.0), Privacy(1.0), 1))
    total = total_privacy(release, 50, 1e-5, fresh=True)
    assert total.totals["bits"].epsilon == pytest.approx(0.675, abs=1e-3)
    assert total.epsilon_at_least == pytest.approx(0.675, abs=1e-3)


@pytest.mark.parametrize(
    ("noise", "parameter", "kept"), [(GaussianNoise.of_sigma, 0.028, 0.973), (LaplaceNoise, 0.038, 0.928)]
)
def test_noisy_votes_of_many_voters_keep_their_utility(
    noise: Callable[[float], VoteNoise], parameter: float, kept: float
) -> None:
    """K = 201, not private, one voter affected, 50 releases within (1, 1e-5); once 0.793 and 0.814."""
    problem = Problem(201, Privacy(math.inf), Privacy(1.0), 1)
    useful = as_objective("rectangular").linear_goal(201).utility

    def priced(parameter: float) -> tuple[NoiseFunction, float]:
        gamma = noise_function(201, noise(1 / parameter))
        return gamma, exact_epsilon(gamma, problem, 50, 1e-5, points=2001)

    found = calibrate(priced, 1.0, 4.0, guess=parameter, precision=5e-3)
    assert found is not None
    assert useful(upper_half(found.result.values)) == pytest.approx(kept, abs=2e-3)
    attained = attained_epsilon([(NoisyMajority(found.result, problem).profile.inner, 50)], 1e-5, points=1001)
    assert 0.998 * found.cost <= attained <= found.cost


def test_the_reported_lower_bound_is_below_every_account() -> None:
    one = Release(noise_function(11, GaussianNoise.of_sigma(4.0)), Problem(11, Privacy(0.5), Privacy(2.0), 2))
    two = Release(noise_function(11, LaplaceNoise(5)), Problem(11, Privacy(0.5), Privacy(1.0), 2))
    for total in (
        total_privacy(one, 1, 1e-6),
        total_privacy(one, 12, 1e-4, fresh=True),
        total_privacy_of_sequence([(one, 4), (two, 5)], 1e-4, fresh=True),
    ):
        assert total.epsilon_at_least is not None
        assert 0.99 * total.totals["bits"].epsilon <= total.epsilon_at_least
        assert all(
            total.epsilon_at_least <= each.epsilon for each in total.totals.values() if each.delta <= total.delta
        )
    assert total_privacy(one, 0, 1e-4).epsilon_at_least == 0.0
    assert total_privacy(one, 12, 1e-4).epsilon_at_least is None  # trained once
    assert total_privacy(one, 10**7, 0.5, fresh=True).epsilon_at_least is None
