"""/v1/designs: stored designs are listed, verified, tagged and compared; a tag changes no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.patient import patient

from api.access import keys
from api.app import create_app
from darrm_opt import Problem, solve
from darrm_opt.record import CORE, digest
from solver_cache import Row

SETTINGS = patient(max_voters=15)
ASKED: list[dict[str, Any]] = [
    {"K": 3, "m": 1, "epsilon": 0.1},
    {"K": 5, "m": 2, "epsilon": 0.1, "Delta": 1e-5},
    {"K": 5, "m": 3, "epsilon": 0.1, "objective": "shared(2,2)"},
    {"K": 5, "epsilon": "inf", "affected": 1, "target_epsilon": 1.0, "delta": 1e-5},
]


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(create_app(SETTINGS), raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture
def ids(client: TestClient) -> list[str]:
    return [str(client.post("/v1/gamma", json=asked).json()["id"]) for asked in ASKED]


def listed(client: TestClient, query: str = "") -> list[str]:
    return [design["id"] for design in client.get(f"/v1/designs{query}").json()["designs"]]


def test_a_list_has_the_numbers_of_each_design_newest_first(client: TestClient, ids: list[str]) -> None:
    told = client.get("/v1/designs").json()
    assert {design["id"] for design in told["designs"]} == set(ids)
    times = [design["created"] for design in told["designs"]]
    assert times == sorted(times, reverse=True)
    assert told["next"] is None
    for design in told["designs"]:
        whole = client.get(f"/v1/gamma/{design['id']}").json()
        assert {name: design[name] for name in whole["problem"]} == whole["problem"]
        assert (design["utility"], design["objective"]) == (whole["utility"], whole["objective"])
        assert "gamma" not in design


def test_lists_are_paged_and_filtered(client: TestClient, ids: list[str]) -> None:
    first = client.get("/v1/designs?limit=3").json()
    rest = client.get(f"/v1/designs?limit=3&after={first['next']}").json()
    assert [design["id"] for design in (*first["designs"], *rest["designs"])] == listed(client)
    assert rest["next"] is None
    assert set(listed(client, "?K=5")) == set(ids[1:])
    assert listed(client, "?epsilon=inf") == [ids[3]]
    assert listed(client, "?m=3&K=5") == [ids[2]]


def test_tags_are_added_filtered_and_removed_without_changing_answers(client: TestClient, ids: list[str]) -> None:
    before = client.get(f"/v1/gamma/{ids[1]}")
    for _ in range(2):
        assert client.put(f"/v1/designs/{ids[1]}/tags/round-2").json()["tags"] == ["round-2"]
    assert listed(client, "?tag=round-2") == [ids[1]]
    read = client.get(f"/v1/designs/{ids[1]}").json()
    assert (read["tags"], read["design"]) == (["round-2"], before.json())
    after = client.get(f"/v1/gamma/{ids[1]}")
    assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])
    assert client.delete(f"/v1/designs/{ids[1]}/tags/round-2").json()["tags"] == []
    assert listed(client, "?tag=round-2") == []


def test_two_designs_are_compared(client: TestClient, ids: list[str]) -> None:
    told = client.get(f"/v1/designs/{ids[1]}/compare/{ids[2]}").json()
    one = solve(Problem.from_allowance(K=5, m=2, epsilon=0.1, Delta=1e-5))
    other = solve(Problem.from_allowance(K=5, m=3, epsilon=0.1), "shared(2,2)")
    assert told["first"]["design"]["gamma"] == one.gamma.tolist()
    assert told["second"]["design"]["gamma"] == other.gamma.tolist()
    assert told["gamma_difference"] == (other.gamma - one.gamma).tolist()
    assert told["same_objective"] is False
    numbers = told["numbers"]
    assert numbers["utility"] == {
        "first": one.utility,
        "second": other.utility,
        "difference": other.utility - one.utility,
    }
    assert numbers["m"] == {"first": 2.0, "second": 3.0, "difference": 1.0}
    assert numbers["narrowest"]["first"] == (1 + one.gamma[3]) / 2
    assert numbers["unanimous"]["second"] == (1 + other.gamma[5]) / 2


def test_designs_for_other_voters_have_no_difference_of_gamma(client: TestClient, ids: list[str]) -> None:
    told = client.get(f"/v1/designs/{ids[0]}/compare/{ids[3]}").json()
    assert told["gamma_difference"] is None
    assert told["numbers"]["epsilon"] == {"first": 0.1, "second": "inf", "difference": None}
    assert told["numbers"]["m"] == {"first": 1.0, "second": None, "difference": None}


def test_unprovable_designs_are_never_returned(client: TestClient, ids: list[str]) -> None:
    store = client.app.state.service.store  # type: ignore[attr-defined]  # of the application
    row = store.get(ids[0])
    record = json.loads(row.record)
    record["gamma"] = [1.0] * 4
    text = json.dumps(record)
    store.remove(row)
    store.put(Row(ids[0], CORE, text, digest(text)))
    assert ids[0] in listed(client)
    assert client.get(f"/v1/designs/{ids[0]}").status_code == 404
    assert client.get(f"/v1/designs/{ids[1]}/compare/{ids[0]}").status_code == 404


UNKNOWN = "0" * 64


INVALID = {"K": "?K=0 ?K=99999999999", "m": "?m=0", "epsilon": "?epsilon=-1", "limit": "?limit=0", "after": "?after=x"}
MISSING = [("GET", ""), ("GET", f"/compare/{UNKNOWN}"), ("PUT", "/tags/a"), ("DELETE", "/tags/a")]


def test_missing_and_invalid_designs_are_refused(client: TestClient) -> None:
    for method, end in MISSING:
        assert client.request(method, f"/v1/designs/{UNKNOWN}{end}").status_code == 404
    asked = [(field, client.get(f"/v1/designs{query}")) for field, text in INVALID.items() for query in text.split()]
    asked += [("tag", client.put(f"/v1/designs/{UNKNOWN}/tags/{tag}")) for tag in ("-a", "a" * 65)]
    asked += [("tag", client.get("/v1/designs?tag=a%20b")), ("id", client.get("/v1/designs/abc"))]
    for field, answer in asked:
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_server_with_keys_shares_tags_among_them(tmp_path: Any) -> None:
    path = tmp_path / "keys.json"
    _, mine = keys.create_key(path, "mine")
    _, yours = keys.create_key(path, "yours")
    _, reading = keys.create_key(path, "dashboard", "reader")
    with TestClient(create_app(SETTINGS.model_copy(update={"keys": path}))) as client:
        as_mine, as_yours = ({"Authorization": f"Bearer {key}"} for key in (mine, yours))
        key = client.post("/v1/gamma", json=ASKED[0], headers=as_mine).json()["id"]
        assert client.put(f"/v1/designs/{key}/tags/a").status_code == 401
        assert client.put(f"/v1/designs/{key}/tags/a", headers=as_mine).status_code == 200
        assert client.get("/v1/designs", headers=as_yours).json()["designs"][0]["tags"] == ["a"]
        as_reader = {"Authorization": f"Bearer {reading}"}
        assert client.get(f"/v1/designs/{key}/compare/{key}", headers=as_reader).status_code == 200
        for method in ("PUT", "DELETE"):
            assert client.request(method, f"/v1/designs/{key}/tags/a", headers=as_reader).status_code == 403
