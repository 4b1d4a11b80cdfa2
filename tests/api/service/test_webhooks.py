"""Webhooks: signed, retried, durable, and no access to the network of the operator; with a real receiver."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.darrm_runner import refused
from support.refusals import refused as refused_input
from support.served import Served, serving
from support.waiting import until

from api.access.keys import _write, create_key, list_keys
from api.app import create_app
from api.service import webhook_delivery
from api.service import webhooks as service
from api.service.webhook_delivery import DeliveryError, check_host, is_allowed, parse_webhook_url, post
from api.service.webhooks import client_secret
from api.settings import Settings, read_settings
from darrm_client import DarrmClient, VerificationFailed, verify_webhook
from darrm_client.webhooks import read_webhook_secret, sign_webhook, webhook_secret_text
from darrm_opt import InvalidInput, Problem
from solver_cache.database.connection import Database
from solver_cache.database.jobs import Jobs
from solver_cache.database.webhooks import DatabaseWebhooks

SECRET = webhook_secret_text(bytes(range(32)))
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
PROBLEM = {"K": 5, "m": 2, "epsilon": 0.5}
LONG = {"K": 1001, "m": 20, "epsilon": 0.1, "Delta": 1e-2, "objective": "shared(1,1) agreement"}


# ------------------------------------------------------------------------------------------------------ a receiver


@dataclass
class Receiver:
    """A server that records requests and answers with the next of ``statuses`` (then 204)."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def wait(self, count: int = 1) -> list[tuple[dict[str, str], bytes]]:
        until(lambda: len(self.got) >= count)
        return self.got


