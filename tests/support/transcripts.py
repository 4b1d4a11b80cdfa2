"""Several releases of majorities against every transcript, in fractions: what an adversary really attains.

Nothing here knows of regions, grids, profiles or lines. `Fresh` is the exact optimum for fresh voters, and for voters that are not private: at each
step the adversary may place every voter at any corner of F, in view of the bits before; since the hockey-stick is convex in each
voter's pair, corners are enough. `Once` is attained by models that were trained once and hold one secret bit each, which are asked again and
again, each question chosen in view of the bits before.

The best strategy is found by going through all of them in doubles; what it attains is then computed in fractions, so it is a true lower
bound, and the optimum but for rounding where `complete`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.composition.enumeration import exp_fraction
from darrm_opt.design.polytope.corners import LABELS
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem
from support.exact import distribution, multisets

SCALE = 2**48
"""Probabilities of single voters are whole multiples of 1/SCALE, rounded into F: their pairs are possible ones."""

LEAVES = 200_000
"""Most transcripts of strategies that are gone through; beyond, some pairs are left out."""

Pair = tuple[Fraction, Fraction]
"""Pr[1] on the dataset and on its neighbour."""


def corner_pairs(problem: Problem) -> list[Pair]:
    """Return (p, p′) of the corners of F in the order of `LABELS`, rounded into F."""
    voter = problem.voter
    if voter.epsilon == math.inf:
        x = Fraction(1)
    else:
        odds = exp_fraction(voter.epsilon)
        x = Fraction(math.floor((odds + Fraction(voter.delta)) / (odds + 1) * SCALE), SCALE)
    Delta = Fraction(math.floor(Fraction(voter.delta) * SCALE), SCALE)
    zero, one = Fraction(0), Fraction(1)
    corners = [(zero, zero), (one, one), (x, 1 - x), (1 - x, x)]
    corners += [(zero, Delta), (Delta, zero), (1 - Delta, one), (one, 1 - Delta)]
    return corners[: 8 if Delta else 4]


def chances(noise: NoiseFunction) -> list[Fraction]:
    """Return Pr[bit = 1 | l ones], exactly."""
    return [(1 + Fraction(float(g))) / 2 for g in noise.signed]


@lru_cache(maxsize=256)
def shown_pairs(noise: NoiseFunction, problem: Problem) -> tuple[Pair, ...]:
    """Return the extreme pairs (Pr[1 | D], Pr[1 | D′]) of one release, up to renaming the answers."""
    corners, one = corner_pairs(problem), chances(noise)
    whole = [(int(p * SCALE), int(q * SCALE)) for p, q in corners]
    pairs = set()
    for counts in multisets(problem.K, len(corners), problem.affected):
        voters = [whole[place] for place, count in enumerate(counts) for _ in range(count)]
        P, Q = (_mean([v[side] for v in voters], one) for side in (0, 1))
        pairs.add((P, Q))
    return tuple(_hull(pair for pair in pairs if pair[0] + pair[1] <= 1))


def _mean(ones: Sequence[int], values: Sequence[Fraction]) -> Fraction:
    """Return the mean of values[L], L the number of ones of voters that say 1 with chance ones[i]/SCALE."""
    masses = [1]
    for t in ones:
        masses = [a * (SCALE - t) + b * t for a, b in zip([*masses, 0], [0, *masses], strict=True)]
    total = sum((mass * value for mass, value in zip(masses, values, strict=True)), Fraction(0))
    return total / Fraction(SCALE ** len(ones))


def _hull(pairs: Iterator[Pair]) -> list[Pair]:
    """Return the extreme points of pairs, in doubles: to lose one costs tightness, not truth."""
    points = sorted({(float(p), float(q)): (p, q) for p, q in pairs}.items())
    chains: list[list[Pair]] = []
    for ordered in (points, points[::-1]):
        chain: list[tuple[tuple[float, float], Pair]] = []
        for point in ordered:
            while len(chain) > 1 and _turn(chain[-2][0], chain[-1][0], point[0]) <= 1e-15:
                chain.pop()
            chain.append(point)
        chains.append([pair for _, pair in chain])
    return sorted({*chains[0], *chains[1]})


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def thinned(options: Sequence[int], most: int) -> list[int]:
    """Return how many options each step keeps, so that all transcripts of all strategies are at most ``most``."""
    kept = [*options]
    while math.prod(2 * each for each in kept) > most and max(kept) > 1:
        kept[kept.index(max(kept))] -= 1
    return kept


@dataclass(frozen=True)
class Fresh:
    """Releases one after the other, voters fresh or not private.

    Attributes:
        steps: for each release its pairs.
        complete: whether these are all of its extreme pairs.
    """

    steps: tuple[tuple[Pair, ...], ...]
    complete: bool

    @classmethod
    def of(cls, releases: Sequence[tuple[NoiseFunction, Problem]]) -> Fresh:
        """Return the oracle of releases in this order."""
        steps = [shown_pairs(noise, problem) for noise, problem in releases]
        kept = thinned([len(step) for step in steps], LEAVES)
        # The pairs that differ most are those that matter.
        chosen = [
            tuple(sorted(step, key=lambda pair: -abs(pair[0] - pair[1]))[:most])
            for step, most in zip(steps, kept, strict=True)
        ]
        return cls(tuple(chosen), kept == [len(step) for step in steps])

    def rough(self, epsilon: float) -> tuple[float, list[NDArray[np.intp]]]:
        """Return δ(ε) in doubles, and the best choice at each step for each transcript and choices before it."""
        a, b = np.ones(1), np.full(1, math.exp(min(epsilon, 700.0)))
        for step in self.steps:
            P, Q = (np.array([[float(pair[side]), 1 - float(pair[side])] for pair in step]) for side in (0, 1))
            a, b = (a[:, None, None] * P).ravel(), (b[:, None, None] * Q).ravel()
        worth, choices = np.maximum(a - b, 0.0), list[NDArray[np.intp]]()
        for step in reversed(self.steps):
            each = worth.reshape(-1, len(step), 2).sum(axis=2)
            choices.append(each.argmax(axis=1))
            worth = each.max(axis=1)
        return float(worth[0]), choices[::-1]

    def delta(self, epsilon: float) -> Fraction:
        """Return what the best strategy attains at ε, exactly."""
        _, choices = self.rough(epsilon)

        def shown(step: int, node: int, a: Fraction, b: Fraction) -> Fraction:
            if step == len(self.steps):
                return max(a - b, Fraction(0))
            best = int(choices[step][node])
            (p, q), place = self.steps[step][best], (node * len(self.steps[step]) + best) * 2
            return shown(step + 1, place, a * p, b * q) + shown(step + 1, place + 1, a * (1 - p), b * (1 - q))

        return shown(0, 0, Fraction(1), exp_fraction(epsilon))


@dataclass(frozen=True)
class Once:
    """Releases of the same models, which were trained once and hold one secret bit each.

    Attributes:
        priors: pairs of laws of the number of secret ones, on the dataset and on its neighbour.
        steps: for each release its questions: Pr[bit = 1] by the number of secret ones.
    """

    priors: tuple[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], ...]
    steps: tuple[tuple[tuple[Fraction, ...], ...], ...]
    complete = False  # models may hold more than a bit

    @classmethod
    def of(cls, releases: Sequence[tuple[NoiseFunction, Problem]]) -> Once:
        """Return the oracle of releases of equal voters in this order."""
        problem = releases[0][1]
        K, r = problem.K, problem.affected
        corners = dict(zip(LABELS, corner_pairs(problem), strict=False))
        leaking = [label for label in ("down", "down_from_one") if label in corners]
        mixes = [["xy"] * r, *([label] * n + ["xy"] * (r - n) for label in leaking for n in {1, r})]
        priors = tuple(
            (tuple(distribution([corners[at][0] for at in mix])), tuple(distribution([corners[at][1] for at in mix])))
            for mix in mixes
        )
        steps = []
        for noise, _ in releases:
            one = chances(noise)
            asked = {tuple(one[f + l] for l in range(r + 1)) for f in range(K - r + 1)}
            steps.append(sorted(asked, key=lambda law: -abs(law[-1] - law[0])))
        kept = thinned([len(step) for step in steps], LEAVES // (8 * (r + 1)))
        chosen = tuple(tuple(step[:most]) for step, most in zip(steps, kept, strict=True))
        return cls(priors, chosen)

    def rough(self, epsilon: float) -> tuple[float, int, list[NDArray[np.intp]]]:
        """Return δ(ε) in doubles, the priors that attain it, and the best question for each transcript and questions before it."""
        found = []
        for number, (here, there) in enumerate(self.priors):
            c = math.exp(min(epsilon, 700.0))
            for forth in (True, False):
                a, b = (np.array([float(mass) for mass in law]) for law in ((here, there) if forth else (there, here)))
                worth, choices = self._best(a - c * b)
                found.append((worth, 2 * number + (not forth), choices))
        return max(found, key=lambda each: each[0])

    def _best(self, weights: NDArray[np.float64]) -> tuple[float, list[NDArray[np.intp]]]:
        nodes = weights[None, :]
        for step in self.steps:
            laws = np.array([[float(chance) for chance in law] for law in step])
            both = np.stack([laws, 1 - laws], axis=1)  # question, bit, secret ones
            nodes = (nodes[:, None, None, :] * both).reshape(-1, weights.size)
        worth, choices = np.maximum(nodes.sum(axis=1), 0.0), list[NDArray[np.intp]]()
        for step in reversed(self.steps):
            each = worth.reshape(-1, len(step), 2).sum(axis=2)
            choices.append(each.argmax(axis=1))
            worth = each.max(axis=1)
        return float(worth[0]), choices[::-1]

    def delta(self, epsilon: float) -> Fraction:
        """Return what the best strategy attains at ε, exactly."""
        _, which, choices = self.rough(epsilon)
        here, there = self.priors[which // 2]
        a, b = (here, there) if which % 2 == 0 else (there, here)
        c = exp_fraction(epsilon)

        def shown(step: int, node: int, weights: list[Fraction]) -> Fraction:
            if step == len(self.steps):
                return max(sum(weights, Fraction(0)), Fraction(0))
            best = int(choices[step][node])
            law, place = self.steps[step][best], (node * len(self.steps[step]) + best) * 2
            ones = [w * t for w, t in zip(weights, law, strict=True)]
            zeros = [w - o for w, o in zip(weights, ones, strict=True)]
            return shown(step + 1, place, ones) + shown(step + 1, place + 1, zeros)

        return shown(0, 0, [p - c * q for p, q in zip(a, b, strict=True)])


def least_epsilon(oracle: Fresh | Once, delta: float, *, most: float = 64.0) -> float:
    """Return the ε that the oracle's strategies attain at δ, by doubles, from below."""
    low, high = 0.0, most
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if oracle.rough(middle)[0] > delta * (1 + 1e-9) + 1e-14 else (low, middle)
    return low
