"""DPBag's per-instance accountant: the privacy loss of each single record, given how its own teachers voted.

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

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.bagging.guarantee import PerInstanceLoss
from darrm_opt.bagging.teachers import Partition, checked_chunks
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.moments_accountant import (
    ORDERS,
    checked_lam,
    checked_orders,
    log_one_over,
    moments_epsilon,
)
from darrm_opt.problem import whole_number
from darrm_opt.rounding import GUARD, float_above

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


def per_instance_loss(
    votes: Any,
    partition: Partition,
    n_classes: int,
    lam: float,
    delta: float,
    *,
    orders: Iterable[float] = ORDERS,
) -> PerInstanceLoss:
    """Return how well this dataset hides each neighbour after all the queries of ``votes``.

    Source: Jordon et al., Theorem 4, and Theorem 5 with the placement-safe m(x;*).
    """
    checked_votes(votes, partition, n_classes)
    weight = max(record_weights(votes, partition.chunks, n_classes))
    if partition.adjacency == "add_remove":
        star = star_spread(votes, n_classes, "adversarial")
        k = partition.n_partitions
        weight = max(weight, Fraction(int((np.rint(star * k).astype(np.int64) ** 2).sum()), k * k))
    epsilon = moments_epsilon(float_above(weight), lam, delta, orders)
    return PerInstanceLoss(epsilon, delta, partition.adjacency, "DPBag, Theorems 4 and 5 at this dataset")


def record_losses(
    weights: list[Fraction], lam: float, delta: float, *, orders: Iterable[float] = ORDERS
) -> NDArray[np.float64]:
    """Return each record's own ε at δ from its weight S(u). Private: never publish."""
    lam, log_delta, l = checked_lam(lam), log_one_over(delta), checked_orders(orders)
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
