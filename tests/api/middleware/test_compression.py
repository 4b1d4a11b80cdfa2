"""Compression: large answers for clients that accept gzip, with valid entity tags; never event streams."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import patient

from api.app import create_app
from api.middleware.response_bodies import MIN_BYTES, accepts_gzip

LARGE = "/v1/gamma?K=301&m=20&epsilon=0.1"
SMALL = "/v1/gamma?K=5&m=2&epsilon=0.1"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(patient(max_voters=301))) as opened:
        yield opened


def fetch(client: TestClient, path: str, coding: str = "gzip", **headers: str) -> tuple[Any, bytes]:
    """Return the response and its raw body."""
    with client.stream("GET", path, headers={"Accept-Encoding": coding, **headers}) as answer:
        return answer, b"".join(answer.iter_raw())


def test_a_large_answer_is_compressed_if_accepted(client: TestClient) -> None:
    fetch(client, LARGE)  # solved
    plain, whole = fetch(client, LARGE, "identity")
    packed, body = fetch(client, LARGE)
    assert len(whole) >= MIN_BYTES
    assert gzip.decompress(body) == whole
    assert len(body) < len(whole) / 2
    assert (packed.headers["content-encoding"], packed.headers["content-length"]) == ("gzip", str(len(body)))
    assert "content-encoding" not in plain.headers
    for answer in (plain, packed):
        assert {part.strip() for part in answer.headers["vary"].split(",")} == {"Accept", "Accept-Encoding"}
        assert answer.headers["cache-control"] == "no-cache"
    head = client.head(LARGE, headers={"Accept-Encoding": "gzip"})
    assert (head.headers["content-encoding"], head.headers["content-length"]) == ("gzip", str(len(body)))


def test_compressed_bytes_have_a_weak_entity_tag(client: TestClient) -> None:
    fetch(client, LARGE)
    strong, weak = (fetch(client, LARGE, coding)[0].headers["etag"] for coding in ("identity", "gzip"))
    assert weak == f"W/{strong}"
    for coding in ("identity", "gzip"):
        for tag in (strong, weak):
            answer, body = fetch(client, LARGE, coding, **{"If-None-Match": tag})
            assert (answer.status_code, body, answer.headers["etag"]) == (304, b"", tag)
        assert fetch(client, LARGE, coding, **{"If-None-Match": '"other"'})[0].status_code == 200


def test_compressed_bytes_are_cached(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(client, LARGE)

    def compress(*_: Any, **__: Any) -> bytes:
        raise AssertionError

    monkeypatch.setattr(gzip, "compress", compress)
    first, second = (fetch(client, LARGE)[1] for _ in range(2))
    assert first == second != b""


@pytest.mark.parametrize("path", [SMALL, "/healthz", "/v1/nothing", "/page/main.js"])
def test_small_or_compressed_bodies_are_unchanged(client: TestClient, path: str) -> None:
    answer, body = fetch(client, path)
    if path.startswith("/page"):
        assert gzip.decompress(body).startswith(b"//")  # once
        assert answer.headers["vary"] == "Accept-Encoding"
    else:
        assert "content-encoding" not in answer.headers
        assert len(body) < MIN_BYTES


def test_answers_that_are_not_cached_are_compressed_too(client: TestClient) -> None:
    answer, body = fetch(client, "/v1/error-curve?K=5&m=2&epsilon=0.1")
    assert answer.headers["content-encoding"] == "gzip"
    assert "etag" not in answer.headers
    assert b'"disagreement"' in gzip.decompress(body)


def test_an_event_stream_is_never_compressed(client: TestClient) -> None:
    id = client.post("/v1/jobs", json={"K": 5, "m": 2, "epsilon": 0.1}).json()["id"]
    answer, body = fetch(client, f"/v1/jobs/{id}/events")
    assert "content-encoding" not in answer.headers
    assert body.startswith(b"retry: ")


def test_accept_encoding_is_parsed() -> None:
    accepted = ("gzip", "GZIP", "deflate, gzip;q=0.5", "*;q=0.1")
    refused = ("gzip;q=0", "gzip; q=0.000", "*, gzip;q=0", "identity", "")
    for text in (*accepted, *refused):
        assert accepts_gzip([(b"accept-encoding", text.encode())]) == (text in accepted), text
