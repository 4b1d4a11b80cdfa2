"""``python -m benchmarks precompute``: 6,000 problems on processes and on Dask, beside a plain loop over `solve`.

Turn by turn on the same machine, in another order each time, each from an empty store: a loop in one process, as many
loops at once as there are workers, the processes of this machine, one such process, Dask with local workers, processes
that write to the store themselves, and four processes; then what a problem costs whose answer is stored already, with
the memory that it takes. Loops store nothing and share nothing: the gain of several at once over one bounds what the
processors of this machine allow, and the gain of two processes is stated as a share of it, too. On paper four cores
take a quarter of the processor time of all, workers and driver, and as long as each of the four processes here had
nothing to do, which is neither running nor waiting for a core (Linux says how long: ``schedstat``); one process takes
its own. What is wanted: at most `SOLVE_SECONDS` a problem in the loop, on two processors at least `MIN_RATIO` times the
rate of one process, on paper `MIN_PAPER_RATIO` times on `CORES` cores, Dask within `DASK` of the processes, at most
`OVERHEAD` a stored problem, and no more memory for many of them than for few.

Processes and the Dask cluster are there, with their imports, before they are used, as the loop has its imports behind
it, and the run is planned (`darrm precompute` starts its processes while it plans); the time for that is a line of its
own.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solver_cache import DesignSpec

MIN_RATIO = 1.85
CORES, MIN_PAPER_RATIO = 4, 3.4
DASK = 1.15
SOLVE_SECONDS = 1e-3  # time for one problem in the loop [s]
OVERHEAD = 1e-3  # time for one problem whose answer is stored [s]
MEMORY = 1.2  # most memory for all stored problems, in that for a tenth of them

GRID: dict[str, Any] = {
    "K": {"from": 3, "to": 51, "step": 2},
    "epsilon": [0.1, 0.2],
    "Delta": [0, 1e-5],
    "m": ["1", "(K+3)/8", "(K+3)/6", "(K+3)/5", "(K+3)/4", "(K+3)/3"],
    "delta": ["1-(1-Delta)^m", "2*m*Delta", "1e-4", "1e-3", "1e-2", "3e-2", "0.1"],
    "objective": ["rectangular", "shared(1,1) agreement"],
}
PROBLEMS = 6_000
WAYS = ("loop", "loops", "processes", "one", "dask", "direct", "four")
_PAIR = ("one", "processes")
_WORKERS = {"one": 1, "four": CORES}
MINUTES = 12.0  # time for all of it
FILLING = 2.0  # time to fill a store with made-up rows and to look them up, over the time to look them up


@dataclass(frozen=True)
class PrecomputeRow:
    """One line of the table: what was measured, what was wanted, and whether it is so."""

    name: str
    measured: str
    wanted: str = ""
    met: bool | None = None


def specs(count: int) -> list[DesignSpec]:
    """Return so many different problems of `GRID`, spread over all of it; it has some 7,000."""
    from solver_cache.precompute.grid import grid_of

    grid_specs = list({spec.key: spec for spec in grid_of(GRID).specs()}.values())
    if count > len(grid_specs):
        raise ValueError(f"{count} problems of a grid of {len(grid_specs)}")
    return [grid_specs[i * len(grid_specs) // count] for i in range(count)]


def timed(method: str, count: int, workers: int, folder: Path) -> dict[str, float]:
    """Solve the problems one way, in this process and those that it starts; return how many and how long it took."""
    from darrm_opt import Problem, solve
    from darrm_opt.answers.tables import design_seconds
    from solver_cache import DesignSpec, open_store
    from solver_cache.precompute.cluster import Cluster
    from solver_cache.precompute.executor import Executor, Processes
    from solver_cache.precompute.plan import make_plan
    from solver_cache.precompute.scheduler import RunOptions, run

    problems = specs(count)
    if method == "loop":
        solve(Problem.from_allowance(K=7, m=2, epsilon=0.1, Delta=1e-5))  # imports
        began = time.perf_counter()
        for spec in problems:
            solve(spec.problem, spec.objective, spec.shape)
        return {"problems": len(problems), "seconds": time.perf_counter() - began, "processor": _processor()}
    workers = _WORKERS.get(method, workers)
    url = f"sqlite:///{folder / method}.sqlite"
    with closing(open_store(url)) as store:
        began = time.perf_counter()
        executor: Executor = Cluster(None, workers) if method == "dask" else Processes(workers)
        with closing(executor):
            warm_up = (DesignSpec(Problem.from_allowance(K=7, m=2, epsilon=0.1, Delta=i * 1e-5)) for i in range(9))
            run(make_plan(warm_up, open_store("memory"), design_seconds), open_store("memory"), executor)  # imports
            plan = make_plan(problems, store, design_seconds)
            processes = executor.processes if isinstance(executor, Processes) else ()
            before = [_schedule_times(process) for process in processes]
            ready, driver = time.perf_counter(), time.process_time()
            outcome = run(plan, store, executor, RunOptions(store_url=url if method == "direct" else ""))
            seconds, driver = time.perf_counter() - ready, time.process_time() - driver
            after = [_schedule_times(process) for process in processes]
    if outcome.progress.solved != len(problems):
        raise RuntimeError(f"{outcome.progress.solved} of {len(problems)} were solved")
    used = [(a[0] - b[0], a[1] - b[1]) for b, a in zip(before, after, strict=True)]
    return {
        "problems": len(problems),
        "seconds": seconds,
        "starting": ready - began,
        "processor": _processor(),
        "driver": driver,
        "solving": sum(running for running, _ in used),
        "idle": seconds - sum(busy for _, busy in used) / len(used) if used else 0.0,
    }


def _schedule_times(process: int) -> tuple[float, float]:
    """Return how long all threads of a process have run, and how long its first one ran or waited for a core [s]."""
    threads = sorted(Path(f"/proc/{process}/task").iterdir(), key=lambda thread: int(thread.name))
    times = [[int(word) / 1e9 for word in (thread / "schedstat").read_text().split()[:2]] for thread in threads]
    return sum(running for running, _ in times), sum(times[0])


def on_paper(one: dict[str, float], four: dict[str, float]) -> float:
    """Return how many times the rate of one process `CORES` cores would have, by the idle times of both runs."""
    return (one["solving"] + one["idle"]) / ((four["solving"] + four["driver"]) / CORES + four["idle"])


def _order(turn: int) -> list[str]:
    """Return the ways in an order of this turn's own, so that none always follows the same one.

    One process and several are next to each other: what the machine gives changes within a minute.
    """
    rng = random.Random(turn)  # noqa: S311 — nothing here is secret
    other_methods = rng.sample([method for method in WAYS if method not in _PAIR], len(WAYS) - len(_PAIR))
    position = rng.randint(0, len(other_methods))
    return [*other_methods[:position], *rng.sample(_PAIR, len(_PAIR)), *other_methods[position:]]


def _timed_apart(method: str, count: int, workers: int, limit: float) -> dict[str, float]:
    """Return what `timed` measures in a process of its own; of loops, the slowest of several at once."""
    if method != "loops":
        return _apart("timed", limit, method, count, workers)
    with ThreadPoolExecutor(workers) as pool:
        loops = list(pool.map(lambda _: _apart("timed", limit, "loop", count, workers), range(workers)))
    processor = sum(times["processor"] for times in loops)
    seconds = max(times["seconds"] for times in loops)
    return {"problems": workers * count, "seconds": seconds, "processor": processor}


def _processor() -> float:
    """Return the processor time of this process and of those that it started and that are over [s]."""
    usages = (resource.getrusage(process) for process in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def stored(count: int, folder: Path) -> dict[str, float]:
    """Plan a grid whose answers are all stored; return the time and the peak of memory."""
    import sqlite3

    from darrm_opt.answers.tables import design_seconds
    from solver_cache import CORE, open_store
    from solver_cache.precompute.grid import grid_of
    from solver_cache.precompute.plan import make_plan

    url = f"sqlite:///{folder / f'stored-{count}'}.sqlite"
    open_store(url).close()
    side = max(2, math.ceil(math.sqrt(count / 10)))
    grid = grid_of(
        {
            "K": {"from": 3, "to": 21, "step": 2},
            "epsilon": 0.1,
            "Delta": 1e-5,
            "m": {"from": 1, "to": 2, "points": side},
            "delta": {"from": 1e-6, "to": 1e-2, "points": side},
        }
    )
    with closing(sqlite3.connect(folder / f"stored-{count}.sqlite")) as file:
        insert = "INSERT INTO darrm_solutions (key, core, record, digest, created) VALUES (?, ?, '{}', '', '')"
        file.executemany(insert, ((spec.key, CORE) for spec in grid.specs()))
        file.commit()
    with closing(open_store(url)) as store:
        began = time.perf_counter()
        plan = make_plan(grid.specs(), store, design_seconds)
        seconds = time.perf_counter() - began
    if plan.missing:
        raise RuntimeError(f"{plan.missing} problems are missing")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"problems": plan.problems, "seconds": seconds, "peak": peak}


def rows(count: int, workers: int, cached: int, repeats: int, minutes: float = MINUTES) -> Iterator[PrecomputeRow]:
    """Measure everything, turn by turn; yield the lines of the table.

    Args:
        count: problems to be solved.
        workers: processes, and Dask workers.
        cached: stored problems to be looked up; fewer where the time does not suffice.
        repeats: turns; fewer where the time does not suffice.
        minutes: time for all of it.

    Raises:
        RuntimeError: not all problems were solved, or a part was not over in time.
    """
    end = time.monotonic() + 60 * minutes
    small = _apart("stored", end - time.monotonic(), max(10, cached // 10))
    lookup = small["seconds"] / small["problems"]
    turns: list[dict[str, dict[str, float]]] = []
    longest = 0.0
    while len(turns) < repeats and (not turns or end - time.monotonic() > longest + FILLING * lookup * cached):
        began = time.monotonic()
        turns.append(
            {method: _timed_apart(method, count, workers, end - time.monotonic()) for method in _order(len(turns))}
        )
        longest = max(longest, time.monotonic() - began)
    for method in WAYS:
        best = min((turn[method] for turn in turns), key=lambda times: times["seconds"])
        rate, processor = best["problems"] / best["seconds"], 1e3 * best["processor"] / best["problems"]
        yield PrecomputeRow(
            f"{_NAMES[method]}: {best['problems']:,.0f} problems",
            f"{best['seconds']:.1f} s, {rate:.0f} a second, {processor:.1f} ms of processor time each",
        )
    mean = min(turn["loop"]["seconds"] / turn["loop"]["problems"] for turn in turns)
    wanted = f"≤ {1e3 * SOLVE_SECONDS:g} ms"
    yield PrecomputeRow("a problem in the loop", f"{1e3 * mean:.2f} ms", wanted, mean <= SOLVE_SECONDS)
    for method, label in (("processes", f"starting {workers} processes"), ("dask", "starting the Dask cluster")):
        yield PrecomputeRow(f"{label}, before", f"{min(turn[method]['starting'] for turn in turns):.1f} s")
    ratios = [turn["loop"]["seconds"] / turn["processes"]["seconds"] for turn in turns]
    possible = [workers * turn["loop"]["seconds"] / turn["loops"]["seconds"] for turn in turns]
    alone = [turn["one"]["seconds"] / turn["processes"]["seconds"] for turn in turns]
    dask = [turn["dask"]["seconds"] / turn["processes"]["seconds"] for turn in turns]
    yield PrecomputeRow(f"{workers} processes against the loop, which stores nothing", f"{_spread(ratios)}×")
    name = f"{workers} processes against one process"
    yield PrecomputeRow(name, f"{_spread(alone)}×", f"≥ {MIN_RATIO}×", median(alone) >= MIN_RATIO)
    paper = [on_paper(turn["one"], turn["four"]) for turn in turns]
    yield PrecomputeRow(
        f"{CORES} cores against one process, on paper",
        f"{_spread(paper)}×",
        f"≥ {MIN_PAPER_RATIO}×",
        median(paper) >= MIN_PAPER_RATIO,
    )
    solving, driver = (median(1e3 * turn["four"][of] / count for turn in turns) for of in ("solving", "driver"))
    idle = median(turn["four"]["idle"] for turn in turns)
    yield PrecomputeRow(
        f"processor time of a problem by {CORES} processes: worker, driver",
        f"{solving:.2f} ms, {driver:.2f} ms; each idle for {1e3 * idle:.0f} ms in all",
    )
    yield PrecomputeRow(f"{workers} loops at once against one: what this machine allows", f"{_spread(possible)}×")
    shares = [gain / most for gain, most in zip(alone, possible, strict=True)]
    yield PrecomputeRow(f"{workers} processes against one process, as a share of that", _spread(shares))
    yield PrecomputeRow(
        f"Dask, {workers} workers, against the processes",
        f"{_spread(dask)}× the time",
        f"≤ {DASK}×",
        median(dask) <= DASK,
    )
    affordable = min(cached, int((end - time.monotonic()) / (FILLING * lookup)))
    large = _apart("stored", end - time.monotonic() + 60, max(10, affordable))
    lookup, memory_ratio = large["seconds"] / large["problems"], large["peak"] / small["peak"]
    name = f"a stored problem, of {large['problems']:,.0f}"
    yield PrecomputeRow(name, f"{1e3 * lookup:.3f} ms", f"≤ {1e3 * OVERHEAD:g} ms", lookup <= OVERHEAD)
    peak = f"{large['peak'] / 1e6:.0f} MB, {memory_ratio:.2f}× that for {small['problems']:,.0f}"
    yield PrecomputeRow("most memory for them", peak, f"≤ {MEMORY}×", memory_ratio <= MEMORY)


_NAMES = {
    "loop": "a loop over `solve` in one process",
    "loops": "such loops at once, one for each worker",
    "processes": "`darrm precompute`, processes",
    "one": "`darrm precompute`, one process",
    "dask": "`darrm precompute --dask local`",
    "direct": "`darrm precompute --direct`, processes, SQLite",
    "four": f"`darrm precompute`, {CORES} processes",
}


def main(words: list[str]) -> None:
    """Measure, print the table, write it beside those of the other suites, and fail if something is not as wanted."""
    from benchmarks.report import write_own  # here: workers import this file

    parser = argparse.ArgumentParser(prog="python -m benchmarks precompute", description=__doc__)
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cached", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time for all of it")
    parser.add_argument("--output", type=Path, help="write there instead of benchmarks/results.md")
    options = parser.parse_args(words)
    load = os.getloadavg()[0]
    lines = ["| what | measured | wanted | met |", "|---|---|---|---|"]
    rows_: list[PrecomputeRow] = []
    try:
        for row in rows(options.problems, options.workers, options.cached, options.repeats, options.minutes):
            rows_.append(row)
            lines.append(f"| {row.name} | {row.measured} | {row.wanted} | {_MET[row.met]} |")
            print(lines[-1], flush=True)
    except (RuntimeError, subprocess.SubprocessError) as err:
        rows_.append(PrecomputeRow("the rest", f"{err}", "to be measured", met=False))
        lines.append(f"| the rest | not measured: {err} | | **no** |")
        print(lines[-1], flush=True)
    verdicts = [row.met for row in rows_ if row.met is not None]
    about = [
        "Tables by the thousand (`benchmarks/precompute.py`), turn by turn; times are the best turn's, ratios the",
        f"median (least–most) over the turns. Met: **{sum(verdicts)} of {len(verdicts)}**.",
    ]
    write_own(["precompute", *words], load, about, lines, options.output)
    sys.exit(any(row.met is False for row in rows_))


_MET = {None: "", True: "yes", False: "**no**"}


def _spread(values: list[float]) -> str:
    middle = f"{median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f}–{max(values):.2f})"


def _apart(task: str, limit: float, *arguments: Any) -> dict[str, float]:
    """Return what a task of this file measures in a process of its own, within so long [s]."""
    with tempfile.TemporaryDirectory() as folder:
        from benchmarks.measure import environment  # here: workers import this file

        words = [sys.executable, "-m", "benchmarks.precompute", json.dumps([task, *arguments, folder])]
        root = Path(__file__).resolve().parent.parent
        with subprocess.Popen(
            words, cwd=root, env=environment(Path(folder)), stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            try:
                output, _ = process.communicate(timeout=max(1.0, limit))
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with the workers that it started
                raise
        if process.returncode:
            raise RuntimeError(f"{task} {arguments[0]} ended with code {process.returncode}")
        result: dict[str, float] = json.loads(output.splitlines()[-1])
        return result


def _here(words: str) -> None:
    gc.set_threshold(100_000)  # as `darrm` does
    task, *arguments = json.loads(words)
    if task == "timed":
        method, count, workers, folder = arguments
        result = timed(method, count, workers, Path(folder))
    else:
        count, folder = arguments
        result = stored(count, Path(folder))
    print(json.dumps(result))


if __name__ == "__main__":
    _here(sys.argv[1])
