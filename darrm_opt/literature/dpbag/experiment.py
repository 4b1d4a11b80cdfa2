"""Experiment with the aggregators: real teachers, one total budget, and the accuracy of the labels that each releases.

    saa       SAA: one partition, Laplace noise
    dpbag-    the same over several partitions: a record moves as many votes, the noise grows likewise
    dpbag     the labels of dpbag-, and beside them, for the data's owner alone, what each record lost
    gnmax     one partition, Gaussian noise
    optimal   γ_opt for as many voters that are not private, one record reaching one of them

The number of labels is fixed before the data are looked at, and every one of them is paid for in advance: that is the
stopping rule, and the only one here that tells nothing (`historical.leaking_stop` has the source's own).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.bagging.claims import Guarantee, PerInstanceLoss
from darrm_opt.bagging.teacher_layout import Partition, slot_partition
from darrm_opt.bagging.teachers import collect_votes, train_teachers
from darrm_opt.budgeting.sequence_design import design_sequence
from darrm_opt.literature.aggregation.gnmax import GnmaxPlan
from darrm_opt.literature.aggregation.labelling import label_pool, vote_counts
from darrm_opt.literature.aggregation.laplace_plan import LaplacePlan
from darrm_opt.literature.aggregation.per_instance import per_instance_loss, record_losses, record_weights
from darrm_opt.literature.dpbag.datasets import BundledData, teacher
from darrm_opt.literature.dpbag.historical import leaking_stop
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.randomness.source import RandomSource, SystemRandomness


@dataclass(frozen=True, eq=False)
class AggregatorResult:
    """The labels that one aggregator released.

    Attributes:
        name: which.
        labels: class numbers, shape (n_labels,).
        guarantee: (ε, δ) of all of them together.
        noise: its parameter and value.
        accuracy: share of labels that are the truth.
        expected_accuracy: the same, averaged over the noise; exact, and as private as the votes.
        loss: DPBag alone: what this dataset's worst record lost. Not differential privacy.
        records: DPBag alone: each record's own ε [nats]. Never to be published.
        leaking_labels: DPBag alone: how many labels the source's own stopping rule would have released. Likewise.
    """

    name: str
    labels: NDArray[np.int64]
    guarantee: Guarantee
    noise: tuple[str, float]
    accuracy: float
    expected_accuracy: float
    loss: PerInstanceLoss | None = None
    records: NDArray[np.float64] | None = None
    leaking_labels: int | None = None


@dataclass(frozen=True, eq=False)
class AggregatorExperiment:
    """Every aggregator on the same data within the same budget.

    Attributes:
        data: the data.
        n_chunks: teachers per partition.
        n_partitions: partitions of DPBag.
        total: the budget.
        teachers_accuracy: share of the pool on which the plain majority is right: no release.
        taught: one for each aggregator.
    """

    data: BundledData
    n_chunks: int
    n_partitions: int
    total: Privacy
    teachers_accuracy: float
    taught: tuple[AggregatorResult, ...]


def run_experiment(
    data: BundledData,
    total: Privacy,
    *,
    model: str = "naive-bayes",
    n_chunks: int = 25,
    n_partitions: int = 5,
    source: RandomSource | None = None,
) -> AggregatorExperiment:
    """Train teachers on the private records and label the whole pool by each aggregator, each within ``total``.

    Args:
        data: from `load_dataset`.
        total: (ε, δ) of all labels of one aggregator together, ε > 0 and finite, δ in (0, 1).
        model: as `datasets.teacher`.
        n_chunks: teachers per partition, an odd number avoids ties.
        n_partitions: partitions of DPBag, ≥ 1.
        source: where the chance of partitions and noise comes from; None for the operating system.

    Guarantees:
        Each aggregator's labels by themselves have its guarantee, for neighbours that replace one record. Whoever sees
        the labels of several pays for each of them.

    Raises:
        InvalidInput: a number out of range, such as more chunks than records.
        BackendUnavailable: scikit-learn is not installed.
    """
    source = source or SystemRandomness()
    Q = len(data.truth)
    partition = slot_partition(len(data.y), n_chunks, n_partitions, source=source)
    first_partition = Partition(partition.chunks[:, :1], n_chunks, partition.adjacency)  # its first
    votes = collect_votes(train_teachers(teacher(model), data.X, data.y, partition), data.pool)
    first_votes = votes[:1]
    common: dict[str, Any] = {"n_chunks": n_chunks, "n_labels": Q, "accountant": "bits"}
    saa = LaplacePlan.for_target(total, **common)
    dpbag_plan = LaplacePlan.for_target(total, n_partitions=n_partitions, **common)
    gnmax = GnmaxPlan.for_target(total, **common)

    def noisy(
        name: str, plan: LaplacePlan | GnmaxPlan, cast: Any, partition: Partition, **more: Any
    ) -> AggregatorResult:
        release = label_pool(cast, partition, plan, source=source)
        parameter = ("lambda", plan.lam) if isinstance(plan, LaplacePlan) else ("sigma", plan.sigma)
        return _result(data, name, release.labels, release.guarantee, parameter, cast, plan.noise.wins, **more)

    dpbag_minus = noisy("dpbag-", dpbag_plan, votes, partition)
    # DPBag releases what DPBag- releases; what it adds is an account that stays with the owner
    owner_fields = {
        "loss": per_instance_loss(votes, partition, 2, dpbag_plan.lam, total.delta),
        "records": record_losses(record_weights(votes, partition.chunks, 2), dpbag_plan.lam, total.delta),
        "leaking_labels": leaking_stop(
            votes, partition, 2, dpbag_plan.lam, total.epsilon, total.delta, star="none", rule="strict"
        ).n_labels,
    }
    dpbag = AggregatorResult(**{**vars(dpbag_minus), "name": "dpbag", **owner_fields})
    results = (
        _by_gamma(data, total, first_votes, n_chunks, source),
        noisy("saa", saa, first_votes, first_partition),
        dpbag_minus,
        dpbag,
        noisy("gnmax", gnmax, first_votes, first_partition),
    )
    majority = vote_counts(first_votes, 2).argmax(axis=1)
    return AggregatorExperiment(data, n_chunks, n_partitions, total, float((majority == data.truth).mean()), results)


def _by_gamma(
    data: BundledData, total: Privacy, votes: NDArray[np.int64], K: int, source: RandomSource
) -> AggregatorResult:
    """Return the labels of γ_opt made for the whole pool."""
    voters = Problem(K, Privacy(math.inf), total, affected=1)
    design = design_sequence(voters, len(data.truth), total)
    counts = vote_counts(votes, 2)
    labels = np.array([_release_bit(design.noise, int(ones), source) for ones in counts[:, 1]], dtype=np.int64)
    guarantee = Guarantee(design.total.epsilon, total.delta, "replace", "DaRRM, exact composition of bits")

    def wins(margin: int) -> float:
        chance = (1 + float(design.noise.values[(K + abs(margin)) // 2])) / 2 if margin else 0.5
        return chance if margin >= 0 else 1 - chance

    return _result(data, "optimal", labels, guarantee, ("utility", design.utility), votes, wins)


def _release_bit(noise: NoiseFunction, ones: int, source: RandomSource) -> int:
    """Release one vote: keep the majority with probability γ, exactly, else toss a fair coin."""
    from fractions import Fraction

    if 2 * ones != noise.K and source.chance(Fraction(float(noise.values[ones]))):
        return int(2 * ones > noise.K)
    return source.below(2)


def _result(
    data: BundledData,
    name: str,
    labels: NDArray[np.int64],
    guarantee: Guarantee,
    noise: tuple[str, float],
    votes: NDArray[np.int64],
    wins: Callable[[int], float],
    **more: Any,
) -> AggregatorResult:
    counts = vote_counts(votes, 2)
    right = [wins(int(count[label] - count[1 - label])) for count, label in zip(counts, data.truth, strict=True)]
    accuracy = float((labels == data.truth).mean())
    return AggregatorResult(name, labels, guarantee, noise, accuracy, float(np.mean(right)), **more)
