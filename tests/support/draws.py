"""Draws of a mechanism against its law, by a χ² test of stated power."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_opt.tables.problem import ABSTENTION

DRAWS, LEVEL, SHIFT, MISSED = 6_000, 1e-4, 0.06, 1e-3
"""Draws per test, false alarm rate, a shift of two probabilities, and the rate of missing that shift."""


def hold_draws(
    mechanism: VoteMechanism,
    counts: tuple[int, ...],
    chances: Sequence[float],
    draws: int = DRAWS,
    shift: float = SHIFT,
) -> None:
    """Test draws against a law by χ², and check that a law off by ``shift`` would be detected.

    ``chances`` lists the probability of each class in the order of ``counts``, then that of an abstention, if any.
    """
    outputs = [*range(len(counts)), ABSTENTION][: len(chances)]
    bits = SeededRandomnessForTestsOnly(17)
    sample = mechanism.draw_many(np.array([counts] * draws), bits)
    assert set(sample.tolist()) <= set(outputs)
    seen = np.array([np.count_nonzero(sample == output) for output in outputs])
    expected = np.array(chances) * draws
    assert (expected >= 5).all()
    assert math.fsum(chances) == pytest.approx(1, abs=1e-9)
    assert stats.chisquare(seen, expected * (draws / expected.sum())).pvalue > LEVEL
    order = np.argsort(chances)
    moved = np.array(chances)
    moved[order[-1]] -= shift
    moved[order[-2]] += shift
    noncentral = draws * float(np.sum((moved - chances) ** 2 / moved))
    limit = stats.chi2.isf(LEVEL, len(chances) - 1)
    assert stats.ncx2.cdf(limit, len(chances) - 1, noncentral) < MISSED
    assert stats.chisquare(seen, moved * (draws / moved.sum())).pvalue < LEVEL
