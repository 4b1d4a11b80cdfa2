"""`darrm serve` as a process of its own, and what a test asks of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from solver_cache.process_pool import _BOOTSTRAP
from support import waiting
from support.darrm_runner import PROGRAM
from support.paths import ROOT

QUIET = {"DARRM_LOG_LEVEL": "error", "DARRM_RATE": "0", "DARRM_BURST": "1000000"}


_NUMBERS = count(1)


class Service:
    """A server under way.

    Args:
        url: of its store.
        cwd: where it runs, and its log goes.
        port: where it listens; 0 for any.
        settings: more of its environment.
    """

    def __init__(self, url: str, cwd: Path, port: int = 0, **settings: str) -> None:
        environment = {"PYTHONPATH": str(ROOT), "DARRM_CACHE_URL": url, **QUIET, **settings}
        self.log = cwd / f"log-{next(_NUMBERS)}.txt"  # a pipe that nobody reads would fill, and hold the server up
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*PROGRAM, "serve", "--port", str(port), "--json"],
                cwd=cwd,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text(encoding="utf-8")
        self.url = json.loads(line)["url"]
        self.client = httpx.Client(base_url=self.url, timeout=300)
        self.wait()

    def wait(self) -> None:
        """Wait until it answers; for minutes, where the machine is busy with much else."""
        end = time.monotonic() + 300
        while True:
            try:
                if self.client.get("/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            assert time.monotonic() < end
            time.sleep(0.02)

    @property
    def solvers(self) -> list[int]:
        """Process ids of its solver processes, whichever worker they belong to."""
        return [pid for pid in family(self.process.pid)[1:] if _is_of_pool(pid)]

    def job(self, id: str, *, until: str | tuple[str, ...] = (), seconds: float = 300) -> dict[str, Any]:
        """Return a job, once it is in one of these states."""

        def job() -> dict[str, Any] | None:
            found: dict[str, Any] = self.client.get(f"/v1/jobs/{id}").raise_for_status().json()
            return found if not until or found["state"] in until else None

        return dict(waiting.until(job, seconds))

    def kill(self) -> None:
        """End it as a power cut does, with all its workers: none has time for anything."""
        for pid in family(self.process.pid):  # workers are children of the process that they are forked from
            if not _is_of_pool(pid):  # solver processes must end by themselves
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.communicate()
        self.client.close()

    def stop(self) -> tuple[int, str]:
        """End it in order; return its exit code and what it logged."""
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=300)
        return self.process.returncode, self.log.read_text(encoding="utf-8")


@contextmanager
def service(url: str, cwd: Path, **settings: str) -> Iterator[Service]:
    """Open a server, and end it in order unless it has ended."""
    server = Service(url, cwd, 0, **settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            try:
                server.stop()
            except subprocess.TimeoutExpired:
                server.kill()
                raise
        server.client.close()


def alive(pid: int) -> bool:
    """Whether a process still runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pids: list[int], seconds: float = 30) -> None:
    """Wait until none of these processes runs."""
    waiting.until(lambda: not any(alive(pid) for pid in pids), seconds)


def workers_of(pid: int) -> list[int]:
    """Return the workers of a server: the processes that answer requests, where it has several."""
    tree = children()
    spawned = [child for child in tree.get(pid, []) if b"multiprocessing.spawn" in command_line(child)]
    origins = [child for child in tree.get(pid, []) if b"multiprocessing.forkserver" in command_line(child)]
    return spawned + [worker for origin in origins for worker in tree.get(origin, [])]


def _is_of_pool(pid: int) -> bool:
    return _BOOTSTRAP.encode() in command_line(pid)


def children() -> dict[int, list[int]]:
    """Return the children of every process."""
    tree: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            tree.setdefault(parent, []).append(int(entry.name))
    return tree


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    tree, found = children(), [pid]
    for parent in found:  # grows while it is walked
        found += tree.get(parent, [])
    return found


def command_line(pid: int) -> bytes:
    """Return how a process was started; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
