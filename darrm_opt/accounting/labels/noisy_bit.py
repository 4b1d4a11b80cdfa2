"""One noisy bit: "z + N(0, 1) ≥ 0", for any z that a record moves by at most μ.

It is the label of two classes (μ = √2·r/σ) and the check of Confident-GNMax (μ = r/σ₁): the pairs are (Φ(u), Φ(u − μ)),
u real, and their complements. The largest power divergence over u is bounded on a grid, by a lower bound on the second
derivative between points, and in the tails by a Gaussian mechanism that shows its value only beyond a threshold.
Proofs: docs/proofs.md, "What labels cost".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.gaussian import ERFCX_ULPS
from darrm_opt.accounting.labels.power_divergence import (
    PowerDivergence,
    gaussian_counts,
    gaussian_divergence,
    largest_loss_term,
    loss_gradients,
)
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.rounding import ULP

MAX_SCALED_ORDER = 3.0
"""Largest (a − ½)·μ at which the bound is computed; beyond it a release is charged as its noisy counts."""

SCALED_ORDERS: Array = np.linspace(0, MAX_SCALED_ORDER, 31)
"""(a − ½)·μ of the computed orders; chords of ln H between them lose less than 1e-3."""
SCALED_ORDERS.setflags(write=False)

MIN_DISTANCE_FROM_ONE = 1e-3
"""Distance from 1 within which orders are not computed, as formulas divide by a − 1; chords are used instead."""

MIN_SHIFT, MAX_SHIFT = 1e-6, 3.0
"""Range of μ with a computed bound; elsewhere rounding is not negligible, and a bit is charged as its noisy counts."""

GRID_STEP = 0.01  # spacing of grid points in u, whose bound exceeds the maximum by about a relative 1e-4
LONG_INTERVAL = 8  # number of grid steps of the intervals examined first
GRID_END = MAX_SCALED_ORDER + 6  # largest |u| on the grid; beyond it there is a bound in closed form

GRID: Array = np.arange(-GRID_END, GRID_END + 2 * GRID_STEP, GRID_STEP)
"""Grid points in u, hardly less than a step apart, so one more reaches beyond `GRID_END`."""
GRID.setflags(write=False)

TAIL_ERROR = ERFCX_ULPS * ULP  # relative error of a value of Φ


def normal_cdf(z: NDArray[np.floating[Any]] | float) -> Array:
    """Return Φ(z), to `TAIL_ERROR`."""
    with needed_by("Gaussian noise on counts"):
        from scipy.special import ndtr

    return np.asarray(ndtr(z))


def normal_density(x: Array | IntArray, scale: float = 1.0) -> Array:
    """Return the density of N(0, scale²)."""
    return np.asarray(np.exp(-(x * x) / (2 * scale * scale)) / (scale * math.sqrt(2 * math.pi)))


def scaled_orders(mu: float) -> Array:
    """Return the orders a = ½ + Λ/μ, Λ in `SCALED_ORDERS`, without those close to 1."""
    orders = 0.5 + SCALED_ORDERS / mu
    return np.asarray(orders[np.abs(orders - 1) >= MIN_DISTANCE_FROM_ONE])


@lru_cache(maxsize=64)
def bit_divergence(mu: float) -> PowerDivergence:
    """Return a bound on H_a of a noisy bit with shift μ > 0, for every z and both orders of the neighbours."""
    if not MIN_SHIFT <= mu <= MAX_SHIFT:
        return gaussian_counts(mu)
    orders = scaled_orders(mu)
    return PowerDivergence(orders, bit_values(mu, orders), mu, "noisy bit: grid with a bound on second derivatives")


def bit_values(mu: float, orders: Array) -> Array:
    """Return upper bounds on sup over u of H_a(Φ(u), Φ(u − μ)) at each order, shape (n,)."""
    p = np.stack([normal_cdf(GRID), normal_cdf(-GRID)], axis=1)
    q = np.stack([normal_cdf(GRID - mu), normal_cdf(mu - GRID)], axis=1)
    between = values_on_grid(p, q, 2 * TAIL_ERROR, mu, orders)
    tails = np.maximum(*(censored_divergence(-GRID_END, shift, orders) for shift in (mu, -mu)))
    return np.asarray(np.maximum(between, tails) * (1 + 16 * ULP))


def values_on_grid(
    p: Array,
    q: Array,
    error: float,
    mu: float,
    orders: Array,
    *,
    step: float = GRID_STEP,
    slack: float = 0.0,
    charge: float = 0.0,
) -> Array:
    """Return upper bounds on the largest H_a of a bit over all z between points that are ``step`` apart, shape (n,).

    ``p``, ``q``: both answers at each point and on the neighbour, where z is smaller by ``mu``, with relative error
    ``error``. ``slack``: by which a loss may fail to increase with z. ``charge``: for sums instead of integrals.
    """

    def of_intervals(places: Any, step: float) -> tuple[Array, Array]:
        """Return H_a at some of the points, and bounds between them, which are ``step`` apart at most."""
        on_data, on_neighbour = p[places], q[places]
        losses = np.log(on_neighbour / on_data)  # both increase with z
        margin = error + 4 * ULP * (1 + np.abs(losses))
        low, high = losses - margin, losses + margin
        at_points = np.zeros((len(on_data), orders.size), order="F")
        for cell in range(2):
            terms = largest_loss_term(low[:, [cell]], high[:, [cell]], orders)
            at_points += (on_data[:, [cell]] * (1 + error)) * terms
        # Between two points ℓ ranges from its value at the left one to that at the right one.
        rarer = np.maximum(on_data[:-1, 1], on_neighbour[:-1, 1])
        largest_p = np.stack([on_data[1:, 0], rarer], axis=1) * (1 + error + charge)
        norms = mu * math.sqrt(6), math.sqrt(2)
        (bend,) = curvature_bound(low[:-1] - slack, high[1:] + slack, largest_p, orders, norms)
        return at_points, np.maximum(at_points[:-1], at_points[1:]) + step**2 / 8 * (1 + charge) * bend

    # Long intervals first: those below an attained value are not divided.
    ends = np.append(np.arange(0, len(p) - 1, LONG_INTERVAL), len(p) - 1)
    attained, bounds = of_intervals(ends, LONG_INTERVAL * step)
    within = np.flatnonzero(~np.all(bounds < attained.max(axis=0), axis=1))
    return np.asarray(of_intervals(slice(ends[within[0]], ends[within[-1] + 1] + 1), step)[1].max(axis=0))


IntArray = NDArray[np.int64]

Bends = tuple[Array, Array]
"""Second derivatives at one point of each box: ∂²(P_c − Q_c) and ∂²Q_c along one coordinate, shape (n, cells) each."""


def curvature_bound(
    low: Array,
    high: Array,
    largest_p: Array,
    orders: Array,
    norms: tuple[float, float],
    bends: Sequence[Sequence[Bends]] = (),
    error: float = 0.0,
) -> list[Array]:
    """Return a bound on −∂²H_a along each coordinate, at least 0, on several boxes, shape (n, orders).

    ``low``, ``high``: range of the losses; ``norms``: of what moments leave out, for ∂²(P − Q) and for ∂²Q. ``bends``:
    of each coordinate, the second derivatives of each family of laws at a point of the box, to ``error``; none: they
    are taken as 0, with one coordinate.

    Source: docs/proofs.md, "What labels cost", Lemma 2.
    """
    cells, shape = low.shape[1], (low.shape[0], orders.size)
    # Laid out like losses and their gradients, order by order.
    squared_first, squared_sum, largest_sum, uncertain = (np.zeros(shape, order="F") for _ in range(4))
    known = [[np.zeros(shape, order="F") for _ in families] for families in bends]
    with np.errstate(over="ignore", invalid="ignore"):
        for cell in range(cells):
            ends = [loss_gradients(bound[:, cell, np.newaxis], orders) for bound in (low, high)]
            ((falling, wrong), (left, more)), ((fallen, less), (right, rest)) = ends
            wrong, more = np.maximum(wrong, less), np.maximum(more, rest)
            first = np.maximum(np.abs(falling), np.abs(fallen)) + wrong
            both = np.maximum(np.abs(left), np.abs(right)) + more
            weight = largest_p[:, cell, np.newaxis]
            squared_first += weight * first**2
            squared_sum += weight * both**2
            largest_sum = np.maximum(largest_sum, both)
            uncertain += error * (2 * first + both)
            if bends:
                # A + B is within the range of its ends, or up to 0 if the loss may be 0.
                through = (low[:, cell] < 0) & (high[:, cell] > 0)
                upper = np.where(through[:, np.newaxis], 0.0, np.maximum(left, right))
                lower = np.minimum(left, right)
            for totals, families in zip(known, bends, strict=True):
                for n, (difference, second) in enumerate(families):
                    d, e = difference[:, cell, np.newaxis], second[:, cell, np.newaxis]
                    totals[n] -= np.minimum(d * falling, d * fallen) - np.abs(d) * wrong
                    totals[n] -= np.where(e > 0, e * lower, e * upper) - np.abs(e) * more
        second_part = norms[1] * np.minimum(np.sqrt(squared_sum), largest_sum / 2)
        unknown = norms[0] * np.sqrt(squared_first) + second_part + uncertain
        parts = [np.maximum.reduce(totals) + unknown for totals in known] or [unknown]
        return [upper_bound(np.maximum(part, 0.0) * (1 + 64 * ULP)) for part in parts]


def censored_divergence(mean: float, shift: float, orders: Array) -> Array:
    """Return H_a of max(X, 0), X ~ N(mean, 1) against N(mean + shift, 1), rounded up, shape (n,).

    It grows with ``mean`` (a larger mean reveals more), and bounds every function of max(X, 0).

    Source: ∫_0^∞ of the densities to the powers a and 1−a is e^(a(a−1)shift²/2)·Φ(mean + (1−a)·shift).
    """
    with needed_by("Gaussian noise on counts"):
        from scipy.special import log_ndtr, ndtr

    below = float(log_ndtr(-mean - shift) - log_ndtr(-mean))
    error = 2 * TAIL_ERROR * (1 + abs(float(log_ndtr(-mean - shift))))
    terms = largest_loss_term(np.array(below - error), np.array(below + error), orders)
    atom = float(ndtr(-mean)) * (1 + TAIL_ERROR) * terms
    exponent = orders * (orders - 1) * (shift * shift / 2)
    with np.errstate(over="ignore"):
        power = np.exp(exponent) * ndtr(mean + (1 - orders) * shift)
        parts = [power, -orders * float(ndtr(mean)), (orders - 1) * float(ndtr(mean + shift))]
        charge = (4 * TAIL_ERROR + 8 * ULP * np.abs(exponent)) * sum(np.abs(part) for part in parts)
        beyond = (np.sign(orders - 1) * sum(parts) + charge) / np.abs(orders * (orders - 1))
    counts = gaussian_divergence(abs(shift), orders)
    return np.asarray(np.minimum(atom + np.maximum(beyond, 0.0), counts))
