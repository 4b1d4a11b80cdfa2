"""Runs on Dask, with real schedulers and workers: the same table, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from campaigns import counted_work
from campaigns.counted_work import GRID, counted, counts
from support import postgres
from support.darrm_runner import run as darrm

from darrm_opt import InvalidInput
from darrm_opt.answers.tables import design_seconds
from solver_cache import Row, open_store
from solver_cache.precompute.cluster import Cluster
from solver_cache.precompute.executor import ExecutorLost
from solver_cache.precompute.grid import grid_of
from solver_cache.precompute.plan import RunProgress, make_plan
from solver_cache.precompute.scheduler import RunOptions, run

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning"),
    pytest.mark.slow,
]
MANY = 22


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
    return tmp_path / "counted"


@pytest.fixture(scope="module")
def undisturbed() -> list[Row]:
    return counted_work.undisturbed(GRID)


@pytest.fixture
def cluster(log: Path) -> Iterator[Cluster]:
    assert log.parent.is_dir()
    with closing(Cluster(None, 2, counted)) as made:
        yield made


def test_answers_are_returned_and_dead_workers_are_replaced(
    log: Path, cluster: Cluster, undisturbed: list[Row]
) -> None:
    store, killed = open_store("memory"), list[int]()
    plan = make_plan(grid_of(GRID).specs(), store, design_seconds)

    def kill(_: RunProgress) -> None:
        if len(killed) < 2 and counts(log, "begun").total() > 3 * len(killed):
            pids = [nanny.pid for nanny in cluster._local.workers.values() if nanny.pid is not None]
            if pids:
                killed.append(pids[0])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[0], signal.SIGKILL)

    outcome = run(plan, store, cluster, RunOptions(attempts=20), kill)
    assert [*store.rows()] == undisturbed
    assert (outcome.progress.solved, outcome.failures) == (MANY, ())
    assert {*counts(log)} == {row.key for row in undisturbed}


def test_workers_write_to_postgresql_directly(log: Path, cluster: Cluster, undisturbed: list[Row]) -> None:
    url = postgres.server().url(postgres.server().new())
    with closing(open_store(url)) as store:
        plan = make_plan(grid_of(GRID).specs(), store, design_seconds)
        outcome = run(plan, store, cluster, RunOptions(store_url=url, lease=10))
        assert [*store.rows()] == undisturbed
        assert outcome.progress.solved == MANY
        assert set(counts(log).values()) == {1}


def test_a_scheduler_without_workers_or_lost_ends_the_run_with_stored_answers() -> None:
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler = subprocess.Popen([*command, "--no-dashboard"], stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)
    store = open_store("memory")
    plan = make_plan(grid_of(GRID).specs(), store, design_seconds)
    told = pytest.raises(ExecutorLost, match=r"has had no worker for 1 s\. Run again to continue")
    with told, closing(Cluster(address)) as idle:
        idle._retry_seconds = 1
        run(plan, store, idle, RunOptions(lease=5))
    with closing(Cluster(address, work=counted)) as joined:
        joined._retry_seconds = 1
        scheduler.kill()
        scheduler.communicate()
        with pytest.raises(ExecutorLost, match=r"does not respond.*Run again to continue"):
            run(plan, store, joined, RunOptions(lease=5))
    keys = [spec.key for spec in grid_of(GRID).specs()]
    assert set(store.claim("another", 60, keys).values()) == {"taken"}


def test_a_missing_scheduler_is_reported() -> None:
    with pytest.raises(ExecutorLost, match=r"tcp://127\.0\.0\.1:9 does not respond"):
        Cluster("tcp://127.0.0.1:9", retry_seconds=0.5)
    with pytest.raises(InvalidInput, match="an address such as tcp://HOST:8786"):
        Cluster("localhost")


def test_dask_from_the_command_line(tmp_path: Path, undisturbed: list[Row]) -> None:
    grid, url = tmp_path / "grid.json", f"sqlite:///{tmp_path / 'store.sqlite'}"
    grid.write_text(json.dumps(GRID))
    told = darrm("precompute", str(grid), "--url", url, "--scheduler", "local:1", "--json")
    assert json.loads(told.stdout)["outcome"]["solved"] == MANY
    with closing(open_store(url)) as store:
        assert [*store.rows()] == undisturbed
