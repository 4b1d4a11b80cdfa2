"""Continuous noise on counts, as published: the laws of noisy maxima as tables over partitions.

What is drawn has noise on whole numbers (`noisy_maximum`); a table of these laws is certified as the doubles it holds.

Source: Dwork, Roth 2014; Papernot and others 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from darrm_opt.mechanisms.vote_noise import gauss_legendre
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.tables.problem import ABSTENTION, Histograms

NODES = 24
"""Gauss–Legendre nodes in a panel: exact to rounding for a bell curve over two standard deviations."""

SMALLEST = 1e-200
"""Below this a distribution function counts as this."""

REACH = 12.0
"""Standard deviations (for Laplace: 3 times as many scales) after which a tail is cut off: below 1e-15."""


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
    with needed_by("Gaussian noise on counts"):
        from scipy.special import ndtr

    if rate == 0:
        return _uniform(cells)

    def density(z: Array) -> Array:
        return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return _largest_count(cells, rate, density, ndtr, REACH)


def checked_table(cells: Histograms, rate: float, threshold: float, check_share: float) -> Array:
    """Return the probabilities of a checked noisy maximum, shape (cells,), of cells with ⊥.

    A class is released only if the largest count + N(0, σ₁²) is at least the threshold: the one with the largest count
    plus N(0, σ₂²), σ₂ = 1/rate.
    """
    with needed_by("Gaussian noise on counts"):
        from scipy.special import ndtr

    passes = ndtr((cells.values[cells.starts] - threshold) * rate * check_share)[cells.owners]
    return np.where(cells.values == ABSTENTION, 1 - passes, gaussian_table(cells, rate) * passes)


def _uniform(cells: Histograms) -> Array:
    return np.where(cells.values == ABSTENTION, 0.0, 1 / cells.classes)


def _largest_count(
    cells: Histograms,
    rate: float,
    density: Callable[[Array], Array],
    below: Callable[[Array], Array],
    reach: float,
) -> Array:
    """Return Pr[class has the largest count plus noise/rate] = ∫ f(z − t·n_c) Π_{j≠c} F(z − t·n_j) dz for each cell.

    Panels end at the counts, where Laplace's density has its edge.
    """
    K = cells.K
    largest = rate * K
    # Neighbouring counts lie `rate` units of noise apart. Laplace's density has its edge at a count, so a panel must
    # end there, or no rule converges fast; and a panel wider than a unit would need more nodes than `NODES`.
    panels = max(1, math.ceil(rate / 1.0))  # at most one unit of noise a panel
    ends = np.concatenate(
        [
            -reach + np.arange(math.ceil(reach)) * (reach / math.ceil(reach)),
            np.arange(K * panels) * (rate / panels),
            largest + np.arange(math.ceil(reach) + 1) * (reach / math.ceil(reach)),
        ]
    )
    # Where counts lie close together their panels are narrow, and a third of the nodes is enough.
    nodes, shares = gauss_legendre(NODES if rate >= 0.2 else 8)
    widths = np.diff(ends)
    z = (ends[:-1, None] + widths[:, None] * nodes).ravel()
    dz = (widths[:, None] * shares).ravel()
    counts = np.arange(K + 1)
    # All cells with the same count share the same two functions of z: K + 1 rows serve every partition.
    f = density(z[None, :] - rate * counts[:, None])  # by count: shape (K + 1, nodes)
    F = below(z[None, :] - rate * counts[:, None])
    # Φ is kept above 0 so that the product of all can be divided by one; where that matters f is 0 anyway.
    votes, silent = np.maximum(cells.values, 0), cells.values == ABSTENTION
    factors = np.maximum(F, SMALLEST)[votes]
    # The product over all classes, once for each partition; a cell then divides its own class out again.
    product = np.multiply.reduceat(factors ** np.where(silent, 0, cells.multiplicities)[:, None], cells.starts, axis=0)
    table: Array = (product[cells.owners] / factors * f[votes]) @ dz
    table[silent] = 0.0
    return table
