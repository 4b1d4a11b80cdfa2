"""`/v1/table`: the table of groups over HTTP, its store, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import client_fixture, patient

from darrm_opt import Privacy, Problem
from darrm_opt.planning.table_baselines import table_baselines

ASKED: dict[str, Any] = {
    "classes": 3,
    "groups": [{"K": 2, "epsilon": 0.1}, {"K": 2, "epsilon": 0.5}],
    "target_epsilon": 0.6,
}
PROBLEM = Problem(groups=[(2, 0.1), (2, 0.5)], target=Privacy(0.6), classes=3)


client = client_fixture(patient(short_seconds=10))


def test_a_table_stands_beside_the_other_mechanisms(client: TestClient) -> None:
    told = client.post("/v1/table", json=ASKED).json()
    assert told["utilities"] == {one.name: one.utility for one in table_baselines(PROBLEM)}


def test_voters_that_are_not_private_and_a_truth(client: TestClient) -> None:
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
def test_identical_voters_are_refused_here(client: TestClient, change: dict[str, Any], path: str) -> None:
    answer = client.post("/v1/table", json={**ASKED, **change})
    assert answer.status_code == 422
    assert path in answer.text
    weighted = {**change, "groups": [{"K": 2, "epsilon": 0.3}, {"K": 2, "epsilon": 0.3, "weight": 2}]}
    assert client.post("/v1/table", json={**ASKED, **weighted}).status_code == 200


def test_a_table_is_stored_and_read_by_its_id(client: TestClient) -> None:
    asked = {
        **ASKED,
        "target_epsilon": 0.7,
        "groups": [{"K": 1, "epsilon": 0.7, "weight": 2}, {"K": 2, "epsilon": 0.1}],
    }
    first = client.post("/v1/table", json=asked).json()
    again = client.post("/v1/table", json=asked).json()
    assert (first["cached"], again["cached"], first["weights"]) == (False, True, [2.0, 1.0])
    names = {"cached", "seconds"}
    assert {k: v for k, v in first.items() if k not in names} == {k: v for k, v in again.items() if k not in names}
    read = client.get(f"/v1/table/{first['id']}")
    assert read.json()["table"] == first["table"]
    assert client.get(f"/v1/table/{first['id']}", headers={"If-None-Match": read.headers["ETag"]}).status_code == 304
    assert client.get(f"/v1/plurality/{first['id']}").status_code == 404
    assert client.get(f"/v1/table/{'0' * 64}").status_code == 404
    tagged = client.put(f"/v1/designs/{first['id']}/tags/clients")
    assert tagged.status_code == 200
    assert client.get(f"/v1/designs/{first['id']}").json()["design"]["table"] == first["table"]
    truth = client.post("/v1/table", json={**asked, "objective": "truth(0.6,0.9)"})
    assert (truth.status_code, "groups" in truth.text) == (422, True)  # its votes weigh what they tell
