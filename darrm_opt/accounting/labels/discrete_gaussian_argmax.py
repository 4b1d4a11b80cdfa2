"""Lattice noise: what a label shows when the noise is a discrete Gaussian, as it is drawn, and counts can tie.

The argument of `gaussian_argmax` holds for any noise; here M and the noisy counts are whole numbers. Given the order in
which ties are broken (at random or fixed: reveal it), the largest noisy count of the other classes and who has it, with
u and v the noisy counts of a and b relative to M,

    a if u ≥ t_a and u ≥ v (or u > v),    b if v ≥ t_b and v > u (or v ≥ u),    otherwise another class,

(t_a, t_b) in {(0, 0), (0, 1), (1, 0)}, and who wins u = v is a where t_b = 1, b where t_a = 1. The means (i, j) of
(u, v) are whole numbers, the neighbour's are (i − 1, j + 1): a countable family, of which all members in a triangle are
computed; outside of it the bounds are those of `gaussian_argmax`.

There are 38σ² members. Above `MAX_LISTED_SIGMA` reveal u and v modulo m as well, whose laws do not depend on the means:
given these, ⌊u/m⌋ and ⌊v/m⌋ are discrete Gaussians of scale σ/m with real means, and the label is one of the four of
them. So the family on a coarser lattice, with real means and a shift of 1/m, bounds that of σ. Its supremum is found by
the boxes of `gaussian_argmax`; discretisation costs less than 1e-4 of H_a, and time does not grow with σ.
Proofs: docs/proofs.md, "What labels cost".
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.labels.gaussian_argmax import (
    FIRST_BOX,
    LATTICE_VARIANCE,
    MAX_SUM,
    MIN_MEAN,
    CellFamily,
    IntArray,
    largest_in_boxes,
)
from darrm_opt.accounting.labels.noisy_bit import (
    GRID_END,
    GRID_STEP,
    MAX_SHIFT,
    MIN_SHIFT,
    normal_density,
    scaled_orders,
    values_on_grid,
)
from darrm_opt.accounting.labels.power_divergence import (
    PowerDivergence,
    gaussian_counts,
    gaussian_divergence,
    largest_loss_term,
)
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP, up

MIN_SIGMA, MAX_SIGMA = 2.0, 1e5
"""Range of σ [votes] with an account of its own for three cells; beyond, a label is charged as its noisy counts."""

MAX_LISTED_SIGMA, MAX_LISTED_SCALE = 120.0, 5000.0
"""Largest σ of three cells, and largest scale of a bit, at which all members of the family are computed; above, they
are those of a coarser lattice."""

COARSE = 60.0  # least scale of the coarser lattice; it is below twice this

COARSE_END = 11.0
"""Noise on it is summed to this many standard deviations beyond all means: what lies beyond is below 1e-14 of every
probability in the triangle."""

BENT_END = 8.0
"""The same for second derivatives, which are not relative to a probability: what lies beyond is below 1e-13."""

COARSE_TOLERANCE = 2e-5  # relative distance from the largest value found to which boxes are refined

MASS_ERROR = 2.0**-36
"""Relative error of a probability: exponentials of at most 200; sums and products of fewer than 1e5 positive terms."""

END = 14.0
"""Noise is summed to this many standard deviations; what lies beyond, below 1e-42, is covered by `MASS_ERROR`."""

PERIODS = 1e-6
"""Relative charge for the difference between sums over the whole numbers and integrals, e^(−2π²σ²) at σ ≥ 1."""

ESTIMATE_SIGMA = 16.0  # most σ of which a bound takes next to no time

QUICK_ERROR = 2.0**-40
"""Relative error of a sum of powers of probabilities, whose exponents are at most 200, each from the one before."""

FINE = 2.0**40
"""Grid points of a mean in one spacing: half of one of them changes no mass by more than `MASS_ERROR` / 50."""

CHUNK = 4_096  # members of the family that are evaluated at a time: what a cache holds


@lru_cache(maxsize=16)
def lattice_label_divergence(sigma: float) -> PowerDivergence:
    """Return a bound on H_a of one label among any number of classes, discrete Gaussian noise, one vote moved."""
    if not MIN_SIGMA <= sigma <= MAX_SIGMA:
        return lattice_counts(math.sqrt(2) / sigma)
    mu = math.sqrt(2) / sigma * (1 + PERIODS)
    orders = scaled_orders(mu)
    first = math.ceil(MIN_MEAN * sigma)
    # Outside the triangle (docs/proofs.md, "What labels cost"): with one class rare, a bit of one noisy count; with the
    # others rare, a bit of a difference, whose noise is on the even or the odd numbers: in steps of 2, scale σ/√2,
    # offset 0 or ½.
    if sigma <= MAX_LISTED_SIGMA:
        single = lattice_bit_values(sigma, 0.0, 1, orders)
        pair = np.max([lattice_bit_values(sigma / math.sqrt(2), offset, 1, orders) for offset in (0.0, 0.5)], axis=0)
        tails = [censored_lattice(sigma, 0.0, -first, shift, orders) for shift in (1, -1)]
    else:
        single, pair = (coarse_bit_values(scale, 1, orders) for scale in (sigma, sigma / math.sqrt(2)))
        tails = [_coarse_censored(sigma, -first, shift, orders) for shift in (1, -1)]
    tail = np.maximum(*tails)
    # (i): 1 + a(a − 1)H_a multiplies for what is independent; up to a = 1 the product term only lowers the sum.
    growth = np.where(orders > 1, 1 + np.abs(orders * (orders - 1)) * tail, 1.0)
    # (ii): another class wins with chance e^(−S²/4) at most, and then the counts themselves are charged.
    third_rare = pair + math.exp(-(MAX_SUM**2) / 4) * gaussian_divergence(mu, orders)
    outside = np.maximum(growth * single + tail, third_rare)
    if sigma <= MAX_LISTED_SIGMA:
        values = np.maximum(_inside(sigma, first, math.ceil(MAX_SUM * sigma), orders), outside)
    else:
        values = largest_in_boxes(sigma, orders, COARSE_TOLERANCE, coarse_cells(sigma), least=outside)
    method = "three cells on the lattice: " + ("enumerated" if sigma <= MAX_LISTED_SIGMA else "boxes in real means")
    # Each bound carries its own roundings: 1e-9 is for the few operations that joined them here.
    return PowerDivergence(orders, values * (1 + 1e-9), mu, method, within_gaussian=False)


def lattice_label_estimate(sigma: float) -> PowerDivergence:
    """Return about `lattice_label_divergence`, no bound: that of less noise, scaled. ε is off by 2e-4."""
    less = min(sigma, ESTIMATE_SIGMA)
    return lattice_label_divergence(less).scaled(less / sigma)


def lattice_counts(shift: float) -> PowerDivergence:
    """Return a bound on H_a of counts with discrete Gaussian noise, σ ≥ 1, moved by ``shift`` standard deviations.

    Below a = 1 it is above that of a Gaussian mechanism, by a share that `PERIODS` covers.
    """
    return gaussian_counts(shift * (1 + PERIODS), within_gaussian=False)


def narrow_lattice_counts(shift: float) -> PowerDivergence:
    """Return the same for any σ: at order ½ it is at most that of a Gaussian mechanism with √2 times the shift."""
    orders = np.array([0.5, 1.0])
    moved = (up(math.sqrt(2) * shift, 2), shift)
    values = np.concatenate([gaussian_divergence(*of) for of in zip(moved, orders[:, np.newaxis], strict=True)])
    return PowerDivergence(orders, values, shift, "noisy counts", within_gaussian=False)


@lru_cache(maxsize=64)
def lattice_bit_divergence(scale: float, shift: int, offsets: tuple[float, ...]) -> PowerDivergence:
    """Return a bound on H_a of the bit "k + X ≥ T", X on the lattice Z + offset with mass ∝ e^(−X²/(2·scale²)).

    ``scale``, at least 1/√2·`MIN_SIGMA`, is in units of the spacing; one record moves k by at most ``shift``.
    """
    mu = shift / scale * (1 + PERIODS)
    if scale < MIN_SIGMA / math.sqrt(2) or not MIN_SHIFT <= mu <= MAX_SHIFT:
        return lattice_counts(shift / scale)
    orders = scaled_orders(mu)
    if scale > MAX_LISTED_SCALE:
        method, values = "grid of real means", coarse_bit_values(scale, shift, orders)
    else:
        # One record that moves k by less shows less: with p fixed, H_a is convex in q and least at q = p.
        method = "enumerated"
        values = np.max([lattice_bit_values(scale, offset, shift, orders) for offset in offsets], axis=0)
    return PowerDivergence(
        orders, values * (1 + 1e-9), mu, f"noisy bit on the lattice: {method}", within_gaussian=False
    )


def lattice_bit_values(scale: float, offset: float, shift: int, orders: Array) -> Array:
    """Return upper bounds on the largest H_a of (Pr[X ≥ k], Pr[X ≥ k + shift]) over all whole k, at each order."""
    noise = LatticeNoise(scale, offset)
    last = math.floor(GRID_END * scale)
    k = np.arange(-last, last + 1)
    p, q = (np.stack([noise.at_least(threshold), noise.below(threshold)], axis=1) for threshold in (k, k + shift))
    tails = [censored_lattice(scale, offset, last, step, orders) for step in (shift, -shift)]
    return np.asarray(np.max([pair_divergences(p, q, orders).max(axis=0), *tails], axis=0))


class LatticeNoise:
    """Discrete Gaussian on Z + offset, indexed by whole numbers: mass at k ∝ e^(−(k + offset)²/(2·scale²))."""

    def __init__(self, scale: float, offset: float, end: float = END) -> None:
        self.end = math.ceil(end * scale)
        k = np.arange(-self.end, self.end + 1)
        masses = np.exp(-((k + offset) ** 2) / (2 * scale * scale))
        self.masses = masses / masses.sum()
        self._below = np.concatenate([[0.0], np.cumsum(self.masses)])
        self._at_least = np.concatenate([np.cumsum(self.masses[::-1])[::-1], [0.0]])

    def at(self, k: IntArray) -> Array:
        """Return Pr[X = k]."""
        inside = np.abs(k) <= self.end
        return np.where(inside, self.masses[np.where(inside, k + self.end, 0)], 0.0)

    def below(self, k: IntArray) -> Array:
        """Return Pr[X < k]."""
        return np.asarray(self._below[np.clip(k + self.end, 0, 2 * self.end + 1)])

    def at_least(self, k: IntArray) -> Array:
        """Return Pr[X ≥ k]."""
        return np.asarray(self._at_least[np.clip(k + self.end, 0, 2 * self.end + 1)])


def _inside(sigma: float, first: int, largest_sum: int, orders: Array) -> Array:
    """Return the largest H_a over all ties and all means i, j ≥ ``first`` with i + j ≤ ``largest_sum``."""
    least = first - 2
    size = largest_sum - first + 3 - least
    x, y = np.indices((size, size)).reshape(2, -1)
    below = x + y <= largest_sum - 2 * least
    best = []
    # Where t_b or t_a is 1, the laws are those of (0, 0) with one mean smaller by 1: one more row of members.
    for laws, starts in zip(_grid_laws(LatticeNoise(sigma, 0.0), least, size), ((1, 2), (2, 1)), strict=True):
        members = np.flatnonzero(below & (x >= starts[0]) & (y >= starts[1]))
        neighbours = members - size + 1  # (i − 1, j + 1)
        p, q = (laws.reshape(3, -1).take(places, axis=1).T for places in (members, neighbours))
        best.append(_largest(p, q, orders))
    return np.asarray(np.max(best, axis=0))


def tie_laws(noise: LatticeNoise, i: IntArray, j: IntArray) -> list[Array]:
    """Return the probabilities of (a, b, another class) for means i of u and j of v, for each way of breaking ties.

    Arrays of shape (n, 3), in this order: t_a = t_b = 0 and a wins u = v; the same and b wins; t_b = 1 and a wins; t_a
    = 1 and b wins. The third is the second with v − 1 for v, the fourth the first with u − 1 for u.
    """
    least, most = min(int(i.min()), int(j.min())) - 1, max(int(i.max()), int(j.max()))
    a_first, b_first = _grid_laws(noise, least, most - least + 1)
    x, y = i - least, j - least
    return [a_first[:, x, y].T, b_first[:, x, y].T, b_first[:, x, y - 1].T, a_first[:, x - 1, y].T]


def _grid_laws(noise: LatticeNoise, least: int, size: int) -> tuple[Array, Array]:
    """Return the probabilities of (a, b, another class) for all means from ``least`` on, shape (3, size, size) each."""
    # Both with t_a = t_b = 0: where a wins u = v, and where b does.
    means = np.arange(least, least + size + 1)
    u = np.arange(max(int(means[-1]), 0) + noise.end + 1)
    # Pr[u ≥ 0 and u ≥ v] for each mean of u and of v
    wins = noise.at(u - means[:, np.newaxis]) @ noise.below(u + 1 - means[:, np.newaxis]).T
    tied, ahead = wins[:-1, :-1], wins[:-1, 1:]  # u > v is u ≥ v + 1
    below = noise.below(-means[:-1])
    neither = np.outer(below, below)
    return np.stack([tied, ahead.T, neither]), np.stack([ahead, tied.T, neither])


def _largest(p: Array, q: Array, orders: Array) -> Array:
    """Return the largest H_a over pairs of laws, shape (n, cells) each, at each order."""
    # As `pair_divergences` has it, which is asked only for pairs that may be largest.
    best = np.zeros(orders.size)
    for start in range(0, p.shape[0], CHUNK):
        on_data, on_neighbour = (laws[start : start + CHUNK] for laws in (p, q))
        above = _quick_bounds(on_data, on_neighbour, orders)
        places = np.flatnonzero(above.max(axis=1) >= best)
        if places.size:
            leaders = np.unique(above[places].argmax(axis=1))
            best = np.maximum(best, pair_divergences(on_data[leaders], on_neighbour[leaders], orders).max(axis=0))
            others = np.setdiff1d(np.any(above[places] >= best[places, np.newaxis], axis=0).nonzero(), leaders)
            if others.size:
                best = np.maximum(best, pair_divergences(on_data[others], on_neighbour[others], orders).max(axis=0))
    return best


def _quick_bounds(p: Array, q: Array, orders: Array) -> Array:
    """Return what is at least `pair_divergences`, by a formula without its roundings, shape (orders, n)."""
    # With η the error of a loss, χ_a(ℓ ± η) − χ_a(ℓ) ≤ η·(e^ℓ + e^(−(a−1)ℓ))/a up to a share of aη, which sums to η·(2
    # + a(a−1)H_a)/a; the sums have terms of at most 2a + 1 + a(a−1)H_a in all. Powers follow from those of the order
    # before where orders are evenly spaced.
    losses = np.log(p / q).T
    terms = p.T * np.exp(losses * (orders[0] - 1))
    on_data, on_neighbour = p.sum(axis=1), q.sum(axis=1)
    above = np.empty((orders.size, len(p)))
    step, ratios = 0.0, terms
    for place, order in enumerate(orders):
        if place:
            gap = order - orders[place - 1]
            if abs(gap - step) > 8 * ULP * order:
                step, ratios = gap, np.exp(losses * gap)
            terms *= ratios
        b, margin = order - 1, 8 * MASS_ERROR / order
        rounding = QUICK_ERROR / abs(order * b)
        above[place] = terms.sum(axis=0) * (1 / (order * b) + margin + rounding) + on_neighbour / order
        above[place] += margin + rounding * (2 * order + 1) - on_data / b
    return upper_bound(above)


def pair_divergences(p: Array, q: Array, orders: Array) -> Array:
    """Return H_a of pairs of laws, shape (n, cells) each, rounded up, shape (n, orders)."""
    divergences = np.zeros((p.shape[0], orders.size))
    for start in range(0, p.shape[0], CHUNK):
        rows = slice(start, start + CHUNK)
        for cell in range(p.shape[1]):
            loss = np.log(q[rows, cell] / p[rows, cell])[:, np.newaxis]
            terms = largest_loss_term(loss - 3 * MASS_ERROR, loss + 3 * MASS_ERROR, orders)
            divergences[rows] += p[rows, cell, np.newaxis] * (1 + MASS_ERROR) * terms
    return np.asarray(divergences * (1 + MASS_ERROR))


def censored_lattice(scale: float, offset: float, threshold: int, shift: int, orders: Array) -> Array:
    """Return H_a of X censored below ``threshold`` against X + shift, shape (orders,): bounds every function of it."""
    noise = LatticeNoise(scale, offset)
    values = np.arange(threshold, noise.end + 1)
    cells = np.concatenate([[float(noise.below(np.array(threshold)))], noise.at(values)])
    atom = math.log(float(noise.below(np.array(threshold - shift))) / cells[0])
    losses = np.concatenate([[atom], shift * (2 * (values + offset) - shift) / (2 * scale * scale)])[:, np.newaxis]
    terms = largest_loss_term(losses - 3 * MASS_ERROR, losses + 3 * MASS_ERROR, orders)
    return np.asarray(cells @ terms * (1 + 2 * MASS_ERROR))


def coarse_scale(scale: float) -> float:
    """Return the scale of the coarser lattice."""
    return scale / max(1, math.floor(scale / COARSE))


def coarse_cells(sigma: float) -> CellFamily:
    """Return the laws of three cells on the coarser lattice, with real means, that bound those of σ for all ties."""
    scale = coarse_scale(sigma)

    def bounds(alpha: Array, beta: Array) -> list[tuple[Array, Array]]:
        laws = real_laws(scale, alpha * scale, beta * scale)[:2]  # the others are these with a mean smaller by 1
        return [(law * (1 - MASS_ERROR), law * (1 + MASS_ERROR)) for law in laws]

    def bends(alpha: Array, beta: Array) -> list[tuple[Array, Array]]:
        return real_bends(scale, alpha * scale, beta * scale)

    def another(alpha: Array, beta: Array) -> Array:
        below = [_below(0.0, means * scale, scale) for means in (alpha, beta)]
        return np.asarray(below[0] * below[1] * (1 + 3 * MASS_ERROR))

    # a mean is rounded down by less than one of the coarser lattice, and ties may take another. Corners of boxes are
    # whole numbers but for the smallest boxes: so means have few fractions.
    least, side = math.floor((MIN_MEAN - 2 / COARSE) * scale), 4 * math.floor(FIRST_BOX * scale / 4)
    return CellFamily(bounds, another, bends, least / scale, side / scale, 1 / scale, PERIODS)


def real_laws(scale: float, i: Array, j: Array) -> list[Array]:
    """Return the masses of (a, b, another class) for real means i of u and j of v, as `tie_laws` does for whole ones.

    Masses on the whole numbers are those of N(0, scale²)'s density: their sum is not exactly 1.
    """
    (x, at_x), (y, at_y), first, last = _coordinates(i, j, scale)
    # Many means share a coordinate: cumulative sums are made once for each of them, and every pair is a product.
    at, up_to = zip(*(_translated(means, scale, first, last)[0] for means in (x, y)), strict=True)

    def wins(mine: int, other: int) -> tuple[Array, Array, Array]:
        """Return Pr[u ≥ 0 and u ≥ v], Pr[u ≥ 0 and u ≥ v + 1] and Pr[u ≥ 1 and u ≥ v + 1]."""
        # Two cumulative products differ in one row: u = 0, which is added, and not subtracted, lest digits cancel.
        far = at[mine][:, 2:] @ up_to[other][:, 1:-1].T
        ahead = far + np.outer(at[mine][:, 1], up_to[other][:, 0])
        return at[mine][:, 1:] @ up_to[other][:, 1:].T, ahead, far

    (tied_a, ahead_a, far_a), (tied_b, ahead_b, far_b) = (
        [table[places] for table in wins(*classes)]
        for classes, places in (((0, 1), (at_x, at_y)), ((1, 0), (at_y, at_x)))
    )
    (a_below, a_up_to), (b_below, b_up_to) = (
        [sums[places, 0], sums[places, 1]] for sums, places in zip(up_to, (at_x, at_y), strict=True)
    )
    # The order of `tie_laws`, to which the bounds on boxes refer.
    cells = (
        (tied_a, ahead_b, a_below * b_below),
        (ahead_a, tied_b, a_below * b_below),
        (tied_a, far_b, a_below * b_up_to),
        (far_a, tied_b, a_up_to * b_below),
    )
    return [np.stack(law, axis=1) for law in cells]


def real_bends(scale: float, i: Array, j: Array) -> list[tuple[Array, Array]]:
    """Return the second derivatives of the first two of `real_laws`, by i/scale and by j/scale, shape (n, 3) each."""
    (x, at_x), (y, at_y), first, last = _coordinates(i, j, scale, BENT_END)
    (u, bent_u), (v, bent_v) = (_translated(means, scale, first, last, bent=True) for means in (x, y))
    a_first, b_first = [], []
    for (u_at, u_up_to), (v_at, v_up_to) in ((bent_u, v), (u, bent_v)):
        tied_a = (u_at[:, 1:] @ v_up_to[:, 1:].T)[at_x, at_y]
        tied_b = (v_at[:, 1:] @ u_up_to[:, 1:].T)[at_y, at_x]
        another = u_up_to[at_x, 0] * v_up_to[at_y, 0]
        a_first.append(np.stack([tied_a, -tied_a - another, another], axis=1))
        b_first.append(np.stack([-tied_b - another, tied_b, another], axis=1))
    return [(a_first[0], a_first[1]), (b_first[0], b_first[1])]


def coarse_bit_values(scale: float, shift: int, orders: Array) -> Array:
    """Return upper bounds as `lattice_bit_values` does, for every offset, from the coarser lattice with real means."""
    coarse, mu = coarse_scale(scale), shift / scale
    parts = math.ceil(1 / (GRID_STEP * coarse))  # of a spacing: few means that differ by no whole number
    last = math.ceil(GRID_END * coarse) * parts
    grid, step = np.arange(-last, last + 1) / parts, 1 / (parts * coarse)
    p, q = (
        np.stack([_below(1.0, -means, coarse), _below(0.0, means, coarse)], axis=1)  # u ≥ 0 is −u < 1
        for means in (grid, grid - mu * coarse)
    )
    slack = LATTICE_VARIANCE / coarse**2 * mu * step
    between = values_on_grid(p, q, 3 * MASS_ERROR, mu, orders, step=step, slack=slack, charge=PERIODS)
    last = math.floor((GRID_END - 1 / COARSE) * scale)  # a mean is rounded down by less than one of the coarser lattice
    tails = [_coarse_censored(scale, last, move, orders) for move in (shift, -shift)]
    return np.asarray(np.max([between, *tails], axis=0))


def _below(threshold: float, means: Array, scale: float) -> Array:
    """Return the mass of u < threshold for real means of u, shape (n,)."""
    distances, places_of = np.unique(_on_fine_grid(means - threshold), return_inverse=True)  # many means are the same
    whole = np.floor(distances)
    first, last = int(whole.min()) + 1, max(int(whole.max()), 0) + math.ceil(COARSE_END * scale)
    masses = np.empty(distances.size)
    for fraction in np.unique(distances - whole).tolist():
        # Σ φ(k + distance), k ≥ 1, from the far end; where it begins depends on the distance.
        above = np.cumsum(normal_density(np.arange(first, last + 1) + fraction, scale)[::-1])[::-1]
        places = np.flatnonzero(distances - whole == fraction)
        masses[places] = above[whole[places].astype(np.intp) + 1 - first]
    return np.asarray(masses[places_of])


def _coordinates(i: Array, j: Array, scale: float, noise_end: float = COARSE_END) -> tuple[Any, Any, int, int]:
    """Return the different means, each with the places of i or j in it, and the ends of the sums."""
    x, y = (np.unique(_on_fine_grid(means), return_inverse=True) for means in (i, j))
    end = math.ceil(noise_end * scale)
    first, last = (min(x[0][0], y[0][0]), max(x[0][-1], y[0][-1]))
    return x, y, math.floor(first) - end, math.ceil(last) + end + 1


def _translated(means: Array, scale: float, first: int, last: int, *, bent: bool = False) -> list[tuple[Array, Array]]:
    """Return the mass at each whole number from −1 to ``last``, and from ``first`` up to it, of each mean.

    Shape (n, numbers) each. ``bent``: and then second derivatives of them by the mean, in units of ``scale``.
    """
    whole = np.floor(means)
    fractions, at_fraction = np.unique(means - whole, return_inverse=True)
    low, high = int(whole.min()), int(whole.max())
    distances = (np.arange(first - high, last - low + 1) - fractions[:, np.newaxis]) / scale
    masses = normal_density(distances) / scale
    starts = high - first - 1 - whole.astype(np.intp)

    def of_each_mean(table: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(table, last + 2, axis=1)
        return np.asarray(windows[at_fraction, starts])

    tables = [masses, masses * (distances * distances - 1)] if bent else [masses]
    return [(of_each_mean(table), of_each_mean(np.cumsum(table, axis=1))) for table in tables]


def _on_fine_grid(means: Array) -> Array:
    """Return means rounded to a grid so fine that no mass changes: those that differ by a whole number share masses."""
    return np.asarray(np.round(means * FINE) / FINE)


def _coarse_censored(scale: float, threshold: int, shift: int, orders: Array) -> Array:
    """Return a bound on `censored_lattice` for every offset: between two whole numbers the larger end is taken."""
    coarse = coarse_scale(scale)
    start, step = threshold * (coarse / scale), shift * (coarse / scale)
    values: Array = start + np.arange(math.ceil(END * coarse), dtype=np.float64)
    below, below_on_neighbour = (_below(0.0, np.array([0.0, -1.0]) - x, coarse) for x in (start, start - step))
    atoms = np.log(below_on_neighbour / below)
    slack = 3 * MASS_ERROR + LATTICE_VARIANCE / coarse**3 * abs(step) / coarse
    losses = [step * (2 * end - step) / (2 * coarse * coarse) for end in (values, values + 1)]
    low = np.append(np.minimum(*losses), atoms.min()) - slack
    high = np.append(np.maximum(*losses), atoms.max()) + slack
    cells = np.append(normal_density(values, coarse), below[1])
    terms = largest_loss_term(low[:, np.newaxis], high[:, np.newaxis], orders)
    return np.asarray(cells @ terms * (1 + 2 * MASS_ERROR))
