"""Admission of requests: host names, keys, rates, bodies and concurrency."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from api.access.client_shares import RateLimiter, create_shared_table, shared_table
from api.access.clients import check_host, identify_client, needs_key
from api.access.keys import KeyRing, create_key
from api.middleware.admission import DRAIN_TIMES, AdmissionMiddleware
from api.settings import Settings

# ---------------------------------------------------------------------------------------------------------- rates


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_holds_its_burst_and_refills_at_its_rate() -> None:
    clock = Clock()
    rates = RateLimiter(clock=clock)
    assert [rates.take("a", rate=2, burst=3) for _ in range(4)] == pytest.approx([0, 0, 0, 0.5])
    assert rates.take("b", rate=2, burst=3) == 0
    clock.now += 0.5
    assert [rates.take("a", rate=2, burst=3) for _ in range(2)] == pytest.approx([0, 0.5])
    clock.now += 100
    assert [rates.take("a", rate=2, burst=3) for _ in range(4)] == pytest.approx([0, 0, 0, 0.5])


@given(st.lists(st.floats(0, 2), max_size=60), st.floats(0.1, 100), st.integers(1, 20))
def test_no_interval_exceeds_burst_and_rate(pauses: list[float], rate: float, burst: int) -> None:
    clock = Clock()
    rates, taken = RateLimiter(clock=clock), []
    for pause in pauses:
        clock.now += pause
        wait = rates.take("a", rate, burst)
        assert 0 <= wait <= 1 / rate + 1e-9
        if wait == 0:
            taken.append(clock.now)
        else:  # after the stated wait there is a token
            clock.now += wait
            assert rates.take("a", rate, burst) == 0
            taken.append(clock.now)
    for first, start in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + rate * (taken[last] - start) + 1e-6


def test_workers_share_a_table(tmp_path: Path) -> None:
    create_shared_table(tmp_path)
    clock = Clock()
    path = shared_table(tmp_path)
    assert path is not None
    one, other = RateLimiter(path, clock), RateLimiter(path, clock)
    assert [one.take("a", 1, 2), other.take("a", 1, 2), one.take("a", 1, 2)] == pytest.approx([0, 0, 1])
    assert shared_table(None) is None
    assert shared_table(tmp_path / "elsewhere") is None


def test_a_flood_of_addresses_takes_no_memory() -> None:
    rates = RateLimiter(clock=Clock())
    size = len(rates._full)
    assert sum(rates.take(f"address {number}", 1, 1) == 0 for number in range(1000)) > 950  # few share an entry
    assert len(rates._full) == size


# --------------------------------------------------------------------------------------------------------- access


def host(name: str) -> list[tuple[bytes, bytes]]:
    return [(b"accept", b"*/*"), (b"host", name.encode())]


OURS = "localhost localhost:8000 127.0.0.1:1 127.0.0.5 [::1]:8000 LOCALHOST a.localhost"
REBOUND = "evil.example localhost.evil.example 127.0.0.1.evil.example:80 10.0.0.7"  # as in DNS rebinding
LISTED = ("darrm.example", "*.inner.example")
GIVEN = "darrm.example darrm.example:8443 a.inner.example DARRM.example"
OTHER = "inner.example evil.example xdarrm.example darrm.example.evil.example"


@pytest.mark.parametrize(
    ("server", "hosts", "accepted", "refused"),
    [
        ("127.0.0.1", (), OURS, REBOUND),
        ("::1", (), OURS, REBOUND),
        ("10.0.0.7", (), "whatever.example", ""),
        ("127.0.0.1", LISTED, f"{GIVEN} localhost", OTHER),  # a health check on the machine itself
        ("10.0.0.7", LISTED, GIVEN, OTHER),
    ],
)
def test_only_names_of_this_server_are_accepted(
    server: str, hosts: tuple[str, ...], accepted: str, refused: str
) -> None:
    assert [check_host(host(name), server, hosts) for name in accepted.split()] == [None] * len(accepted.split())
    assert check_host(host(""), "127.0.0.1", hosts) is not None
    assert check_host([], "127.0.0.1", hosts) is not None
    for name in refused.split():
        found = check_host(host(name), server, hosts)
        assert found is not None, name
        assert (found.status, found.closing) == (421, True)
        assert "DARRM_HOSTS" in found.detail


@pytest.mark.parametrize(
    ("address", "name", "local"),
    [
        ("127.0.0.1", "address 127.0.0.1", True),
        ("::1", "address ::/64", True),
        ("::ffff:127.0.0.1", "address 127.0.0.1", True),
        ("10.1.2.3", "address 10.1.2.3", False),
        ("2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64", False),
        (None, "address unknown", False),
        ("testclient", "address testclient", False),
    ],
)
def test_without_keys_a_client_is_its_address(address: str | None, name: str, local: bool) -> None:
    client, rejection = identify_client([], address, None)
    assert (client.name, client.local, rejection) == (name, local, None)


def test_with_keys_a_client_is_its_key(tmp_path: Path) -> None:
    key, text = create_key(tmp_path / "keys.json", "alice")
    ring = KeyRing(tmp_path / "keys.json")
    good = [
        [(b"authorization", f"Bearer {text}".encode())],
        [(b"authorization", f"bearer  {text}".encode())],
        [(b"x-api-key", text.encode())],
        [(b"x-api-key", text.encode()), (b"authorization", f"Bearer {text}".encode())],
    ]
    for headers in good:
        client, rejection = identify_client(headers, "127.0.0.1", ring)
        assert (client.name, client.local, rejection) == (f"client {key.name}", False, None)
    bad: list[tuple[list[tuple[bytes, bytes]], bytes]] = [
        ([], b'Bearer realm="darrm-opt"'),
        ([(b"authorization", b"Basic YTpi")], b'Bearer realm="darrm-opt"'),
        ([(b"authorization", b"Bearer \xff")], b'Bearer realm="darrm-opt", error="invalid_token"'),
        ([(b"x-api-key", text[:-1].encode())], b'Bearer realm="darrm-opt", error="invalid_token"'),
        (
            [(b"x-api-key", text.encode()), (b"authorization", b"Bearer other")],
            b'Bearer realm="darrm-opt", error="invalid_request"',
        ),
    ]
    for headers, challenge in bad:
        client, rejection = identify_client(headers, "10.0.0.7", ring)
        assert client.name == "address 10.0.0.7"
        assert rejection is not None
        assert (rejection.status, dict(rejection.headers)) == (401, {b"www-authenticate": challenge})
        assert text not in rejection.detail


def test_only_listed_paths_need_no_key() -> None:
    bound = "/v1/gamma /v1/jobs/x /metrics /docs /pages /page // /healthz/ /v1/../healthz"
    assert all(needs_key(path, "key") for path in bound.split())
    assert not any(needs_key(path, "key") for path in ["/", "/healthz", "/readyz", "/openapi.json", "/page/main.js"])
    assert not needs_key("/metrics", "open")


# -------------------------------------------------------------------------------------------------------- the middleware

Messages = list[Message]


async def echo(_: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body received."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message.get("body", b"")})


async def pieces_of(pieces: list[bytes | float]) -> AsyncIterator[Message]:
    for at, piece in enumerate(pieces):
        if isinstance(piece, float):
            await asyncio.sleep(piece)
        else:
            yield {"type": "http.request", "body": piece, "more_body": at < len(pieces) - 1}
    while True:
        yield {"type": "http.disconnect"}


def passed(
    middleware: AdmissionMiddleware,
    path: str = "/v1/gamma",
    pieces: list[bytes | float] | None = None,
    query: str = "",
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    """Send one request through the middleware; return status, headers and body of the answer."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query.encode(),
        "headers": named,
        "server": ("10.0.0.1", 80),
        "client": ("10.0.0.7", 1),
    }
    source, sent = pieces_of(pieces or [b""]), Messages()

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await middleware(scope, source.__anext__, send)

    asyncio.run(run())
    assert [message["type"] for message in sent][:2] == ["http.response.start", "http.response.body"]
    assert all(message["type"] == "http.response.body" for message in sent[2:])
    assert not sent[-1].get("more_body")
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(message["body"] for message in sent[1:])


