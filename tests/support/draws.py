"""Draws of a mechanism against its law, at a stated power: an audit believes our own mechanisms and draws nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from darrm_opt.mechanisms import VoteMechanism
from darrm_opt.randomness import SeededRandomnessForTestsOnly
from darrm_opt.tables.problem import ABSTENTION

DRAWS, LEVEL, SHIFT, MISSED = 6_000, 1e-4, 0.06, 1e-3
"""Draws of a test, its false alarms, a change of two probabilities, and the share of tests that may miss that change."""


def hold_draws(
    mechanism: VoteMechanism, counts: tuple[int, ...], chances: list[float], draws: int = DRAWS, shift: float = SHIFT
) -> None:
    """Hold draws against a law by χ², and show that a law that is off by ``shift`` would be noticed."""
    outputs = [*range(len(counts)), ABSTENTION][: len(chances)]
    bits = SeededRandomnessForTestsOnly(17)
    sample = np.array([mechanism.draw(counts, bits) for _ in range(draws)])
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
