"""Moments accountant of noisy votes: SAA, DPBag- and DPBag.

With Laplace noise of scale k/λ on the counts of k partitions, a record that moves at most k·m votes
from and to a class changes the counts by at most 2km in l₁, so one query is 2λm-private (pure), so
its moment of order l is at most 2λ²m²·l(l+1). All orders share the factor l(l+1): one number per
record, the *weight* S = Σ over queries of m², is the whole state, and

    ε = min over l of 2λ²·S·(l+1) + ln(1/δ)/l.

SAA and DPBag- take m = 1, so S is the number of queries and nothing depends on data.

Source: Jordon, Yoon, van der Schaar, "Differentially private bagging", Theorems 1 to 4; moments to
(ε, δ): Abadi et al. 2016, Theorem 2.

*Per instance*: the privacy loss of each single record of DPBag, given how its own teachers voted.

A record u sits in one chunk of each of k partitions. If its k teachers' votes on a query are spread
over the classes, the noise hides them better: m(x;u) = 1 − min_c (their share of class c), over all
classes, and the query is 2λm-private for the pair "this dataset, this dataset without u".

**What this proves, and what it does not.** The source claims (ε, δ)-differential privacy from the
largest of these losses. That does not follow: they are computed at one dataset, and the maximum over
datasets is m = 1. What is proved is *per-instance* privacy, for a number of labels fixed in advance
and queries not chosen from the data, so these functions return a `PerInstanceLoss`. Releasing it, or
stopping by it, leaks: `dpbag.leaking_stop` carries the counterexample.

New records (neighbours that add one) would enter chunks that the source fixes as the last of each
partition; where placement is by hash or by chance they may enter any, and the sound loss then takes
for each class the partitions with *some* chunk voting otherwise (star rule ``adversarial``).

Source: Jordon, Yoon, van der Schaar, "Differentially private bagging", Section 3, Theorems 4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.bagging import Adjacency
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.vote_noise import positive_fraction
from darrm_opt.noise import check_unmasked
from darrm_opt.rounding import GUARD, float_above, multiple_up
from darrm_opt.teachers import Partition, checked_chunks

Array = NDArray[np.float64]

ORDERS = range(1, 81)  # orders l at which moments are kept (the authors' choice, L = 80)


@dataclass(frozen=True)
class PerInstanceLoss:
    """How well this one dataset is hidden among its neighbours; **not differential privacy**.

    The number is computed from the private data and holds for that dataset only. It, and any decision based on it, can
    reveal a record: show it to the data's owner alone.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency  # the neighbours it holds for
    basis: str  # the theorem it rests on

    @property
    def warning(self) -> str:
        """Why this must not be published, as one sentence."""
        return (
            "This loss was computed from the private data and holds for this dataset only: it is not differential "
            "privacy, and publishing it, or anything that depends on it, can reveal a record."
        )


def pure_epsilon(lam: float, n_queries: int = 1) -> float:
    """Return ε of ``n_queries`` noisy votes at δ = 0, rounded up: 2λ each.

    Source: Jordon et al., Theorem 1 (k votes may move, so k leave a class and k join another: 2k).

    >>> pure_epsilon(0.25)
    0.5
    """
    lam = checked_lam(lam)
    n_queries = whole_number(n_queries, "n_queries", "a whole number, at least 0", least=0)
    return multiple_up(2 * n_queries, lam)


def moment_increment(lam: float, order: float, m: float = 1.0) -> float:
    """Return the bound on the moment of order ``order`` of one query: 2λ²m²·l(l+1).

    Source: Jordon et al., Theorems 4 and 5; ε₀-DP has ε₀²/2-zCDP (Bun, Steinke 2016), ε₀ = 2λm.

    >>> moment_increment(0.5, 1)
    1.0
    """
    lam = checked_lam(lam)
    m = real_number(m, "m", "a spread in [0, 1]", least=0, most=1)
    order = float(checked_orders([order])[0])
    return 2 * lam * lam * m * m * order * (order + 1)


def moments_epsilon(weight: float, lam: float, delta: float, orders: Iterable[float] = ORDERS) -> float:
    """Return ε after queries of total ``weight`` S: the papers' accountant, rounded up.

    Source: Jordon et al., Theorems 2 to 4, with the common factor l(l+1) taken out.

    >>> round(moments_epsilon(264, 0.008, 1e-3), 4)
    1.0003
    """
    weight = real_number(weight, "weight", "a finite number, at least 0", least=0, below=math.inf)
    lam, log_delta = checked_lam(lam), log_one_over(delta)
    l = checked_orders(orders)
    if weight == 0:
        return 0.0
    return float(np.min(2 * lam * lam * weight * (l + 1) + log_delta / l)) * GUARD


