"""Teachers: one model per chunk, trained on that chunk and on nothing else.

Any estimator with scikit-learn's ``fit(X, y)`` and ``predict(X)`` serves; scikit-learn itself is not
imported. A teacher's randomness depends on its place (partition, chunk) alone, so that changing a
record changes only the teachers that see it. For the same reason scaling, feature selection and the
like belong *inside* the estimator (a pipeline), never before the split.

An estimator that raises on some chunk tells its owner about the data there: the error goes to whoever
trains, so train where the data may be seen.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from darrm_opt.bagging.teacher_layout import Partition
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import whole_number


class Estimator(Protocol):
    """What a teacher must be able to do, as scikit-learn's classifiers."""

    def fit(self, X: Any, y: Any) -> Any:
        """Train on records X and labels y."""

    def predict(self, X: Any) -> Any:
        """Return a label for each row of X."""


@dataclass(frozen=True)
class ConstantVote:
    """The teacher of a chunk with nothing to learn from: empty (votes the first class) or of one class."""

    label: Any

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the one label for each row of X."""
        return np.full(np.shape(X)[0], self.label)


def train_teachers(
    estimator: Estimator | Callable[[], Estimator],
    X: Any,
    y: Any,
    partition: Partition,
    *,
    classes: Sequence[Any] = (0, 1),
    seed: int = 0,
) -> list[list[Any]]:
    """Return the teachers, ``[partition][chunk]``.

    ``classes`` is a public list: taken from the data it would tell which classes occur. ``seed``, public too, sets with
    the teacher's place every parameter ``random_state`` that the estimator has and is None.
    """
    classes = checked_classes(classes)
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim < 1 or X.shape[0] != partition.n_records:
        raise InvalidInput("X", X.shape, f"one row for each of the partition's {partition.n_records} records")
    if y.shape != (partition.n_records,):
        raise InvalidInput("y", y.shape, f"shape ({partition.n_records},)")
    class_numbers(y, classes, "y")
    seed = whole_number(seed, "seed", "a whole number, at least 0", least=0)
    return [
        [train_one(estimator, X, y, partition.members(j, i), classes, (seed, j, i)) for i in range(partition.n_chunks)]
        for j in range(partition.n_partitions)
    ]


def collect_votes(
    teachers: Sequence[Sequence[Any]], pool: Any, *, classes: Sequence[Any] = (0, 1)
) -> NDArray[np.int64]:
    """Return each teacher's vote on each point of a public pool.

    Shape (n_partitions, n_chunks, n_queries), positions in ``classes``. Not private: never publish. The order of the
    pool must not depend on the data.
    """
    classes = checked_classes(classes)
    votes = [[class_numbers(np.asarray(t.predict(pool)), classes, "prediction") for t in row] for row in teachers]
    return np.array(votes, dtype=np.int64)


def train_student(
    estimator: Estimator | Callable[[], Estimator], pool: Any, labels: Any, *, classes: Sequence[Any] = (0, 1)
) -> Any:
    """Return a student trained on released labels; it may be queried and published without limit (post-processing)."""
    classes = checked_classes(classes)
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or not 0 < numbers.size <= np.shape(pool)[0]:
        raise InvalidInput("labels", numbers.shape, f"between 1 and {np.shape(pool)[0]} labels, one for each point")
    X, y = np.asarray(pool)[: numbers.size], np.asarray(classes)[numbers]
    return train_one(estimator, X, y, np.arange(numbers.size), classes, (0, 0, 0))


def checked_classes(classes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the classes, at least two and all different."""
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise InvalidInput("classes", classes, "at least two different classes")
    return labels


def class_numbers(labels: NDArray[Any], classes: tuple[Any, ...], argument: str) -> NDArray[np.int64]:
    """Return the position of each label in ``classes``."""
    numbers = {label: number for number, label in enumerate(classes)}
    try:
        return np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)
    except KeyError as err:
        raise InvalidInput(
            argument, err.args[0], f"one of the classes {classes}", "List every class in classes."
        ) from err


def train_one(
    estimator: Estimator | Callable[[], Estimator],
    X: NDArray[Any],
    y: NDArray[Any],
    members: NDArray[np.int64],
    classes: tuple[Any, ...],
    place: tuple[int, int, int],
) -> Any:
    """Return one model, trained on the records ``members`` alone; constant where these are of one class or none."""
    if members.size == 0:
        return ConstantVote(classes[0])
    labels = y[members]
    if (labels == labels[0]).all():  # many classifiers refuse a single class
        return ConstantVote(labels[0])
    template: Any = estimator  # an estimator, or what makes one
    teacher = copy.deepcopy(template) if hasattr(template, "fit") and not isinstance(template, type) else template()
    if hasattr(teacher, "get_params"):
        teacher.set_params(**random_states(teacher, place))
    teacher.fit(X[members], labels)
    return teacher


def random_states(estimator: Any, place: tuple[int, int, int]) -> dict[str, int]:
    """Return a value for each parameter ``random_state`` of an estimator that is None, decided by its place alone."""
    state = int(np.random.SeedSequence(place).generate_state(1)[0])
    parameters = estimator.get_params().items()
    return {name: state for name, value in parameters if name.split("__")[-1] == "random_state" and value is None}
