"""The campaign of kills in short: the service, its workers, solver processes and clients die at random moments.

The long form, and what came of it: docs/faults.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from campaigns.kill_service import Campaign


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_nothing_is_lost_or_wrong_after_some_kills(tmp_path: Path) -> None:
    outcome = Campaign(tmp_path, seed=2).run(kills=3, seconds=240)
    assert outcome.wrong == []
    assert sum(outcome.kills.values()) >= 3
    assert outcome.answers > 0
    assert outcome.rows >= outcome.jobs["done"] > 0
    assert set(outcome.jobs) <= {"done", "failed"}
