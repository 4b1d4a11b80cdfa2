"""Aggregation in one piece: split, train teachers, vote, add noise, release labels.

The number of labels is part of the plan and so fixed before the data are looked at; nothing that is
released besides the labels depends on the data. Votes, counts and per-record losses stay inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from darrm_opt.bagging.guarantee import Guarantee
from darrm_opt.bagging.teachers import Estimator, Partition, TeacherLayout, collect_votes, train_teachers
from darrm_opt.errors import InvalidInput
from darrm_opt.literature.aggregation.per_instance import checked_votes
from darrm_opt.mechanisms.vote_noise import VoteNoise, noisy_argmax
from darrm_opt.randomness import RandomSource, SystemRandomness


class VotePlan(TeacherLayout, Protocol):
    """What a release needs to know in advance: `LaplacePlan` (SAA, DPBag-) or `GnmaxPlan`."""

    @property
    def n_labels(self) -> int:
        """Labels to release, fixed in advance."""

    @property
    def noise(self) -> VoteNoise:
        """Noise on each count."""

    @property
    def guarantee(self) -> Guarantee:
        """Privacy of all labels together."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Released labels and the privacy that they cost."""

    labels: NDArray[np.int64]  # class numbers, shape (n_labels,), for the first points of the pool
    guarantee: Guarantee  # (ε, δ) of all of them together


def label_pool(votes: Any, partition: Partition, plan: VotePlan, *, source: RandomSource | None = None) -> Labels:
    """Release noisy majority labels of the first ``plan.n_labels`` queries.

    Guarantees: ``guarantee`` holds for the labels, for neighbours as ``plan.adjacency`` says, as long as the pool and
    its order do not depend on the private data.
    """
    votes = checked_votes(votes, partition, plan.n_classes)
    partition.check_plan(plan)
    if votes.shape[2] < plan.n_labels:
        raise InvalidInput(
            "votes", votes.shape, f"at least plan.n_labels = {plan.n_labels} queries", "Plan fewer labels: n_labels=…."
        )
    source = source or SystemRandomness()
    noise = plan.noise
    counts = vote_counts(votes[:, :, : plan.n_labels], plan.n_classes)
    labels = np.array([noisy_argmax(count, noise, source) for count in counts], dtype=np.int64)
    return Labels(labels, plan.guarantee)


def label_with_teachers(
    estimator: Estimator | Callable[[], Estimator],
    X: Any,
    y: Any,
    pool: Any,
    partition: Partition,
    plan: VotePlan,
    *,
    classes: Sequence[Any] = (0, 1),
    source: RandomSource | None = None,
) -> Labels:
    """Train a teacher per chunk of private data and release their noisy majority labels of a public pool.

    Source: Jordon, Yoon, van der Schaar, Algorithm 1 with the number of labels fixed in advance.
    """
    if len(classes) != plan.n_classes:
        raise InvalidInput("classes", classes, f"plan.n_classes = {plan.n_classes} classes")
    points = np.asarray(pool)[: plan.n_labels]
    if len(points) < plan.n_labels:
        raise InvalidInput(
            "pool", np.shape(pool), f"at least plan.n_labels = {plan.n_labels} points", "Plan fewer labels."
        )
    if not len(points):
        return Labels(np.empty(0, dtype=np.int64), plan.guarantee)
    teachers = train_teachers(estimator, X, y, partition, classes=classes)
    return label_pool(collect_votes(teachers, points, classes=classes), partition, plan, source=source)


def vote_counts(votes: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Return the votes per query and class, shape (n_queries, n_classes); each row sums to the number of teachers."""
    return np.stack([(votes == c).sum(axis=(0, 1)) for c in range(n_classes)], axis=1)
