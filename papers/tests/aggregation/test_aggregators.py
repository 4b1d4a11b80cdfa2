"""SAA, DPBag-, DPBag, GNMax and bagged voters on real data with real scikit-learn teachers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.errors import InvalidInput
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_opt.teachers import (
    ConstantVote,
    Partition,
    collect_votes,
    hashed_partition,
    slot_partition,
    train_teachers,
)
from darrm_papers.dpbag import vote_counts

datasets = pytest.importorskip("sklearn.datasets")
naive_bayes = pytest.importorskip("sklearn.naive_bayes")
tree = pytest.importorskip("sklearn.tree")
pipeline = pytest.importorskip("sklearn.pipeline")
preprocessing = pytest.importorskip("sklearn.preprocessing")
neighbors = pytest.importorskip("sklearn.neighbors")


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    """Scikit-learn's bundled digits, threes against eights: records, labels, public pool and its truth."""
    X, y = datasets.load_digits(return_X_y=True)
    return split(X[(y == 3) | (y == 8)], (y[(y == 3) | (y == 8)] == 8).astype(int))


def split(X: Any, y: Any) -> dict[str, Any]:
    order = np.random.default_rng(1).permutation(len(y))
    X, y = X[order], y[order]
    return {"X": X[:-100], "y": y[:-100], "pool": X[-100:], "truth": y[-100:]}


# ------------------------------------------------------------------------------------------- isolation


def all_votes(data: dict[str, Any], partition: Partition, y: Any) -> Any:
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), tree.DecisionTreeClassifier(max_depth=3, splitter="random")
    )
    return collect_votes(train_teachers(model, data["X"][: len(y)], y, partition), data["pool"])


def test_replacing_a_record_retrains_its_own_teachers_only(digits: dict[str, Any]) -> None:
    partition = slot_partition(len(digits["y"]), 10, 3, source=SeededRandomnessForTestsOnly(8))
    before = all_votes(digits, partition, digits["y"])
    other = digits["y"].copy()
    other[17] = 1 - other[17]
    after = all_votes(digits, partition, other)
    moved = {(j, i) for j, i, q in zip(*np.nonzero(before != after), strict=True) if q >= 0}
    assert moved
    assert moved <= {(j, int(partition.chunks[17, j])) for j in range(3)}


def test_removing_a_record_retrains_its_own_teachers_only(digits: dict[str, Any]) -> None:
    ids = [f"patient {i}" for i in range(len(digits["y"]))]
    before = all_votes(digits, hashed_partition(ids, 10, 3, key=b"public"), digits["y"])
    fewer = hashed_partition(ids[:-1], 10, 3, key=b"public")
    after = all_votes(digits, fewer, digits["y"][:-1])
    last = hashed_partition(ids[-1:], 10, 3, key=b"public").chunks[0]
    moved = {(int(j), int(i)) for j, i, _ in zip(*np.nonzero(before != after), strict=True)}
    assert moved <= {(j, int(last[j])) for j in range(3)}


def test_empty_and_one_sided_chunks_vote_constantly() -> None:
    X, y = np.arange(8.0)[:, None], np.array(["no", "no", "yes", "yes", "yes", "yes", "no", "yes"])
    partition = Partition([[0], [0], [1], [1], [3], [3], [3], [3]], 4, "add_remove")
    teachers = train_teachers(neighbors.KNeighborsClassifier(1), X, y, partition, classes=("no", "yes"))[0]
    assert [type(teacher) for teacher in teachers[:3]] == [ConstantVote] * 3
    votes = collect_votes([teachers], X, classes=("no", "yes"))
    assert votes[0, 0].tolist() == [0] * 8
    assert votes[0, 1].tolist() == [1] * 8
    assert votes[0, 2].tolist() == [0] * 8  # empty: the first class
    assert vote_counts(votes, 2).sum(axis=1).tolist() == [4] * 8


def test_a_factory_makes_teachers_and_seeds_follow_the_place() -> None:
    made: Counter[str] = Counter()

    def factory() -> Any:
        made["teachers"] += 1
        return tree.DecisionTreeClassifier(splitter="random")

    X, y = np.arange(20.0)[:, None], np.tile([0, 1], 10)
    partition = slot_partition(20, 2, 2, source=SeededRandomnessForTestsOnly(1))
    teachers = train_teachers(factory, X, y, partition)
    assert made["teachers"] == 4
    states = [teacher.random_state for row in teachers for teacher in row]
    assert len(set(states)) == 4
    again = train_teachers(tree.DecisionTreeClassifier(splitter="random"), X, y, partition)
    assert [teacher.random_state for row in again for teacher in row] == states
    other = train_teachers(tree.DecisionTreeClassifier(random_state=5), X, y, partition, seed=1)
    assert {teacher.random_state for row in other for teacher in row} == {5}


# ------------------------------------------------------------------------------------------- refusals


@for_each(
    ("X", "y", "classes", "message"),
    [
        ([[0.0]] * 2, [0] * 3, (0, 1), "expected one row for each of the partition's 3 records"),
        ([[0.0]] * 3, [0] * 2, (0, 1), r"expected shape \(3,\)"),
        ([[0.0]] * 3, [0, 1, 2], (0, 1), r"y = 2 is not valid: expected one of the classes \(0, 1\)"),
        ([[0.0]] * 3, [0, 1, 1], (0,), "at least two different classes"),
        ([[0.0]] * 3, [0, 1, 1], (1, 1), "at least two different classes"),
    ],
)
def test_training_is_checked(X: Any, y: Any, classes: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        train_teachers(tree.DecisionTreeClassifier(), X, y, Partition([[0]] * 3, 1, "replace"), classes=classes)


def test_predictions_are_checked() -> None:
    with refused("prediction", "7"):
        collect_votes([[ConstantVote(7)]], [[0.0]])
