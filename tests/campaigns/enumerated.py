"""Is any total of a mechanism below what an adaptive adversary attains, or far above it?

Random mechanisms of up to six voters among up to three classes, sampled or not, for up to three releases. The oracle
shares no code with the product: laws of noise from their definitions and every value of it, all pairs of votes that a
record may turn into each other, and the adversary's best question after every answer. Each account's ε is held against
the δ that is attained there; the least one also against the least ε that is true.

    PYTHONPATH=tests python -m campaigns.enumerated --totals 5000
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from random import Random
from typing import Any

import numpy as np

from campaigns.driver import Campaign, Row, Tally, listed
from darrm_opt.accounting.sampling import Sampling
from darrm_opt.accounting.total import ReleaseTotal, cost
from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.mechanisms.noisy_maximum import LaplaceMaximum, NoisyMaximum
from darrm_opt.mechanisms.selection import ExponentialMechanism, PermuteAndFlip
from darrm_opt.noise import Array

ERROR = 1e-11  # what δ may miss by noise that is cut off here [probability]
TIGHT = 1.05  # most times the least ε that is true
SMALL = 0.02  # ε up to which only the difference counts [nats]

Votes = tuple[int, ...]
Law = Callable[[Votes], Array]


def noisy_law(masses: dict[int, float]) -> Law:
    """The law of the largest count plus noise, ties at random: every value of the noise of every class."""
    values = np.array(list(masses))
    chances = np.array(list(masses.values())) / math.fsum(masses.values())

    @cache
    def law(counts: Votes) -> Array:
        noisy = np.meshgrid(*(values + count for count in counts), indexing="ij")
        weight = math.prod(np.meshgrid(*(chances for _ in counts), indexing="ij"))
        largest = np.max(noisy, axis=0)
        winners = np.sum([each == largest for each in noisy], axis=0)
        return np.array([(weight * (each == largest) / winners).sum() for each in noisy])

    return law


def gaussian_masses(sigma: float) -> dict[int, float]:
    end = math.ceil(9 * sigma)
    return {k: math.exp(-k * k / (2 * sigma * sigma)) for k in range(-end, end + 1)}


def checked_law(law: Law, threshold: float, masses: dict[int, float]) -> Law:
    """The same behind a check of the largest count; ⊥ last."""
    total = math.fsum(masses.values())

    def checked(counts: Votes) -> Array:
        passes = math.fsum(mass for k, mass in masses.items() if max(counts) + k >= threshold) / total
        fails = math.fsum(mass for k, mass in masses.items() if max(counts) + k < threshold) / total
        return np.append(law(counts) * passes, fails)

    return checked


def exponential_law(rate: float) -> Law:
    def law(counts: Votes) -> Array:
        weights = [math.exp(rate * (count - max(counts))) for count in counts]
        return np.array(weights) / math.fsum(weights)

    return law


def permute_and_flip_law(rate: float) -> Law:
    def law(counts: Votes) -> Array:
        chances = np.zeros(len(counts))
        for order in permutations(range(len(counts))):
            left = 1.0 / math.factorial(len(counts))
            for c in order:
                coin = math.exp(rate * (counts[c] - max(counts)))
                chances[c] += left * coin
                left *= 1 - coin
        return chances

    return law


@dataclass(frozen=True)
class Case:
    """A mechanism, its own law, and releases of it."""

    mechanism: VoteMechanism
    law: Law
    queries: int
    delta: float
    sampling: Sampling | None

    def __str__(self) -> str:
        how = "all" if self.sampling is None else self.sampling.words
        return f"{self.mechanism.record()} {self.queries} releases, δ {self.delta:g}, {how}"


def random_case(rng: Random) -> Case:
    """A random case whose adversary can be enumerated."""
    queries = rng.choice([1, 2, 2, 3])
    classes = rng.choice([2, 3, 3])
    K = rng.randint(1, {1: 6, 2: 6, 3: 5 if classes == 2 else 2}[queries])
    affected = rng.choice([1, 1, 1, min(2, K)])
    name = rng.choice(["gnmax", "gnmax", "checked", "checked", "laplace", "exponential", "permute_and_flip"])
    sigma, rate = rng.uniform(1.0, 2.5), rng.uniform(0.2, 1.5)
    if name == "laplace":
        scale = rng.uniform(0.7, 1.4)
        masses = {k: math.exp(-abs(k) / scale) for k in range(-math.ceil(36 * scale), math.ceil(36 * scale) + 1)}
        mechanism: VoteMechanism = LaplaceMaximum(K, classes, scale, affected=affected)
        law = noisy_law(masses)
    elif name == "exponential":
        mechanism, law = ExponentialMechanism(K, classes, rate, affected=affected), exponential_law(rate)
    elif name == "permute_and_flip":
        mechanism, law = PermuteAndFlip(K, classes, rate, affected=affected), permute_and_flip_law(rate)
    elif name == "gnmax":
        mechanism, law = NoisyMaximum(K, classes, sigma, affected=affected), noisy_law(gaussian_masses(sigma))
    else:
        check: dict[str, Any] = {"threshold": rng.uniform(0, K), "check_sigma": rng.uniform(1, 3)}
        mechanism = NoisyMaximum(K, classes, sigma, affected=affected, **check)
        law = checked_law(noisy_law(gaussian_masses(sigma)), check["threshold"], gaussian_masses(check["check_sigma"]))
    neighbours: Any = rng.choice(["add-remove", "replace-one"])
    rates = Sampling(1000, rate=rng.choice([0.02, 0.1, 0.4, 1.0]), neighbours=neighbours)
    sampling = rng.choice([None, rates])
    return Case(mechanism, law, queries, 10 ** rng.uniform(-6, -1), sampling)


def directions(case: Case) -> list[tuple[Array, Array]]:
    """All pairs of laws (P, Q), shape (pairs, answers) each, for each order of the neighbours."""
    K, classes, r = case.mechanism.K, case.mechanism.classes, case.mechanism.affected
    triples = set()
    for others in (each for each in product(range(K + 1), repeat=classes) if sum(each) == K - r):
        moves = [each for each in product(range(r + 1), repeat=classes) if sum(each) == r]
        whole = [tuple(a + b for a, b in zip(others, move, strict=True)) for move in moves]
        triples |= set(product(whole, repeat=3))
    rate = 1.0 if case.sampling is None else case.sampling.chance
    replace = case.sampling is not None and case.sampling.neighbours == "replace-one"
    first, second = [], []
    for off, on, other in sorted(triples):
        if replace:
            p, q = ((1 - rate) * case.law(off) + rate * case.law(each) for each in (on, other))
        elif other == off:
            p, q = case.law(off), (1 - rate) * case.law(off) + rate * case.law(on)
        else:
            continue
        if not np.array_equal(p, q):
            first.append(p)
            second.append(q)
    if not first:
        return []
    both = np.unique(np.round(np.hstack([first, second]), 14), axis=0)
    on_data, on_neighbour = (np.asarray(law, np.float64) for law in np.hsplit(both, 2))
    return [(on_data, on_neighbour), (on_neighbour, on_data)]


def attained(p: Array, q: Array, queries: int, slope: float) -> float:
    """The largest Σ (P − slope·Q)₊ of transcripts, each question chosen in view of the answers before it."""

    def value(a: Array, b: Array, left: int) -> Array:
        if not left:
            return np.maximum(a - b, 0.0)
        if left > 1:
            following = value((a[:, None, None] * p).ravel(), (b[:, None, None] * q).ravel(), left - 1)
            return np.asarray(following.reshape(a.size, *p.shape).sum(axis=2).max(axis=1))
        best = np.zeros(a.size)
        for on_data, on_neighbour in zip(p, q, strict=True):
            shown = sum(np.maximum(a * x - b * y, 0.0) for x, y in zip(on_data, on_neighbour, strict=True))
            best = np.maximum(best, shown)
        return best

    return float(value(np.ones(1), np.full(1, slope), queries)[0])


def least_epsilon(pairs: Sequence[tuple[Array, Array]], queries: int, delta: float) -> float:
    """The least ε that is true, to 1e-3, by bisection."""

    def is_true(epsilon: float) -> bool:
        return all(attained(p, q, queries, math.exp(epsilon)) <= delta for p, q in pairs)

    low, high = 0.0, 1.0
    if is_true(0.0):
        return 0.0
    while not is_true(high):
        low, high = high, 2 * high
    while high - low > 2e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_true(middle) else (middle, high)
    return low


def examine(case: Case, *, tight: bool) -> tuple[ReleaseTotal, list[str]]:
    """Return the total of a case and what is wrong with it."""
    found, pairs, wrong = cost(case.mechanism, case.queries, case.delta, case.sampling), directions(case), list[str]()
    for account, epsilon in found.epsilons.items():
        if epsilon < 500:
            true_delta = max((attained(p, q, case.queries, math.exp(epsilon)) for p, q in pairs), default=0.0)
            if true_delta > case.delta + ERROR:
                wrong.append(f"{account} is unsound: stated {case.delta}, exact {true_delta}: {case}")
    if tight and pairs:
        exact = least_epsilon(pairs, case.queries, case.delta)
        if not found.epsilon <= max(TIGHT * exact, exact + SMALL):
            wrong.append(f"loose: stated {found.epsilon}, exact {exact}: {case}")
    return found, wrong


def row(seed: int, number: int) -> Row:
    found, wrong = examine(random_case(Random(f"{seed} {number}")), tight=True)
    return Row(wrong, [f"account: {found.account}"])


def lines(tally: Tally) -> Iterator[str]:
    least = listed(tally.kinds("account"))
    yield f"{len(tally.rows)} totals, {len(tally.faults)} wrong. The least by account: {least}"


CAMPAIGN = Campaign("enumerated", __doc__, "totals", 5000, row, lines, verb="enumerated")

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
