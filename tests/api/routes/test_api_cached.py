"""Answers by id, in all forms, repeated answers, and the nearest valid one."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from support.patient import patient

from api.access.keys import create_key
from api.app import create_app
from api.errors.problem_details import MEDIA_TYPE
from api.settings import Settings
from darrm_opt import Privacy, verify
from darrm_opt.plurality import solve_table
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.record import problem_from_record
from darrm_opt.tables.record import TableSpec
from darrm_opt.verification import verify_solution
from solver_cache import keep, model, open_store, validate
from solver_cache.validate import Proofs

SMALL = {"K": 5, "m": 2, "epsilon": 0.1, "Delta": 1e-5}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('kept') / 'store.sqlite'}"


@pytest.fixture(scope="module")
def told(url: str) -> dict[str, Any]:
    """Return the answer to `SMALL` at the time of its solve, by another app."""
    with TestClient(create_app(patient(cache_url=url))) as client:
        answer = client.get("/v1/gamma", params=SMALL)
        assert "etag" not in answer.headers  # "cached" will change, so these bytes are not final
        return dict(answer.json())


@pytest.fixture(scope="module")
def client(url: str, told: dict[str, Any]) -> Iterator[TestClient]:
    """A server with that stored answer and without solving."""
    assert not told["cached"]
    with TestClient(create_app(Settings(cache_url=url, solve="off"))) as opened:
        yield opened


def test_shared_caches_must_not_store_answers_with_keys(url: str, told: dict[str, Any], tmp_path: Path) -> None:
    _, key = create_key(tmp_path / "keys.json", "alice")
    rule = solve_table(Problem(3, NOT_PRIVATE, Privacy(1.0), 1, classes=3))
    with closing(open_store(url)) as store:
        keep(rule, store)
    with TestClient(create_app(Settings(cache_url=url, solve="off", keys=tmp_path / "keys.json"))) as opened:
        for path in (f"/v1/gamma/{told['id']}", f"/v1/plurality/{TableSpec.of(rule).key}"):
            answer = opened.get(path, headers={"X-API-Key": key})
            told_caches = answer.status_code, answer.headers["cache-control"]
            assert told_caches == (200, "private, max-age=31536000, immutable")


def test_an_id_has_one_answer_forever(client: TestClient, told: dict[str, Any]) -> None:
    first, again = (client.get(f"/v1/gamma/{told['id']}") for _ in range(2))
    assert first.status_code == 200
    assert first.content == again.content
    assert first.headers["etag"] == again.headers["etag"]
    assert first.headers["cache-control"] == "max-age=31536000, immutable"
    assert first.headers["vary"] == "Accept"
    assert {**first.json(), "cached": False} == told
    assert first.content == client.get("/v1/gamma", params=SMALL).content
    assert verify(problem_from_record(told["problem"]), first.json()["gamma"]).margin >= 0


def test_one_proof_serves_all_forms_of_a_request(
    url: str, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = 0

    def counted(*arguments: Any) -> Any:
        nonlocal proofs
        proofs += 1
        return verify_solution(*arguments)

    monkeypatch.setattr(validate, "PROOFS", Proofs())
    monkeypatch.setattr(model, "GAMMA", replace(model.GAMMA, verify=counted))
    changes: list[dict[str, Any]] = [{}, {"objective": " rectangular"}, {"method": "cuts"}, {"affected": 5}]
    by_target = {"m": None, "target_epsilon": 0.2, "delta": told["problem"]["delta"]}
    spelt: list[dict[str, Any]] = [SMALL | change for change in (*changes, by_target)]
    with TestClient(create_app(Settings(cache_url=url, solve="off"))) as client:
        answers = [client.post("/v1/gamma", json=question) for question in spelt]
        answers += [client.get("/v1/gamma", params={**question, "m": question["m"] or ""}) for question in spelt[:4]]
        answers += [client.get(f"/v1/gamma/{told['id']}")]
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        batch = client.post("/v1/gamma/batch", json={"problems": spelt * 20}).json()["results"]
        assert [item["answer"] for item in batch] == [answers[0].json()] * 100
        assert client.get("/v1/error-curve", params={**SMALL, "points": 3}).status_code == 200
        lookups = solver_cache_lookups(client)
    assert proofs == 1
    assert lookups["memory"] >= 8


def solver_cache_lookups(client: TestClient) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("darrm_cache_lookups_total{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in found}


@pytest.mark.parametrize("accept", ["application/json", "text/csv", "application/x-npz"])
def test_a_client_that_has_the_answer_gets_304(client: TestClient, told: dict[str, Any], accept: str) -> None:
    by_id, by_question = f"/v1/gamma/{told['id']}", client.build_request("GET", "/v1/gamma", params=SMALL).url
    for address in (by_id, by_question):
        for _ in range(2):  # read from the store, then from the response cache
            whole = client.get(address, headers={"Accept": accept})
            tag = whole.headers["etag"]
            for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
                answer = client.get(address, headers={"Accept": accept, "If-None-Match": given})
                assert (answer.status_code, answer.content) == (304, b"")
                assert answer.headers["etag"].removeprefix("W/") == tag
            assert client.get(address, headers={"Accept": accept, "If-None-Match": '"other"'}).content == whole.content
    assert client.get(address, headers={"Accept": "application/json"}).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("id", ["abc", "0" * 64, "Z" * 64, "γ", "%00", "a" * 5000, "..%2F", "{id}"])
def test_an_unknown_id_is_a_404(client: TestClient, id: str) -> None:
    answer = client.get(f"/v1/gamma/{id}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == MEDIA_TYPE


def test_csv_and_npz_hold_every_digit(client: TestClient, told: dict[str, Any]) -> None:
    for address in (f"/v1/gamma/{told['id']}", client.build_request("GET", "/v1/gamma", params=SMALL).url):
        as_csv = client.get(address, headers={"Accept": "text/csv"})
        assert as_csv.headers["content-type"] == "text/csv; charset=utf-8"
        assert as_csv.headers["content-disposition"] == 'attachment; filename="darrm-gamma.csv"'
        head, *lines = csv.reader(io.StringIO(as_csv.text, newline=""))
        assert head == ["l", "gamma"]
        assert [(int(l), float(gamma)) for l, gamma in lines] == list(enumerate(told["gamma"]))
        as_npz = client.get(address, headers={"Accept": "application/x-npz"})
        assert as_npz.headers["content-type"] == "application/x-npz"
        with np.load(io.BytesIO(as_npz.content), allow_pickle=False) as arrays:
            assert arrays["gamma"].tolist() == told["gamma"]
            assert {**json.loads(str(arrays["record"])), "cached": False} == told


def test_an_unsupported_media_type_is_a_406(client: TestClient, told: dict[str, Any]) -> None:
    for path in (f"/v1/gamma/{told['id']}", "/v1/gamma"):
        answer = client.get(path, params=SMALL, headers={"Accept": "image/png"})
        assert answer.status_code == 406
        assert answer.json()["type"] == "urn:darrm-opt:problem:not-acceptable"
    for path in ("/v1/estimate", "/v1/compose"):
        answer = client.get(path, params=SMALL, headers={"Accept": "text/csv"})
        assert (answer.status_code, answer.headers["content-type"]) == (406, MEDIA_TYPE)


@pytest.mark.parametrize("by_trade_off", [False, True])
def test_a_damaged_answer_is_not_used(tmp_path: Path, told: dict[str, Any], by_trade_off: bool) -> None:
    file = tmp_path / "store.sqlite"
    settings = patient(cache_url=f"sqlite:///{file}")
    with TestClient(create_app(settings)) as client:
        assert client.get("/v1/gamma", params=SMALL).json()["gamma"] == told["gamma"]
    with sqlite3.connect(file) as connection:
        [table] = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if "record" in [column[1] for column in connection.execute(f"PRAGMA table_info({name})")]
        ]
        changed = connection.execute(f"UPDATE {table} SET record = replace(record, '0.77866', '0.99999')")  # noqa: S608
        assert changed.rowcount == 1
    connection.close()
    with TestClient(create_app(settings)) as client:
        assert client.get(f"/v1/gamma/{told['id']}").status_code == 404
        if by_trade_off:
            asked = {**{name: value for name, value in SMALL.items() if name != "m"}, "ms": [SMALL["m"]]}
            [point] = client.post("/v1/tradeoff", json=asked).json()["points"]
            assert (point["id"], point["cached"]) == (told["id"], False)
            assert client.get("/v1/gamma", params=SMALL).json()["cached"]  # the damaged row was replaced
            return
        assert not client.get("/v1/gamma", params=SMALL).json()["cached"]  # solved again
        assert client.get(f"/v1/gamma/{told['id']}").json()["gamma"] == pytest.approx(told["gamma"], abs=1e-9)


# -------------------------------------------------------------------------------------------------------- nearest


def test_with_solving_off_the_nearest_valid_answer_is_returned(client: TestClient, told: dict[str, Any]) -> None:
    exact = client.get("/v1/gamma", params=SMALL).json()
    assert (exact["nearest"], exact["status"]) == (None, "optimal")
    weaker = {**SMALL, "m": 2.5}
    near = client.get("/v1/gamma", params=weaker).json()
    assert near["nearest"]["designed_for"] == told["problem"]
    assert near["nearest"]["id"] == told["id"] != near["id"]
    assert not near["nearest"]["exact"]
    assert near["problem"]["m"] == 2.5
    assert near["status"] != "optimal"
    assert near["upper_bound"] == 1.0
    assert verify(problem_from_record(near["problem"]), near["gamma"]).margin >= 0
    curve = client.get("/v1/error-curve", params={**weaker, "points": 3}).json()
    assert curve["nearest"] == near["nearest"]
    profile = client.get("/v1/profile", params={**weaker, "points": 3}).json()
    assert profile["nearest"] == near["nearest"]


def test_a_nearest_answer_is_not_immutable(client: TestClient) -> None:
    for _ in range(2):
        near = client.get("/v1/gamma", params={**SMALL, "m": 2.75})
        assert "etag" not in near.headers
        assert client.get(f"/v1/gamma/{near.json()['id']}").status_code == 404


@pytest.mark.parametrize(
    "change", [{"m": 1}, {"K": 7}, {"epsilon": 0.2, "m": 1}, {"delta": 0}, {"objective": "uniform"}]
)
def test_an_answer_with_weaker_privacy_is_not_returned(client: TestClient, change: dict[str, Any]) -> None:
    answer = client.get("/v1/gamma", params={**SMALL, **change})
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:darrm-opt:problem:not-stored"
    assert "solving is off on this server" in answer.json()["detail"]


def test_a_trade_off_of_stored_points_needs_no_solving(client: TestClient, told: dict[str, Any]) -> None:
    asked = {"K": 5, "epsilon": 0.1, "Delta": 1e-5}
    [point] = client.get("/v1/tradeoff", params={**asked, "ms": "2"}).json()["points"]
    assert (point["id"], point["cached"], point["gamma"]) == (told["id"], True, told["gamma"])
    refused = client.get("/v1/tradeoff", params={**asked, "ms": "2,3"})
    assert (refused.status_code, "1 of these 2 answers" in refused.text) == (404, True)


def test_an_answer_that_exceeds_the_wait_is_a_job(url: str, told: dict[str, Any]) -> None:
    with TestClient(create_app(Settings(cache_url=url, wait_seconds=0, solvers=1))) as client:
        answer = client.get("/v1/gamma", params={**SMALL, "m": 2.9})
        assert answer.status_code == 202
        pending = answer.json()
        assert answer.headers["location"] == pending["location"] == f"/v1/jobs/{pending['id']}"
        assert answer.headers["retry-after"] == str(pending["retry_after"])
        assert answer.headers["cache-control"] == "no-store"
        assert pending["nearest"]["nearest"]["designed_for"] == told["problem"]
        assert verify(problem_from_record(pending["nearest"]["problem"]), pending["nearest"]["gamma"]).margin >= 0
