"""Problem 1.1 in general: groups of voters, each with its own (ε_g, Δ_g), choose among C classes; one is released.

The release depends on the vote counts of every group, n^g(c). Averaging a table over all permutations of the classes
changes neither its privacy nor its utility, so tables are over *orbits* of counts, with one cell per row
(n^1(c), …, n^G(c)) that a class has there (and one for ⊥). As for γ, a cell holds the excess over the uniform release:

    Pr[o | n] = x[o, n] + (1 − Σ_o′ x[o′, n])/outputs,      x ≥ 0,  Σ_o x ≤ 1

so x = 0 is private for any target, and scaling x down repairs a table. With two classes and one group x is γ.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import Array
from darrm_opt.problem import MAX_GROUP_CLASSES, Problem
from darrm_opt.tables.problem import Cells, Histograms, Index, partition_cells

MAX_COUNTS = 200_000  # maximum number of vote counts (of all groups together) of a table
MAX_CELLS = 4000  # maximum number of cells of a designed table, as rows are dense


def cells_of(problem: Problem) -> AnyCells:
    """Return the cells of a problem's tables: partitions if voters are not private, otherwise counts of all groups."""
    if problem.is_public:
        return partition_cells(problem)
    return group_cells(problem)


def group_cells(problem: Problem) -> GroupCells:
    """Return the cells of a table over the counts of all groups, whether or not the voters are private."""
    if problem.classes > MAX_GROUP_CLASSES:
        accepted = f"a whole number of classes, 2 to {MAX_GROUP_CLASSES}, if groups are counted separately"
        raise InvalidInput("classes", problem.classes, accepted)
    return _group_cells(tuple(group.K for group in problem.groups), problem.classes, problem.abstention)


@lru_cache(maxsize=8)
def _group_cells(sizes: tuple[int, ...], classes: int, abstention: bool) -> GroupCells:  # noqa: FBT001 — a cache key
    return GroupCells(sizes, classes, abstention=abstention)


def compositions(K: int, classes: int) -> Index:
    """Return all distributions of K votes among the classes, in lexicographic order, shape (ways, classes)."""
    if classes == 1:
        return np.array([[K]], dtype=np.intp)
    parts = []
    for first in range(K + 1):
        rest = compositions(K - first, classes - 1)
        parts.append(np.column_stack([np.full(len(rest), first, dtype=np.intp), rest]))
    return np.concatenate(parts)


def _ranks(votes: Index, K: int) -> Index:
    """Return the indices of rows of votes in `compositions`, shape (rows,)."""
    classes = votes.shape[1]
    ranks, left = np.zeros(len(votes), dtype=np.intp), np.full(len(votes), K)
    # Rows before one with the same beginning: a smaller next count, and the rest among the remaining classes.
    ways = np.array([[math.comb(n + c, c) for n in range(K + 1)] for c in range(classes)], dtype=np.intp)
    for c in range(classes - 1):
        rest = classes - 1 - c
        ranks += ways[rest][left] - ways[rest][left - votes[:, c]]
        left = left - votes[:, c]
    return ranks


class GroupCells(Cells):
    """Cells of a table over the counts of all groups."""

    def __init__(self, sizes: tuple[int, ...], classes: int, *, abstention: bool) -> None:
        number = math.prod(math.comb(K + classes - 1, classes - 1) for K in sizes)
        if number > MAX_COUNTS:
            raise InvalidInput(
                "groups",
                "K = " + ", ".join(map(str, sizes)),
                f"at most {MAX_COUNTS:,} vote counts; here there are {number:,}",
                "Use fewer voters, groups or classes.",
            )
        self.sizes, self.classes, self.abstention = sizes, classes, abstention
        ways = [compositions(K, classes) for K in sizes]
        self.widths = tuple(len(way) for way in ways)
        places = np.indices(self.widths).reshape(len(sizes), -1)
        # every combination of the groups' counts, the last group fastest, shape (counts, groups, classes)
        self.counts: Index = np.stack([way[place] for way, place in zip(ways, places, strict=True)], axis=1)
        # a class's row of counts as one integer; sorting the rows forgets the names of the classes.
        base = math.prod(K + 1 for K in sizes) + 1
        factors = np.cumprod([1, *(K + 1 for K in sizes[:-1])]).astype(np.intp)
        codes = np.einsum("ngc,g->nc", self.counts, factors)
        _, first, orbit = np.unique(np.sort(codes, axis=1), axis=0, return_index=True, return_inverse=True)
        self.first: Index = first  # index of the first of each orbit, shape (orbits,)
        self.orbit: Index = orbit.reshape(-1)  # orbit of each vote count, shape (counts,)
        if abstention:
            codes = np.column_stack([codes, np.full(number, base - 1)])
        keys = self.orbit[:, None] * base + codes
        distinct, cell = np.unique(keys, return_inverse=True)
        self._layout: Index = cell.reshape(keys.shape)
        self.owners = distinct // base
        self.starts = np.searchsorted(self.owners, np.arange(len(first)))
        self.multiplicities = np.bincount(self._layout[first].ravel(), minlength=len(distinct))

    @property
    def shape(self) -> tuple[object, ...]:
        """Voters of each group, classes, and whether ⊥ may be released."""
        return self.sizes, self.classes, self.abstention

    @property
    def layout(self) -> Index:
        """As for all cells, shape (counts, outputs)."""
        return self._layout

    def find(self, counts: Any) -> Index:
        """As for all cells, for counts of shape (N, groups, C), flat or not."""
        return np.asarray(self._layout[self.places(counts)])

    def shrink(self, sums: Array) -> Array:
        """As for all cells; a vote count whose sum is surely below 1 is unchanged."""
        full = (1.0 - 2.0**-52 * (self.outputs + 4)) / np.maximum(sums, 0.5)
        return np.where(sums > 1 - 1e-12, full, 1.0)

    def places(self, counts: Any) -> Index:
        """Return the indices of the groups' counts, shape (N, groups, classes), checked and never shown."""
        accepted = f"{self.classes} counts for each group, that sum to {', '.join(map(str, self.sizes))}"
        try:
            votes = np.asarray(counts, dtype=np.intp).reshape(-1, len(self.sizes), self.classes)
        except (TypeError, ValueError):
            raise InvalidInput("counts", "values that are not shown here", accepted) from None
        if votes.min(initial=0) < 0 or np.any(votes.sum(axis=2) != self.sizes):
            raise InvalidInput("counts", "values that are not shown here", accepted)
        ranks = [_ranks(votes[:, g], K) for g, K in enumerate(self.sizes)]
        return np.asarray(np.ravel_multi_index(ranks, self.widths), dtype=np.intp)

    def log_ways(self) -> Array:
        """Return the logarithm of the number of ways in which voters give each of the counts, shape (counts,)."""
        factorials = np.array([math.lgamma(n + 1) for n in range(max(self.sizes) + 1)])
        total = sum(factorials[K] for K in self.sizes)
        return np.asarray(total - factorials[self.counts].sum(axis=(1, 2)))


AnyCells = Histograms | GroupCells
