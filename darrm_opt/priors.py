"""Priors: the distribution of the number of ones among K votes, and of the answer that leads.

With voter i answering 1 with probability p_i, let α_l = Pr[L = l], L ~ PoissonBinomial(p). For l = ⌊K/2⌋+1..K, both
error measures and the objective's weights are built from two masses:

    folded(l) = α_l + α_{K−l}      a vote with margin 2l − K, whoever won
    gap(l)    = |α_l − α_{K−l}|    how much more often one side wins with it than the other

A *prior* says how p itself is drawn and gives the expectation of both. A tie has no entry: it is released as a fair
coin, whatever γ is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, check_unmasked

MIN_SHAPE, MAX_SHAPE = 1e-3, 1e4
"""Range of the parameters of a Beta prior: below it p is 0 or 1, above it p is a known number; within it the quadrature
of `SharedBeta.gap` is tested to a relative 1e-12."""

PANEL_NODES = 16  # Gauss–Legendre nodes in a panel of about two standard deviations: exact to rounding for a bell curve

MAX_POINTS = 10**12
"""Maximum number of points of a grid: its mean equals the interval's to 1e-12, and a larger number would not be written
in full in an objective's text."""

TAIL = 45.0  # where a tail e^{−TAIL} is cut: at 3e-20 of the whole
BLOCK_CELLS = 1_000_000  # cells of one block of work: 8 MB, which fits in the processor's cache


@runtime_checkable
class Prior(Protocol):
    """How the voters' probabilities are drawn."""

    def folded(self, K: int) -> Array:
        """Return E[α_l + α_{K−l}] for l = ⌊K/2⌋+1..K."""

    def gap(self, K: int) -> Array:
        """Return E|α_l − α_{K−l}| for l = ⌊K/2⌋+1..K, where the sign is the same for all l."""


@dataclass(frozen=True)
class IndependentVoters:
    """Each p_i is independent and uniform on [lower, 1), or on a grid of ``tau`` equal steps of it.

    α_l is affine in each p_i, so its expectation is Binomial(K, p̄) with p̄ the mean of one p_i: (1 + a)/2, or
    a + (1−a)(τ−1)/(2τ) on the grid. No sampling is needed.

    Source: Algorithms 4 and 5 of the paper, in closed form.
    """

    lower: float = 0.5  # a [probability], in [0, 1)
    # grid points a + (1−a)·i/τ, i = 0..τ−1, at most `MAX_POINTS`; None for the continuous interval
    tau: int | None = None

    def __post_init__(self) -> None:
        lower = real_number(self.lower, "lower", _LOWER, least=0, below=1)
        object.__setattr__(self, "lower", lower + 0.0)
        if self.tau is not None:
            tau = whole_number(self.tau, "tau", "a whole number of grid points, at least 1")
            if tau > MAX_POINTS:
                raise InvalidInput("tau", tau, f"at most {MAX_POINTS} grid points", "`uniform` is what they tend to.")
            object.__setattr__(self, "tau", tau)

    def _mean(self) -> tuple[int, int]:
        """Return p̄, exact for ``lower`` as stored: numerator and denominator."""
        numerator, denominator = self.lower.as_integer_ratio()
        part, parts = (1, 2) if self.tau is None else (self.tau - 1, 2 * self.tau)
        return numerator * parts + (denominator - numerator) * part, denominator * parts

    def folded(self, K: int) -> Array:
        """Return E[α_l + α_{K−l}], shape (⌈K/2⌉,)."""
        return binomial_masses(K, *self._mean())[0]

    def gap(self, K: int) -> Array:
        """Return E|α_l − α_{K−l}|, shape (⌈K/2⌉,); every p_i must be ≥ 1/2, so that 1 leads at each l."""
        if self.lower < 0.5:
            raise InvalidInput(
                "lower",
                self.lower,
                "lower in [0.5, 1) for the measure tv",
                "Below 1/2 either answer may lead and the absolute value has no closed form: name the measure "
                f"agreement, 'uniform(lower={self.lower:g}) agreement', or average the tv error over drawn vectors p.",
            )
        return binomial_masses(K, *self._mean())[1]


