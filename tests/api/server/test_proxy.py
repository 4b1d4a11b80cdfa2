"""The shipped reverse proxy: nginx with `deploy/nginx.conf` in front of a server, with TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from campaigns.proxy import CONFIGURATION, Proxy, needs_proxy, proxying
from support.ports import refusing_port
from support.served import Served, serving
from support.waiting import until

from api.access.keys import create_key
from api.errors.problem_details import PROBLEM_TYPES, URN
from api.routes.jobs import HEARTBEAT_SECONDS
from api.server.protocol import MAX_TARGET_BYTES
from api.settings import Settings
from darrm_client import DarrmClient
from darrm_opt import Problem

pytestmark = needs_proxy

TEXT = CONFIGURATION.read_text(encoding="utf-8")

JOB = {"K": 101, "m": 20, "epsilon": 0.1, "Delta": 1e-2, "objective": "shared(1,1) agreement"}  # takes seconds to solve

HIDDEN = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/%68ealthz",
    "//healthz",
    "/v1/../readyz",
    "/darrm/metrics",
    "/healthz?x=1",
]
"""Requests for paths of internal monitoring."""

SPOOFED = {
    "X-Forwarded-For": "10.9.8.7",
    "X-Forwarded-Proto": "gopher",
    "X-Forwarded-Prefix": "/evil",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Port": "666",
    "X-Real-IP": "10.9.8.7",
    "Forwarded": "for=10.9.8.7",
}
"""Headers of a client that only a proxy may set."""


class Upstream(ThreadingHTTPServer):
    """A server that answers with the headers of the request and counts its connections."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        self.connections = 0
        super().__init__(("127.0.0.1", 0), _Echo)

    def get_request(self) -> tuple[socket.socket, Any]:
        self.connections += 1
        return super().get_request()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        body = json.dumps([self.path, {name.lower(): value for name, value in self.headers.items()}]).encode()
        body += b" " * int(self.headers.get("Pad") or 0)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 — the name in http.server

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def plain(upstream: Upstream) -> Iterator[Proxy]:
    """The unchanged configuration in front of a server that returns the headers."""
    with proxying(upstream.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def impatient(upstream: Upstream) -> Iterator[Proxy]:
    """The configuration with timeouts of a second, few connections and few requests."""
    changes = {
        "client_header_timeout 10s": "client_header_timeout 1s",
        "client_body_timeout 10s": "client_body_timeout 1s",
        "send_timeout 30s": "send_timeout 1s",
        "limit_conn connections_of_address 200": "limit_conn connections_of_address 20",
        "burst=800": "burst=30",
        "rate=400r/s": "rate=6r/m",  # other tests of the fixture send few requests, and none takes more than ten seconds
    }
    with proxying(upstream.url, changes) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str]]:
    folder = tmp_path_factory.mktemp("service")
    _, key = create_key(folder / "keys.json", "alice")
    settings = {
        "DARRM_TRUSTED_PROXIES": "127.0.0.1",
        "DARRM_KEYS": str(folder / "keys.json"),
        "DARRM_WAIT_SECONDS": "0",
    }
    with serving(folder, **settings) as server:
        yield server, key


def connect(proxy: Proxy, source: str = "127.0.0.1", *, tls: bool = True) -> socket.socket:
    bare = socket.create_connection(proxy.address, timeout=60, source_address=(source, 0))
    return proxy.trust.wrap_socket(bare, server_hostname="localhost") if tls else bare


