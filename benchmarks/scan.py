"""``python -m benchmarks --scan``: one design of every kind of problem, to find what takes far longer than the rest.

K, Δ, m, ε, δ and ``affected`` of private voters on a grid, and voters that are not private; each is designed once in
this process, in an order that is drawn once, so that a spent budget leaves a sample of all. Times are wall-clock and,
in brackets, the processor's: on a busy machine the first says little, and the second counts all threads. Goals are held
against the lesser of the two.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from darrm_opt.problem import MAX_TARGET_EPSILON

if TYPE_CHECKING:
    from darrm_opt import Problem

VOTERS = (11, 35, 101, 151, 201, 301, 401, 501)
FAILURES = (0.0, 1e-6, 1e-4, 0.01, 0.1, 0.3)
EPSILONS = (0.01, 0.1, 1.0, 3.0)

PARTLY_AFFECTED = (101, 201, 301)  # voters of whom a record affects 1, 2, an eighth, a quarter or a half, beside all
SLOWEST = 10  # how many of the slowest designs are published

ESTIMATE_FACTOR, ESTIMATE_SHARE = 3.0, 0.95
"""The estimate before a solve should be right within this factor for this share of the scan."""

DELTA_NON_PRIVATE = 1e-5  # δ of releases of voters that are not private, beside 0
LIMIT = 150.0  # seconds after which a design ends at the best γ so far


@dataclass(frozen=True)
class Point:
    """One problem of the scan; ``epsilon`` = inf: voters are not private, and ``m`` is the target ε itself [nats]."""

    K: int
    Delta: float
    m: float
    epsilon: float
    delta: float | None
    affected: int

    @property
    def problem(self) -> Problem:
        """The problem to design for."""
        from darrm_opt import Privacy, Problem

        if math.isinf(self.epsilon):
            return Problem(self.K, Privacy(math.inf), Privacy(self.m, self.delta or 0.0), self.affected)
        return Problem.from_allowance(
            self.K, self.m, self.epsilon, self.Delta, delta=self.delta, affected=self.affected
        )

    def __str__(self) -> str:
        delta = "" if self.delta is None else f", δ={self.delta:g}"
        if math.isinf(self.epsilon):
            return f"K={self.K}, ε=inf, {self.affected} affected, target ε={self.m:g}{delta}"
        affected = "" if self.affected == self.K else f", {self.affected} affected"
        return f"K={self.K}, Δ={self.Delta:g}, m={self.m:g}, ε={self.epsilon:g}{delta}{affected}"


@dataclass(frozen=True)
class Measured:
    """What one design showed: times [s], the rounds, the gap, how it ended, and the time estimated before [s]."""

    point: Point
    seconds: float
    processor_seconds: float
    rounds: int
    gap: float
    status: str
    estimate: float

    @property
    def wanted(self) -> float:
        """Most seconds that the design should take."""
        return wanted_seconds(self.point)

    @property
    def idle_seconds(self) -> float:
        """Most seconds that it takes on idle cores: the wall's here, or the processor's, which counts all threads."""
        return min(self.seconds, self.processor_seconds)

    @property
    def met(self) -> bool:
        """Whether it was optimal in that time."""
        return self.status == "optimal" and self.idle_seconds <= self.wanted

    @property
    def estimate_ratio(self) -> float:
        """By what factor the estimate is off the processor's time, ≥ 1."""
        return max(self.estimate / self.processor_seconds, self.processor_seconds / self.estimate)


def wanted_seconds(point: Point) -> float:
    """Return the most time that a design should take [s], on two idle cores."""
    if point.K <= 101:
        return 1.0
    if point.K <= 201:
        return 5.0 if point.affected == point.K else 3.0
    if point.K <= 301 and point.affected < point.K:
        return 6.0
    return 20.0 if point.Delta <= 0.01 else 120.0


