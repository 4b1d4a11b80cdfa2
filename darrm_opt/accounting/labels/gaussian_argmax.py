"""Three cells: all that the label of a noisy vote reveals, for any number of classes.

A record moves one vote from class a to class b. Given the largest noisy count M of the other classes, which has the
same law on both sides, the label is a, b, or that other class: a function of (x_a, x_b) ~ N((α, β), I) against
N((α − h, β + h), I), in units of σ and relative to M, with h = 1/σ:

    a if x_a > max(x_b, 0),    b if x_b > max(x_a, 0),    otherwise another class.

So the laws of the label are a mixture of members of one family in two parameters, and H_a, jointly convex, is at most
its supremum over all real (α, β). This module bounds the supremum by boxes, refined until they are within `TOLERANCE`
of the largest value found; a box is bounded by its corners and a lower bound on second derivatives. Outside a triangle
the family is bounded by one noisy bit and a small share of the noisy counts. Proofs: docs/proofs.md, "What labels
cost".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.labels.noisy_bit import (
    TAIL_ERROR,
    bit_values,
    censored_divergence,
    curvature_bound,
    normal_cdf,
    normal_density,
    scaled_orders,
)
from darrm_opt.accounting.labels.power_divergence import (
    PowerDivergence,
    gaussian_counts,
    gaussian_divergence,
    largest_loss_term,
)
from darrm_opt.noise import Array
from darrm_opt.optional_packages import needed_by
from darrm_opt.rounding import ULP

CELL_ERROR = 2.0**-46
"""Absolute error of a computed probability, 1.4e-14; against ball arithmetic it is below 1e-15 (see the tests)."""

_ABSOLUTE_ERROR, _RELATIVE_ERROR = CELL_ERROR * np.array([1.0, 1.0, 0.0]), 4 * TAIL_ERROR * np.array([0.0, 0.0, 1.0])
"""Errors of the three cells: another class is a product of two values of Φ, with a relative error."""

BEND_ERROR = 2.0**-36
"""Absolute error of a second derivative of a probability: sums of fewer than 1e5 terms, of at most 1 together."""

MIN_PROBABILITY = 1e-200  # lower bound for a probability that is not above its error

MIN_SIGMA, MAX_SIGMA = 0.5, 1e5
"""Range of σ [votes] with an account of labels; elsewhere a label is charged as its noisy counts."""

TOLERANCE = 1e-3  # relative distance from the largest value found to which boxes are refined, at small (a − ½)·μ

MIN_MEAN = -1.5
"""Smallest α and β inside the triangle (larger if σ < 2, so that no probability is lost to rounding); below it, one
class hardly ever wins, and the other's bit is half as informative."""

MAX_SUM = 4 * math.sqrt(2)
"""Largest α + β inside the triangle; above, another class wins with probability below Φ(−4) = 3.2e-5."""

FIRST_BOX, MAX_BOXES = 0.5, 6_000
"""Side of the first boxes, and maximum number of boxes considered together, after which refinement ends."""

ORDER_GROUPS = 3  # number of groups of neighbouring orders: those of a group have their maximum in the same boxes
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # corners of a box, and its quarters

LATTICE_VARIANCE = 0.26
"""Bound on the excess variance of a discrete Gaussian on a cell over a Gaussian's [spacing²], at σ ≥ 2 spacings."""

IntArray = NDArray[np.int64]


@lru_cache(maxsize=64)
def label_divergence(sigma: float) -> PowerDivergence:
    """Return a bound on H_a of one label among any number of classes, Gaussian noise σ on each count, one vote moved.

    Guarantees:
        At least the supremum over all counts, numbers of classes, and both orders of the neighbours, if SciPy's ndtr
        and owens_t are accurate to `TAIL_ERROR` and `CELL_ERROR`.
    """
    mu = math.sqrt(2) / sigma * (1 + 4 * ULP)
    if not MIN_SIGMA <= sigma <= MAX_SIGMA:
        return gaussian_counts(mu)
    orders = scaled_orders(mu)
    values = largest_in_boxes(sigma, orders, least=_outside(sigma, orders))
    return PowerDivergence(orders, values, mu, "three cells: boxes in two parameters")


