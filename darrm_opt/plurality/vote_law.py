"""The law of votes by which mechanisms are judged, and how often each of them releases a leader under it.

Chances are those of the noise that is drawn, on whole numbers. Where vote counts are too many to list, they are drawn
from the prior, always the same ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.labels.lattice_cells import LatticeNoise
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.plurality.mechanisms import gauss_legendre
from darrm_opt.tables.priors import PastVotes, PluralityObjective, sample_counts
from darrm_opt.tables.problem import PluralityProblem, has_table
from darrm_opt.tables.rule import PluralityRule

BLOCK = 5000
"""Numbers of votes whose chances are computed at a time."""

MAX_NODES, MAX_NODES_SMOOTH = 24, 8
"""Most nodes of the integral over ties, for σ below and from `SMOOTH_SIGMA` on: more change no double."""

SMOOTH_SIGMA = 4.0

SAMPLES, MIN_SAMPLES, SAMPLED_NUMBERS = 2000, 100, 100_000
"""Most and fewest vote counts drawn from a prior that cannot be listed, and numbers of votes in all of them."""

CountTable = NDArray[np.intp]


def leader_chances(counts: CountTable, sigma: float) -> Array:
    """Return Pr[one of the leaders has the largest noisy count], discrete Gaussian noise σ, ties broken uniformly.

    With f and F the law of the noise, d_j how far class j is behind and s the place of a leader among those it ties
    with,

        Pr[a given leader is released] = Σ_x f(x)·∫₀¹ Π_j (F(x + d_j − 1) + s·f(x + d_j)) ds.

    Args:
        counts: decreasing vote counts, shape (N, C).
        sigma: ≥ 1 [votes].

    Returns:
        Shape (N,), to about 1e-12: where σ is large every ⌊σ/4⌋-th x is enough, as the sum of a bell curve.
    """
    noise, step = LatticeNoise(sigma, 0.0), max(1, math.floor(sigma / 4))
    reach = math.ceil(9 * sigma / step)
    x = np.arange(-reach, reach + 1) * step
    exact = counts.shape[1] // 2 + 1  # the integrand has degree C − 1
    s, ds = gauss_legendre(min(exact, MAX_NODES if sigma < SMOOTH_SIGMA else MAX_NODES_SMOOTH))
    behind = counts[:, :1] - counts
    leaders = np.count_nonzero(behind == 0, axis=1)
    behind = np.minimum(behind, reach * step + noise.end + 1)  # from there on F = 1
    chances = np.empty(len(counts))
    rows_at_a_time = max(1, BLOCK // counts.shape[1])
    for start in range(0, len(counts), rows_at_a_time):
        rows = slice(start, start + rows_at_a_time)
        gaps, places = np.unique(behind[rows], return_inverse=True)
        places = places.reshape(behind[rows].shape)
        shifted = x[None, :] + gaps[:, None]
        factors = noise.below(shifted)[:, :, None] + s * noise.at(shifted)[:, :, None]
        product = factors[places[:, 1]]
        for column in range(2, counts.shape[1]):
            product = product * factors[places[:, column]]
        chances[rows] = step * ((product @ ds) @ noise.at(x))
    return np.asarray(np.minimum(chances * leaders, 1.0))


def pass_chances(largest: CountTable, threshold: float, sigma: float) -> Array:
    """Return Pr[largest count + discrete Gaussian noise σ ≥ threshold], same shape as ``largest``."""
    least_noise = np.ceil(threshold - largest).astype(np.intp)
    return np.asarray(LatticeNoise(sigma, 0.0).at_least(least_noise))


def selection_chances(counts: CountTable, name: str, rate: float) -> Array:
    """Return Pr[one of the leaders is released] by permute-and-flip or the exponential mechanism, shape (N,).

    Args:
        counts: decreasing vote counts, shape (N, C).
        name: one of `SELECTIONS`.
        rate: t [nats a vote].
    """
    behind = counts[:, :1] - counts
    leaders = np.count_nonzero(behind == 0, axis=1)
    weights = np.exp(-rate * behind)
    if name == "exponential":
        return np.asarray(leaders / weights.sum(axis=1))
    s, ds = gauss_legendre(counts.shape[1] // 2 + 1)
    product = np.ones((len(counts), s.size))
    for column in range(1, counts.shape[1]):
        product *= 1 - weights[:, column, None] * s
    return np.asarray(np.minimum(leaders * (product @ ds), 1.0))


class VoteLaw:
    """Vote counts with their masses: all that can occur, and those that are judged (ties may be left out).

    Args:
        objective: prior, ties and price.
        problem: voters and classes.

    Attributes:
        counts: decreasing vote counts, shape (N, C).
        masses: probability of each, shape (N,).
        judged: the same where ties are left out, if they are, shape (N,).
        samples: how many were drawn from the prior where they are too many to list; None: the whole law, or past votes.

    Raises:
        InvalidInput: a prior of other voters or classes, or one under which no class leads alone.
    """

    def __init__(self, objective: PluralityObjective, problem: PluralityProblem) -> None:
        self.objective, self.samples = objective, None
        K, classes = problem.K, problem.classes
        prior = objective.prior
        if isinstance(prior, PastVotes):
            prior.check_shape(K, classes)
            self.counts = np.array([partition for partition, _ in prior.counts], dtype=np.intp)
            masses = np.array([times for _, times in prior.counts], dtype=np.float64)
        elif has_table(K, classes):
            cells = PluralityProblem(K, classes, problem.target).histograms
            self.counts, masses = np.array(cells.partitions, dtype=np.intp), prior.masses(cells)
        else:
            self.samples = min(SAMPLES, max(MIN_SAMPLES, SAMPLED_NUMBERS // classes))
            self.counts, masses = sample_counts(prior, K, classes, self.samples), np.ones(self.samples)
        self.masses = masses / masses.sum()
        strict = self.counts[:, 0] > self.counts[:, 1]
        judged = np.where(strict, self.masses, 0.0) if objective.ties == "excluded" else self.masses
        if not judged.sum() > 0:
            raise InvalidInput("prior", str(prior), "a prior under which one class can lead alone")
        self.judged = judged / judged.sum()

    def utility(self, shares: tuple[float, float]) -> float:
        """Return right − price·wrong."""
        return shares[0] - self.objective.price * (shares[1] - shares[0])

    def rule_shares(self, rule: PluralityRule) -> tuple[float, float]:
        """Return the shares of right answers and of answers of a table."""
        cells = rule.cells
        places = [cells.numbers[tuple(partition)] for partition in self.counts.tolist()]
        leaders = cells.starts[places]
        right = float(self.judged @ (rule.nearest[leaders] * cells.multiplicities[leaders]))
        if not rule.abstention:
            return right, 1.0
        silent = np.append(cells.starts[1:], cells.values.size)[places] - 1
        return right, 1.0 - float(self.judged @ rule.nearest[silent])

    def checked_shares(self, leads: Array, passes: Array, queries: int, cap: int) -> tuple[float, float]:
        """Return the shares of right answers and of answers where each label is checked, and ``cap`` are allowed."""
        chance = float(self.masses @ passes)
        released = _released_labels(queries, min(chance, 1.0), cap) / (queries * chance) if chance > 0 else 0.0
        return released * float(self.judged @ (leads * passes)), released * float(self.judged @ passes)


def _released_labels(queries: int, chance: float, cap: int) -> float:
    """Return E[min(N, cap)], N ~ Binomial(queries, chance)."""
    with needed_by("A vote among several classes"):
        from scipy.special import bdtr, bdtrc

    if cap >= queries:
        return queries * chance
    # Σ_{j ≤ cap} j·Pr[N = j] = Q·p·Pr[Binomial(Q − 1, p) ≤ cap − 1]
    return float(queries * chance * bdtr(cap - 1, queries - 1, chance) + cap * bdtrc(cap, queries, chance))
