"""Attacks on connections of a real server: each is limited, and other clients are still answered.

Addresses of loopback stand for separate machines. An attacker that only stalls would be waited for; every test
looks at what the server does at once, and none at how long it takes.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from support.served import Served, connected_from, received, serving, status_from
from support.waiting import until

GAMMA = "/v1/gamma?K=5&m=2&epsilon=0.5"

CONNECTIONS, PER_ADDRESS = 30, 10

ATTACKERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")

HEAD = b"POST /v1/verify HTTP/1.1\r\nHost: localhost\r\n"

LARGE = 2**16  # size of a request that counts towards the total budget [bytes]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with few connections and long timeouts."""
    settings = {
        "DARRM_MAX_CONNECTIONS": str(CONNECTIONS),
        "DARRM_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
        "DARRM_MAX_HEAD_BYTES": "4096",
        "DARRM_MAX_BODY_BYTES": str(4 * LARGE),
        "DARRM_MAX_RECEIVED_BYTES": str(8 * LARGE),
        "DARRM_MAX_UNREAD_BYTES": str(2**20),
        "DARRM_HEAD_SECONDS": "600",
        "DARRM_BODY_SECONDS": "600",
        "DARRM_CACHE_URL": "memory",
    }
    with serving(tmp_path_factory.mktemp("served"), **settings) as server:
        assert server.ask(GAMMA).status == 200
        yield server


def polite(service: Served, address: str = "127.0.0.1") -> set[int]:
    """Request γ, a certificate and the health checks ten times each; return the statuses."""
    verify = b'{"K": 3, "m": 1, "epsilon": 0.1, "gamma": [0.1, 0.03, 0.03, 0.1]}'
    paths = [(GAMMA, b""), ("/v1/verify", verify), ("/healthz", b""), ("/readyz", b"")]
    return {status_from(service, address, path, body) for _ in range(10) for path, body in paths}


@contextlib.contextmanager
def held(
    service: Served, sent: bytes, count: int, addresses: tuple[str, ...] = ATTACKERS
) -> Iterator[list[socket.socket]]:
    """Hold connections of several addresses open within the block, each after the same bytes."""
    connections = []
    with contextlib.ExitStack() as stack:
        for address in addresses:
            for _ in range(count):
                connection = stack.enter_context(connected_from(service, address))
                with contextlib.suppress(OSError):  # the server has already closed it
                    connection.sendall(sent)
                connections.append(connection)
        yield connections


# ---------------------------------------------------------------------------------------------------- one connection


@pytest.mark.parametrize(
    "endless",
    [b"0\r\n" + b"T: t\r\n" * 2**15, b"0\r\nT: " + b"t" * 2**17, b"1;" + b"e" * 2**17],
    ids=["trailers", "a trailer", "an extension of a chunk"],
)
def test_body_framing_is_bounded(service: Served, endless: bytes) -> None:
    with service.connect() as connection:
        connection.settimeout(60)
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n" + endless)
        assert received(connection).startswith(b"HTTP/1.1 431 ")


def test_trailers_are_not_headers(service: Served) -> None:
    with service.connect() as connection:
        head = b"POST /v1/gamma HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        body = b'{"K": 5, "m": 2, "epsilon": 0.5}'
        chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nAccept: text/nothing\r\n\r\n" % (len(body), body)
        connection.sendall(head + chunks)
        assert received(connection).startswith(b"HTTP/1.1 200 ")


def test_a_body_in_chunks_of_one_byte_is_read(service: Served) -> None:
    body = b'{"K": 5, "m": 2, "epsilon": 0.5}' + b" " * 3000
    answer = service.ask(
        "/v1/gamma", "POST", (body[i : i + 1] for i in range(len(body))), Content_Type="application/json"
    )
    assert answer.status == 200


def test_headers_are_limited(service: Served) -> None:
    for count, status in ((100, b"200"), (200, b"431")):
        with service.connect() as connection:
            headers = b"Host: localhost\r\nConnection: close\r\n" + b"X: y\r\n" * (count - 2)
            connection.sendall(b"GET /healthz HTTP/1.1\r\n" + headers + b"\r\n")
            assert received(connection).startswith(b"HTTP/1.1 " + status)


def test_a_connection_has_one_request_at_a_time(service: Served) -> None:
    for one in (b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with service.connect() as connection:
            with contextlib.suppress(OSError):  # closed after its first answer
                connection.sendall(one * 10_000)
            found = received(connection)
        assert found.startswith(b"HTTP/1.1 ")
        assert found.count(b"HTTP/1.1 ") == 1
        assert b"\r\nconnection: close\r\n" in found.partition(b"\r\n\r\n")[0] + b"\r\n"


def test_a_connection_is_reused(service: Served) -> None:
    connection = HTTPConnection(*service.address, timeout=60)
    with contextlib.closing(connection):
        connection.connect()
        opened = connection.sock
        for _ in range(50):
            connection.sock.sendall(b"\r\n")  # which may precede a request
            connection.request("GET", "/healthz")
            with connection.getresponse() as answer:
                assert (answer.status, bool(answer.read())) == (200, True)
            assert connection.sock is opened


# -------------------------------------------------------------------------------------------------- many connections


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"G",
        b"\r\n",
        b"GET / HTTP/1.1\r\nX: y",
        HEAD + b"Content-Length: 9\r\n\r\n{",
        HEAD + b"Expect: 100-continue\r\n",
    ],
    ids=["nothing", "one byte", "an empty line", "half a head", "half a body", "half a head that expects"],
)
def test_waiting_connections_are_evicted(service: Served, sent: bytes) -> None:
    with held(service, sent, PER_ADDRESS + 2):
        assert polite(service) == {200}
        assert polite(service, ATTACKERS[0]) == {200}  # another client behind the same router


def test_many_addresses_do_not_block_others(service: Served) -> None:
    addresses = tuple(f"127.0.1.{number}" for number in range(1, 41))
    with held(service, b"G", 1, addresses):
        assert polite(service) == {200}


def test_immediate_reconnects_do_not_block_others(service: Served) -> None:
    done = threading.Event()

    def reconnect(address: str) -> None:
        """Hold connections with half a head; reopen each that the server closes."""
        connections: list[socket.socket] = []
        while not done.is_set():
            with contextlib.suppress(OSError):
                connections.append(connected_from(service, address))
                connections[-1].sendall(b"G")
            if len(connections) > PER_ADDRESS + 2:
                connections.pop(0).close()
        for connection in connections:
            connection.close()

    attackers = [threading.Thread(target=reconnect, args=(address,)) for address in ATTACKERS]
    for attacker in attackers:
        attacker.start()
    try:
        assert polite(service) == {200}
    finally:
        done.set()
        for attacker in attackers:
            attacker.join()


# ------------------------------------------------------------------------------------------------------------ budgets


def test_request_bytes_have_a_budget_that_exempts_small_requests(service: Served) -> None:
    large = HEAD + b"Content-Type: application/json\r\nContent-Length: 200000\r\n\r\n" + b" " * LARGE
    with held(service, large, 8) as connections:  # 24 connections, of which fewer than eight fit
        assert polite(service) == {200}
        until(lambda: len(select.select(connections, (), (), 0)[0]) > 16)
        refused = select.select(connections, (), (), 0)[0]
        assert all(received(connection).startswith(b"HTTP/1.1 503 ") for connection in refused)
    answer = service.ask("/v1/verify", "POST", b" " * LARGE, Content_Type="application/json")
    assert answer.status == 422  # the budget is free again
