"""Power divergences: what one release reveals, order by order, for any composition.

The power divergence of order a of a pair of laws (P, Q) of one release is

    H_a(P‖Q) = Σ_c P_c·χ_a(ln(Q_c/P_c)) = (Σ_c P_c^a Q_c^(1−a) − 1)/(a(a−1)),
    χ_a(ℓ) = (e^(−(a−1)ℓ) − a + (a−1)e^ℓ)/(a(a−1)) = ∫_0^ℓ (e^(ℓ−u) − 1) e^(−(a−1)u) du ≥ 0,

continued to a = 0 and 1. It is jointly convex in (P, Q) and another form of Rényi's divergence,
D_a = ln(1 + a(a−1)H_a)/(a−1). By the integral, H_a is a Laplace transform of a non-negative function, so ln H_a is
convex in a; the maximum over a family is convex too, and a chord between two orders bounds all orders between them. For
a family closed under swapping P and Q, H_a = H_{1−a}: orders from ½ on suffice. Proofs: docs/proofs.md, "What labels
cost".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.noise import Array
from darrm_opt.rounding import ULP

INTERPOLATION_ERROR = 2.0**-40
"""Relative charge for logarithm, chord and exponential of a bound: |ln H| is below 100, so some 1e-13."""

NEAR_ONE = 2.0**-20  # distance |a(a−1)| from 0 within which a formula that divides by it is replaced by a bound

MIN_CHAIN, MAX_CHAIN, MIN_LOSSES = 4, 8, 48
"""Minimum number of orders whose powers follow from each other, maximum number of steps from a computed one, and
minimum number of losses for which this is faster."""

GAP_ERROR = 1e-9  # relative difference, to first order, up to which gaps of orders count as equal


@dataclass(frozen=True, eq=False)
class PowerDivergence:
    """Upper bound on H_a over all neighbours, for every order a ≥ ½.

    Attributes:
        orders: orders a ≥ ½ with a computed bound, increasing from ½, shape (n,), read-only.
        values: upper bounds on H_a at these orders, > 0, shape (n,), read-only.
        shift: μ ≥ 0 such that H_a is at most that of a Gaussian mechanism with shift μ, for a ≥ 1 and above the last of
            ``orders``, where it is the only bound.
        method: how the bounds were proved.
        within_gaussian: whether the release is a function of that Gaussian mechanism, so that ``shift`` bounds every
            divergence, not only H_a.
    """

    orders: Array
    values: Array
    shift: float
    method: str
    within_gaussian: bool = True

    def __post_init__(self) -> None:
        counts = self._where_bound(self.orders, gaussian_divergence(self.shift, self.orders))
        values = upper_bound(self.values, counts)
        for array in (values, self.orders):
            array.setflags(write=False)
        object.__setattr__(self, "values", values)

    def at(self, orders: Array) -> Array:
        """Return upper bounds on H_a at orders a ≥ ½, shape as given."""
        with np.errstate(over="ignore", invalid="ignore"):
            chords = np.exp(np.interp(orders, self.orders, np.log(self.values))) * (1 + INTERPOLATION_ERROR)
        counts = gaussian_divergence(self.shift, orders)
        bounds = upper_bound(chords, self._where_bound(orders, counts))
        return np.asarray(np.where(orders <= self.orders[-1], bounds, counts))

    def _where_bound(self, orders: Array, counts: Array) -> Array:
        """Return the divergences of the Gaussian mechanism at orders where they are a bound; inf elsewhere."""
        return counts if self.within_gaussian else np.where(orders >= 1, counts, np.inf)

    def scaled(self, factor: float) -> PowerDivergence:
        """Return an estimate, not a bound, for a record that moves counts by ``factor`` times as many deviations."""
        return replace(
            self, orders=0.5 + (self.orders - 0.5) / factor, values=self.values * factor**2, shift=self.shift * factor
        )

    def renyi(self, orders: Array) -> Array:
        """Return upper bounds on the Rényi divergences D_a [nats] at orders a > 1, shape as given."""
        with np.errstate(over="ignore", invalid="ignore"):
            counts = orders * (self.shift * self.shift / 2) * (1 + 8 * ULP)
            divergences = np.log1p(orders * (orders - 1) * self.at(orders) * (1 + 8 * ULP)) / (orders - 1)
        return upper_bound(divergences * (1 + 16 * ULP * orders / (orders - 1)), counts)


def gaussian_counts(shift: float, *, within_gaussian: bool = True) -> PowerDivergence:
    """Return the power divergence of a Gaussian mechanism with shift μ > 0: noisy counts, not labels."""
    orders = np.array([0.5])
    return PowerDivergence(orders, gaussian_divergence(shift, orders), shift, "noisy counts", within_gaussian)


def gaussian_divergence(shift: float, orders: Array) -> Array:
    """Return H_a = (e^(a(a−1)μ²/2) − 1)/(a(a−1)) of the Gaussian mechanism, shift μ, rounded up; inf on overflow."""
    half = shift * shift / 2
    with np.errstate(over="ignore", invalid="ignore"):
        product = orders * (orders - 1)
        safe = np.where(np.abs(product) < NEAR_ONE, NEAR_ONE, product)  # H grows with a(a−1)
        return upper_bound(np.expm1(safe * half) / safe * (1 + 16 * ULP * (1 + np.abs(safe) * half)))


def loss_term(losses: Array, orders: Array) -> Array:
    """Return χ_a(ℓ), rounded up; both arguments broadcast; orders are ≥ ½ and not within 1e-3 of 1."""
    if _orders_are_last(losses, orders):
        return np.moveaxis(loss_term(losses[np.newaxis, ..., 0], _first(orders, losses)), 0, -1)
    b = orders - 1
    with np.errstate(over="ignore", invalid="ignore"):
        towards, ulps = _power_changes(losses, b)
        away = np.expm1(losses)
        # The first-order parts cancel: charged are 8 ulps of each, exponent included, and more for powers.
        scale = 1 / (orders * b)
        charge = np.abs(losses) * (ulps * np.abs(b * scale) * ULP) + ulps * np.abs(scale) * ULP
        charge *= np.abs(towards)
        charge += (8 * ULP * np.abs(away) * (1 + np.abs(losses))) / orders
        towards += away * b
        towards *= scale
        charge += towards
        return upper_bound(charge)


def largest_loss_term(low: Array, high: Array, orders: Array) -> Array:
    """Return the largest χ_a(ℓ) of losses in a range: it decreases up to ℓ = 0 and increases from there."""
    found = loss_term(np.where(high <= 0, low, high), orders)
    through = ~(low >= 0) & (high > 0)  # either end may be the maximum; also for NaN
    if not through.any():
        return found
    rows = np.flatnonzero(through) if low.ndim == 2 and low.shape[1] == 1 else ...
    found[rows] = np.maximum(found[rows], loss_term(low[rows], orders))
    return found


def loss_gradients(losses: Array, orders: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return A and A + B at ℓ, where A = ∂/∂p and B = ∂/∂q of p·χ_a(ln(q/p)), each with a bound on its error.

    A = (e^(−(a−1)ℓ) − 1)/(a−1) decreases with ℓ and vanishes at 0; A + B = A + (1 − e^(−aℓ))/a is ≤ 0, increases up to
    ℓ = 0 and decreases from there: on an interval the absolute value of either is largest at an end.
    """
    if _orders_are_last(losses, orders):
        found = loss_gradients(losses[np.newaxis, ..., 0], _first(orders, losses))
        (first, error), (both, more) = ((np.moveaxis(each, 0, -1) for each in pair) for pair in found)
        return (first, error), (both, more)
    b = orders - 1
    with np.errstate(over="ignore", invalid="ignore"):
        (first, ulps), (second, more) = (_power_changes(losses, factors) for factors in (b, orders))
        first *= 1 / b
        second *= -1 / orders
        both = first + second
        scale = np.abs(losses) * (orders * (ulps + more) * ULP) + (ulps + more) * ULP
        error = np.abs(first) * scale
        return (first, error), (both, error + np.abs(second) * scale)


