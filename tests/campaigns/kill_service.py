"""Is anything lost or wrong when the service is killed at any moment?

A real server over one SQLite file, with workers and solver processes, serves clients, each a process of its own, that
request random designs and record every answer. Repeatedly a random one of them is killed by SIGKILL and started again:
the server, a worker, a solver process or a client. At the end

- the store opens, and every row in it is proved again (`solver_cache.check`);
- every answer that any client received is private, and is still the stored answer, bit by bit;
- every submitted job ends, and no job that a client saw done has another state afterwards.

    PYTHONPATH=tests python -m campaigns.kill_service --kills 200
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from argparse import SUPPRESS
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from support.paths import SEARCH_PATH
from support.ports import free_ports
from support.served import Service, gone, workers_of
from support.waiting import until

from campaigns.driver import read_options, say
from darrm_opt import verify
from darrm_opt.record import problem_from_record
from solver_cache import check, open_store

VICTIMS = ("server", "worker", "solver", "client")

CLIENTS = 3

PAUSE = 0.7  # longest time between a start and the next kill [s]; drawn uniformly

BREATH = 30.0
"""Longest wait for an answer [s], in the half of the rounds that begin with one: on a busy machine no client would
otherwise live long enough to receive any."""

RECOVERY = 120.0  # longest time from the last kill to the next answer [s]

SETTINGS = {
    "DARRM_WORKERS": "2",
    "DARRM_SOLVERS": "1",
    "DARRM_LEASE_SECONDS": "3",
    "DARRM_WAIT_SECONDS": "5",
    "DARRM_SHORT_SECONDS": "0",  # every design is a job
    "DARRM_MAX_VOTERS": "101",
}


@dataclass
class Outcome:
    kills: Counter[str] = field(default_factory=Counter)  # by victim
    answers: int = 0  # that clients got and wrote down
    # that were submitted, by the state in which they are at the end
    jobs: Counter[str] = field(default_factory=Counter)
    rows: int = 0  # kept at the end, each proved again
    wrong: list[str] = field(default_factory=list)  # what should not be, in words; empty, or the product is wrong
    seconds: float = 0.0  # that it took


def problem(random_: random.Random) -> dict[str, Any]:
    """Return a random problem, most of them small, some of a tenth of a second and more."""
    K = random_.choice([5, 7, 9, 11, 15, 21, 35, 51, 75])  # 324 problems in all: many are asked for again
    epsilon, Delta = random_.choice([0.05, 0.1, 0.2, 0.4]), random_.choice([0.0, 1e-5, 1e-4])
    return {"K": K, "m": random_.randint(1, 3), "epsilon": epsilon, "Delta": Delta}


# ------------------------------------------------------------------------------------------------------- a client


def client(url: str, path: Path, seed: int) -> None:
    """Request designs for ever, directly or as jobs, and record each answer before the next request."""
    random_ = random.Random(seed)
    with httpx.Client(base_url=url, timeout=20) as http, path.open("a", encoding="utf-8") as file:
        while True:
            try:
                answer = _ask(http, problem(random_), waits=random_.random() < 0.5)
            except (httpx.TransportError, httpx.HTTPStatusError):  # it was killed just now, or is not there yet
                time.sleep(0.05)
                continue
            if answer is not None:
                record = {name: answer[name] for name in ("id", "problem", "gamma", "status")}
                file.write(json.dumps(record) + "\n")
                file.flush()
                os.fsync(file.fileno())


def _ask(http: httpx.Client, problem: dict[str, Any], *, waits: bool) -> dict[str, Any] | None:
    if waits:
        answer = http.post("/v1/gamma", json=problem).raise_for_status()
        return dict(answer.json()) if answer.status_code == 200 else None
    job = http.post("/v1/jobs", json=problem).raise_for_status().json()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        answer = http.get(job["result"]).raise_for_status()
        if answer.status_code == 200:
            return dict(answer.json())
        time.sleep(0.02)
    return None


# -------------------------------------------------------------------------------------------------- the campaign


class Campaign:
    """A server, its clients, and their killer.

    Args:
        folder: for the store and the records of the clients.
        seed: of all choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.url = f"sqlite:///{folder / 'store.sqlite'}"
        (self.port,) = free_ports(1)
        self.outcome = Outcome()
        self.service = self._serve()
        self.clients = [self._client() for _ in range(CLIENTS)]

    def run(self, kills: int, seconds: float) -> Outcome:
        """Kill until the number or the time is reached; then check what is left."""
        began = time.monotonic()
        try:
            while sum(self.outcome.kills.values()) < kills and time.monotonic() - began < seconds:
                if self.random.random() < 0.5:
                    self._breathe()
                time.sleep(self.random.uniform(0, PAUSE))
                self._kill(self.random.choice(VICTIMS))
            if not self._breathe(RECOVERY):
                self.outcome.wrong.append(f"no client got an answer within {RECOVERY:.0f} s of the last kill")
        finally:
            for process in self.clients:
                process.kill()
                process.wait()
        self._settle()
        self._look()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _breathe(self, seconds: float = BREATH) -> bool:
        count, end = len(self._answers()), time.monotonic() + seconds
        while len(self._answers()) <= count and time.monotonic() < end:
            time.sleep(0.05)
        return len(self._answers()) > count

    def _kill(self, victim: str) -> None:
        if victim == "client":
            number = self.random.randrange(CLIENTS)
            self.clients[number].kill()
            self.clients[number].wait()
            self.clients[number] = self._client()
        elif victim == "server":
            self.service.kill()
            self.service = self._serve()
        else:
            server = self.service.process.pid
            pids = self.service.solvers if victim == "solver" else until(lambda: workers_of(server))
            if not pids:
                return
            with_pid = self.random.choice(pids)
            try:
                os.kill(with_pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            gone([with_pid])
        self.outcome.kills[victim] += 1

    def _serve(self) -> Service:
        return Service(self.url, self.folder, port=self.port, **SETTINGS)

    def _client(self) -> subprocess.Popen[bytes]:
        number = self.random.getrandbits(32)
        command = [sys.executable, "-m", "campaigns.kill_service", "--client", f"http://127.0.0.1:{self.port}"]
        return subprocess.Popen(
            [*command, "--seed", str(number), "--folder", str(self.folder)],
            env={**os.environ, "PYTHONPATH": SEARCH_PATH},
            stderr=subprocess.DEVNULL,
        )

    def _settle(self) -> None:
        client_, faults = self.service.client, self.outcome.wrong
        end = time.monotonic() + 300
        for state in ("running", "queued"):
            while client_.get("/v1/jobs", params={"state": state, "limit": 1}).raise_for_status().json()["jobs"]:
                if time.monotonic() > end:
                    faults.append(f"a job stays {state}")
                    break
                time.sleep(0.1)
        if self.service.stop()[0] != 0:
            faults.append("the server did not stop in order")

    def _look(self) -> None:
        outcome = self.outcome
        store = open_store(self.url)
        try:
            outcome.wrong += [f"{finding.key}: {finding.trouble}" for finding in check(store)]
            gammas = {row.key: json.loads(row.record)["gamma"] for row in store.rows()}
            outcome.rows = len(gammas)
            outcome.jobs = Counter({state: count for state, count in store.jobs.counts().items() if count})
            failed_jobs = store.jobs.list(state="failed")
            outcome.wrong += [f"{job.id} failed: {job.reason}" for job in failed_jobs if not _is_excused(job.reason)]
            for answer in self._answers():
                outcome.answers += 1
                if verify(problem_from_record(answer["problem"]), answer["gamma"]).margin < 0:
                    outcome.wrong.append(f"{answer['id']} was answered by a γ that is not private")
                job = store.jobs.get(answer["id"])
                if job is None or job.state != "done":
                    outcome.wrong.append(f"{answer['id']} was answered, and its job is {job and job.state}")
                if answer["status"] == "optimal" and gammas.get(answer["id"]) != answer["gamma"]:
                    outcome.wrong.append(f"{answer['id']} was answered otherwise than it is kept")
        finally:
            store.close()

    def _answers(self) -> list[dict[str, Any]]:
        files = sorted(self.folder.glob("client-*.jsonl"))
        lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines(keepends=True)]
        return [json.loads(line) for line in lines if line.endswith("\n")]


def _is_excused(reason: str) -> bool:
    return "killed by SIGKILL" in reason or "the server died" in reason


def main() -> int:
    options = read_options(
        __doc__, None, kills=200, seconds=3600.0, seed=1, folder=(Path, SUPPRESS), client=(str, SUPPRESS)
    )
    if options.client:
        client(options.client, options.folder / f"client-{options.seed}.jsonl", options.seed)
    with tempfile.TemporaryDirectory() as folder:
        outcome = Campaign(Path(folder), options.seed).run(options.kills, options.seconds)
    say(
        f"kills    {sum(outcome.kills.values())}: {dict(sorted(outcome.kills.items()))}",
        *(f"answers  {outcome.answers}", f"jobs     {dict(outcome.jobs)}", f"rows     {outcome.rows}"),
        *(f"seconds  {outcome.seconds:.0f}", f"wrong    {outcome.wrong or 'nothing'}"),
    )
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
