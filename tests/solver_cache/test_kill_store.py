"""Short form of the kill campaign (results: docs/faults.md): everything acknowledged survives a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from campaigns.kill_store import looked_at, resumed
from support.paths import ROOT, SEARCH_PATH

from darrm_opt import Problem
from darrm_opt.record import digest
from solver_cache import DesignSpec, Row, cached_solve, open_store


@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 8), ("postgresql", 4)])
def test_killed_writers_lose_nothing_acknowledged(kind: str, kills: int) -> None:
    command = [sys.executable, "-m", "campaigns.kill_store", "--kills", str(kills), "--kind", kind, "--json"]
    environment = {
        **os.environ,
        "PYTHONPATH": SEARCH_PATH,
    }  # in a separate process, since it forks and pytest has threads
    told = subprocess.run(command, cwd=ROOT, env=environment, timeout=300, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    tally = json.loads(told.stdout)[kind]
    assert tally["lost"] == []
    assert tally["kills"] == kills


def test_the_campaign_detects_losses(tmp_path: Path) -> None:
    problem = Problem.from_allowance(K=5, m=2, epsilon=0.1)
    key = DesignSpec(problem).key
    with closing(open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}")) as store:
        cached_solve(problem, store=store)
        store.put(Row("bad", 1, "{}", digest("{}")))
        for name in ("done", "other"):
            store.jobs.submit(name, "gamma", "{}")
            store.jobs.take("me", 60)
            store.jobs.finish(name, "me", key)
        store.jobs.submit("left", "gamma", "{}")
        good = ["opened", "submitted done", f"kept {key}", f"done done {key}", "submitted left"]
        seen = looked_at(store, good, kills=2)
        assert (seen.kills, seen.early, seen.kept, seen.done, seen.resumed, seen.lost) == (2, 1, 1, 1, 1, [])
        assert resumed(store.jobs) == 0
        for lie in ("kept gone", "kept bad", "submitted gone", "wrong something", "submitted other\ndone other x"):
            assert len(looked_at(store, lie.splitlines(), kills=1).lost) == 1
