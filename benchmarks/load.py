"""Load on the service: wrk asks a server on loopback for one stored γ, again and again; or clients for fresh ones.

What it is compared with is a FastAPI application of one route that does nothing but return the very same bytes, served
by uvicorn on the same loop with the same parser and without a log. The service does everything that it always does: it
looks at host, key and rate, counts, writes a line for each request (to a file that nobody reads) and sends its headers.
Of small designs of which each is new, the processor's time is that of the server and its processes: two cores answer 2
over it a second, and on a busy machine the rate seen says little.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.cases import Load

ASKED = "/v1/gamma?K=11&m=3&epsilon=0.0892&Delta=1e-4"  # the question: the paper's first real setting
LONG = {"epsilon": 0.1, "Delta": 1e-6, "K": 2001}  # what keeps the solver processes busy: a minute or so for m near 3

CONNECTIONS = 16

SECONDS = 5  # how long wrk asks [s]
WARM = 1  # how long it asked before, not timed [s]

BARE = """
import socket, sys, uvicorn
from fastapi import FastAPI, Response
body = open(sys.argv[1], "rb").read()
app = FastAPI()
@app.get("/v1/gamma")
async def gamma() -> Response:
    return Response(body, media_type="application/json")
listening = socket.create_server(("127.0.0.1", 0))
print('{"url": "http://127.0.0.1:%d"}' % listening.getsockname()[1], flush=True)
config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="warning")
uvicorn.Server(config).run(sockets=[listening])
"""


def measure_load(job: Load) -> dict[str, float]:
    """Return the figure of a job as "seconds", and of a start the resident memory as "peak" [bytes].

    Raises:
        RuntimeError: wrk is not installed, or a server did not do what is measured.
    """
    with tempfile.TemporaryDirectory() as scratch:
        if job.figure in {"fresh", "start"}:
            return _family_figure(job, Path(scratch))
        if shutil.which("wrk") is None:
            raise RuntimeError("wrk is not installed")
        return {"seconds": _one_answer(job, Path(scratch))}


def _family_figure(job: Load, folder: Path) -> dict[str, float]:
    """Return the processor time of a server and its processes: of its start, or for a design that is new."""
    with _server(_service(), folder) as (url, pid):
        _fetch(url + "/healthz")
        started = _family_seconds(pid)
        if job.figure == "start":
            resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
            return {"seconds": started, "peak": int(resident[1]) * 1024 if resident else 0}
        _ask_fresh(url, range(CLIENTS))  # processes start, and import
        before = _family_seconds(pid)
        statuses = Counter(_ask_fresh(url, range(CLIENTS, CLIENTS + FRESH)))
        if statuses[200] < FRESH:
            raise RuntimeError(f"not every design was answered at once: {dict(statuses)}")
        return {"seconds": (_family_seconds(pid) - before) / FRESH}


def _one_answer(job: Load, folder: Path) -> float:
    if job.server == "bare":
        with _server(_service(), folder) as (url, _):
            (folder / "body").write_bytes(_stored_answer(url))
        program = [sys.executable, "-c", BARE, str(folder / "body")]
    else:
        program = _service()
    with _server(program, folder) as (url, pid):
        _stored_answer(url)
        if job.busy:
            _occupy(url)
        _run_wrk(url, WARM)
        before = _processor_seconds(pid)
        count, slowest = _run_wrk(url, SECONDS)
        taken = _processor_seconds(pid) - before
        if job.busy and _busy(url) < 1:
            raise RuntimeError("a solver process was done before the load was")
        return taken / count if job.figure == "processor" else slowest


FRESH, CLIENTS = 1000, 50  # designs that are asked for, by so many clients at once


def _ask_fresh(url: str, numbers: range) -> list[int]:
    """Ask for designs of which none is stored, by several clients at once; return the statuses."""
    host = url.removeprefix("http://")
    connections = [http.client.HTTPConnection(host, timeout=60) for _ in range(CLIENTS)]

    def ask(client: int) -> list[int]:
        statuses = []
        for number in numbers[client::CLIENTS]:
            connections[client].request("GET", f"/v1/gamma?K=11&m=3&epsilon={0.05 + number / 1e5:.5f}&Delta=1e-4")
            answer = connections[client].getresponse()
            answer.read()
            statuses.append(answer.status)
        return statuses

    with ThreadPoolExecutor(CLIENTS) as pool:
        found = [status for statuses in pool.map(ask, range(CLIENTS)) for status in statuses]
    for connection in connections:
        connection.close()
    return found


def _family_seconds(pid: int) -> float:
    """Return the processor time of a process and its children that run [s]."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for thread in threads for child in thread.read_text(encoding="utf-8").split()]
    return _processor_seconds(pid) + sum(map(_family_seconds, children))


def _service() -> list[str]:
    return [sys.executable, "-c", "from darrm.cli import main; main()", "serve", "--port", "0", "--json"]


@contextlib.contextmanager
def _server(program: list[str], folder: Path) -> Iterator[tuple[str, int]]:
    """Run a server that says its URL on stdout; yield that and its process."""
    settings = {
        "DARRM_CACHE_URL": f"sqlite:///{folder / 'cache.sqlite'}",
        "DARRM_MAX_VOTERS": "2001",
        "DARRM_MAX_WORK_SECONDS": "1e9",
        "DARRM_TIME_LIMIT": "600",
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(program, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=log)
    try:
        line = b"" if process.stdout is None else process.stdout.readline()
        if not line:
            raise RuntimeError(f"a server did not start: {(folder / 'log').read_text(encoding='utf-8')[-500:]}")
        yield json.loads(line)["url"], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process, without its children [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _fetch(url: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, body, {"content-type": "application/json"})  # noqa: S310 — our own server
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 — as above
        content: bytes = answer.read()
        return content


def _stored_answer(url: str) -> bytes:
    """Return the answer to `ASKED`, once it is stored."""
    for _ in range(120):
        answer = _fetch(url + ASKED)
        if b'"cached":true' in answer:
            return answer
        time.sleep(0.5)
    raise RuntimeError("the question was not answered in a minute")


def _occupy(url: str) -> None:
    """Give every solver process something to do for longer than the load lasts."""
    count = os.cpu_count() or 1
    for number in range(count):
        _fetch(f"{url}/v1/jobs", json.dumps({**LONG, "m": 3 + number / 10}).encode())
    for _ in range(120):
        if _busy(url) >= 1:
            return
        time.sleep(0.5)
    raise RuntimeError("the solver processes were not busy in a minute")


def _busy(url: str) -> float:
    """Return the share of solver processes that are at work."""
    metrics = _fetch(f"{url}/metrics").decode()
    match = re.search(r'^darrm_pool_busy\{pool="solvers"\} (\S+)$', metrics, re.MULTILINE)
    return 0.0 if match is None else float(match[1]) / (os.cpu_count() or 1)


def _run_wrk(url: str, seconds: int) -> tuple[int, float]:
    """Return how many requests were answered, and the 99th percentile of the wait [s]."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", url + ASKED]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(f"not every request was answered: {output}")
    count, slowest = re.search(r"(\d+) requests in", output), re.search(r"99% +([0-9.]+)(us|ms|s)", output)
    if count is None or slowest is None:
        raise RuntimeError(f"wrk said nothing that could be read: {output}")
    return int(count[1]), float(slowest[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[slowest[2]]
