"""The exact privacy profile of one release against δ of all pairs of datasets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pytest
from support.cases import for_each
from support.exact import Voters, multisets, named, precise
from support.strategies import random_noise

from darrm_opt import InvalidInput, NoiseFunction, Privacy, Problem, solve, verify
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.privacy_profile import ProfileSearch, privacy_profile

EPSILONS = (-3.0, -0.7, -1e-3, 0.0, 1e-6, 0.1, 0.3, 0.90000001, 4.0, 30.0)


def exact_profile(noise: NoiseFunction, problem: Problem, epsilon: float) -> Decimal:
    """Return δ(ε): the largest P − c·Q over corners and the four events of one bit."""
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
def test_every_point_is_at_or_just_above_the_exact_one(
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


@pytest.mark.parametrize("Delta", [0.0, 1e-4])
def test_a_profile_decreases_and_is_convex_in_the_growth(Delta: float) -> None:
    solution = solve(Problem.from_allowance(21, 4, 0.2, Delta, 1e-3))
    epsilons = np.linspace(-2, 2, 81)
    deltas = privacy_profile(solution.gamma, solution.problem, epsilons).deltas
    assert np.all(np.diff(deltas) <= 1e-12)
    slopes = np.diff(deltas) / np.diff(np.exp(epsilons))
    assert np.all(np.diff(slopes) >= -1e-9)
    assert np.all(deltas >= -np.expm1(epsilons) - 1e-15)  # below ε = 0 equal datasets already have this δ


@pytest.mark.parametrize("Delta", [0.0, 1e-5, 1e-2])
def test_a_designed_noise_function_uses_exactly_its_budget(Delta: float) -> None:
    problem = Problem.from_allowance(K=15, m=3, epsilon=0.2, Delta=Delta)
    solution = solve(problem)
    profile = privacy_profile(solution.gamma, problem, [problem.target.epsilon])
    assert profile.deltas[0] <= problem.target.delta + 1e-12
    assert profile.deltas[0] == pytest.approx(problem.target.delta, abs=1e-9)
    relaxed = Problem(15, problem.voter, Privacy(problem.target.epsilon, float(profile.deltas[0]) + 1e-9))
    assert verify(relaxed, solution.gamma).margin >= 0


def test_the_pair_attains_the_profile() -> None:
    problem = Problem(9, Privacy(0.5, 1e-3), Privacy(1.0, 0.01), 4)
    profile = privacy_profile(random_noise(np.random.default_rng(2), 9, "uniform"), problem, EPSILONS)
    P, Q = profile.pairs.T
    assert np.all((P >= 0) & (P <= 1) & (Q >= 0) & (Q <= 1))
    growth = np.exp(EPSILONS)
    leak = np.maximum(P - growth * Q, 0) + np.maximum((1 - P) - growth * (1 - Q), 0)
    assert leak == pytest.approx(profile.attained, abs=1e-12)


def test_an_empty_list_of_epsilons_gives_no_points() -> None:
    profile = privacy_profile(np.zeros(4), Problem.from_allowance(3, 1, 0.1), [])
    assert profile.deltas.shape == (0,)
    assert profile.pairs.shape == (0, 2)


@for_each("epsilons", [[math.nan], [0.1, 501.0], [-501.0], [math.inf], [[0.1]]])
def test_invalid_epsilons_are_refused(epsilons: Sequence[float]) -> None:
    with pytest.raises(InvalidInput, match=r"expected a flat list of numbers of nats within ±500"):
        privacy_profile(np.zeros(4), Problem.from_allowance(3, 1, 0.1), epsilons)


@for_each(
    "problem",
    [
        Problem(7, Privacy(0.4), Privacy(0.5)),
        Problem(6, Privacy(0.3, 0.02), Privacy(0.5, 0.05)),
        Problem(5, Privacy(math.inf), Privacy(0.5), affected=2),
        Problem(5, Privacy(0.0, 0.1), Privacy(0.1, 0.2), affected=3),
    ],
)
@for_each("seed", range(4))
def test_every_point_covers_all_neighbours_in_any_order_of_queries(problem: Problem, seed: int) -> None:
    random = np.random.default_rng(seed)
    noise = NoiseFunction.from_upper_half(random.random((problem.K + 1) // 2), problem.K)
    epsilons = random.permutation(np.linspace(0, 4, 17))
    constraint = PrivacyConstraint.of(problem)
    everything = np.concatenate(list(ConstraintGenerator(problem).blocks()))
    p, q = constraint.pair(noise.signed, everything)
    search = ProfileSearch(noise, problem)
    at_once = privacy_profile(noise, problem, epsilons)
    for epsilon, delta in zip(epsilons.tolist(), at_once.deltas.tolist(), strict=True):
        found, on_data, on_neighbour = search.at(epsilon)
        worst = float(np.max(p - math.exp(epsilon) * q, initial=0.0))
        assert worst - 1e-14 <= found <= worst + 1e-12 * math.exp(epsilon)
        assert found == pytest.approx(delta, abs=1e-12 * math.exp(epsilon))
        assert on_data - math.exp(epsilon) * on_neighbour == pytest.approx(worst, abs=1e-12 * math.exp(epsilon))
