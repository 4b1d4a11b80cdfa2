"""Teachers: one model per chunk of the data, trained on that chunk and nothing else.

Any estimator with scikit-learn's ``fit(X, y)`` and ``predict(X)`` works; scikit-learn itself is not imported. A
teacher's randomness depends on its place (partition, chunk) alone, so changing a record changes only the teachers that
see it. For the same reason scaling, feature selection and the like belong *inside* the estimator (a pipeline), never
before the split.

An estimator that raises on some chunk reveals something about its data to the caller, so train where the data may be
seen.

*Layout.* Every privacy proof here needs that changing one record changes only its own chunks. Two tables have this
property:

- *slots* (neighbours: one record's content replaced): record numbers are dealt to chunks at random, in balance, and
  independently of contents;
- *hashed* (neighbours: one record added or removed): a record's chunks depend on its own identifier and a key, so no
  other record moves; chunk sizes vary and a chunk may be empty.

A balanced split drawn anew for each dataset has neither; see `dpbag.truncating_partition`.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from darrm_opt.arguments import whole_number
from darrm_opt.errors import InvalidInput
from darrm_opt.noise import check_unmasked
from darrm_opt.randomness import RandomSource, SystemRandomness, shuffled


class Estimator(Protocol):
    """Interface of a teacher, as in scikit-learn's classifiers."""

    def fit(self, X: Any, y: Any) -> Any:
        """Train on records X and labels y."""

    def predict(self, X: Any) -> Any:
        """Return a label for each row of X."""


@dataclass(frozen=True)
class ConstantVote:
    """The teacher of a chunk that is empty (votes the first class) or has one class."""

    label: Any

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the same label for each row of X."""
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

    ``classes`` must be public: taken from the data they would reveal which classes occur. ``seed``, also public, and
    the teacher's place determine every parameter ``random_state`` of the estimator that is None.
    """
    classes = checked_classes(classes)
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim < 1 or X.shape[0] != partition.n_records:
        raise InvalidInput("X", X.shape, f"one row for each of the partition's {partition.n_records} records")
    if y.shape != (partition.n_records,):
        raise InvalidInput("y", y.shape, f"shape ({partition.n_records},)")
    # Before training: a label that is not public must not surface as an error of some teacher.
    class_numbers(y, classes, "y")
    seed = whole_number(seed, "seed", "a whole number, at least 0", least=0)
    is_model = hasattr(estimator, "fit") and not isinstance(estimator, type)
    make: Any = partial(copy.deepcopy, estimator) if is_model else estimator

    def teacher(j: int, i: int) -> Any:
        members = partition.members(j, i)
        return trained(make, X[members], y[members], (seed, j, i)) if members.size else ConstantVote(classes[0])

    return [[teacher(j, i) for i in range(partition.n_chunks)] for j in range(partition.n_partitions)]


def collect_votes(
    teachers: Sequence[Sequence[Any]], pool: Any, *, classes: Sequence[Any] = (0, 1)
) -> NDArray[np.int64]:
    """Return each teacher's vote on each point of a public pool, as positions in ``classes``.

    Shape (n_partitions, n_chunks, n_queries). Not private: never publish it. The order of the pool must not depend on
    the data.
    """
    classes = checked_classes(classes)

    def voted(teacher: Any) -> NDArray[np.int64]:
        predicted = teacher.predict(pool)
        check_unmasked(predicted, "prediction")
        return class_numbers(np.asarray(predicted), classes, "prediction")

    votes = [[voted(teacher) for teacher in row] for row in teachers]
    return np.array(votes, dtype=np.int64)


