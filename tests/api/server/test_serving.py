"""`darrm serve` as a process: refusals at the start, behaviour towards clients, and shutdown."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.darrm_runner import refused, run
from support.paths import ROOT
from support.served import Answer, Served, alive, connected_from, gone, received, serving, status_from, workers_of
from support.waiting import until

from api.access.keys import create_key
from api.server.run import ListenError, listen, serve
from api.settings import PREFIX, Settings, mask_password, misspelt_settings
from darrm.cli.output import ExitCode

T = TypeVar("T")

GAMMA = "/v1/gamma?K=5&m=2&epsilon=0.5"

SLOW = "/v1/gamma?K=2001&m=3&epsilon=0.1&Delta=1e-2"  # takes seconds to solve

LARGE = {"DARRM_MAX_VOTERS": "2001"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[tuple[Served, str, str]]:
    """A server with keys and tight limits, the text of a key, and its client."""
    key, text = create_key(folder / "keys.json", "alice")
    limits = {"DARRM_MAX_HEAD_BYTES": "4096", "DARRM_RATE": "0"}
    with serving(folder, DARRM_KEYS=str(folder / "keys.json"), DARRM_CACHE_URL="memory", **limits) as service:
        yield service, text, key.name


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Served]:
    """A server without keys, shared by tests without special settings: each start takes seconds."""
    settings = {
        "DARRM_HOSTS": "darrm.example",
        "DARRM_CORS_ORIGINS": "https://good.example,http://localhost:3000",
        "DARRM_MAX_BODY_BYTES": "1024",
        "DARRM_RATE": "0",
        # misspelt on purpose: test_a_misspelt_setting_is_named_at_the_start
        "DARRM_SOLVER": "2",
        "DARRM_MAX_SOLVER_MEMORY": "512",
        "DARRM_NONSENSE_AT_ALL": "secret",
        "DARRM_PORT": "1",
    }
    with serving(folder, DARRM_CACHE_URL="memory", **settings) as service:
        yield service


@pytest.fixture(scope="module")
def hasty(folder: Path) -> Iterator[Served]:
    """A server with short timeouts for clients."""
    settings = {"DARRM_HEAD_SECONDS": "1", "DARRM_BODY_SECONDS": "1", "DARRM_RATE": "0"}
    with serving(folder, DARRM_CACHE_URL="memory", **settings) as service:
        yield service


@pytest.fixture(scope="module")
def open_metrics(folder: Path) -> Iterator[Served]:
    """A server with default limits and public metrics."""
    with serving(folder, DARRM_CACHE_URL="memory", DARRM_SOLVERS="1", DARRM_METRICS="open") as service:
        yield service


def logged(service: Served, *names: str) -> dict[str, dict[str, Any]]:
    """Return the log lines of requests by id, once all are written."""

    def there() -> bool:
        return all(any(f'"{name}"' in line for line in service.log) for name in names)

    until(there)
    events = [json.loads(line) for line in service.log if line.startswith("{")]
    return {event["request_id"]: event for event in events if event.get("request_id") in names}


# ------------------------------------------------------------------------------------------ refusals at the start


def test_an_address_of_other_machines_requires_keys_or_an_opt_out() -> None:
    told = refused("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 — it is refused
    assert told.startswith("Error: --host: '0.0.0.0' is not valid: expected a loopback address such as")
    assert "`darrm keys add NAME --file FILE`" in told
    assert "--no-keys (DARRM_PUBLIC=true)" in told


def test_a_public_server_recommends_a_proxy(tmp_path: Path) -> None:
    create_key(tmp_path / "keys.json", "alice")
    with serving(tmp_path, "--host", "0.0.0.0", DARRM_KEYS="keys.json") as service:  # noqa: S104 — only for this test
        service.url = service.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert service.ask("/healthz").status == 200
        assert service.ask("/openapi.json").status == 200
        assert service.ask(GAMMA).status == service.ask(GAMMA, X_Forwarded_For="10.1.2.3").status == 401
    (said,) = [line for line in service.log if not line.startswith("{")]
    assert said.startswith("Other machines can connect to 0.0.0.0 without a reverse proxy: unencrypted, ")


def test_behind_a_trusted_proxy_it_recommends_none_and_uses_its_client_address(tmp_path: Path) -> None:
    create_key(tmp_path / "keys.json", "alice")
    settings = {"DARRM_KEYS": "keys.json", "DARRM_TRUSTED_PROXIES": "127.0.0.1"}
    with serving(tmp_path, "--host", "0.0.0.0", "--no-keys", **settings) as service:  # noqa: S104 — only for this test
        service.url = service.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        # without a key: the command line overrides the environment
        assert service.ask(GAMMA, X_Forwarded_For="10.9.8.7", X_Request_ID="forwarded").status == 200
    assert [line for line in service.log if not line.startswith("{")] == []
    [line] = [event for event in service.events() if event.get("request_id") == "forwarded"]
    assert line["client"] == "address 10.9.8.7"


def test_a_signal_stops_the_server_once_the_address_is_announced() -> None:
    with listen("127.0.0.1", 0) as listening:
        serve(Settings(cache_url="memory"), listening, lambda: signal.raise_signal(signal.SIGTERM))
    assert listening.fileno() == -1


def test_a_missing_keys_file_aborts_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DARRM_KEYS", str(tmp_path / "nowhere.json"))
    result = run("serve", "--port", "0")
    assert (result.exit_code, result.stdout) == (ExitCode.UNAVAILABLE, "")
    assert result.stderr.startswith("Error: The keys file ")


@pytest.mark.parametrize("place", ["memory", "off"])
def test_workers_need_a_shared_store(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", place)
    told = refused("serve", "--port", "0", "--workers", "2")
    assert f"2 is not valid: expected 1 with DARRM_CACHE_URL={place}. Workers share answers and jobs" in told


def test_invalid_numbers_of_workers_are_refused() -> None:
    assert "--workers: '0' is not valid: expected the worker processes" in refused("serve", "--workers", "0")


# ------------------------------------------------------------------------------------------------------------ settings


def test_settings_are_shown_without_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_CACHE_URL", "postgresql+psycopg://me:geheim@db/darrm")
    monkeypatch.setenv("DARRM_HOSTS", "a.example, b.example")
    result = run("serve", "--show-settings", "--json", "--workers", "3")
    told = json.loads(result.stdout)
    assert [*told] == [PREFIX + name.upper() for name in Settings.model_fields]
    assert told["DARRM_CACHE_URL"]["value"] == "postgresql+psycopg://me:***@db/darrm"
    assert told["DARRM_HOSTS"]["value"] == ["a.example", "b.example"]
    assert (told["DARRM_WORKERS"]["value"], told["DARRM_RATE"]["value"]) == (3, None)
    assert (told["DARRM_HOSTS"]["origin"], told["DARRM_SOLVE"]["origin"]) == ("environment", "default")
    table = run("serve", "--show-settings").stdout
    assert "DARRM_HOSTS=a.example,b.example  [environment]" in table
    assert "DARRM_RATE=(not set)  [default]" in table
    assert "geheim" not in result.stdout + result.stderr + table


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/cache/darrm.sqlite", "sqlite:////var/cache/darrm.sqlite"),
        ("postgresql+psycopg://me@db/darrm", "postgresql+psycopg://me@db/darrm"),
        ("postgresql+psycopg://me:p:w@x@db:5432/darrm", "postgresql+psycopg://me:***@db:5432/darrm"),
        ("postgresql+psycopg://db/darrm?user=me&password=secret", "postgresql+psycopg://db/darrm?user=me&password=***"),
    ],
)
def test_passwords_are_masked_everywhere(url: str, shown: str) -> None:
    assert mask_password(url) == shown


def test_every_setting_states_range_and_unit() -> None:
    for name, setting in Settings.model_fields.items():
        text = str(setting.description)
        assert text.endswith("."), name
        if name.endswith(("_seconds", "_bytes")) or name == "time_limit":
            assert re.search(r"\[(s|bytes)\]", text), name


# ------------------------------------------------------------------------------------------------------------- clients


def problem(answer: Answer, status: int, name: str) -> dict[str, object]:
    told: dict[str, object] = answer.json()
    assert (answer.status, told["type"]) == (status, f"urn:darrm-opt:problem:{name}")
    assert answer.headers["content-type"] == "application/problem+json"
    return told


def raw(service: Served, *pieces: bytes) -> bytes:
    """Send bytes; return everything received until the server closes."""
    with service.connect() as connection:
        for piece in pieces:
            connection.sendall(piece)
        found = b""
        while more := connection.recv(65536):
            found += more
        return found


def test_a_head_that_is_too_large_is_refused(guarded: tuple[Served, str, str]) -> None:
    service, _, _ = guarded
    whole = raw(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 5000 + b"\r\n\r\n")
    endless = raw(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 5000)
    query = raw(service, b"GET /v1/gamma?objective=" + b"x" * 5000)
    for found in (whole, endless, query):
        assert found.startswith(b"HTTP/1.1 431 ")
        assert b"The limit for request line and headers is 4096 bytes," in found
        assert b"application/problem+json" in found


def test_a_too_long_query_is_refused_with_the_reason(shared: Served) -> None:
    for length, status in ((2**16 - 1, b"HTTP/1.1 422 "), (2**16, b"HTTP/1.1 431 "), (120_000, b"HTTP/1.1 431 ")):
        query = b"/v1/gamma?objective="
        target = query + b"x" * (length - len(query))
        found = raw(shared, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert found.startswith(status)
        if status.endswith(b"431 "):
            assert b"for path and query 65535 bytes together. Send a long objective by POST." in found
    for upgrade in (b"h2c", b"websocket"):
        head = b"Host: localhost\r\nConnection: close, Upgrade\r\nUpgrade: " + upgrade
        assert raw(shared, b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    slash = b"GET /v1/jobs/ HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: slash\r\nConnection: close\r\n\r\n"
    assert raw(shared, slash).startswith(b"HTTP/1.1 404 ")
    assert logged(shared, "slash")
    log = "\n".join(shared.log)
    assert "pgrade" not in log
    assert "WebSocket" not in log


def test_an_endless_head_times_out(hasty: Served) -> None:
    assert raw(hasty) == b""  # nothing was said, so there is nothing to answer
    assert raw(hasty, b"GET /healthz HTTP/1.1\r\nHost: local").startswith(b"HTTP/1.1 408 ")


def test_an_endless_body_times_out(hasty: Served) -> None:
    found = raw(hasty, b"POST /v1/gamma HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", b"{")
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"The body of a request must arrive within 1 s." in found


def test_a_request_that_is_not_http_is_a_400(guarded: tuple[Served, str, str]) -> None:
    service, _, _ = guarded
    assert raw(service, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_an_invalid_chunked_body_is_refused(guarded: tuple[Served, str, str]) -> None:
    service, text, _ = guarded
    head = f"POST /v1/gamma HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {text}\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = raw(service, head.encode(), b"no length\r\n")
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1
    # an error of the second request is not an answer to the first
    first = f"GET /v1/gamma?K=3&m=1&epsilon=0.25 HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {text}\r\n\r\n"
    assert b"HTTP/1.1 400 " not in raw(service, (first + head).encode() + b"no length\r\n")


def test_disconnected_clients_are_not_awaited(open_metrics: Served) -> None:
    service = open_metrics
    body = b'{"K": 51, "epsilon": 0.1, "queries": 500, "total_epsilon": 1, "total_delta": 1e-5}'
    head = b"POST /v1/compare HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n"
    ahead = b"GET /v1/gamma?K=5&m=%d&epsilon=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with service.connect() as connection:
        connection.sendall(head % len(body) + body)
        until(lambda: b"darrm_requests_open 2.0" in service.ask("/metrics").body)
    with service.connect() as connection:
        connection.sendall(b"".join(ahead % m for m in (1, 2, 3)))
        assert connection.recv(1)
    gone = 'route="/v1/compare",status="499"} 1.0'
    until(lambda: gone in service.ask("/metrics").body.decode())
    assert service.ask("/v1/gamma?K=5&m=1&epsilon=0.1").status in {200, 202}
    until(lambda: "darrm_requests_open 1.0" in service.ask("/metrics").body.decode())
    assert service.ask("/healthz", X_Request_ID="all-gone").status == 200
    assert logged(service, "all-gone")
    assert not [line for line in service.log if "unexpected" in line or "Exception" in line]


def test_an_answer_has_its_id_and_security_headers(guarded: tuple[Served, str, str]) -> None:
    service, _, _ = guarded
    answer = service.ask("/healthz", X_Request_ID="train-7")
    assert answer.headers["x-request-id"] == "train-7"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in service.ask("/healthz", Origin="https://a.example").headers
    forged = service.ask("/v1/gamma", X_Request_ID="two words")
    assert re.fullmatch("[0-9a-f]{16}", forged.headers["x-request-id"])
    assert forged.json()["request_id"] == forged.headers["x-request-id"]


# ------------------------------------------------------------------------------------------------------ working, stopping


@pytest.mark.slow
def test_workers_share_counts_log_their_loop_are_replaced_and_end_in_order(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as service:
        for _ in range(20):
            assert service.ask("/healthz", X_Request_ID="counted").status == 200
        until(lambda: 'route="/healthz",status="200"} 20.0' in service.ask("/metrics").body.decode())
        ready = {"database": "ok", "solver": "ok", "queue": "ok"}
        until(lambda: service.ask("/readyz").json()["checks"] == ready)
        first = {event["pid"] for event in map(json.loads, service.log) if event["event"] == "worker starts"}
        assert len(first) == 2
        os.kill(min(first), signal.SIGKILL)
        until(lambda: sum("worker starts" in line for line in service.log) == 3)
        until(lambda: {service.ask("/healthz").status for _ in range(8)} == {200})
        counted = service.ask("/metrics").body.decode()
        assert 'route="/healthz",status="200"} ' in counted  # the counts of the dead worker remain
        # By ctrl-C; of one worker: `test_cli_process.py`; by SIGTERM: wherever a server ends.
        assert service.end(signal.SIGINT) == 0
    assert "Traceback" not in "".join(service.log)
    events = service.events()
    starts = [event for event in events if event["event"] == "worker starts"]
    assert {event["loop"] for event in starts} == {"uvloop"}  # that of asyncio loses TCP_NODELAY with several workers
    assert any(event["event"].endswith("replacing it") for event in events)
    assert sum(event.get("request_id") == "counted" for event in events) == 20


# ----------------------------------------------------------------------------------------------- shares and other sites


def test_busy_connections_are_not_evicted(tmp_path: Path) -> None:
    limits = {"DARRM_MAX_CONNECTIONS": "10", "DARRM_MAX_CONNECTIONS_PER_ADDRESS": "6"} | LARGE
    settings = {"DARRM_TRUSTED_PROXIES": "127.0.0.3", "DARRM_MAX_STREAMS": "40"}
    with serving(tmp_path, DARRM_WAIT_SECONDS="0", **limits, **settings) as service, contextlib.ExitStack() as stack:
        id = service.ask(SLOW).json()["id"]

        def follow(address: str, count: int) -> list[socket.socket]:
            streams = [stack.enter_context(connected_from(service, address)) for _ in range(count)]
            for stream in streams:
                stream.sendall(f"GET /v1/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert {stream.recv(12) for stream in streams} == {b"HTTP/1.1 200"}
            return streams

        streams = follow("127.0.0.2", 6)
        with connected_from(service, "127.0.0.2") as beyond:
            told = received(beyond)
        assert told.startswith(b"HTTP/1.1 429 ")
        assert b"One address can have 6 open connections; this address has reached the limit." in told
        assert b"\r\nretry-after: 1\r\n" in told
        assert status_from(service, "127.0.0.1", "/healthz") == 200  # other clients are not affected
        follow("127.0.0.1", 4)
        with service.connect() as beyond:
            assert received(beyond).startswith(b"HTTP/1.1 503 ")
        streams[0].close()
        until(lambda: status_from(service, "127.0.0.2", "/healthz") == 200)
        for stream in streams:
            stream.close()
        until(lambda: b'route="wire",status="429"' in service.ask("/metrics").body)
        follow("127.0.0.3", 5)  # many clients behind one proxy
        service.ask(f"/v1/jobs/{id}", "DELETE")
    events = {event["event"] for event in service.events()}
    assert {"rejected early: busy", "rejected early: too-many-requests"} <= events


def test_one_client_has_half_of_the_event_streams(tmp_path: Path) -> None:
    keys = [create_key(tmp_path / "keys.json", name)[1] for name in ("greedy", "polite")]
    limits = {"DARRM_MAX_STREAMS": "6", "DARRM_MAX_CONCURRENT_REQUESTS": "8", "DARRM_WAIT_SECONDS": "0"} | LARGE
    with serving(tmp_path, DARRM_KEYS=str(tmp_path / "keys.json"), **limits) as service:
        id = service.ask(SLOW, X_API_Key=keys[0]).json()["id"]

        def follow(key: str) -> socket.socket:
            connection = service.connect()
            head = f"GET /v1/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n"
            connection.sendall(head.encode())
            return connection

        streams = [follow(keys[0]) for _ in range(5)]
        heads = [connection.recv(12) for connection in streams]
        assert sorted(heads) == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 429"] * 2
        others = follow(keys[1])
        assert others.recv(12) == b"HTTP/1.1 200"
        assert service.ask("/v1/compose?epsilon=0.1&queries=2", X_API_Key=keys[1]).status == 200
        for connection in (*streams, others):
            connection.close()

        def again() -> bytes:
            with follow(keys[0]) as connection:
                return connection.recv(12)

        until(lambda: again() == b"HTTP/1.1 200")
        service.ask(f"/v1/jobs/{id}", "DELETE", X_API_Key=keys[0])


def test_head_is_answered_like_get(shared: Served) -> None:
    for path in ("/", "/healthz", "/readyz", "/openapi.json", "/metrics", GAMMA, "/v1/jobs", "/nowhere"):
        got, head = shared.ask(path), shared.ask(path, "HEAD")
        assert head.status == got.status
        assert head.body == b""
        assert head.headers["content-type"] == got.headers["content-type"]
        if path in {"/healthz", GAMMA}:
            assert int(head.headers["content-length"]) > 0


def test_probes_may_use_the_address_and_a_request_has_one_host(shared: Served) -> None:
    for path, status in (("/healthz", 200), ("/readyz", 200), (GAMMA, 421)):
        assert shared.ask(path, Host="10.1.2.3:8000").status == status
    with shared.connect() as connection:
        connection.sendall(f"GET {GAMMA} HTTP/1.1\r\nHost: darrm.example\r\nHost: localhost\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 400"


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_far_above_the_limit_is_a_413_without_a_reset(shared: Served, declared: bool) -> None:
    with shared.connect() as connection:
        size = 8 * 2**20
        length = f"Content-Length: {size}" if declared else "Transfer-Encoding: chunked"
        connection.sendall(f"POST /v1/verify HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode())
        piece = b"x" * 65_536
        for _ in range(size // len(piece)):  # all of it is sent before reading: the connection must not break
            connection.sendall(piece if declared else b"10000\r\n" + piece + b"\r\n")
        if not declared:
            connection.sendall(b"0\r\n\r\n")
        found = b""
        while more := connection.recv(65_536):
            found += more
        assert found.startswith(b"HTTP/1.1 413 ")
        assert b"urn:darrm-opt:problem:body-too-large" in found


def test_cross_site_requests_and_unknown_proxies_are_refused(shared: Served) -> None:
    unsolved = "/v1/gamma?K=5&m=2&epsilon=0.4"
    before = shared.ask("/v1/jobs").json()["jobs"]
    cross: dict[str, Any] = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}
    problem(shared.ask(unsolved, **cross), 403, "cross-site")
    assert shared.ask("/v1/jobs").json()["jobs"] == before
    assert shared.ask(GAMMA, **cross, Origin="https://good.example").status == 200
    assert shared.ask("/", **cross).status == 200
    assert shared.ask(GAMMA, Sec_Fetch_Site="same-origin").status == 200
    for name in ("X_Forwarded_For", "X_Real_IP", "Forwarded"):
        forwarded: dict[str, Any] = {name: "10.1.2.3"}
        refused = shared.ask(GAMMA, **forwarded)
        problem(refused, 401, "key-needed")
        assert "DARRM_PUBLIC" in refused.json()["detail"]
    assert shared.ask("/healthz", X_Forwarded_For="10.1.2.3").status == 200


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path, since the path of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("name", ["t", "t" * 120])
def test_workers_share_the_rate_of_a_client_and_release_port_and_folder_if_their_supervisor_is_killed(
    tmp_path: Path, short: Path, name: str
) -> None:
    temporary = short / name
    temporary.mkdir()
    surroundings = {"TMPDIR": str(temporary), "DARRM_CACHE_URL": f"sqlite:///{tmp_path / 'store.sqlite'}"}
    limits = {"DARRM_RATE": "0.01", "DARRM_BURST": "6"}
    with serving(tmp_path, "--workers", "2", **surroundings, **limits) as service:
        found = [service.ask("/nowhere") for _ in range(12)]
        assert sorted(answer.status for answer in found) == [404] * 6 + [429] * 6
        refusal = next(answer for answer in found if answer.status == 429)
        problem(refusal, 429, "too-many-requests")
        assert 50 <= int(refusal.headers["retry-after"]) <= 100  # on a busy machine some of it has passed
        assert service.ask("/healthz").status == 200
        assert list(temporary.glob("darrm-*"))
        workers, port = workers_of(service.process.pid), service.address[1]
        with service.connect() as kept:  # of a client within its request
            kept.sendall(b"GET /healthz HTTP/1.1\r\n")
            service.process.kill()
            service.process.wait()

            def is_free() -> bool:
                with contextlib.suppress(ListenError):
                    listen("127.0.0.1", port).close()
                    return True
                return False

            until(is_free)
            assert any(map(alive, workers))  # the port is free before they have ended
        gone(workers, 60)
        assert list(temporary.glob("darrm-*")) == []


def test_open_connections_are_counted(open_metrics: Served) -> None:
    service = open_metrics

    def counted(name: str) -> float:
        text = service.ask("/metrics").body.decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    with service.connect() as idle, service.connect() as sending:
        idle.sendall(b"GET ")
        sending.sendall(b"POST /v1/gamma HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b" " * 50_000)
        until(lambda: counted("darrm_connections_open") == 3 and counted("darrm_received_bytes") >= 50_000)
    assert counted("process_resident_memory_bytes") > 2**25
    assert counted("process_cpu_seconds_total") > 0.01
    assert 10 < counted("process_open_fds") < counted("process_max_fds")
    assert abs(counted("process_start_time_seconds") - time.time()) < 3600
    until(lambda: counted("darrm_loop_lag_seconds_count"))  # it is measured periodically
    until(lambda: counted("darrm_unread_bytes") == counted("darrm_streams_open") == 0)


def test_a_misspelt_setting_is_named_at_the_start(shared: Served) -> None:
    shared.ask("/healthz", X_Request_ID="after-the-start")
    assert logged(shared, "after-the-start")
    said = [line.strip() for line in shared.log if not line.startswith("{")]
    assert said == [
        "DARRM_NONSENSE_AT_ALL is not a setting and has no effect.",
        "DARRM_PORT is not a setting and has no effect. Use the option --port of `darrm serve`.",
        "DARRM_SOLVER is not a setting and has no effect. Did you mean DARRM_SOLVERS?",
    ]


def test_every_variable_that_the_product_reads_is_known() -> None:
    sources = [
        path for room in ("api", "solver_cache", "darrm_client", "darrm_opt") for path in (ROOT / room).rglob("*.py")
    ]
    sources.append(ROOT / "hatch_build.py")
    literals = (re.findall(r'"(DARRM_[A-Z_]+)"', path.read_text(encoding="utf-8")) for path in sources)
    read = {name for found in literals for name in found} - {"DARRM_SOLVER"}  # an example of a misspelt variable
    assert {"DARRM_KERNEL", "DARRM_URL"} <= read
    assert misspelt_settings(dict.fromkeys(read, "")) == []


def test_a_request_that_exceeds_the_stop_time_is_a_503_and_can_be_repeated(tmp_path: Path) -> None:
    long_work = "/v1/compare?K=51&epsilon=0.1&queries=1000&total_epsilon=1&total_delta=1e-5"
    never_whole = b"POST /v1/verify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    solve, work = (f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in (SLOW, long_work))
    settings = {"DARRM_STOP_SECONDS": "1", "DARRM_BODY_SECONDS": "60", **LARGE}
    with serving(tmp_path, **settings) as service, contextlib.ExitStack() as stack:
        assert service.ask("/healthz").status == 200
        waiting = [stack.enter_context(service.connect()) for _ in range(3)]
        waiting[0].sendall(never_whole)
        waiting[1].sendall(solve)
        until(lambda: b"darrm_jobs_running 1.0" in service.ask("/metrics").body)
        waiting[2].sendall(work)
        until(lambda: b"darrm_requests_open 4.0" in service.ask("/metrics").body)
        service.process.send_signal(signal.SIGTERM)
        for connection in waiting:
            head, _, body = received(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"application/problem+json" in head
            assert b"\r\nretry-after: " in head
            assert json.loads(body)["type"] == "urn:darrm-opt:problem:shutting-down"
        assert service.process.wait(timeout=300) == 0
    assert "Traceback" not in "".join(service.log)


def test_the_log_has_a_line_for_each_request_and_no_secrets(guarded: tuple[Served, str, str]) -> None:
    service, text, name = guarded
    service.ask(f"{GAMMA}&votes=secret-1", X_API_Key=text, X_Request_ID="one")
    service.ask("/v1/gamma", "POST", b'{"secret-2": 1}', X_API_Key=text, X_Request_ID="two")
    service.ask("/v1/gamma", Authorization="Bearer secret-3", X_Request_ID="three")
    lines = logged(service, "one", "two", "three")
    assert {name: line["status"] for name, line in lines.items()} == {"one": 422, "two": 422, "three": 401}
    assert (lines["one"]["client"], lines["three"]["client"]) == (f"client {name}", "address 127.0.0.1")
    assert lines["one"]["seconds"] > 0
    written = "".join(service.log)
    assert "secret" not in written
    assert text not in written


def test_listed_origins_are_allowed(shared: Served) -> None:
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "X-API-Key"}
    good = shared.ask("/v1/gamma", "OPTIONS", None, Origin="https://good.example", **asked)
    assert good.headers["access-control-allow-origin"] == "https://good.example"
    assert "access-control-allow-credentials" not in good.headers
    bad = shared.ask("/v1/gamma", "OPTIONS", None, Origin="https://b.example", **asked)
    assert "access-control-allow-origin" not in bad.headers
    read = shared.ask("/healthz", Origin="https://good.example")
    assert "X-Request-ID" in read.headers["access-control-expose-headers"]


def test_a_client_that_does_not_read_is_cut_off(hasty: Served) -> None:
    connection = hasty.connect()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def cut() -> bool:
        try:
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except (ConnectionResetError, BrokenPipeError):
            return True
        return False

    with connection:
        until(cut)  # more answers than all buffers hold, none of them read
    assert hasty.ask("/healthz").status == 200
