"""Attacks of greedy clients on a real server, and how long the short work of a polite one takes meanwhile.

    PYTHONPATH=tests python -m campaigns.attack [--requests 200] [--write docs/faults.md]

Two keys each ask for comparisons that take minutes, queue hundreds of new problems, follow as many event streams as they can,
and somebody without a key holds idle connections. A third key asks for short work, one question after another; its 99th
percentile is compared with that on the idle server.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from support.served import Served, serving

from api.access.keys import create_key

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

MAX_RATIO = 5.0
"""Largest 99th percentile under attack, as a multiple of that on the idle server."""


@dataclass(frozen=True)
class Finding:
    """Times of one kind of short work [ms].

    Attributes:
        name: of `SHORT`.
        idle: 99th percentile on the idle server.
        attacked: the same under attack.
        median: median under attack.
        refused: answers that were not 200.
    """

    name: str
    idle: float
    attacked: float
    median: float
    refused: int


def ask(connection: HTTPConnection, path: str, body: Any, key: str) -> tuple[int, bytes]:
    """Ask once on an open connection; return status and body."""
    headers = {"Content-Type": "application/json", "X-API-Key": key}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def timed(service: Served, key: str, requests: int) -> dict[str, tuple[list[float], int]]:
    """Ask for each kind of short work; return its times [ms], and how many answers were not 200."""
    found: dict[str, tuple[list[float], int]] = {}
    for name, (path, body) in SHORT.items():
        connection, times, refused = HTTPConnection(*service.address, timeout=300), [], 0
        for _ in range(requests):
            began = time.perf_counter()
            status, _told = ask(connection, path, body, key)
            times.append(1000 * (time.perf_counter() - began))
            refused += status != 200
        connection.close()
        found[name] = times, refused
    return found


@contextmanager
def attacked(service: Served, keys: list[str], queued: int, connections: int) -> Iterator[None]:
    """Attack the server within the block."""
    with ExitStack() as stack:
        for number, key in enumerate(keys):
            connection = HTTPConnection(*service.address, timeout=300)
            jobs = []
            for queries in (900 + number, 950 + number):
                status, told = ask(connection, "/v1/compare", {**LONG, "queries": queries}, key)
                assert status == 202, told
                jobs.append(json.loads(told)["id"])
            problems = [
                {"K": 61, "m": 4, "epsilon": 0.1 + i / 5000 + number / 9000, "Delta": 1e-4} for i in range(queued)
            ]
            ask(connection, "/v1/gamma/batch", {"problems": problems}, key)
            for _ in range(300):
                stream = stack.enter_context(socket.create_connection(service.address))
                head = f"GET /v1/jobs/{jobs[0]}/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n"
                stream.sendall(head.encode())
            connection.close()
        for _ in range(connections):
            stack.enter_context(socket.create_connection(service.address))
        yield


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
        before = timed(service, keys[2], requests)
        with attacked(service, keys[:2], queued, connections):
            after = timed(service, keys[2], requests)
            health = service.ask("/healthz").status
            assert health == 200
    return [
        Finding(name, p99(before[name][0]), p99(after[name][0]), statistics.median(after[name][0]), after[name][1])
        for name in SHORT
    ]


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(times)[min(len(times) - 1, int(0.99 * len(times)))]


def table(findings: list[Finding]) -> str:
    """Return the findings as a table."""
    lines = [
        "| short work | p99 idle [ms] | p99 attacked [ms] | ratio | median attacked [ms] | refused |",
        "|---|---|---|---|---|---|",
    ]
    for each in findings:
        ratio = each.attacked / each.idle
        lines.append(
            f"| {each.name} | {each.idle:.1f} | {each.attacked:.1f} | {ratio:.1f} | {each.median:.1f} | {each.refused} |"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the campaign; return 1 where short work took too long or was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--queued", type=int, default=250)
    parser.add_argument("--connections", type=int, default=2000)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        findings = campaign(Path(folder), chosen.requests, chosen.queued, chosen.connections)
    sys.stdout.write(table(findings) + "\n")
    return int(any(each.refused or each.attacked > MAX_RATIO * each.idle for each in findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
