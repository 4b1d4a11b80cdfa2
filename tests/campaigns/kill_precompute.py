"""Is a table the same, bit for bit, whatever is killed while it is made?

A driver (`darrm precompute` in all but the counting), a Dask scheduler and Dask workers, each a process of its own, on
loopback addresses of their own, against one PostgreSQL. At random moments one of them is killed by ``kill -9`` and
started again, until so many have died and the table is complete. One worker at a time is cut off instead: stopped in
the middle of its work until its leases have run out and others have taken over, then let go on, to find that its claims
are lost.

    PYTHONPATH=tests python -m campaigns.kill_precompute --kills 50

What is shown: the table equals that of a loop in one process; every key is stored, once, by one owner, and nobody holds
it any more; and each was solved to completion exactly once more than it was lost. The workers write down what they
complete, a trigger in the database who held the claim that ended as its answer was stored: every other completion must
be one of a process that was killed (or ended with its scheduler), or one whose claim was lost to another owner while
its process was cut off.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from support import postgres
from support.paths import SEARCH_PATH

from campaigns.counted_work import counts, lines, undisturbed
from campaigns.driver import read_options, say, table
from solver_cache import Row, open_store

VICTIMS = [*4 * ["worker 1", "worker 2"], *2 * ["driver"], "scheduler"]
"""Who is killed how often: with the scheduler everyone begins again, which takes long."""

LEASE = 4.0
"""Lease of a claim [s]: what a killed process leaves comes free so soon."""

CUT = 1.5 * LEASE
"""How long a worker is stopped [s]."""

HOSTS = {"scheduler": "127.0.0.2", "worker 1": "127.0.0.3", "worker 2": "127.0.0.4"}
GRID: dict[str, Any] = {
    "grid": [
        {"K": 35, "epsilon": 0.1, "Delta": [1e-5, 1e-4], "m": {"from": 1.5, "to": 12, "step": 0.25}},
        {"K": [11, 21, 51], "epsilon": [0.05, 0.1, 0.2], "Delta": [0, 1e-5], "m": [2, 3, 4, 5]},
    ]
}

_DRIVER = """
import sys
from contextlib import closing
from darrm_opt.answers.tables import design_seconds
from campaigns.counted_work import counted
from solver_cache import open_store
from solver_cache.precompute.cluster import Cluster
from solver_cache.precompute.grid import read_grid
from solver_cache.precompute.plan import make_plan
from solver_cache.precompute.scheduler import RunOptions, run
grid, url, scheduler, lease = sys.argv[1:]
with closing(open_store(url)) as store:
    plan = make_plan(read_grid(grid).specs(), store, design_seconds)
    with closing(Cluster(scheduler, work=counted)) as executor:
        print("at work", flush=True)
        outcome = run(plan, store, executor, RunOptions(store_url=url, lease=float(lease), attempts=1000))
