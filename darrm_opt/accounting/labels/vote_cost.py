"""Vote cost: (ε, δ) of a transcript of labels and checks, among any number of classes.

A *label* is argmax over the classes of count + N(0, σ²). A *check* is one bit, "largest count + N(0, σ₁²) ≥ T", for any
T. Counts come from voters that are not private; one record moves ``affected`` of the votes. Labels and checks may
follow each other in any order that depends on what was released before, up to the given numbers, and thresholds T may
too: an abstention is a check that failed. The accounts, from the loosest to the tightest:

- `VoteCost.counts_renyi`: noisy counts by Rényi divergences, as other accountants charge them;
- `VoteCost.counts_gaussian`: noisy counts exactly: one Gaussian mechanism;
- `VoteCost.labels_renyi`: labels and checks by their own Rényi divergences;
- `VoteCost.labels_recursion`: the adaptive recursion over labels and checks, bounded by the Gaussian comparison.

*At δ = 0* a label of discrete noise has a finite ε, since counts of K votes are bounded (`label_loss`). An answer o
gains most where it has no vote, one class has all, and that one's vote goes to o. With y the noisy count of o, p the
noise and W the chance to win at y, that is ln of Σ p(y − 1)W′(y) / Σ p(y)W(y), a mean of ρ(y) = p(y − 1)W′(y)/p(y)W(y)
under weights p·W. For every vote count ρ is at most that of a class with all other votes, which grows with y, and the
weights grow with y at most as fast as those that are summed here: so no vote count shows more than this bound. Other
classes pull the mean up, by the logarithmic growth R of the noise's distribution function, of which the largest chord
is taken. Lebensold, Precup, Balle 2024 find a pure ε of bounded queries; the bound is ours.

All are proved: docs/proofs.md, "What labels cost".
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.gaussian import gaussian_epsilon, positive_delta
from darrm_opt.accounting.labels.composition import EpsilonBound, compared_epsilon, renyi_epsilon
from darrm_opt.accounting.labels.discrete_gaussian_argmax import (
    lattice_bit_divergence,
    lattice_counts,
    lattice_label_divergence,
    narrow_lattice_counts,
)
from darrm_opt.accounting.labels.gaussian_argmax import label_divergence
from darrm_opt.accounting.labels.noisy_bit import bit_divergence, normal_cdf
from darrm_opt.accounting.labels.power_divergence import PowerDivergence, gaussian_counts
from darrm_opt.accounting.rdp import ORDERS, rdp_epsilon
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP, down, up

MIN_DISCRETE_SIGMA = 1.0
"""Smallest σ [votes] of discrete noise with an account of labels: below it, noise is no longer close to a Gaussian."""

MIN_SIGMA, MAX_SIGMA = 1e-50, 1e150
"""Smallest and largest σ [votes]: beyond them, its powers underflow or overflow."""

Kind = Literal["label", "check"]

Noise = Literal["gaussian", "discrete"]


@dataclass(frozen=True)
class VoteReleases:
    """A number of releases of one kind with the same noise.

    Args:
        kind: "label" or "check".
        sigma: standard deviation of the Gaussian noise on each count, or on the largest one, `MIN_SIGMA` to `MAX_SIGMA`
            [votes].
        count: maximum number of releases, ≥ 0.
        noise: "gaussian": N(0, σ²), as published; "discrete": the discrete Gaussian of parameter σ on the integers, as
            drawn by `darrm_opt.mechanisms.vote_noise`, ties broken at random or in a fixed order.

    Raises:
        InvalidInput: a value is out of range.
    """

    kind: Kind
    sigma: float
    count: int
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        if self.kind not in ("label", "check"):
            raise InvalidInput("kind", self.kind, "'label' or 'check'")
        if self.noise not in ("gaussian", "discrete"):
            raise InvalidInput("noise", self.noise, "'gaussian' or 'discrete'")
        sigma = real_number(self.sigma, "sigma", _SIGMA, least=MIN_SIGMA, most=MAX_SIGMA)
        object.__setattr__(self, "sigma", sigma)
        whole_number(self.count, "count", "a whole number of releases, at least 0", least=0)

    def shift(self, affected: int = 1) -> float:
        """Return μ of the noisy counts, rounded up: r votes move two counts by r each, the largest one by at most r."""
        return up((math.sqrt(2) if self.kind == "label" else 1.0) * affected / self.sigma, 4)

    def divergence(self, classes: int | None = None, affected: int = 1) -> PowerDivergence:
        """Return a bound on the power divergence of one of them.

        Args:
            classes: number of classes ≥ 2; None if unknown, which costs at most 1 % more than two.
            affected: votes r ≥ 1 that one record can move. For r > 1 and more than two classes a label is charged as
                its noisy counts.
        """
        if self.noise == "discrete":
            if self.sigma < MIN_DISCRETE_SIGMA:
                return narrow_lattice_counts(self.shift(affected))
            if self.kind == "check":
                return lattice_bit_divergence(self.sigma, affected, (0.0,))
            if classes == 2:  # the difference of two counts: even or odd, in steps of two
                return lattice_bit_divergence(self.sigma / math.sqrt(2), affected, (0.0, 0.5))
            return lattice_label_divergence(self.sigma) if affected == 1 else lattice_counts(self.shift(affected))
        if self.kind == "check" or classes == 2:
            return bit_divergence(self.shift(affected))
        return label_divergence(self.sigma) if affected == 1 else gaussian_counts(self.shift(affected))


_SIGMA = f"a standard deviation, a number of votes from {MIN_SIGMA:g} to {MAX_SIGMA:g}"


@dataclass(frozen=True)
class VoteCost:
    """Cost of a transcript of labels and checks at one δ, by each account; every ε is a guarantee, rounded up [nats].

    Attributes:
        delta: δ of the whole transcript [probability].
        counts_renyi: noisy counts by Rényi divergences, tight conversion.
        counts_gaussian: noisy counts as one Gaussian mechanism, exactly; inf if a noise is discrete.
        labels_renyi: labels and checks by Rényi divergences, tight conversion.
        labels_recursion: labels and checks by the adaptive recursion, bounded from above.
    """

    delta: float
    counts_renyi: float
    counts_gaussian: float
    labels_renyi: float
    labels_recursion: EpsilonBound

    @property
    def epsilon(self) -> float:
        """The least ε of all accounts [nats]."""
        return min(self.counts_renyi, self.counts_gaussian, self.labels_renyi, self.labels_recursion.epsilon)


def vote_cost(
    releases: Sequence[VoteReleases],
    delta: float,
    *,
    classes: int | None = None,
    affected: int = 1,
    weight: float = 1.0,
) -> VoteCost:
    """Return the cost of labels and checks of a noisy vote together.

    Args:
        releases: maximum number of releases of each kind and noise, made in any order.
        delta: δ of all together [probability], in (0, 1).
        classes: number of classes, ≥ 2; None for any number.
        affected: votes r ≥ 1 that one record can move from their classes to others.
        weight: weight of each of these votes, > 0 [votes], for voters with different weights, whose records have
            different ε. The noise must then be continuous.

    Returns:
        ε at ``delta`` by each account.

    Guarantees:
        Each ε is sound for every adaptive order of the releases, any counts and thresholds, for voters that are not
        private and neighbours of which one record moves at most r votes.

    Raises:
        InvalidInput: a value is out of range.

    Source: docs/proofs.md, "What labels cost".

    >>> cost = vote_cost([VoteReleases("check", 150, 640), VoteReleases("label", 40, 286)], 1e-5)
    >>> round(cost.counts_renyi, 2), round(cost.labels_renyi, 2), round(cost.labels_recursion.epsilon, 2)
    (2.76, 2.15, 2.01)
    """
    delta = positive_delta(delta)
    if classes is not None:
        whole_number(classes, "classes", "a number of classes, at least 2", least=2)
    whole_number(affected, "affected", "a number of votes, at least 1")
    weight = real_number(weight, "weight", "a number of votes above 0", above=0, below=math.inf)
    transcript = [release for release in releases if release.count]
    if weight != 1.0:  # in units of the moved votes, the noise is σ/w and the other counts are real numbers
        if any(release.noise == "discrete" for release in transcript):
            raise InvalidInput("weight", weight, "1 for discrete noise")
        transcript = [replace(release, sigma=down(release.sigma / weight, 2)) for release in transcript]
    if not transcript:
        return VoteCost(delta, 0.0, 0.0, 0.0, EpsilonBound(0.0, "nothing is released"))
    variance = sum(release.count * release.shift(affected) ** 2 for release in transcript) * (
        1 + 8 * len(transcript) * ULP
    )
    # The output is a function of noisy counts, so their account always holds.
    counts_renyi = rdp_epsilon(ORDERS * (variance / 2) * (1 + 8 * ULP), delta)[0]
    continuous = all(release.noise == "gaussian" for release in transcript)
    counts_gaussian = gaussian_epsilon(up(math.sqrt(variance), 2), delta) if continuous else math.inf
    parts = [(release.divergence(classes, affected), release.count) for release in transcript]
    labels_renyi = min(counts_renyi, renyi_epsilon(parts, delta).epsilon)
    accounts = [
        compared_epsilon(parts, delta),
        EpsilonBound(counts_gaussian, "noisy counts, one Gaussian mechanism"),
        EpsilonBound(labels_renyi, "Rényi divergences of what is released"),
    ]
    least = min(accounts, key=lambda account: account.epsilon)
    return VoteCost(delta, counts_renyi, counts_gaussian, labels_renyi, least)


END = 12
"""Standard deviations beyond which noise is bounded, not summed: it changes no double."""

MAX_WORK = 10**8
"""Maximum number of chords examined for one bound: a second."""

FAR, MAX_SUMMED_SIGMA = 20, 50_000.0
"""Standard deviations beyond which a check's losses are bounded by those there; largest σ for which noise is summed."""

