"""What an adversary attains against several releases of majorities: every transcript, in fractions.

Nothing here knows of regions, grids, profiles or lines. `Fresh` is the exact optimum for fresh voters, and for voters
that are not private: at each step the adversary may place every voter at any corner of F, in view of the bits before;
since the hockey-stick is convex in each voter's pair, corners are enough. `Once` is attained by models that were
trained once and hold one secret bit each, which are asked again and again, each question chosen in view of the bits
before.

The best strategy is found by going through all of them in doubles; what it attains is then computed in fractions, so it
is a true lower bound, and the optimum but for rounding where `complete`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from support.enumeration import exp_fraction
from support.exact import distribution, multisets

from darrm_opt.design.constraint import LABELS
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Problem

SCALE = 2**48
"""Probabilities of single voters are whole multiples of 1/SCALE, rounded into F: their pairs are possible ones."""

LEAVES = 200_000  # most transcripts of strategies that are gone through; beyond, some pairs are left out
Pair = tuple[Fraction, Fraction]  # Pr[1] on the dataset and on its neighbour

Leaves = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The chance of each transcript of each strategy, on the dataset and on its neighbour."""


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
    corners, bit_chances = corner_pairs(problem), chances(noise)
    integers = [(int(p * SCALE), int(q * SCALE)) for p, q in corners]
    denominator = max(chance.denominator for chance in bit_chances)  # of doubles: powers of two
    answers = [int(chance * denominator) for chance in bit_chances]
    voters = multisets_of(problem.K, len(corners), problem.affected)
    rough = [
        _rough_means(voters, [float(pair[side]) for pair in corners], [*map(float, bit_chances)]) for side in (0, 1)
    ]
    half = (rough[0] + rough[1] <= 1 + 1e-12).nonzero()[0]
    extreme = _hull([(float(rough[0][row]), float(rough[1][row]), int(row)) for row in half])

    def exact(row: int, side: int) -> Fraction:
        total = _mean([integers[corner][side] for corner in voters[row].tolist()], answers)
        return Fraction(total, denominator << 48 * problem.K)

    return tuple(sorted({(exact(row, 0), exact(row, 1)) for row in extreme}))


@lru_cache(maxsize=64)
def multisets_of(K: int, corners: int, affected: int) -> NDArray[np.intp]:
    """Return the corner of each voter, a row for each multiset in the order of `multisets`, shape (multisets, K)."""
    return np.array(
        [
            [corner for corner, count in enumerate(counts) for _ in range(count)]
            for counts in multisets(K, corners, affected)
        ],
        dtype=np.intp,
    )


def _rough_means(voters: NDArray[np.intp], ones: Sequence[float], values: Sequence[float]) -> NDArray[np.float64]:
    """Return the mean of values[L] for each row of voters, in doubles."""
    means = np.broadcast_to(np.array(values), (len(voters), len(values)))
    for column in voters.T:
        t = np.array(ones)[column][:, None]
        means = (1 - t) * means[:, :-1] + t * means[:, 1:]
    return means[:, 0]


def _mean(ones: Sequence[int], values: Sequence[int]) -> int:
    """Return SCALE^K times the mean of values[L], L the number of K voters that say 1, with chance ones[i]/SCALE."""
    means = values
    for t in ones:
        means = [(SCALE - t) * a + t * b for a, b in itertools.pairwise(means)]
    return means[0]


def _hull(points: Iterable[tuple[float, float, int]]) -> set[int]:
    """Return the places of the extreme points, in doubles: to lose one costs tightness, not truth."""
    distinct = [(p, q, place) for (p, q), place in sorted({(p, q): place for p, q, place in points}.items())]
    extreme: set[int] = set()
    for order in (distinct, distinct[::-1]):
        chain: list[tuple[float, float, int]] = []
        for point in order:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 1e-15:
                chain.pop()
            chain.append(point)
        extreme |= {place for _, _, place in chain}
    return extreme


