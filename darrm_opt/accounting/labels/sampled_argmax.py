"""Sampled cells: the laws of a label of noisy counts without a record and with it, for any number of classes.

As in `discrete_gaussian_argmax`: given the largest noisy count M of the classes that no vote moves between, and the
number of classes that have it, the label is a function of the noisy counts of a, b (and c) relative to M, which are
integers with integer means. A record votes a if it is not in the sample, b if it is, or c with its other value: so all
triples of laws are mixtures of those listed here, with the same weights, and every jointly convex functional is at most
the maximum.

Ties are broken at random. A class that ties with m of the others wins with probability ∫ s^m ds = 1/(m+1), two of them
with 1/(m+2) each, three with 1/(m+3): weights w₁ ≥ w₂ ≥ w₃. For m = 1, 2, … up to `MAX_TIED` they are listed; beyond,
they are in the simplex 0 ≤ w₃ ≤ w₂ ≤ w₁ ≤ 1/(MAX_TIED + 2), and the laws lie between those of its corners.

Noise is cut off some standard deviations from 0, `cut_end`: far enough that a share of δ covers the change. Then beyond
some distance from M the label is as without the others, or as without one class, and only finitely many means matter.
Proofs: docs/proofs.md, "Ensembles that are drawn anew for every query".
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from darrm_opt.accounting.guarantee import LawTriples
from darrm_opt.accounting.labels.discrete_gaussian_argmax import MASS_ERROR
from darrm_opt.accounting.labels.gaussian_argmax import IntArray
from darrm_opt.accounting.law_pairs import AnyVotes, LawPairs
from darrm_opt.accounting.sampling import Neighbours
from darrm_opt.noise import Array
from darrm_opt.rounding import up

MIN_SIGMA = 0.3  # smallest σ [votes]: below it, ratios of probabilities overflow

MIN_END, MAX_END = 9, 20
"""Range of standard deviations at which noise is cut off: products of three masses do not underflow."""

MAX_TIED = 6  # maximum number of other classes, tied for the largest of their counts, that are listed
MAX_TRIPLES = 1_500_000  # maximum number of listed triples: some seconds for an account
MAX_WIDTH = 10_000  # maximum number of distinct means of a class

MAX_MOVED = 8
"""Maximum number of votes of one record whose moves among more than two classes are listed: 22 ways to gain them."""

MAX_LEAD, ATOMS = 4_000_000, 20_000
"""Largest lead of noisy counts that is listed, for σ of 10⁵ votes and more; approximate number of distinct leads."""


def cut_end(chance: float) -> int:
    """Return the number of standard deviations beyond which noise has at most a given probability."""
    return next((end for end in range(MIN_END, MAX_END) if cut_chance(end) <= chance), MAX_END)


def cut_chance(end: int) -> float:
    """Return a bound on Pr[|X| > end·σ] of the discrete Gaussian."""
    # Its tail from m on is at most that of N(0, σ²) from m − 1 on.
    return up(2 * math.exp(-end * end / 2) / (end * math.sqrt(2 * math.pi)), 16)


def sampled_labels(
    sigma: float, classes: int, affected: int, neighbours: Neighbours | None, cut: float
) -> list[LawTriples] | None:
    """Return triples of laws of a label with discrete Gaussian noise, or of the counts behind it; None if not listed.

    ``cut``: probability of noise that may be cut off.
    """
    end = cut_end(cut / classes)
    cells = sampled_label_laws(sigma, classes, neighbours, end) if affected == 1 else None
    if cells is None and (classes == 2 or (affected == 1 and neighbours != "replace-one")):
        return sampled_counts(sigma, affected, neighbours, cut_end(cut / 2))
    return cells


@lru_cache(maxsize=4)
def sampled_label_laws(
    sigma: float, classes: int, neighbours: Neighbours | None, end: int = MIN_END
) -> list[LawTriples] | None:
    """Return all triples of laws of a label with discrete Gaussian noise, one vote of one record."""
    reach = math.ceil(end * sigma)
    width, replace = 2 * reach + 4, neighbours == "replace-one"
    count = len(_tie_weights(classes - 2)) * width**2 * (2 if replace else 1)
    count += (len(_tie_weights(classes - 3)) * width**3 + 4 * width**2 if classes > 2 else 0) if replace else 0
    if sigma < MIN_SIGMA or count > MAX_TRIPLES or width > MAX_WIDTH:
        return None
    noise = _CutNoise(sigma, reach)
    two = [_two_cells(noise), *([_three_cells(noise, classes - 2)] if classes > 2 else [])]
    error, missing = 4 * MASS_ERROR, classes * cut_chance(end)
    if not replace:
        return [LawTriples(off, on, error=error, missing=missing) for off, on in two]
    # a record that votes as the one in its place did, in one of its two values.
    families = [(off, off, on) for off, on in two] + [(off, on, off) for off, on in two]
    if classes > 2:
        families.append(_three_alone(noise))
    if classes > 3:
        families.append(_four_cells(noise, classes - 3))
    return [LawTriples(*laws, error=error, missing=missing) for laws in families]


@lru_cache(maxsize=4)
def sampled_counts(
    sigma: float, affected: int = 1, neighbours: Neighbours | None = "add-remove", end: int = MIN_END
) -> list[LawTriples] | None:
    """Return the triple of the two noisy counts that a record's votes may move between, for noise too wide for cells.

    The label is a function of the counts, whose lead d of a over b is sufficient: with r votes that move from a to b
    its likelihood ratio is exp(r(d − r)/σ²). For replace-one: two classes only.
    """
    last = 2 * math.ceil(end * sigma)
    if sigma < MIN_SIGMA or last > MAX_LEAD or 2 * affected >= last:
        return None
    d = np.arange(-last, last + 1)
    k = np.arange(-last, last + 1) / 2
    # Σ_k exp(−(k² + (k − d)²)/2σ²) = exp(−d²/4σ²) Σ_k exp(−(k − d/2)²/σ²): the sum is one of two, by the parity of d.
    even, odd = (float(np.exp(-(((2 * k + shift) / sigma) ** 2)).sum()) for shift in (0.0, 0.5))
    masses = np.exp(-(d * d) / (4 * sigma * sigma)) * np.where(d % 2 == 0, even, odd)
    masses /= masses.sum()
    shift = 2 * affected
    off, on = _joined_atoms(masses[shift:], masses[:-shift], affected / (sigma * sigma))
    # Leads that are possible on one side only.
    off, on = (np.append(off, [masses[:shift].sum(), 0.0]), np.append(on, [0.0, masses[-shift:].sum()]))
    off, on = off[np.newaxis], on[np.newaxis]
    laws = [(off, on, None)] if neighbours != "replace-one" else [(off, off, on), (off, on, off)]
    error, missing = 8 * MASS_ERROR, 2 * cut_chance(end)
    return [LawTriples(a, b, other, error=error, missing=missing, is_tight=False) for a, b, other in laws]


def _joined_atoms(off: Array, on: Array, step: float) -> tuple[Array, Array]:
    """Return laws of fewer answers that dominate two whose log-likelihood ratios grow by ``step`` from one to the next.

    Source: an answer between two kept ones is split between them so that the sums of both laws are preserved. That
    spreads the likelihood ratios at a constant mean.
    """
    if off.size <= ATOMS:
        return off, on
    answers = np.arange(off.size)
    kept = np.unique(np.linspace(0, off.size - 1, ATOMS).astype(np.intp))
    left = np.minimum(np.searchsorted(kept, answers, side="right") - 1, kept.size - 2)
    down, above = (np.expm1((kept[left + side] - answers) * step) for side in (0, 1))  # of a neighbour's ratio, less 1
    low, high = above / (above - down), -down / (above - down)

    def joined(to_left: Array, to_right: Array) -> Array:
        return np.asarray(np.bincount(left, to_left, kept.size) + np.bincount(left + 1, to_right, kept.size))

    return joined(off * low, off * high), joined(on * low * (1 + down), on * high * (1 + above))


def label_of_any_votes(sigma: float, classes: int, affected: int) -> AnyVotes:
    """Return the pairs of a label whose record moves up to `MAX_MOVED` votes: its cells, or its noisy counts."""
    cells = sampled_label_laws(sigma, classes, "add-remove") if affected == 1 else None
    if cells is None:
        return counts_of_any_votes(sigma, 2 if classes == 2 else affected + 1, affected)
    off, on = (
        np.concatenate([np.pad(getattr(each, side), ((0, 0), (0, 3 - each.off.shape[1]))) for each in cells])
        for side in ("off", "on")
    )
    pairs = LawPairs(np.concatenate([off, on]), np.concatenate([on, off]), error=cells[0].error)
    return AnyVotes(pairs, cells[0].missing)


def counts_of_any_votes(sigma: float, classes: int, affected: int) -> AnyVotes:
    """Return the pairs of the noisy counts that gain, or that lose, up to ``affected`` votes, in both orders.

    Let l be the votes that each of them gains. Σ l·x of the noisy counts x is sufficient: its likelihood ratio is
    exp((Σ l·x − Σ l²/2)/σ²), and it moves by Σ l². Gaining less reveals less: the noise is log-concave.
    """
    noise = _CutNoise(sigma, math.ceil(MIN_END * sigma))
    width = affected * (2 * noise.reach + affected) + 1
    first, second = [], []
    for gains in _gains(affected, affected, classes - 1):
        masses = np.ones(1)
        for gain in gains:
            steps = np.zeros(2 * noise.reach * gain + 1)
            steps[::gain] = noise.masses
            masses = np.convolve(masses, steps)
        moved = sum(gain * gain for gain in gains)
        at, then = (np.pad(masses, (start, width - masses.size - start)) for start in (0, moved))
        first += [at, then]
        second += [then, at]
    laws = (np.minimum(np.stack(side), 1.0) for side in (first, second))
    return AnyVotes(LawPairs(*laws, error=4 * affected * MASS_ERROR), affected * cut_chance(MIN_END), times=2)


def _gains(votes: int, largest: int, counts: int) -> list[tuple[int, ...]]:
    """Return the ways in which up to ``counts`` counts gain a number of votes, at most ``largest`` each, decreasing."""
    if not votes:
        return [()]
    if not counts:
        return []
    return [
        (first, *rest)
        for first in range(min(votes, largest), 0, -1)
        for rest in _gains(votes - first, first, counts - 1)
    ]


def check_of_any_votes(sigma: float, affected: int) -> AnyVotes:
    """Return the pairs of "largest count + noise ≥ T", for every largest count."""
    noise = _CutNoise(sigma, math.ceil(MIN_END * sigma))
    places = np.arange(2 * noise.reach + 2 * affected + 2) - affected  # of thresholds, from below all noise to above it
    sums = [np.concatenate([[0.0], np.cumsum(masses)]) for masses in (noise.masses, noise.masses[::-1])]
    last = sums[0].size - 1
    below = sums[0][places.clip(0, last)]
    laws = np.minimum(np.stack([sums[1][(last - places).clip(0, last)], below], axis=1), 1.0)
    here, there = laws[:-affected], laws[affected:]
    return AnyVotes(
        LawPairs(np.concatenate([here, there]), np.concatenate([there, here]), error=4 * MASS_ERROR),
        cut_chance(MIN_END),
    )


class _CutNoise:
    """Discrete Gaussian cut off at ``reach``; laws of its sums with means around 0."""

    def __init__(self, sigma: float, reach: int) -> None:
        self.reach = reach
        k = np.arange(-reach, reach + 1)
        masses = np.exp(-(k * k) / (2 * sigma * sigma))
        self.masses = masses / masses.sum()
        self.means = np.arange(-reach - 2, reach + 2)
        """Means relative to M: with one more vote the first never reaches it, and without one the last is above it."""

    def around(self) -> tuple[Array, Array, Array, Array]:
        """Return Pr[noise + mean = x] and Pr[noise + mean < x] above M, and both at M, of all means."""
        x, zero = np.arange(1, 2 * self.reach + 3), np.array([0])
        at_m, below_m = self.at(zero, self.means)[0], self.below(zero, self.means)[0]
        return self.at(x, self.means), self.below(x, self.means), at_m, below_m

    def at(self, x: IntArray, mean: IntArray) -> Array:
        """Return Pr[noise + mean = x], shape (x, mean)."""
        k = x[:, np.newaxis] - mean + self.reach
        return np.where((k >= 0) & (k <= 2 * self.reach), self.masses[np.clip(k, 0, 2 * self.reach)], 0.0)

    def below(self, x: IntArray, mean: IntArray) -> Array:
        """Return Pr[noise + mean < x], shape (x, mean)."""
        sums = np.concatenate([[0.0], np.cumsum(self.masses)])
        return np.asarray(sums[np.clip(x[:, np.newaxis] - mean + self.reach, 0, 2 * self.reach + 1)])


def _tie_weights(others: int) -> list[tuple[float, float, float]]:
    """Return (w₁, w₂, w₃) for one to ``others`` classes that share the largest count of the others."""
    weights = [(1 / (m + 1), 1 / (m + 2), 1 / (m + 3)) for m in range(1, min(others, MAX_TIED) + 1)]
    if others > MAX_TIED:
        x = 1 / (MAX_TIED + 2)
        weights += [(0.0, 0.0, 0.0), (x, 0.0, 0.0), (x, x, 0.0), (x, x, x)]
    return weights


def _two_cells(noise: _CutNoise) -> tuple[Array, Array]:
    """Return the laws of two classes by the lead of a: with its vote for a, and for b."""
    masses = np.convolve(noise.masses, noise.masses)  # of the difference
    end = 2 * noise.reach
    behind = np.cumsum(masses) - masses / 2  # Pr[difference < d], and half of a tie
    wins = np.concatenate([np.zeros(3), behind, np.ones(3)])  # of a, from lead −end − 3 on
    lead = np.arange(-end, end + 3) + end + 3  # as places in wins
    off, on = (np.stack([wins[place], wins[::-1][place]], axis=1) for place in (lead, lead - 2))
    return off, on


def _three_cells(noise: _CutNoise, others: int) -> tuple[Array, Array]:
    """Return the laws of (a, b, another class) at all means: with a record's vote for a, and for b."""
    at, below, at0, below0 = noise.around()
    above = at.T @ (below + at / 2)  # a wins above M
    alone, both = np.outer(at0, below0), np.outer(at0, at0)
    laws = []
    for w1, w2, _ in _tie_weights(others):
        wins = above + w1 * alone + w2 * both
        rest = np.outer(below0, below0) + (1 - w1) * (alone + alone.T) + (1 - 2 * w2) * both
        laws.append(np.stack([wins, wins.T, rest], axis=-1))
    off = np.concatenate([law[1:, :-1].reshape(-1, 3) for law in laws])
    return off, np.concatenate([law[:-1, 1:].reshape(-1, 3) for law in laws])