MAX_STEPS = 10**6
"""Maximum number of noise values listed for one bound: σ up to some 20,000; beyond it blocks are used."""

MIN_WIDE_SIGMA, MAX_WIDE_SIGMA, MAX_WIDE_VOTERS = 1000.0, 1e12, 100
"""Range of σ [votes], and maximum number of voters as a multiple of it, for blocks of noisy counts, of which at most
some 60,000 are summed."""

WIDE_BLOCKS, WIDE_START = 512, 8
"""Blocks per standard deviation, and standard deviations below which weights, of the smallest losses, are omitted."""

WIDE_ERROR = 2.0**-40
"""Relative error of exp, Φ and of a few operations."""

MANY_STEPS = 10_000
"""Number of values from which they are summed at once; errors of their exponents are within those of as many steps."""

MIN_EXPONENT = -700.0
"""Smallest logarithm of a probability that is a normal double."""

MAX_EXPONENT = 600.0
"""Largest logarithm of the ratio of two adjacent probabilities: beyond it the loss is useless."""


@lru_cache(maxsize=64)
def label_loss(sigma: float, K: int, classes: int, affected: int) -> float | None:
    """Return a bound on the loss of a label whose record moves up to ``affected`` votes [nats].

    None if it is useless, or would take too long. Ties are broken at random.
    """
    wide = _wide_loss(sigma, K, classes, affected)
    end = math.ceil(END * sigma) + 2
    steps = K + 4 * end
    if steps > MAX_STEPS or affected * K * (K + 2 * end) > MAX_WORK or steps > MAX_EXPONENT * sigma * sigma:
        return wide
    growths = _growths(sigma, -K - 2 * end, K + end + 2)
    # The moved votes go to o one after another; ``own`` of them have moved before.
    total = sum(_step(sigma, K - own, classes, own, growths, end) for own in range(affected))
    if not is_within(total, sys.float_info.max):
        return wide
    return up(total, affected) if wide is None else min(wide, up(total, affected))


