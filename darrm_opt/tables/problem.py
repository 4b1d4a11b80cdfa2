"""Plurality problem: K voters choose among C classes, and one class is released.

Voters are not private; one record can change the answers of at most ``affected`` of them. The release depends on the
vote counts only. The released class must satisfy (ε, δ)-differential privacy.

Averaging a release rule over all permutations of the classes changes neither its privacy nor its utility, so rules that
treat the classes alike lose nothing. Such a rule is a table over *partitions* λ: the counts in decreasing order. Its
cells are

    x[λ, v]    the probability that one given class, with v votes, is released     Σ_v mult_λ(v)·x[λ, v] + x[λ, ⊥] = 1
    x[λ, ⊥]    the probability that no class is released, if the problem allows abstention

with mult_λ(v) the number of classes that have v votes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import Problem

MAX_PARTITIONS = 20_000  # maximum number of partitions of a table: K = 50, C = 5 has 3,765, K = 100, C = 4 has 8,037

THREE_PARTS_TOO_MANY = 500
"""Voters from which three parts alone have more than `MAX_PARTITIONS` partitions: (K + 3)²/12, rounded."""

MAX_EDGES = 500_000  # maximum number of pairs of neighbouring vote counts: some ten seconds
ABSTENTION = -1  # the value of ⊥ among vote counts

Index = NDArray[np.intp]
Partition = tuple[int, ...]


def partition_count(K: int, classes: int) -> int:
    """Return the number of partitions of K into at most ``classes`` parts; time grows with K·min(K, classes).

    Args:
        K: number of voters.
        classes: C, the most parts.

    >>> partition_count(50, 4), partition_count(30, 6)
    (1154, 1206)
    """
    ways = [1] + [0] * K  # by conjugation: partitions into parts of size at most C
    for part in range(1, min(classes, K) + 1):
        for total in range(part, K + 1):
            ways[total] += ways[total - part]
    return ways[K]


def has_table(K: int, classes: int, most: int = MAX_PARTITIONS) -> bool:
    """Return whether K votes have at most ``most`` ≤ `MAX_PARTITIONS` partitions, immediately for any K.

    >>> has_table(40, 4), has_table(10**6, 1000)
    (True, False)
    """
    if classes == 2:
        return most >= K // 2 + 1
    return K < THREE_PARTS_TOO_MANY and partition_count(K, classes) <= most


def partitions(K: int, classes: int) -> Iterator[Partition]:
    """Yield the partitions of K into ``classes`` parts, including zeros: decreasing tuples in lexicographic order."""

    def extend(total: int, parts: int, largest: int) -> Iterator[Partition]:
        if parts == 1:
            yield (total,)
            return
        for first in range(-(-total // parts), min(total, largest) + 1):
            for rest in extend(total - first, parts - 1, first):
                yield (first, *rest)

    several = min(classes, K)  # the others are 0
    return ((*parts, *(0,) * (classes - several)) for parts in extend(K, several, K))


def changes(partition: Partition, affected: int) -> Iterator[Partition]:
    """Yield every change of the counts by one record, up to exchanging classes of equal count."""
    # At most ``affected`` of the classes without votes can gain one.
    length = min(len(partition), sum(count > 0 for count in partition) + affected)
    last = length - 1
    votes_after = [sum(partition[place + 1 : length]) for place in range(length)]

    def extend(place: int, gained: int, lost: int, previous: int) -> Iterator[Partition]:
        largest = affected - gained
        if place and partition[place] == partition[place - 1]:
            largest = min(largest, previous)  # the larger change first among equal counts: one order of many
        least = -min(partition[place], affected - lost)
        if place == last:
            change = lost - gained
            if least <= change <= largest:
                yield (change,)
            return
        for change in range(least, largest + 1):
            more, fewer = gained + max(change, 0), lost + max(-change, 0)
            if more > fewer + min(votes_after[place], affected - fewer):
                break  # the following classes cannot lose that many, nor for a larger change
            for rest in extend(place + 1, more, fewer, change):
                yield (change, *rest)

    rest = (0,) * (len(partition) - length)
    return ((*change, *rest) for change in extend(0, 0, 0, affected) if any(change))


class Cells(ABC):
    """Cells of a table: one per output that a vote count distinguishes, count by count, one per orbit.

    Attributes:
        classes: C.
        abstention: whether there are cells for ⊥.
        multiplicities: number of outputs in a cell, shape (cells,).
        owners: index of the cell's vote count, increasing, shape (cells,).
        starts: first cell of each vote count, shape (counts,).
    """

    classes: int
    abstention: bool
    multiplicities: Index
    owners: Index
    starts: Index

    @property
    def outputs(self) -> int:
        """Number of outputs: the classes, and ⊥ if it may be released."""
        return self.classes + self.abstention

    @property
    @abstractmethod
    def shape(self) -> tuple[object, ...]:
        """Common properties of comparable tables."""

    @property
    @abstractmethod
    def layout(self) -> Index:
        """Cell of each output at every vote count: the classes in order, then ⊥ if there is one."""

    @abstractmethod
    def find(self, counts: Any) -> Index:
        """Return the cells of each output for rows of vote counts, shape (N, outputs).

        Raises:
            InvalidInput: invalid counts, which are not shown.
        """

    @abstractmethod
    def shrink(self, sums: Array) -> Array:
        """Return factors for the values of each vote count that make their sum at most 1, exactly."""


class Edges(NamedTuple):
    """Ordered pairs of vote counts that differ by one record, up to relabelling the classes of both.

    The *outputs* of an edge are groups of classes with the same counts on both sides (and ⊥). Shapes (edges, width).
    """

    left: Index  # cells of the outputs before the change
    right: Index  # cells of the outputs after the change
    sizes: Index  # number of classes of each output; 0 in unused places


@dataclass(frozen=True, eq=False)
class Histograms(Cells):
    """Partitions, cells and edges of a problem as arrays; the first cell of a partition is the plurality's."""

    K: int
    classes: int
    affected: int  # votes that one record can move
    abstention: bool
    partitions: tuple[Partition, ...]  # decreasing tuples of length C
    values: Index  # count of each cell, `ABSTENTION` for ⊥, shape (cells,)
    multiplicities: Index
    owners: Index
    starts: Index

    @property
    def shape(self) -> tuple[object, ...]:
        """Voters, classes, and whether ⊥ may be released."""
        return self.K, self.classes, self.abstention

    @property
    def layout(self) -> Index:
        """As for all cells, shape (partitions, outputs)."""
        return self.find(self.partitions)

    def find(self, counts: Any) -> Index:
        """As for all cells, for counts of shape (N, C)."""
        accepted = f"{self.classes} counts that sum to K = {self.K}"
        try:
            votes = np.asarray(counts, dtype=np.intp)
        except (TypeError, ValueError):
            raise InvalidInput("counts", "values that are not shown here", accepted) from None
        if votes.shape[1:] != (self.classes,) or votes.min(initial=0) < 0 or np.any(votes.sum(axis=1) != self.K):
            raise InvalidInput("counts", "values that are not shown here", accepted)
        order = np.argsort(-votes, axis=1, kind="stable")
        falling = np.take_along_axis(votes, order, axis=1)
        first = self.starts[np.array([self.numbers[tuple(row)] for row in falling.tolist()], dtype=np.intp)]
        # Classes with equal counts share a cell, and the cells of a partition follow its counts.
        steps = np.diff(falling, axis=1, prepend=falling[:, :1]) != 0
        cells = np.empty((len(votes), self.outputs), dtype=np.intp)
        np.put_along_axis(cells[:, : self.classes], order, first[:, None] + np.cumsum(steps, axis=1), axis=1)
        if self.abstention:
            cells[:, -1] = cells[:, : self.classes].max(axis=1) + 1
        return cells

    def shrink(self, sums: Array) -> Array:
        """As for all cells; every sum becomes nearly 1."""
        return np.asarray((1.0 - 2.0**-52 * (self.classes + 4)) / np.maximum(sums, 1.0 - 1e-6))

    @cached_property
    def numbers(self) -> dict[Partition, int]:
        """Index of each partition."""
        return {partition: place for place, partition in enumerate(self.partitions)}

    @cached_property
    def edges(self) -> Edges:
        """The edges; `InvalidInput` if there are too many."""
        # On demand: only proofs need edges, which take most of the time.
        places: list[dict[int, int]] = [{} for _ in self.partitions]
        for place, (owner, value) in enumerate(zip(self.owners.tolist(), self.values.tolist(), strict=True)):
            places[owner][value] = place
        edges: list[list[tuple[int, int, int]]] = []
        for number, partition in enumerate(self.partitions):
            for change in changes(partition, self.affected):
                after = tuple(count + gain for count, gain in zip(partition, change, strict=True))
                places_after = places[self.numbers[tuple(sorted(after, reverse=True))]]
                # Classes with equal counts before and after enter the constraint as one group with a size.
                groups = Counter((places[number][v], places_after[w]) for v, w in zip(partition, after, strict=True))
                edge = [(v, w, size) for (v, w), size in groups.items()]
                if len(edges) == MAX_EDGES:
                    raise InvalidInput(
                        "affected",
                        self.affected,
                        f"at most {MAX_EDGES:,} pairs of neighbouring vote counts; here there are more",
                        "Lower affected or K, or use a mechanism that needs no table: see darrm_opt.mechanisms.",
                    )
                silent = [(places[number][ABSTENTION], places_after[ABSTENTION], 1)] if self.abstention else []
                edges.append(edge + silent)
        # Edges differ in length: unused places have size 0 and add nothing to a sum over the outputs.
        width = max((len(edge) for edge in edges), default=1)
        packed = np.zeros((3, len(edges), width), dtype=np.intp)
        for row, edge in enumerate(edges):
            packed[:, row, : len(edge)] = np.array(edge).T
        return Edges(*map(_read_only, packed))

    def part(self, owners: Index) -> tuple[Histograms, Index]:
        """Return the cells of some partitions, and their indices among all cells, increasing."""
        chosen = np.unique(owners)
        places = np.flatnonzero(np.isin(self.owners, chosen))
        of_part = np.searchsorted(chosen, self.owners[places])
        starts = np.searchsorted(of_part, np.arange(chosen.size))
        partitions = tuple(self.partitions[owner] for owner in chosen.tolist())
        shape = (self.K, self.classes, self.affected, self.abstention)
        return Histograms(*shape, partitions, self.values[places], self.multiplicities[places], of_part, starts), places

    @property
    def strict(self) -> NDArray[np.bool_]:
        """Whether one class alone has the largest count, shape (partitions,)."""
        unique: NDArray[np.bool_] = self.multiplicities[self.starts] == 1
        return unique


