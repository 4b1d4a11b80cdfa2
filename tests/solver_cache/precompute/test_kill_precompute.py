"""The campaign of killed precomputations in short: each answer is stored once, by whoever held its claim.

The long form, and what came of it: docs/faults.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.paths import TESTS


@pytest.mark.slow
def test_killed_workers_lose_nothing_and_nobody_stores_for_another() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "campaigns.kill_precompute", "--kills", "2", "--json"],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    tally = json.loads(told.stdout)
    assert tally["wrong"] == []
    assert sum(tally["kills"].values()) + tally["cut"] >= 2
    assert tally["completed"] >= tally["problems"]