@lru_cache(maxsize=64)
def check_loss(sigma: float, threshold: float, K: int, classes: int, affected: int) -> float | None:
    """Return a bound on the loss of the check "largest count + noise ≥ threshold" [nats]; None if it is useless.

    ln G is concave, so the loss of an answer is largest where it is least probable: ⊥ at K votes, a class at the
    smallest largest count.
    """
    least, needed, most = -(-K // classes), math.ceil(threshold), math.ceil(FAR * sigma)
    moved = min(affected, K - least)
    starts = [min(start, most) for start in (least - needed, needed - 1 - K)]  # beyond it losses are smaller
    if not moved:
        return 0.0
    if math.ceil(END * sigma) - min(starts) > MAX_EXPONENT * sigma * sigma:
        return None
    if sigma > MAX_SUMMED_SIGMA or moved > MAX_STEPS:  # bounded by the first step, and G by its integral
        x = np.array(starts) + 1.0
        if x.min() < -END * sigma:
            return None
        below = sigma * math.sqrt(2 * math.pi) * normal_cdf((x - 1) / sigma) - (x > 1)
        growths = np.log1p(np.exp(-x * x / (2 * sigma * sigma)) / below)
        return float(moved * growths.max() * (1 + WIDE_ERROR))
    loss = max(float(_growths(sigma, start + 1, start + moved).sum()) for start in starts)
    steps = math.ceil(END * sigma) + moved
    return up(loss, math.ceil(steps * (8 + 4 * (steps - min(starts)) / (sigma * sigma))))


def _wide_loss(sigma: float, K: int, classes: int, affected: int) -> float | None:
    """Return the bound of `label_loss` for a large σ, by blocks of noisy counts; None if σ is out of range."""
    if not (MIN_WIDE_SIGMA <= sigma <= MAX_WIDE_SIGMA and MAX_WIDE_VOTERS * sigma >= K):
        return None
    many = math.ceil(sigma / WIDE_BLOCKS)
    x = many * np.arange(-math.ceil(WIDE_START * sigma / many), math.ceil((K + END * sigma) / many) + 2.0)
    t = x / sigma
    p, below = np.exp(-t * t / 2), sigma * math.sqrt(2 * math.pi) * normal_cdf(t) - (x > 0)  # p, and less than G
    below *= 1 - WIDE_ERROR
    growths = (classes - 1) * np.log1p(many * np.maximum(p[:-1], p[1:]) / below[:-1] * (1 + WIDE_ERROR))
    falls = many * (2 * x[:-1] + (many + 2 - 2 * K)) / (2 * sigma * sigma)
    logs = np.cumsum(growths - falls)  # of the weights of blocks, the second one first
    # At the far end of each block, where ρ is largest.
    losses = ((x[1:] + K) / (sigma * sigma) - np.log1p(-p[1:] / below[1:] * (1 + WIDE_ERROR)))[1:]
    terms = logs[:-1] + np.log(np.expm1(losses))
    beyond = terms[-1] - math.log(-math.expm1(-(END - 1) * many / sigma))  # each block adds less by that factor
    rounding = WIDE_ERROR + 4 * x.size * ULP * float(np.abs(growths).sum() + np.abs(falls).sum())
    mean = np.logaddexp(np.logaddexp.reduce(terms), beyond) - np.logaddexp.reduce(logs[:-1]) + 2 * rounding
    loss = up(affected * math.exp(mean), 4)
    return loss if is_within(loss, sys.float_info.max) else None


def _growths(sigma: float, low: int, high: int) -> Array:
    """Return R(x) = ln G(x) − ln G(x − 1) for x from ``low`` to ``high``, G the distribution function of the noise."""
    start = low - math.ceil(END * sigma)  # lower values change no double from ``low`` on
    x = np.arange(start, high + 1, dtype=np.float64)
    exponents = -x * x / (2 * sigma * sigma)
    # At once if no probability is subnormal: a sum of n positive numbers errs by n ulps, as the recursion does.
    if x.size > MANY_STEPS and exponents.min() > MIN_EXPONENT:
        chances = np.exp(exponents)
        return np.asarray(np.log1p(chances[low - start :] / np.cumsum(chances)[low - start - 1 : -1]))
    ratios = np.exp((2 * x[1:] - 1) / (2 * sigma * sigma)).tolist()  # p(x − 1)/p(x)
    below, odds = 1.0, []  # G(x)/p(x), and G(x − 1)/p(x)
    for ratio in ratios:
        odds.append(below * ratio)
        below = 1 + odds[-1]
    return np.log1p(1 / np.array(odds[low - start - 1 :]))


def _step(sigma: float, left: int, classes: int, own: int, growths: Array, end: int) -> float:
    """Return a bound on the loss if o has ``own`` votes and gains one of the ``left`` others."""
    origin = left + own + 2 * end  # of x = 0 in ``growths``
    y = np.arange(own - end, max(left, own) + end)
    # Each growth errs by some ulps a step, and by those of an exponent; an excess only raises the bound.
    error = growths.size * (8 + 4 * origin / (sigma * sigma)) * ULP
    # With ties broken against o: a larger growth than with random ties.
    here = growths[y - 1 + origin]
    chord = np.zeros(y.size)
    for votes in range(1, left + 1):
        there = growths[y - 1 - votes + origin]
        chord = np.maximum(chord, (there * (1 + error) - here * (1 - error)) / votes)
    pulls = ((classes - 1) * here + left * chord) * (1 + error)
    slopes = (2 * (y - own) - 1) / (2 * sigma * sigma)  # ln p(y − own − 1)/p(y − own)
    logs = np.cumsum(pulls - slopes)  # of the weights, up to a constant
    # ρ, with ties at random: (G(z + 1) + G(z))/(G(z) + G(z − 1)) for the class with all other votes.
    z = y - left + origin
    losses = slopes + (np.logaddexp(0.0, growths[z + 1]) - np.logaddexp(0.0, -growths[z]))
    losses += error * (growths[z + 1] + growths[z]) + 8 * ULP * (1 + np.abs(slopes))
    mean = np.logaddexp.reduce(logs + losses) - np.logaddexp.reduce(logs)
    # Later terms decrease at least by e^(−END/σ) a step, so together they are at most σ times the first.
    beyond = math.exp(min(0.0, logs[-1] + losses[-1] + math.log(2 + sigma) - np.logaddexp.reduce(logs + losses)))
    rounding = 2 * (y.size + 8) * ULP * (float(np.abs(pulls).sum() + np.abs(slopes).max() * y.size) + 1)
    return float(mean) + beyond + rounding
