"""``python -m benchmarks precompute``: 2,000 problems on processes and on Dask, beside a plain loop over `solve`.

Turn by turn on the same machine: a loop in one process, the processes of this machine, Dask with local workers, each from
an empty store; then what a problem costs whose answer is kept already, with the memory that it takes. What is wanted: on
two processors at least `LEAST_RATIO` times the loop's rate, Dask within `DASK` of the processes, at most `OVERHEAD` a kept
problem, and no more memory for many of them than for few.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solver_cache import Request

LEAST_RATIO = 1.7
DASK = 1.15
OVERHEAD = 1e-3
"""Time for one kept problem [s]."""

MEMORY = 1.2
"""Most memory for all kept problems, in that for a tenth of them."""

GRID: dict[str, Any] = {
    "K": {"from": 3, "to": 51, "step": 4},
    "epsilon": 0.1,
    "Delta": [0, 1e-5],
    "m": ["1", "(K+3)/8", "(K+3)/6", "(K+3)/5", "(K+3)/4", "(K+3)/3"],
    "delta": ["1-(1-Delta)^m", "2*m*Delta", "1e-4", "1e-3", "1e-2", "3e-2", "0.1"],
    "objective": ["rectangular", "shared(1,1) agreement"],
}
PROBLEMS = 2_000
WAYS = ("loop", "processes", "dask")


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, what was wanted, and whether it is so."""

    what: str
    seen: str
    wanted: str = ""
    met: bool | None = None


def requests(many: int) -> list[Request]:
    """Return so many different problems of `GRID`, spread over all of it."""
    from solver_cache.precompute.grid import grid_of

    found = list({request.key: request for request in grid_of(GRID).requests()}.values())
    step = max(1.0, len(found) / many)
    return [found[int(i * step)] for i in range(min(many, len(found)))]


def timed(way: str, many: int, workers: int, folder: Path) -> dict[str, float]:
    """Solve the problems one way, in this process and those that it starts; return how many and how long it took."""
    from api.estimating import seconds_of
    from darrm_opt import Problem, solve
    from solver_cache import open_store
    from solver_cache.precompute.cluster import Cluster
    from solver_cache.precompute.executor import Executor
    from solver_cache.precompute.plan import make_plan
    from solver_cache.precompute.processes import Processes
    from solver_cache.precompute.run import run

    asked = requests(many)
    if way == "loop":
        solve(Problem.from_allowance(K=7, m=2, epsilon=0.1, Delta=1e-5))  # imports
        began = time.perf_counter()
        for request in asked:
            solve(request.problem, request.objective, request.shape)
        return {"problems": len(asked), "seconds": time.perf_counter() - began}
    with closing(open_store(f"sqlite:///{folder / way}.sqlite")) as store:
        began = time.perf_counter()  # starting the workers counts
        executor: Executor = Processes(workers) if way == "processes" else Cluster(None, workers)
        with closing(executor):
            outcome = run(make_plan(asked, store, seconds_of), store, executor, seconds_of)
            seconds = time.perf_counter() - began
        return {"problems": outcome.progress.solved, "seconds": seconds}


def kept(many: int, folder: Path) -> dict[str, float]:
    """Plan a grid whose answers are all kept; return the time and the peak of memory."""
    import sqlite3

    from api.estimating import seconds_of
    from solver_cache import open_store
    from solver_cache.precompute.grid import grid_of
    from solver_cache.precompute.plan import make_plan

    url = f"sqlite:///{folder / f'kept-{many}'}.sqlite"
    open_store(url).close()
    side = math.ceil(math.sqrt(many / 10))
    grid = grid_of(
        {
            "K": {"from": 3, "to": 21, "step": 2},
            "epsilon": 0.1,
            "Delta": 1e-5,
            "m": {"from": 1, "to": 2, "points": side},
            "delta": {"from": 1e-6, "to": 1e-2, "points": side},
        }
    )
    with closing(sqlite3.connect(folder / f"kept-{many}.sqlite")) as file:
        insert = "INSERT INTO darrm_solutions (key, core, record, digest, created) VALUES (?, 1, '{}', '', '')"
        file.executemany(insert, ((request.key,) for request in grid.requests()))
        file.commit()
    with closing(open_store(url)) as store:
        began = time.perf_counter()
        plan = make_plan(grid.requests(), store, seconds_of)
        seconds = time.perf_counter() - began
    if plan.missing:
        raise RuntimeError(f"{plan.missing} problems are missing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"problems": plan.problems, "seconds": seconds, "peak": peak}


def rows(many: int, workers: int, cached: int, repeats: int) -> Iterator[Row]:
    """Measure everything, turn by turn; yield the lines of the table."""
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    solved = 0.0
    for _ in range(repeats):
        for way in WAYS:
            found = _apart("timed", way, many, workers)
            took[way].append(found["seconds"])
            solved = found["problems"]
    best = {way: min(seconds) for way, seconds in took.items()}
    for way in WAYS:
        yield Row(f"{way}: {solved:,.0f} problems", f"{best[way]:.1f} s, {solved / best[way]:.1f} a second")
    ratio, dask = best["loop"] / best["processes"], best["dask"] / best["processes"]
    yield Row(f"{workers} processes against the loop", f"{ratio:.2f}×", f"≥ {LEAST_RATIO}×", ratio >= LEAST_RATIO)
    yield Row(f"Dask, {workers} workers, against the processes", f"{dask:.2f}× the time", f"≤ {DASK}×", dask <= DASK)
    few, all_ = (_apart("kept", number) for number in (cached // 10, cached))
    each, grown = all_["seconds"] / all_["problems"], all_["peak"] / few["peak"]
    name = f"a kept problem, of {all_['problems']:,.0f}"
    yield Row(name, f"{1e3 * each:.3f} ms", f"≤ {1e3 * OVERHEAD:g} ms", each <= OVERHEAD)
    yield Row("memory, against that for a tenth", f"{grown:.2f}×", f"≤ {MEMORY}×", grown <= MEMORY)


def main(words: list[str] | None = None) -> None:
    """Measure, print the table, and fail if something is not as wanted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks precompute", description=__doc__)
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cached", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="file that the table is written to")
    asked = parser.parse_args(words)
    load = os.getloadavg()[0]
    lines = ["| what | measured | wanted | met |", "|---|---|---|---|"]
    wrong = 0
    for row in rows(asked.problems, asked.workers, asked.cached, asked.repeats):
        met = {None: "", True: "yes", False: "**no**"}[row.met]
        wrong += row.met is False
        lines.append(f"| {row.what} | {row.seen} | {row.wanted} | {met} |")
        print(lines[-1], flush=True)
    head = f"`python -m benchmarks precompute`, {os.cpu_count()} cores, load {load:.1f} at the start; the best of {asked.repeats}."
    if asked.output is not None:
        asked.output.write_text("\n".join([head, "", *lines, ""]), encoding="utf-8")
    sys.exit(bool(wrong))


def _apart(task: str, *arguments: Any) -> dict[str, float]:
    """Return what a task of this file measures in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "benchmarks.precompute", json.dumps([task, *arguments, folder])]
        root = Path(__file__).resolve().parent.parent
        done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, check=True)
        measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return measured


def _here(words: str) -> None:
    task, *arguments = json.loads(words)
    if task == "timed":
        way, many, workers, folder = arguments
        found = timed(way, many, workers, Path(folder))
    else:
        many, folder = arguments
        found = kept(many, Path(folder))
    print(json.dumps(found))


if __name__ == "__main__":
    _here(sys.argv[1])
