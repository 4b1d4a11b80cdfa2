"""`/v1/table`, `/v1/plurality` and its options: answers, storage and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from api.app import create_app
from darrm_opt import Privacy, Problem
from darrm_opt.answers.verification import verify_options
from darrm_opt.planning.table_baselines import table_baselines
from darrm_opt.problem import NOT_PRIVATE
from darrm_opt.record import canonical_json, digest
from solver_cache.model import Row

GROUPS: dict[str, Any] = {
    "classes": 3,
    "groups": [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}],
    "target_epsilon": 0.6,
}
CLASSES: dict[str, Any] = {"K": 5, "classes": 3, "target_epsilon": 1.0, "delta": 1e-3, "prior": "favoured(0.5,0.9)"}

client = client_fixture(patient(short_seconds=10))


def test_a_table_is_compared_with_the_other_mechanisms(client: TestClient) -> None:
    told = client.post("/v1/table", json=GROUPS).json()
    problem = Problem(groups=[(2, 0.1), (2, 0.5)], target=Privacy(0.6), classes=3)
    assert told["utilities"] == {one.name: one.utility for one in table_baselines(problem)}


def test_voters_that_are_not_private_may_have_a_truth(client: TestClient) -> None:
    asked = {"groups": [{"K": 2, "epsilon": "inf"}, {"K": 3, "epsilon": 0.5, "Delta": 1e-3}], "target_epsilon": 1.0}
    told = client.post("/v1/table", json={**asked, "delta": 0.01, "affected": 1, "objective": "truth(0.9,0.6)"}).json()
    assert told["groups"][0] == {"K": 2, "epsilon": "inf", "Delta": 0.0}
    assert told["utility"] <= told["upper_bound"] <= told["utility"] + 1e-9


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"classes": 2, "groups": [{"K": 5, "epsilon": 0.3}]}, "/v1/gamma"),
        ({"classes": 2, "groups": [{"K": 5, "epsilon": 0.3}, {"K": 2, "epsilon": 0.3, "weight": 1}]}, "/v1/gamma"),
        ({"groups": [{"K": 5, "epsilon": "inf"}], "affected": 1}, "/v1/plurality"),
    ],
)
def test_groups_of_equal_voters_are_refused(client: TestClient, change: dict[str, Any], path: str) -> None:
    answer = client.post("/v1/table", json={**GROUPS, **change})
    assert answer.status_code == 422
    assert path in answer.text
    weighted = {**change, "groups": [{"K": 2, "epsilon": 0.3}, {"K": 2, "epsilon": 0.3, "weight": 2}]}
    assert client.post("/v1/table", json={**GROUPS, **weighted}).status_code == 200


def test_a_truth_determines_the_weights_of_votes(client: TestClient) -> None:
    weighted = [{"K": 1, "epsilon": 0.7, "weight": 2}, {"K": 2, "epsilon": 0.1}]
    assert client.post("/v1/table", json={**GROUPS, "groups": weighted}).json()["weights"] == [2.0, 1.0]
    refused = client.post("/v1/table", json={**GROUPS, "groups": weighted, "objective": "truth(0.6,0.9)"})
    assert (refused.status_code, refused.json()["field"]) == (422, "groups")


def test_several_releases_with_abstention_are_planned(client: TestClient) -> None:
    told = client.post("/v1/plurality", json=CLASSES | {"queries": 10, "abstention": True, "price": 1.0}).json()
    assert told["problem"]["target_epsilon"] < 0.4
    assert told["problem"]["abstention"]
    assert "confident_gnmax" in told["utilities"]


def test_too_much_work_is_refused_before_it_starts() -> None:
    with TestClient(create_app(patient(max_work_seconds=30))) as client:
        told = client.post("/v1/plurality", json=CLASSES | {"K": 60, "classes": 5})
    assert told.status_code == 422
    assert "expected solving time" in told.text


def test_more_voters_and_classes_than_a_table_allows_have_options(client: TestClient) -> None:
    asked = {"K": 61, "classes": 12, "total_epsilon": 1.0, "total_delta": 1e-5, "prior": "beta(8,2)"}
    answer = client.post("/v1/plurality/options", json=asked).json()
    assert answer["samples"] == 2000
    assert {option["name"] for option in answer["options"]} == {"permute_and_flip", "exponential", "laplace", "gnmax"}
    assert all(option["epsilon"] <= 1.0 for option in answer["options"])
    assert verify_options(answer, Problem(61, NOT_PRIVATE, Privacy(1.0, 1e-5), 1, classes=12), 1)


@pytest.mark.parametrize(
    ("path", "other", "asked", "same"),
    [
        ("plurality", "table", CLASSES | {"K": 4, "prior": "dirichlet(2)"}, {"prior": "dirichlet( 2.0 )"}),
        ("table", "plurality", GROUPS | {"target_epsilon": 0.7}, {}),
    ],
)
def test_a_table_is_stored_listed_and_read_by_its_id(
    client: TestClient, path: str, other: str, asked: dict[str, Any], same: dict[str, Any]
) -> None:
    told = client.post(f"/v1/{path}", json=asked).json()
    again = client.post(f"/v1/{path}", json=asked | same).json()
    assert (told["cached"], again["cached"]) == (False, True)
    passing = {"cached", "seconds", *same}
    assert {**again, **{name: told[name] for name in passing & told.keys()}} == told
    id = told["id"]
    stored = client.get(f"/v1/{path}/{id}")
    assert {**again, **stored.json(), "utilities": again["utilities"]} == again  # of designs that are not stored
    assert {"record", "utility", "upper_bound"} <= stored.json().keys()
    unchanged = client.get(f"/v1/{path}/{id}", headers={"If-None-Match": stored.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    for elsewhere in (f"/v1/{other}/{id}", f"/v1/gamma/{id}", f"/v1/{path}/{'0' * 64}"):
        assert client.get(elsewhere).status_code == 404
    assert client.put(f"/v1/designs/{id}/tags/{path}").json()["shape"] == "3 classes"
    assert [design["id"] for design in client.get(f"/v1/designs?tag={path}").json()["designs"]] == [id]
    assert client.get(f"/v1/designs/{id}").json()["design"]["record"] == told["record"]


def test_the_routes_of_tables_and_gammas_are_separate(client: TestClient) -> None:
    rule = client.post("/v1/plurality", json=CLASSES).json()["id"]
    gamma = client.post("/v1/gamma", json={"K": 3, "m": 1, "epsilon": 0.5}).json()["id"]
    assert client.get(f"/v1/plurality/{gamma}").status_code == 404
    refused = client.get(f"/v1/designs/{gamma}/compare/{rule}")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "other")


def test_a_stored_table_that_is_not_private_is_not_returned(client: TestClient) -> None:
    asked = CLASSES | {"K": 3, "prior": "dirichlet(3)"}
    id = client.post("/v1/plurality", json=asked).json()["id"]
    store = client.app.state.service.store  # type: ignore[attr-defined]  # of the application
    row = store.get(id)
    text = canonical_json(json.loads(row.record) | {"values": [1.0, 0.0, 1.0, 0.0, 0.0]})
    store.remove(row)
    store.put(Row(id, row.core, text, digest(text)))
    assert client.get(f"/v1/plurality/{id}").status_code == 404
    assert not client.post("/v1/plurality", json=asked).json()["cached"]
    assert client.get(f"/v1/plurality/{id}").status_code == 200  # the invalid row was replaced


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
def test_an_error_of_a_group_names_its_position(client: TestClient, groups: Any, said: str) -> None:
    for path, target in (("/v1/table", "target_epsilon"), ("/v1/plan", "total_epsilon")):
        told = client.post(path, json={"groups": groups, target: 0.3})
        assert told.status_code == 422, told.text
        assert said in told.json()["detail"], path