@dataclass(frozen=True)
class SharedBeta:
    """All voters share one p ~ Beta(a, b): they agree on easy inputs. L is beta-binomial."""

    a: float  # first shape parameter, `MIN_SHAPE` to `MAX_SHAPE`
    b: float  # second shape parameter, in the same range

    def __post_init__(self) -> None:
        accepted = f"a number from {MIN_SHAPE:g} to {MAX_SHAPE:g}"
        for argument in ("a", "b"):
            value = getattr(self, argument)
            number = real_number(value, argument, accepted, least=MIN_SHAPE, most=MAX_SHAPE)
            object.__setattr__(self, argument, number)

    def folded(self, K: int) -> Array:
        """Return E[α_l + α_{K−l}], shape (⌈K/2⌉,)."""
        l = np.arange(float(K))
        alpha = _from_ratios((K - l) * (l + self.a), (l + 1.0) * (K - l - 1 + self.b))
        return upper_half(alpha) + upper_half(alpha[::-1])

    def gap(self, K: int) -> Array:
        """Return E|α_l − α_{K−l}|, shape (⌈K/2⌉,).

        At one p, |α_l − α_{K−l}| = tanh(d·t/2)·(α_l + α_{K−l}) with d = 2l − K and t = |ln(p/(1−p))|. So the gap is the
        folded mass times the mean of tanh(d·t/2) under the density of t given the margin d,
        ∝ e^{−(K−l)t}(1 + e^{−dt})(e^{−at} + e^{−bt})/(1 + e^{−t})^{K+a+b}: a quadrature of positive terms only, where
        the textbook difference of incomplete beta functions cancels.
        """
        t, log_weight = _half_line(K + self.a + self.b, min(self.a, self.b))
        log_weight += np.logaddexp(-self.a * t, -self.b * t) - (K + self.a + self.b) * np.log1p(np.exp(-t))
        l = np.arange(K // 2 + 1, K + 1)
        share = np.empty(l.size)
        rows = max(1, BLOCK_CELLS // t.size)
        for start in range(0, l.size, rows):
            block = l[start : start + rows, None]
            log_density = log_weight - (K - block) * t + np.log1p(np.exp(-(2 * block - K) * t))
            density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
            share[start : start + rows] = (density * np.tanh((block - K / 2) * t)).sum(axis=1) / density.sum(axis=1)
        return self.folded(K) * share


@dataclass(frozen=True)
class Histogram:
    """Distribution of L from counts of public or historical votes with 0..K ones."""

    counts: tuple[float, ...]  # K+1 finite numbers ≥ 0, not all 0

    def __post_init__(self) -> None:
        accepted = "K+1 finite counts of votes with 0, 1, …, K ones, each at least 0"
        values: Any = self.counts
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InvalidInput("counts", values, accepted)
        counts = tuple(real_number(count, "counts", accepted) + 0.0 for count in values)
        if len(counts) < 2 or min(counts) < 0 or not sum(counts) < math.inf:
            raise InvalidInput("counts", self.counts, accepted)
        if not any(count for l, count in enumerate(counts) if 2 * l != len(counts) - 1):
            raise InvalidInput("counts", self.counts, accepted, "No vote has a majority, so all weights are 0.")
        object.__setattr__(self, "counts", counts)

    def alpha(self, K: int) -> Array:
        """Return Pr[L = l], shape (K+1,)."""
        if len(self.counts) != K + 1:
            raise InvalidInput("counts", self.counts, f"K+1 = {K + 1} counts", f"Received {len(self.counts)}.")
        counts = np.array(self.counts)
        return np.asarray(counts / counts.sum())

    def folded(self, K: int) -> Array:
        """Return α_l + α_{K−l}, shape (⌈K/2⌉,)."""
        alpha = self.alpha(K)
        return upper_half(alpha) + upper_half(alpha[::-1])

    def gap(self, K: int) -> Array:
        """Return |α_l − α_{K−l}|, shape (⌈K/2⌉,)."""
        alpha = self.alpha(K)
        return np.abs(upper_half(alpha) - upper_half(alpha[::-1]))


def upper_half(alpha: Array) -> Array:
    """Return the entries l = ⌊K/2⌋+1..K of the last axis of length K+1."""
    return alpha[..., (alpha.shape[-1] - 1) // 2 + 1 :]


def poisson_binomial(p: Array) -> Array:
    """Return the distributions of the number of ones among independent votes, shape (P, K+1).

    Convex combinations only, so the absolute error of an entry is below K ulps of its neighbourhood.
    """
    rows, K = p.shape
    alpha = np.zeros((rows, K + 1))
    step = max(1, BLOCK_CELLS // (K + 1))
    for start in range(0, rows, step):
        block, votes = alpha[start : start + step], p[start : start + step]
        block[:, 0] = 1.0
        for i in range(K):
            chance = votes[:, i : i + 1]
            mass_of_ones = block[:, : i + 1] * chance
            block[:, : i + 1] *= 1.0 - chance
            block[:, 1 : i + 2] += mass_of_ones
    return alpha


def binomial_masses(K: int, part: int, whole: int) -> tuple[Array, Array]:
    """Return (α_l + α_{K−l}, |α_l − α_{K−l}|) for Binomial(K, p), p = part/whole, each of shape (⌈K/2⌉,).

    Relative error below 1e-12 for K ≤ 5001 down to 1e-290: α_l ∓ α_{K−l} = α_l(1 ∓ (q/p)^{2l−K}) with p ≥ q, and the
    difference from the logarithm of q/p, so that nothing cancels.
    """
    part = max(part, whole - part)  # both masses are the same for p and 1 − p
    p, q, lean = part / whole, (whole - part) / whole, (2 * part - whole) / whole  # each rounded once
    if part == whole:
        alpha = np.zeros(K + 1)
        alpha[K] = 1.0
        return upper_half(alpha), upper_half(alpha)
    log_odds = 2 * math.atanh(lean) if lean < 0.5 else math.log(p) - math.log(q)
    l = np.arange(float(K))
    upper = upper_half(_from_ratios((K - l) * p, (l + 1) * q))
    exponent = -(2.0 * np.arange(K // 2 + 1, K + 1) - K) * log_odds
    return upper * (1.0 + np.exp(exponent)), upper * -np.expm1(exponent)


def _from_ratios(numerator: Array, denominator: Array) -> Array:
    """Return the distribution on 0..K with α_{l+1}/α_l = numerator_l/denominator_l, all above 0."""
    # Multiplied up and down from the largest entry: no overflow, and a few ulps of relative error per step, where
    # logarithms of factorials would lose four digits at K = 5001.
    heights = np.concatenate(([0.0], np.cumsum(np.log(numerator) - np.log(denominator))))
    top = int(np.argmax(heights))
    below = np.cumprod((denominator[:top] / numerator[:top])[::-1])[::-1]
    above = np.cumprod(numerator[top:] / denominator[top:])
    alpha = np.concatenate((below, [1.0], above))
    return np.asarray(alpha / alpha.sum())


def _half_line(n: float, slowest: float) -> tuple[Array, Array]:
    """Return nodes t > 0 and log-weights of a composite Gauss–Legendre rule for `SharedBeta.gap`."""
    # At a given margin, t concentrates within 2cosh(t/2)/√n (the logit of a Beta variable) where that is below 1; past
    # t = ln n only tails e^{−ct}, c ≥ ``slowest``, remain, and panels may grow.
    edges = [0.0]
    smooth = math.log(n) + 4.0
    end = smooth + TAIL / slowest
    while edges[-1] < end:
        t = edges[-1]
        edges.append(t + (min(2 * math.cosh(t / 2) / math.sqrt(n), 1.0) if t < smooth else (t - smooth) / 4 + 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(PANEL_NODES)
    left, width = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (left + width * (nodes + 1) / 2).ravel(), np.log(width * weights / 2).ravel()


_LOWER = "a probability in [0, 1)"


def vote_histogram(blocks: Iterable[Any]) -> Histogram:
    """Return the histogram of matrices of votes; it is as private as the votes, so it must not be released.

    >>> vote_histogram([[[1, 1, 0], [0, 0, 0]], [[1, 1, 1], [0, 1, 1]]]).counts
    (1.0, 0.0, 2.0, 1.0)
    """
    accepted = "matrices of 0 and 1 with equal widths, one row per query and one column per voter"
    counts: np.ndarray[Any, np.dtype[np.int64]] | None = None
    for block in blocks:
        check_unmasked(block, "votes")
        array = np.asarray(block)
        if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "biuf":
            raise InvalidInput("votes", array.shape, accepted, "This is the shape of one of them.")
        if counts is not None and array.shape[1] != counts.size - 1:
            raise InvalidInput("votes", array.shape, accepted, f"Another has {counts.size - 1} columns.")
        if not np.isin(array, (0, 1)).all():
            raise InvalidInput("votes", float(array[~np.isin(array, (0, 1))][0]), accepted)
        block_counts = np.bincount(array.sum(axis=1).astype(np.int64), minlength=array.shape[1] + 1)
        counts = block_counts if counts is None else counts + block_counts
    if counts is None:
        raise InvalidInput("votes", None, accepted)
    return Histogram(tuple(float(count) for count in counts))