SETTINGS = Settings(cache_url="memory", max_body_bytes=1024, rate=0)


def detail_of(answer: tuple[int, dict[str, str], bytes]) -> str:
    assert answer[1]["content-type"] == "application/problem+json"
    told = json.loads(answer[2])
    assert told["status"] == answer[0]
    assert told["type"].startswith("urn:darrm-opt:problem:")
    assert told["title"]
    detail: str = told["detail"]
    return detail


def test_a_body_within_its_limit_arrives_complete() -> None:
    middleware = AdmissionMiddleware(echo, SETTINGS)
    assert passed(middleware, pieces=[b"a" * 1000, b"b" * 24], content_length="1024")[2] == b"a" * 1000 + b"b" * 24
    assert passed(middleware, pieces=[b"a", b"b", b""], transfer_encoding="chunked")[2] == b"ab"
    assert passed(middleware)[0] == 200


@pytest.mark.parametrize(
    "long",
    [
        {"accept": "," * 129},
        {"accept": "text/csv" + ";q=1" * 129},
        {"accept_encoding": "gzip," * 129},
        {"if_none_match": '"a",' * 129},
        {"query": "a&" * 129},
        {"query": "a&" * 64, "accept": "a/b," * 65},
    ],
)
def test_long_lists_are_refused_before_parsing(long: dict[str, Any]) -> None:
    answer = passed(AdmissionMiddleware(echo, SETTINGS), **long)
    assert answer[0] == 431
    assert detail_of(answer) == "The limit for query, Accept, Accept-Encoding and If-None-Match is 128 parts in total."
    assert passed(AdmissionMiddleware(echo, SETTINGS), **{name: text[:128] for name, text in long.items()})[0] == 200