def _four_cells(noise: _CutNoise, others: int) -> tuple[Array, Array, Array]:
    """Return the laws of (a, b, c, another class) at all means: with a record's vote for a, for b, and for c."""
    at, below, at0, below0 = noise.around()
    above = _first_of_three(at, below)
    alone = np.einsum("i,j,k->ijk", at0, below0, below0)
    two = np.einsum("i,j,k->ijk", at0, at0, below0)  # a and b tie at M
    three = np.einsum("i,j,k->ijk", at0, at0, at0)
    none = np.einsum("i,j,k->ijk", below0, below0, below0)
    turn, swap = (1, 0, 2), (2, 1, 0)
    laws = []
    for w1, w2, w3 in _tie_weights(others):
        pairs = [two, two.transpose(0, 2, 1), two.transpose(2, 1, 0)]  # ab, ac, cb
        a = above + w1 * alone + w2 * (pairs[0] + pairs[1]) + w3 * three
        b, c = a.transpose(turn), a.transpose(swap)
        single = alone + alone.transpose(turn) + alone.transpose(swap)
        rest = none + (1 - w1) * single + (1 - 2 * w2) * (pairs[0] + pairs[1] + pairs[2]) + (1 - 3 * w3) * three
        laws.append(np.stack([a, b, c, rest], axis=-1))
    # One more vote for a, for b, and for c.
    off = np.concatenate([law[1:, :-1, :-1].reshape(-1, 4) for law in laws])
    on = np.concatenate([law[:-1, 1:, :-1].reshape(-1, 4) for law in laws])
    return off, on, np.concatenate([law[:-1, :-1, 1:].reshape(-1, 4) for law in laws])


