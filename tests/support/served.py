"""`darrm serve` as a process of its own: what only a served program shows, and what a test asks of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from solver_cache.process_pool import _BOOTSTRAP
from support import waiting
from support.darrm_runner import start

LONGEST = 3600.0  # no server outlives this [s]: a campaign takes up to that

PATIENT = {"DARRM_LOG_FORMAT": "json", "DARRM_WAIT_SECONDS": "60", "DARRM_HEAD_SECONDS": "60"}
"""Settings for a busy machine, where a small solve, and the way of a request, may take seconds."""

QUIET = {"DARRM_LOG_LEVEL": "error", "DARRM_RATE": "0", "DARRM_BURST": "1000000"}
"""Settings of a server that is asked as often as anyone likes."""


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class Served:
    """A server under way.

    Args:
        folder: where it runs.
        arguments: of `darrm serve`.
        settings: more of its environment.

    Attributes:
        process: of `darrm serve`.
        url: where it listens.
        log_file: what it writes to stderr: a pipe that nobody reads would fill, and hold the server up.
    """

    def __init__(self, folder: Path, *arguments: str, **settings: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="darrm-log-")
        os.close(descriptor)
        self.log_file = Path(name)
        weakref.finalize(self, self.log_file.unlink, missing_ok=True)
        with self.log_file.open("ab") as log:
            self.process = start("serve", "--json", *arguments, cwd=folder, stderr=log, **settings)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise AssertionError("".join(self.log))
        self.url: str = json.loads(line)["url"]

    @property
    def log(self) -> list[str]:
        """The lines that it has logged."""
        text = self.log_file.read_text(encoding="utf-8")
        return text[: text.rfind("\n") + 1].splitlines(keepends=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def ask(
        self, path: str, method: str = "GET", body: bytes | Iterator[bytes] | None = None, **headers: str
    ) -> Answer:
        """Ask once, on a connection of its own."""
        connection = http.client.HTTPConnection(*self.address, timeout=300)
        with contextlib.closing(connection):
            header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it was all sent
                connection.request(method, path, body, header_fields, encode_chunked=isinstance(body, Iterator))
            response = connection.getresponse()
            response_headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response_headers, response.read())

    def connect(self) -> socket.socket:
        """Open a bare connection."""
        return socket.create_connection(self.address, timeout=300)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=300)

    def events(self) -> list[dict[str, Any]]:
        """Return the log, as events."""
        return [json.loads(line) for line in self.log]


def connected_from(service: Served, address: str, receive_buffer: int | None = None) -> socket.socket:
    """Return a connection from an address of loopback, which stands for a machine of its own."""
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(300)
    connection.bind((address, 0))
    connection.connect(service.address)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return all that comes until the server closes; a reset after an answer is an end, too."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            found += more
    return found


def status_from(service: Served, address: str, path: str, body: bytes = b"") -> int:
    """Return the status of an answer to an address; 0 where the connection was closed without one."""
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with connected_from(service, address) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head.encode() + content)
        found = received(connection)
    return int(found[9:12]) if found else 0


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, **settings: str) -> Iterator[Served]:
    """Serve on loopback, at a free port; with settings such as ``DARRM_RATE="1"``."""
    server = Served(folder, "--port", "0", *arguments, **PATIENT | settings)
    process, killer = server.process, threading.Timer(LONGEST, server.process.kill)
    killer.start()
    try:
        yield server
        if process.poll() is None:
            assert server.end() in {0, -signal.SIGKILL}  # where a test has killed it
    finally:
        process.kill()
        process.communicate()
        killer.cancel()


class Service(Served):
    """A server over a store, which is asked by a client of its own once it answers.

    Args:
        url: of its store.
        cwd: where it runs.
        port: where it listens; 0 for any.
        settings: more of its environment.
    """

    def __init__(self, url: str, cwd: Path, port: int = 0, **settings: str) -> None:
        super().__init__(cwd, "--port", str(port), **{"DARRM_CACHE_URL": url, **QUIET, **settings})
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
                assert self.process.poll() is None, "".join(self.log)
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
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.communicate()
        self.client.close()

    def stop(self) -> tuple[int, str]:
        """End it in order; return its exit code and what it logged."""
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=300)
        return self.process.returncode, "".join(self.log)


@contextlib.contextmanager
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
