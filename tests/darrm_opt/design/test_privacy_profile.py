"""The exact privacy profile of one release, against δ computed pair of datasets by pair."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.exact import Voters, multisets, named, precise
from support.strategies import random_noise

from darrm_opt import InvalidInput, NoiseFunction, Privacy, Problem, solve, verify
from darrm_opt.design.privacy_profile import privacy_profile

EPSILONS = (-3.0, -0.7, -1e-3, 0.0, 1e-6, 0.1, 0.3, 0.90000001, 4.0, 30.0)


def exact_profile(noise: NoiseFunction, problem: Problem, epsilon: float) -> Decimal:
    """Return δ(ε): the most that P − c·Q can be, over corners and over the four events of one bit."""
    voters = dataclasses.replace(Voters.of(problem), target_epsilon=epsilon)
    every = multisets(problem.K, 4 if problem.voter.delta == 0 else 8, problem.affected)
    with precise():
        growth = Decimal(epsilon).exp()
        worst = max(voters.phi(noise.values, named(counts)) for counts in every) * growth
        return max(Decimal(0), 1 - growth, (worst - (growth - 1)) / 2)


@for_each("kind", ["uniform", "monotone", "alternating"])
@for_each(
    ("K", "epsilon", "Delta", "affected"),
    [(5, 0.3, 0.0, 5), (6, 0.3, 0.0, 2), (4, 0.2, 0.05, 4), (4, 1.0, 1e-3, 2), (5, math.inf, 0.0, 1), (1, 0.1, 0.1, 1)],
)
def test_every_point_is_the_exact_one_or_just_above(
    K: int, epsilon: float, Delta: float, affected: int, kind: str
) -> None:
    problem = Problem(K, Privacy(epsilon, Delta), Privacy(1.0, 0.1), affected)
    noise = random_noise(np.random.default_rng((K, affected)), K, kind)
    profile = privacy_profile(noise, problem, EPSILONS)
    for asked, delta, attained in zip(EPSILONS, profile.deltas, profile.attained, strict=True):
        exact = exact_profile(noise, problem, asked)
        assert Decimal(float(delta)) >= exact
        assert float(delta) <= float(exact) + 2e-12 * max(1.0, math.exp(asked))
        assert attained == pytest.approx(float(exact), abs=2e-12 * max(1.0, math.exp(asked)))


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=12), st.integers(0, 1000))
def test_the_order_asked_and_company_change_nothing_that_matters(epsilons: list[float], seed: int) -> None:
    problem = Problem(7, Privacy(0.4, 0.01), Privacy(1.0, 0.1))
    noise = random_noise(np.random.default_rng(seed), 7)
    together = privacy_profile(noise, problem, epsilons)
    assert together.epsilons.tolist() == epsilons
    for epsilon, delta in zip(epsilons, together.deltas, strict=True):
        alone = privacy_profile(noise, problem, [epsilon]).deltas[0]
        assert delta == pytest.approx(alone, abs=1e-12 * max(1.0, math.exp(epsilon)))


@pytest.mark.parametrize("Delta", [0.0, 1e-4])
def test_a_profile_falls_and_is_convex_in_growth(Delta: float) -> None:
    solution = solve(Problem.from_allowance(21, 4, 0.2, Delta, 1e-3))
    epsilons = np.linspace(-2, 2, 81)
    deltas = privacy_profile(solution.gamma, solution.problem, epsilons).deltas
    assert np.all(np.diff(deltas) <= 1e-12)
    slopes = np.diff(deltas) / np.diff(np.exp(epsilons))
    assert np.all(np.diff(slopes) >= -1e-9)
    assert np.all(deltas >= -np.expm1(epsilons) - 1e-15)  # what equal datasets already cost below ε = 0


@pytest.mark.parametrize("Delta", [0.0, 1e-5, 1e-2])
def test_a_designed_noise_function_uses_its_budget_and_no_more(Delta: float) -> None:
    problem = Problem.from_allowance(K=15, m=3, epsilon=0.2, Delta=Delta)
    solution = solve(problem)
    profile = privacy_profile(solution.gamma, problem, [problem.target.epsilon])
    assert profile.deltas[0] <= problem.target.delta + 1e-12
    assert profile.deltas[0] == pytest.approx(problem.target.delta, abs=1e-9)
    relaxed = Problem(15, problem.voter, Privacy(problem.target.epsilon, float(profile.deltas[0]) + 1e-9))
    assert verify(relaxed, solution.gamma).margin >= 0


def test_the_pair_attains_what_is_said() -> None:
    problem = Problem(9, Privacy(0.5, 1e-3), Privacy(1.0, 0.01), 4)
    profile = privacy_profile(random_noise(np.random.default_rng(2), 9, "uniform"), problem, EPSILONS)
    P, Q = profile.pairs.T
    assert np.all((P >= 0) & (P <= 1) & (Q >= 0) & (Q <= 1))
    growth = np.exp(EPSILONS)
    leak = np.maximum(P - growth * Q, 0) + np.maximum((1 - P) - growth * (1 - Q), 0)
    assert leak == pytest.approx(profile.attained, abs=1e-12)


def test_no_points_asked_none_returned() -> None:
    profile = privacy_profile(np.zeros(4), Problem.from_allowance(3, 1, 0.1), [])
    assert profile.deltas.shape == (0,)
    assert profile.pairs.shape == (0, 2)


@for_each("epsilons", [[math.nan], [0.1, 501.0], [-501.0], [math.inf], [[0.1]]])
def test_invalid_epsilons_are_refused(epsilons: Sequence[float]) -> None:
    with pytest.raises(InvalidInput, match=r"expected a flat list of numbers of nats within ±500"):
        privacy_profile(np.zeros(4), Problem.from_allowance(3, 1, 0.1), epsilons)


def test_more_affected_voters_never_leak_less() -> None:
    noise = random_noise(np.random.default_rng(5), 9, "uniform")
    profiles = [
        privacy_profile(noise, Problem(9, Privacy(0.3, 1e-3), Privacy(1.0, 0.1), r), [0.0, 0.2, 0.5]).deltas
        for r in range(1, 10)
    ]
    for fewer, more in itertools.pairwise(profiles):
        assert np.all(fewer <= more + 1e-12)