def _three_alone(noise: _CutNoise) -> tuple[Array, Array, Array]:
    """Return the laws of (a, b, c) if no other class can win, by their means relative to that of a."""
    # Means further apart than the noise reaches exclude a class; then one more step changes nothing.
    end = 2 * noise.reach + 3
    means, zero = np.arange(-end, end + 1), np.zeros(1, dtype=np.intp)
    x = np.arange(-noise.reach, end + noise.reach + 1)  # a has no less
    at, below = noise.at(x, means), noise.below(x, means)
    at_a, below_a = noise.at(x, zero), noise.below(x, zero)
    one = (at_a * below).T @ at
    a = (at_a * below).T @ below + (one + one.T) / 2 + (at_a * at).T @ at / 3
    b = at.T @ (below_a * below + (at_a * below + below_a * at) / 2 + at_a * at / 3)
    law = np.stack([a, b, b.T], axis=-1)
    # One more vote for a is one less for both others, relative to a.
    off, on, other = (each.reshape(-1, 3) for each in (law[:-2, :-2], law[2:, 1:-1], law[1:-1, 2:]))
    return off, on, other


def _first_of_three(at: Array, below: Array) -> Array:
    """Return Pr[a has the largest count of three, above M], ties at random, shape (means, means, means)."""
    one = np.einsum("xj,xk->xjk", at, below)
    rest = np.einsum("xj,xk->xjk", below, below) + (one + one.transpose(0, 2, 1)) / 2
    rest += np.einsum("xj,xk->xjk", at, at) / 3
    return np.asarray(np.tensordot(at, rest, axes=(0, 0)))
