"""A day of mixed load on a real server: does its memory stay flat, and does it ever answer with a 5xx?

A server with API keys, log, metrics and a SQLite store, as in production, is asked over eight persistent connections,
which are reopened now and then: stored γ in several spellings and formats, certificates, curves, accounts, new problems,
batches, jobs, event streams, invalid requests of many kinds, clients that disconnect. A million requests represent 24
hours at 12 requests a second.

    PYTHONPATH=tests python -m campaigns.endurance --requests 1000000 --write docs/faults.md

The requests are a function of the seed and their number.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from support.served import Service, family

from api.access.keys import create_key
from campaigns.driver import publish, read_options, say, table
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec

PIECE = 10_000  # requests between two looks at the server's memory

CONNECTIONS = 8

PATIENCE = 120.0  # longest time of an answer [s]
RENEWAL = 0.01  # share of requests after which a connection is opened anew

SETTINGS = {
    "DARRM_SOLVERS": "1",
    "DARRM_LOG_LEVEL": "info",
    "DARRM_LOG_FORMAT": "json",
    "DARRM_JOB_RATE": "0",
    "DARRM_WAIT_SECONDS": "5",
    "DARRM_MAX_BODY_BYTES": "65536",
}
"""Settings of the server under test: those of production but for the rates, which a million requests would exceed."""

STORED: list[dict[str, Any]] = [
    {"K": K, "m": m, "epsilon": epsilon, "Delta": Delta}
    for K in (3, 5, 7, 9, 11, 15, 21, 35)
    for m in (1, 2, 3)
    for epsilon in (0.1, 0.25)
    for Delta in (0.0, 1e-5)
    if m < K
]
"""Problems that everyone asks for."""

GAMMA = [0.1, 0.03, 0.03, 0.1]


class Request(NamedTuple):
    """A request, and what may come back."""

    name: str  # kind of request
    method: str  # of HTTP
    target: str  # path and query
    body: bytes = b""  # bytes of a body; empty for none
    headers: dict[str, str] = {}  # more of them  # noqa: RUF012
    expected: tuple[int, ...] = (200,)  # statuses that are right
    leaves: bool = False  # whether the client disconnects without reading the answer


def _id(problem: dict[str, Any]) -> str:
    return DesignSpec(Problem.from_allowance(**problem)).key


IDS = [_id(problem) for problem in STORED]


def _get(
    name: str, path: str, headers: dict[str, str] | None = None, expected: tuple[int, ...] = (200,), **query: Any
) -> Request:
    return Request(name, "GET", f"{path}?{urlencode(query)}" if query else path, b"", headers or {}, expected)


def _post(name: str, path: str, body: Any, expected: tuple[int, ...] = (200,)) -> Request:
    return Request(name, "POST", path, json.dumps(body).encode(), {}, expected)


def _stored(random_: random.Random) -> dict[str, Any]:
    return random_.choice(STORED)


def _respelt(random_: random.Random) -> Request:
    problem = _stored(random_)
    fields = sorted(({**problem, "epsilon": f"{problem['epsilon']:.{random_.randint(2, 9)}f}"}).items())
    random_.shuffle(fields)
    form = random_.choice(["application/json", "text/csv", "application/x-npz"])
    return _get("stored γ, respelt", "/v1/gamma", {"Accept": form}, **dict(fields))


def _new(random_: random.Random) -> Request:
    K, epsilon = random_.choice([3, 5, 7, 9, 11]), round(random_.uniform(0.05, 0.5), 5)
    problem = {"K": K, "m": random_.choice([1, 1.5, 2]), "epsilon": epsilon, "Delta": 1e-5}
    return _post("new γ", random_.choice(["/v1/gamma", "/v1/jobs"]), problem, (200, 202))


def _certificate(name: str, gamma: list[float], expected: int) -> Request:
    return _post(name, "/v1/verify", {"K": 3, "m": 1, "epsilon": 0.1, "gamma": gamma}, (expected,))


def _verified(random_: random.Random) -> Request:
    scale = random_.uniform(0.5, 1)
    return _certificate("certificate", [value * scale for value in GAMMA], 200)


def _curve(random_: random.Random) -> Request:
    return _get("error curve", "/v1/error-curve", **_stored(random_), points=11)


def _invalid(random_: random.Random) -> Request:
    field_: dict[str, Any] = random_.choice([{"K": 0}, {"epsilon": -1}, {"m": "three"}, {"Delta": 2}, {"unknown": 1}])
    return _post("invalid field", "/v1/gamma", {**_stored(random_), **field_}, (422,))


def _malformed(random_: random.Random) -> Request:
    body = random_.choice([b"{", b"\xff\xfe", b'{"K": NaN}', b"[]", b'{"K":3,"K":5}'])
    return Request("malformed body", "POST", "/v1/gamma", body, {}, (400, 422))


def _unknown(random_: random.Random) -> Request:
    targets = ["/v1/nothing", *(f"/v1/{kind}/{random_.getrandbits(256):064x}" for kind in ("gamma", "jobs"))]
    return _get("not found", random_.choice(targets), expected=(404,))


EITHER = (200, 202)
MIX: list[tuple[int, Callable[[random.Random], Request]]] = [
    (4000, lambda r: _get("stored γ", "/v1/gamma", **_stored(r))),
    (1500, _respelt),
    (1000, lambda r: _post("stored γ, posted", "/v1/gamma", _stored(r))),
    (600, lambda r: _get("γ by id", f"/v1/gamma/{r.choice(IDS)}")),
    (500, lambda r: _get("revalidation", f"/v1/gamma/{r.choice(IDS)}", {"If-None-Match": "*"}, expected=(304,))),
    (300, lambda r: _get("estimate", "/v1/estimate", **_stored(r))),
    (300, lambda _: _get("health", "/healthz")),
    (200, _verified),
    (200, lambda r: _get("job", f"/v1/jobs/{r.choice(IDS)}")),
    (150, lambda r: _get("result", f"/v1/jobs/{r.choice(IDS)}/result")),
    (150, lambda r: Request("head", "HEAD", f"/v1/gamma?{urlencode(_stored(r))}")),
    (200, _invalid),
    (100, _malformed),
    (150, _unknown),
    (50, lambda _: Request("wrong method", "DELETE", "/v1/gamma", expected=(405,))),
    (100, lambda _: _get("wrong key", "/v1/gamma", {"X-API-Key": "wrong"}, (401,), **STORED[0])),
    (100, lambda r: _get("list of jobs", "/v1/jobs", limit=r.randint(1, 20))),
    (80, _curve),
    (60, lambda r: _post("batch of 10", "/v1/gamma/batch", {"problems": r.sample(STORED, 10)})),
    (50, _new),
    (40, lambda _: _certificate("counterexample", [1, 1, 1, 1], 422)),
    (30, lambda r: _get("account", "/v1/compose", expected=EITHER, epsilon=0.1, delta=1e-6, queries=r.randint(1, 30))),
    (30, lambda _: _get("page", "/")),
    (30, lambda r: _get("event stream", f"/v1/jobs/{r.choice(IDS)}/events")),
    (20, lambda r: _curve(r)._replace(name="client that leaves", leaves=True)),
    (20, lambda r: _get("profile", "/v1/profile", expected=EITHER, **r.choice(STORED[:12]), points=5)),
    (20, lambda _: _get("readiness", "/readyz")),
    (20, lambda _: _get("metrics", "/metrics")),
    (10, lambda _: Request("body too large", "POST", "/v1/gamma", b" " * 70_000, {}, (413,))),
    (10, lambda r: _get("trade-off", "/v1/tradeoff", expected=EITHER, K=r.choice([5, 7]), epsilon=0.1, ms="1,2,3")),
]
"""How often each kind of request comes among 10,020."""


def requests_of(seed: int, piece: int, count: int = PIECE) -> list[Request]:
    """Return the requests of a piece."""
    random_ = random.Random(f"{seed}:{piece}")
    weights, kinds = zip(*MIX, strict=True)
    return [kind(random_) for kind in random_.choices(kinds, weights, k=count)]


# ------------------------------------------------------------------------------------------------------ the load


@dataclass
class Piece:
    """A piece of the load."""

    requests: int = 0  # sent
    seconds: float = 0.0  # that they took
    # number of answers by kind and status; a status is -1 where the connection broke
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # answers that are not what the request calls for, in words
    # resident memory at the end [MiB]: of the server, and of all its processes together
    memory: tuple[float, float] = (0.0, 0.0)
    files: int = 0  # open files of the server at the end
    threads: int = 0  # of the server at the end


async def send(piece: Piece, client: httpx.AsyncClient, request: Request, *, renews: bool) -> None:
    """Send a request, and count what comes back."""
    headers = {"Content-Type": "application/json"} if request.body else {}
    headers |= request.headers | ({"Connection": "close"} if renews else {})
    try:
        if request.leaves:
            async with client.stream(request.method, request.target, headers=headers) as answer:
                pass  # the body is not read, so the connection is closed
        else:
            answer = await client.request(request.method, request.target, content=request.body, headers=headers)
        status, text = answer.status_code, "" if request.leaves else answer.text[:300]
    except httpx.HTTPError as err:
        status, text = -1, repr(err)
    piece.requests += 1
    piece.statuses[request.name, status] += 1
    if status not in request.expected:
        piece.wrong.append(f"{request.method} {request.target[:200]}: {status} {text}")


async def run_piece(url: str, keys: Sequence[str], requests: Sequence[Request]) -> Piece:
    """Send requests over `CONNECTIONS` connections, and return what came of them."""
    piece, waiting, random_, began = Piece(), iter(requests), random.Random(len(requests)), time.monotonic()

    async def one(key: str) -> None:
        async with httpx.AsyncClient(base_url=url, headers={"X-API-Key": key}, timeout=PATIENCE) as client:
            for request in waiting:
                await send(piece, client, request, renews=random_.random() < RENEWAL)

    await asyncio.gather(*(one(keys[number % len(keys)]) for number in range(CONNECTIONS)))
    piece.seconds = time.monotonic() - began
    return piece


def measure(piece: Piece, pid: int) -> Piece:
    """Record what the server takes now."""
    sizes = [_memory_of(pid), *map(_memory_of, family(pid))]
    piece.memory = sizes[0], sum(sizes[1:])
    piece.files, piece.threads = (len(list(Path(f"/proc/{pid}/{part}").iterdir())) for part in ("fd", "task"))
    return piece


def _memory_of(pid: int) -> float:
    """Return the resident memory of a process [MiB]; 0 where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def campaign(folder: Path, seed: int, requests: int, size: int = PIECE) -> list[Piece]:
    """Send so many requests to a server, in pieces of a size."""
    keys = [create_key(folder / "keys.json", name)[1] for name in ("one", "two", "three")]
    store = f"sqlite:///{folder / 'store.sqlite'}"
    server = Service(store, folder, 0, DARRM_KEYS=str(folder / "keys.json"), **SETTINGS)
    pieces = []
    try:
        headers = {"X-API-Key": keys[0]}
        for problem in STORED:  # what everyone asks for is stored first, each by a job
            server.client.post("/v1/jobs", json=problem, headers=headers).raise_for_status()
        for id_ in IDS:
            while server.client.get(f"/v1/gamma/{id_}", headers=headers).status_code != 200:
                time.sleep(0.1)
        for number in range(math.ceil(requests / size)):
            piece = asyncio.run(run_piece(server.url, keys, requests_of(seed, number, size)))
            pieces.append(measure(piece, server.process.pid))
            server.log_file.open("wb").close()  # a day's log is a gigabyte
        code, log = server.stop()
        if code != 0:
            raise RuntimeError(f"the server did not stop in order: {log[-500:]}")
    finally:
        if server.process.poll() is None:
            server.kill()
    return pieces