@contextmanager
def receiving(*statuses: int, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    told = Receiver(statuses=[*statuses])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = told.statuses.pop(0) if told.statuses else 204
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{told.url}/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815 — a name of the library

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    told.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings_of(folder: Path, **more: str) -> dict[str, str]:
    return {
        "DARRM_WEBHOOK_SECRET": SECRET,
        "DARRM_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "DARRM_CACHE_URL": f"sqlite:///{folder / 'store.sqlite'}",
        "DARRM_WAIT_SECONDS": "0",
        "DARRM_MAX_VOTERS": "1001",  # for a job that takes a minute
        **more,
    }


def ask(served: Served, path: str, content: Any = None, method: str = "POST", **headers: str) -> Any:
    body = None if content is None else json.dumps(content).encode()
    return served.ask(path, method, body, **({"Content_Type": "application/json"} if body else {}), **headers)


def states(served: Served, job: str, **headers: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.ask(f"/v1/jobs/{job}/webhooks", "GET", None, **headers).json()["webhooks"]
    return found


# ------------------------------------------------------------------------------------------------------- signatures


def test_the_signature_is_that_of_the_specification() -> None:
    # the example of the specification's reference libraries: secret, id, time, payload, signature
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = sign_webhook(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


EVENT = b'{"type":"job.done","timestamp":"2026-01-01T00:00:00+00:00","data":{"id":"a"}}'


def signed_headers(secret: str, at: int, body: bytes = EVENT) -> dict[str, str]:
    signature = sign_webhook(read_webhook_secret(secret), "msg_1", at, body)
    return {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(at), "Webhook-Signature": f"v1a,x {signature}"}


def test_only_current_signatures_with_the_secret_are_valid() -> None:
    at = 1_700_000_000
    good = signed_headers(SECRET, at)
    event = verify_webhook(SECRET, good, EVENT, now=at + 299.0)
    assert (event.id, event.kind, event.data) == ("msg_1", "job.done", {"id": "a"})
    other = webhook_secret_text(bytes(32))
    for secret, headers, body, now in (
        (other, good, EVENT, at),
        (SECRET, good, EVENT + b" ", at),
        (SECRET, {**good, "Webhook-Id": "msg_2"}, EVENT, at),
        (SECRET, {**good, "Webhook-Timestamp": str(at + 1)}, EVENT, at),
        (SECRET, {**good, "Webhook-Signature": "v1,"}, EVENT, at),
        (SECRET, {name: text for name, text in good.items() if name != "Webhook-Id"}, EVENT, at),
        (SECRET, good, EVENT, at + 301),
        (SECRET, good, EVENT, at - 301),
        (SECRET, signed_headers(SECRET, at, b"[]"), b"[]", at),
    ):
        with pytest.raises(VerificationFailed):
            verify_webhook(secret, headers, body, now=float(now))
    with pytest.raises(InvalidInput, match="expected whsec_ and 24 to 64 bytes in base64"):
        verify_webhook("whsec_c2hvcnQ=", good, EVENT)


def test_each_client_has_its_secret() -> None:
    secret = bytes(32)
    assert len({client_secret(secret, name) for name in ("", "key 1", "key 2")}) == 3
    assert client_secret(secret, "key 1") != client_secret(bytes([1]) * 32, "key 1")


# --------------------------------------------------------------------------------------------------------- addresses


INVALID_URLS = (
    *("http://example.org/", "ftp://example.org/", "https://", "https:///path", "https://example.org/#part"),
    *("https://me:secret@example.org/", "https://me@example.org/", "https://exämple.org/", "https://example.org/ path"),
    *("https://example.org/\r\nHost: other", "https://example.org:0/", "https://example.org:99999/"),
    *("https://[fe80::1%25eth0]/", "https://169.254.169.254/latest", "https://[::ffff:127.0.0.1]/"),
    "https://example.org/" + "x" * 2000,
)


@pytest.mark.parametrize("text", INVALID_URLS)
def test_invalid_webhook_addresses_are_refused_without_being_shown(text: str) -> None:
    with refused_input("url") as refusal:
        parse_webhook_url(text)
    assert "secret" not in str(refusal.value)


def test_an_address_is_split_into_its_parts() -> None:
    assert parse_webhook_url("https://Example.org/a?b=c")[:4] == (True, "example.org", 443, "/a?b=c")
    assert parse_webhook_url("https://[2606:2800::1]:8443")[:4] == (True, "2606:2800::1", 8443, "/")
    assert parse_webhook_url("http://localhost:80/x", LOOPBACK)[:4] == (False, "localhost", 80, "/x")


NOT_PUBLIC = {
    "this machine": "127.0.0.1 0.0.0.0 ::1 ::",
    "private": "10.1.2.3 172.16.0.1 192.168.1.1 fd00::1 fec0::1",
    "link-local, where clouds keep metadata": "169.254.169.254 fe80::1",
    "networks of carriers": "100.64.0.1",
    "multicast and broadcast": "224.0.0.1 255.255.255.255 ff02::1",
    "IPv4-mapped": "::ffff:10.0.0.1 ::ffff:93.184.216.34",
    "IPv4-compatible": "::93.184.216.34",
    "SIIT": "::ffff:0:93.184.216.34",
    "NAT64 and its local prefix": "64:ff9b::93.184.216.34 64:ff9b::169.254.169.254 64:ff9b:1::169.254.169.254",
    "6to4 and its relays": "2002:7f00:1:: 2002:5db8:d822:: 192.88.99.1",
    "Teredo": "2001:0:4136:e378:8000:63bf:a247:27dd",
    "documentation": "2001:db8::1 3fff::1 192.0.2.1 198.51.100.1 203.0.113.1",
    "protocol assignments and measurements": "192.0.0.8 2001:2::1 198.18.0.1",
    "discarded, or given out to nobody": "100::1 4000::1",
}


@pytest.mark.parametrize("kind", ["public", *NOT_PUBLIC])
def test_only_public_addresses_are_connected_to(kind: str) -> None:
    for text in NOT_PUBLIC.get(kind, "93.184.216.34 2606:2800:220:1::1").split():
        address = ipaddress.ip_address(text)
        assert is_allowed(address, (), secure=True) == (kind == "public"), text
        assert not is_allowed(address, (), secure=False), text


def test_private_networks_are_allowed_if_listed_and_plain_http_only_on_loopback() -> None:
    inner = (ipaddress.ip_network("10.0.0.0/8"), *LOOPBACK)
    assert is_allowed(ipaddress.ip_address("10.9.9.9"), inner, secure=True)
    assert not is_allowed(ipaddress.ip_address("10.9.9.9"), inner, secure=False)
    assert not is_allowed(ipaddress.ip_address("192.168.0.1"), inner, secure=True)
    assert is_allowed(ipaddress.ip_address("127.0.0.1"), inner, secure=False)


def send(url: str, networks: Any = LOOPBACK, seconds: float = 60.0) -> int:
    return asyncio.run(post(parse_webhook_url(url, LOOPBACK), {}, b"{}", networks=networks, seconds=seconds))


def test_a_name_that_resolves_to_a_private_address_is_not_connected_to() -> None:
    with receiving() as receiver:
        port = receiver.url.rpartition(":")[2]
        with pytest.raises(DeliveryError, match="no address that is allowed for webhooks"):
            send(f"http://localhost:{port}/", networks=())
        assert send(f"http://localhost:{port}/") == 204
        assert len(receiver.got) == 1


def test_a_host_must_resolve_to_an_allowed_address_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(text: str, networks: Any = LOOPBACK) -> None:
        asyncio.run(check_host(parse_webhook_url(text, LOOPBACK), networks))

    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    check("https://localhost/")

    def refused_text(text: str, networks: Any = LOOPBACK) -> str:
        with pytest.raises(InvalidInput) as refusal:
            check(text, networks)
        assert refusal.value.argument == "url"
        return str(refusal.value)

    texts = {refused_text("https://localhost/", ()), refused_text("https://no-such-host.invalid/")}
    texts |= {refused_text("https://a..b/"), refused_text(f"https://{64 * 'a'}.example/")}
    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", hang)
    monkeypatch.setattr(webhook_delivery, "RESOLVE_SECONDS", 0.01)
    assert texts == {refused_text("https://localhost/")}  # the refusal does not reveal internal names


def test_the_next_allowed_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(_loop: Any, _host: str, port: int, **_: Any) -> list[Any]:
        places = ("127.0.0.9", port), ("10.0.0.1", port), ("::1", port, 0, 0), ("127.0.0.1", port)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

    async def connect(loop: Any, protocol: Any, host: str, *arguments: Any, **more: Any) -> Any:
        tried.append(host)
        return await create_connection(loop, protocol, host, *arguments, **more)

    loop_class = asyncio.base_events.BaseEventLoop
    tried, create_connection = list[str](), loop_class.create_connection
    with receiving() as receiver:
        monkeypatch.setattr(loop_class, "getaddrinfo", resolve)
        monkeypatch.setattr(loop_class, "create_connection", connect)
        url = receiver.url.replace("127.0.0.1", "hooks.example")
        assert send(url) == 204
        assert tried == ["127.0.0.9", "127.0.0.1"]
        assert len(receiver.got) == 1
    with pytest.raises(DeliveryError, match="no connection"):
        send(url)


def test_a_redirect_is_not_followed() -> None:
    with receiving(302) as receiver:
        assert send(receiver.url) == 302
        assert len(receiver.got) == 1


def answered(answer: bytes, pause: float = 0.0) -> int:
    """Return the status read from a receiver that sends these bytes."""

    def handle(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            request = b""
            while not request.endswith(b"{}") and (piece := connection.recv(65_536)):  # or closing would reset it
                request += piece
            for part in [answer] if pause == 0 else [bytes([byte]) for byte in answer]:
                connection.sendall(part)
                time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=handle, args=(listening,))
        thread.start()
        try:
            return send(f"http://127.0.0.1:{listening.getsockname()[1]}/", seconds=60.0 if pause == 0 else 1.0)
        finally:
            thread.join()


@pytest.mark.parametrize(
    ("answer", "pause", "reason"),
    [
        (b"", 0.0, "not HTTP"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", 0.0, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000, 0.0, "not HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20, 0.0, "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100, 0.1, "no response within 1 s"),  # one byte at a time
    ],
)
def test_an_answer_is_limited_in_size_and_time(answer: bytes, pause: float, reason: str) -> None:
    with pytest.raises(DeliveryError, match=reason):
        answered(answer, pause)


def test_interim_answers_are_skipped() -> None:
    answer = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    assert answered(answer) == 202


def test_a_certificate_of_another_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    options = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run([*made.split(), *options], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    trusted = ssl.create_default_context(cafile=str(certificate))
    with receiving(tls=ours) as receiver:
        port = receiver.url.rpartition(":")[2]
        with pytest.raises(DeliveryError, match="no secure connection"):
            send(f"https://localhost:{port}/")  # by a self-signed certificate
        monkeypatch.setattr(webhook_delivery, "_tls", lambda: trusted)
        assert send(f"https://localhost:{port}/") == 204
        with pytest.raises(DeliveryError, match="no secure connection"):
            send(f"https://127.0.0.1:{port}/")


# ------------------------------------------------------------------------------------------------------ the database


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[tuple[Jobs, DatabaseWebhooks]]:
    database = Database(f"sqlite:///{tmp_path / 'jobs.sqlite'}")
    yield Jobs(database), DatabaseWebhooks(database)
    database.close()


def test_a_webhook_is_due_at_the_end_of_its_job_and_again_if_its_sender_died(
    stored: tuple[Jobs, DatabaseWebhooks],
) -> None:
    jobs, hooks = stored
    jobs.submit("a", "gamma", "{}")
    first = hooks.add("msg_1", "a", "key 1", "https://example.org", 2)
    assert first is not None
    assert hooks.add("msg_2", "a", "key 1", "https://example.org", 2) == first  # registered twice
    assert hooks.add("msg_3", "a", "key 1", "https://example.org/2", 2) is not None
    assert hooks.add("msg_4", "a", "key 1", "https://example.org/3", 2) is None  # above the limit
    assert hooks.add("msg_5", "a", "key 2", "https://example.org", 2) is not None
    assert hooks.take(60.0) is None
    jobs.take("me", 30.0)
    jobs.finish("a", "me", "{}")
    claimed = hooks.take(60.0, without=["key 2"])
    assert claimed is not None
    webhook, job = claimed
    assert (webhook.id, webhook.attempts, job.state) == ("msg_1", 1, "done")
    died = hooks.take(0.0, without=["key 2"])
    assert died is not None
    assert died[0].id == "msg_3"
    again = hooks.take(60.0, without=["key 2"])
    assert again is not None
    assert (again[0].id, again[0].attempts) == ("msg_3", 2)
    assert not hooks.record(died[0], "delivered")  # another attempt has started
    assert hooks.record(again[0], "delivered")
    assert hooks.record(webhook, "pending", "the receiver responded with status 500", 1000.0)
    assert hooks.take(60.0, without=["key 2"]) is None
    assert [(each.id, each.state) for each in hooks.list("a", "key 1")] == [
        ("msg_1", "pending"),
        ("msg_3", "delivered"),
    ]
    assert len(hooks.list("a")) == 3
    assert not hooks.remove("msg_1", "a", "key 2")
    assert hooks.remove("msg_1", "a", "key 1")
    jobs.prune(time.time() + 60)
    assert hooks.list("a") == []


def test_a_clock_that_was_ahead_does_not_delay_webhooks(stored: tuple[Jobs, DatabaseWebhooks]) -> None:
    jobs, hooks = stored
    jobs.submit("a", "gamma", "{}")
    jobs.cancel("a")
    hooks.add("msg_1", "a", "", "https://example.org", 2)
    claimed = hooks.take(10 * 86_400.0)
    assert claimed is not None
    assert hooks.take(60.0) is not None


def test_a_damaged_row_is_a_failed_webhook(stored: tuple[Jobs, DatabaseWebhooks]) -> None:
    jobs, hooks = stored
    jobs.submit("a", "gamma", "{}")
    hooks.add("msg_1", "a", "", "https://example.org", 2)
    with jobs.database.writing() as statements:
        statements.rows("UPDATE darrm_webhooks SET state = x'ff', attempts = 'many', due = 'soon'")
    [found] = hooks.list("a")
    assert (found.state, found.attempts, found.due) == ("failed", 0, 0.0)


# ----------------------------------------------------------------------------------------------------------- settings


def test_an_invalid_secret_aborts_the_start_and_stays_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_WEBHOOK_SECRET", "geheim-und-falsch")
    told = refused("serve", "--port", "0")
    assert "DARRM_WEBHOOK_SECRET: '(hidden)' is not valid: expected the secret from which" in told
    assert "geheim" not in told
    with pytest.raises(InvalidInput) as refusal:
        read_settings()
    assert refusal.value.__cause__ is None
    monkeypatch.setenv("DARRM_WEBHOOK_SECRET", SECRET)
    assert SECRET not in refused("serve", "--port", "0", "--show-settings", "--json", "extra")
    for place in ("memory", "off"):
        monkeypatch.setenv("DARRM_CACHE_URL", place)
        told = refused("serve", "--port", "0")
        assert f"DARRM_CACHE_URL: '{place}' is not valid: expected a writable database" in told
    monkeypatch.setenv("DARRM_WEBHOOK_NETWORKS", "localhost")
    assert "DARRM_WEBHOOK_NETWORKS" in refused("serve", "--port", "0")


def test_both_secrets_sign_during_rotation() -> None:
    other = webhook_secret_text(bytes(24))
    chosen = Settings(webhook_secret=f"{SECRET}, {other}")  # type: ignore[arg-type]  # as in the environment
    assert chosen.webhook_secrets == (bytes(range(32)), bytes(24))
    assert "AAEC" not in repr(chosen)


# ------------------------------------------------------------------------------------------------------- the service


def test_the_end_of_a_job_is_reported_with_a_valid_signature(tmp_path: Path) -> None:
    with (
        receiving() as receiver,
        serving(tmp_path, **settings_of(tmp_path)) as served,
        DarrmClient(served.url) as client,
    ):
        job = client.jobs.submit(Problem.from_allowance(K=5, m=2, epsilon=0.5))
        hook = client.jobs.add_webhook(job.id, f"{receiver.url}/hook?token=geheim")
        [(headers, body)] = receiver.wait()
        event = verify_webhook(hook.secret, headers, body)
        assert (event.id, event.kind, event.data["id"]) == (hook.id, "job.done", job.id)
        assert event.data["result"] == f"/v1/jobs/{job.id}/result"
        assert headers["content-type"] == "application/json"
        assert len(body) < 2000
        until(lambda: [each["state"] for each in states(served, job.id)] == ["delivered"])
        assert states(served, job.id)[0]["secret"] is None
        late = client.jobs.add_webhook(job.id, f"{receiver.url}/late")  # the job has finished: sent at once
        until(lambda: [each["state"] for each in states(served, job.id)] == ["delivered"] * 2)
        assert (late.id != hook.id, late.secret == hook.secret, len(receiver.got)) == (True, True, 2)
        assert ask(served, f"/v1/jobs/{job.id}/webhooks/{late.id}", None, "DELETE").status == 204
        assert ask(served, f"/v1/jobs/{job.id}/webhooks/{late.id}", None, "DELETE").status == 404
        assert [each["id"] for each in states(served, job.id)] == [hook.id]
        for url in ("https://10.0.0.1/", "https://me:geheim@example.org/"):
            refusal = ask(served, f"/v1/jobs/{job.id}/webhooks", {"url": url})
            assert (refusal.status, refusal.json()["field"]) == (422, "url")
        assert ask(served, f"/v1/jobs/{'0' * 64}/webhooks", {"url": "https://example.org"}).status == 404
        assert b'darrm_webhooks_total{outcome="delivered"} 2.0' in served.ask("/metrics").body
    log = "".join(served.log)
    for hidden in ("geheim", hook.secret, SECRET, receiver.url):
        assert hidden not in log


def test_webhooks_survive_a_restart_and_are_retried(tmp_path: Path) -> None:
    with receiving(500, 503) as receiver:
        with serving(tmp_path, **settings_of(tmp_path)) as served:
            job = ask(served, "/v1/jobs", LONG).json()["id"]
            hook = ask(served, f"/v1/jobs/{job}/webhooks", {"url": receiver.url}).json()
            served.process.kill()  # while the job runs
        with serving(tmp_path, **settings_of(tmp_path, DARRM_LEASE_SECONDS="1")) as served:
            ask(served, f"/v1/jobs/{job}", None, "DELETE")
            receiver.wait(1)
            until(lambda: "the receiver responded with status 50" in states(served, job)[0]["reason"])
            served.process.kill()  # between two attempts, or three after minutes
            served.process.wait()
            tried = len(receiver.got)
        with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite")) as database, database:
            [(due, updated)] = database.execute("SELECT due, updated FROM darrm_webhooks").fetchall()
            assert due - updated >= service.RETRY_DELAYS[0]
            database.execute("UPDATE darrm_webhooks SET due = updated")  # after the delay
        with serving(tmp_path, **settings_of(tmp_path)) as served:
            told = receiver.wait(tried + 1)
            assert {headers["webhook-id"] for headers, _ in told} == {hook["id"]}
            assert len({body for _, body in told}) == 1
            events = {verify_webhook(hook["secret"], headers, body).kind for headers, body in told}
            assert events == {"job.cancelled"}


def test_webhooks_belong_to_their_key(tmp_path: Path) -> None:
    keys = [create_key(tmp_path / "keys.json", name)[1] for name in ("alice", "bob")]
    with (
        receiving() as receiver,
        serving(tmp_path, **settings_of(tmp_path, DARRM_KEYS=str(tmp_path / "keys.json"))) as served,
    ):
        job = ask(served, "/v1/jobs", LONG, X_API_Key=keys[0]).json()["id"]
        made = [ask(served, f"/v1/jobs/{job}/webhooks", {"url": receiver.url}, X_API_Key=key).json() for key in keys]
        assert made[0]["secret"] != made[1]["secret"]
        assert [each["id"] for each in states(served, job, X_API_Key=keys[1])] == [made[1]["id"]]
        other = f"/v1/jobs/{job}/webhooks/{made[0]['id']}"
        assert ask(served, other, None, "DELETE", X_API_Key=keys[1]).status == 404
        ask(served, f"/v1/jobs/{job}", None, "DELETE", X_API_Key=keys[0])
        told = {headers["webhook-id"]: (headers, body) for headers, body in receiver.wait(2)}
        for each in made:
            assert verify_webhook(each["secret"], *told[each["id"]]).kind == "job.cancelled"


def test_webhooks_are_off_by_default() -> None:
    with TestClient(create_app(Settings(cache_url="memory"))) as client:
        job = client.post("/v1/jobs", json=PROBLEM).json()["id"]
        refusal = client.post(f"/v1/jobs/{job}/webhooks", json={"url": "https://example.org"})
        assert (refusal.status_code, "DARRM_WEBHOOK_SECRET" in refusal.json()["detail"]) == (404, True)


def test_failing_webhooks_end_after_two_days_and_refused_ones_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 1.9 * 86_400 < sum(service.RETRY_DELAYS) < 2.5 * 86_400
    monkeypatch.setattr(service, "RETRY_DELAYS", (0.0, 0.0))
    monkeypatch.setattr(service, "POLL_SECONDS", 0.01)
    database = Database(f"sqlite:///{tmp_path / 'jobs.sqlite'}")
    jobs, hooks = Jobs(database), DatabaseWebhooks(database)
    keys = tmp_path / "keys.json"
    create_key(keys, "alice")
    chosen = Settings(webhook_secret=SECRET, webhook_networks="127.0.0.0/8", keys=keys)  # type: ignore[arg-type]  # as above
    jobs.submit("a" * 64, "gamma", "{}")
    jobs.cancel("a" * 64)

    async def run(receiver: Receiver, wanted: str, client: str = "") -> list[Any]:
        deliverer = service.Webhooks(hooks, chosen, asyncio.to_thread)
        hooks.add(f"msg_{wanted}", "a" * 64, client, f"{receiver.url}/{wanted}", 10)
        delivering = asyncio.create_task(deliverer.deliver())
        while hooks.list("a" * 64)[-1].state == "pending":  # noqa: ASYNC110 — there is no event for it
            await asyncio.sleep(0.02)
        delivering.cancel()
        return [each for each in hooks.list("a" * 64) if each.url.endswith(wanted)]

    with receiving(500, 500, 500, 410) as receiver:
        [given_up] = asyncio.run(run(receiver, "first"))
        told = "the receiver responded with status {}"
        assert (given_up.state, given_up.attempts, given_up.reason) == ("failed", 3, told.format(500))
        [gone] = asyncio.run(run(receiver, "second"))
        assert (gone.state, gone.attempts, gone.reason) == ("failed", 1, told.format(410))
        [valid] = asyncio.run(run(receiver, "valid", "client alice"))
        assert (valid.state, len(receiver.got)) == ("delivered", 5)
        _write(keys, tuple(replace(key, expires="2026-01-01T00:00:00+00:00") for key in list_keys(keys)))
        [expired] = asyncio.run(run(receiver, "expired", "client alice"))
        [revoked] = asyncio.run(run(receiver, "revoked", "client bob"))
        for lost in (expired, revoked):
            assert (lost.state, lost.reason) == ("failed", "every key of its client was revoked or has expired")
        assert len(receiver.got) == 5
    database.close()