sys.exit(bool(outcome.failures))
"""

_AUDIT = """
CREATE TABLE audit (key text, owner text, what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.owner <> OLD.owner THEN INSERT INTO audit VALUES (OLD.key, OLD.owner, 'taken over'); END IF;
    ELSIF EXISTS (SELECT FROM darrm_solutions WHERE key = OLD.key) THEN
        INSERT INTO audit VALUES (OLD.key, OLD.owner, 'stored');
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER note AFTER UPDATE OR DELETE ON darrm_claims DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION note();
"""
"""Triggers that note, as the transaction ends, whose claim ended with its answer stored, and whose was taken over."""


_READY_MESSAGES = {"scheduler": b"Scheduler at:", "worker": b"Registered to:", "driver": b"at work"}
"""What a process says once it is there."""


@dataclass
class Tally:
    """What a campaign came to."""

    kills: Counter[str] = field(default_factory=Counter)  # processes killed, by what they were
    cut: int = 0  # workers that were stopped for longer than their leases
    problems: int = 0  # in all the tables that were made
    begun: int = 0  # solves begun
    completed: int = 0  # solves that came to their end
    lost: int = 0  # completed solves that were lost with their process
    outrun: int = 0  # completed solves whose claim another owner had taken over
    taken_over: int = 0  # claims that another took after their owner was lost
    wrong: list[str] = field(default_factory=list)  # what is not as it should be; empty, or the run is
    seconds: float = 0.0  # how long it took [s]


class Surroundings:
    """The processes of a run; each is started again when it is not there."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        (folder / "grid.json").write_text(json.dumps(GRID))
        with socket.create_server((HOSTS["scheduler"], 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"tcp://{HOSTS['scheduler']}:{self._port}"
        self._environment = {**os.environ, "PYTHONPATH": SEARCH_PATH, "COUNTED": str(folder / "counted")}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: set[int] = set()
        self.cut: set[int] = set()
        self._logged: dict[str, int] = {}

    def mend(self) -> None:
        """Start whatever is not there, but the driver when it is done."""
        for name in (*HOSTS, "driver"):
            process = self.processes.get(name)
            running_codes = (None, 0) if name == "driver" else (None,)
            if process is not None and process.poll() in running_codes:
                continue
            if process is not None:
                self.ended.add(process.pid)
            with (self._folder / f"{name}.log").open("ab") as log:
                self._logged[name] = log.tell()
                self.processes[name] = subprocess.Popen(
                    self._command(name), cwd=self._folder, env=self._environment, stdout=log, stderr=log
                )

    def at_work(self, name: str) -> bool:
        """Whether a process has come so far that killing it cuts something short."""
        offset, file = self._logged[name], self._folder / f"{name}.log"
        log = file.read_bytes()[offset:]
        return self.processes[name].poll() is None and _READY_MESSAGES[name.rstrip(" 12")] in log

    def over(self) -> bool:
        """Whether the driver came to its end."""
        return self.processes["driver"].poll() == 0

    def close(self) -> None:
        """Kill everything."""
        for process in self.processes.values():
            if process.poll() is not None:
                self.ended.add(process.pid)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(30)

    def _command(self, name: str) -> list[str]:
        if name == "driver":
            return [
                *(sys.executable, "-c", _DRIVER),
                *(str(self._folder / "grid.json"), self._url, self.address, str(LEASE)),
            ]
        if name == "scheduler":
            options = ["--host", HOSTS[name], "--port", str(self._port), "--no-dashboard"]
            return [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
        options = [self.address, "--host", HOSTS[name], "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        return [sys.executable, "-m", "distributed.cli.dask_worker", *options]


def campaign(kills: int, seed: int, pause: tuple[float, float], seconds: float = math.inf) -> Tally:
    """Kill so many processes, or for so long [s], then let the run end; if it ends before, begin with a new store."""
    tally, rng, began = Tally(), random.Random(seed), time.monotonic()
    expected_rows = undisturbed(GRID)
    while tally.kills.total() < kills and time.monotonic() - began < seconds:
        with tempfile.TemporaryDirectory() as name:
            killed_run(Path(name), expected_rows, kills, rng, pause, tally, began + seconds)
        print(f"{time.monotonic() - began:.0f} s", *report(tally), *tally.wrong, sep="\n", file=sys.stderr)  # noqa: T201
    tally.seconds = time.monotonic() - began
    return tally


def killed_run(
    folder: Path,
    expected_rows: list[Row],
    kills: int,
    rng: random.Random,
    pause: tuple[float, float],
    tally: Tally,
    deadline: float,
) -> None:
    """Make the table once, killing until then (by `time.monotonic`)."""
    name = postgres.server().new()
    url = postgres.server().url(name)
    open_store(url).close()
    postgres.server().sql(name, _AUDIT)
    surroundings, begun_before = Surroundings(folder, url), 0
    end = time.monotonic() + 1800
    with closing(surroundings):
        surroundings.mend()
        while not surroundings.over():
            if time.monotonic() > end:
                tally.wrong.append("the run does not end")
                return
            time.sleep(rng.uniform(*pause))
            if surroundings.over() or tally.kills.total() >= kills or time.monotonic() > deadline:
                surroundings.mend()
                continue
            victim = rng.choice(VICTIMS)
            begun = counts(folder / "counted", "begun").total()
            if begun == begun_before or not surroundings.at_work(victim):  # else nothing would be cut short
                surroundings.mend()
                continue
            begun_before = begun
            if victim.startswith("worker") and rng.random() < 0.1:
                surroundings.cut.add(surroundings.processes[victim].pid)
                _stop_for_a_while(surroundings.processes[victim])
                tally.cut += 1
            else:
                surroundings.processes[victim].kill()
                surroundings.processes[victim].wait(30)
                tally.kills[victim.split()[0]] += 1
            surroundings.mend()
    look(folder, name, expected_rows, surroundings, tally)


def look(folder: Path, name: str, expected_rows: list[Row], surroundings: Surroundings, tally: Tally) -> None:
    """Hold what came of it against an undisturbed run."""
    server = postgres.server()
    with closing(open_store(server.url(name))) as store:
        if [*store.rows()] != expected_rows:
            tally.wrong.append("the table differs from that of an undisturbed run")
    if claims := server.sql(name, "SELECT key, owner FROM darrm_claims"):
        tally.wrong.append(f"claims that nobody ended: {claims}")
    owners: dict[str, set[str]] = {row.key: set() for row in expected_rows}
    for line in server.sql(name, "SELECT key, owner FROM audit WHERE what = 'stored'").splitlines():
        key, _, owner = line.partition("|")
        owners[key].add(owner)
    events = lines(folder / "counted")
    tally.taken_over += int(server.sql(name, "SELECT count(*) FROM audit WHERE what = 'taken over'"))
    tally.problems += len(expected_rows)
    tally.begun += sum(line.word == "begun" for line in events)
    tally.completed += sum(line.word == "done" for line in events)
    refused = {(line.key, line.owner) for line in events if line.word == "refused"}
    for key in (row.key for row in expected_rows):
        key_owners = owners[key]
        completions = [line for line in events if (line.word, line.key) == ("done", key)]
        if sum(line.owner in key_owners for line in completions) != 1:
            tally.wrong.append(f"{key}: stored by {key_owners}, completed by {completions}")
        lost_completions = [line for line in completions if line.owner not in key_owners]
        outrun = [line for line in lost_completions if (key, line.owner) in refused or line.process in surroundings.cut]
        tally.outrun += len(outrun)
        tally.lost += len(lost_completions) - len(outrun)
        tally.wrong += [
            f"lost without a reason: {line}"
            for line in lost_completions
            if line not in outrun and line.process not in surroundings.ended
        ]
    if tally.completed != tally.problems + tally.lost + tally.outrun:
        tally.wrong.append(f"{tally.completed} completions of {tally.problems} problems")


def _stop_for_a_while(process: subprocess.Popen[bytes]) -> None:
    """Stop a process for longer than its leases last, as a network that fails would, and let it go on."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGSTOP)
        time.sleep(CUT)
        process.send_signal(signal.SIGCONT)


def report(tally: Tally) -> Iterator[str]:
    """Yield what came of it, as lines of a page."""
    kinds = ", ".join(f"{number} {kind}s" for kind, number in sorted(tally.kills.items()))
    counts = (tally.cut, tally.problems, tally.begun, tally.completed, tally.lost, tally.outrun, tally.taken_over)
    head = ("killed", "cut off", "problems", "solves begun", "completed", "lost with a process", "lost with a claim")
    faults = f"**{len(tally.wrong)}**" if tally.wrong else "none"
    yield from table((*head, "claims taken over", "wrong"), [(f"{tally.kills.total()} ({kinds})", *counts, faults)])


def main() -> int:
    """Run the campaign, print what came of it; return 1 if anything is wrong."""
    pause, minutes = ([0.2, 1.5], "between kills [s]"), (math.inf, "kill for so long at most")
    options = read_options(__doc__, None, kills=50, seed=1, pause=pause, minutes=minutes, json=False)
    tally = campaign(options.kills, options.seed, tuple(options.pause), 60 * options.minutes)
    found = asdict(tally) | {"kills": dict(tally.kills)}  # a Counter is copied wrongly by Python 3.11
    say(*([json.dumps(found)] if options.json else [*report(tally), *tally.wrong]))
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