def _turn(a: tuple[float, float, int], b: tuple[float, float, int], c: tuple[float, float, int]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def thinned(options: Sequence[int], limit: int) -> list[int]:
    """Return how many options each step keeps, so that all transcripts of all strategies are at most ``limit``."""
    counts = [*options]
    while math.prod(2 * count for count in counts) > limit and max(counts) > 1:
        counts[counts.index(max(counts))] -= 1
    return counts


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
        counts = thinned([len(step) for step in steps], LEAVES)
        # The pairs that differ most are those that matter.
        pairs = [
            tuple(sorted(step, key=lambda pair: -abs(pair[0] - pair[1]))[:count])
            for step, count in zip(steps, counts, strict=True)
        ]
        return cls(tuple(pairs), counts == [len(step) for step in steps])

    @cached_property
    def leaves(self) -> list[Leaves]:
        """The chance of each transcript of each strategy, on the dataset and on its neighbour, in doubles."""
        p, q = np.ones(1), np.ones(1)
        for step in self.steps:
            P, Q = (np.array([[float(pair[side]), 1 - float(pair[side])] for pair in step]) for side in (0, 1))
            p, q = (p[:, None, None] * P).ravel(), (q[:, None, None] * Q).ravel()
        return [(p, q)]

    def delta(self, epsilon: float) -> Fraction:
        """Return what the best strategy attains at ε, exactly."""
        choices = best_strategy(self, epsilon).choices
        return attained(self.steps, choices, [Fraction(1), -exp_fraction(epsilon)])


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
            (
                tuple(distribution([corners[label][0] for label in mix])),
                tuple(distribution([corners[label][1] for label in mix])),
            )
            for mix in mixes
        )
        steps = []
        for noise, _ in releases:
            bit_chances = chances(noise)
            questions = {tuple(bit_chances[f + l] for l in range(r + 1)) for f in range(K - r + 1)}
            steps.append(sorted(questions, key=lambda law: -abs(law[-1] - law[0])))
        counts = thinned([len(step) for step in steps], LEAVES // (8 * (r + 1)))
        step_questions = tuple(tuple(step[:count]) for step, count in zip(steps, counts, strict=True))
        return cls(priors, step_questions)

    @cached_property
    def leaves(self) -> list[Leaves]:
        """The chance of each transcript of each strategy, for each of the priors there and back, in doubles."""
        trees = []
        for prior in self.priors:
            nodes = np.array(prior, dtype=float)[:, None, :]  # side, transcript, secret ones
            for step in self.steps:
                laws = np.array(step, dtype=float)
                bits = np.stack([laws, 1 - laws], axis=1)  # question, bit, secret ones
                nodes = (nodes[:, :, None, None, :] * bits).reshape(2, -1, nodes.shape[-1])
            p, q = nodes.sum(axis=2)
            trees += [(p, q), (q, p)]
        return trees

    def delta(self, epsilon: float) -> Fraction:
        """Return what the best strategy attains at ε, exactly."""
        strategy, c = best_strategy(self, epsilon), exp_fraction(epsilon)
        there, back = self.priors[strategy.tree // 2][:: -1 if strategy.tree % 2 else 1]
        return attained(self.steps, strategy.choices, [p - c * q for p, q in zip(there, back, strict=True)])


def attained(
    steps: Sequence[Sequence[Sequence[Fraction]]], choices: Sequence[NDArray[np.intp]], priors: Sequence[Fraction]
) -> Fraction:
    """Return the sum of what is above 0 of each transcript's weight, exactly.

    The weight is a sum over hidden states, each with its prior and its chance of a 1 in every question of a step: the
    data set and its neighbour, or the number of secret ones.
    """
    scale = math.lcm(*(weight.denominator for weight in priors))
    units = [max(chance.denominator for law in step for chance in law) for step in steps]  # powers of two
    integers = [
        [[int(chance * unit) for chance in law] for law in step] for step, unit in zip(steps, units, strict=True)
    ]

    def total(step: int, node: int, weights: list[int]) -> int:
        if step == len(steps):
            return max(sum(weights), 0)
        question, unit = int(choices[step][node]), units[step]
        law, place = integers[step][question], (node * len(steps[step]) + question) * 2
        ones = [weight * chance for weight, chance in zip(weights, law, strict=True)]
        zeros = [weight * (unit - chance) for weight, chance in zip(weights, law, strict=True)]
        return total(step + 1, place, ones) + total(step + 1, place + 1, zeros)

    return Fraction(total(0, 0, [int(weight * scale) for weight in priors]), scale * math.prod(units))


@dataclass(frozen=True)
class Strategy:
    """The best of an oracle's strategies at one ε, in doubles.

    Attributes:
        tree: of the leaves that it is in.
        choices: what it does at each step, for each transcript and choices before it.
        p: chance, on the dataset, of the transcripts that speak for the dataset.
        q: the same, on the neighbour: it attains δ(ε) = p − e^ε·q at every ε.
    """

    tree: int
    choices: list[NDArray[np.intp]]
    p: float
    q: float


def best_strategy(oracle: Fresh | Once, epsilon: float) -> Strategy:
    """Return the strategy of the largest δ(ε)."""
    c, strategies = math.exp(min(epsilon, 700.0)), list[tuple[float, Strategy]]()
    for tree, (p, q) in enumerate(oracle.leaves):
        speak = p > c * q
        a, b, choices = np.where(speak, p, 0.0), np.where(speak, q, 0.0), list[NDArray[np.intp]]()
        for step in reversed(oracle.steps):
            a, b = (side[0::2] + side[1::2] for side in (a, b))  # both bits
            choices.append((a - c * b).reshape(-1, len(step)).argmax(axis=1))
            rows = np.arange(0, a.size, len(step)) + choices[-1]
            a, b = a[rows], b[rows]
        strategies.append((float(a[0] - c * b[0]), Strategy(tree, choices[::-1], float(a[0]), float(b[0]))))
    return max(strategies, key=lambda pair: pair[0])[1]


def least_epsilon(oracle: Fresh | Once, delta: float, *, limit: float = 64.0) -> float:
    """Return the ε that the oracle's strategies attain at δ, by doubles, from below: Newton on the convex δ of e^ε."""
    c, target = 1.0, delta * (1 + 1e-9) + 1e-14
    while c < math.exp(limit):
        strategy = best_strategy(oracle, math.log(c))
        if strategy.p - c * strategy.q <= target:
            return math.log(c)
        if strategy.q == 0:
            break
        following = (strategy.p - target) / strategy.q
        if following <= c:
            return math.log(c)
        c = following
    return limit