def saa_label_budget(epsilon: float, delta: float, lam: float, *, orders: Iterable[float] = ORDERS) -> int:
    """Return how many labels SAA or DPBag- can release within (ε, δ), by the papers' accountant.

    The number depends on public parameters only, so it may be fixed in advance and published. It never
    overspends; for the rule as printed in the source, which does, see `dpbag.overspending_label_count`.

    >>> saa_label_budget(1.0, 1e-3, 2 / 250)
    263
    """
    epsilon = checked_epsilon(epsilon)
    lam, log_delta = checked_lam(lam), log_one_over(delta)
    l = checked_orders(orders)
    budget = max(0, math.floor(float(np.max((epsilon - log_delta / l) / (2 * lam * lam * (l + 1))))) + 1)
    while budget and moments_epsilon(budget, lam, delta, l) > epsilon:
        budget -= 1  # from one above the real solution: the accountant itself decides
    return budget


def epsilon_floor(delta: float, orders: Iterable[float] = ORDERS) -> float:
    """Return the ε below which the moments accountant affords nothing: ln(1/δ) over the largest order [nats].

    >>> round(epsilon_floor(1e-3), 5)
    0.08635
    """
    return log_one_over(delta) / float(checked_orders(orders).max())


def saa_lam_for(n_labels: int, epsilon: float, delta: float, *, orders: Iterable[float] = ORDERS) -> float:
    """Return the largest λ (least noise) at which ``n_labels`` labels cost at most (ε, δ), rounded down.

    >>> round(saa_lam_for(100, 1.0, 1e-5), 6)
    0.010201
    """
    n_labels = whole_number(n_labels, "n_labels", "a number of labels, at least 1")
    epsilon, log_delta = checked_epsilon(epsilon), log_one_over(delta)
    l = checked_orders(orders)
    lam_squared = float(np.max((epsilon - log_delta / l) / (2 * n_labels * (l + 1))))
    if lam_squared <= 0:
        accepted = f"more than {epsilon_floor(delta, l):.6g} nats, which ln(1/delta) over the largest order costs"
        raise InvalidInput("epsilon", epsilon, accepted, "Raise epsilon or delta, or allow larger orders.")
    lam = math.sqrt(lam_squared)
    while moments_epsilon(n_labels, lam, delta, l) > epsilon:
        lam *= 1 - 2.0**-45
    return lam


def checked_orders(orders: Iterable[float]) -> Array:
    """Return the orders as an array; at least one, each a finite number ≥ 1."""
    values = list(orders)
    if not values or not all(math.isfinite(l) and l >= 1 for l in values):
        raise InvalidInput("orders", values, "at least one order, each a finite number, at least 1")
    return np.array(values, dtype=np.float64)


def checked_lam(lam: float) -> float:
    """Return λ, a positive finite number."""
    return float(positive_fraction(lam, "lam"))


def checked_epsilon(epsilon: float) -> float:
    """Return ε [nats], positive and finite."""
    return real_number(epsilon, "epsilon", "a positive finite number of nats", above=0, below=math.inf)


def log_one_over(delta: float) -> float:
    """Return ln(1/δ) for δ in (0, 1) [probability]."""
    accepted, advice = "a probability strictly between 0 and 1", "At delta = 0 use `pure_epsilon`."
    return -math.log(real_number(delta, "delta", accepted, above=0, below=1, advice=advice))


StarRule = Literal["adversarial", "last_chunk"]
IntArray = NDArray[np.int64]

_BLOCK = 4_000_000
"""Entries of the largest intermediate array, (records × partitions × queries), kept in memory at once."""


