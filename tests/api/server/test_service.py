"""The whole service: `darrm serve` in separate processes, over sockets, killed and restarted."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.ports import free_ports
from support.served import Service, alive, gone, service
from support.waiting import until

from darrm_client import DarrmClient
from darrm_opt import Problem, verify
from darrm_opt.questions.design import Design
from darrm_opt.record import problem_from_record
from solver_cache import open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="searches /proc for processes"),
]

MNIST = {"K": 11, "m": 3, "epsilon": 0.0892, "Delta": 1e-4}
SECONDS = {"K": 501, "m": 3, "epsilon": 0.1, "Delta": 1e-2}  # a problem that takes seconds and many rounds
MINUTES = {"K": 2001, "m": 3, "epsilon": 0.1, "Delta": 1e-2}  # one that is never finished

LARGE = {"DARRM_MAX_VOTERS": "2001", "DARRM_WAIT_SECONDS": "60"}

JOBS = {"DARRM_SHORT_SECONDS": "0"}  # every design is a job, also a short one


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


def submitted(opened: Service, asked: dict[str, Any]) -> str:
    answer = opened.client.post("/v1/jobs", json=asked).raise_for_status()
    told = answer.json()
    assert answer.headers["location"] == told["location"] == f"/v1/jobs/{told['id']}"
    assert told["id"] == Design(**asked).spec().key
    return str(told["id"])


def proved(answer: dict[str, Any]) -> dict[str, Any]:
    assert verify(problem_from_record(answer["problem"]), answer["gamma"]).margin >= 0
    return answer


def at_work(opened: Service, id: str) -> list[int]:
    """Wait until a job has reported its first round, then return the solver processes."""
    until(lambda: opened.job(id, until="running")["progress"])
    return opened.solvers


def asked_until_there(url: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Request an answer on a new connection, so by any worker; repeat while it is not finished."""
    end = time.monotonic() + 600
    while True:
        with closing(HTTPConnection(url.removeprefix("http://"), timeout=300)) as connection:
            connection.request("POST", "/v1/gamma", json.dumps(asked), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            told = dict(json.load(answer))
        if answer.status == 200:
            return told
        assert answer.status == 202, told
        assert time.monotonic() < end


# ------------------------------------------------------------------------------------------------- single flight


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("workers")
    settings = {**LARGE, **JOBS, "DARRM_WORKERS": "2", "DARRM_SOLVERS": "1", "DARRM_LEASE_SECONDS": "60"}
    with service(f"sqlite:///{folder / 'store.sqlite'}", folder, **settings) as opened:
        yield opened


# ---------------------------------------------------------------------------------------------------------- jobs


def test_a_job_from_submission_to_result(shared: Service) -> None:
    client = shared.client
    ahead, id = submitted(shared, MINUTES), submitted(shared, MNIST)
    pending = client.get(f"/v1/jobs/{id}/result")
    assert (pending.status_code, pending.headers["location"]) == (202, f"/v1/jobs/{id}")
    assert int(pending.headers["retry-after"]) >= 0
    assert submitted(shared, MNIST) == id
    client.delete(f"/v1/jobs/{ahead}").raise_for_status()
    told = shared.job(id, until="done")
    assert (told["kind"], told["attempts"], told["reason"]) == ("gamma", 1, "")
    result = proved(client.get(f"/v1/jobs/{id}/result").raise_for_status().json())
    assert (result["id"], result["status"]) == (id, "optimal")
    again = client.post("/v1/jobs", json=MNIST)
    assert (again.status_code, again.json()["state"]) == (200, "done")
    assert client.post("/v1/gamma", json=MNIST).json()["cached"]
    assert client.delete(f"/v1/jobs/{id}").json()["state"] == "done"  # a finished job does not change

    several = [submitted(shared, {"K": K, "m": 2, "epsilon": 0.1}) for K in (5, 7, 9)]
    for each in several:
        shared.job(each, until="done")
    asked: dict[str, Any] = {"limit": 3, "state": "done", "after": None}
    pages: list[list[str]] = []
    while not pages or asked["after"]:
        page = client.get("/v1/jobs", params={name: value for name, value in asked.items() if value}).json()
        pages.append([job["id"] for job in page["jobs"]])
        asked["after"] = page["next"]
    assert max(map(len, pages)) == 3
    found = [id for page in pages for id in page]
    assert len(found) == len(set(found))
    assert {id, *several} <= {*found}
    assert client.get("/v1/jobs", params={"state": "failed"}).json() == {"jobs": [], "next": None}


@pytest.mark.parametrize(
    ("method", "path", "status", "field"),
    [
        *(("GET", "/v1/jobs/" + 64 * "0" + end, 404, None) for end in ("", "/result", "/events")),
        ("DELETE", "/v1/jobs/" + 64 * "0", 404, None),
        ("GET", "/v1/jobs/none", 422, "id"),
        ("GET", "/v1/jobs?limit=0", 422, "limit"),
        ("GET", "/v1/jobs?limit=1001", 422, "limit"),
        ("GET", "/v1/jobs?limit=x", 422, "limit"),
        ("GET", "/v1/jobs?state=lost", 422, "state"),
        ("GET", "/v1/jobs?after=" + 64 * "0", 422, "after"),
        ("GET", "/v1/jobs?page=2", 422, "page"),
        ("POST", "/v1/jobs", 422, "body"),
    ],
)
def test_invalid_requests_are_answered_with_problem_details(
    shared: Service, method: str, path: str, status: int, field: str | None
) -> None:
    answer = shared.client.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().get("field") == field


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service("memory", tmp_path_factory.mktemp("shared"), **LARGE, DARRM_SOLVERS="1") as opened:
        yield opened


def test_cancelling_ends_the_work_and_frees_the_process(shared: Service) -> None:
    id = submitted(shared, MINUTES)
    at_work(shared, id)
    answers: list[httpx.Response] = []
    waiting = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{shared.url}/v1/gamma", json=MINUTES, timeout=300))
    )
    waiting.start()
    until(lambda: b"darrm_requests_open 2.0" in shared.client.get("/metrics").content)
    assert shared.client.delete(f"/v1/jobs/{id}").json()["state"] == "cancelled"
    while waiting.is_alive():  # a request just after it would submit the job again
        waiting.join(0.5)
        shared.client.delete(f"/v1/jobs/{id}").raise_for_status()
    assert answers[0].status_code == 409
    assert answers[0].json()["type"] == "urn:darrm-opt:problem:cancelled"
    told = shared.client.get(f"/v1/jobs/{id}/result")
    assert told.status_code == 409
    assert told.json()["detail"] == "The job was cancelled. Submit it again to have it tried again."
    # the only process is free again: it stopped after its round or was killed within it
    assert proved(shared.client.post("/v1/gamma", json=MNIST).json())["status"] == "optimal"


