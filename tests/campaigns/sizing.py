"""Sizing of the service: requests and solves in a time, and memory, by workers.

    PYTHONPATH=tests python -m campaigns.sizing [--seconds 10] [--workers 1 2] [--servers 2]

A server with its default settings and a SQLite file. Reads: wrk asks for one stored γ on 16 connections. Certificates
and solves: eight clients ask, each anew as soon as it has its answer; every problem is a new one. All is asked for
`WARM_SECONDS` before it is measured: processes start, which takes longer than thousands of certificates. Beside each
figure stands the processor time that the server took for one answer, which the clients' own share of the processors
does not change. Memory is what the server and all its processes hold together, shared pages counted once (PSS).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

from support import postgres
from support.service import Service, family, service

from campaigns.driver import read_options, say, table

READ = "/v1/gamma?K=11&m=3&epsilon=0.0892&Delta=1e-4"

CERTIFICATE = {"K": 11, "m": 1, "epsilon": 0.1, "gamma": 12 * [0.01]}

CLIENTS = 8

WARM_SECONDS = 2.0
"""How long certificates and solves are asked for before they are measured [s]."""


def processor_times(pid: int) -> dict[int, float]:
    """Return the processor time of a process and its descendants by their ids [s]."""
    times = {}
    for each in family(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        times[each] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return times


def memory(pid: int) -> int:
    """Return the memory of a process and its descendants, shared pages counted once [MiB]."""
    kilobytes = 0
    for each in family(pid):
        try:
            text = Path(f"/proc/{each}/smaps_rollup").read_text(encoding="ascii")
        except OSError:  # it has ended
            continue
        kilobytes += int(re.findall(r"^Pss: +(\d+)", text, re.MULTILINE)[0])
    return kilobytes // 1024


def reads(server: Service, seconds: float) -> float:
    """Return the stored γ that are read in a second."""
    server.client.get(READ).raise_for_status()
    command = ["wrk", "-t1", "-c16", f"-d{seconds:g}s", server.url + READ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in output, output
    return float(re.findall(r"Requests/sec: +([\d.]+)", output)[0])


def posted(server: Service, path: str, bodies: Iterator[dict[str, Any]], seconds: float) -> float:
    """Return the answers to posted requests in a second, of clients that each ask anew."""
    end, answered, lock = time.monotonic() + seconds, [0], threading.Lock()

    def ask() -> None:
        connection = HTTPConnection(server.client.base_url.host, server.client.base_url.port or 0, timeout=300)
        while time.monotonic() < end:
            with lock:
                body = next(bodies)
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status
            answered[0] += 1
        connection.close()

    began = time.monotonic()
    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered[0] / (time.monotonic() - began)


def problems(K: int) -> Iterator[dict[str, Any]]:
    """Yield problems, each a new one."""
    return ({"K": K, "m": 3, "epsilon": 0.1 + number / 100_000, "Delta": 1e-5} for number in count(1))


def measured(server: Service, measure: Callable[[], float], unit: float) -> str:
    """Return answers in a unit of time [s], and the processor time of one [ms]."""
    before, began = processor_times(server.process.pid), time.monotonic()
    rate = measure()
    answered = rate * (time.monotonic() - began)
    after = processor_times(server.process.pid)
    spent = sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
    return f"{unit * rate:,.0f} ({1000 * spent / answered:.2f})"


def row(workers: int, seconds: float) -> str:
    """Return the row of the table for so many workers."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"DARRM_WORKERS": str(workers), "DARRM_WAIT_SECONDS": "60", "DARRM_JOB_RATE": "0"}
        with service(f"sqlite:///{folder}/store.sqlite", Path(folder), **settings) as server:
            at_rest, small, large = memory(server.process.pid), problems(11), problems(101)
            certificates = (CERTIFICATE for _ in count())
            for path, bodies in (("/v1/verify", certificates), ("/v1/gamma", small), ("/v1/gamma", large)):
                posted(server, path, bodies, WARM_SECONDS)
            measures: list[tuple[Callable[[], float], float]] = [
                (lambda: reads(server, seconds), 1),
                (lambda: posted(server, "/v1/verify", certificates, seconds), 1),
                (lambda: posted(server, "/v1/gamma", small, seconds), 60),
                (lambda: posted(server, "/v1/gamma", large, seconds), 60),
            ]
            figures = [measured(server, measure, unit) for measure, unit in measures]
            return f"| {workers} | {' | '.join(figures)} | {at_rest} | {memory(server.process.pid)} |"


def spent(pids: list[int], before: dict[int, float]) -> float:
    """Return the processor time that processes and their descendants took since ``before`` [s]."""
    now = {each: seconds for pid in pids for each, seconds in processor_times(pid).items()}
    return sum(seconds - before.get(each, 0.0) for each, seconds in now.items())


def shared(servers: int, seconds: float) -> Iterator[str]:
    """Yield the rows of the table for servers on one PostgreSQL."""
    database = postgres.server()
    url, master = database.new_store(), database.pid
    settings = {"DARRM_WAIT_SECONDS": "60", "DARRM_JOB_RATE": "0", "DARRM_RATE": "0", "DARRM_SOLVERS": "1"}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        opened = [stack.enter_context(service(url, folder, **settings)) for _ in range(servers)]
        clients = [server.client for server in opened]
        asked, ids = problems(11), list[str]()
        pids = [server.process.pid for server in opened]

        def design(times: int) -> None:
            for client in (clients * times)[:times]:
                ids.append(client.post("/v1/gamma", json=next(asked)).raise_for_status().json()["id"])

        def read(times: int) -> None:  # each by another server than the one that designed it
            for place in range(times):
                clients[(place + 1) % servers].get(f"/v1/gamma/{ids[place]}").raise_for_status()

        design(50)  # processes have started
        times = int(20 * seconds)
        ids.clear()
        for name, measure in (("a new γ of 11 voters", design), ("a stored γ that is not in memory", read)):
            before = {each: used for pid in (*pids, master) for each, used in processor_times(pid).items()}
            measure(times)
            own, database_time = (1000 * spent(group, before) / times for group in (pids, [master]))
            yield f"| {name} | {own:.2f} | {database_time:.3f} | {own / database_time:,.0f} |"
        rows, size = (
            int(number)
            for number in database.sql(database_name(url), "SELECT count(*), sum(bytes) FROM darrm_solutions").split(
                "|"
            )
        )
        total = int(database.sql(database_name(url), "SELECT pg_total_relation_size('darrm_solutions')"))
        yield f"\nA γ of 11 voters: {size / rows:,.0f} bytes as a record, {total / rows:,.0f} with its indexes."


def database_name(url: str) -> str:
    """Return the name of the database of a URL."""
    return url.partition("?")[0].rpartition("/")[2]


def main() -> int:
    """Measure, and print the table."""
    options = read_options(__doc__, None, seconds=10.0, workers=[1, 2], servers=int)
    if options.servers is not None:
        head = ("one answer", "processor time of the servers [ms]", "of PostgreSQL [ms]", "servers' / its")
        say(*table(head, []), *shared(options.servers, options.seconds))
        return 0
    assert shutil.which("wrk") is not None, "wrk is not installed"
    titles = ["workers", "stored γ [1/s]", "certificates [1/s]", "γ of 11 voters [1/min]", "γ of 101 voters [1/min]"]
    say("In parentheses: processor time of the server for one answer [ms].", "")
    say(*table([*titles, "memory at rest [MiB]", "memory after it [MiB]"], []))
    for workers in options.workers:
        say(row(workers, options.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