def spread_floor(n_partitions: int, n_classes: int) -> float:
    """Return the least possible m: 1 − ⌊k/C⌋/k; 1 when there are fewer partitions than classes.

    The source states 1 − 1/C, which is this where C divides k.

    >>> spread_floor(50, 2)
    0.5
    """
    k = whole_number(n_partitions, "n_partitions", "a number of partitions, at least 1")
    C = whole_number(n_classes, "n_classes", "a number of classes, at least 2", least=2)
    return 1 - (k // C) / k


def vote_spread(votes: Any, chunks: Any, n_classes: int) -> NDArray[np.float64]:
    """Return m(x;u) of each record and query.

    Shape (n_records, n_queries), in [1 − ⌊k/C⌋/k, 1].

    >>> vote_spread([[[0], [1]], [[1], [1]]], [[0, 0]], 2)
    array([[0.5]])
    """
    votes, chunks = _checked_arrays(votes, chunks, n_classes)
    return np.asarray(_spread_votes(votes, chunks, n_classes) / votes.shape[0], dtype=np.float64)


def record_weights(votes: Any, chunks: Any, n_classes: int) -> list[Fraction]:
    """Return S(u) = Σ over queries of m(x;u)², exactly, for each record. Private: never publish.

    >>> record_weights([[[0, 0], [1, 1]], [[1, 1], [1, 0]]], [[0, 0], [1, 1]], 2)
    [Fraction(1, 2), Fraction(5, 4)]
    """
    votes, chunks = _checked_arrays(votes, chunks, n_classes)
    k, _, Q = votes.shape
    block_size = max(1, _BLOCK // max(1, chunks.size))
    totals = np.zeros(chunks.shape[0], dtype=np.int64)
    for start in range(0, Q, block_size):
        spread = _spread_votes(votes[:, :, start : start + block_size], chunks, n_classes)
        totals += (spread**2).sum(axis=1)
    return [Fraction(int(total), k * k) for total in totals]


def star_spread(votes: Any, n_classes: int, rule: StarRule = "adversarial") -> NDArray[np.float64]:
    """Return m(x;*) of a record not in the dataset, per query.

    ``adversarial``: whichever chunk of each partition the record enters: sound; ``last_chunk``: new records are bound
    to enter the last chunk of each, the source's rule, sound only then.
    """
    votes, _ = _checked_arrays(votes, np.zeros((1, np.shape(votes)[0]), dtype=np.int64), n_classes)
    k = votes.shape[0]
    if rule == "last_chunk":
        fewest = min_over_classes(votes[:, -1, :], n_classes)
    elif rule == "adversarial":
        # The fewest votes class c can have among one teacher of each partition: those whose every chunk votes c.
        fewest = np.min([(votes == c).all(axis=1).sum(axis=0) for c in range(n_classes)], axis=0)
    else:
        raise InvalidInput("rule", rule, "'adversarial' or 'last_chunk'")
    return np.asarray((k - fewest) / k, dtype=np.float64)


def per_instance_loss(votes: Any, partition: Partition, n_classes: int, lam: float, delta: float) -> PerInstanceLoss:
    """Return how well this dataset hides each neighbour after all the queries of ``votes``.

    Source: Jordon et al., Theorem 4, and Theorem 5 with the placement-safe m(x;*).
    """
    checked_votes(votes, partition, n_classes)
    weight = max(record_weights(votes, partition.chunks, n_classes))
    if partition.adjacency == "add_remove":
        star = star_spread(votes, n_classes, "adversarial")
        k = partition.n_partitions
        weight = max(weight, Fraction(int((np.rint(star * k).astype(np.int64) ** 2).sum()), k * k))
    epsilon = moments_epsilon(float_above(weight), lam, delta)
    return PerInstanceLoss(epsilon, delta, partition.adjacency, "DPBag, Theorems 4 and 5 at this dataset")


def record_losses(weights: list[Fraction], lam: float, delta: float) -> NDArray[np.float64]:
    """Return each record's own ε at δ from its weight S(u). Private: never publish."""
    lam, log_delta, l = checked_lam(lam), log_one_over(delta), checked_orders(ORDERS)
    S = np.array([float_above(weight) for weight in weights])[:, None]
    losses = np.min(2 * lam * lam * S * (l + 1) + log_delta / l, axis=1) * GUARD
    return np.where(S[:, 0] == 0, 0.0, losses)


def min_over_classes(votes: IntArray, n_classes: int) -> IntArray:
    """Return the votes of the least voted class, over the first axis."""
    return np.asarray(np.min([(votes == c).sum(axis=0) for c in range(n_classes)], axis=0), dtype=np.int64)


def checked_votes(votes: Any, partition: Partition, n_classes: int) -> IntArray:
    """Return votes as int64."""
    array, _ = _checked_arrays(votes, partition.chunks, n_classes)
    if array.shape[1] != partition.n_chunks:
        raise InvalidInput("votes", array.shape, f"shape ({partition.n_partitions}, {partition.n_chunks}, n_queries)")
    return array


def _spread_votes(votes: IntArray, chunks: IntArray, n_classes: int) -> IntArray:
    """Return k·m, shape (n_records, n_queries): whole numbers, so sums of squares are exact."""
    k = votes.shape[0]
    own: IntArray = votes[np.arange(k)[:, None], chunks.T]  # (k, n_records, n_queries): each record's own teachers
    return np.asarray(k - min_over_classes(own, n_classes), dtype=np.int64)


def _checked_arrays(votes: Any, chunks: Any, n_classes: int) -> tuple[IntArray, IntArray]:
    n_classes = whole_number(n_classes, "n_classes", "a number of classes, at least 2", least=2)
    check_unmasked(votes, "votes")
    array = np.asarray(votes)
    if array.ndim != 3 or 0 in array.shape[:2] or array.dtype.kind not in "iu":
        raise InvalidInput("votes", votes, "whole numbers of shape (n_partitions, n_chunks, n_queries)")
    outside = array[(array < 0) | (array >= n_classes)]
    if outside.size:
        raise InvalidInput("votes", int(outside[0]), f"classes in 0..{n_classes - 1}")
    table = checked_chunks(chunks, array.shape[1])
    if table.shape[1] != array.shape[0]:
        raise InvalidInput("chunks", table.shape, f"one column for each of the {array.shape[0]} partitions of votes")
    return array.astype(np.int64), table