# -------------------------------------------------------------------------------------------------------- events


def stream(lines: Any) -> list[dict[str, Any]]:
    """Read server-sent events to the end of their stream."""
    found: list[dict[str, Any]] = []
    event: dict[str, Any] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "" and event:
            found.append(event)
            event = {}
        elif name in {"event", "id"}:
            event[name] = value
        elif name == "data":
            event[name] = json.loads(value)
    return found


def test_events_report_the_progress_and_end_with_the_job(two_workers: Service) -> None:
    id = submitted(two_workers, SECONDS)

    def follow(_: int) -> list[dict[str, Any]]:  # from either worker
        with httpx.stream("GET", f"{two_workers.url}/v1/jobs/{id}/events", timeout=60) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["cache-control"] == "no-store"
            return stream(answer.iter_lines())

    with ThreadPoolExecutor(6) as clients:
        streams = list(clients.map(follow, range(6)))
    for events in streams:
        assert events[-1]["event"] == events[-1]["data"]["state"] == "done"
        assert [int(event["id"]) for event in events] == [*range(1, len(events) + 1)]
    rounds = [event["data"]["progress"] for events in streams for event in events if event["data"]["progress"]]
    assert rounds
    assert all(told["gap"] >= 0 and told["seconds"] > 0 and told["round"] >= 1 for told in rounds)
    with httpx.stream("GET", f"{two_workers.url}/v1/jobs/{id}/events", headers={"Last-Event-ID": "x"}) as answer:
        assert [event["event"] for event in stream(answer.iter_lines())] == ["done"]  # also for a late subscriber


def test_events_end_with_the_server_and_the_job_is_queued_again(url: str, tmp_path: Path) -> None:
    ended: list[dict[str, Any]] = []
    with service(url, tmp_path, **LARGE, DARRM_SOLVERS="1") as opened:
        id = submitted(opened, MINUTES)

        def follow() -> None:
            with httpx.stream("GET", f"{opened.url}/v1/jobs/{id}/events", timeout=60) as answer:
                ended.extend(stream(answer.iter_lines()))

        following = threading.Thread(target=follow)
        following.start()
        pids = at_work(opened, id)
        assert opened.stop()[0] == 0
        following.join(60)
        assert ended[-1]["event"] == "running"
        gone(pids)
    with closing(open_store(url)) as store:
        job = store.jobs.get(id)
        assert job is not None
        assert (job.state, job.attempts) == ("queued", 0)  # the claim was released