@pytest.mark.parametrize("how", [{"content_length": "2000"}, {"transfer_encoding": "chunked"}])
def test_a_body_above_its_limit_is_discarded_and_refused(how: dict[str, str]) -> None:
    answer = passed(AdmissionMiddleware(echo, SETTINGS), pieces=[b"x" * 500] * 4, **how)
    assert answer[0] == 413
    assert detail_of(answer) == "The limit for a request body is 1024 bytes."
    assert answer[1]["connection"] == "close"


def test_an_endless_body_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.middleware.admission.LINGER_SECONDS", 0.05)  # the rest is discarded, for a limited time
    endless: list[bytes | float] = [b"x" * 1024] * (DRAIN_TIMES + 1) + [3600.0]
    assert passed(AdmissionMiddleware(echo, SETTINGS), pieces=endless, transfer_encoding="chunked")[0] == 413


@pytest.mark.parametrize("how", [{"content_length": "9" * 30}, {"content_length": "1025", "expect": "100-continue"}])
def test_a_declared_huge_body_is_refused_unread(how: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.middleware.admission.LINGER_SECONDS", 0.05)
    assert passed(AdmissionMiddleware(echo, SETTINGS), pieces=[3600.0], **how)[0] == 413


def test_a_slow_body_times_out() -> None:
    middleware = AdmissionMiddleware(echo, SETTINGS.model_copy(update={"body_seconds": 0.05}))
    answer = passed(middleware, pieces=[b"x", 3600.0, b"x"], content_length="2")
    assert answer[0] == 408
    assert detail_of(answer) == "The body of a request must arrive within 0.05 s."


def test_a_slow_body_does_not_count_as_concurrent() -> None:
    middleware = AdmissionMiddleware(echo, SETTINGS.model_copy(update={"max_concurrent_requests": 1}))
    slow = threading.Thread(
        target=passed, args=(middleware, "/v1/gamma", [b"x", 0.5, b"x"]), kwargs={"content_length": "2"}
    )
    slow.start()
    assert passed(middleware)[0] == 200
    slow.join()


def test_excess_concurrent_requests_get_retry_after() -> None:
    inner: list[tuple[int, dict[str, str], bytes]] = []

    async def nested(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/v1/gamma":
            for path in ("/v1/other", "/healthz", "/readyz"):
                thread = threading.Thread(target=lambda path=path: inner.append(passed(middleware, path)))
                thread.start()
                thread.join()
        await echo(scope, receive, send)

    middleware = AdmissionMiddleware(nested, SETTINGS.model_copy(update={"max_concurrent_requests": 1}))
    assert passed(middleware)[0] == 200
    assert [answer[0] for answer in inner] == [503, 200, 200]  # monitoring must be answered, busy or not
    assert inner[0][1]["retry-after"] == "1"
    assert detail_of(inner[0]) == "The server has reached its maximum of concurrent requests."
    assert passed(middleware, "/v1/other")[0] == 200  # the slot is free again


def test_a_failure_releases_its_slot() -> None:
    async def broken(_: Scope, __: Receive, ___: Send) -> None:
        raise ZeroDivisionError

    middleware = AdmissionMiddleware(broken, SETTINGS)
    with pytest.raises(ZeroDivisionError):
        passed(middleware)
    assert middleware._in_flight == 0


def test_a_client_over_its_rate_gets_a_retry_after() -> None:
    middleware = AdmissionMiddleware(echo, SETTINGS.model_copy(update={"rate": 0.1, "burst": 2}))
    answers = [passed(middleware) for _ in range(3)]
    assert [answer[0] for answer in answers] == [200, 200, 429]
    assert 9 <= int(answers[2][1]["retry-after"]) <= 10
    assert detail_of(answers[2]) == "The limit for one client is 0.1 requests per second, and 2 in a burst."
    assert passed(middleware, "/healthz")[0] == 200


def test_each_key_has_a_rate_and_invalid_ones_share_their_addresss(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    texts = [create_key(path, name)[1] for name in ("alice", "bob")]
    middleware = AdmissionMiddleware(echo, SETTINGS.model_copy(update={"rate": 0.1, "burst": 1, "keys": path}))
    assert [passed(middleware, x_api_key=text)[0] for text in (*texts, *texts)] == [200, 200, 429, 429]
    assert [passed(middleware, x_api_key=f"guess {number}")[0] for number in range(3)] == [401, 429, 429]


def test_the_default_rate_exempts_this_machine() -> None:
    middleware = AdmissionMiddleware(echo, SETTINGS.model_copy(update={"rate": None, "burst": 1}))
    middleware._limiter = RateLimiter(clock=Clock())
    assert [passed(middleware)[0] for _ in range(2)] == [200, 429]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}
    scope |= {"server": ("10.0.0.1", 80), "client": ("127.0.0.1", 1)}
    assert [middleware._check(scope) for _ in range(3)] == [None] * 3
