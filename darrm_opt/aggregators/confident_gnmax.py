"""Confident-GNMax: answer only where the teachers agree, and abstain otherwise.

Each query first asks whether the largest count, plus noise σ₁, reaches a threshold; only then GNMax with noise σ₂
answers. The largest count moves by r, so the check has Rényi divergence λr²/(2σ₁²); an answer costs λr²/σ₂². How many
queries are answered depends on the data, but it is released anyway (abstentions are outputs) and
capped in advance, so the sum below is fixed and the guarantee does not depend on the data.

Source: Papernot et al. 2018, Algorithm 1 (their data-dependent account of it is not offered).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.rdp import ORDERS, gaussian_rdp, rdp_epsilon
from darrm_opt.aggregators.guarantee import Guarantee
from darrm_opt.aggregators.labelling import vote_counts
from darrm_opt.aggregators.moments_accountant import log_one_over
from darrm_opt.aggregators.per_instance import checked_votes
from darrm_opt.aggregators.teacher_layout import Partition, check_teachers
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms.vote_noise import GaussianNoise, noisy_argmax, positive_fraction
from darrm_opt.problem import whole_number
from darrm_opt.randomness.source import RandomSource, SystemRandomness
from darrm_opt.rounding import GUARD

ABSTAIN = -1
"""The label of a query that is not answered."""


@dataclass(frozen=True)
class ConfidentPlan:
    """Ask ``n_queries`` queries and answer at most ``n_answers`` of them.

    Args:
        n_queries: queries, ≥ 0, fixed in advance.
        n_answers: cap on answers, ≥ 0; further queries are not asked.
        threshold: T [votes], a whole number.
        sigma_threshold: σ₁ > 0 of the check [votes].
        sigma: σ₂ > 0 of the answer [votes].
        n_chunks: teachers per partition, ≥ 1.
        n_partitions: ≥ 1: votes that one record can move.
        n_classes: ≥ 2.
        delta: δ of everything together [probability], in (0, 1).
        adjacency: as the partition's.

    Raises:
        InvalidInput: a number out of range.

    >>> ConfidentPlan(1000, 200, 200, 150.0, 40.0, n_chunks=250, delta=1e-5).guarantee.epsilon < 3
    True
    """

    n_queries: int
    n_answers: int
    threshold: int
    sigma_threshold: float
    sigma: float
    n_chunks: int
    n_partitions: int = 1
    n_classes: int = 2
    delta: float = 1e-5
    adjacency: Literal["replace", "add_remove"] = "replace"

    def __post_init__(self) -> None:
        whole_number(self.n_queries, "n_queries", "a number of queries, at least 0", least=0)
        whole_number(self.n_answers, "n_answers", "a number of answers, at least 0", least=0)
        whole_number(self.threshold, "threshold", "a whole number of votes, at least 0", least=0)
        positive_fraction(self.sigma_threshold, "sigma_threshold")
        positive_fraction(self.sigma, "sigma")
        check_teachers(self)
        log_one_over(self.delta)

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) of all checks and answers together, ε rounded up."""
        if self.n_queries == 0:
            return Guarantee(0.0, self.delta, self.adjacency, "nothing is asked")
        r = self.n_partitions
        checks = self.n_queries * gaussian_rdp(self.sigma_threshold, ORDERS, r)
        answers = min(self.n_answers, self.n_queries) * gaussian_rdp(self.sigma, ORDERS, math.sqrt(2) * r)
        epsilon, _ = rdp_epsilon((checks + answers) * GUARD, self.delta)
        return Guarantee(epsilon, self.delta, self.adjacency, "Confident-GNMax, RDP")


@dataclass(frozen=True, eq=False)
class ConfidentLabels:
    """Released answers and abstentions.

    Attributes:
        labels: class numbers or `ABSTAIN`, shape (n_asked,): the queries up to the one that used up the answers.
        guarantee: (ε, δ) of all of it.
    """

    labels: NDArray[np.int64]
    guarantee: Guarantee

    @property
    def answered(self) -> NDArray[np.int64]:
        """Query numbers that were answered."""
        return np.flatnonzero(self.labels != ABSTAIN)


def confident_labels(
    votes: Any, partition: Partition, plan: ConfidentPlan, *, source: RandomSource | None = None
) -> ConfidentLabels:
    """Release labels where the noisy largest count reaches the threshold.

    Args:
        votes: shape (n_partitions, n_chunks, n_queries), n_queries ≥ plan.n_queries.
        partition: who taught whom; must match the plan.
        plan: noise, threshold, caps and cost.
        source: where chance comes from; None for the operating system.

    Raises:
        InvalidInput: votes, partition and plan that disagree, or too few queries.
    """
    array = checked_votes(votes, partition, plan.n_classes)
    partition.check_plan(plan)
    if array.shape[2] < plan.n_queries:
        raise InvalidInput("votes", array.shape, f"at least plan.n_queries = {plan.n_queries} queries")
    source = source or SystemRandomness()
    check, noise = GaussianNoise.of_sigma(plan.sigma_threshold), GaussianNoise.of_sigma(plan.sigma)
    labels: list[int] = []
    answers_left = plan.n_answers
    for counts in vote_counts(array[:, :, : plan.n_queries], plan.n_classes):
        if not answers_left:
            break
        if int(counts.max()) + check.draw(source) >= plan.threshold:
            labels.append(noisy_argmax(counts, noise, source))
            answers_left -= 1
        else:
            labels.append(ABSTAIN)
    return ConfidentLabels(np.array(labels, dtype=np.int64), plan.guarantee)