def report(pieces: Sequence[Piece]) -> Iterator[str]:
    """Yield the findings."""
    statuses = sum((piece.statuses for piece in pieces), Counter[tuple[str, int]]())
    errors = sum(count for (_, status), count in statuses.items() if status >= 500)
    broken = sum(count for (_, status), count in statuses.items() if status == -1)
    wrong = sum(len(piece.wrong) for piece in pieces)
    found = f"{errors} answers of 5xx, {broken} broken connections, {wrong - errors - broken} other unexpected statuses"
    yield f"{statuses.total():,} requests in {sum(piece.seconds for piece in pieces):,.0f} s: {found}."
    yield ""
    rows: list[Sequence[object]] = []
    for index in sorted({0, len(pieces) // 4, len(pieces) // 2, 3 * len(pieces) // 4, len(pieces) - 1}):
        piece, count = pieces[index], sum(earlier.requests for earlier in pieces[: index + 1])
        rows.append((f"{count:,}", *(f"{size:.1f}" for size in piece.memory), piece.files, piece.threads))
    yield from table(("requests so far", "server [MiB]", "all its processes [MiB]", "open files", "threads"), rows)
    yield ""
    kinds = Counter[str]()
    for (name, _), count in statuses.items():
        kinds[name] += count
    rows = [
        (name, ", ".join(f"{count:,} × {status}" for (of, status), count in sorted(statuses.items()) if of == name))
        for name, _ in kinds.most_common()
    ]
    yield from table(("request", "statuses"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 if anything was wrong."""
    options = read_options(__doc__, arguments, requests=1_000_000, seed=1, write=Path)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server ends with the campaign
    with tempfile.TemporaryDirectory() as folder:
        pieces = campaign(Path(folder), options.seed, options.requests)
    publish("endurance", report(pieces), options.write)
    say(*(line for piece in pieces for line in piece.wrong))
    return int(any(piece.wrong for piece in pieces))


if __name__ == "__main__":
    sys.exit(main())
