"""Clients of keys: overlapping keys of one client, limits per client, and private designs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.refusals import refused
from support.served import Served, serving
from support.stores import STORE_URLS

from api.access.keys import create_key, list_keys, revoke_key
from api.app import create_app
from api.settings import Settings, read_settings
from solver_cache import open_store
from solver_cache.database.jobs import Jobs

FIRST, SECOND, THIRD = ({"K": K, "m": 2, "epsilon": 0.5} for K in (3, 5, 7))
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@dataclass
class Caller:
    """A caller with a key."""

    service: Served
    key: str

    def ask(self, path: str, method: str = "GET", **body: Any) -> Any:
        """Return status and JSON of an answer."""
        text = json.dumps(body).encode() if body else None
        answer = self.service.ask(path, method, text, X_API_Key=self.key, Content_Type="application/json")
        return answer.status, answer.json() if answer.body else None

    def design(self, problem: dict[str, Any]) -> str:
        """Return the id of a design, new or stored."""
        status, answer = self.ask("/v1/gamma", "POST", **problem)
        assert status == 200
        return str(answer["id"])

    def listed(self, query: str = "") -> set[str]:
        """Return the ids in the list of designs."""
        status, answer = self.ask(f"/v1/designs{query}")
        assert status == 200
        return {design["id"] for design in answer["designs"]}


@pytest.fixture(params=STORE_URLS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return STORE_URLS[request.param](tmp_path)


def test_a_new_key_of_a_client_has_the_jobs_and_webhooks_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    old, old_text = create_key(path, "cluster")
    new_text = create_key(path, "cluster", expires="90d")[1]
    other_text = create_key(path, "other")[1]
    settings = {
        "DARRM_KEYS": "keys.json",
        "DARRM_SHORT_SECONDS": "0",  # every design is a job
        "DARRM_WEBHOOK_SECRET": SECRET,
        "DARRM_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "DARRM_RATE": "0",
        "DARRM_JOB_RATE": "0.001",
        "DARRM_JOB_BURST": "2",
    }
    with serving(tmp_path, **settings) as service:
        before, after, other = (Caller(service, text) for text in (old_text, new_text, other_text))
        job = before.design(FIRST)
        hooks = f"/v1/jobs/{job}/webhooks"
        first = before.ask(hooks, "POST", url="http://127.0.0.1:1/end")[1]
        second = after.ask(hooks, "POST", url="http://127.0.0.1:1/other")[1]
        assert first["secret"] == second["secret"]  # the secret of its signatures
        after.design(SECOND)
        assert after.ask("/v1/gamma", "POST", **THIRD)[0] == 429  # two new problems, one by each key
        revoke_key(path, old.id)
        while before.ask("/v1/jobs")[0] != 401:  # within a second
            pass
        assert {each["id"] for each in after.ask("/v1/jobs")[1]["jobs"]} >= {job}
        assert {each["id"] for each in after.ask(hooks)[1]["webhooks"]} == {first["id"], second["id"]}
        assert other.ask("/v1/jobs")[1]["jobs"] == []
        assert other.ask(hooks)[1]["webhooks"] == []
    assert [key.name for key in list_keys(path)] == ["cluster", "other"]


@pytest.fixture(scope="module", params=STORE_URLS)
def private(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Caller]]:
    folder = tmp_path_factory.mktemp("private")
    path, url = folder / "keys.json", STORE_URLS[request.param](folder)
    roles = {"one": "user", "two": "user", "root": "admin"}
    texts = {name: create_key(path, name, role)[1] for name, role in roles.items()}
    texts |= {f"reader of {name}": create_key(path, name, "reader")[1] for name in ("one", "two")}
    settings = {"DARRM_CACHE_URL": url, "DARRM_KEYS": "keys.json", "DARRM_PRIVATE_DESIGNS": "true"}
    with serving(folder, **settings) as service:
        yield {name: Caller(service, text) for name, text in texts.items()}


def test_only_the_owner_lists_and_reads_private_designs(private: dict[str, Caller]) -> None:
    one, two, root, reader = (private[name] for name in ("one", "two", "root", "reader of one"))
    mine, common = one.design(FIRST), one.design(SECOND)
    asked = {"K": 5, "classes": 3, "target_epsilon": 1.0, "delta": 1e-3, "prior": "favoured(0.5,0.9)"}
    table = one.ask("/v1/plurality", "POST", **asked)[1]["id"]
    assert two.listed() == set()
    for path in (f"/v1/gamma/{mine}", f"/v1/designs/{mine}", f"/v1/designs/{mine}/compare/{mine}"):
        assert (one.ask(path)[0], reader.ask(path)[0], root.ask(path)[0]) == (200, 200, 200)
        assert two.ask(path)[0] == 404
    assert two.ask(f"/v1/jobs/{mine}")[0] == 404
    assert two.ask(f"/v1/designs/{mine}/tags/stolen", "PUT")[0] == 404
    assert two.ask("/v1/estimate", "POST", **FIRST)[1]["stored"] is False
    assert one.ask("/v1/estimate", "POST", **FIRST)[1]["stored"] is True
    assert (one.ask(f"/v1/plurality/{table}")[0], two.ask(f"/v1/plurality/{table}")[0]) == (200, 404)
    # After a full request by the other client it belongs to both; tags remain separate.
    query = "&".join(f"{name}={value}" for name, value in SECOND.items())
    assert one.ask(f"/v1/gamma?{query}")[0] == two.ask(f"/v1/gamma?{query}")[0] == 200
    assert two.listed() == {common}
    assert {mine, common} <= one.listed() <= root.listed()
    assert one.ask(f"/v1/designs/{common}/tags/best", "PUT")[1]["tags"] == ["best"]
    assert two.ask(f"/v1/designs/{common}")[1]["tags"] == []
    assert (one.listed("?tag=best"), two.listed("?tag=best")) == ({common}, set())
    assert two.ask(f"/v1/designs/{common}/tags/best", "DELETE")[0] == 200
    assert one.listed("?tag=best") == {common}
    # A design of an admin belongs to its client, too.
    roots = root.design(THIRD)
    assert roots not in one.listed() | two.listed()


def test_the_nearest_answer_of_another_client_is_not_offered(private: dict[str, Caller]) -> None:
    asked = {"K": 9, "epsilon": 0.5, "target_epsilon": 0.9, "delta": 0.0}
    private["one"].design(asked)
    weaker = asked | {"target_epsilon": 1.0}
    status, answer = private["reader of one"].ask("/v1/gamma", "POST", **weaker)
    assert (status, answer["nearest"]["exact"]) == (200, False)
    assert private["reader of two"].ask("/v1/gamma", "POST", **weaker)[0] == 404


def test_only_the_owner_sees_a_private_job(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    texts = [create_key(path, name)[1] for name in ("one", "two")]
    settings = {
        "DARRM_KEYS": "keys.json",
        "DARRM_PRIVATE_DESIGNS": "true",
        "DARRM_SHORT_SECONDS": "0",  # every design is a job
        "DARRM_WEBHOOK_SECRET": SECRET,
    }
    with serving(tmp_path, **settings) as service:
        one, two = (Caller(service, text) for text in texts)
        job = one.design(FIRST)
        for end in ("", "/result", "/webhooks"):
            assert (one.ask(f"/v1/jobs/{job}{end}")[0], two.ask(f"/v1/jobs/{job}{end}")[0]) == (200, 404)
        assert two.ask(f"/v1/jobs/{job}/events")[0] == 404
        assert two.ask(f"/v1/jobs/{job}/webhooks", "POST", url="https://example.com/end")[0] == 404
        assert two.ask(f"/v1/jobs/{job}/stop", "POST")[0] == two.ask(f"/v1/jobs/{job}", "DELETE")[0] == 404
        # Nor does the page after it reveal it.
        for path_of_list in ("jobs", "designs"):
            assert one.ask(f"/v1/{path_of_list}?after={job}")[0] == 200
            assert (
                two.ask(f"/v1/{path_of_list}?after={job}")[0]
                == two.ask(f"/v1/{path_of_list}?after={'0' * 64}")[0]
                == 422
            )


def test_private_designs_of_a_read_only_store_are_shared(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    first, second = (create_key(path, name)[1] for name in ("one", "two"))
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    of_all: dict[str, Any] = {"keys": path, "private_designs": True, "wait_seconds": 60}
    with TestClient(create_app(Settings(cache_url=url, **of_all))) as client:
        id_ = client.post("/v1/gamma", headers={"X-API-Key": first}, json=FIRST).json()["id"]
    with TestClient(create_app(Settings(cache_url=f"{url}?mode=ro", solve="off", **of_all))) as client:
        answer = client.post("/v1/gamma", headers={"X-API-Key": second}, json=FIRST)
        assert (answer.status_code, answer.json()["id"]) == (200, id_)
        seen = [client.get(f"/v1/gamma/{id_}", headers={"X-API-Key": text}).status_code for text in (first, second)]
        assert seen == [200, 404]  # the request of the second client cannot be recorded


def test_an_evicted_design_is_visible_again_after_a_new_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.service.design_service.GRANTED_SECONDS", 0.0)
    path = tmp_path / "keys.json"
    one, two = ({"X-API-Key": create_key(path, name)[1]} for name in ("one", "two"))
    app = create_app(Settings(keys=path, cache_url="memory", private_designs=True, wait_seconds=60))
    with TestClient(app) as client:

        def listed() -> set[str]:
            return {design["id"] for design in client.get("/v1/designs", headers=one).json()["designs"]}

        first, *_ = [client.post("/v1/gamma", headers=header, json=FIRST).json()["id"] for header in (one, two)]
        designs = app.state.service.store.designs
        size = designs.stored_bytes()
        second = client.post("/v1/gamma", headers=one, json=SECOND).json()["id"]
        assert designs.evict_of_clients(designs.stored_bytes() - size) == 0  # the other client still has it
        assert listed() == {second}
        assert client.get(f"/v1/gamma/{first}", headers=one).status_code == 404
        assert client.post("/v1/gamma", headers=one, json=FIRST).json()["cached"] is True
        assert listed() == {first, second}


def test_private_designs_need_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_PRIVATE_DESIGNS", "true")
    with refused("DARRM_PRIVATE_DESIGNS", "'true'"):
        read_settings()


def test_running_jobs_of_a_client_are_limited(url: str) -> None:
    store = open_store(url)
    jobs: Jobs = store.jobs
    for number in range(4):
        jobs.submit(f"many {number}", "gamma", "{}", client="client many")
    jobs.submit("few", "gamma", "{}", client="client few")
    jobs.submit("nobody's 1", "gamma", "{}")
    jobs.submit("nobody's 2", "gamma", "{}")
    taken: list[str] = []
    while (job := jobs.take(f"owner {len(taken)}", 60.0, max_running=1)) is not None:
        taken.append(job.client)
    assert sorted(taken) == ["", "", "client few", "client many"]
    running = next(job for job in jobs.list("running") if job.client == "client many")
    assert jobs.finish(running.id, running.owner, "{}")
    again = jobs.take("another", 60.0, max_running=1)
    assert again is not None
    assert again.client == "client many"
    assert jobs.take("another still", 60.0, max_running=1) is None
    assert jobs.take("another still", 60.0, max_running=2) is not None
    store.close()


def test_owners_are_recorded_without_private_designs(tmp_path: Path) -> None:
    """So earlier designs become private, too, if an operator turns private designs on."""
    path = tmp_path / "keys.json"
    texts = [create_key(path, name)[1] for name in ("one", "two")]
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    seen: list[set[str]] = []
    for is_private in (False, True):
        app = create_app(Settings(keys=path, cache_url=url, private_designs=is_private, wait_seconds=60))
        with TestClient(app) as client:
            client.post("/v1/gamma", headers={"X-API-Key": texts[0]}, json=FIRST)
            for text in texts:
                answer = client.get("/v1/designs", headers={"X-API-Key": text}).json()
                seen.append({design["id"] for design in answer["designs"]})
    assert seen[0] == seen[1] == seen[2]
    assert (len(seen[0]), seen[3]) == (1, set())
