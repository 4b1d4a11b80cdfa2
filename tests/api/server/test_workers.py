"""Workers that cannot start, die or hang: consequences for the others and the server."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess, SpawnProcess
from pathlib import Path

import pytest
import worker_behaviours

from api.server import worker
from api.server.run import listen
from api.settings import Settings


def supervised(life: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch, workers: int = 1) -> bool:
    """Supervise workers with this behaviour; no process remains afterwards, and signal handlers are restored."""
    monkeypatch.setattr(worker, "run_worker", life)
    monkeypatch.setattr(worker, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(worker, "KILL_SECONDS", 0.0)
    settings = Settings(cache_url="memory", workers=workers, stop_seconds=1, run_folder=folder)
    before, surroundings = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)), dict(os.environ)
    with listen("127.0.0.1", 0) as listening:
        found = worker.supervise(settings, listening)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert dict(os.environ) == surroundings
    assert not multiprocessing.active_children()
    return found


def test_a_worker_that_cannot_start_stops_the_server_and_is_not_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not supervised(worker_behaviours.cannot_start, tmp_path, monkeypatch, workers=2)
    assert len(list(tmp_path.iterdir())) <= 2
    assert caplog.record_tuples[-1] == ("api.supervisor", logging.ERROR, "a worker could not start; stopping")


def test_a_worker_that_dies_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert supervised(worker_behaviours.dies_once, tmp_path, monkeypatch)
    assert len(list(tmp_path.iterdir())) == 2
    assert "ended (-9); replacing it" in caplog.text


@pytest.mark.parametrize(
    ("error", "is_started"),
    [
        (OSError("AF_UNIX path too long"), True),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), True),  # the fork server was killed
        (EOFError("unexpected EOF"), True),
        (OSError(errno.EMFILE, "Too many open files"), False),
    ],
)
def test_a_worker_that_cannot_be_forked_is_spawned_unless_processes_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, error: Exception, is_started: bool
) -> None:
    anew: list[str] = []

    def fail(_: ForkServerProcess) -> None:
        raise error

    monkeypatch.setattr(ForkServerProcess, "start", fail)
    monkeypatch.setattr(SpawnProcess, "start", lambda process: anew.append(process.name))
    with socket.socket() as listening:
        slot = worker._WorkerSlot(Settings(cache_url="memory"), listening)
        with nullcontext() if is_started else pytest.raises(OSError, match="Too many open files"):
            slot.start()
    assert slot.has_started == bool(anew) == is_started


def test_files_in_the_current_folder_are_not_imported_by_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("pickle", "random", "socket"):
        (folder / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(folder)
    (tmp_path / "run").mkdir()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # so that one starts in this folder
    # Else a worker that cannot start would be replaced forever.
    end = threading.Timer(60, os.kill, (os.getpid(), signal.SIGTERM))
    end.start()
    try:
        assert supervised(worker_behaviours.stops_the_supervisor, tmp_path / "run", monkeypatch)
    finally:
        end.cancel()
    assert "ended" not in caplog.text


def test_a_hung_worker_is_killed_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert supervised(worker_behaviours.hangs, tmp_path, monkeypatch)
    assert "did not stop in time; killing it" in caplog.text
    [process] = (int(path.name) for path in tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
