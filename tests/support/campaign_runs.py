"""Campaigns in processes of their own: some fork, and pytest's may have threads by then."""

from __future__ import annotations

import json
import os
from typing import Any

from support import forkserver
from support.paths import ROOT, SEARCH_PATH


def tally_of(campaign: str, *options: str) -> Any:
    """Return what ``python -m campaigns.CAMPAIGN OPTIONS --json`` prints; fail with it where the campaign does."""
    program = f"import runpy; runpy.run_module('campaigns.{campaign}', run_name='__main__', alter_sys=True)"
    environment = {**os.environ, "PYTHONPATH": SEARCH_PATH}
    told = forkserver.run(program, *options, "--json", cwd=ROOT, env=environment, timeout=300)
    assert told.returncode == 0, told.stdout + told.stderr
    return json.loads(told.stdout)