def _orders_are_last(losses: Array, orders: Array) -> bool:
    """Return whether there are several orders for each loss; then orders are the first axis, and powers follow them."""
    return (
        orders.ndim == 1 and orders.size >= MIN_CHAIN and losses.ndim > 1 and losses.size == len(losses) >= MIN_LOSSES
    )


def _first(orders: Array, losses: Array) -> Array:
    return orders.reshape(-1, *[1] * (losses.ndim - 1))


def _power_changes(losses: Array, factors: Array) -> tuple[Array, Array]:
    """Return e^(−fℓ) − 1, both arguments broadcast, and its error in ulps of it times 1 + |fℓ|."""
    if factors.ndim < 2 or not len(factors) == factors.size >= MIN_CHAIN:
        return np.expm1(-factors * losses), np.array(8.0)
    # With evenly spaced factors each power follows from the previous one: e^(x+y) − 1 = (e^x − 1) + e^x·(e^y − 1), x
    # and y of one sign. A step adds less than 5 ulps of the largest so far, which is the last.
    losses = losses[0]
    changes, ulps = np.empty((factors.size, *losses.shape)), np.empty(factors.shape)
    step, change, steps, before = math.nan, losses, 0, -math.inf
    for place, factor in enumerate(factors.ravel().tolist()):
        gap = factor - before
        if before <= 0 or steps == MAX_CHAIN:
            np.expm1(-factor * losses, out=changes[place])
            steps = 0
        else:
            if not abs(gap - step) <= GAP_ERROR * step:
                step, change = gap, np.expm1(-gap * losses)
            # The gaps of the stored factors differ by ulps.
            exact = change if gap == step else change + (1 + change) * ((step - gap) * losses)
            np.multiply(changes[place - 1] + 1, exact, out=changes[place])
            changes[place] += changes[place - 1]
            steps += 1
        ulps[place], before = 8 + 5 * steps, factor
    return changes, ulps
