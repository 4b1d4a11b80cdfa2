"""`/v1/plurality`: the optimal table over HTTP, by query and by body, what is refused, and the client that proves it again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from api.app import create_app
from darrm_opt import Privacy
from darrm_opt.answers.verification import verify_options
from darrm_opt.problem import NOT_PRIVATE, Problem
from darrm_opt.record import canonical_json, digest
from solver_cache.model import Row

ASKED: dict[str, Any] = {"K": 5, "classes": 3, "target_epsilon": 1.0, "delta": 1e-3, "prior": "favoured(0.5,0.9)"}


client = client_fixture(patient())


def test_many_releases_and_abstention(client: TestClient) -> None:
    told = client.post("/v1/plurality", json=ASKED | {"queries": 10, "abstention": True, "price": 1.0}).json()
    assert told["problem"]["target_epsilon"] < 0.4
    assert told["problem"]["abstention"]
    assert "confident_gnmax" in told["utilities"]


def test_too_much_work_is_refused_before_it() -> None:
    with TestClient(create_app(patient(max_work_seconds=30))) as client:
        told = client.post("/v1/plurality", json=ASKED | {"K": 60, "classes": 5})
    assert told.status_code == 422
    assert "expected solving time" in told.text


def test_more_voters_and_classes_than_tables_hold(client: TestClient) -> None:
    asked = {"K": 61, "classes": 12, "total_epsilon": 1.0, "total_delta": 1e-5, "prior": "beta(8,2)"}
    told = client.post("/v1/plurality/options", json=asked).json()
    assert told["samples"] == 2000
    assert {option["name"] for option in told["options"]} == {"permute_and_flip", "exponential", "laplace", "gnmax"}
    for option in told["options"]:
        record = told["mechanism"] if option is told["options"][0] else None
        assert option["epsilon"] <= 1.0
        assert record is None or verify_options(told, Problem(61, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=12), 1)


def test_a_rule_is_stored_listed_and_read_by_its_id(client: TestClient) -> None:
    asked = ASKED | {"K": 4, "prior": "dirichlet(2)"}
    told = client.post("/v1/plurality", json=asked).json()
    again = client.post("/v1/plurality", json=asked | {"prior": "dirichlet( 2.0 )"}).json()
    assert (told["cached"], again["cached"]) == (False, True)
    assert {**again, "cached": False, "prior": told["prior"]} == told
    id = told["id"]
    stored = client.get(f"/v1/plurality/{id}")
    assert stored.json() == {name: again[name] for name in stored.json()}
    assert set(told) - set(stored.json()) == {"utilities", "rates"}
    same = client.get(f"/v1/plurality/{id}", headers={"If-None-Match": stored.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")
    assert client.put(f"/v1/designs/{id}/tags/mine").json()["shape"] == "3 classes"
    assert [design["id"] for design in client.get("/v1/designs?tag=mine").json()["designs"]] == [id]
    assert client.get(f"/v1/designs/{id}").json()["design"]["record"] == told["record"]


def test_rules_and_gammas_are_not_confused(client: TestClient) -> None:
    rule = client.post("/v1/plurality", json=ASKED).json()["id"]
    gamma = client.post("/v1/gamma", json={"K": 3, "m": 1, "epsilon": 0.5}).json()["id"]
    assert client.get(f"/v1/gamma/{rule}").status_code == 404
    assert client.get(f"/v1/plurality/{gamma}").status_code == 404
    refused = client.get(f"/v1/designs/{gamma}/compare/{rule}")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "other")


def test_a_stored_rule_that_is_not_private_is_not_returned(client: TestClient) -> None:
    asked = ASKED | {"K": 3, "prior": "dirichlet(3)"}
    id = client.post("/v1/plurality", json=asked).json()["id"]
    store = client.app.state.service.store  # type: ignore[attr-defined]  # the application's own
    row = store.get(id)
    text = canonical_json(json.loads(row.record) | {"values": [1.0, 0.0, 1.0, 0.0, 0.0]})
    store.remove(row)
    store.put(Row(id, row.core, text, digest(text)))
    assert client.get(f"/v1/plurality/{id}").status_code == 404
    assert not client.post("/v1/plurality", json=asked).json()["cached"]
    assert client.get(f"/v1/plurality/{id}").status_code == 200  # the bad row was replaced


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (3, "groups = 3 is not valid"),
        ([3], "groups[0] = 3 is not valid: expected an object with K"),
        ([{"K": 2, "epsilon": 0.1}, {"K": 3, "profile": "0:2"}], "groups[1].profile = 2 is not valid"),
        ([{"K": 2, "epsilon": 0.1}, {"K": 3, "profile": "x(1)"}], "groups[1].profile = 'x(1)' is not valid"),
        ([{"K": 2, "epsilon": -1}], "groups[0].epsilon = -1.0 is not valid"),
    ],
)
def test_an_error_of_a_group_names_its_place(client: TestClient, groups: Any, said: str) -> None:
    for path, target in (("/v1/table", "target_epsilon"), ("/v1/plan", "total_epsilon")):
        told = client.post(path, json={"groups": groups, target: 0.3})
        assert told.status_code == 422, told.text
        assert said in told.json()["detail"], path
