"""Readiness means that a new problem would be answered; cached reads continue whatever happens to the store."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support import solver_tasks as tasks
from support.served import serving
from support.waiting import until

from api.app import create_app
from api.routes import operations
from api.service import resources
from api.settings import Settings
from solver_cache.database import connection as database_connection

KEPT = {"K": 5, "m": 2, "epsilon": 0.1}


def settings(path: Path, **more: Any) -> Settings:
    chosen = {"cache_url": f"sqlite:///{path}", "solvers": 1, "wait_seconds": 30.0, "ready_seconds": 0.0, **more}
    return Settings(**chosen)


def deleted(path: Path, _: pytest.MonkeyPatch) -> None:
    path.unlink()


def replaced(path: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def overwritten(path: Path, _: pytest.MonkeyPatch) -> None:
    with path.open("r+b") as file:
        file.write(b"not a database any more" * 100)


def full(_: Path, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(database_connection, "MIN_FREE_BYTES", 2**80)


FAULTS: list[Callable[[Path, pytest.MonkeyPatch], None]] = [deleted, replaced, overwritten, full]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_cannot_write_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    path = tmp_path / "store.sqlite"
    with TestClient(create_app(settings(path))) as client:
        ready = client.get("/readyz")
        checks = ready.json()["checks"]
        assert (ready.status_code, checks["database"], checks["queue"]) == (200, "ok", "ok")  # its solver may be busy
        kept = client.get("/v1/gamma", params=KEPT).json()
        assert client.get("/v1/gamma", params=KEPT).status_code == 200
        fault(path, monkeypatch)
        told = client.get("/readyz")
        assert told.status_code == 503
        assert "database: it cannot be used" in told.json()["detail"]
        again = client.post("/v1/gamma", json=KEPT)  # from the caches of this process
        assert (again.status_code, again.json()["gamma"]) == (200, kept["gamma"])
        assert client.get("/healthz").status_code == 200
        new = client.post("/v1/jobs", json={**KEPT, "K": 7})
        assert new.status_code == (202 if fault is full else 503)  # no job is accepted into a deleted file


def test_an_unattended_queue_is_not_ready(tmp_path: Path) -> None:
    with TestClient(create_app(settings(tmp_path / "store.sqlite"))) as client:
        assert client.get("/readyz").status_code == 200
        service = client.app.state.service  # type: ignore[attr-defined]
        for worker in service.workers:
            worker._take_task.cancel()
        told = until(lambda: (found := client.get("/readyz")).status_code != 200 and found)
        assert "queue: the loop that reads the queue has ended" in told.json()["detail"]


def test_a_busy_queue_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "CHECK_SECONDS", 2.0)
    begun = tmp_path / "pid"
    with TestClient(create_app(settings(tmp_path / "store.sqlite"))) as client:
        assert client.get("/readyz").status_code == 200
        assert client.portal is not None
        service = client.app.state.service  # type: ignore[attr-defined]
        client.portal.start_task_soon(partial(service.compute, tasks.deaf, str(begun)))
        until(begun.exists)
        told = until(lambda: (found := client.get("/readyz")).status_code == 200 and found)
        assert told.json()["checks"] == {"database": "ok", "solver": "busy", "queue": "ok"}


def test_a_lock_does_not_block_stored_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    with TestClient(create_app(settings(path))) as client:
        others = [{"K": 5, "m": 2, "epsilon": 0.1 + i / 100} for i in range(3)]
        for one in others:
            assert client.post("/v1/gamma", json=one).status_code == 200
    monkeypatch.setattr(resources, "STORE_SECONDS", 300.0)  # longer than a busy machine takes for what follows
    monkeypatch.setattr(database_connection, "BUSY_SECONDS", 300)
    with TestClient(create_app(settings(path, wait_seconds=0.0))) as client, closing(sqlite3.connect(path)) as locker:
        locker.isolation_level = None
        locker.execute("BEGIN IMMEDIATE")
        service = client.app.state.service  # type: ignore[attr-defined]
        portal = client.portal
        assert portal is not None
        stuck = [
            portal.start_task_soon(service.run_in_thread, service.jobs.submit, f"{i}", "none", "{}") for i in range(6)
        ]
        time.sleep(0.5)  # all writing threads now wait for the lock
        assert not any(each.done() for each in stuck)
        for one in others:  # never requested from this process before
            assert client.post("/v1/gamma", json=one).json()["cached"]
            assert client.get("/v1/error-curve", params={**one, "points": 3}).status_code == 200
        assert client.get("/v1/jobs").status_code == 200
        assert not any(each.done() for each in stuck)
        with monkeypatch.context() as impatient:
            impatient.setattr(operations, "CHECK_SECONDS", 1.0)
            told = client.get("/readyz")
        assert (told.status_code, told.json()["detail"]) == (503, "database: it does not answer in time.")
        locker.execute("ROLLBACK")
        for each in stuck:
            each.result(300)
        assert client.get("/readyz").status_code == 200


def test_a_foreign_lock_fails_requests_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    monkeypatch.setattr(resources, "STORE_SECONDS", 1.0)
    monkeypatch.setattr(resources, "ANSWER_SECONDS", 0.2)
    with TestClient(create_app(settings(path, wait_seconds=0.0))) as client, closing(sqlite3.connect(path)) as locker:
        locker.isolation_level = None
        locker.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(20) as clients:  # five times the number of writing threads
            news = [{"K": 7, "m": 2, "epsilon": 0.1 + i / 100} for i in range(20)]
            statuses = list(clients.map(lambda new: client.post("/v1/gamma", json=new).status_code, news))
        assert statuses == 20 * [503]
        locker.execute("ROLLBACK")
        until(lambda: client.post("/v1/gamma", json=news[0]).status_code != 503)


@pytest.mark.slow
def test_workers_of_a_read_only_store_share_their_jobs(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with TestClient(create_app(settings(path))) as client:
        assert client.post("/v1/gamma", json=KEPT).status_code == 200
    url = f"sqlite:///{path}?mode=ro"
    with serving(tmp_path, "--workers", "2", DARRM_CACHE_URL=url, DARRM_WAIT_SECONDS="0", DARRM_SOLVERS="1") as service:
        id = service.ask("/v1/gamma?K=7&m=2&epsilon=0.1").json()["id"]
        assert {service.ask(f"/v1/jobs/{id}").status for _ in range(12)} == {200}  # from any worker
        until(lambda: service.ask(f"/v1/jobs/{id}").json()["state"] == "done")
        assert {service.ask(f"/v1/jobs/{id}/result").status for _ in range(8)} == {200}


@pytest.mark.slow
def test_after_a_killed_worker_the_server_is_ready(tmp_path: Path) -> None:
    with serving(tmp_path, DARRM_SOLVERS="1", DARRM_READY_SECONDS="0", DARRM_CACHE_URL="memory") as service:
        assert service.ask("/readyz").status == 200
        listing = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text(encoding="ascii")
        for pid in map(int, listing.split()):
            os.kill(pid, signal.SIGKILL)
        assert service.ask("/readyz").status == 200
        assert service.ask("/v1/gamma?K=7&m=2&epsilon=0.1").status == 200
