"""`darrm reproduce dpbag-teachers`: the aggregators on scikit-learn's own data, from Python and the shell."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from support.darrm_runner import run
from support.refusals import refused as refused_input

from darrm_opt import Privacy
from darrm_opt.errors import BackendUnavailable
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_papers.dpbag import (
    DATASETS,
    AggregatorExperiment,
    AggregatorResult,
    load_dataset,
    run_experiment,
    teacher,
)

pytest.importorskip("sklearn")

TOTAL = Privacy(3.0, 1e-3)
T, CHUNKS, PARTITIONS = 30, 15, 3


@pytest.fixture(scope="module", params=DATASETS)
def experiment(request: pytest.FixtureRequest) -> AggregatorExperiment:
    data = load_dataset(request.param, T, seed=4)
    return run_experiment(data, TOTAL, n_chunks=CHUNKS, n_partitions=PARTITIONS, source=SeededRandomnessForTestsOnly(9))


def of(experiment: AggregatorExperiment, name: str) -> AggregatorResult:
    return next(each for each in experiment.results if each.name == name)


def test_every_aggregator_labels_the_pool_within_the_budget(experiment: AggregatorExperiment) -> None:
    assert [each.name for each in experiment.results] == ["optimal", "saa", "dpbag-", "dpbag", "gnmax"]
    assert experiment.teachers_accuracy > 0.85
    for each in experiment.results:
        assert each.labels.shape == (T,)
        assert set(each.labels.tolist()) <= {0, 1}
        assert 0.98 * TOTAL.epsilon <= each.guarantee.epsilon <= TOTAL.epsilon
        assert each.guarantee.delta == TOTAL.delta
        assert each.guarantee.adjacency == "replace"
        deviation = (each.expected_accuracy * (1 - each.expected_accuracy) / T) ** 0.5
        assert abs(each.accuracy - each.expected_accuracy) < 4 * deviation
        assert each.accuracy == pytest.approx(np.mean(each.labels == experiment.data.truth))
        assert each.expected_accuracy > 0.7


def test_only_dpbag_has_losses_of_records_and_they_stay_with_the_owner(experiment: AggregatorExperiment) -> None:
    dpbag, minus = of(experiment, "dpbag"), of(experiment, "dpbag-")
    assert dpbag.labels.tolist() == minus.labels.tolist()
    assert dpbag.guarantee == minus.guarantee
    assert dpbag.loss is not None
    assert dpbag.records is not None
    assert dpbag.leaking_labels is not None
    assert dpbag.records.shape == (len(experiment.data.y),)
    assert dpbag.records.max() == pytest.approx(dpbag.loss.epsilon)
    assert 0 < dpbag.records.min() < dpbag.records.max()
    assert 0 < dpbag.leaking_labels < T  # by the moments accountant, which charges more than the bits
    for each in experiment.results:
        assert (each.loss is None) == (each.records is None) == (each.name != "dpbag")


def test_the_split_keeps_private_and_public_apart() -> None:
    data, other = load_dataset("digits", 50, seed=1), load_dataset("digits", 50, seed=2)
    assert (len(data.y), len(data.truth)) == (306, 50)
    assert len(load_dataset("breast-cancer", 50).y) == 519
    assert not {tuple(row) for row in data.X.tolist()} & {tuple(row) for row in data.pool.tolist()}
    assert data.truth.tolist() != other.truth.tolist()
    assert data.truth.tolist() == load_dataset("digits", 50, seed=1).truth.tolist()


def test_the_optimum_is_at_least_as_useful_as_what_is_drawn_for_the_others(experiment: AggregatorExperiment) -> None:
    """For votes that nobody has looked at; on these very votes it may differ by a little."""
    best = of(experiment, "optimal").expected_accuracy
    assert best > max(of(experiment, name).expected_accuracy for name in ("saa", "dpbag-", "gnmax")) - 0.02


def test_from_the_command_line() -> None:
    answer = json.loads(run("reproduce", "dpbag-teachers", "--quick", "--json").stdout)
    assert answer["settings"] == {"labels": 6, "teachers": 5, "partitions": 2, "seed": 0}
    accuracy, losses = (table["rows"] for table in answer["tables"])
    names = ["majority, not private", "optimal", "saa", "dpbag-", "dpbag", "gnmax"]
    assert [(each["data"], each["aggregator"]) for each in accuracy] == [
        (data, name) for data in DATASETS for name in names
    ]
    assert all(each["ε spent"] <= 2 for each in accuracy if each["noise"])
    for each in losses:
        assert 0 < each["least"] <= each["median"] <= each["largest"]


def test_without_scikit_learn_the_way_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'darrm-opt\[sklearn\]'"):
        load_dataset("digits", 5)
    with refused_input("model", "'oracle'"):
        teacher("oracle")
