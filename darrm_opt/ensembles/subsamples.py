"""Drawing Bagging's subsamples, exactly as `bagging_guarantee` assumes they are drawn.

The draw *is* the privacy, so it comes from the operating system and is exactly uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from darrm_opt.ensembles.bagging import Draws, Sampling
from darrm_opt.ensembles.randomness import Bits, SystemBits


def draw_subsamples(
    n: int,
    subsample_size: int,
    n_models: int,
    *,
    replacement: bool = True,
    sampling: Sampling = "independent",
    bits: Bits | None = None,
) -> list[NDArray[np.int64]]:
    """Return the record numbers of each model's subsample.

    Args:
        n: records in the dataset, ≥ 2.
        subsample_size: records per model, ≥ 1.
        n_models: models, ≥ 1.
        replacement: whether a record can be drawn twice within a subsample.
        sampling: without replacement, each subsample afresh, or all of them at once and disjoint.
        bits: source of chance; None for the operating system. The indices must stay secret: who knows
            them knows which models saw a record.

    Returns:
        ``n_models`` arrays of shape (subsample_size,), record numbers in 0..n−1.

    Guarantees:
        Every sequence (with replacement) or ordered subset (without) is equally likely.

    Raises:
        InvalidInput: as `bagging_guarantee`.

    >>> [len(chosen) for chosen in draw_subsamples(100, 10, 3)]
    [10, 10, 10]
    """
    draws = Draws(n, subsample_size, n_models, replacement, sampling)
    n, k, N = draws.n, draws.subsample_size, draws.n_models
    bits = bits or SystemBits()
    if replacement:
        return [np.array([bits.below(n) for _ in range(k)], dtype=np.int64) for _ in range(N)]
    if sampling == "independent":
        return [np.array(_first_of_shuffle(n, k, bits), dtype=np.int64) for _ in range(N)]
    together = _first_of_shuffle(n, N * k, bits)
    return [np.array(together[i * k : (i + 1) * k], dtype=np.int64) for i in range(N)]


def _first_of_shuffle(n: int, k: int, bits: Bits) -> list[int]:
    """Return k different numbers below n in uniformly random order: k steps of a shuffle of which only the moved entries are kept."""
    moved: dict[int, int] = {}
    chosen = []
    for place in range(k):
        other = place + bits.below(n - place)
        chosen.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return chosen
