"""Two servers over one PostgreSQL: one solve per problem, and no wrong answer during an outage of the database."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import postgres
from support.served import Service, service
from support.waiting import until
from test_service import asked_until_there

from darrm_opt import verify
from darrm_opt.record import problem_from_record
from solver_cache import check, open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="searches /proc for processes"),
]

HOW = {
    "DARRM_SOLVERS": "1",
    "DARRM_SHORT_SECONDS": "0",  # every design is a job
    "DARRM_WAIT_SECONDS": "5",
    "DARRM_READY_SECONDS": "0",
    "DARRM_LEASE_SECONDS": "5",
}
SECONDS = {"K": 75, "m": 5, "epsilon": 0.1, "Delta": 1e-5}


def solves(*opened: Service) -> float:
    """Return the number of solves of these servers."""
    text = "\n".join(each.client.get("/metrics").raise_for_status().text for each in opened)
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("darrm_solves_total{"))


def test_two_servers_over_one_database_solve_a_problem_once(database_server: postgres.Postgres, tmp_path: Path) -> None:
    url = database_server.url(database_server.new())
    patient = {**HOW, "DARRM_LEASE_SECONDS": "60", "DARRM_WAIT_SECONDS": "60"}
    with service(url, tmp_path, **patient) as one, service(url, tmp_path, **patient) as other:
        with ThreadPoolExecutor(60) as clients:
            urls = [one.url, other.url] * 30
            answers = list(clients.map(lambda at: asked_until_there(at, SECONDS), urls))
        assert {json.dumps(answer["gamma"]) for answer in answers} == {json.dumps(answers[0]["gamma"])}
        assert verify(problem_from_record(answers[0]["problem"]), answers[0]["gamma"]).margin >= 0
        for opened in (one, other):
            told = opened.job(answers[0]["id"])
            assert (told["state"], told["attempts"]) == ("done", 1)
            assert opened.client.get(f"/v1/gamma/{answers[0]['id']}").json()["gamma"] == answers[0]["gamma"]
        assert solves(one, other) == 1


class Client(threading.Thread):
    """Requests small problems from one server until stopped, and records the answers."""

    def __init__(self, url: str, number: int) -> None:
        super().__init__(daemon=True)
        self._url, self._number = url, number
        self.answers: dict[str, dict[str, Any]] = {}
        self.statuses: Counter[int] = Counter()
        self.odd: list[str] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        """Send requests until stopped."""
        with httpx.Client(base_url=self._url, timeout=120) as client:
            for i in range(100_000):
                if self.stopped.wait(0.1):
                    return
                problem = {"K": 5 + 2 * (i % 6), "m": 1 + (i + self._number) % 40 / 10, "epsilon": 0.1, "Delta": 1e-5}
                answer = client.post("/v1/gamma", json=problem)
                self.statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    told = answer.json()
                    known = self.answers.setdefault(told["id"], told)
                    if known["gamma"] != pytest.approx(told["gamma"], abs=1e-9):  # solved again if it was not stored
                        self.odd.append(f"{told['id']} was answered in two ways")
                elif answer.status_code not in {202, 503} or "postgres" in answer.text:
                    self.odd.append(answer.text)


def test_the_database_is_stopped_killed_and_started_under_load(
    database_server: postgres.Postgres, tmp_path: Path
) -> None:
    url = database_server.url(database_server.new())
    with service(url, tmp_path, **HOW) as one, service(url, tmp_path, **HOW) as other:
        clients = [Client(each.url, number) for number, each in enumerate((one, other, one, other))]
        for client in clients:
            client.start()
        for end_it in (database_server.stop, database_server.kill):
            seen = [client.statuses[200] for client in clients]
            until(lambda seen=seen: all(c.statuses[200] > n for c, n in zip(clients, seen, strict=True)))
            end_it()
            until(lambda: one.client.get("/readyz").status_code == 503)
            told = one.client.get("/readyz").json()
            assert "database" in told["detail"]
            assert "secret" not in json.dumps(told)
            assert one.client.get("/healthz").status_code == 200
            database_server.start()
            for each in (one, other):
                until(lambda each=each: each.client.get("/readyz").status_code == 200)
        for client in clients:
            client.stopped.set()
            client.join(300)
        assert [client.odd for client in clients] == [[], [], [], []]
        for state in ("running", "queued"):
            until(lambda state=state: not one.client.get("/v1/jobs", params={"state": state}).json()["jobs"])
        for each in (one, other):
            assert each.stop()[0] == 0
    store = open_store(url)
    try:
        assert list(check(store)) == []
        kept = {row.key: json.loads(row.record)["gamma"] for row in store.rows()}
        counts = store.jobs.counts()
        assert counts["failed"] == counts["cancelled"] == 0
        assert counts["done"] > 0
        for client in clients:
            for (
                id_,
                answer,
            ) in (
                client.answers.items()
            ):  # answered while it could not be stored, then solved again with the same result
                assert verify(problem_from_record(answer["problem"]), answer["gamma"]).margin >= 0
                assert kept.get(id_, answer["gamma"]) == pytest.approx(answer["gamma"], abs=1e-9)
    finally:
        store.close()
