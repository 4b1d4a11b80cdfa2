"""Attackers of a server: what one connection of each attack sends, and how many there are, from which addresses.

Linux has all of 127.0.0.0/8, so one machine attacks from as many addresses as it likes. Every attacker connects again at
once when it is cut, unless its attack says otherwise. An attack runs in a process of its own, in the background
(`nice`), as attackers elsewhere would not take the server's processors.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

BIND_ADDRESS_NO_PORT = 24
"""Linux's option IP_BIND_ADDRESS_NO_PORT: ports are chosen for each destination, so one address has thousands."""

PAUSE = 0.01  # time between two attempts of a connection that was not even opened [s]

OPENING = 64
"""Connections of one process that are being opened at a time: each sends its first bytes soon after it is open."""


@dataclass
class Tally:
    """What the attackers of one process did: connections opened and not opened, answers by status, longest wait [s]."""

    opened: int = 0
    refused: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0

    def add(self, line: str) -> None:
        other = json.loads(line)
        self.opened, self.refused = self.opened + other["opened"], self.refused + other["refused"]
        self.statuses.update({int(status): number for status, number in other["statuses"].items()})
        self.longest = max(self.longest, other["longest"])


@dataclass
class Attacker:
    """One connection of an attack.

    Attributes:
        reader: of what the server sends.
        writer: to the server.
        key: API key, for attacks of a client with one.
        number: of the connection, from 0.
        tally: shared by all of the process.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    key: str
    number: int
    tally: Tally

    async def send(self, data: bytes) -> None:
        """Send, waiting for the server to read.

        Raises:
            ConnectionError: the server has closed.
        """
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # what is written to a closed connection is dropped, without a pause
        if self.reader.at_eof() or self.writer.transport.is_closing():
            raise ConnectionResetError

    async def wait_for_end(self) -> None:
        """Read and discard until the server closes."""
        while await self.reader.read(2**16):
            pass

    async def ask(self, method: str, path: str, body: bytes = b"") -> None:
        """Ask with the key, and read the answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {self.key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        began = time.monotonic()
        try:
            await self.send(head.encode() + body)
            answer = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", answer)
            await self.reader.readexactly(int(length[1]) if length else 0)
            self.tally.statuses[int(answer[9:12])] += 1
        finally:  # also where no answer came to the end
            self.tally.longest = max(self.tally.longest, time.monotonic() - began)


Behaviour = Callable[[Attacker], Awaitable[None]]


@dataclass(frozen=True)
class Attack:
    """An attack.

    Attributes:
        name: of it.
        behave: what one connection does; it may return or fail when the server cuts it.
        addresses: from which it comes.
        connections: of each address, at once.
        reconnects: whether a connection that was cut is opened again at once.
        keyed: whether the attacker has a valid key.
        secure: whether it speaks TLS, where the server does.
        read_buffer: of a connection's socket [bytes]; 0 for the system's.
    """

    name: str
    behave: Behaviour
    addresses: int = 1
    connections: int = 1
    reconnects: bool = True
    keyed: bool = False
    secure: bool = True
    read_buffer: int = 0

    def scaled(self, scale: float) -> int:
        """Return the connections of each address, scaled, at least one."""
        return max(1, round(scale * self.connections))


# ------------------------------------------------------------------------------------------------ what each does


def endless(start: bytes, more: bytes) -> Behaviour:
    """Send a chunked body that begins so, and more of it without end."""

    async def behave(attacker: Attacker) -> None:
        await attacker.send(
            b"POST /openapi.json HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + start
        )
        while True:
            await attacker.send(more)

    return behave


async def pipelined_requests(attacker: Attacker) -> None:
    """Send 252 kB of requests in one piece, and read the answers until the server closes."""
    await attacker.send(14_000 * b"GET / HTTP/1.1\r\n\r\n")
    await attacker.wait_for_end()


def half_open(first: bytes) -> Behaviour:
    """Send the first byte of a request, or of a TLS handshake, and no other."""

    async def behave(attacker: Attacker) -> None:
        await attacker.send(first)
        await attacker.wait_for_end()

    return behave


async def unfinished_body(attacker: Attacker) -> None:
    """Send a body of 1 MB but for its end, to a path that needs no key."""
    await attacker.send(b"POST /openapi.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n")
    for _ in range(15):
        await attacker.send(2**16 * b"a")
    await attacker.wait_for_end()


async def slow_reader(attacker: Attacker) -> None:
    """Ask twenty times for the API's description at once, and read a few kilobytes of it every two seconds."""
    transport = attacker.writer.transport
    with contextlib.suppress(AttributeError):  # of TLS alone: what it reads ahead
        transport.set_read_buffer_limits(high=4096)  # type: ignore[attr-defined]
    transport.pause_reading()  # type: ignore[attr-defined]
    await attacker.send(20 * b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while not transport.is_closing():
        await asyncio.sleep(2)
        transport.resume_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        transport.pause_reading()  # type: ignore[attr-defined]


async def description_flood(attacker: Attacker) -> None:
    """Ask for the API's description again and again."""
    while True:
        await attacker.ask("GET", "/openapi.json")


async def wrong_items(attacker: Attacker) -> None:
    """Send bodies of 1 MB with 200,000 wrong items, or with 100,000 unknown keys, again and again."""
    items = b'{"K":3,"m":1,"epsilon":0.1,"gamma":[' + b",".join(200_000 * [b'"x"']) + b"]}"
    keys = b'{"K":3,"m":1,"epsilon":0.1,' + b",".join(b'"%x":0' % number for number in range(100_000)) + b"}"
    while True:
        await attacker.ask("POST", "/v1/verify", items)
        await attacker.ask("POST", "/v1/verify", keys)


async def long_tradeoffs(attacker: Attacker) -> None:
    """Ask for trade-offs that take seconds, each a new one."""
    for number in count():
        epsilon = 0.05 + attacker.number / 100 + number / 10_000
        body = {
            "K": 101,
            "epsilon": epsilon,
            "Delta": 1e-5,
            "ms": [3, 4, 5, 6, 7, 8],
            "objective": "shared(1,1) agreement",
        }
        await attacker.ask("POST", "/v1/tradeoff", json.dumps(body).encode())


async def stored_answers(attacker: Attacker) -> None:
    """Ask for what the store has to be asked for, again and again."""
    for number in count():
        await attacker.ask("GET", f"/v1/gamma?K=7&m=2&epsilon={0.2 + attacker.number / 100 + number / 10_000:.4f}")
        await attacker.ask("GET", "/v1/jobs")


TRAILERS = endless(b"0\r\n", b"".join(b"X-%d: %b\r\n" % (number, 1000 * b"a") for number in range(64)))

TRAILER, EXTENSION = (endless(start, 2**16 * b"a") for start in (b"0\r\nX: ", b"1;x="))

REQUEST, HANDSHAKE = half_open(b"G"), half_open(b"\x16")

THREE, FOURTEEN = 3, 14  # addresses of half-open connections: as many as shut everybody out, and many

ATTACKS = (
    Attack("endless trailers", TRAILERS),
    Attack("endless trailers, 14 addresses", TRAILERS, FOURTEEN, 8),
    Attack("one endless trailer", TRAILER),
    Attack("one endless chunk extension", EXTENSION),
    Attack("pipelined requests", pipelined_requests, connections=20),
    Attack("half-open, held, 3 addresses", REQUEST, THREE, 1000, reconnects=False),
    Attack("half-open, held, 14 addresses", REQUEST, FOURTEEN, 1000, reconnects=False),
    Attack("half-open, reconnecting at once, 3 addresses", REQUEST, THREE, 1000),
    Attack("half-open, reconnecting at once, 14 addresses", REQUEST, FOURTEEN, 200),
    Attack("half-open TLS, reconnecting at once, 14 addresses", HANDSHAKE, FOURTEEN, 200, secure=False),
    Attack("unfinished bodies", unfinished_body, connections=950),
    Attack("unfinished bodies, 5 addresses", unfinished_body, 5, 200),
    Attack("slow readers", slow_reader, connections=900, read_buffer=4096),
    Attack("description, again and again", description_flood, connections=16),
    Attack("wrong items", wrong_items, connections=4, keyed=True),
    Attack("long trade-offs", long_tradeoffs, connections=8, keyed=True),
    Attack("store that hangs", stored_answers, connections=20, keyed=True),
)
"""Every attack, in the order of the report."""


# ------------------------------------------------------------------------------------------------ how it is run


@dataclass
class Target:
    """Where an attack goes.

    Attributes:
        host: address of loopback.
        port: of the server.
        certificate: that it shows; "" where it speaks no TLS.
        key: of the attacker.
    """

    host: str
    port: int
    certificate: str = ""
    key: str = ""

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)

    async def connect(self, attack: Attack, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection from an address."""
        bare = socket.socket()
        try:
            bare.setblocking(False)
            bare.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)
            if attack.read_buffer:
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, attack.read_buffer)
            bare.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(bare, (self.host, self.port))
            if not (self.certificate and attack.secure):
                return await asyncio.open_connection(sock=bare)
            return await asyncio.open_connection(sock=bare, ssl=self._trust, server_hostname="localhost")
        except BaseException:
            bare.close()
            raise


async def _one(
    attack: Attack,
    target: Target,
    source: str,
    number: int,
    tally: Tally,
    opening: asyncio.Semaphore,
    begun: asyncio.Event,
) -> None:
    while True:
        writer = None
        try:
            async with opening:
                reader, writer = await target.connect(attack, source)
            tally.opened += 1
            begun.set()
            await attack.behave(Attacker(reader, writer, target.key, number, tally))
        except (OSError, EOFError, asyncio.LimitOverrunError):
            if writer is None:
                tally.refused += 1
                await asyncio.sleep(PAUSE)
        finally:
            begun.set()
            if writer is not None:
                writer.transport.abort()
        if not attack.reconnects:
            return


async def _all(attack: Attack, target: Target, scale: float, seconds: float, tally: Tally) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.set_exception_handler(lambda _, __: None)  # connections that were cut, in every way that there is
    sources = [f"127.0.0.{2 + n}" for n in range(attack.addresses)]
    places = [source for _ in range(attack.scaled(scale)) for source in sources]
    opening, begun = asyncio.Semaphore(OPENING), asyncio.Event()
    tasks = [
        asyncio.create_task(_one(attack, target, source, number, tally, opening, begun))
        for number, source in enumerate(places)
    ]
    await begun.wait()  # at a low priority, the first connection may take seconds
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    for task in tasks:
        task.cancel()
    failures = [each for each in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(each, Exception)]
    if failures:
        raise failures[0]


def main(arguments: list[str]) -> int:
    import uvloop

    name, scale, seconds, place = arguments
    attack = next(each for each in ATTACKS if each.name == name)
    tally = Tally()
    signal.alarm(int(float(seconds)) + 60)  # whatever happens, it ends
    os.nice(10)
    uvloop.run(_all(attack, Target(**json.loads(place)), float(scale), float(seconds), tally))
    sys.stdout.write(json.dumps(vars(tally)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
