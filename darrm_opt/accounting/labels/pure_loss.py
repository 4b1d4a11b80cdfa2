"""Pure loss: the ε of one label of discrete Gaussian noise at δ = 0, finite since counts of K votes are bounded.

An answer o gains most where it has no vote, one class has all, and that one's vote goes to o. With y the noisy count of
o, p the noise and W the chance to win at y, that is ln of Σ p(y − 1)W′(y) / Σ p(y)W(y), a mean of
ρ(y) = p(y − 1)W′(y)/p(y)W(y) under weights p·W. For every vote count ρ is at most that of a class with all other votes,
which grows with y, and the weights grow with y at most as fast as those that are summed here: so no vote count shows
more than this bound. Other classes pull the mean up, by the logarithmic growth R of the noise's distribution function,
of which the largest chord is taken. Proof: docs/proofs.md, "What labels cost".

Source: Lebensold, Precup, Balle 2024 find a pure ε of bounded queries; the bound is ours.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from darrm_opt.noise import Array
from darrm_opt.rounding import ULP, up

END = 12
"""Standard deviations beyond which noise is bounded and not summed: it changes no double."""

MAX_WORK = 10**8
"""Chords that are looked at for one bound, a second."""

MAX_EXPONENT = 600.0
"""Largest logarithm of the ratio of two chances side by side: beyond, the loss is of no use."""


@lru_cache(maxsize=64)
def label_loss(sigma: float, K: int, classes: int, affected: int) -> float | None:
    """Return a bound on the loss of a label whose record moves up to ``affected`` votes [nats].

    None where it is of no use, or takes too long. Ties are broken at random.
    """
    end = math.ceil(END * sigma) + 2
    if affected * K * (K + 2 * end) > MAX_WORK or K + 4 * end > MAX_EXPONENT * sigma * sigma:
        return None
    growths = _growths(sigma, -K - 2 * end, K + end + 2)
    # The votes that are moved go to o one after the other: it has had ``own`` of them before.
    total = sum(_step(sigma, K - own, classes, own, growths, end) for own in range(affected))
    return up(total, affected)


def _growths(sigma: float, low: int, high: int) -> Array:
    """Return R(x) = ln G(x) − ln G(x − 1) for x from ``low`` to ``high``, G the distribution function of the noise."""
    start = low - math.ceil(END * sigma)  # what lies below changes no double from ``low`` on
    x = np.arange(start + 1, high + 1, dtype=np.float64)
    ratios = np.exp((2 * x - 1) / (2 * sigma * sigma)).tolist()  # p(x − 1)/p(x)
    below, odds = 1.0, []  # G(x)/p(x), and G(x − 1)/p(x)
    for ratio in ratios:
        odds.append(below * ratio)
        below = 1 + odds[-1]
    return np.log1p(1 / np.array(odds[low - start - 1 :]))


def _step(sigma: float, left: int, classes: int, own: int, growths: Array, end: int) -> float:
    """Return a bound on the loss where o has ``own`` votes and gains one of the ``left`` others."""
    origin = left + own + 2 * end  # of x = 0 in ``growths``
    y = np.arange(own - end, max(left, own) + end)
    # Each growth errs by some ulps a step, and by those of an exponent; more of it only raises the bound.
    error = growths.size * (8 + 4 * origin / (sigma * sigma)) * ULP
    # Where ties go against o: a larger growth than where they are broken at random.
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
    # What lies beyond falls at least by e^(−END/σ) a step, so all of it is at most σ times its first term.
    beyond = math.exp(min(0.0, logs[-1] + losses[-1] + math.log(2 + sigma) - np.logaddexp.reduce(logs + losses)))
    rounding = 2 * (y.size + 8) * ULP * (float(np.abs(pulls).sum() + np.abs(slopes).max() * y.size) + 1)
    return float(mean) + beyond + rounding
