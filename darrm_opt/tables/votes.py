"""Votes among C classes, checked and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput

VoteTable = NDArray[np.int64]

Labels = NDArray[np.signedinteger]
"""Released classes, `ABSTENTION` for ⊥, shape (N,); of the type that `label_type` says."""

SIGNED = "Votes of -1 and 1 become 0 and 1 by (votes + 1) // 2."
"""Advice where votes are not all 0 or 1, whatever else they are: an error says nothing about votes."""

TRANSPOSED = "Is the table transposed? A row is a release, a column a voter."
"""Advice where a table has another shape, and as many rows as it should have columns."""


def label_type(classes: int) -> np.dtype[np.signedinteger]:
    """Return the type of the labels of so many classes: 16 bits where they suffice, else 32.

    >>> label_type(50_257)
    dtype('int32')
    """
    return np.dtype(np.int16 if classes <= 2**15 else np.int32)


def vote_table(votes: Any, K: int | None) -> NDArray[Any]:
    """Return votes as an array of shape (N, K), whatever it holds; None: of any number of columns but 0."""
    accepted = f"an array of shape (N, {'K' if K is None else K}), one column for each voter"
    try:
        table = np.asarray(votes)
    except (TypeError, ValueError):
        raise InvalidInput("votes", "rows of different lengths", accepted) from None  # the cause would show votes
    if table.ndim != 2 or table.shape[1] != (table.shape[1] if K is None else K) or not table.shape[1]:
        is_transposed = table.ndim == 2 and table.shape[0] == K
        raise InvalidInput("votes", table.shape, accepted, TRANSPOSED if is_transposed else "")
    return table


def checked_classes(votes: Any, K: int | None, classes: int) -> VoteTable:
    """Return votes as whole numbers of shape (N, K), or refuse them without showing them."""
    table = vote_table(votes, K)
    # Every element is looked at, whatever the others are.
    if table.dtype.kind not in "biuf" or np.count_nonzero(~np.isin(table, np.arange(classes))):
        raise InvalidInput(
            "votes",
            f"{table.dtype}, not all classes",
            f"classes 0 to {classes - 1}",
            f"They are not shown here. {SIGNED}" if classes == 2 else "They are not shown here.",
        )
    return table.astype(np.int64)


def count_votes(votes: Any, K: int | None, classes: int) -> VoteTable:
    """Return the votes for each class in each row, shape (N, C); errors as `checked_classes`.

    Args:
        votes: whole numbers 0..C−1, shape (N, K) or (K,).
        K: number of voters; None: as many as there are columns.
        classes: C.

    >>> count_votes([[0, 2, 2]], 3, 3).tolist()
    [[1, 0, 2]]
    """
    return count_checked(checked_for(votes, K, classes), classes)


def checked_for(votes: Any, K: int | None, classes: int) -> NDArray[Any]:
    """Return votes as whole numbers of shape (N, K), of two classes also where they are truth values."""
    return checked_votes(votes, K) if classes == 2 else checked_classes(votes, K, classes)


def count_checked(table: NDArray[Any], classes: int) -> VoteTable:
    """Return the votes for each class in each row of votes that were checked, shape (N, C)."""
    if classes == 2:
        ones = count_ones(table)
        return np.stack([table.shape[1] - ones, ones], axis=1)
    places = table + classes * np.arange(len(table))[:, None]
    return np.bincount(places.ravel(), minlength=len(table) * classes).astype(np.int64).reshape(len(table), classes)


def count_ones(votes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number of ones in each row of votes that were checked."""
    ones = np.zeros(len(votes), dtype=np.int32)
    for voter in range(votes.shape[1]):  # a column at a time: NumPy's sums along a short last axis are ten times slower
        ones += votes[:, voter]
    return ones.astype(np.int64)


def checked_votes(votes: Any, K: int | None) -> NDArray[np.uint8]:
    """Return votes as zeros and ones of shape (N, K), or refuse them without showing them."""
    table = vote_table(votes, K)
    if table.dtype == np.bool_:  # a buffer may hold other bytes than 0 and 1: each of them is one vote, no more
        return np.not_equal(table.view(np.uint8), 0).astype(np.uint8)
    # Every element is looked at, whatever the others are.
    if table.dtype.kind in "iuf" and not np.count_nonzero((table != 0) & (table != 1)):
        return table.astype(np.uint8, copy=False)
    raise InvalidInput(
        "votes", f"{table.dtype}, not all 0 or 1", "votes that are 0 or 1", f"They are not shown here. {SIGNED}"
    )