def cell_probabilities(alpha: Array, beta: Array) -> Array:
    """Return the probabilities of a, b and another class at each (α, β), shape (n, 3), to `CELL_ERROR`.

    Source: Owen 1956: Pr[x_a > max(x_b, 0)] = ½(Φ(α) + Φ(δ)) + T(α, β/α) − T(δ, (α+β)/(α−β)) − ½·[αδ < 0],
    δ = (α−β)/√2.
    """
    with needed_by("Gaussian noise on counts"):
        from scipy.special import ndtr, owens_t

    tiny = 1e-300  # the limit from above: T's jump there is that of the last term
    first = np.where(alpha == 0, tiny, alpha)
    difference = np.where(first == beta, tiny, first - beta)
    contrast = difference / math.sqrt(2)
    with np.errstate(over="ignore"):
        parts = owens_t(first, beta / first) - owens_t(contrast, (first + beta) / difference)
    p_a = (ndtr(first) + ndtr(contrast)) / 2 + parts - np.where((first > 0) != (contrast > 0), 0.5, 0.0)
    p_o = ndtr(-alpha) * ndtr(-beta)
    return np.stack([p_a, 1 - p_o - p_a, p_o], axis=1)


def cell_bends(alpha: Array, beta: Array) -> list[tuple[Array, Array]]:
    """Return the second derivatives along α and along β of `cell_probabilities`, shape (n, 3) each, to `BEND_ERROR`."""

    def along(first: Array, second: Array) -> tuple[Array, Array]:
        """Return those of the class whose mean moves, and of another class."""
        contrast, total = (first - second) / math.sqrt(2), (first + second) / math.sqrt(2)
        tie = normal_density(contrast) * (normal_density(total) - contrast * normal_cdf(total)) / 2
        another = first * normal_density(first) * normal_cdf(-second)
        return tie - another, another

    (a, another), (b, beyond) = along(alpha, beta), along(beta, alpha)
    return [(np.stack([a, -a - another, another], axis=1), np.stack([-b - beyond, b, beyond], axis=1))]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Squares in the plane of (α, β), with lower corners (least + i·side, least + j·side)."""

    i: IntArray  # shape (n,)
    j: IntArray
    side: float  # length of a side
    bounds: Array  # upper bounds on H_a on each box, shape (n, orders)
    part: IntArray  # indices of these orders


@dataclass(frozen=True, eq=False)
class CellFamily:
    """Laws of the three cells as functions of two real means."""

    # Lower and upper bounds on the probabilities of a, b and another class at each (α, β), shape (n, 3); one pair of
    # arrays for each way of breaking ties.
    bounds: Callable[[Array, Array], list[tuple[Array, Array]]]
    # Upper bound on that of another class, shape (n,), for every way of breaking ties.
    another: Callable[[Array, Array], Array]
    # Second derivatives of the probabilities along α and along β, shape (n, 3) each, to `BEND_ERROR`, for each way.
    bends: Callable[[Array, Array], list[tuple[Array, Array]]]
    least: float  # least α and β inside the triangle
    side: float = FIRST_BOX  # of the first boxes
    spacing: float = 0.0  # of the noise [σ], at most ½; 0 if it is continuous
    charge: float = 0.0  # relative error of sums over a lattice instead of integrals


def gaussian_cells(sigma: float) -> CellFamily:
    """Return the laws of Gaussian noise."""
    return CellFamily(_gaussian_bounds, _gaussian_another, cell_bends, least_mean(sigma))


def covering_boxes(
    sigma: float,
    orders: Array,
    tolerance: float = TOLERANCE,
    family: CellFamily | None = None,
    *,
    least: Array | float = 0.0,
    groups: int = 1,
) -> list[Boxes]:
    """Return boxes with their bounds that cover the triangle α, β ≥ least mean, α + β ≤ `MAX_SUM`, for each group.

    ``tolerance``: relative distance from the largest value found to which they are refined, at small (a − ½)·μ.
    ``family``: of laws; None for Gaussian noise. ``least``: boxes with at most this bound are not refined. ``groups``:
    number of groups of neighbouring orders, with separate boxes.
    """
    family = family or gaussian_cells(sigma)
    h = 1 / sigma
    # At large (a − ½)μ orders hardly matter in the conversion to ε, and need the most boxes: looser there.
    distance = tolerance * np.exp(2 * np.maximum(0.0, (orders - 0.5) * h * math.sqrt(2) - 1))
    side, start, least = family.side, family.least, np.broadcast_to(least, orders.shape)
    i, j = (index.ravel() for index in np.indices((math.ceil((MAX_SUM - 2 * start) / side),) * 2))
    within = 2 * start + (i + j) * side <= MAX_SUM
    i, j = i[within], j[within]
    largest, covering = np.zeros(orders.size), list[Boxes]()
    parts = np.array_split(np.arange(orders.size), groups)
    wanted = np.ones((groups, i.size), dtype=bool)
    while i.size:
        laws = _BoxLaws(i, j, side, h, family)
        wide = np.zeros(wanted.shape, dtype=bool)
        for part, asked, refined in zip(parts, wanted, wide, strict=True):
            rows = np.flatnonzero(asked)
            values, bounds = laws.divergences(rows, orders[part])
            largest[part] = np.maximum(largest[part], values.max(axis=0, initial=0.0))
            # Relative to the values found so far: a box is final once it cannot raise the bound by more than that.
            limit = np.maximum(largest[part] * (1 + distance[part]), least[part])
            refined[rows] = np.any(bounds > limit, axis=1)
            # Coarser boxes are also valid, with a larger bound: this limits the time, not the proof.
            if 4 * np.count_nonzero(refined) > MAX_BOXES:
                refined[:] = False
            done = ~refined[rows]
            covering.append(Boxes(i[rows][done], j[rows][done], side, bounds[done], part))
        side /= 2
        halved = wide.any(axis=0)
        wanted = np.tile(wide[:, halved], len(CORNERS))
        i, j = (
            np.concatenate([2 * index[halved] + half[axis] for half in CORNERS]) for axis, index in enumerate((i, j))
        )
    return covering


def largest_in_boxes(
    sigma: float, orders: Array, tolerance: float = TOLERANCE, family: CellFamily | None = None, *, least: Array
) -> Array:
    """Return an upper bound on H_a inside the triangle, or ``least`` if larger, at each order, shape (n,)."""
    found = least.copy()
    for boxes in covering_boxes(sigma, orders, tolerance, family, least=least, groups=ORDER_GROUPS):
        found[boxes.part] = np.maximum(found[boxes.part], boxes.bounds.max(axis=0, initial=0.0))
    return found


def least_mean(sigma: float) -> float:
    """Return the smallest α and β inside the triangle."""
    return MIN_MEAN + max(0.0, 1 / sigma - 0.5)


class _BoxLaws:
    """Laws of the three cells at the corners of boxes and within them."""

    def __init__(self, i: IntArray, j: IntArray, side: float, h: float, family: CellFamily) -> None:
        self.side, self.family = side, family
        width = int(j.max()) + 2
        corners, places = np.unique([(i + di) * width + j + dj for di, dj in CORNERS], return_inverse=True)
        self.places = places.reshape(len(CORNERS), -1)
        at = dict(zip(CORNERS, self.places, strict=True))
        alpha, beta = (family.least + side * index for index in np.divmod(corners, width))
        self.largest_p = np.zeros((i.size, 3))
        self.low, self.high = np.full((i.size, 3), math.inf), np.full((i.size, 3), -math.inf)
        another = family.another(alpha - h, beta)[at[0, 0]]
        laws = (family.bounds(*means) for means in ((alpha, beta), (alpha - h, beta + h)))
        self.corners = []  # for each way of breaking ties: probabilities, and the range of their losses
        for (p_least, p), (q_least, q) in zip(*laws, strict=True):
            losses = np.log(q_least / p), np.log(q / p_least)
            self.corners.append((p, *losses))
            # Each ℓ increases with α and decreases with β. On a box and on the way to the neighbour a is most probable
            # at the corner (1, 0), b at the neighbour of (0, 1), another class at the distance (−h, 0) from (0, 0).
            self.low = np.minimum(self.low, losses[0][at[0, 1]])
            self.high = np.maximum(self.high, losses[1][at[1, 0]])
            self.largest_p = np.maximum(self.largest_p, np.stack([p[at[1, 0], 0], q[at[0, 1], 1], another], axis=1))
        slack = LATTICE_VARIANCE * family.spacing**2 * h * 2 * side  # on a lattice ℓ is monotone up to this
        self.low -= slack
        self.high += slack
        x, y = (np.asarray(family.least + side * (index + 0.5), np.float64) for index in (i, j))
        both = list(zip(family.bends(x, y), family.bends(x - h, y + h), strict=True))
        self.bends = [[(on_data[axis] - bent[axis], bent[axis]) for on_data, bent in both] for axis in range(2)]
        self.norms = side * h * math.sqrt(13), side * math.sqrt(2)

    def divergences(self, rows: IntArray, orders: Array) -> tuple[Array, Array]:
        """Return the largest H_a at the corners of some boxes and upper bounds on the boxes, shape (rows, orders)."""
        values, charge = np.zeros((len(CORNERS), rows.size, orders.size)), 1 + self.family.charge
        corners, places = np.unique(self.places[:, rows], return_inverse=True)
        for p, low, high in self.corners:
            points = np.zeros((corners.size, orders.size), order="F")
            for cell in range(3):
                terms = largest_loss_term(low[corners, cell, np.newaxis], high[corners, cell, np.newaxis], orders)
                points += p[corners, cell, np.newaxis] * terms
            for value, place in zip(values, places.reshape(len(CORNERS), -1), strict=True):
                np.maximum(value, points[place], out=value)
        bounds = _largest_on_squares(values, *(self.side**2 * charge * bend for bend in self.curvatures(rows, orders)))
        return values.max(axis=0), bounds * (1 + 64 * ULP)

    def curvatures(self, rows: IntArray, orders: Array) -> list[Array]:
        """Return upper bounds on −∂²H_a along α and along β on some boxes, shape (rows, orders) each."""
        bends = [[(first[rows], second[rows]) for first, second in families] for families in self.bends]
        low, high, weights = self.low[rows], self.high[rows], self.largest_p[rows] * (1 + self.family.charge)
        return curvature_bound(low, high, weights, orders, self.norms, bends, BEND_ERROR)


def _largest_on_squares(corners: Array, along: Array, across: Array) -> Array:
    """Return bounds on functions on squares, by their values at `CORNERS` and bounds on −∂² along both coordinates.

    Second derivatives are in units of the sides. Such a function is at most the bilinear interpolation of its corners
    plus ½(−∂²)·x(1 − x) along each coordinate: a quadratic function, largest on an edge or at a zero of its gradient.
    """
    low_low, low_high, high_low, high_high = corners
    edges = (low_low, high_low, along), (low_high, high_high, along), (low_low, low_high, across)
    largest = np.maximum.reduce([_largest_between(*edge) for edge in (*edges, (high_low, high_high, across))])
    x, y = (high_low + high_high - low_low - low_high) / 2, (low_high + high_high - low_low - high_low) / 2
    mixed, middle = low_low + high_high - low_high - high_low, corners.sum(axis=0) / 4
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = along * across - mixed * mixed
        at_x, at_y = (x * across + mixed * y) / determinant, (y * along + mixed * x) / determinant
        inside = middle + (x * at_x + y * at_y) / 2 + (along + across) / 8
    is_inside = (determinant > 0) & (np.abs(at_x) <= 0.51) & (np.abs(at_y) <= 0.51)
    return np.asarray(np.where(is_inside, np.fmax(largest, inside), largest))


def _largest_between(first: Array, last: Array, bend: Array) -> Array:
    """Return the largest of the line between two values plus ½·bend·x(1 − x), x in [0, 1]."""
    rise = np.abs(last - first)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (first + last) / 2 + bend / 8 + rise * rise / (2 * bend)
    return np.asarray(np.where(2 * rise < bend, top, np.maximum(first, last)))


def _gaussian_bounds(alpha: Array, beta: Array) -> list[tuple[Array, Array]]:
    """Return bounds on the probabilities of the three cells for Gaussian noise."""
    cells = cell_probabilities(alpha, beta)
    return [(_below(cells), _above(cells))]


def _gaussian_another(alpha: Array, beta: Array) -> Array:
    return np.asarray(normal_cdf(-alpha) * normal_cdf(-beta) * (1 + _RELATIVE_ERROR[2]))


def _above(cells: Array) -> Array:
    """Return upper bounds on the probabilities of the three cells."""
    return cells * (1 + _RELATIVE_ERROR) + _ABSOLUTE_ERROR


def _below(cells: Array) -> Array:
    """Return lower bounds on the probabilities of the three cells, except that they are positive."""
    # Within the possible shifts they are above 1e-60.
    return np.maximum(cells * (1 - _RELATIVE_ERROR) - _ABSOLUTE_ERROR, MIN_PROBABILITY)


def _outside(sigma: float, orders: Array) -> Array:
    """Return upper bounds over all (α, β) outside the triangle."""
    h = 1 / sigma
    mu = math.sqrt(2) * h
    product = np.abs(orders * (orders - 1))
    single = bit_values(h, orders)
    tail = np.maximum(*(censored_divergence(least_mean(sigma), shift, orders) for shift in (h, -h)))
    growth = np.where(orders > 1, 1 + product * tail, 1.0)
    one_rare = growth * single + tail
    third_rare = bit_values(mu, orders) + float(normal_cdf(-MAX_SUM / math.sqrt(2))) * gaussian_divergence(mu, orders)
    return np.asarray(np.maximum(one_rare, third_rare) * (1 + 64 * ULP))
