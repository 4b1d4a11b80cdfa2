"""Moments of one released bit of a noisy vote between two classes, as by the accountant of the papers, but exact."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from darrm_opt.accounting.law_pairs import BitPairs, LawPairs
from darrm_opt.mechanisms.vote_noise import Kind, VoteNoise
from darrm_opt.noise import Array
from darrm_opt.rounding import GUARD
from darrm_papers.moments_accountant import ORDERS, checked_orders, log_one_over


def noisy_vote_laws(K: int, noise: VoteNoise, affected: int = 1, kind: Kind = "discrete") -> BitPairs:
    """Return the pairs of one bit: the winner of K votes plus noise on each of two counts."""
    return BitPairs.of_noise([noise.loses(d, kind) for d in range(K % 2, K + 1, 2)], K, affected)


def law_moments(laws: LawPairs, orders: Iterable[float] = ORDERS) -> Array:
    """Return the worst moment at each order l ≥ 1: max of ln Σ_o p_o·(p_o/p′_o)^l, rounded up."""
    l = checked_orders(orders)[:, None]
    moment, size = np.full((l.size, len(laws.on_data)), -np.inf), np.full(len(laws.on_data), 4.0)
    for p, other in zip(np.log(laws.on_data).T, np.log(laws.on_neighbour).T, strict=True):
        moment = np.logaddexp(moment, p + l * (p - other))
        size -= p + other  # the error of each logarithm is a few ulps; the order multiplies it
    return np.asarray(np.max(moment + 2.0**-50 * (l + 1) * size, axis=1), dtype=np.float64)


def epsilon_from_moments(moments: Array, n_queries: int, delta: float, orders: Iterable[float] = ORDERS) -> float:
    """Return ε of ``n_queries`` queries with these moments each: min over l of (T·α(l) + ln(1/δ))/l."""
    return (
        float(np.min((n_queries * moments + log_one_over(delta)) / checked_orders(orders))) * GUARD
        if n_queries
        else 0.0
    )