def points() -> Iterator[Point]:
    """Yield every problem of the scan."""
    for K in VOTERS:
        for m, epsilon, Delta in itertools.product((1.05, 1.5, 3.0, K / 8, K / 2), EPSILONS, FAILURES):
            if m * epsilon > MAX_TARGET_EPSILON:
                continue  # refused: such a target protects nobody
            for delta, affected in itertools.product((None, 0.0) if Delta else (None,), _affected(K, Delta)):
                yield Point(K, Delta, m, epsilon, delta, affected)
        for target_epsilon in EPSILONS:
            for delta in (0.0, DELTA_NON_PRIVATE):
                for affected in sorted({1, max(1, K // 4)}):
                    yield Point(K, 0.0, target_epsilon, math.inf, delta, affected)


def _affected(K: int, Delta: float) -> tuple[int, ...]:
    """Return the numbers of affected voters of the scan, where voters are private."""
    is_part = K in PARTLY_AFFECTED and Delta in {0.0, 0.01, 0.1}
    return (1, 2, K // 8, K // 4, K // 2, K) if is_part else (K,)


def measured(point: Point, limit: float = LIMIT) -> Measured:
    """Design for one problem."""
    from darrm_opt import solve
    from darrm_opt.answers.running_time import solve_seconds
    from darrm_opt.record import DesignSpec

    problem = point.problem
    estimate = solve_seconds(DesignSpec(problem))
    start, processor_start = time.perf_counter(), time.process_time()
    solution = solve(problem, time_limit=limit)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor_start
    rounds = solution.statistics.rounds
    return Measured(point, seconds, processor_seconds, rounds, solution.gap, solution.status.value, estimate)


def summary(rows: list[Measured], count: int) -> str:
    """Return how many of so many problems were designed, how many as wanted, and how often the estimate was right."""
    close, met = sum(row.estimate_ratio <= ESTIMATE_FACTOR for row in rows), sum(row.met for row in rows)
    return (
        f"Of {count} problems {len(rows)} were designed, {met} as wanted; the estimate is within a factor of "
        f"{ESTIMATE_FACTOR:g} of the processor's time for {close / len(rows):.1%} (wanted: {ESTIMATE_SHARE:.0%})."
    )


def table(rows: list[Measured]) -> list[str]:
    """Return the goals, the slowest designs, and what did not end, as lines of Markdown."""
    lines = [
        summary(rows, sum(1 for _ in points())),
        "",
        "| K | Δ | wanted | designed | optimal | longest [s] | as wanted |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for K in VOTERS:
        for name, group in (
            ("≤ 0.01", [row for row in rows if row.point.K == K and row.point.Delta <= 0.01]),
            ("> 0.01", [row for row in rows if row.point.K == K and row.point.Delta > 0.01]),
        ):
            if group:
                slowest = max(group, key=lambda row: row.idle_seconds)
                lines.append(
                    f"| {K} | {name} | ≤ {slowest.wanted:g} s | {len(group)} "
                    f"| {sum(row.status == 'optimal' for row in group)} | {_times(slowest)} "
                    f"| {sum(row.met for row in group)} |"
                )
    lines += ["", f"The slowest {SLOWEST}, and what was not optimal:", ""]
    lines += ["| problem | time [s] | rounds | gap | status | estimate [s] |", "|---|--:|--:|--:|---|--:|"]
    by_time = sorted(rows, key=lambda row: -row.idle_seconds)
    open_rows = [row for row in by_time[SLOWEST:] if row.status != "optimal"]
    for row in (*by_time[:SLOWEST], *open_rows):
        figures = f"{row.rounds} | {row.gap:.1e} | {row.status} | {row.estimate:.3g}"
        lines.append(f"| {row.point} | {_times(row)} | {figures} |")
    return lines


def _times(row: Measured) -> str:
    return f"{row.seconds:.3g} ({row.processor_seconds:.3g})"


def main(words: list[str]) -> None:
    """Measure, print what takes long, and write the table beside those of the suites."""
    from benchmarks.report import write_own

    parser = argparse.ArgumentParser(prog="python -m benchmarks --scan", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="stop after this long (default: 120)")
    parser.add_argument("--points", type=int, default=sys.maxsize, help="stop after so many problems")
    parser.add_argument("--seed", type=int, default=0, help="draws the order (default: 0)")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for one design (default: {LIMIT:g})")
    parser.add_argument("--most-voters", type=int, default=VOTERS[-1], metavar="K", help="leave larger K out")
    parser.add_argument("--records", type=Path, help="write every measurement there, one JSON object a line")
    parser.add_argument("--output", type=Path, help="write there instead of benchmarks/results.md")
    options = parser.parse_args(words)
    load, end = os.getloadavg()[0], time.monotonic() + 60 * options.minutes
    order = [point for point in points() if point.K in range(options.most_voters + 1)]
    random.Random(options.seed).shuffle(order)  # noqa: S311 - an order, no secret
    rows: list[Measured] = []
    measured(Point(7, 1e-6, 2.0, 0.1, None, 7))  # imports
    for point in order[: options.points]:
        if time.monotonic() > end:
            break
        rows.append(measured(point, options.limit))
        if not rows[-1].met:
            print(f"{rows[-1].seconds:9.3f} s  {point}  [{rows[-1].status}]", flush=True)
        if options.records is not None:
            with options.records.open("a", encoding="utf-8") as records:
                records.write(json.dumps(asdict(rows[-1])) + "\n")
    about = [
        "One design of every kind of problem (`benchmarks/scan.py`), once each: time, and in brackets the processor's."
    ]
    write_own(["--scan", *words], load, about, table(rows), options.output)
    sys.exit(not all(row.met for row in rows))
