"""`darrm serve` as a process, for tests of what only a served program shows: connections, signals, workers, the log."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.darrm_runner import start

LONGEST = 3600.0
"""No server outlives this [s]: a campaign takes up to that."""


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


@dataclass
class Served:
    """A running server.

    Attributes:
        process: of `darrm serve`.
        url: where it listens.
        log: what it wrote to stderr; whole once it has ended.
    """

    process: subprocess.Popen[str]
    url: str
    log: list[str] = field(default_factory=list)

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
        """Return the log of a server that has ended."""
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
    # On a busy machine a small solve, and the way of a request, may take seconds.
    usual = {"DARRM_LOG_FORMAT": "json", "DARRM_WAIT_SECONDS": "60", "DARRM_HEAD_SECONDS": "60"}
    process = start("serve", "--port", "0", "--json", *arguments, cwd=folder, **{**usual, **settings})
    killer = threading.Timer(LONGEST, process.kill)
    killer.start()
    assert process.stdout is not None
    assert process.stderr is not None
    server, stderr = Served(process, ""), process.stderr
    reader = threading.Thread(target=lambda: server.log.extend(stderr))
    reader.start()
    try:
        line = process.stdout.readline()
        if not line:
            process.wait()
            reader.join()
            raise AssertionError("".join(server.log))
        server.url = json.loads(line)["url"]
        yield server
        if process.poll() is None:
            assert server.end() in {0, -signal.SIGKILL}  # where a test has killed it
    finally:
        process.kill()
        process.wait()
        reader.join()
        killer.cancel()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
