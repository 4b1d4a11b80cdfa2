"""Unsound steps of the DPBag paper: kept to reproduce its tables, under names that say so.

Nothing here returns a `Guarantee`. Each function returns an `UnsoundClaim`, or carries
``overspending``, ``leaking`` or ``truncating`` in its name, with the counterexample beside it. What to
use instead: `moments_accountant.saa_label_budget`, `laplace_plan.LaplacePlan`, `teacher_layout.slot_partition`.

Source: Jordon, Yoon, van der Schaar, "Differentially private bagging", Algorithm 1 and its released
settings (λ = 2/n_chunks, l = 1..80; the printed label counts are those of δ = 1e-3, not of the printed 1e-5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.bagging.guarantee import UnsoundClaim
from darrm_opt.bagging.teacher_layout import Partition
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.labelling import vote_counts
from darrm_opt.literature.aggregation.moments_accountant import (
    ORDERS,
    checked_epsilon,
    checked_lam,
    checked_orders,
    log_one_over,
    moments_epsilon,
)
from darrm_opt.literature.aggregation.per_instance import checked_votes, star_spread, vote_spread
from darrm_opt.mechanisms.vote_noise import LaplaceNoise, noisy_argmax
from darrm_opt.problem import whole_number
from darrm_opt.randomness import RandomSource, SystemRandomness

Star = Literal["none", "last_chunk", "adversarial"]

OVERSPENDS = "The loop tests its budget before a query, so the last query is released without being paid for."
LEAKS = (
    "The number of labels depends on the private data: where teachers split, more labels are released than where they "
    "agree, and whoever sees that number (a student that memorises shows it) learns about a record. The losses it "
    "is based on hold at one dataset only, so the claimed (epsilon, delta) is not differential privacy."
)


def overspending_label_count(epsilon: float, delta: float, lam: float, *, orders: Iterable[float] = ORDERS) -> int:
    """Return the number of labels of SAA and DPBag- as the source counts them: with the query that crosses ε.

    It exceeds `moments_accountant.saa_label_budget` by 1, and costs more than ε: at λ = 2/250, δ = 1e-3 the published
    264 labels cost ε = 1.0003 where 1 was allowed.

    >>> overspending_label_count(1, 1e-3, 2 / 250)
    264
    """
    epsilon, lam, log_delta = checked_epsilon(epsilon), checked_lam(lam), log_one_over(delta)
    l = checked_orders(orders)
    return max(1, math.ceil(float(np.max((epsilon - log_delta / l) / (2 * lam * lam * (l + 1))))))


@dataclass(frozen=True)
class LeakingStop:
    """Where DPBag's data-dependent loop ends."""

    n_labels: int  # number of labels: depends on the private data
    claim: UnsoundClaim  # what the source would report, and what is wrong with it


def leaking_stop(
    votes: Any,
    partition: Partition,
    n_classes: int,
    lam: float,
    epsilon: float,
    delta: float,
    *,
    star: Star = "last_chunk",
    rule: Literal["paper", "strict"] = "paper",
    orders: Iterable[float] = ORDERS,
) -> LeakingStop:
    """Return where DPBag stops when it stops by its data-dependent ε̂: **not private, whatever the star rule**.

    Counterexample: one chunk, two partitions, λ = 0.04, ε = 1, δ = 1e-3. On D the two teachers always
    disagree (m = ½), without record u they agree (m = 1): 43 labels against 11.

    ``star``: how a new record is accounted: not at all (the released code), as entering the last chunks (Algorithm 1),
    or wherever it hurts most. ``rule``: ``paper`` counts the query that reaches ε; ``strict`` ends before ε is
    exceeded.

    Source: Jordon et al., Algorithm 1.
    """
    votes = checked_votes(votes, partition, n_classes)
    epsilon = checked_epsilon(epsilon)
    k = partition.n_partitions
    if rule not in ("paper", "strict"):
        raise InvalidInput("rule", rule, "'paper' or 'strict'")
    spreads = [vote_spread(votes, partition.chunks, n_classes)]
    if star != "none":
        spreads.append(star_spread(votes, n_classes, star)[None, :])
    squares = np.rint(np.concatenate(spreads) * k).astype(np.int64) ** 2
    weights = np.cumsum(squares, axis=1).max(axis=0) / (k * k)  # S of the worst record after each query
    spent = np.array([moments_epsilon(float(S), lam, delta, orders) for S in weights])
    strict_count = int((spent <= epsilon).sum())  # ε̂ never falls
    paper_count = min(int((spent < epsilon).sum()) + 1, spent.size)
    n_labels = paper_count if rule == "paper" else strict_count
    claimed_epsilon = float(spent[n_labels - 1]) if n_labels else 0.0
    why = f"{OVERSPENDS} {LEAKS}" if rule == "paper" else LEAKS
    return LeakingStop(n_labels, UnsoundClaim(claimed_epsilon, delta, "DPBag, Algorithm 1 and Theorem 6", why))


def leaking_labels(
    votes: Any,
    partition: Partition,
    n_classes: int,
    lam: float,
    epsilon: float,
    delta: float,
    *,
    star: Star = "last_chunk",
    source: RandomSource | None = None,
) -> tuple[NDArray[np.int64], LeakingStop]:
    """Return the labels that the paper's DPBag would release, and where it stopped; **their number is not private**.

    For experiments that reproduce the source. To release labels use `labelling.label_pool`.
    """
    votes = checked_votes(votes, partition, n_classes)
    stop = leaking_stop(votes, partition, n_classes, lam, epsilon, delta, star=star)
    noise = LaplaceNoise(partition.n_partitions / Fraction(checked_lam(lam)))
    source = source or SystemRandomness()
    counts = vote_counts(votes[:, :, : stop.n_labels], n_classes)
    return np.array([noisy_argmax(count, noise, source) for count in counts], dtype=np.int64), stop


def truncating_partition(n_records: int, n_chunks: int) -> list[NDArray[np.int64]]:
    """Return chunks of ⌊n/n_chunks⌋ consecutive records, the remainder dropped: the released code's split.

    **Not private for neighbours that add or remove a record.** Where n_chunks divides n, removing one record shortens
    and so shifts every chunk: all teachers change, not one per partition, and the noise is n_chunks times too small.

    >>> [chunk.tolist() for chunk in truncating_partition(6, 3)]
    [[0, 1], [2, 3], [4, 5]]
    >>> [chunk.tolist() for chunk in truncating_partition(5, 3)]
    [[0], [1], [2]]
    """
    n_records = whole_number(n_records, "n_records", "a number of records, at least 1")
    size = n_records // whole_number(n_chunks, "n_chunks", "a number of chunks, at least 1")
    return [np.arange(i * size, (i + 1) * size) for i in range(n_chunks)]
