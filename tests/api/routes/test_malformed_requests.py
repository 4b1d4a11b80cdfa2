"""Odd requests: duplicate names, encodings, huge bodies, trailing slashes."""

from __future__ import annotations

import asyncio
import gc
import gzip
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient
from support.waiting import in_loop
from test_api import problem_of

from api.errors.problem_details import ClientDisconnected
from api.routes import requests
from api.routes.requests import MAX_FIELDS, max_entries, until_disconnect

client = client_fixture(patient(max_voters=51))


@pytest.mark.parametrize("path", ["/v1/gamma", "/v1/gamma/batch", "/v1/jobs", "/v1/plan", "/v1/verify"])
@pytest.mark.parametrize("inside", [b"%s", b'{"problems": [%s]}'])
def test_a_duplicate_name_in_a_body_is_refused(client: TestClient, path: str, inside: bytes) -> None:
    body = inside % b'{"K": 11, "m": 3, "epsilon": 0.1, "epsilon": 10}'
    details = problem_of(client.post(path, content=body, headers={"content-type": "application/json"}), 422)
    assert (details["field"], details["detail"]) == ("epsilon", "epsilon is given more than once.")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("K=11&m=3&epsilon=0_1", "epsilon"),  # 1 for Python, a typo of 0.1
        ("K=1_1&m=3&epsilon=0.1", "K"),
        ("K=11&m=3&epsilon=0.1&delta=1_0e-9", "delta"),
    ],
)
def test_a_number_in_a_query_has_no_separators(client: TestClient, query: str, field: str) -> None:
    details = problem_of(client.get(f"/v1/gamma?{query}"), 422)
    assert details["field"] == field
    assert details["detail"].startswith(f"{field} = '")


def test_names_and_objectives_in_a_query_may_have_underscores(client: TestClient) -> None:
    asked = "K=3&m=1&epsilon=0.5&points=3&objective=expected_error(scenarios=2)&baselines=double_subsampling"
    assert client.get(f"/v1/error-curve?{asked}").status_code == 200


def test_error_responses_are_bounded(client: TestClient) -> None:
    many = client.post("/v1/gamma", json={f"f{number}": 1 for number in range(MAX_FIELDS)})
    details = problem_of(many, 422)
    assert [error["field"] for error in details["errors"]] == ["K", *(f"f{number}" for number in range(19))]
    assert details["detail"].endswith("f18 is not a field of this request. And 45 more errors.")
    for answer in (
        client.post("/v1/gamma", json={"x" * 500_000: 1, "K": 11, "m": 3, "epsilon": 0.1}),
        client.get(f"/v1/gamma?K=11&m=3&epsilon=0.1&{'x' * 5000}=1"),
        client.get(f"/v1/gamma?K=11&m=3&epsilon=0.1&{'x' * 5000}=1&{'x' * 5000}=1"),
    ):
        assert problem_of(answer, 422)["field"] == f"{'x' * 80}…"
        assert len(answer.content) < 2000


OTHER = b'"K": 11, "m": 3, "epsilon": 0.1, '

MANY = {
    "wrong numbers": b'{%b"gamma": [%b]}' % (OTHER, b",".join([b'"a"'] * 200_000)),
    "right numbers": b'{%b"gamma": [%b]}' % (OTHER, b",".join([b"0.1"] * 200_000)),
    "lists": b'{%b"gamma": [%b]}' % (OTHER, b",".join([b"[]"] * 200_000)),
    "names": b"{%b}" % b",".join(b'"%x": 1' % number for number in range(100_000)),
    "texts of quotes": b'{%b"gamma": [%b]}' % (OTHER, b",".join([rb'"\\\",\""'] * 100_000)),
}
"""Bodies of a megabyte with more entries than any request."""


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("path", ["/v1/verify", "/v1/gamma/batch"])
def test_a_body_with_too_many_entries_is_not_parsed(client: TestClient, path: str, name: str) -> None:
    unended = MANY[name][:-1]  # which would be reported if it were parsed
    answer = client.post(path, content=unended, headers={"content-type": "application/json"})
    details = problem_of(answer, 422)
    most = max_entries(path, client.app.state.settings)  # type: ignore[attr-defined]  # a FastAPI application
    assert details["field"] == "body"
    assert details["detail"] == f"The body has more than {most} entries of lists and objects together."


@pytest.mark.parametrize("path", ["/v1/gamma", "/v1/gamma/batch"])
def test_an_object_with_too_many_fields_is_refused(client: TestClient, path: str) -> None:
    fields = {f"f{number}": 1 for number in range(MAX_FIELDS + 1)}
    details = problem_of(client.post(path, json={"problems": [fields]} if "batch" in path else fields), 422)
    assert (details["field"], details["detail"]) == ("body", f"The body has more than {MAX_FIELDS} fields.")
    query = "&".join(f"f{number}=1" for number in range(MAX_FIELDS + 1))
    details = problem_of(client.get(f"/v1/gamma?{query}"), 422)
    assert (details["field"], details["detail"]) == ("query", f"The query has more than {MAX_FIELDS} fields.")


