"""Long work as jobs, in turns and separate from short work; and jobs of γ with incumbents."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support import solver_tasks as tasks
from support.waiting import until

from api.access.keys import create_key
from api.app import create_app
from api.settings import Settings
from api.tasks import design
from api.tasks.design import DesignTask, design_gamma
from darrm_opt import Problem, verify
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.questions.registry import QUESTIONS
from darrm_opt.record import DesignSpec, problem_from_record

COMPARE = {"K": 3, "epsilon": 0.3, "queries": 2, "total_epsilon": 1.0, "total_delta": 1e-3}
ASKED: dict[str, dict[str, Any]] = {
    "compare": COMPARE,
    "plan": {"K": 3, "epsilon": 0.5, "affected": 1, "queries": 3, "total_epsilon": 1.0},
    "profile": {"K": 5, "m": 2, "epsilon": 0.1, "points": 5, "gamma": [0.4, 0.2, 0.1, 0.1, 0.2, 0.4]},
    "tradeoff": {"K": 5, "epsilon": 0.1, "ms": [1, 2]},
    "compose": {"epsilon": 0.1, "delta": 1e-6, "queries": 10},
    "verify": {"K": 3, "m": 1, "epsilon": 0.1, "gamma": [0.1, 0.03, 0.03, 0.1]},
    "plurality": {"K": 3, "classes": 3, "target_epsilon": 1.0, "delta": 1e-3},
}
WAYS = {"K": 3, "classes": 3, "total_epsilon": 1.0, "total_delta": 0.0, "queries": 2}
LESS_PRIVATE = mechanism_class("exponential").of(3, 3, 10.0).record()
LARGE = {"K": 101, "m": 3, "epsilon": 0.1, "Delta": 1e-5}


@contextmanager
def client_of(url: str = "memory", **more: Any) -> Iterator[TestClient]:
    chosen = {"cache_url": url, "solvers": 1, "wait_seconds": 0.0, "lease_seconds": 60.0, "rate": 0.0, **more}
    with TestClient(create_app(Settings(**chosen))) as client:
        yield client


def followed(
    client: TestClient, id: str, states: tuple[str, ...] = ("done", "failed"), **headers: Any
) -> dict[str, Any]:
    def job_in_state() -> Any:
        job = client.get(f"/v1/jobs/{id}", headers=headers).raise_for_status().json()
        return job["state"] in states and job

    return dict(until(job_in_state))


def as_new(answer: Any) -> Any:
    """Return an answer with all "cached" set to false."""
    return json.loads(json.dumps(answer).replace('"cached": true', '"cached": false'))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short work count as short on a busy machine, limited by its processor time."""
    monkeypatch.setattr("api.service.resources.QUEUE_LIMIT_SECONDS", 600.0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


# ------------------------------------------------------------------------------------------------ long work is a job


@pytest.fixture(scope="module")
def at_once() -> Iterator[TestClient]:
    """A service that answers short work at once, also on a busy machine."""
    with client_of(short_seconds=10.0, wait_seconds=60.0) as client:
        yield client


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the service in which all work is long."""
    return tmp_path_factory.mktemp("long") / "store.sqlite"


@pytest.fixture(scope="module")
def by_jobs(long_store: Path) -> Iterator[TestClient]:
    """A service in which all work is long."""
    with client_of(f"sqlite:///{long_store}", short_seconds=0.0) as client:
        yield client


@pytest.fixture(scope="module")
def patient() -> Iterator[TestClient]:
    """A service that waits for its solves."""
    with client_of(wait_seconds=60.0) as client:
        yield client


@pytest.mark.parametrize("kind", ASKED)
def test_long_work_is_a_job_with_the_same_answer_as_short_work(
    at_once: TestClient, by_jobs: TestClient, kind: str
) -> None:
    short = at_once.post(f"/v1/{kind}", json=ASKED[kind])
    assert short.status_code == 200, short.text
    pending = by_jobs.post(f"/v1/{kind}", json=ASKED[kind])
    assert pending.status_code == 202, pending.text
    told = pending.json()
    assert pending.headers["location"] == told["location"] == f"/v1/jobs/{told['id']}"
    assert int(pending.headers["retry-after"]) >= 0
    assert told["kind"] == kind
    job = followed(by_jobs, told["id"])
    assert (job["state"], job["kind"], job["problem"]) == ("done", kind, None)
    assert job["question"].items() <= ASKED[kind].items()
    assert job["estimated_seconds"] > 0
    result = by_jobs.get(job["result"])
    assert result.status_code == 200
    again = by_jobs.post(f"/v1/{kind}", json=ASKED[kind])
    assert again.status_code == 200

    assert as_new(result.json()) == as_new(short.json()) == as_new(again.json())
    if "cached" in again.json():
        assert again.json()["cached"]  # it was stored when the job ended
    jobs = by_jobs.get("/v1/jobs").json()["jobs"]
    assert [job["id"] for job in jobs].count(told["id"]) == 1
    assert by_jobs.delete(f"/v1/jobs/{told['id']}").json()["state"] == "done"
    events = by_jobs.get(job["events"]).text
    assert "event: done" in events


def test_a_search_reports_its_steps(by_jobs: TestClient) -> None:
    asked = {"K": 7, "epsilon": 0.2, "Delta": 1e-4, "utility": 0.9}
    pending = by_jobs.post("/v1/least", json=asked).json()
    assert pending["kind"] == "least"
    with by_jobs.stream("GET", f"{pending['location']}/events") as events:
        lines = [json.loads(line.removeprefix("data: ")) for line in events.iter_lines() if line.startswith("data: {")]
    assert lines[-1]["state"] == "done"
    assert all(set(line["progress"]) == {"done", "of", "step"} for line in lines if line["progress"])
    job = by_jobs.get(pending["location"]).json()
    assert job["question"] == asked
    assert by_jobs.get(job["result"]).json()["value"] == by_jobs.post("/v1/least", json=asked).json()["value"]


def test_tables_of_long_work_are_returned_on_the_next_request(by_jobs: TestClient) -> None:
    asked: dict[str, Any] = {"params": {"K": 5, "epsilon": 0.2, "ms": "1,2"}, "headers": {"Accept": "text/csv"}}
    followed(by_jobs, by_jobs.get("/v1/tradeoff", **asked).json()["id"])
    table = by_jobs.get("/v1/tradeoff", **asked)
    assert table.status_code == 200
    assert table.text.splitlines()[0].startswith("m,target_epsilon")


def test_long_work_is_refused_by_estimate_or_runs_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    with client_of(max_work_seconds=20.0) as client:
        service = client.app.state.service  # type: ignore[attr-defined]
        run = service.solvers.run

        async def watched(*arguments: Any, **more: Any) -> Any:
            limits.append(more["time_limit"])
            return await run(*arguments, **more)

        monkeypatch.setattr(service.solvers, "run", watched)
        refused = client.post("/v1/compare", json={**COMPARE, "K": 101, "queries": 3000, "fresh": True})
        assert limits == []
        assert refused.status_code == 422
        assert refused.json()["type"].endswith(":too-much-work")
        assert refused.json()["estimated_seconds"] > 20
        admitted = client.post("/v1/compare", json={**COMPARE, "queries": 80})
        assert admitted.status_code == 202
        assert followed(client, admitted.json()["id"])["state"] == "done"
    assert limits == [2 * 20.0]  # estimates are mostly right within a factor of two


TAMPERED: list[tuple[str, dict[str, Any], Callable[[dict[str, Any]], Any]]] = [
    ("tradeoff", {"epsilon": 0.25}, lambda told: told["answer"]["points"][0].update(gamma=[1.0] * 6)),
    ("tradeoff", {"epsilon": 0.26}, lambda told: told["answer"]["points"][0].update(utility=0.99)),
    ("tradeoff", {"epsilon": 0.27}, lambda told: told["answer"].update(utility=[0.98, 0.99])),
    ("tradeoff", {"epsilon": 0.3}, lambda told: told.update(answer=[])),
    ("plurality/options", WAYS, lambda told: told["answer"].update(mechanism=LESS_PRIVATE)),
]


@pytest.mark.parametrize(("kind", "change", "tamper"), TAMPERED)
def test_a_tampered_result_is_computed_again(
    by_jobs: TestClient, long_store: Path, kind: str, change: dict[str, Any], tamper: Callable[[dict[str, Any]], Any]
) -> None:
    asked = ASKED.get(kind, {}) | change
    id = by_jobs.post(f"/v1/{kind}", json=asked).json()["id"]
    followed(by_jobs, id)
    right = by_jobs.get(f"/v1/jobs/{id}/result").json()
    with closing(sqlite3.connect(long_store)) as database, database:
        [(text,)] = database.execute("SELECT result FROM darrm_jobs WHERE id = ?", (id,))
        told = json.loads(text)
        tamper(told)
        assert told != json.loads(text)
        database.execute("UPDATE darrm_jobs SET result = ? WHERE id = ?", (json.dumps(told), id))
    assert by_jobs.get(f"/v1/jobs/{id}/result").status_code == 202
    assert followed(by_jobs, id)["state"] == "done"
    assert as_new(by_jobs.get(f"/v1/jobs/{id}/result").json()) == as_new(right)


# --------------------------------------------------------------------------------------------------- queues and turns


def test_short_work_does_not_wait_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUESTIONS, "compare", tasks.EndlessCompare)
    with client_of(wait_seconds=30.0) as client:
        jobs = []
        for queries in (100, 101, 102):
            long = {**COMPARE, "queries": queries, "total_epsilon": 1.0}
            client.app.state.service.settings.__dict__["wait_seconds"] = 0.0  # type: ignore[attr-defined]
            jobs.append(client.post("/v1/compare", json=long).json()["id"])
        client.app.state.service.settings.__dict__["wait_seconds"] = 300.0  # type: ignore[attr-defined]
        followed(client, jobs[0], states=("running",))
        assert client.post("/v1/verify", json=ASKED["verify"]).status_code == 200
        assert client.post("/v1/compose", json=ASKED["compose"]).status_code == 200
        assert client.get("/v1/gamma", params={"K": 5, "m": 2, "epsilon": 0.1}).status_code == 200  # a small γ, solved
        assert client.get("/v1/error-curve", params={"K": 5, "m": 2, "epsilon": 0.1, "points": 3}).status_code == 200
        assert [client.get(f"/v1/jobs/{job}").json()["state"] for job in jobs] == ["running", "queued", "queued"]
        for id in jobs:
            assert client.delete(f"/v1/jobs/{id}").json()["state"] == "cancelled"


def test_a_wrong_estimate_moves_its_kind_of_work_to_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(short_seconds=0.3) as client:
        assert client.post("/v1/tradeoff", json=ASKED["tradeoff"]).status_code == 200
        monkeypatch.setitem(QUESTIONS, "tradeoff", tasks.EndlessTradeoff)
        resources = client.app.state.service  # type: ignore[attr-defined]
        stopped = {name: resources.pools[name].killed for name in ("compute", "quick")}
        with monkeypatch.context() as meanwhile:
            for queue in resources.queues:
                meanwhile.setattr(queue, "processor_limit", 0.2)  # the libraries are loaded
            jobs = [client.post("/v1/tradeoff", json={**ASKED["tradeoff"], "ms": [1, m]}) for m in (1.5, 2.5, 3)]
        assert [job.status_code for job in jobs] == [202, 202, 202]
        for name, number in stopped.items():  # only the first was tried there
            assert resources.pools[name].killed == number + 1
        assert client.post("/v1/verify", json=ASKED["verify"]).status_code == 200
        for job in jobs:
            client.delete(f"/v1/jobs/{job.json()['id']}").raise_for_status()


def test_a_certificate_does_not_wait_for_work_of_a_second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(QUESTIONS, "tradeoff", tasks.BlockedTradeoff)
    monkeypatch.setenv(tasks.GATE, str(tmp_path / "gate"))
    with client_of(short_seconds=5.0) as client, ThreadPoolExecutor() as threads:
        resources = client.app.state.service  # type: ignore[attr-defined]
        question = {"K": 101, "epsilon": 0.1, "Delta": 1e-5, "ms": [3, 4]}
        short = threads.submit(client.post, "/v1/tradeoff", json=question)
        until(lambda: resources.pools["quick"].tasks)
        for _ in range(3):
            assert client.post("/v1/verify", json=ASKED["verify"]).status_code == 200
        assert (resources.pools["quick"].busy, short.done()) == (1, False)
        (tmp_path / "gate").touch()
        assert short.result().status_code == 200


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str, str]:
    path = tmp_path / "keys.json"
    return path, create_key(path, "greedy")[1], create_key(path, "polite")[1]


def test_a_greedy_key_delays_a_polite_one_by_one_running_job(keys: tuple[Path, str, str], url: str) -> None:
    path, greedy, polite = keys
    with client_of(url, keys=path, short_seconds=0.0) as client:
        mine = {"Authorization": f"Bearer {greedy}"}
        many = [{"K": 21 + 2 * (i % 5), "m": 2, "epsilon": 0.1 + i / 1000, "Delta": 1e-4} for i in range(200)]
        results = client.post("/v1/gamma/batch", json={"problems": many}, headers=mine).json()["results"]
        assert {item["status"] for item in results} <= {200, 202}
        theirs = {"X-API-Key": polite}
        asked = client.post("/v1/gamma", json={"K": 5, "m": 2, "epsilon": 0.1}, headers=theirs)
        assert asked.status_code == 202
        followed(client, asked.json()["id"], ("done",), **theirs)
        jobs: list[dict[str, Any]] = client.get("/v1/jobs", params={"limit": 300}, headers=mine).json()["jobs"]
        polite_done = client.get(f"/v1/jobs/{asked.json()['id']}", headers=theirs).json()["updated"]
        submitted = client.get(f"/v1/jobs/{asked.json()['id']}", headers=theirs).json()["created"]
        between = [job for job in jobs if job["state"] == "done" and submitted < job["updated"] < polite_done]
        assert len(between) <= 2  # the running job, and one claimed at the same time
        assert sum(job["state"] == "queued" for job in jobs) > 50


def test_other_keys_neither_list_nor_cancel_a_job(
    keys: tuple[Path, str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, one, two = keys
    monkeypatch.setattr(design, "design_gamma", tasks.endless_gamma)
    first, second = ({"X-API-Key": key} for key in (one, two))

    def listed(headers: dict[str, str]) -> list[str]:
        return [job["id"] for job in client.get("/v1/jobs", headers=headers).json()["jobs"]]

    with client_of(url, keys=path) as client:
        id = client.post("/v1/jobs", json=LARGE, headers=first).json()["id"]
        followed(client, id, ("running",), **first)
        assert (listed(first), listed(second)) == ([id], [])
        refused = client.delete(f"/v1/jobs/{id}", headers=second)
        assert (refused.status_code, refused.json()["detail"]) == (404, f"There is no job {id}.")
        assert client.get(f"/v1/jobs/{id}", headers=first).json()["state"] == "running"
        assert client.post("/v1/gamma", json=LARGE, headers=second).status_code == 202  # so it belongs to both
        assert listed(second) == [id]
        assert client.delete(f"/v1/jobs/{id}", headers=first).json()["state"] == "running"
        assert listed(first) == []
        assert client.delete(f"/v1/jobs/{id}", headers=second).json()["state"] == "cancelled"


# ------------------------------------------------------------------------------------------------------- incumbents


def test_progress_shows_only_certified_gammas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.tasks.design.FIRST_INCUMBENT_SECONDS", 0.0)
    monkeypatch.setattr("api.tasks.design.INCUMBENT_SHARE", 1e9)
    problem = Problem.from_allowance(K=51, m=4, epsilon=0.1, Delta=1e-3)
    reports: list[dict[str, Any]] = []
    found = design_gamma((DesignTask(DesignSpec(problem), "cuts", "highs"), 60.0), reports.append)["record"]
    shown = [report["incumbent"] for report in reports if report["incumbent"] is not None]
    assert shown
    for record in shown:
        assert verify(problem, record["gamma"]).margin >= 0
        assert record["utility"] <= found["upper_bound"] + 1e-12
        assert record["upper_bound"] >= found["utility"] - 1e-12
        assert record["gap"] == max(0.0, record["upper_bound"] - record["utility"])
    assert [record["utility"] for record in shown] == sorted(record["utility"] for record in shown)


@pytest.mark.parametrize(("gap", "epsilon"), [(0.5, 0.1), (1e-4, 0.11)])
def test_a_request_ends_at_its_gap(patient: TestClient, gap: float, epsilon: float) -> None:
    asked = {"K": 51, "m": 4, "epsilon": epsilon, "Delta": 1e-3, "gap": gap}
    found = patient.post("/v1/gamma", json=asked).json()
    assert found["gap"] <= gap
    assert found["status"] in {"interrupted", "optimal"}
    assert verify(problem_from_record(found["problem"]), found["gamma"]).margin >= 0
    assert (
        patient.post("/v1/gamma", json=asked).json()["gamma"] == found["gamma"]
    )  # its gap suffices, so it is not solved again
    best = patient.post("/v1/gamma", json={**asked, "gap": None}).json()
    assert best["status"] == "optimal"
    assert best["utility"] >= found["utility"] - 1e-12
    assert best["id"] == found["id"]


def test_a_request_may_have_a_time_limit(patient: TestClient) -> None:
    asked = {"K": 51, "m": 4, "epsilon": 0.12, "Delta": 1e-3}
    found = patient.post("/v1/gamma", json={**asked, "time_limit": 1e-6}).json()
    assert found["status"] == "time limit"
    assert "its gap bounds the distance to the optimum" in found["advice"]
    assert patient.post("/v1/gamma", json={**asked, "time_limit": 1e-6}).json()["gamma"] == found["gamma"]
    assert patient.post("/v1/gamma", json=asked).json()["status"] == "optimal"
    for name, value in (("time_limit", 0), ("time_limit", -1), ("gap", 1), ("gap", -0.1)):
        refused = patient.post("/v1/gamma", json={**asked, name: value})
        assert (refused.status_code, refused.json()["field"]) == (422, name)


def test_a_job_is_stopped_with_its_incumbent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "design_gamma", tasks.gamma_with_incumbent)
    with (
        client_of(url) as client,
        client_of(url, solve="off") as other,
    ):  # stopped through a server that does not solve it
        id = client.post("/v1/jobs", json=LARGE).json()["id"]
        until(lambda: (followed(client, id, ("running",))["progress"] or {}).get("incumbent"))
        shown = client.get(f"/v1/jobs/{id}").json()["progress"]["incumbent"]
        assert shown["gap"] == pytest.approx(shown["upper_bound"] - shown["utility"])
        stopped = other.post(f"/v1/jobs/{id}/stop")
        assert (stopped.status_code, stopped.json()["state"]) == (200, "done")
        for one in (client, other):
            result = one.get(f"/v1/jobs/{id}/result").json()
            assert result["gamma"] == shown["gamma"]
            assert result["status"] == "interrupted"
            assert verify(problem_from_record(result["problem"]), result["gamma"]).margin >= 0
        service = client.app.state.service  # type: ignore[attr-defined]
        until(lambda: not service.pools["solvers"].busy)
        monkeypatch.undo()
        again = client.post("/v1/gamma", json=LARGE)
        assert again.status_code == 202  # a request for the optimum is solved
        assert followed(client, id)["state"] == "done"
        assert client.get(f"/v1/jobs/{id}/result").json()["status"] == "optimal"
        assert client.post(f"/v1/jobs/{'0' * 64}/stop").status_code == 404
        assert client.post(f"/v1/jobs/{id}/stop").json()["state"] == "done"


# --------------------------------------------------------------------------------------------------- damaged rows


@pytest.fixture(scope="module")
def service_and_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Path]]:
    """A service, and the file of its store."""
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    with client_of(f"sqlite:///{path}", wait_seconds=60.0) as client:
        yield client, path


DAMAGE = [
    *(("state", "no state"), ("request", "{"), ("request", '{"problem": {"K": 5}}'), ("progress", "no progress")),
    *(("attempts", "many"), ("updated", 1e300), ("result", "no result")),
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_a_damaged_job_is_reported_and_repaired(service_and_store: tuple[TestClient, Path], number: int) -> None:
    (client, path), (column, value) = service_and_store, DAMAGE[number]
    asked = {"K": 5, "m": 2, "epsilon": 0.1 + number / 100, "time_limit": 1e-9}
    id = client.post("/v1/gamma", json=asked).json()["id"]
    with closing(sqlite3.connect(path)) as database, database:
        command = f"UPDATE darrm_jobs SET {column} = ? WHERE id = ?"  # noqa: S608 — names of this test
        database.execute(command, (value, id))
    assert client.get(f"/v1/jobs/{id}").status_code == 200
    assert client.get("/v1/jobs").status_code == 200
    assert client.get(f"/v1/jobs/{id}/result").status_code in {200, 202, 409}
    assert client.get(f"/v1/jobs/{id}/events").status_code == 200
    answer = client.post("/v1/gamma", json={**asked, "time_limit": 60})
    assert (answer.status_code, answer.json()["status"]) == (200, "optimal")
    assert client.get(f"/v1/jobs/{id}").json()["state"] == "done"
