"""One released bit, exactly: every account against enumeration, and against the design's own certificate."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
from support.cases import for_each
from support.two_class_moments import law_moments, noisy_vote_laws

from darrm_opt import NotPrivate, NotProven, Privacy, Problem, verify
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.vote_noise import GaussianNoise, LaplaceNoise, VoteNoise, noise_function
from darrm_papers.pate import gnmax_sigma, gnmax_wins

NOISES: list[VoteNoise] = [
    GaussianNoise.of_sigma(21.46),
    GaussianNoise.of_sigma(3.0),
    LaplaceNoise(5.5),
    LaplaceNoise(2),
]


def composed_epsilon(laws: BitPairs, queries: int, delta: float, points: int = 4001) -> float:
    return compose_bits([(laws.region, queries)], points=points).epsilon(delta)


def one_minus(p: float) -> float:
    return 1 - p


@for_each("noise", NOISES)
@for_each(("K", "affected"), [(11, 1), (10, 1), (9, 3), (1, 1), (4, 9)])
def test_delta_and_epsilon_against_enumeration(K: int, affected: int, noise: VoteNoise) -> None:
    vote = noisy_vote_laws(K, noise, affected)
    pairs = [
        (one, other)
        for v, w in product(range(K + 1), repeat=2)
        if abs(v - w) <= affected
        for p, q in [(noise.wins(2 * v - K), noise.wins(2 * w - K))]
        for one, other in ((p, q), (one_minus(p), one_minus(q)))
    ]
    for epsilon in (0.0, 0.05, 0.3, 2.0):
        brute = max(0.0, *(p - math.exp(epsilon) * q for p, q in pairs))
        assert brute - 1e-13 <= vote.delta(epsilon) <= brute + 1e-11
    for delta in (0.0, 1e-4, 0.05):
        brute = max([0.0, *(math.log((p - delta) / q) for p, q in pairs if p > delta)])
        assert vote.epsilon(delta) == pytest.approx(brute, rel=1e-8, abs=1e-11)
        assert vote.delta(vote.epsilon(delta)) <= delta + 1e-11
    for l, moment in zip((1, 7, 40), law_moments(vote, [1, 7, 40]), strict=True):
        brute = max(math.log(p * (p / q) ** l + (1 - p) * ((1 - p) / (1 - q)) ** l) for p, q in pairs)
        assert brute - 1e-13 <= moment <= brute * (1 + 1e-9) + 1e-11


@for_each("noise", NOISES)
def test_the_bit_is_a_noise_function_that_the_design_certifies(noise: VoteNoise) -> None:
    """GNMax and SAA of K teachers are DaRRM_γ with ε = inf and one affected voter: same exact δ, found independently."""
    for K, affected in ((11, 1), (11, 2), (8, 1)):
        vote = noisy_vote_laws(K, noise, affected)
        gamma = noise_function(K, noise)
        for epsilon in (0.02, 0.2):
            delta = vote.delta(epsilon)
            if not 1e-6 < delta < 0.99:
                continue
            problem = Problem(K, Privacy(math.inf), Privacy(epsilon, delta * (1 + 1e-6)), affected)
            assert verify(problem, gamma).margin >= 0
            tighter = Problem(K, Privacy(math.inf), Privacy(epsilon, delta * (1 - 1e-6)), affected)
            with pytest.raises((NotPrivate, NotProven)):
                verify(tighter, gamma)


def test_the_region_contains_every_pair() -> None:
    for noise in NOISES:
        vote = noisy_vote_laws(12, noise, 2)
        region = vote.region
        assert region.guaranteed
        for epsilon in (0.0, 0.1, 0.5):
            covered = max(p - math.exp(epsilon) * q for p, _, q, _ in region.moves)
            assert covered >= vote.delta(epsilon) - 1e-11
        single = composed_epsilon(vote, 1, 1e-3)
        assert vote.epsilon(1e-3) * (1 - 1e-9) <= single <= vote.epsilon(1e-3) * 1.01 + 1e-3


def test_composition_of_bits_against_all_adaptive_strategies() -> None:
    """Two releases, the second pair chosen after the first answer: exact optimum by enumeration."""
    vote = noisy_vote_laws(5, GaussianNoise.of_sigma(4.0))
    pairs: list[tuple[float, float]] = [(p, q) for p, q in vote.pairs.tolist()]
    pairs += [(1 - a, 1 - b) for a, b in pairs]
    epsilon = 0.3
    c = math.exp(epsilon)

    def second(scale_p: float, scale_q: float) -> float:
        return max(
            max(0.0, scale_p * a - c * scale_q * b) + max(0.0, scale_p * (1 - a) - c * scale_q * (1 - b))
            for a, b in pairs
        )

    exact = max(second(a, b) + second(1 - a, 1 - b) for a, b in pairs)
    found = composed_epsilon(vote, 2, exact, points=8001)
    assert epsilon * (1 - 1e-9) <= found <= epsilon * 1.01


def test_a_fair_gnmax_needs_a_third_of_the_papers_noise() -> None:
    papers = gnmax_sigma(0.2676, 0.0003).sigma
    fair = mechanism_class("gnmax").calibrated(11, 2, Privacy(0.2676, 0.0003), 1)
    assert round(papers, 2) == 21.46
    assert fair.value < 7.8
    assert gnmax_wins(11, 11, fair.value) > 0.84  # 0.641 with the papers' σ; the optimal γ has 0.887


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: noisy_vote_laws(5, LaplaceNoise(1)).delta(-1.0), "epsilon = -1.0"),
        (lambda: noisy_vote_laws(5, LaplaceNoise(1)).epsilon(1.0), "delta = 1.0"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