def checked_classes(classes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the classes, at least two and all different."""
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in classes)
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise InvalidInput("classes", classes, "at least two different classes")
    return labels


def class_numbers(labels: NDArray[Any], classes: tuple[Any, ...], argument: str) -> NDArray[np.int64]:
    """Return the position of each label in ``classes``."""
    if labels.ndim != 1:
        advice = "For probabilities, let predict return the likeliest class."
        raise InvalidInput(argument, f"shape {labels.shape}", "one class for each row", advice)
    numbers = {label: number for number, label in enumerate(classes)}
    try:
        return np.array([numbers[label] for label in labels.tolist()], dtype=np.int64)
    except KeyError as err:
        raise InvalidInput(
            argument, err.args[0], f"one of the classes {classes}", "List every class in classes."
        ) from err


def trained(make: Callable[[], Any], X: NDArray[Any], y: NDArray[Any], place: tuple[int, int, int]) -> Any:
    """Return a new model trained on these records alone, a constant if they have one class; ``place``: its seed."""
    if (y == y[0]).all():  # many classifiers refuse a single class
        return ConstantVote(y[0])
    model = make()
    if hasattr(model, "get_params"):
        model.set_params(**random_states(model, place))
    model.fit(X, y)
    return model


def random_states(estimator: Any, place: tuple[int, int, int]) -> dict[str, int]:
    """Return values, determined by the place alone, for each parameter ``random_state`` that is None."""
    state = int(np.random.SeedSequence(place).generate_state(1)[0])
    parameters = estimator.get_params().items()
    return {name: state for name, value in parameters if name.split("__")[-1] == "random_state" and value is None}


Neighbours = Literal["replace", "add_remove"]


@dataclass(frozen=True, eq=False)
class Partition:
    """A record-to-chunk table."""

    chunks: NDArray[np.int64]  # shape (n_records, n_partitions), each in 0..n_chunks−1
    n_chunks: int  # chunks per partition
    adjacency: Neighbours  # the neighbours for which one record changes only its own chunks

    def __init__(self, chunks: Any, n_chunks: int, adjacency: Neighbours) -> None:
        n_chunks = whole_number(n_chunks, "n_chunks", "a number of chunks, at least 1")
        array = checked_chunks(chunks, n_chunks).copy()
        if adjacency not in ("replace", "add_remove"):
            raise InvalidInput("adjacency", adjacency, "'replace' or 'add_remove'")
        array.setflags(write=False)
        object.__setattr__(self, "chunks", array)
        object.__setattr__(self, "n_chunks", n_chunks)
        object.__setattr__(self, "adjacency", adjacency)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.chunks.shape[0])

    @property
    def n_partitions(self) -> int:
        """Number of partitions: the number of teachers that see a given record."""
        return int(self.chunks.shape[1])

    def members(self, partition: int, chunk: int) -> NDArray[np.int64]:
        """Return the record numbers of one chunk of one partition."""
        return np.flatnonzero(self.chunks[:, partition] == chunk)


def slot_partition(
    n_records: int, n_chunks: int, n_partitions: int = 1, *, source: RandomSource | None = None
) -> Partition:
    """Deal record numbers to chunks, at random and in balance, for neighbours that replace one record.

    Privacy does not depend on ``source``.
    """
    n_records = whole_number(n_records, "n_records", "a number of records, at least 1")
    n_chunks = whole_number(n_chunks, "n_chunks", "a number of chunks, at least 1")
    n_partitions = whole_number(n_partitions, "n_partitions", "a number of partitions, at least 1")
    if n_chunks > n_records:
        raise InvalidInput("n_chunks", n_chunks, f"at most n_records = {n_records}", "A chunk would be empty.")
    source = source or SystemRandomness()
    columns = []
    for _ in range(n_partitions):
        column = np.empty(n_records, dtype=np.int64)
        # By slot, not by content: a replacing record takes the place of the replaced one and moves no other.
        column[shuffled(range(n_records), source)] = np.arange(n_records) % n_chunks
        columns.append(column)
    return Partition(np.stack(columns, axis=1), n_chunks, "replace")


def hashed_partition(
    record_ids: Sequence[Hashable] | NDArray[Any], n_chunks: int, n_partitions: int = 1, *, key: bytes
) -> Partition:
    """Send each record to chunks determined by its identifier and the key, for neighbours that add or remove a record.

    Rows with the same identifier share their chunks and are protected together. Choose the key, 1 to 64 bytes,
    independently of the records. Chunks vary in size; an empty one's teacher casts a constant vote.
    """
    n_chunks = whole_number(n_chunks, "n_chunks", "a number of chunks, at least 1")
    n_partitions = whole_number(n_partitions, "n_partitions", "a number of partitions, at least 1")
    key = _checked_key(key)
    if not len(record_ids):
        raise InvalidInput("record_ids", record_ids, "at least one identifier")
    table = [[_hash(record, j, key) % n_chunks for j in range(n_partitions)] for record in record_ids]
    return Partition(np.array(table, dtype=np.int64), n_chunks, "add_remove")


def checked_chunks(chunks: Any, n_chunks: int) -> NDArray[np.int64]:
    """Return a record-to-chunk table, checked, as int64."""
    array = np.asarray(chunks)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iu":
        raise InvalidInput("chunks", chunks, "whole numbers of shape (n_records, n_partitions), not empty")
    outside = array[(array < 0) | (array >= n_chunks)]
    if outside.size:
        raise InvalidInput("chunks", int(outside[0]), f"chunk numbers in 0..{n_chunks - 1}")
    return array.astype(np.int64)


def _checked_key(key: Any) -> bytes:
    if not isinstance(key, bytes) or not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise InvalidInput("key", key, f"1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes")
    return key


def _hash(record: object, partition: int, key: bytes) -> int:
    identifier = record.item() if isinstance(record, np.generic) else record
    if type(identifier) not in (str, bytes, int):  # True is an int, but no identifier
        raise InvalidInput("record_ids", record, "text, bytes or whole numbers")
    # The type is hashed too, so 1 and "1" are two records.
    content = identifier if isinstance(identifier, bytes) else str(identifier).encode()
    name = type(identifier).__name__.encode() + b":" + content
    digest = hashlib.blake2b(partition.to_bytes(8, "big") + name, key=key, digest_size=16).digest()
    return int.from_bytes(digest, "big")