def test_a_list_is_refused_at_its_first_wrong_item(client: TestClient) -> None:
    wrong = {"K": 11, "m": 3, "epsilon": 0.1, "gamma": [0.1, "a", *["b"] * 1000]}
    details = problem_of(client.post("/v1/verify", json=wrong), 422)
    assert "'a'" in details["detail"]
    assert "'b'" not in details["detail"]
    most = max_entries("/v1/tradeoff", client.app.state.settings)  # type: ignore[attr-defined]  # as above
    details = problem_of(client.get(f"/v1/tradeoff?K=11&epsilon=0.1&ms={'1,' * most}1"), 422)
    assert details["detail"] == f"The query has more than {most} entries of lists and objects together."


def test_commas_in_texts_are_not_counted_as_entries(client: TestClient) -> None:
    body = {"K": 3, "m": 1, "epsilon": 0.5, "objective": "shared(" + "," * 19_000 + ")"}
    assert problem_of(client.post("/v1/gamma", json=body), 422)["field"] == "objective"


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_a_body_must_be_utf_8(client: TestClient, coding: str) -> None:
    text = '{"K": 3, "m": 1, "epsilon": 0.5, "objective": "é"}'
    answer = client.post("/v1/gamma", content=text.encode(coding), headers={"content-type": "application/json"})
    assert problem_of(answer, 422)["field"] == "body"
    with_mark = "\ufeff" + '{"K": 3, "m": 1, "epsilon": 0.5}'
    answer = client.post("/v1/gamma", content=with_mark.encode(), headers={"content-type": "application/json"})
    assert answer.status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "deflate, br", "x" * 4000])
def test_an_encoded_body_is_refused(client: TestClient, coding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": coding}
    for body in (gzip.compress(b"{}"), b'{"K": 11, "m": 3, "epsilon": 0.1}'):
        details = problem_of(client.post("/v1/gamma", content=body, headers=headers), 422)
        assert details["field"] == "body"
        assert f"without Content-Encoding: {coding[:80]}." in details["detail"]
    plain = {**headers, "content-encoding": "identity"}
    assert client.post("/v1/gamma", content=b'{"K": 3, "m": 1, "epsilon": 0.5}', headers=plain).status_code == 200


@pytest.mark.parametrize("path", ["/v1/gamma/", "/v1/jobs/", "/healthz/"])
def test_a_trailing_slash_is_not_redirected(client: TestClient, path: str) -> None:
    problem_of(client.get(path, follow_redirects=False), 404)


def test_repeated_headers_are_joined(client: TestClient) -> None:
    path = "/v1/gamma?K=3&m=1&epsilon=0.5"
    client.get(path)
    first = client.get(path)
    tags = [("if-none-match", '"other"'), ("if-none-match", f"W/{first.headers['etag']}")]
    assert client.get(path, headers=tags).status_code == 304
    accept = [("accept", "image/png"), ("accept", "text/csv")]
    for _ in range(3):  # by the route, then by the fast path
        assert client.get(path, headers=accept).headers["content-type"].startswith("text/csv")


@in_loop
async def test_work_is_stopped_when_the_client_disconnects() -> None:
    async def forever() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    begun, stopped = asyncio.Event(), asyncio.Event()

    async def work(seconds: float) -> str:
        begun.set()
        try:
            return await asyncio.sleep(seconds, "done")
        finally:
            stopped.set()

    async def receive() -> dict[str, Any]:
        await begun.wait()
        return next(messages)

    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])
    with pytest.raises(ClientDisconnected):
        await until_disconnect(Request({"type": "http"}, receive), work(3600))
    assert stopped.is_set()
    begun.clear()
    assert await until_disconnect(Request({"type": "http"}, forever), work(0)) == "done"


REFUSED = {
    "too many entries": b'{"K": 3, "m": 1, "epsilon": 0.1, "gamma": [' + b",".join(5000 * [b'"x"']) + b"]}",
    "a wrong field": b'{"K": "many", "m": 1, "epsilon": 0.1, "gamma": [0.1]}',
    "no JSON": b'{"K": 3',
    "no UTF-8": b"\xff\xfe{\x00}\x00",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_body_is_freed_without_garbage_collection(client: TestClient, kind: str) -> None:
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/verify", content=REFUSED[kind], headers=headers).status_code == 422
    gc.collect()
    before = {id(each) for each in gc.get_objects() if isinstance(each, requests._StrictRequest)}
    gc.disable()
    try:
        for _ in range(5):
            assert client.post("/v1/verify", content=REFUSED[kind], headers=headers).status_code == 422
        kept = [
            each for each in gc.get_objects() if isinstance(each, requests._StrictRequest) and id(each) not in before
        ]
    finally:
        gc.enable()
    assert kept == []