# ------------------------------------------------------------------------------------------------ a rolling restart


def test_a_rolling_restart_of_two_servers_on_one_database_loses_nothing(url: str, tmp_path: Path) -> None:
    settings = {"DARRM_SOLVERS": "1", "DARRM_WAIT_SECONDS": "0.2"}
    settings |= {"DARRM_STOP_SECONDS": "1", "DARRM_LEASE_SECONDS": "3"}
    servers = [Service(url, tmp_path, port, **settings) for port in free_ports(2)]
    stop, verified, failures = threading.Event(), [0, 0], list[Exception]()

    def ask(which: int) -> None:
        """Request new problems and unstored work from one server, as a training job does, and collect the answers."""
        with DarrmClient(servers[which].url, retries=30, timeout=300) as client:
            for number in range(10_000):
                if stop.is_set():
                    return
                problem = Problem.from_allowance(K=5 + 2 * (number % 20), m=2 + which, epsilon=0.1 + number / 1000)
                try:
                    client.gamma(problem)
                    client.verify(problem, [0.0] * (problem.K + 1))
                    stop.wait(0.1)
                except Exception as err:  # noqa: BLE001 — collected
                    failures.append(err)
                verified[which] += 1

    try:
        jobs = [submitted(servers[0], {"K": K, "m": 3, "epsilon": 0.1, "Delta": 1e-5}) for K in range(91, 97, 2)]
        with ThreadPoolExecutor(2) as clients:
            asking = [clients.submit(ask, which) for which in (0, 1)]
            try:
                for which in (0, 1):
                    until(lambda which=which, least=verified[which] + 3: verified[which] >= least)
                    port = servers[which].address[1]
                    assert servers[which].stop()[0] == 0
                    servers[which] = Service(url, tmp_path, port, **settings)
            finally:
                stop.set()
            for answered in asking:
                answered.result()
        assert failures == []
        assert min(verified) > 3
        states = [servers[1].job(job, until=("done", "failed", "cancelled"))["state"] for job in jobs]
        assert states == ["done"] * len(jobs)
        for job in jobs:
            proved(servers[0].client.get(f"/v1/jobs/{job}/result").raise_for_status().json())
    finally:
        for each in servers:
            if each.process.poll() is None:
                each.stop()


# ----------------------------------------------------------------------------------------------- kill and restart


def test_a_server_killed_in_the_middle_of_a_solve_finishes_it_after_its_restart(url: str, tmp_path: Path) -> None:
    settings = {**LARGE, "DARRM_SOLVERS": "1", "DARRM_LEASE_SECONDS": "3", "DARRM_WORKERS": "2"}
    with service(url, tmp_path, **settings) as opened:
        done = proved(opened.client.post("/v1/gamma", json=MNIST).raise_for_status().json())
        id = submitted(opened, SECONDS)
        waiting = submitted(opened, {**MNIST, "K": 9})
        opened.job(id, until="running")
        pids = opened.solvers
        opened.kill()
        gone(pids)
    with service(url, tmp_path, **settings) as opened:
        told = opened.job(id, until=("done", "failed"))
        assert told["state"] == "done"
        assert told["attempts"] >= 2  # more on a machine so busy that the claim of a live owner expires
        proved(opened.client.get(f"/v1/jobs/{id}/result").raise_for_status().json())
        assert opened.job(waiting, until="done")["attempts"] >= 1
        kept = opened.client.post("/v1/gamma", json=MNIST).raise_for_status().json()
        assert (kept["cached"], kept["gamma"]) == (True, done["gamma"])


def test_a_killed_worker_is_replaced_and_its_job_taken_over(url: str, tmp_path: Path) -> None:
    settings = {**LARGE, "DARRM_SOLVERS": "1", "DARRM_LEASE_SECONDS": "3", "DARRM_WORKERS": "2"}
    with service(url, tmp_path, **settings) as opened:
        id = submitted(opened, SECONDS)
        opened.job(id, until="running")
        [pid] = until(lambda: opened.solvers)  # the job is claimed before the process starts
        worker = int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
        assert worker != opened.process.pid
        os.kill(worker, signal.SIGKILL)
        gone([pid])

        def finished_job() -> Any:
            with suppress(httpx.TransportError):  # a connection accepted by the killed worker
                job = opened.client.get(f"/v1/jobs/{id}").json()
                return job if job["state"] == "done" else None

        assert until(finished_job)["attempts"] >= 2
        assert not alive(pid)
