"""Histogram of observed votes: how many queries had l ones, as the objective of a design or a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from darrm_opt.errors import InvalidInput
from darrm_opt.priors import Histogram


def vote_histogram(blocks: Iterable[Any]) -> Histogram:
    """Return the histogram of matrices of votes.

    Args:
        blocks: matrices of shape (N, K) with the same K, one row a query, one column a voter, each 0 or 1 (as numbers or
            truth values).

    Returns:
        ``counts[l]`` rows with l ones, l = 0..K. As private as the votes are: what is computed from it is no release.

    Raises:
        InvalidInput: no such matrix, or no row with a majority.

    >>> vote_histogram([[[1, 1, 0], [0, 0, 0]], [[1, 1, 1], [0, 1, 1]]]).counts
    (1.0, 0.0, 2.0, 1.0)
    """
    accepted = "matrices of 0 and 1 of one width, one row a query and one column a voter"
    counts: np.ndarray[Any, np.dtype[np.int64]] | None = None
    for block in blocks:
        array = np.asarray(block)
        if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "biuf":
            raise InvalidInput("votes", array.shape, accepted, "That is the shape of one.")
        if counts is not None and array.shape[1] != counts.size - 1:
            raise InvalidInput("votes", array.shape, accepted, f"Another has {counts.size - 1} columns.")
        if not np.isin(array, (0, 1)).all():
            raise InvalidInput("votes", float(array[~np.isin(array, (0, 1))][0]), accepted)
        found = np.bincount(array.sum(axis=1).astype(np.int64), minlength=array.shape[1] + 1)
        counts = found if counts is None else counts + found
    if counts is None:
        raise InvalidInput("votes", None, accepted)
    return Histogram(tuple(float(count) for count in counts))
