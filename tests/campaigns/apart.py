"""Campaigns in processes of their own: some fork, and pytest's may have threads by then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from support.paths import ROOT, SEARCH_PATH


def tally_of(campaign: str, *options: str) -> Any:
    """Return what ``python -m campaigns.CAMPAIGN OPTIONS --json`` prints; fail with it where the campaign does."""
    command = [sys.executable, "-m", f"campaigns.{campaign}", *options, "--json"]
    environment = {**os.environ, "PYTHONPATH": SEARCH_PATH}
    told = subprocess.run(command, cwd=ROOT, env=environment, timeout=300, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    return json.loads(told.stdout)
