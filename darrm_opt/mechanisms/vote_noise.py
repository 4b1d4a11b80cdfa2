"""Noisy votes: count, add noise, release the winner.

Counts and noise are integers, so the release has exactly the distribution of its privacy proof. The sources add
continuous noise; discrete noise of the same scale has the same pure (Laplace) and Rényi (Gaussian) privacy on counts,
and ties are broken uniformly (post-processing). The `continuous` forms and the tables of continuous noise over
partitions reproduce published results (Dwork, Roth 2014; Papernot and others 2018); a table of them is certified as
stored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.labels.noisy_bit import normal_cdf
from darrm_opt.accounting.law_pairs import BitPairs
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.inversion import MAX_SCALE, gaussian_law, laplace_law
from darrm_opt.noise import Array, NoiseFunction
from darrm_opt.randomness import RandomSource, below_each, discrete_gaussian, discrete_laplace
from darrm_opt.tables.problem import ABSTENTION, Histograms
from darrm_opt.tables.votes import Labels, VoteTable, label_type

Kind = Literal["discrete", "continuous"]


class Loses(Protocol):
    """A symmetric vote between two classes."""

    def loses(self, margin: int, /) -> float:
        """Return the probability that a class leading by ``margin`` ≥ 0 votes loses."""


class _SymmetricNoise(ABC):
    """Noise that is symmetric between two classes."""

    @abstractmethod
    def loses(self, margin: int, kind: Kind = "discrete") -> float:
        """As `Loses`."""

    def wins(self, margin: int, kind: Kind = "discrete") -> float:
        """Return the probability that a class leading by ``margin`` votes wins between two."""
        return self.loses(-margin, kind) if margin < 0 else 1.0 - self.loses(margin, kind)


@dataclass(frozen=True)
class LaplaceNoise(_SymmetricNoise):
    """Discrete Laplace noise: Pr[x] ∝ e^(−|x|/scale)."""

    scale: Fraction  # b > 0 [votes]; a Fraction, or a float taken at its exact value

    def __init__(self, scale: Fraction | float) -> None:
        object.__setattr__(self, "scale", positive_fraction(scale, "scale"))

    def draw(self, source: RandomSource) -> int:
        """Return one exact sample [votes]."""
        return discrete_laplace(self.scale, source)

    def draw_many(self, count: int, source: RandomSource) -> NDArray[np.int64]:
        """Return exact samples [votes], shape (count,)."""
        is_listed = float(self.scale) <= min(MAX_SCALE, count)
        return laplace_law(self.scale).draw(count, source) if is_listed else _one_by_one(self, count, source)

    def loses(self, margin: int, kind: Kind = "discrete") -> float:
        """Return the probability that a class leading by ``margin`` ≥ 0 votes loses, without cancellation.

        Source: with x = margin/b, continuous: ½(1 + x/2)e^−x. Discrete, q = e^(−1/b): the difference of two samples has
            mass C·q^|w|·(|w| + A), C = ((1−q)/(1+q))², A = (1+q²)/(1−q²); its tail is summed.

        >>> LaplaceNoise(25.0).wins(50, "continuous")
        0.8646647167633873
        """
        if margin == 0:
            return 0.5
        x = margin / float(self.scale)
        if _checked_kind(kind) == "continuous":
            return 0.5 * (1 + 0.5 * x) * math.exp(-x)
        q = math.exp(-1 / self.scale)
        rest = -math.expm1(-1 / self.scale)  # 1 − q
        A = (1 + q * q) / (rest * (1 + q))
        at_tie = 0.5 * (margin + A)
        beyond = q * ((margin + 1 + A) / rest + q / rest**2)
        return math.exp(-x) * (rest / (1 + q)) ** 2 * (at_tie + beyond)


@dataclass(frozen=True)
class GaussianNoise(_SymmetricNoise):
    """Discrete Gaussian noise: Pr[x] ∝ e^(−x²/(2·variance))."""

    variance: Fraction  # σ² > 0 [votes²]; a Fraction, or a float taken at its exact value

    def __init__(self, variance: Fraction | float) -> None:
        object.__setattr__(self, "variance", positive_fraction(variance, "variance"))

    @classmethod
    def of_sigma(cls, sigma: float) -> GaussianNoise:
        """Return the noise of standard deviation parameter ``sigma`` > 0 [votes], squared exactly."""
        return cls(positive_fraction(sigma, "sigma") ** 2)

    @property
    def sigma(self) -> float:
        """σ [votes]."""
        return math.sqrt(self.variance)

    def draw(self, source: RandomSource) -> int:
        """Return one exact sample [votes]."""
        return discrete_gaussian(self.variance, source)

    def draw_many(self, count: int, source: RandomSource) -> NDArray[np.int64]:
        """Return exact samples [votes], shape (count,)."""
        is_listed = self.sigma <= min(MAX_SCALE, count)
        return gaussian_law(self.variance).draw(count, source) if is_listed else _one_by_one(self, count, source)

    def loses(self, margin: int, kind: Kind = "discrete") -> float:
        """Return the probability that a class leading by ``margin`` ≥ 0 votes loses, without cancellation.

        Source: continuous: 1 − Φ(margin/(√2σ)), because the difference of two samples is N(0, 2σ²).

        >>> round(GaussianNoise.of_sigma(21.46).wins(11, "continuous"), 3)
        0.641
        """
        if margin == 0:
            return 0.5
        if _checked_kind(kind) == "continuous":
            return 0.5 * math.erfc(margin / (2 * self.sigma))
        if self.sigma > _MAX_VOTES:
            # Euler–Maclaurin with f the N(0, 2σ²) density: ½f(d) + Σ_{w>d} f(w) = ∫_d^∞ f − f′(d)/12 + f‴(d)/720 − …
            s2 = 2 * float(self.variance)
            density = math.exp(-(margin**2) / (2 * s2)) / math.sqrt(2 * math.pi * s2)
            correction = margin / (12 * s2) + (3 * margin / s2**2 - margin**3 / s2**3) / 720
            return 0.5 * math.erfc(margin / (2 * self.sigma)) + correction * density
        difference = self.difference_masses()
        if margin >= difference.size:
            return 0.0
        return float(difference[margin] / 2 + difference[margin + 1 :].sum())

    def difference_masses(self) -> NDArray[np.float64]:
        """Return Pr[difference of two samples = w] for w = 0, 1, … up to 28 of its standard deviations.

        Σ_j e^(−j²/2σ²)·e^(−(w−j)²/2σ²) = e^(−w²/4σ²)·Σ_j e^(−(j−w/2)²/σ²); the last sum depends only on the parity of
        w.
        """
        variance = float(self.variance)
        reach = math.ceil(40 * math.sqrt(variance)) + 2
        w = np.arange(reach + 1)
        even = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / variance).sum()
        odd = np.exp(-((np.arange(-reach, reach + 1.0) - 0.5) ** 2) / variance).sum()
        masses = np.exp(-(w**2) / (4 * variance)) * np.where(w % 2 == 0, even, odd)
        return np.asarray(masses / (2 * masses.sum() - masses[0]), dtype=np.float64)


_MAX_VOTES = 100.0  # σ [votes] from which the next Euler–Maclaurin term, below d·f(d)/(1000·σ⁶), is less than 1e-16

VoteNoise = LaplaceNoise | GaussianNoise


def noisy_leaders(counts: VoteTable, noise: VoteNoise, source: RandomSource) -> Labels:
    """Return the class with the largest noisy count of each row; ties are broken uniformly."""
    return leaders(counts + noise.draw_many(counts.size, source).reshape(counts.shape), source)


def leaders(counts: VoteTable, source: RandomSource) -> Labels:
    """Return the class with the largest count of each row; ties are broken uniformly."""
    is_leader = counts == counts.max(axis=1, keepdims=True)
    ranks = np.cumsum(is_leader, axis=1, dtype=np.int32)
    chosen = below_each(ranks[:, -1], source) + 1
    return np.asarray(np.argmax(ranks == chosen[:, None], axis=1), dtype=label_type(counts.shape[1]))


def _one_by_one(noise: VoteNoise, count: int, source: RandomSource) -> NDArray[np.int64]:
    return np.array([noise.draw(source) for _ in range(count)], dtype=np.int64)


@lru_cache(maxsize=64)
def bit_pairs(noise: Loses, K: int, affected: int) -> BitPairs:
    """Return the pairs of laws of the bit that a noisy vote of K voters between two classes releases."""
    return BitPairs.of_noise([noise.loses(margin) for margin in range(K % 2, K + 1, 2)], K, affected)


def noise_function(K: int, noise: VoteNoise, kind: Kind = "discrete") -> NoiseFunction:
    """Return the γ(l) = 2·Pr[1 wins | l ones] − 1, l > K/2, of a noisy vote of K voters between two classes.

    Source: Lemma 3.3 of the DaRRM paper: every symmetric mechanism that is no worse than a coin is a DaRRM.

    >>> float(noise_function(11, GaussianNoise.of_sigma(21.46), "continuous").values[11].round(3))
    0.283
    """
    K = whole_number(K, "K", "a whole number of voters, at least 1")
    upper = [1.0 - 2.0 * noise.loses(2 * l - K, kind) for l in range(K // 2 + 1, K + 1)]
    return NoiseFunction.from_upper_half(np.clip(upper, 0.0, 1.0), K)


@lru_cache(maxsize=16)
def gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes and weights on [0, 1]: exact for polynomials of degree below 2·nodes."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return (points + 1) / 2, weights / 2


def positive_fraction(value: Fraction | float, argument: str) -> Fraction:
    """Return ``value``, positive and finite, as an exact fraction."""
    number = real_number(value, argument, "a positive finite number", above=0, below=math.inf)
    return value if isinstance(value, Fraction) else Fraction(number)


def _checked_kind(kind: str) -> str:
    if kind not in ("discrete", "continuous"):
        raise InvalidInput("kind", kind, "'discrete' or 'continuous'")
    return kind


NODES = 12  # Gauss–Legendre nodes in a panel at most one unit of noise wide: exact to rounding
BLOCK = 1 << 17  # values of the integrand computed at a time
REACH = 12.0  # standard deviations (for Laplace, 3·REACH scales) after which a tail, below 1e-15, is cut off


def laplace_table(cells: Histograms, rate: float) -> Array:
    """Return the probabilities of the largest count with Laplace noise of scale 1/rate, shape (cells,)."""
    if rate == 0:
        return _uniform(cells)

    def density(z: Array) -> Array:
        return 0.5 * np.exp(-np.abs(z))

    def below(z: Array) -> Array:
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0.0)), 1 - 0.5 * np.exp(-np.maximum(z, 0.0)))

    return _largest_count(cells, rate, density, below, 3 * REACH)


def gaussian_table(cells: Histograms, rate: float) -> Array:
    """Return the probabilities of the largest count with Gaussian noise of deviation 1/rate, shape (cells,)."""
    if rate == 0:
        return _uniform(cells)

    def density(z: Array) -> Array:
        return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return _largest_count(cells, rate, density, normal_cdf, REACH)


def checked_table(cells: Histograms, rate: float, threshold: float, check_share: float) -> Array:
    """Return the probabilities of a checked noisy maximum, shape (cells,), of cells with ⊥.

    A class is released only if the largest count + N(0, σ₁²) reaches the threshold: the class with the largest count
    plus N(0, σ₂²), σ₂ = 1/rate.
    """
    passes = normal_cdf((cells.values[cells.starts] - threshold) * rate * check_share)[cells.owners]
    return np.where(cells.values == ABSTENTION, 1 - passes, gaussian_table(cells, rate) * passes)


def _uniform(cells: Histograms) -> Array:
    return np.where(cells.values == ABSTENTION, 0.0, 1 / cells.classes)


def _largest_count(
    cells: Histograms, rate: float, density: Callable[[Array], Array], below: Callable[[Array], Array], reach: float
) -> Array:
    """Return Pr[class has the largest count plus noise/rate] = ∫ f(z − t·n_c) Π_{j≠c} F(z − t·n_j) dz for each cell."""
    K = cells.K
    largest = rate * K
    # Neighbouring counts are `rate` units of noise apart. Panels must end at counts, where Laplace's density has a
    # kink; a panel wider than one unit would need more than `NODES` nodes.
    panels = max(1, math.ceil(rate / 1.0))  # at most one unit of noise per panel
    ends = np.concatenate(
        [
            -reach + np.arange(math.ceil(reach)) * (reach / math.ceil(reach)),
            np.arange(K * panels) * (rate / panels),
            largest + np.arange(math.ceil(reach) + 1) * (reach / math.ceil(reach)),
        ]
    )
    # If counts are close together, panels are narrow and fewer nodes are enough.
    nodes, shares = gauss_legendre(NODES if rate >= 0.2 else 8)
    widths = np.diff(ends)
    z = (ends[:-1, None] + widths[:, None] * nodes).ravel()
    dz = (widths[:, None] * shares).ravel()
    votes, table = np.maximum(cells.values, 0), np.zeros(cells.values.size)
    counts, rows = np.unique(votes, return_inverse=True)
    # All cells with the same count share the same two functions of z: at most K + 1 rows serve every partition.
    f = density(z[None, :] - rate * counts[:, None])  # by count: shape (K + 1, nodes)
    F = below(z[None, :] - rate * counts[:, None])
    multiplicities = np.where(cells.values == ABSTENTION, 0, cells.multiplicities)
    lengths = np.diff(np.append(cells.starts, votes.size))
    for count in np.unique(cells.values[cells.values != ABSTENTION]).tolist():
        # a class is released near its own count: elsewhere its noise is cut off.
        near = slice(*np.searchsorted(z, (rate * count - reach, rate * count + reach)).tolist())
        density_here, chances = f[np.searchsorted(counts, count), near] * dz[near], F[:, near]
        of_count = np.flatnonzero(cells.values == count)
        # Cells of partitions with equally many counts, each class as often as others have its count.
        for length in np.unique(lengths[cells.owners[of_count]]).tolist():
            alike = of_count[lengths[cells.owners[of_count]] == length]
            step = max(1, BLOCK // max(1, density_here.size))
            for first in range(0, alike.size, step):  # as many as fit in the cache
                chosen = alike[first : first + step]
                product = np.ones((chosen.size, density_here.size))
                for row in cells.starts[cells.owners[chosen]] + np.arange(length)[:, None]:
                    times = multiplicities[row] - (row == chosen)
                    factors = chances[rows[row]]
                    factors[times == 0] = 1.0
                    several = np.flatnonzero(times > 1)
                    factors[several] **= times[several, None]
                    product *= factors
                table[chosen] = product @ density_here
    return table
