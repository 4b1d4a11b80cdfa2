"""Voters that add true noise, as bad as an adversary makes them, against what is certified for their profile."""

from __future__ import annotations

import numpy as np
import pytest
from support.true_voters import (
    KINDS,
    ROUNDING,
    TrueVoter,
    attack,
    gaussian,
    laplace,
    sampled_gaussian,
    worst_excess,
)


@pytest.mark.parametrize("kind", KINDS)
def test_true_voters_never_break_what_is_certified(kind: str) -> None:
    draw = np.random.default_rng(5)
    for _ in range(2):
        found = attack(kind, draw, most_voters=7, starts=6)
        assert max(found.excesses) <= ROUNDING, found
        assert found.of_majority <= ROUNDING or not found.is_certified, found


@pytest.mark.parametrize(
    "voter", [gaussian(0.3), laplace(4.0), sampled_gaussian(1.0, 0.3)], ids=lambda voter: voter.name
)
def test_the_adversary_breaks_the_plain_majority(voter: TrueVoter) -> None:
    draw = np.random.default_rng(0)
    # a vote alone is as its profile says; seven of them move the majority by more
    alone = worst_excess(voter, np.ones(2), 0.1, voter.delta(0.1), draw, starts=3)
    assert -1e-6 < alone <= ROUNDING
    assert worst_excess(voter, np.ones(8), 0.1, voter.delta(0.1), draw, starts=3) > 0.01
