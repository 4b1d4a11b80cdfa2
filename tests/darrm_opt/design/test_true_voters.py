"""Concrete mechanisms as voters, in the worst case of an adversary, against certificates for their profiles.

Gaussian, Laplace and sampled Gaussian voters of random noise, random points of their profiles, numbers of voters and
targets; γ_opt, and hostile γ as `certify` returns them. A voter answers 1 with probability p on the data and p′ on the
neighbour. All pairs of a mechanism lie in the convex hull of some curves (Neyman and Pearson: thresholds of the
likelihood ratio) and their mirror images, and an adversary does most where every voter is on one: it climbs over these
curves, which no point of a profile shows. It must also find what is wrong with the plain majority, where that is not
certified. The oracle shares no code with the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from profile_enumeration import random_gamma, votes
from scipy.special import ndtr

from darrm_opt import NoiseFunction, NotPrivate, Privacy, Problem, certify, solve, verify
from darrm_opt.voters import PrivacyProfile

Array = np.ndarray[Any, Any]
Curve = Callable[[Array], tuple[Array, Array]]  # of thresholds: p and p′, p ≥ p′

STARTS, GRID, ZOOMS = 12, 400, 3


@dataclass(frozen=True)
class TrueVoter:
    """A mechanism: the curves of its pairs over a range of thresholds, and δ at each ε."""

    name: str
    curves: tuple[Curve, ...]
    thresholds: tuple[float, float]
    delta: Callable[[float], float]

    def points(self, *epsilons: float) -> list[tuple[float, float]]:
        """Return points of the privacy profile, a little above it."""
        return [(epsilon, self.delta(epsilon) * (1 + 1e-9) + 1e-15) for epsilon in epsilons]

    def pairs(self, thresholds: Array) -> Array:
        """Return the pairs (p, p′) on all curves and their mirror images, shape (curves · 4, thresholds, 2)."""
        upper = np.stack([np.stack(curve(thresholds), axis=-1) for curve in self.curves])
        return np.concatenate([upper, upper[..., ::-1], 1 - upper, 1 - upper[..., ::-1]])

    def best(self, a: float, b: float) -> Array:
        """Return approximately the pair with the largest a·p − b·p′, by successively finer grids of thresholds."""
        low, high = self.thresholds
        best, direction = np.zeros(2), np.array([a, -b])
        for _ in range(ZOOMS):
            thresholds = np.linspace(low, high, GRID)
            pairs = self.pairs(thresholds)
            curve, place = divmod(int((pairs @ direction).argmax()), GRID)
            best, step = pairs[curve, place], (high - low) / (GRID - 1)
            low, high = float(thresholds[place]) - step, float(thresholds[place]) + step
        ends: Array = np.array([[0.0, 0.0], [1.0, 1.0], best])
        chosen: Array = ends[int((ends @ direction).argmax())]
        return chosen


def gaussian(mu: float) -> TrueVoter:
    """Return a voter that adds noise N(0, 1) to a value that the record moves by μ."""
    return TrueVoter(
        f"Gaussian, μ = {mu:.3g}",
        (lambda t: (ndtr(mu - t), ndtr(-t)),),
        (-8.0, 8.0 + mu),
        lambda epsilon: float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)),
    )


def laplace(scale: float) -> TrueVoter:
    """Return a voter that adds Laplace noise of this scale to a value that the record moves by 1."""

    def above(t: Array) -> Array:  # Pr[noise > t]
        tail = np.exp(-np.abs(t) / scale) / 2
        return np.where(t > 0, tail, 1 - tail)

    return TrueVoter(
        f"Laplace, b = {scale:.3g}",
        (lambda t: (above(t - 1), above(t)),),
        (-30 * scale, 30 * scale + 1),
        lambda epsilon: max(0.0, -math.expm1((epsilon - 1 / scale) / 2)),
    )


def sampled_gaussian(noise_multiplier: float, rate: float) -> TrueVoter:
    """Return a voter that samples the record at a rate and adds noise; the record is added or removed."""
    mu = 1 / noise_multiplier

    def mixed(t: Array) -> Array:  # Pr[above t] with the record
        return (1 - rate) * ndtr(-t) + rate * ndtr(mu - t)

    def gone(t: Array) -> tuple[Array, Array]:
        return mixed(t), ndtr(-t)

    def come(t: Array) -> tuple[Array, Array]:
        return ndtr(t), 1 - mixed(t)

    def delta(epsilon: float) -> float:
        # with the record the density is 1 − q + q·e^(μt − μ²/2) times that without it
        c, deltas = math.exp(epsilon), [0.0]
        for curve, ratio in ((gone, c), (come, 1 / c)):
            if ratio > 1 - rate:
                p, p_prime = curve(np.array((math.log((ratio - 1 + rate) / rate) + mu**2 / 2) / mu))
                deltas.append(float(p - c * p_prime))
        return max(deltas)

    return TrueVoter(f"sampled Gaussian, σ = {noise_multiplier:.3g}, q = {rate:.3g}", (gone, come), (-8, 8 + mu), delta)


def excess(gamma: Array, pairs: Array, epsilon: float, delta: float) -> float:
    """Return Pr[1 | data] − e^ε·Pr[1 | neighbour] − δ of DaRRM with γ for voters with these pairs."""
    K = len(gamma) - 1
    signed = gamma * np.sign(2 * np.arange(K + 1) - K)
    on_data, on_neighbour = ((1 + votes(pairs[:, side]) @ signed) / 2 for side in (0, 1))
    return float(on_data - math.exp(epsilon) * on_neighbour - delta)


def worst_excess(
    voter: TrueVoter, gamma: Array, epsilon: float, delta: float, draw: np.random.Generator, starts: int = STARTS
) -> float:
    """Return the largest excess found by coordinate ascent from several starts, one voter at a time."""
    K = len(gamma) - 1
    slopes, c = np.diff(gamma * np.sign(2 * np.arange(K + 1) - K)) / 2, math.exp(epsilon)
    worst = -math.inf
    for start in range(starts):
        # all voters at two pairs, or anywhere
        anywhere = voter.pairs(draw.uniform(*voter.thresholds, 8) if start % 2 else np.linspace(*voter.thresholds, 40))
        kinds = anywhere.reshape(-1, 2)[
            draw.integers(anywhere.shape[0] * anywhere.shape[1], size=2 + K * (start % 3 == 2))
        ]
        pairs = kinds[draw.integers(len(kinds), size=K)]
        value = excess(gamma, pairs, epsilon, delta)
        for _ in range(20):
            for i in draw.permutation(K):
                others = np.delete(pairs, i, axis=0)
                pairs[i] = voter.best(float(votes(others[:, 0]) @ slopes), c * float(votes(others[:, 1]) @ slopes))
            before, value = value, excess(gamma, pairs, epsilon, delta)
            if value <= before + 1e-12:
                break
        worst = max(worst, value)
    return worst


ROUNDING = 1e-12  # rounding error of the adversary


KINDS = ("gaussian", "laplace", "sampled")


def random_voter(kind: str, draw: np.random.Generator) -> TrueVoter:
    level = float(np.exp(draw.uniform(math.log(0.02), math.log(1.0))))
    if kind == "gaussian":
        return gaussian(level)
    return laplace(1 / level) if kind == "laplace" else sampled_gaussian(float(draw.uniform(0.6, 3)), float(level / 2))


@dataclass(frozen=True)
class Attack:
    """The excess of an adversary against certified γ and against the plain majority."""

    problem: str
    excesses: list[float]
    of_majority: float
    is_certified: bool  # the plain majority


def attack(kind: str, draw: np.random.Generator, most_voters: int = 13, starts: int = STARTS) -> Attack:
    """Design γ for random voters of a kind, and attack it."""
    voter, last = random_voter(kind, draw), float(draw.uniform(0.05, 0.6))
    last = next(epsilon for epsilon in (last, last / 4, last / 16, 0.0) if voter.delta(epsilon) > 1e-12 or not epsilon)
    points = voter.points(*np.linspace(0, last, int(draw.integers(2, 5))).tolist())
    K = int(draw.integers(2, most_voters + 1))
    target = Privacy(float(draw.uniform(0.02, 1.0)), float(draw.choice([0.0, 1e-5, 1e-2])))
    problem, majority = Problem(K, PrivacyProfile(points), target), NoiseFunction(np.ones(K + 1))
    hostile = [certify(problem, random_gamma(K, draw))[0] for _ in range(2)]
    found = [
        worst_excess(voter, noise.values, target.epsilon, target.delta, draw, starts)
        for noise in (solve(problem).noise, *hostile, majority)
    ]
    try:
        verify(problem, majority)
        is_certified = True
    except NotPrivate:
        is_certified = False
    return Attack(f"{voter.name}, {problem}", found[:-1], found[-1], is_certified)


@pytest.mark.parametrize("kind", KINDS)
def test_concrete_voters_never_violate_a_certificate(kind: str) -> None:
    draw = np.random.default_rng(5)
    for _ in range(2):
        found = attack(kind, draw, most_voters=7, starts=6)
        assert max(found.excesses) <= ROUNDING, found
        assert found.of_majority <= ROUNDING or not found.is_certified, found


@pytest.mark.parametrize(
    "voter", [gaussian(0.3), laplace(4.0), sampled_gaussian(1.0, 0.3)], ids=lambda voter: voter.name
)
def test_the_adversary_breaks_the_plain_majority(voter: TrueVoter) -> None:
    draw = np.random.default_rng(0)
    # a single vote satisfies its profile; seven move the majority by more
    alone = worst_excess(voter, np.ones(2), 0.1, voter.delta(0.1), draw, starts=3)
    assert -1e-6 < alone <= ROUNDING
    assert worst_excess(voter, np.ones(8), 0.1, voter.delta(0.1), draw, starts=3) > 0.01
