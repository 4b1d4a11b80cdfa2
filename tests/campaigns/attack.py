"""Attacks of greedy clients on a real server, and how long the short work of a polite one takes meanwhile.

    PYTHONPATH=tests python -m campaigns.attack [--requests 200]

Two keys, each from an address of its own, ask for comparisons that take minutes, queue hundreds of new problems, follow
as many event streams as they can, and hold idle connections; then more problems and connections keep coming. A third
key asks for short work, one question after another, from its own address and from one of the attackers', as behind one
router; its 99th percentile is compared with that on the idle server. What arrives in the moment in which the attack
begins is timed apart: a burst, which a percentile of the rest would hide or not by chance.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.paths import SEARCH_PATH
from support.served import Served, serving

from api.access.keys import create_key
from campaigns.driver import read_options, say, table

LONG = {
    "K": 101,
    "epsilon": 0.1,
    "Delta": 1e-5,
    "queries": 1000,
    "total_epsilon": 1.0,
    "total_delta": 1e-4,
    "fresh": True,
}
"""A comparison that takes minutes."""

SHORT: dict[str, tuple[str, dict[str, Any]]] = {
    "verify": ("/v1/verify", {"K": 3, "m": 1, "epsilon": 0.1, "gamma": [0.1, 0.03, 0.03, 0.1]}),
    "compose": ("/v1/compose", {"epsilon": 0.1, "delta": 1e-6, "queries": 10}),
    "stored γ": ("/v1/gamma", {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4}),
}
"""The short work of the polite client, by name."""

BEGINNING = "verify, while the attack begins"
"""Certificates asked for while hundreds of streams and thousands of connections arrive at once."""

NEIGHBOUR = "verify, from an attacker's address"
"""Certificates asked for from the address of the first attacker (Linux has all of 127.0.0.0/8)."""

ADDRESSES = ("127.0.0.2", "127.0.0.3")
"""Addresses of the attackers."""

MAX_RATIO = 5.0
"""Largest 99th percentile under attack, as a multiple of that on the idle server."""


@dataclass(frozen=True)
class Finding:
    """Times of one kind of short work [ms]."""

    name: str  # of `SHORT`, or `BEGINNING`
    idle: float  # 99th percentile on the idle server
    attacked: float  # the same under attack
    median: float  # median under attack
    slowest: float  # slowest under attack
    refused: int  # answers that were not 200

    @classmethod
    def of(cls, name: str, idle: list[float], attacked: list[float], refused: int) -> Finding:
        """Return the finding of times [ms] before and under attack."""
        return cls(name, p99(idle), p99(attacked), statistics.median(attacked), max(attacked), refused)


def ask(connection: HTTPConnection, path: str, body: Any, key: str) -> tuple[int, bytes]:
    """Ask once on an open connection; return status and body."""
    headers = {"Content-Type": "application/json", "X-API-Key": key}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def timed(
    service: Served, key: str, requests: int, names: Sequence[str] = tuple(SHORT), source: str = "127.0.0.1"
) -> dict[str, tuple[list[float], int]]:
    """Ask for each kind of short work, the kinds in turn; return its times [ms], and how many were refused.

    A connection is kept alive for ten requests; one that the server closed meanwhile counts as refused.
    """
    findings: dict[str, tuple[list[float], int]] = {name: ([], 0) for name in names}
    connection = HTTPConnection(*service.address, timeout=300, source_address=(source, 0))
    for number in range(requests):
        for name in names:
            began = time.perf_counter()
            try:
                status, _body = ask(connection, *SHORT[name], key)
            except (OSError, HTTPException):
                status = 0
            times, refused = findings[name]
            findings[name] = [*times, 1000 * (time.perf_counter() - began)], refused + (status not in {200, 202})
        if number % 10 == 9:
            connection.close()
    connection.close()
    return findings


def attack(url: str, keys: list[str], queued: int, connections: int) -> None:
    """Attack a server until killed; say "begun" once everything is sent, then connections and problems keep coming."""
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    sources = [(source, 0) for source in ADDRESSES]
    idle, streams, greedy = deque[socket.socket](), list[socket.socket](), list[tuple[HTTPConnection, str]]()
    for number, (key, source) in enumerate(zip(keys, sources, strict=True)):
        connection, jobs = HTTPConnection(*address, timeout=300, source_address=source), list[str]()
        for queries in (900 + number, 950 + number):
            status, body = ask(connection, "/v1/compare", {**LONG, "queries": queries}, key)
            assert status == 202, body
            jobs.append(json.loads(body)["id"])
        ask(connection, "/v1/gamma/batch", {"problems": [_new(i, number) for i in range(queued)]}, key)
        for _ in range(300):
            streams.append(socket.create_connection(address, source_address=source))
            head = f"GET /v1/jobs/{jobs[0]}/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n"
            streams[-1].sendall(head.encode())
        greedy.append((connection, key))
    idle += (socket.create_connection(address, source_address=sources[i % 2]) for i in range(connections))
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    for i in count(queued):
        time.sleep(0.1)
        for number in range(min(20, connections)):
            idle.popleft().close()
            idle.append(socket.create_connection(address, source_address=sources[number % 2]))
        for number, (connection, key) in enumerate(greedy):
            with contextlib.suppress(OSError, HTTPException):  # the server made room
                ask(connection, "/v1/jobs", _new(i, number), key)


def _new(i: int, number: int) -> dict[str, Any]:
    return {"K": 61, "m": 4, "epsilon": 0.1 + i / 5000 + number / 9000, "Delta": 1e-4}


@contextmanager
def attacked(service: Served, keys: list[str], queued: int, connections: int) -> Iterator[subprocess.Popen[str]]:
    """Attack the server within the block, from a process of its own; that says "begun" on its stdout."""
    command = [sys.executable, "-m", "campaigns.attack", "--attack", service.url, *keys]
    command += ["--queued", str(queued), "--connections", str(connections)]
    environment = {**os.environ, "PYTHONPATH": SEARCH_PATH}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def during_the_beginning(process: subprocess.Popen[str], service: Served, key: str) -> tuple[list[float], int]:
    """Ask for certificates until the attack has begun; return their times [ms], and how many were refused."""
    begun = threading.Thread(target=lambda: process.stdout and process.stdout.readline())
    begun.start()
    times, refused = list[float](), 0
    while begun.is_alive():
        more_times, n_refused = timed(service, key, 1, ("verify",))["verify"]
        times, refused = times + more_times, refused + n_refused
    assert process.poll() is None, "the attack failed"
    return times, refused


def campaign(folder: Path, requests: int, queued: int, connections: int) -> list[Finding]:
    """Measure on the idle server, then under attack."""
    keys = [create_key(folder / "keys.json", name)[1] for name in ("one", "two", "polite")]
    settings = {"DARRM_KEYS": str(folder / "keys.json"), "DARRM_WAIT_SECONDS": "0", "DARRM_LOG_LEVEL": "error"}
    settings |= {"DARRM_MAX_CONNECTIONS": "1000", "DARRM_RATE": "0", "DARRM_SOLVERS": "2"}
    settings["DARRM_CACHE_URL"] = f"sqlite:///{folder / 'store.sqlite'}"
    with serving(folder, **settings) as service:
        connection = HTTPConnection(*service.address, timeout=300)
        while any(ask(connection, path, body, keys[2])[0] != 200 for path, body in SHORT.values()):
            time.sleep(0.1)  # processes start, and the γ is stored
        connection.close()
        idle_times = timed(service, keys[2], requests)
        with attacked(service, keys[:2], queued, connections) as process:
            beginning, refused = during_the_beginning(process, service, keys[2])
            attacked_times = timed(service, keys[2], requests)
            neighbour = timed(service, keys[2], requests, ("verify",), ADDRESSES[0])["verify"]
            health = service.ask("/healthz").status
            assert health == 200
    findings = [Finding.of(name, idle_times[name][0], *attacked_times[name]) for name in SHORT]
    findings.append(Finding.of(NEIGHBOUR, idle_times["verify"][0], *neighbour))
    return [*findings, Finding.of(BEGINNING, idle_times["verify"][0], beginning, refused)]


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(times)[min(len(times) - 1, int(0.99 * len(times)))]


HEAD = (
    *("short work", "p99 idle [ms]", "p99 attacked [ms]", "ratio", "median attacked [ms]", "slowest attacked [ms]"),
    "refused",
)


def row(found: Finding) -> tuple[object, ...]:
    """Return a finding as a row of the table."""
    times = (found.idle, found.attacked, found.attacked / found.idle, found.median, found.slowest)
    return (found.name, *(f"{each:.1f}" for each in times), found.refused)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 1 where short work took too long or was refused."""
    options = read_options(
        __doc__, arguments, requests=200, queued=250, connections=2000, attack=([""], argparse.SUPPRESS)
    )
    if options.attack != [""]:
        attack(options.attack[0], options.attack[1:], options.queued, options.connections)
    with tempfile.TemporaryDirectory() as folder:
        findings = campaign(Path(folder), options.requests, options.queued, options.connections)
    say(*table(HEAD, map(row, findings)))
    late = (finding.attacked > MAX_RATIO * finding.idle for finding in findings if finding.name != BEGINNING)
    return int(any(late) or any(finding.refused for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
