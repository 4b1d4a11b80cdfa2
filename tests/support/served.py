"""`darrm serve` as a separate process, and requests to it."""

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

LONGEST = 3600.0  # maximum lifetime of a server [s], that of a campaign

PATIENT = {"DARRM_LOG_FORMAT": "json", "DARRM_WAIT_SECONDS": "60", "DARRM_HEAD_SECONDS": "60"}
"""Settings for a busy machine, where a small solve or a request may take seconds."""

QUIET = {"DARRM_LOG_LEVEL": "error", "DARRM_RATE": "0", "DARRM_BURST": "1000000"}
"""Settings of a server without rate limits."""


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
    """A running server.

    Args:
        folder: its working directory.
        arguments: of `darrm serve`.
        settings: further environment variables.

    Attributes:
        process: of `darrm serve`.
        url: its address.
        log_file: its stderr; an unread pipe would fill and block the server.
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
        """The lines of its log."""
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
        """Send one request on a new connection."""
        connection = http.client.HTTPConnection(*self.address, timeout=300)
        with contextlib.closing(connection):
            header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it was sent completely
                connection.request(method, path, body, header_fields, encode_chunked=isinstance(body, Iterator))
            response = connection.getresponse()
            response_headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, response_headers, response.read())

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(self.address, timeout=300)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=300)

    def events(self) -> list[dict[str, Any]]:
        """Return the log, as events."""
        return [json.loads(line) for line in self.log]


def connected_from(service: Served, address: str, receive_buffer: int | None = None) -> socket.socket:
    """Return a connection from an address of loopback, which stands for another machine."""
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(300)
    connection.bind((address, 0))
    connection.connect(service.address)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return everything received until the server closes; a reset after an answer counts as the end."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65_536):
            found += more
    return found


def status_from(service: Served, address: str, path: str, body: bytes = b"") -> int:
    """Return the status of the answer to an address; 0 if the connection was closed without one."""
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
            assert server.end() in {0, -signal.SIGKILL}  # if a test has killed it
    finally:
        process.kill()
        process.communicate()
        killer.cancel()


class Service(Served):
    """A server over a store with its own client.

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
        """Wait until it answers, for minutes on a busy machine."""
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
        """Return the process ids of the solver processes of all its workers."""
        return [pid for pid in family(self.process.pid)[1:] if _is_of_pool(pid)]

    def job(self, id: str, *, until: str | tuple[str, ...] = (), seconds: float = 300) -> dict[str, Any]:
        """Return a job once it is in one of these states."""

        def job() -> dict[str, Any] | None:
            found: dict[str, Any] = self.client.get(f"/v1/jobs/{id}").raise_for_status().json()
            return found if not until or found["state"] in until else None

        return dict(waiting.until(job, seconds))

    def kill(self) -> None:
        """Kill it with all its workers, as by a power failure."""
        for pid in family(self.process.pid):  # workers are children of the fork server
            if not _is_of_pool(pid):  # solver processes must end without a signal
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.communicate()
        self.client.close()

    def stop(self) -> tuple[int, str]:
        """Stop it by SIGTERM; return its exit code and log."""
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=300)
        return self.process.returncode, "".join(self.log)


@contextlib.contextmanager
def service(url: str, cwd: Path, **settings: str) -> Iterator[Service]:
    """Open a server, and stop it unless it has ended."""
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
    """Return whether a process still runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pids: list[int], seconds: float = 30) -> None:
    """Wait until none of these processes runs."""
    waiting.until(lambda: not any(alive(pid) for pid in pids), seconds)


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a server with several workers."""
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
    for parent in found:  # grows during iteration
        found += tree.get(parent, [])
    return found


def command_line(pid: int) -> bytes:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
