"""A day of mixed load on a real server: does its memory stay flat, and is anything ever a 5xx?

A server with API keys, log, metrics and a SQLite store, as in production; eight connections that are kept alive and now
and then opened anew; stored γ in several spellings and forms, certificates, curves, accounts, new problems, batches,
jobs, event streams, requests that are wrong in many ways, clients that disconnect. A million requests imitate 24 hours
at 12 requests a second.

    PYTHONPATH=tests python -m campaigns.endurance --requests 1000000 --record endurance.jsonl --write docs/faults.md

The requests are a function of the seed and their number. With ``--record`` each piece of 10,000 is a line of JSON, and
a run that was interrupted goes on where it stopped, on the store that it left in ``--folder``, with a new server:
memory is compared within the life of one server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from support.service import Service, family

from api.access.keys import create_key
from campaigns.driver import publish, read_options, say, table
from darrm_opt.problem import Problem
from darrm_opt.record import DesignSpec

PIECE = 10_000
"""Requests of one piece, which is a line of the record."""

CONNECTIONS = 8

PATIENCE = 120.0
"""Longest time of an answer [s]."""

RENEWAL = 0.01
"""Share of requests after which a connection is opened anew."""

RATIO = 1.05
"""Ratio of neighbouring bounds of the latency histogram: quantiles are right within 5 %."""

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
    headers: str = ""  # more of them, each with its end of line
    expected: tuple[int, ...] = (200,)  # statuses that are right
    leaves: bool = False  # whether the client disconnects without reading the answer


def _id(problem: dict[str, Any]) -> str:
    return DesignSpec(Problem.from_allowance(**problem)).key


IDS = [_id(problem) for problem in STORED]


def _get(name: str, path: str, headers: str = "", expected: tuple[int, ...] = (200,), **query: Any) -> Request:
    return Request(name, "GET", f"{path}?{urlencode(query)}" if query else path, b"", headers, expected)


def _post(name: str, path: str, body: Any, expected: tuple[int, ...] = (200,), headers: str = "") -> Request:
    return Request(name, "POST", path, json.dumps(body).encode(), headers, expected)


def _stored(random_: random.Random) -> dict[str, Any]:
    return random_.choice(STORED)


def _respelt(random_: random.Random) -> Request:
    problem = _stored(random_)
    fields = sorted(({**problem, "epsilon": f"{problem['epsilon']:.{random_.randint(2, 9)}f}"}).items())
    random_.shuffle(fields)
    form = random_.choice(["application/json", "text/csv", "application/x-npz"])
    return _get("stored γ, respelt", "/v1/gamma", f"Accept: {form}\r\n", **dict(fields))


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
    return Request("malformed body", "POST", "/v1/gamma", body, "", (400, 422))


def _unknown(random_: random.Random) -> Request:
    targets = ["/v1/nothing", *(f"/v1/{kind}/{random_.getrandbits(256):064x}" for kind in ("gamma", "jobs"))]
    return _get("not found", random_.choice(targets), expected=(404,))


EITHER = (200, 202)
MIX: list[tuple[int, Callable[[random.Random], Request]]] = [
    (4000, lambda r: _get("stored γ", "/v1/gamma", **_stored(r))),
    (1500, _respelt),
    (1000, lambda r: _post("stored γ, posted", "/v1/gamma", _stored(r))),
    (600, lambda r: _get("γ by id", f"/v1/gamma/{r.choice(IDS)}")),
    (500, lambda r: _get("revalidation", f"/v1/gamma/{r.choice(IDS)}", "If-None-Match: *\r\n", expected=(304,))),
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
    (100, lambda _: _get("wrong key", "/v1/gamma", "X-API-Key: wrong\r\n", (401,), **STORED[0])),
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
    (10, lambda _: Request("body too large", "POST", "/v1/gamma", b" " * 70_000, "", (413,))),
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
    """A piece of the load, as it is recorded."""

    seed: int  # of the requests
    number: int  # of the piece
    life: int  # process id of the server that answered
    requests: int = 0  # sent
    seconds: float = 0.0  # that they took
    statuses: dict[str, dict[str, int]] = field(default_factory=dict)  # number of answers, by kind and status
    # number of answers in each interval of the histogram (`interval`), by kind
    latencies: dict[str, dict[str, int]] = field(default_factory=dict)
    # answers that are not what the request calls for, in words; the first of them
    wrong: list[str] = field(default_factory=list)
    # resident memory at the end [MiB]: of the server, and of all its processes together
    memory: tuple[float, float] = (0.0, 0.0)
    files: int = 0  # open files of the server at the end
    threads: int = 0  # of the server at the end


def interval(seconds: float) -> int:
    """Return the interval of the latency histogram that contains a time; interval i ends at `RATIO` ** i µs."""
    return max(0, math.ceil(math.log(max(seconds * 1e6, 1)) / math.log(RATIO)))


def quantile(histogram: dict[str, int], share: float) -> float:
    """Return the upper end of the interval that contains a quantile [ms]."""
    remaining = share * sum(histogram.values())
    for number in sorted(map(int, histogram)):
        remaining -= histogram[str(number)]
        if remaining <= 0:
            return float(RATIO**number / 1000)
    return 0.0


class Connection:
    """One client: a connection that is kept alive, and opened anew where it was closed.

    Args:
        address: host and port.
        key: API key.
    """

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._address, self._key = address, key
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: Request) -> tuple[int, bytes]:
        """Ask, and return status and body; 0 where the client left."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        key_header = "" if "X-API-Key" in request.headers else f"X-API-Key: {self._key}\r\n"
        head = f"{request.method} {request.target} HTTP/1.1\r\nHost: localhost\r\n{key_header}{request.headers}"
        if request.body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(request.body)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + request.body)
        await self._writer.drain()
        if request.leaves:
            await asyncio.sleep(0.001)
            self.close()
            return 0, b""
        return await self._read(self._reader, request.method)

    async def _read(self, reader: asyncio.StreamReader, method: str) -> tuple[int, bytes]:
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        status = int(lines[0].split(b" ", 2)[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
        body = b""
        if method == "HEAD" or status in {204, 304}:
            pass
        elif b"content-length" in headers:
            body = await reader.readexactly(int(headers[b"content-length"]))
        else:
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readline()
        if headers.get(b"connection", b"").lower() == b"close":
            self.close()
        return status, body

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def run_piece(piece: Piece, address: tuple[str, int], keys: Sequence[str], count: int = PIECE) -> Piece:
    """Send the requests of a piece over `CONNECTIONS` connections, and return it filled in."""
    waiting = iter(enumerate(requests_of(piece.seed, piece.number, count)))
    began = time.monotonic()
    await asyncio.gather(*(_send(piece, waiting, Connection(address, keys[i % len(keys)])) for i in range(CONNECTIONS)))
    piece.seconds = time.monotonic() - began
    return piece


async def _send(piece: Piece, waiting: Any, connection: Connection) -> None:
    random_ = random.Random(piece.number)
    for number, request in waiting:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                status, body = await connection.ask(request)
        except (OSError, EOFError, TimeoutError, ValueError) as err:
            status, body = -1, repr(err).encode()
            connection.close()
        piece.requests += 1
        _count(piece.statuses, request.name, str(status))
        if not request.leaves:
            _count(piece.latencies, request.name, str(interval(time.perf_counter() - began)))
            if status not in request.expected and len(piece.wrong) < 20:
                text = body[:300].decode(errors="replace")
                piece.wrong.append(f"{piece.number}.{number} {request.method} {request.target[:200]}: {status} {text}")
        if random_.random() < RENEWAL:
            connection.close()
    connection.close()


def _count(counts: dict[str, dict[str, int]], name: str, value: str) -> None:
    of_name = counts.setdefault(name, {})
    of_name[value] = of_name.get(value, 0) + 1


def memory_of(pid: int) -> float:
    """Return the resident memory of a process [MiB]; 0 where it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def measure(piece: Piece, pid: int) -> Piece:
    """Record what the server takes now."""
    piece.memory = round(memory_of(pid), 1), round(sum(map(memory_of, family(pid))), 1)
    piece.files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    piece.threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    return piece


async def warm(address: tuple[str, int], key: str) -> None:
    """Have every problem that everyone asks for stored."""
    connection = Connection(address, key)
    for problem in STORED:
        request = _post("stored γ, posted", "/v1/jobs", problem, (200, 202))
        await connection.ask(request)
    for id_ in IDS:
        while True:
            status, _ = await connection.ask(Request("γ by id", "GET", f"/v1/gamma/{id_}"))
            if status == 200:
                break
            await asyncio.sleep(0.1)
    connection.close()


def campaign(
    folder: Path,
    seed: int,
    known_pieces: list[Piece],
    pieces: int,
    record: Path | None = None,
    seconds: float = math.inf,
    count: int = PIECE,
) -> list[Piece]:
    """Send the pieces that are not known yet to one server, ``count`` requests each; return all."""
    pieces_by_number, began = {piece.number: piece for piece in known_pieces}, time.monotonic()
    keyfile = folder / f"keys-{len(list(folder.glob('keys-*.json')))}.json"
    keys = [create_key(keyfile, name)[1] for name in ("one", "two", "three")]
    server = Service(f"sqlite:///{folder / 'store.sqlite'}", folder, 0, DARRM_KEYS=str(keyfile), **SETTINGS)
    try:
        parts = urlsplit(server.url)
        address = (parts.hostname or "", parts.port or 0)
        asyncio.run(warm(address, keys[0]))
        for number in range(pieces):
            if number in pieces_by_number or time.monotonic() - began > seconds:
                continue
            piece = asyncio.run(run_piece(Piece(seed, number, server.process.pid), address, keys, count))
            pieces_by_number[number] = measure(piece, server.process.pid)
            if record is not None:
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(piece)) + "\n")
            server.log.open("wb").close()  # a day's log is a gigabyte
        code, log = server.stop()
        if code != 0:
            raise RuntimeError(f"the server did not stop in order: {log[-500:]}")
    finally:
        if server.process.poll() is None:
            server.kill()
    return [pieces_by_number[number] for number in sorted(pieces_by_number)]


def read_record(path: Path, seed: int) -> list[Piece]:
    """Return the pieces of a seed that a file has."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    complete_lines = [line for line in lines if line.endswith("\n")]  # the last may be cut short
    return [piece for line in complete_lines if (piece := Piece(**json.loads(line))).seed == seed]


def total(histograms: Sequence[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Return the sum of counts by kind."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for histogram in histograms:
        for name, counts in histogram.items():
            totals[name].update(counts)
    return {name: dict(counts) for name, counts in totals.items()}


def report(pieces: list[Piece]) -> Iterator[str]:
    """Yield the findings."""
    statuses, latencies = total([piece.statuses for piece in pieces]), total([piece.latencies for piece in pieces])
    requests, seconds = sum(piece.requests for piece in pieces), sum(piece.seconds for piece in pieces)
    errors = sum(count for counts in statuses.values() for status, count in counts.items() if status[0] == "5")
    broken = sum(counts.get("-1", 0) for counts in statuses.values())
    unexpected = sum(len(piece.wrong) for piece in pieces) - errors - broken
    found = f"{errors} answers of 5xx, {broken} broken connections, {unexpected} other unexpected statuses"
    yield f"{requests:,} requests in {seconds:,.0f} s: {found}."
    yield ""
    lives: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        lives[piece.life].append(piece)
    rows: list[Sequence[object]] = []
    for number, life in enumerate(lives.values(), start=1):
        rows += [(f"*server {number}*", "", "", "", "")] if len(lives) > 1 else []
        for index in sorted({0, len(life) // 4, len(life) // 2, 3 * len(life) // 4, len(life) - 1}):
            piece, count = life[index], sum(earlier.requests for earlier in life[: index + 1])
            rows.append((f"{count:,}", *(f"{size:.1f}" for size in piece.memory), piece.files, piece.threads))
    head = ("requests so far", "server [MiB]", "all its processes [MiB]", "open files", "threads")
    yield from table(head, rows)
    yield ""
    rows = []
    for name, counts in sorted(statuses.items(), key=lambda item: -sum(item[1].values())):
        status_text = ", ".join(f"{count:,} × {_status_name(status)}" for status, count in sorted(counts.items()))
        times = [quantile(latencies[name], share) for share in (0.5, 0.99, 0.999)] if name in latencies else []
        rows.append((name, status_text, *([f"{value:.1f}" for value in times] or ["", "", ""])))
    yield from table(("request", "statuses", "median [ms]", "p99 [ms]", "p99.9 [ms]"), rows)


def _status_name(status: str) -> str:
    return {"0": "left", "-1": "broken"}.get(status, status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 if anything was wrong."""
    options = read_options(
        __doc__,
        arguments,
        requests=1_000_000,
        seed=1,
        seconds=(math.inf, "begin no piece after so many [s]"),
        record=(Path, "file of pieces to go on with, a line of JSON each"),
        folder=(Path, "folder of the store; unless given, a temporary one"),
        write=Path,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server ends with the campaign
    known_pieces = read_record(options.record, options.seed) if options.record else []
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        count = math.ceil(options.requests / PIECE)
        pieces = campaign(folder, options.seed, known_pieces, count, options.record, options.seconds)
    publish("endurance", report(pieces), options.write)
    say(*(line for piece in pieces for line in piece.wrong))
    return int(any(piece.wrong for piece in pieces))


if __name__ == "__main__":
    sys.exit(main())
