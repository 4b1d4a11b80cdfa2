"""Record-to-chunk tables: who teaches whom, and that nobody else moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.cases import for_each
from support.refusals import refused

from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_opt.teachers import Partition, hashed_partition, slot_partition


def test_slots_are_balanced_and_random() -> None:
    partition = slot_partition(23, 5, 4, source=SeededRandomnessForTestsOnly(1))
    for j in range(4):
        sizes = np.bincount(partition.chunks[:, j], minlength=5)
        assert set(sizes.tolist()) == {4, 5}
    assert (partition.chunks[:, 0] != partition.chunks[:, 1]).any()
    assert slot_partition(10, 10).chunks.shape == (10, 1)
    assert not partition.chunks.flags.writeable
    assert (partition.members(2, 3) == np.flatnonzero(partition.chunks[:, 2] == 3)).all()
    assert (partition.n_records, partition.n_partitions) == (23, 4)


def test_hashes_depend_on_the_record_and_the_key_alone() -> None:
    one = hashed_partition(["a", "b", 7, b"c", np.int64(7)], 1000, 5, key=b"key")
    assert (hashed_partition([7, "b"], 1000, 5, key=b"key").chunks == one.chunks[[2, 1]]).all()
    assert (one.chunks[2] == one.chunks[4]).all()
    assert (hashed_partition(["7"], 1000, 5, key=b"key").chunks != one.chunks[2]).any()
    assert (hashed_partition(["a"], 1000, 5, key=b"other").chunks != one.chunks[0]).any()
    assert (hashed_partition(np.array(["b", "a"]), 1000, 5, key=b"key").chunks == one.chunks[[1, 0]]).all()
    spread = np.bincount(hashed_partition(list(range(4000)), 4, key=b"k").chunks[:, 0])
    assert spread.min() > 900


@for_each(
    ("make", "argument"),
    [
        (lambda: slot_partition(0, 1), "n_records"),
        (lambda: hashed_partition([], 2, key=b"k"), "record_ids"),
        (lambda: hashed_partition([1.5], 2, key=b"k"), "record_ids"),
        (lambda: hashed_partition([True], 2, key=b"k"), "record_ids"),
        (lambda: hashed_partition(["a"], 2, key=b""), "key"),
        (lambda: Partition([[0, 2]], 2, "replace"), "chunks"),
        (lambda: Partition([0, 1], 2, "replace"), "chunks"),
        (lambda: Partition([[0]], 2, "both"), "adjacency"),  # type: ignore[arg-type]
    ],
)
def test_refusals(make: Any, argument: str) -> None:
    with refused(argument):
        make()
