"""The campaign of killed precomputations in short: each answer is stored once, by whoever held its claim.

The long form, and what came of it: docs/faults.md.
"""

from __future__ import annotations

import pytest
from campaigns.apart import tally_of


@pytest.mark.slow
def test_killed_workers_lose_nothing_and_nobody_stores_for_another() -> None:
    tally = tally_of("kill_precompute", "--kills", "2", "--pause", "0.05", "0.25")  # both in one run
    assert tally["wrong"] == []
    assert sum(tally["kills"].values()) + tally["cut"] >= 2
    assert tally["completed"] >= tally["problems"]
