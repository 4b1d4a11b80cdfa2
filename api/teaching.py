"""What aggregators released on bundled data, as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from darrm_opt.literature.dpbag.experiment import AggregatorExperiment, AggregatorResult


def taught(lesson: AggregatorExperiment) -> dict[str, Any]:
    """Return a lesson as plain data: the data, the budget, and a row for each aggregator."""
    return {
        "data": lesson.data.name,
        "records": len(lesson.data.y),
        "labels": len(lesson.data.truth),
        "teachers": lesson.n_chunks,
        "partitions": lesson.n_partitions,
        "total": {"epsilon": lesson.total.epsilon, "delta": lesson.total.delta},
        "stopping": "the number of labels is fixed before the data are looked at, and paid for in advance",
        "accuracy_without_noise": lesson.teachers_accuracy,
        "aggregators": [_aggregator(each) for each in lesson.taught],
    }


def _aggregator(each: AggregatorResult) -> dict[str, Any]:
    guarantee = each.guarantee
    told: dict[str, Any] = {
        "name": each.name,
        each.noise[0]: each.noise[1],
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "basis": guarantee.basis,
        "accuracy": each.accuracy,
        "expected_accuracy": each.expected_accuracy,
        "labels": each.labels.tolist(),
    }
    if each.loss is not None and each.records is not None:
        told["for_the_owner_only"] = {
            "warning": each.loss.warning,
            "epsilon_of_this_dataset": each.loss.epsilon,
            "epsilon_of_records": dict(
                zip(("least", "median", "largest"), np.quantile(each.records, (0, 0.5, 1)).tolist(), strict=True)
            ),
            "labels_by_the_stopping_rule_of_the_source": each.leaking_labels,
        }
    return told
