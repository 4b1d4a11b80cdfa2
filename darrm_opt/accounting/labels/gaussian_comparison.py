"""Gaussian comparison: many adaptive releases cost at most one Gaussian mechanism, and a negligible δ.

Let U(x; s) be the δ at x = e^ε of the Gaussian mechanism with μ² = s, and V_n the largest δ that n adaptive releases
can
show: V_0(x) = (1 − x)₊, V_n(x) = sup over pairs of laws of Σ_c P_c·V_{n−1}(xQ_c/P_c). If the *one-step inequality*

    Σ_c P_c·U(xQ_c/P_c; s) ≤ U(x; s + t) + η    for all x ≥ 1

holds with t = t(s), then V_n ≤ U(·; s_n) + nη, where s_0 = 0 and s_n = s_{n−1} + t(s_{n−1}). It follows from a bound H
on the power divergence of the release alone. With y = ln x, a = ½ + y/s and n_s the density of the privacy loss N(s/2,
s),

    Σ_c P_c·U(xQ_c/P_c; s) − U(x; s) ≤ n_s(y)·H(a),
    U(x; s + t) − U(x; s) = n_s(y)·J(s, t, a),   J = ½ ∫_0^t √(s/(s+r))·exp(½((a−½)²·s·r/(s+r) − r/4)) dr,

so H(a) ≤ J(s, t, a) suffices for ½ ≤ a ≤ a*, and η covers the rest. J grows with s and t, so t(s) decreases with s: a
value found at one s holds for every larger one. t = μ² and η = 0 always hold for a function of a Gaussian mechanism
with shift μ; other releases start from some s_0 > 0, since U grows with s. Proofs: docs/proofs.md, "What labels cost".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np

from darrm_opt.accounting.labels.power_divergence import PowerDivergence
from darrm_opt.noise import Array
from darrm_opt.rounding import up

GRID_RATIO = 1.05
"""Ratio of neighbouring values of s/μ² at which increments are computed; in between, the one to the left holds."""

MIN_RELEASES = 2.0
"""Smallest s/μ² at which an increment is computed; below it, every release is charged as its noisy counts."""

HEAD_STARTS = (14, 22, 31, 38)
"""Candidate initial grid points s_0, 4μ² to 13μ², for releases that are not a function of a Gaussian mechanism."""

_SHARES = np.concatenate([np.linspace(0, 0.9, 360, endpoint=False), np.linspace(0.9, 1, 161)])
"""Ends of intervals of orders, as shares of [½, a*], shorter towards a*, where H is usually decisive; on each, H is
taken at its right end and J at its left end: both grow with a."""

SHIFT_INTERVALS = 16  # number of intervals of the integral J

_ENDS = np.arange(SHIFT_INTERVALS + 1.0)

MAX_EXPONENT = 600.0  # upper limit for exponents, which only lowers J

PRECISION, MAX_STEPS = 1e-6, 24
"""Relative distance of an increment from the least one, and maximum number of steps; two are usual."""

BINDING = 24  # number of the most demanding orders, which are checked in every step; all are checked at the end
DROP = 1.5e-5  # relative decrease of increments up to which grid points are skipped
ROUNDING = 1e-12  # relative charge for the rounding of H and J: sums of positive terms whose exponents are below 100


@dataclass(frozen=True)
class GaussianCost:
    """Gaussian mechanism that bounds a number of releases: their δ at ε is at most U(e^ε; ``variance``) + ``slack``."""

    variance: float  # s = μ² of the Gaussian mechanism, rounded up
    slack: float  # sum of the η, rounded up [probability]


@lru_cache(maxsize=256)
def gaussian_cost(release: PowerDivergence, releases: int, slack: float, stride: int = 1) -> GaussianCost:
    """Return the Gaussian mechanism that bounds ``releases`` adaptive releases, among any others; inf if none does.

    ``release`` bounds a family closed under swapping the neighbours. ``slack``: η of one release, > 0: smaller tails
    are not examined. ``stride``: minimum distance of used grid points; a larger one costs little more.

    Guarantees: Costs of several kinds add up, for any adaptive order of the releases: increments decrease with s, and s
    is at least what this kind alone has added to it.
    """
    if releases == 0:
        return GaussianCost(0.0, 0.0)
    if not release.shift < math.inf:
        return GaussianCost(math.inf, 0.0)
    increments = _Increments(release, slack, stride)
    # a function of noisy counts costs at most what the counts do, μ² each, without a proof and from s = 0.
    if release.within_gaussian:
        return _accumulated(0.0, release.shift**2, increments, 0, releases)
    # Other releases start from some variance. The best one depends on their number: a few are tried.
    starts = [(*increments.at(position), position + 1) for position in HEAD_STARTS]
    costs = [
        _accumulated(s, increment, increments, position, releases)
        for s, increment, position in starts
        if increment < math.inf
    ]
    return min(costs, key=lambda cost: cost.variance, default=GaussianCost(math.inf, 0.0))


class _Increments:
    """Increments t(s) on a grid of s, computed on demand; each holds at every larger s."""

    def __init__(self, release: PowerDivergence, slack: float, stride: int) -> None:
        self.release, self.slack, self.least_stride = release, slack, stride
        self._at: dict[int, tuple[float, float]] = {}
        self._knots: list[int] = []
        self._stride = stride

    def at(self, position: int) -> tuple[float, float]:
        """Return a grid point s and t(s)."""
        if position not in self._at:
            s = self.release.shift**2 * MIN_RELEASES * GRID_RATIO**position
            self._at[position] = s, _increment(self.release, s, self.slack)
        return self._at[position]

    def from_position(self, position: int) -> Iterator[tuple[float, float]]:
        """Yield the used grid points from a position on, and their increments."""
        for index in count():
            if index == len(self._knots):
                self._add_knot(position)
            if self._knots[index] >= position:
                yield self.at(self._knots[index])

    def _add_knot(self, first: int) -> None:
        if not self._knots:
            self._knots.append(first)
            return
        last, stride = self._knots[-1], self._stride
        while stride > self.least_stride and self._fall(last, stride) > 2 * DROP:  # it began to fall, or falls faster
            stride //= 2
        fall = self._fall(last, stride)
        self._knots.append(last + stride)
        self._stride = max(self.least_stride, int(min(2 * stride, stride * DROP / fall))) if fall > 0 else 2 * stride

    def _fall(self, position: int, stride: int) -> float:
        """Return the relative decrease of increments from a grid point to another."""
        increment, following = self.at(position)[1], self.at(position + stride)[1]
        return 1 - following / increment if increment < math.inf else math.inf


def _accumulated(start: float, increment: float, increments: _Increments, position: int, releases: int) -> GaussianCost:
    """Return s_n and the sum of the η, from s_0 = ``start`` with ``increment`` up to the grid point at ``position``."""
    # an increment from s_0 = 0 is that of noisy counts, and has η = 0. t(s), once proved at a grid point, holds at
    # every larger s: it may be used from there on, and only decreases.
    spent, done, charged, counts = start, 0, 0, increment
    for next_s, next_increment in increments.from_position(position):
        if spent < next_s:  # uses the increment of the previous grid point, until s passes this one
            steps = min(releases - done, math.ceil((next_s - spent) / increment))
            spent = up(spent + steps * increment, 8)
            done += steps
            charged += steps if start or increment < counts else 0
        if done >= releases:
            break
        increment = min(increment, next_increment)
    return GaussianCost(spent, up(charged * increments.slack, 4) if charged else 0.0)


def last_order(unit: float, s: float, slack: float) -> float:
    """Return a* such that n_s(y)·H(a) ≤ ``slack`` for every a ≥ a*, at s and every larger s.

    For a release that is a function of a Gaussian mechanism.

    Source: n_s·H ≤ μ²/(2√(2πs))·exp(−s(a−1)²/2 + a(a−1)μ²/2), which decreases in a once (a−1)(s−μ²) ≥ μ²/2; with b =
    a−1 it is η at ½(s−μ²)b² − ½μ²b = ln(μ²/(2√(2πs)η)).
    """
    size = max(0.0, math.log(unit) - math.log(8 * math.pi * s) / 2 - math.log(slack))
    half = (s - unit) / 2
    root = (unit / 2 + math.sqrt(unit * unit / 4 + 4 * half * size)) / (2 * half)
    # Above the root's own rounding: a* must not be too small.
    return 1 + root * (1 + 1e-9)


def gaussian_increase(s: float, t: float, orders: Array) -> Array:
    """Return J(s, t, a) at each order, rounded down.

    On each of `SHIFT_INTERVALS` the integrand's logarithm is −½ ln(1 + r/s), convex, plus a concave function of r. The
    first is bounded by its tangent in the middle, the second by its chord; and the mean of an exponential of a linear
    function is at least its value in the middle.
    """
    r = _ENDS * (t / SHIFT_INTERVALS)
    middle, bend = (r[1:] + r[:-1]) / 2, s * r / (s + r)
    exponent = np.multiply.outer((orders - 0.5) ** 2, (bend[1:] + bend[:-1]) / 4)
    exponent -= middle / 8
    np.minimum(exponent, MAX_EXPONENT, out=exponent)
    sums = np.exp(exponent, out=exponent) @ (t / SHIFT_INTERVALS / 2 / np.sqrt(1 + middle / s))
    return np.asarray(sums * (1 - ROUNDING))


def _increment(release: PowerDivergence, s: float, slack: float) -> float:
    """Return a t for which the one-step inequality holds at s and every larger s, rounded up."""
    unit = release.shift**2
    orders = 0.5 + (last_order(unit, s, slack) - 0.5) * _SHARES
    divergences, orders = release.at(orders[1:]) * (1 + ROUNDING), orders[:-1]
    most, otherwise = (unit, unit) if release.within_gaussian else (2 * unit, math.inf)  # counts need no proof

    # Without the curvature in r, J is √(s/(s+t/2))·(e^(ct) − 1)/(2c): a few iterations for t give the start, and the
    # most demanding orders.
    t, squares = 0.0, (orders - 0.5) ** 2
    for _ in range(3):
        c = (squares * (s / (s + t)) - 0.25) / 2
        c = np.where(np.abs(c) < 1e-9, 1e-9, c)
        needed = np.log1p(np.maximum(2 * c * divergences * math.sqrt(1 + t / s / 2), -0.5)) / c
        t = min(most, float(np.max(needed)))
    binding = np.argpartition(needed, -BINDING)[-BINDING:]
    for looked_at in (binding, slice(None)):
        t = _least_increase(divergences[looked_at], orders[looked_at], s, t, most)
        if np.all(divergences <= gaussian_increase(s, t, orders)):
            return t
    return otherwise


def _least_increase(divergences: Array, orders: Array, s: float, t: float, most: float) -> float:
    """Return nearly the least t ≤ ``most`` at which each J is at least the divergence, from above if there is one."""
    lower, upper, power = 0.0, most, 1.0
    before: tuple[float, float] | None = None  # a t and its ratio
    for _ in range(MAX_STEPS):
        bounds = gaussian_increase(s, t, orders)
        # 0/0 and overflow: no divergence is within any bound, even that of zero.
        with np.errstate(divide="ignore", over="ignore"):
            ratio = float(np.divide(divergences, bounds, out=np.zeros_like(divergences), where=divergences > 0).max())
        lower, upper = (lower, t) if ratio <= 1 else (t, upper)
        if upper - lower <= PRECISION * upper or 1 - PRECISION <= ratio <= 1:
            break
        if before is not None and 0 < ratio < math.inf and before[0] != t:  # near the solution J is a power of t
            fall = math.log(before[1]) - math.log(ratio)  # the quotient of the ratios may underflow
            power = min(16.0, max(0.5, fall / math.log(t / before[0])))
        before = (t, ratio) if 0 < ratio < math.inf else None
        t *= min(ratio, 1e9) ** (1 / power) * (1 + PRECISION / 4)
        if not lower < t < upper:
            t = (lower + upper) / 2
    return upper
