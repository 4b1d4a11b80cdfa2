"""``python -m benchmarks limits``: designs beside what the arithmetic alone would take, and beside two plain methods.

*Limit.* A design ends with one search of every (nx, ny) of the blossom, (K+2)³/12 entries or so (of a monotone γ, of ny
= 0 alone), five operations each (one step, one value of φ), at the rate of a matrix product of this machine's one core,
and writes the rows of its program once, at the rate of a copy; both rates are measured in the same run. What programs
and further searches add is the ratio to it; the suites state it, too (`limit_of`). *Full program*: every row of the
reduced constraint set in one program of HiGHS (``method="enumerate"``). *Published method*: the steps of the paper's
scripts, written anew: weights from 10,000 draws at each of 50 points, one pair of Poisson binomial laws a row, one
program, nothing certified. Times are the processor's, the least of the turns.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.cases import Job, Profile, Solve

if TYPE_CHECKING:
    from benchmarks.measure import Measurement
    from darrm_opt import Problem
    from darrm_opt.noise import Array

OPERATIONS = 5  # operations for an entry of a row: two products and a sum of a step, a product and a sum of φ
TAU, DRAWS = 50, 10_000  # points and draws at each of them of the paper's objective (its Algorithm 5)

DESIGNS = (
    (11, 3.0, 1e-5, True, True),
    (21, 5.0, 1e-5, True, False),
    (35, 3.0, 0.0, True, True),
    (101, 3.0, 0.0, False, False),
    (101, 3.0, 1e-5, False, False),
    (301, 3.0, 1e-5, False, False),
    (1001, 3.0, 1e-6, False, False),
)
"""K, m and Δ at ε = 0.1; whether all rows in one program, and whether the published method, take seconds."""


@dataclass(frozen=True)
class LimitRow:
    """One line of the table: a design and its times [s]; None where a method would take minutes."""

    name: str
    seconds: float
    limit: float
    full: float | None
    published: float | None

    def __str__(self) -> str:
        return (
            f"| {self.name} | {_text(self.seconds)} | {_text(self.limit)} | {self.seconds / self.limit:.3g}× "
            f"| {self._beside(self.full)} | {self._beside(self.published)} |"
        )

    def _beside(self, other: float | None) -> str:
        return "" if other is None else f"{_text(other)}, {other / self.seconds:.3g}×"


def _text(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


@cache
def operation_rate() -> float:
    """Return floating-point operations a second of one core in a matrix product."""
    matrix = np.ones((64, 64))  # as large as a product that stays on one core
    return 2 * 64**3 / min(processor_seconds(lambda: matrix @ matrix, 0.02) for _ in range(50))


@cache
def byte_rate() -> float:
    """Return bytes a second that one core reads and writes in a copy beyond its caches."""
    content = np.ones(2**23)
    target = np.empty_like(content)
    return 2 * content.nbytes / min(processor_seconds(lambda: np.copyto(target, content)) for _ in range(3))


def processor_seconds(call: Callable[[], object], least: float = 0.1) -> float:
    """Return the processor time of one call [s], repeated for ``least`` seconds."""
    calls, start = 0, time.process_time()
    while (seconds := time.process_time() - start) < least or calls == 0:
        call()
        calls += 1
    return seconds / calls


def sweep_operations(K: int, width: int | None = None) -> int:
    """Return the operations of one search of all (nx, ny), ny ≤ nx, or of those with ny ≤ ``width``."""
    last = [min(nx, K - nx, K if width is None else width) for nx in range(K + 1)]
    entries = sum((ny + 1) * (K - nx + 1) - ny * (ny + 1) // 2 for nx, ny in enumerate(last))
    return OPERATIONS * entries


def design_limit(K: int, certificate: str, rows: int) -> float:
    """Return what the arithmetic of the proving search, and the bytes of so many rows, take at least [s]."""
    operations = sweep_operations(K, width=0 if certificate == "monotone" else None)
    entry_bytes = np.dtype(np.float64).itemsize
    return operations / operation_rate() + rows * ((K + 1) // 2) * entry_bytes / byte_rate()


def limit_of(job: Job, run: Measurement) -> float | None:
    """Return the limit of a measured job [s], of a profile one search for each value; None where none is stated."""
    if not isinstance(job, Solve | Profile) or run.certificate is None or (isinstance(job, Solve) and job.points):
        return None
    searches = job.values if isinstance(job, Profile) else 1
    return searches * design_limit(job.K, run.certificate, run.rows or 0)


def published_method(problem: Problem, seed: int = 0) -> Array:
    """Return γ(⌊K/2⌋+1..K) by the steps of the paper's scripts; nothing is certified."""
    from darrm_opt.design.backends import open_backend
    from darrm_opt.design.constraint import ConstraintGenerator

    K, generator, random = problem.K, ConstraintGenerator(problem), np.random.default_rng(seed)
    corners, c = generator.corners, math.exp(problem.target.epsilon)
    weights: Array = np.zeros(K + 1)
    for _ in range(TAU):
        chances = 0.5 + 0.5 * random.integers(0, TAU, (DRAWS, K)) / TAU
        masses = np.zeros((DRAWS, K + 1))
        masses[:, 0] = 1.0
        for voter in range(K):
            chance = chances[:, voter : voter + 1]
            masses[:, 1:] = (1 - chance) * masses[:, 1:] + chance * masses[:, :-1]
            masses[:, 0] *= 1 - chance[:, 0]
        weights += masses.mean(axis=0) / TAU
    rows = []
    for counts in generator.blocks():
        for vector in counts.tolist():
            on_data, on_neighbour = (_difference(chances, vector, K) for chances in (corners.p, corners.p_prime))
            rows.append(on_data / c - on_neighbour)
    program = open_backend("highs", (K + 1) // 2)
    program.add(np.array(rows), np.full(len(rows), (c - 1 + 2 * problem.target.delta) / c))
    return program.solve(_fold(weights, K)).upper_half


def _difference(chances: Array, vector: list[int], K: int) -> Array:
    """Return α_l − α_{K−l}, l > K/2, of one vector of voters at corners."""
    law = np.ones(1)
    for chance, voters in zip(chances.tolist(), vector, strict=True):
        for _ in range(voters):
            law = np.convolve(law, (1 - chance, chance))
    return _fold(law, K)


def _fold(law: Array, K: int) -> Array:
    folded: Array = law[K // 2 + 1 :] - law[: (K + 1) // 2][::-1]
    return folded


def measure(turns: int) -> list[LimitRow]:
    """Return the rows of the table."""
    from darrm_opt import Problem, solve

    def least(call: Callable[[], object], turns: int = turns) -> float:
        return min(processor_seconds(call) for _ in range(turns))

    rows = []
    for K, m, Delta, has_full, has_published in DESIGNS:
        problem = Problem.from_allowance(K, m, 0.1, Delta)
        solution = solve(problem)
        limit = design_limit(K, solution.certificate.method, solution.statistics.rows)
        seconds = least(partial(solve, problem))
        full = least(partial(solve, problem, method="enumerate"), 1) if has_full else None
        published = least(partial(published_method, problem), 1) if has_published else None
        rows.append(LimitRow(f"K={K}, Δ={Delta:g}, m={m:g}", seconds, limit, full, published))
        print(rows[-1], flush=True)
    return rows


def main(words: list[str]) -> None:
    """Measure, and write the table beside those of the suites."""
    from benchmarks.report import write_own

    parser = argparse.ArgumentParser(prog="python -m benchmarks limits", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write there instead of benchmarks/results.md")
    options = parser.parse_args(words)
    load = os.getloadavg()[0]
    rows = measure(options.turns)
    about = [
        "Designs beside the arithmetic of one search, all rows in one program, and the published method",
        f"(`benchmarks/limits.py`), processor time. One core: {operation_rate() / 1e9:.3g}·10⁹ operations and",
        f"{byte_rate() / 1e9:.3g}·10⁹ bytes a second.",
    ]
    lines = [
        "| design | time | limit | time / limit | full program, times as long | published method, times as long |",
        "|---|--:|--:|--:|--:|--:|",
        *map(str, rows),
    ]
    write_own(["limits", *words], load, about, lines, options.output)
