"""Teacher layout: the table that assigns each record to one chunk in each partition.

Every privacy proof here needs that changing one record changes only its own chunks. Two tables do:

- *slots* (neighbours: one record's content replaced): chunks are dealt to record numbers, at random
  and balanced, without looking at contents;
- *hashed* (neighbours: one record added or removed): a record's chunks depend on its own identifier
  and a key, so nobody else moves; chunk sizes vary and a chunk may be empty.

A balanced split drawn anew for each dataset does neither; see `historical.truncating_partition`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.problem import whole_number
from darrm_opt.randomness import RandomSource, SystemRandomness, shuffled

Neighbours = Literal["replace", "add_remove"]
"""Neighbouring data: one record's content replaced, or one record added or removed."""


class TeacherLayout(Protocol):
    """What a plan says of the teachers that it counts on."""

    @property
    def n_chunks(self) -> int:
        """Chunks, so teachers, per partition."""

    @property
    def n_partitions(self) -> int:
        """Partitions: the number of teachers that see a given record."""

    @property
    def n_classes(self) -> int:
        """Answers that a teacher can give."""

    @property
    def adjacency(self) -> Neighbours:
        """What neighbours are."""


@dataclass(frozen=True, eq=False)
class Partition:
    """A record-to-chunk table."""

    chunks: NDArray[np.int64]  # shape (n_records, n_partitions), each in 0..n_chunks−1
    n_chunks: int  # chunks per partition
    adjacency: Neighbours  # the neighbours for which one record changes only its own chunks

    def __init__(self, chunks: Any, n_chunks: int, adjacency: Neighbours) -> None:
        n_chunks = whole_number(n_chunks, "n_chunks", "a number of chunks, at least 1")
        array = checked_chunks(chunks, n_chunks).copy()
        _check_adjacency(adjacency)
        array.setflags(write=False)
        object.__setattr__(self, "chunks", array)
        object.__setattr__(self, "n_chunks", n_chunks)
        object.__setattr__(self, "adjacency", adjacency)

    @property
    def n_records(self) -> int:
        """Records."""
        return int(self.chunks.shape[0])

    @property
    def n_partitions(self) -> int:
        """Partitions: the number of teachers that see a given record."""
        return int(self.chunks.shape[1])

    def check_plan(self, plan: TeacherLayout) -> None:
        """Refuse a plan that counts on other teachers."""
        for name in ("n_chunks", "n_partitions", "adjacency"):
            if getattr(self, name) != getattr(plan, name):
                raise InvalidInput(name, getattr(self, name), f"{getattr(plan, name)!r}, as the plan says")

    def members(self, partition: int, chunk: int) -> NDArray[np.int64]:
        """Return the record numbers of one chunk of one partition."""
        return np.flatnonzero(self.chunks[:, partition] == chunk)


def check_teachers(plan: TeacherLayout) -> None:
    """Refuse a plan whose teachers cannot be."""
    whole_number(plan.n_chunks, "n_chunks", "a number of chunks, at least 1")
    whole_number(plan.n_partitions, "n_partitions", "a number of partitions, at least 1")
    whole_number(plan.n_classes, "n_classes", "a number of classes, at least 2", least=2)
    _check_adjacency(plan.adjacency)


def _check_adjacency(adjacency: str) -> None:
    if adjacency not in ("replace", "add_remove"):
        raise InvalidInput("adjacency", adjacency, "'replace' or 'add_remove'")


def slot_partition(
    n_records: int, n_chunks: int, n_partitions: int = 1, *, source: RandomSource | None = None
) -> Partition:
    """Deal record numbers to chunks, at random and balanced; for neighbours that replace one record.

    Privacy does not rest on ``source``.

    >>> slot_partition(7, 3, 2).chunks.shape
    (7, 2)
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
        column[shuffled(range(n_records), source)] = np.arange(n_records) % n_chunks
        columns.append(column)
    return Partition(np.stack(columns, axis=1), n_chunks, "replace")


def hashed_partition(
    record_ids: Sequence[Hashable] | NDArray[Any], n_chunks: int, n_partitions: int = 1, *, key: bytes
) -> Partition:
    """Send each record to chunks that only its identifier and the key decide; for neighbours that add or remove one.

    Rows with the same identifier share their chunks and are protected together. The key, 1 to 64 bytes, is chosen
    without looking at the records. Chunks vary in size; an empty one's teacher gives a constant vote.

    >>> hashed_partition(["ann", "bo"], 5, key=b"k").chunks[0] == hashed_partition(["ann"], 5, key=b"k").chunks[0]
    array([ True])
    """
    n_chunks = whole_number(n_chunks, "n_chunks", "a number of chunks, at least 1")
    n_partitions = whole_number(n_partitions, "n_partitions", "a number of partitions, at least 1")
    key = _checked_key(key)
    if not len(record_ids):
        raise InvalidInput("record_ids", record_ids, "at least one identifier")
    table = [[_hash(record, j, key) % n_chunks for j in range(n_partitions)] for record in record_ids]
    return Partition(np.array(table, dtype=np.int64), n_chunks, "add_remove")


def checked_chunks(chunks: Any, n_chunks: int) -> NDArray[np.int64]:
    """Return a record-to-chunk table as int64."""
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
    if type(identifier) not in (str, bytes, int):  # not isinstance: True is not an identifier
        raise InvalidInput("record_ids", record, "text, bytes or whole numbers")
    # The type is part of what is hashed, so 1 and "1" are two records.
    content = identifier if isinstance(identifier, bytes) else str(identifier).encode()
    name = type(identifier).__name__.encode() + b":" + content
    digest = hashlib.blake2b(partition.to_bytes(8, "big") + name, key=key, digest_size=16).digest()
    return int.from_bytes(digest, "big")
