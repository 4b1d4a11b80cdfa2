"""Composition of releases with a bound on their power divergence: by Rényi divergences and by the Gaussian comparison.

It applies to any release with finite losses; `table_divergence` gives the bound for laws known in full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from darrm_opt.accounting.bounds import upper_bound
from darrm_opt.accounting.gaussian import gaussian_epsilon, positive_delta
from darrm_opt.accounting.labels.gaussian_comparison import gaussian_cost
from darrm_opt.accounting.labels.noisy_bit import MIN_DISTANCE_FROM_ONE
from darrm_opt.accounting.labels.power_divergence import PowerDivergence, largest_loss_term
from darrm_opt.accounting.rdp import ORDERS, rdp_epsilon
from darrm_opt.arguments import real_number, whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array, ArrayLike
from darrm_opt.rounding import ULP, up

SLACK_SHARE = 0.01  # share of δ that the Gaussian comparison reserves for tails: it costs less than 0.1 % of ε
MANY_KINDS = 8  # number of kinds of releases that get the full grid of the Gaussian comparison, in a second together

TABLE_ERROR = 2.0**-40
"""Default relative error of a probability in a table, which stands for the law that is drawn from."""

MAX_RANGE = 700.0  # largest width w of an interval of losses whose divergences are bounded: e^w is a double
RANGE_STEPS = 1000  # number of pairs that cover all ratios of a given range: the width is charged 0.1 % more
TABLE_ORDERS: Array = np.linspace(0, 6, 61)  # (a − ½)·√(2H_½) of the orders at which the bound of a table is computed
TABLE_ORDERS.setflags(write=False)

Laws = Sequence[ArrayLike] | Array  # probabilities of outcomes, one row for each law

DivergenceReleases = Sequence[tuple[PowerDivergence, int]]
"""Releases of several kinds: a bound for each of them, and their maximum number."""


def composed_epsilon(parts: DivergenceReleases, delta: float, *, stride: int = 1) -> float:
    """Return the least ε at ``delta`` that either account proves for releases in any adaptive order [nats].

    Args:
        parts: (bound, count) of each kind of release.
        delta: δ of all together [probability], in (0, 1).
        stride: of the Gaussian comparison's grid: a larger one is faster and hardly looser.

    Raises:
        InvalidInput: a value is out of range.

    >>> table = table_divergence([[0.26, 0.37, 0.37]], [[0.24, 0.38, 0.38]])
    >>> round(composed_epsilon([(table, 100)], 1e-6), 1)
    2.4
    """
    return float(upper_bound(compared_epsilon(parts, delta, stride), renyi_epsilon(parts, delta)))


def renyi_epsilon(parts: DivergenceReleases, delta: float) -> float:
    """Return ε at ``delta`` by the sum of Rényi divergences and the tight conversion."""
    kinds = _nonempty(parts)
    with np.errstate(over="ignore"):
        sums = np.sum([count * bound.renyi(ORDERS) for bound, count in kinds], axis=0)
        divergences = upper_bound(sums * (1 + 8 * (len(kinds) + 1) * ULP))
    return rdp_epsilon(divergences, delta)[0] if kinds else 0.0


def compared_epsilon(parts: DivergenceReleases, delta: float, stride: int = 1) -> float:
    """Return ε at ``delta`` by the Gaussian comparison; inf if it does not apply."""
    kinds, delta = _nonempty(parts), positive_delta(delta)
    if not kinds:
        return 0.0
    slack = SLACK_SHARE * delta / sum(count for _, count in kinds)
    if not slack:
        return math.inf  # a share of this δ underflows
    stride = max(stride, math.ceil(len(kinds) / MANY_KINDS))
    costs = [gaussian_cost(bound, count, slack, stride) for bound, count in kinds]
    rounding = 1 + 8 * len(kinds) * ULP
    variance = sum(cost.variance for cost in costs) * rounding
    delta_left = (delta - sum(cost.slack for cost in costs) * rounding) * (1 - ULP)
    return gaussian_epsilon(up(math.sqrt(variance), 2), delta_left) if variance < math.inf else math.inf


def table_divergence(on_data: Laws, on_neighbour: Laws, error: float = TABLE_ERROR) -> PowerDivergence:
    """Return a bound on H_a of a release whose pairs of laws are all known.

    Args:
        on_data: probabilities of the outcomes, one row for each pair of neighbours, shape (pairs, outcomes).
        on_neighbour: the same on the neighbours, same shape. The pairs are used in both orders.
        error: relative error of each probability, ≥ 0.

    Returns:
        The largest H_a over the pairs. Beyond the last computed order it is that of an L-private release, L the largest
        loss: D_a ≤ aL²/2.

    Raises:
        InvalidInput: shapes that differ, a value outside [0, 1], or an outcome that is possible on only one of two
            neighbours: its loss is infinite.

    Source: Bun, Steinke 2016, Proposition 3.3, for the orders beyond.
    """
    p, q = np.asarray(on_data, dtype=np.float64), np.asarray(on_neighbour, dtype=np.float64)
    if p.ndim != 2 or p.shape != q.shape or not p.size:
        raise InvalidInput("on_neighbour", q.shape, f"as many laws as on_data, shape (pairs, outcomes), not {p.shape}")
    for name, laws in (("on_data", p), ("on_neighbour", q)):
        if not np.all((laws >= 0) & (laws <= 1)):
            raise InvalidInput(name, laws.tolist(), "probabilities in [0, 1]")
    if np.any((p > 0) != (q > 0)):
        raise InvalidInput(
            "on_neighbour", q.tolist(), "the same possible outcomes as on_data", "This loss is infinite."
        )
    weights = np.concatenate([p, q])
    losses = np.log(np.where(weights > 0, np.concatenate([q, p]), 1.0) / np.where(weights > 0, weights, 1.0))
    # Error of a loss: the relative errors of both probabilities (2·error to first order), and the rounding of the
    # quotient and of the logarithm.
    margin = 3 * error + 8 * ULP * (1 + float(np.max(np.abs(losses))))
    largest = float(np.max(np.abs(losses))) + margin

    def bounds(orders: Array) -> Array:
        divergences = np.zeros((weights.shape[0], orders.size))
        for outcome in range(weights.shape[1]):
            loss = losses[:, [outcome]]
            terms = largest_loss_term(loss - margin, loss + margin, orders)
            divergences += weights[:, [outcome]] * (1 + error) * terms
        return np.asarray(divergences.max(axis=0) * (1 + 16 * weights.shape[1] * ULP))

    # √(2H_½) is about the size of a loss, so the orders that decide a composed ε lie within a few of its inverses of ½.
    # Near order 1 the terms cancel, and a bound is loose.
    orders = 0.5 + TABLE_ORDERS / math.sqrt(2 * float(bounds(np.array([0.5]))[0]))
    orders = orders[np.abs(orders - 1) >= MIN_DISTANCE_FROM_ONE]
    return PowerDivergence(orders, bounds(orders), largest, "laws of all pairs", within_gaussian=False)


def bounded_range_divergence(width: float) -> PowerDivergence:
    """Return a bound on H_a of a release whose losses, on each pair of neighbours, lie in an interval of given width.

    The exponential mechanism is such a release: e^(t·n_c) changes by a factor in [e^−tr, e^tr] if a record moves r
    votes, and the sum of all by the same factor for every class, so that the width is 2tr.

    Args:
        width: w > 0 [nats], up to `MAX_RANGE`: the length of the interval, whose position may depend on the pair.

    Raises:
        InvalidInput: the width is out of range.

    Source: Dong, Durfee, Rogers 2020. Ours: if the ratios P_c/Q_c are in [l, u], Pr[c | high] ∝ P_c − l·Q_c and
    Pr[c | low] ∝ u·Q_c − P_c draw the outcome from one of two, whose ratios are u and l: so those two dominate. Pairs
    (l, u) with u = e^s, l = e^(s−w), 0 ≤ s ≤ w, are covered by `RANGE_STEPS` pairs of ratios that are one step further
    apart.

    >>> round(float(bounded_range_divergence(1.0).renyi(np.array([2.0]))[0]), 2)
    0.24
    """
    width = real_number(width, "width", f"a number of nats above 0, at most {MAX_RANGE:g}", above=0, most=MAX_RANGE)
    steps = np.arange(RANGE_STEPS // 2 + 1) * (width / RANGE_STEPS)  # the others are the mirror images of these
    upper, lower = np.expm1(steps[1:]), np.expm1(steps[:-1] - width)  # ratios − 1
    spread = upper - lower
    q = np.stack([-lower / spread, upper / spread], axis=1)
    p = np.stack([q[:, 0] * np.exp(steps[1:]), q[:, 1] * np.exp(steps[:-1] - width)], axis=1)
    return table_divergence(np.minimum(p, 1.0), q)


def _nonempty(parts: DivergenceReleases) -> list[tuple[PowerDivergence, int]]:
    return [
        (bound, count)
        for bound, count in parts
        if whole_number(count, "count", "a whole number of releases, at least 0", least=0)
    ]