def partition_cells(problem: Problem) -> Histograms:
    """Return the cells over partitions of a problem whose voters are not private."""
    return histograms(problem.K, problem.classes, problem.affected, problem.abstention)


@lru_cache(maxsize=8)
def histograms(K: int, classes: int, affected: int, abstention: bool) -> Histograms:  # noqa: FBT001 — a cache key
    """Return the partitions, cells and edges of K votes among ``classes``."""
    if not has_table(K, classes):
        count = f"{partition_count(K, classes):,}" if K < THREE_PARTS_TOO_MANY else "more"
        raise InvalidInput(
            "K",
            K,
            f"at most {MAX_PARTITIONS:,} partitions; {K} votes among {classes} classes have {count}",
            "Use a mechanism that needs no table: see darrm_opt.mechanisms.",
        )
    # By symmetry, classes with equal counts have equal probabilities: one cell per distinct count of a partition, with
    # the number of classes that share it.
    all_partitions = tuple(partitions(K, classes))
    starts: list[int] = []
    values: list[int] = []
    multiplicities: list[int] = []
    owners: list[int] = []
    for number, partition in enumerate(all_partitions):
        starts.append(len(values))
        for value, multiplicity in [*Counter(partition).items(), *([(ABSTENTION, 1)] if abstention else [])]:
            values.append(value)
            multiplicities.append(multiplicity)
            owners.append(number)
    arrays = [_read_only(np.array(column, dtype=np.intp)) for column in (values, multiplicities, owners, starts)]
    return Histograms(K, classes, affected, abstention, all_partitions, *arrays)


def _read_only(array: Index) -> Index:
    array.flags.writeable = False
    return array
