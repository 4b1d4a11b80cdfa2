"""Are stores intact after ``kill -9``, with everything that was acknowledged?

Writers solve, store answers and finish jobs, and report each step once the store has acknowledged it. They are killed at
random moments: while they create the store, open it or write to it. After each kill another process opens the store and
checks it: the file is intact, every acknowledged answer is there and proved again, every job reported as done is done
with its result, and a job that was only submitted can be claimed and finished.

    PYTHONPATH=tests python -m campaigns.kill_store --kills 200 --write docs/faults.md
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.driver import origin, publish, read_options, say, table
from darrm_opt import Problem
from solver_cache import DesignSpec, Store, cached_solve, open_store, validate_row
from solver_cache.database.jobs import Jobs

for _name in ("solver_cache.database", "filelock", "psycopg", "darrm_opt.design.backends.highs"):
    importlib.import_module(_name)  # what a writer needs is there before it is forked

LONGEST = 1.0  # latest moment at which a writer is killed [s]; it opens the store in the first tenth, or two
FRESH = 0.25  # share of the rounds with a new store, whose creation is interrupted
HELD = 0.001  # lease of a job [s]: its successor can claim it at once

KINDS = ("sqlite", "postgresql")


@dataclass
class Tally:
    kills: int = 0  # processes killed
    early: int = 0  # those that had not yet opened the store
    kept: int = 0  # answers that were said to be kept
    done: int = 0  # jobs that were said to be done
    resumed: int = 0  # jobs that a killed writer left, and another finished
    lost: list[str] = field(default_factory=list)  # what was said and is not there, or is wrong; empty, or the store is

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def write(url: str, name: str, out: int) -> None:
    """Work as a writer until killed; report each step once it is done."""

    def say(*words: str) -> None:
        os.write(out, (" ".join(words) + "\n").encode())

    store = open_store(url)
    say("opened")
    for number in range(10_000):
        job = f"{name}-{number:04}"
        store.jobs.submit(job, job, "{}")
        say("submitted", job)
        if store.jobs.take(name, HELD, kinds=[job]) is None:
            say("wrong", f"{job} cannot be claimed")
        step = int.from_bytes(hashlib.sha256(job.encode()).digest()[:4], "little")
        problem = Problem.from_allowance(K=5, m=2, epsilon=0.1 + step * 1e-10)
        answer = cached_solve(problem, store=store)
        key = DesignSpec(problem).key
        say(*(["kept", key] if answer.stored else ["wrong", f"{key} is not kept: {answer.trouble}"]))
        if store.jobs.finish(job, name, key):
            say("done", job, key)


def killed(url: str, names: Sequence[str], moments: Sequence[float]) -> list[str]:
    """Run writers, and kill each at its moment [s]; return their reports."""
    writers = []
    for name in names:
        reader, out = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.close(reader)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                try:
                    write(url, name, out)
                except Exception as err:  # noqa: BLE001 — the parent tells
                    os.write(out, f"wrong {name}: {err!r}\n".replace("\n", " ").encode() + b"\n")
            os._exit(1)
        os.close(out)
        writers.append((child, reader))
    start, output = time.monotonic(), b""
    for (child, _), moment in sorted(zip(writers, moments, strict=True), key=lambda item: item[1]):
        time.sleep(max(0.0, start + moment - time.monotonic()))
        os.kill(child, signal.SIGKILL)
    for child, reader in writers:
        os.waitpid(child, 0)
        with open(reader, "rb") as pipe:  # noqa: PTH123 — a descriptor
            output += pipe.read()
    return output.decode().splitlines()


def looked_at(store: Store, lines: Sequence[str], kills: int) -> Tally:
    """Return the outcome of a round: check every report, and finish the jobs left behind."""
    tally = Tally(kills=kills, early=kills - lines.count("opened"))
    tally.lost += [f"damaged: {fault}" for fault in store.integrity_errors()]
    submitted, results = set[str](), dict[str, str]()
    for line in lines:
        word, _, value = line.partition(" ")
        if word == "wrong":
            tally.lost.append(value)
        elif word == "submitted":
            submitted.add(value)
        elif word == "kept":
            tally.kept += 1
            row = store.get(value)
            if row is None or validate_row(row).decision != "hit":
                tally.lost.append(f"answer {value}: {'gone' if row is None else validate_row(row).reason}")
        elif word == "done":
            tally.done += 1
            job, _, key = value.partition(" ")
            results[job] = key
    tally.resumed = resumed(store.jobs)
    for job in sorted(submitted):
        stored_job = store.jobs.get(job)
        if stored_job is None or stored_job.state != "done" or stored_job.result != results.get(job, stored_job.result):
            tally.lost.append(f"job {job}: {stored_job}")
    return tally


def resumed(jobs: Jobs) -> int:
    """Claim and finish the jobs of killed writers; return their number."""
    time.sleep(2 * HELD)
    finished = 0
    while (job := jobs.take("the next", 60)) is not None:
        finished += jobs.finish(job.id, "the next", "resumed")
    return finished


class Places:
    """Stores of the rounds: one that grows, and now and then a new one."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._number = 0
        self.grown = self.new()

    def new(self) -> str:
        self._number += 1
        if self._kind == "postgresql":
            from support import postgres

            return postgres.server().new_store()
        return f"sqlite:///{self._folder / f'{self._number:04}.sqlite'}"


def campaign(kills: int, seed: int, kind: str) -> Tally:
    """Kill writers of one kind of database, two at a time; return the outcome."""
    rng, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as folder:
        places = Places(kind, Path(folder))
        number = 0
        while tally.kills < kills:
            is_new = rng.random() < FRESH
            url = places.new() if is_new else places.grown
            moments = [rng.uniform(0, LONGEST / (3 if is_new else 1)) for _ in range(2)]
            lines = killed(url, [f"{number}-{letter}" for letter in "ab"], moments)
            with closing(open_store(url)) as store:
                tally.add(looked_at(store, lines, len(moments)))
            number += 1
        with closing(open_store(places.grown)) as store:  # once more, all of it
            tally.lost += [
                f"{row.key}: {validate_row(row).reason}" for row in store.rows() if validate_row(row).decision != "hit"
            ]
            counts = store.jobs.counts()
            tally.lost += [f"{count} jobs are {state}" for state, count in counts.items() if count and state != "done"]
    return tally


def lines(tallies: dict[str, Tally]) -> Iterator[str]:
    head = ("store", "killed", "before opening", "answers stored", "jobs done", "jobs taken over", "lost or wrong")
    rows = []
    for kind, tally in tallies.items():
        counts = (tally.kills, tally.early, f"{tally.kept:,}", f"{tally.done:,}", f"{tally.resumed:,}")
        rows.append((kind, *counts, f"**{len(tally.lost)}**" if tally.lost else "none"))
    yield from table(head, rows)


def main() -> int:
    kind = ([*KINDS], "kinds of store")
    options = read_options(__doc__, None, kills=200, seed=1, kind=kind, json=False, write=Path)
    tallies = {kind: campaign(options.kills, options.seed, kind) for kind in options.kind}
    if options.json:
        say(json.dumps({kind: vars(tally) for kind, tally in tallies.items()}))
    else:
        command = f"python -m campaigns.kill_store --kills {options.kills} --seed {options.seed}"
        publish("kill_store", [*lines(tallies), "", origin(command)], options.write)
    return int(any(tally.lost for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
