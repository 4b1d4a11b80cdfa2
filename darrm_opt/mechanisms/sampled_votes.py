"""Sampled votes: the laws of a label with and without a record in the sample, listed for every vote count.

Let n be the votes of the others. A record outside the sample leaves votes x; inside, it leaves votes y, or z with its
other value: the triples (law at n + x, law at n + y, law at n + z) over all n, x, y and z. Relabelling the classes
changes no divergence, so n is decreasing, and of classes with equal counts the first ones move first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray

from darrm_opt.accounting.guarantee import LawTriples
from darrm_opt.accounting.law_pairs import LawPairs
from darrm_opt.accounting.sampling import Neighbours
from darrm_opt.noise import Array
from darrm_opt.tables.problem import has_table, partition_count, partitions

CountTable = NDArray[np.intp]

MAX_PARTITIONS = 3000  # maximum number of partitions of the votes whose laws are listed
MAX_TRIPLES = 150_000  # maximum number of listed triples: half a second for an account
MAX_MOVES = 100  # maximum number of ways in which a record can vote
MAX_PAIRS = 5000  # maximum number of listed pairs if every record is in every release: some hundredths of a second


def listed_pairs(
    chances: Callable[[CountTable], Array | None], K: int, classes: int, affected: int, error: float
) -> LawPairs | None:
    """Return all pairs of laws, in both orders, of a mechanism that treats classes alike; None if they are too many.

    ``chances``: as for `listed_triples`.
    """
    if not has_table(K, classes, MAX_PAIRS):
        return None
    moves = math.comb(classes + affected - 1, affected)
    others = partition_count(K - affected, classes) if affected < K else 1
    if others * moves * moves > MAX_PAIRS or others * moves > MAX_PARTITIONS:
        return None
    families = listed_triples(chances, K, classes, affected, "add-remove", error)
    return None if families is None else families[0].pairs(1.0)[0]


def listed_triples(
    chances: Callable[[CountTable], Array | None],
    K: int,
    classes: int,
    affected: int,
    neighbours: Neighbours | None,
    error: float,
) -> list[LawTriples] | None:
    """Return all triples of laws of a mechanism that treats classes alike; None if they are too many.

    ``chances``: from decreasing vote counts to the probability of each class (and of ⊥ last).
    """
    three = neighbours == "replace-one"
    places = vote_triples(K, classes, affected, three=three)
    if places is None:
        return None
    counts, triples = places
    # Probabilities are computed once for each decreasing count, then permuted: the mechanism treats classes alike.
    columns = np.argsort(-counts, axis=1, kind="stable")
    ordered, rows = np.unique(np.take_along_axis(counts, columns, axis=1), axis=0, return_inverse=True)
    laws = chances(ordered)
    if laws is None:
        return None
    each = laws[rows.reshape(-1)]
    unordered = each.copy()
    # ⊥, the last column, is not a class and is not permuted.
    np.put_along_axis(unordered[:, :classes], columns, each[:, :classes], axis=1)
    off, on, other = (unordered[triples[:, side]] for side in range(3))
    return [LawTriples(off, on, other if three else None, error=error)]


@lru_cache(maxsize=8)
def vote_triples(K: int, classes: int, affected: int, *, three: bool) -> tuple[CountTable, CountTable] | None:
    """Return vote counts, shape (N, C), and triples of row indices, shape (triples, 3); None if they are too many.

    ``three``: whether a record has separate votes in each of two values, as for replace-one.
    """
    if not has_table(K, classes, MAX_PARTITIONS) or math.comb(classes + affected - 1, affected) > MAX_MOVES:
        return None
    votes = [np.bincount(move, minlength=classes) for move in combinations_with_replacement(range(classes), affected)]
    counts: list[CountTable] = []
    triples: list[tuple[int, int, int]] = []
    for others in partitions(K - affected, classes) if affected < K else [(0,) * classes]:
        start = len(counts)
        counts += [np.array(others) + vote for vote in votes]
        runs = tuple(others.index(count) for count in others)
        moves = _moves(runs, affected, three)
        if len(triples) + len(moves) > MAX_TRIPLES:
            return None
        triples += [(start + x, start + y, start + z) for x, y, z in moves]
    return np.array(counts, dtype=np.intp), np.array(triples, dtype=np.intp)


@lru_cache(maxsize=256)
def _moves(runs: tuple[int, ...], affected: int, three: bool) -> list[tuple[int, int, int]]:  # noqa: FBT001 — a key
    """Return the triples (x, y, z) of votes, as indices, up to permutations of classes in the same run."""
    votes = list(combinations_with_replacement(range(len(runs)), affected))

    def pick() -> Iterator[tuple[int, int, int]]:
        for x, y in product(range(len(votes)), repeat=2):
            for z in range(len(votes)) if three else (y,):
                if (y != z if three else x != y) and _first_come(votes[x] + votes[y] + votes[z], runs):
                    yield x, y, z

    return list(pick())


def _first_come(moves: tuple[int, ...], runs: tuple[int, ...]) -> bool:
    """Return whether the classes of each run of equal counts occur in their order."""
    seen = set[int]()
    for place in moves:
        if place > runs[place] and place - 1 not in seen and place not in seen:
            return False
        seen.add(place)
    return True
