"""Largest losses of labels and checks of a noisy vote: what they cost at δ = 0.

With discrete noise a label has a finite ε, since counts of K votes are bounded (`label_loss`). An answer o gains most
where it has no vote, one class has all, and that one's vote goes to o. With y the noisy count of o, p the noise and W
the chance to win at y, that is ln of Σ p(y − 1)W′(y) / Σ p(y)W(y), a mean of ρ(y) = p(y − 1)W′(y)/p(y)W(y) under
weights p·W. For every vote count ρ is at most that of a class with all other votes, which grows with y, and the weights
grow with y at most as fast as those that are summed here: so no vote count shows more than this bound. Other classes
pull the mean up, by the logarithmic growth R of the noise's distribution function, of which the largest chord is taken.
Lebensold, Precup, Balle 2024 find a pure ε of bounded queries; the bound is ours (docs/proofs.md, "What labels cost").
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache

import numpy as np

from darrm_opt.accounting.bounds import is_within
from darrm_opt.accounting.labels.noisy_bit import normal_cdf
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP, up

END = 12  # standard deviations beyond which noise is bounded, not summed: it changes no double
MAX_WORK = 10**8  # maximum number of chords examined for one bound: a second
MAX_SUMMED_SIGMA = 50_000.0  # largest σ for which the noise of a check is summed
MAX_STEPS = 10**6  # maximum number of noise values listed for one bound: σ up to some 20,000; beyond it blocks are used

MIN_WIDE_SIGMA, MAX_WIDE_SIGMA, MAX_WIDE_VOTERS = 1000.0, 1e12, 100
"""Range of σ [votes], and maximum number of voters as a multiple of it, for blocks of noisy counts, of which at most
some 60,000 are summed."""

WIDE_BLOCKS, WIDE_START = 512, 8
"""Blocks per standard deviation, and standard deviations below which weights, of the smallest losses, are omitted."""

WIDE_ERROR = 2.0**-40  # relative error of exp, Φ and of a few operations

MANY_STEPS = 10_000
"""Number of values from which they are summed at once; errors of their exponents are within those of as many steps."""

MIN_EXPONENT = -700.0  # smallest logarithm of a probability that is a normal double
MAX_EXPONENT = 600.0  # largest logarithm of the ratio of two adjacent probabilities: beyond it the loss is useless


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
    least, needed = -(-K // classes), math.ceil(threshold)
    moved = min(affected, K - least)
    start = min(least - needed, needed - 1 - K)  # of the rarer answer: below 0
    if not moved:
        return 0.0
    if math.ceil(END * sigma) - start > MAX_EXPONENT * sigma * sigma:
        return None
    if sigma > MAX_SUMMED_SIGMA or moved > MAX_STEPS:  # bounded by the first step, and G by its integral
        x = start + 1.0
        if x < -END * sigma:
            return None
        below = sigma * math.sqrt(2 * math.pi) * float(normal_cdf(start / sigma))
        return moved * math.log1p(math.exp(-x * x / (2 * sigma * sigma)) / below) * (1 + WIDE_ERROR)
    loss = float(_growths(sigma, start + 1, start + moved).sum())
    steps = math.ceil(END * sigma) + moved
    return up(loss, math.ceil(steps * (8 + 4 * (steps - start) / (sigma * sigma))))


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