def ask(
    proxy: Proxy,
    path: str = "/",
    method: str = "GET",
    body: bytes | Iterator[bytes] | None = None,
    source: str = "127.0.0.1",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Send a request on a new connection; return status, headers and body."""
    connection = http.client.HTTPSConnection(
        *proxy.address, timeout=60, context=proxy.trust, source_address=(source, 0)
    )
    with contextlib.closing(connection):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it was sent completely
            connection.request(method, path, body, headers or {}, encode_chunked=isinstance(body, Iterator))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def received(
    proxy: Proxy, path: str = "/", headers: dict[str, str] | None = None, source: str = "127.0.0.1"
) -> dict[str, str]:
    """Return the headers of a request behind the proxy."""
    status, _, body = ask(proxy, path, source=source, headers=headers)
    assert status == 200
    path_there, found = json.loads(body)
    assert path_there == path
    return dict(found)


def read_all(connection: socket.socket) -> bytes:
    """Return the bytes received until the end or a reset."""
    pieces = []
    with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
        while piece := connection.recv(2**16):
            pieces.append(piece)
    return b"".join(pieces)


def is_problem(status: int, headers: dict[str, str], body: bytes, name: str) -> bool:
    """Return whether an answer has the problem details of the service."""
    told, kind = json.loads(body), PROBLEM_TYPES[name]
    assert headers["content-type"] == "application/problem+json"
    assert told["detail"]
    return (status, told["status"], told["type"], told["title"]) == (kind.status, kind.status, URN + name, kind.title)


# ------------------------------------------------------------------------------------------------- the configuration


def test_its_limits_fit_those_of_the_service() -> None:
    def number(pattern: str) -> int:
        found = re.findall(pattern, TEXT)
        assert len(found) == 1, pattern
        return int(found[0])

    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    assert number(r"client_max_body_size (\d+)m;") * 2**20 == defaults["max_body_bytes"]
    assert number(r"max_conns=(\d+)") < defaults["max_connections"]
    assert number(r"\n        keepalive_timeout (\d+)s;") < defaults["idle_seconds"]
    assert number(r"proxy_read_timeout (\d+)s;") > max(60, HEARTBEAT_SECONDS)  # 60: the largest wait that may be set
    assert number(r"proxy_timeout (\d+)s;") > number(r"proxy_read_timeout (\d+)s;")
    assert number(r"worker_shutdown_timeout (\d+)s;") > defaults["stop_seconds"]


def test_every_line_to_change_for_a_site_is_marked() -> None:
    marked = [line for line in TEXT.splitlines() if "# site:" in line]
    assert [re.search(r"darrm:8000|8443|path|default", line) is not None for line in marked] == [True] * 3


# -------------------------------------------------------------------------------------------------------------- TLS


def test_only_tls_1_2_and_1_3_are_supported(plain: Proxy) -> None:
    with connect(plain) as connection:
        assert isinstance(connection, ssl.SSLSocket)
        assert connection.version() == "TLSv1.3"
    trust = plain.trust
    trust.maximum_version = ssl.TLSVersion.TLSv1_2
    with trust.wrap_socket(connect(plain, tls=False), server_hostname="localhost") as connection:
        assert connection.version() == "TLSv1.2"
        assert "ECDHE" in (connection.cipher() or ("",))[0]
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        trust.minimum_version = trust.maximum_version = ssl.TLSVersion.TLSv1_1
    trust.set_ciphers("ALL:@SECLEVEL=0")
    with connect(plain, tls=False) as bare, pytest.raises((ssl.SSLError, ConnectionResetError)):
        trust.wrap_socket(bare, server_hostname="localhost")
    assert ask(plain)[1]["strict-transport-security"] == "max-age=31536000"


def test_plain_http_is_refused_with_the_reason(plain: Proxy) -> None:
    with connect(plain, tls=False) as bare:
        bare.sendall(b"GET /v1/gamma HTTP/1.1\r\nHost: localhost\r\nX-API-Key: secret\r\n\r\n")
        head, _, body = read_all(bare).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert is_problem(400, {"content-type": "application/problem+json"}, body, "bad-request")


# ---------------------------------------------------------------------------------------------------------- headers


def test_only_the_proxy_sets_the_client_address(plain: Proxy) -> None:
    found = received(plain, headers=SPOOFED, source="127.0.0.5")
    ours = {name: value for name, value in found.items() if name.startswith("x-") or name == "forwarded"}
    assert ours == {"x-forwarded-for": "127.0.0.5", "x-forwarded-proto": "https"}
    assert found["host"] == "127.0.0.1"


def test_the_proxy_sets_the_path_prefix(upstream: Upstream) -> None:
    with proxying(upstream.url, {'default ""; # site': 'default "/darrm"; # site'}) as proxy:
        assert received(proxy, "/darrm/v1/gamma?K=5", {"X-Forwarded-Prefix": "/evil"})["x-forwarded-prefix"] == "/darrm"
        assert ask(proxy, "/darrm/healthz")[0] == 404


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2"),
        ("2001:db8:1:2::6", "2001:db8:1:2"),
        ("2001:db8:1::6", "2001:db8:1"),  # the fourth part is 0
        ("2001:db8::1", "2001:db8"),
    ],
)
def test_ipv6_addresses_are_counted_by_network(upstream: Upstream, address: str, group: str) -> None:
    header = 'add_header Strict-Transport-Security "max-age=31536000" always;'
    changes = {
        "real_ip_header proxy_protocol": "real_ip_header X-Test",
        header: f"{header} add_header X-Group $address always;",
    }
    with proxying(upstream.url, changes) as proxy:
        assert ask(proxy, headers={"X-Test": address})[1]["x-group"] == group


# ------------------------------------------------------------------------------------------------- internal paths


@pytest.mark.parametrize("path", HIDDEN)
def test_monitoring_is_not_public(plain: Proxy, path: str) -> None:
    with connect(plain) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(body)["type"] == "about:blank"


def test_internal_monitoring_reaches_the_service_through_the_proxy(service: tuple[Served, str]) -> None:
    with proxying(service[0].url) as proxy:
        host, _, port = proxy.internal.removeprefix("http://").partition(":")
        found = {}
        for path in ("/healthz", "/status", "/v1/gamma"):
            with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
                connection.request("GET", path)
                answer = connection.getresponse()
                found[path] = answer.status, answer.read()
    assert json.loads(found["/healthz"][1])["status"] == "ok"
    assert found["/status"][1].startswith(b"Active connections: ")
    assert found["/v1/gamma"][0] == 404


# ----------------------------------------------------------------------------------------------------------- limits


def test_the_limit_of_heads_is_that_of_the_service(plain: Proxy) -> None:
    assert received(plain, "/?" + "a" * 60_000)["host"] == "127.0.0.1"
    assert is_problem(*ask(plain, "/?" + "a" * 70_000), "head-too-large")
    assert is_problem(*ask(plain, headers={"X-Long": "a" * 70_000}), "head-too-large")
    assert received(plain, headers={"X-Long": "a" * 60_000})["x-long"] == "a" * 60_000


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_that_are_too_large_are_refused_with_the_reason(plain: Proxy, chunked: bool) -> None:
    pieces = [bytes(2**16)] * 17
    assert is_problem(*ask(plain, method="POST", body=iter(pieces) if chunked else b"".join(pieces)), "body-too-large")
    assert ask(plain, method="POST", body=bytes(2**20))[0] == 200


@pytest.mark.parametrize(
    "start",
    [
        b"G",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)
def test_stalled_requests_are_closed(impatient: Proxy, start: bytes) -> None:
    with connect(impatient, "127.0.0.6") as connection:
        connection.sendall(start)
        assert b" 200 " not in read_all(connection)


def test_endless_trailers_are_read_slowly(plain: Proxy) -> None:
    sent, enough, end = 0, 2**25, time.monotonic() + 2
    with connect(plain, "127.0.0.9") as connection, contextlib.suppress(TimeoutError):
        connection.settimeout(2)
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        while sent < enough and time.monotonic() < end:
            sent += connection.send(2**10 * b"Trailer: x\r\n")
    assert sent < enough  # the buffers of the system at both ends, and one MiB per second


def test_an_incomplete_handshake_is_closed(impatient: Proxy) -> None:
    with connect(impatient, "127.0.0.6", tls=False) as bare:
        bare.sendall(b"\x16")
        assert read_all(bare) == b""


def test_a_client_that_does_not_read_is_closed(impatient: Proxy) -> None:
    bare = socket.socket()
    bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    bare.bind(("127.0.0.7", 0))
    bare.settimeout(60)
    bare.connect(impatient.address)
    with impatient.trust.wrap_socket(bare, server_hostname="localhost") as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nPad: 50000000\r\n\r\n")
        time.sleep(3)
        assert len(read_all(connection)) < 40_000_000


def test_silent_connections_of_an_address_are_limited(impatient: Proxy) -> None:
    def is_open(connection: socket.socket) -> bool:
        connection.setblocking(False)
        try:
            return connection.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(impatient, "127.0.0.8", tls=False)) for _ in range(30)]
        until(lambda: sum(map(is_open, held)) <= 20)
        assert ask(impatient, source="127.0.0.9")[0] == 200


def test_the_request_rate_of_an_address_is_limited(impatient: Proxy) -> None:
    answers = [ask(impatient, source="127.0.0.10") for _ in range(40)]
    statuses = [status for status, _, _ in answers]
    assert {*statuses} == {200, 429}
    status, headers, body = answers[-1]
    assert is_problem(status, headers, body, "too-many-requests")
    assert headers["retry-after"] == "1"
    assert ask(impatient, source="127.0.0.11")[0] == 200


def test_concurrent_large_bodies_of_an_address_are_limited(plain: Proxy) -> None:
    start = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n"
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connect(plain, "127.0.0.12")) for _ in range(8)]
        for connection in held:
            connection.sendall(start)
            assert connection.recv(2**10) == b"HTTP/1.1 100 Continue\r\n\r\n"  # it is counted
        found = ask(plain, method="POST", body=bytes(20_000), source="127.0.0.12")
        assert is_problem(*found, "too-many-requests")
        assert ask(plain, method="POST", body=bytes(2_000), source="127.0.0.12")[0] == 200
        assert ask(plain, method="POST", body=bytes(20_000), source="127.0.0.13")[0] == 200
        held[0].sendall(bytes(100_000))
        assert held[0].recv(12) == b"HTTP/1.1 200"


def test_refusals_do_not_fill_the_logs(impatient: Proxy) -> None:
    before = impatient.errors.stat().st_size + impatient.log.stat().st_size
    refused = 0
    for _ in range(20):
        with connect(impatient, "127.0.0.14") as connection:
            connection.sendall(100 * b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"rubbish\r\n\r\n")
            refused += read_all(connection).count(b"HTTP/1.1 4")
    assert refused > 1000
    assert impatient.errors.stat().st_size + impatient.log.stat().st_size - before < 20_000  # one in a hundred
    events = [json.loads(line) for line in impatient.log.read_text(encoding="utf-8").splitlines()]
    assert {event["event"] for event in events} <= {"answered by the proxy"}


# ------------------------------------------------------------------------------------------------------ the service


def test_connections_to_the_service_are_reused(upstream: Upstream, plain: Proxy) -> None:
    ask(plain)
    before = upstream.connections
    for _ in range(20):
        assert ask(plain)[0] == 200
    assert upstream.connections - before <= 2  # one for each of nginx's processes


def test_an_unavailable_service_is_reported_and_logged() -> None:
    with refusing_port() as port, proxying(f"http://127.0.0.1:{port}") as proxy:
        status, headers, body = ask(proxy)
        assert (status, headers["retry-after"]) == (502, "5")
        assert json.loads(body)["title"] == "The service does not answer."
        until(lambda: proxy.log.read_text(encoding="utf-8").endswith("\n"))  # logged after the answer
        assert json.loads(proxy.log.read_text(encoding="utf-8"))["status"] == 502


def test_the_service_works_behind_the_proxy(service: tuple[Served, str]) -> None:
    server, key = service
    with proxying(server.url) as proxy:
        with DarrmClient(proxy.url, key=key, tls=proxy.trust) as client:
            assert client.gamma(Problem.from_allowance(K=5, m=2, epsilon=0.5), timeout=60).exact
        assert ask(proxy, "/v1/gamma?K=5&m=2&epsilon=0.5")[0] == 401
        assert ask(proxy, "/?" + "a" * (MAX_TARGET_BYTES - 2))[0] == 200
        assert ask(proxy, "/", headers={"Accept-Encoding": "gzip"})[1]["content-encoding"] == "gzip"
        fields = {"X-API-Key": key, "Content-Type": "application/json"}
        status, headers, body = ask(
            proxy, "/v1/jobs", "POST", json.dumps(JOB).encode(), "127.0.0.5", {**fields, "X-Forwarded-Prefix": "/evil"}
        )
        assert (status, headers["location"]) == (202, json.loads(body)["location"])
        assert headers["location"].startswith("/v1/jobs/")
        with connect(proxy) as stream:  # unbuffered: the first event arrives while the job runs
            head = f"GET {headers['location']}/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n"
            stream.sendall(head.encode())
            text = b""
            while b"\ndata: " not in text:
                piece = stream.recv(2**16)
                assert piece
                text += piece
        assert ask(proxy, headers["location"], "DELETE", headers=fields)[0] in {200, 204}
        forged = {"X-Forwarded-For": "10.9.8.7", "X-Request-ID": "whence"}
        assert ask(proxy, source="127.0.0.5", headers=forged)[0] == 200
    lines = until(lambda: [line for line in server.log if '"whence"' in line])
    assert json.loads(lines[0])["client"] == "address 127.0.0.5"
