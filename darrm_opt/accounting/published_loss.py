"""Published loss: a private upper bound on what a batch of labels reveals, given its votes.

The labels themselves are charged as for any votes; published with them is ln of a smooth upper bound of their Rényi
loss, whose sensitivity is its smoothness β, with Gaussian noise. That is simpler than noise in proportion to a smooth
sensitivity, and needs no condition on the votes. Proof: docs/proofs.md, "An ε that the votes earn".

Source: Nissim, Raskhodnikova, Smith 2007, for smooth bounds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.gaussian import positive_delta
from darrm_opt.accounting.labels.data_dependent import CountRows, UnpublishedLoss
from darrm_opt.accounting.labels.discrete_gaussian_argmax import LatticeNoise
from darrm_opt.accounting.propose_test_release import LEADER_SHARE, TRIED_ORDERS, Reference, VoteBatch
from darrm_opt.accounting.rdp import ORDERS, gaussian_rdp, rdp_epsilon
from darrm_opt.arguments import real_number
from darrm_opt.problem import Privacy
from darrm_opt.randomness import RandomSource, SystemRandomness, discrete_gaussian
from darrm_opt.rounding import ULP

SMOOTHNESS = 0.05  # β: the largest change of the logarithm of a smooth bound between neighbours
STEPS = 16  # integer steps per β: a published logarithm is rounded up to them, so that its noise is drawn exactly
PUBLICATION_SIGMA = 5.0  # noise of a published bound in units of β: the publication itself costs ε = 0.8 at δ = 1e-5
CONFIDENCE = 0.95  # probability that a published bound is at least the true one


@dataclass(frozen=True)
class UnpublishedEpsilon:
    """ε of a batch given its votes: **not for publication**, and not a guarantee.

    It holds for these votes against each neighbour, in this direction only.
    """

    epsilon: float
    delta: float
    order: float  # λ that attains it, unless any votes cost less


def unpublished_epsilon(batch: VoteBatch, counts: CountRows, delta: float) -> UnpublishedEpsilon:
    """Return the least ε of a batch given its votes: **not for publication**."""
    delta = positive_delta(delta)
    divergences = [batch.loss(counts, order).renyi() for order in TRIED_ORDERS]
    epsilon, order = rdp_epsilon(divergences, delta, TRIED_ORDERS)
    return UnpublishedEpsilon(min(epsilon, batch.epsilon(delta)), delta, order)


@dataclass(frozen=True)
class PublishedLoss:
    """An upper bound on the Rényi loss of a batch of votes, made private: it may be published.

    It describes how much these labels reveal about any one voter, compared with *these* votes and in one direction; it
    is not an (ε, δ) guarantee, which the batch has at its data-independent price.
    """

    epsilon: float
    delta: float
    order: float  # λ
    renyi: float  # D_λ of the batch is at most this with the stated confidence [nats]
    confidence: float  # of that bound [probability]
    spent: Privacy  # (ε, δ) of the publication itself


def smooth_loss(loss: UnpublishedLoss, smoothness: float) -> float:
    """Return max over k of e^(−βk)·B_k, B_k the bound with k voters moved: **not for publication**.

    It is at least the bound itself, and its logarithm changes by at most β between neighbours, since B_k of one is at
    most B_(k+1) of the other.
    """
    smoothness = real_number(smoothness, "smoothness", "a finite number above 0", above=0, below=math.inf)
    return _smooth(loss.renyi, loss.voters, smoothness)


def _smooth(renyi: Callable[[int], float], voters: int, smoothness: float) -> float:
    bounds = {moved: renyi(moved) for moved in (0, voters)}
    most = max(math.exp(-smoothness * moved) * bound for moved, bound in bounds.items())
    intervals = [(0, voters)]
    while intervals:
        low, high = intervals.pop()
        # B_k grows with k: those in between cannot exceed this.
        if high - low <= 1 or math.exp(-smoothness * (low + 1)) * bounds[high] * (1 + 8 * ULP) <= most:
            continue
        middle = (low + high) // 2
        bounds[middle] = renyi(middle)
        most = max(most, math.exp(-smoothness * middle) * bounds[middle])
        intervals += [(middle, high), (low, middle)]
    return most * (1 + 16 * ULP)


def publish_loss(
    batch: VoteBatch,
    counts: CountRows,
    delta: float,
    *,
    leader_share: float = LEADER_SHARE,
    sigma: float = PUBLICATION_SIGMA,
    source: RandomSource | None = None,
) -> PublishedLoss:
    """Return a private upper bound on what a batch reveals given its votes; the labels are charged as for any votes.

    Drawn is ln(smooth bound)/β, rounded up to integer `STEPS`, plus discrete Gaussian noise: a mechanism of sensitivity
    `STEPS`. Each call draws anew, and costs ``spent``.

    ``leader_share`` selects λ, without the votes; ``sigma`` is in units of β.
    """
    delta = positive_delta(delta)
    sigma = real_number(sigma, "sigma", "a finite number, at least 1", least=1, below=math.inf)
    # Without the votes: the order is published with the bound.
    order = _order_for(batch, delta, leader_share)
    smooth = max(smooth_loss(batch.loss(counts, order), SMOOTHNESS), sys.float_info.min)  # its logarithm is drawn
    # Integers, as the noise is: rounded up, ln S still changes by at most `STEPS` of them between neighbours.
    steps = math.ceil(STEPS * math.log(smooth) / SMOOTHNESS * (1 + math.copysign(8 * ULP, math.log(smooth))))
    noise = LatticeNoise(STEPS * sigma, 0.0)
    # a quantile of the noise is added: the published bound exceeds the true one with `CONFIDENCE`, not half of the
    # time.
    margin = int(np.argmax(noise.at_least(-np.arange(noise.end)) >= CONFIDENCE))
    noisy = steps + margin + discrete_gaussian(Fraction(STEPS * sigma) ** 2, source or SystemRandomness())
    with np.errstate(over="ignore"):
        published = np.exp(SMOOTHNESS * noisy / STEPS) * (1 + 16 * ULP)
    renyi = float(upper_bound(published, batch.renyi(order)))
    # The bound for any votes is public, and never exceeded.
    epsilon = min(rdp_epsilon([renyi], delta, [order])[0], batch.epsilon(delta))
    spent = Privacy(rdp_epsilon(gaussian_rdp(STEPS * sigma, ORDERS, STEPS), delta)[0], delta)
    return PublishedLoss(epsilon, delta, order, renyi, CONFIDENCE, spent)


def _order_for(batch: VoteBatch, delta: float, leader_share: float) -> float:
    """Return the order at which the reference batch has the least ε."""
    reference = Reference(batch, leader_share)

    def epsilon(order: float) -> float:
        return rdp_epsilon([_smooth(partial(reference.renyi, order), batch.K, SMOOTHNESS)], delta, [order])[0]

    return min(TRIED_ORDERS, key=epsilon)
