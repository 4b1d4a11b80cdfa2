"""Votes among C classes: their checks and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.noise import ABSENT, check_unmasked

VoteTable = NDArray[np.int64]

Labels = NDArray[np.signedinteger]  # released classes, `ABSTENTION` for ⊥, shape (N,), of type `label_type`

SIGNED = "Votes of -1 and 1 become 0 and 1 by (votes + 1) // 2."
"""Advice if votes are not all 0 or 1, for any votes: errors must not reveal votes."""

NAMED = "Number the classes from 0, as np.searchsorted(classes, votes) does."
TRANSPOSED = "Is the table transposed? A row is a release, a column a voter."
INDEXED = "Is its first column an index? pandas leaves it out with index=False."

EVENLY, AS_CLASS = "evenly", "class"
"""Replacement of a missing vote: a vote for each class in turn, or one for the last class."""


def label_type(classes: int) -> np.dtype[np.signedinteger]:
    """Return the type of labels: 16 bits if they suffice for the classes, else 32."""
    return np.dtype(np.int16 if classes <= 2**15 else np.int32)


def vote_table(votes: Any, K: int | None) -> NDArray[Any]:
    """Return votes as an array of shape (N, K), with any content; K = None: any positive number of columns."""
    accepted = f"an array of shape (N, {'K' if K is None else K}), one column per voter"
    check_unmasked(votes, "votes")
    try:
        table = np.asarray(votes)
    except (TypeError, ValueError):
        raise InvalidInput("votes", "rows of different lengths", accepted) from None  # the cause would show votes
    if table.ndim != 2 or table.shape[1] != (table.shape[1] if K is None else K) or not table.shape[1]:
        raise InvalidInput("votes", table.shape, accepted, "" if K is None else shape_advice(table.shape, K))
    return table


def shape_advice(shape: tuple[int, ...], K: int) -> str:
    """Return the likely fault of a table that should have K columns, or ""."""
    if len(shape) == 2 and shape[1] == K + 1:
        return INDEXED
    return TRANSPOSED if len(shape) == 2 and shape[0] == K else ""


def kind_advice(dtype: np.dtype[Any], *, signed: bool, absent: str = ABSENT) -> str:
    """Return how to make classes of an array of a type; it depends on the type only, not on votes.

    ``signed``: whether votes of −1 and 1 are likely; ``absent``: advice about missing votes.
    """
    if dtype.kind in "mM":
        return "Dates and times are not votes: leave their columns out."
    numbers = dtype.kind in "biuf"
    advice = [absent if numbers or dtype.kind == "O" else "", (SIGNED if signed else "") if numbers else NAMED]
    return " ".join(filter(None, advice))


def fill_missing(
    votes: Any,
    classes: int,
    how: str,
    *,
    value: int | None = None,
    groups: Sequence[int] | None = None,
    first_row: int = 0,
) -> VoteTable:
    """Return a table of votes with missing ones as a table of integers that can be released.

    Args:
        votes: class of each voter, 0..C−1, shape (N, K). Missing are NaN, None, masked entries, and ``value``.
        classes: C ≥ 2, those of the mechanism.
        how: "evenly": the missing votes of a row are dealt to the classes in turn, starting with class (row mod C), so
            that no class gains more than one vote over another. "class": a missing vote is one for the last class
            C − 1, which the mechanism has for that.
        value: another number for a missing vote, not one of the classes; None: no such number.
        groups: with a table of groups: voters of each group, columns of the first one first; dealt within each.
        first_row: number of the first row, if these are part of a table.

    Returns:
        Classes, shape (N, K), int64.

    Guarantees:
        Changing, removing or adding one voter's vote moves at most one vote of the result's counts, in the same group.
        So a release costs as much as with complete votes, and missingness may depend on the data (docs/proofs.md,
        "Missing votes"). For "evenly" this holds for voters that are not private, and for private ones of which a
        record reaches one.

    Raises:
        InvalidInput: another shape, an invalid class, a ``value`` that is a class, or only one class besides the one
            for missing votes.

    >>> fill_missing([[0, 0, float("nan"), None], [1, 1, 1, -1]], 2, "evenly", value=-1).tolist()
    [[0, 0, 0, 1], [1, 1, 1, 1]]
    """
    if how not in (EVENLY, AS_CLASS):
        raise InvalidInput("how", how, f"{EVENLY} or {AS_CLASS}")
    if how == AS_CLASS and classes < 3:
        raise InvalidInput("how", how, f"{EVENLY} with two classes", "Design for one more class.")
    if value is not None and value in range(classes):
        raise InvalidInput("value", value, f"a number outside 0 to {classes - 1}")
    if isinstance(votes, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in votes):
        votes = np.ma.stack(votes)
    masked = np.ma.getmaskarray(votes) if isinstance(votes, np.ma.MaskedArray) else False
    table = vote_table(np.ma.getdata(votes) if isinstance(votes, np.ma.MaskedArray) else votes, None)
    absent = _absent(table) | masked | (False if value is None else table == value)
    if table.dtype.kind == "O":
        try:
            table = np.where(absent, 0, table).astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("votes", "objects that are not numbers", f"classes 0 to {classes - 1}", NAMED) from None
    rows = np.arange(first_row, first_row + len(table))[:, None]
    if how == AS_CLASS:
        filled = np.full(table.shape, classes - 1)
    else:
        ends = np.cumsum([table.shape[1]] if groups is None else groups)
        turns = [np.cumsum(part, axis=1) - 1 for part in np.split(absent, ends[:-1], axis=1)]
        filled = (rows + np.concatenate(turns, axis=1)) % classes
    return checked_classes(np.where(absent, filled, table), None, classes).astype(np.int64)


def _absent(table: NDArray[Any]) -> NDArray[np.bool_]:
    if table.dtype.kind == "f":
        return np.asarray(np.isnan(table))
    if table.dtype.kind != "O":
        return np.zeros(table.shape, dtype=np.bool_)
    # pandas' missing value is neither equal nor unequal to anything; its class is recognised by name.
    gone = [each is None or each is np.ma.masked or type(each).__name__ == "NAType" for each in table.ravel()]
    nan = [isinstance(each, float) and each != each for each in table.ravel()]  # noqa: PLR0124 - true of NaN only
    absent: NDArray[np.bool_] = np.logical_or(gone, nan).reshape(table.shape)
    return absent


def checked_classes(votes: Any, K: int | None, classes: int) -> VoteTable:
    """Return votes as integers of shape (N, K), or reject them without showing them."""
    table = vote_table(votes, K)
    # Every element is examined, whatever the others are.
    if table.dtype.kind not in "biuf" or np.count_nonzero(~np.isin(table, np.arange(classes))):
        raise InvalidInput(
            "votes",
            f"{table.dtype}, not all classes",
            f"classes 0 to {classes - 1}",
            f"They are not shown here. {kind_advice(table.dtype, signed=classes == 2)}",
        )
    return table.astype(np.int64)


def count_votes(votes: Any, K: int | None, classes: int) -> VoteTable:
    """Return the number of votes for each class in each row, shape (N, C).

    Args:
        votes: integers 0..C−1, shape (N, K) or (K,).
        K: number of voters; None: the number of columns.
        classes: C.

    Raises:
        InvalidInput: another shape or an invalid class; votes are not shown.

    >>> count_votes([[0, 2, 2]], 3, 3).tolist()
    [[1, 0, 2]]
    """
    return count_checked(checked_for(votes, K, classes), classes)


def checked_for(votes: Any, K: int | None, classes: int) -> NDArray[Any]:
    """Return votes as integers of shape (N, K); for two classes also truth values."""
    return checked_votes(votes, K) if classes == 2 else checked_classes(votes, K, classes)


def count_checked(table: NDArray[Any], classes: int) -> VoteTable:
    """Return the number of votes for each class in each row of checked votes, shape (N, C)."""
    if classes == 2:
        ones = count_ones(table)
        return np.stack([table.shape[1] - ones, ones], axis=1)
    places = table + classes * np.arange(len(table))[:, None]
    return np.bincount(places.ravel(), minlength=len(table) * classes).astype(np.int64).reshape(len(table), classes)


def count_ones(votes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number of ones in each row of checked votes."""
    ones = np.zeros(len(votes), dtype=np.int32)
    for voter in range(votes.shape[1]):  # by column: NumPy's sums along a short last axis are ten times slower
        ones += votes[:, voter]
    return ones.astype(np.int64)


def checked_votes(votes: Any, K: int | None) -> NDArray[np.uint8]:
    """Return votes as zeros and ones of shape (N, K), or reject them without showing them."""
    table = vote_table(votes, K)
    if table.dtype == np.bool_:  # a buffer may contain bytes other than 0 and 1: each counts as one vote
        return np.not_equal(table.view(np.uint8), 0).astype(np.uint8)
    # Every element is examined, whatever the others are.
    if table.dtype.kind in "iuf" and not np.count_nonzero((table != 0) & (table != 1)):
        return table.astype(np.uint8, copy=False)
    raise InvalidInput(
        "votes",
        f"{table.dtype}, not all 0 or 1",
        "votes that are 0 or 1",
        f"They are not shown here. {kind_advice(table.dtype, signed=True)}",
    )
