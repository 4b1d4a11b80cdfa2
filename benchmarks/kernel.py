"""``python -m benchmarks kernel``: the compiled kernel beside NumPy, turn by turn in one process.

Each of a few searches of the design, and the recursion on bits, runs by the compiled kernel and by NumPy
(``DARRM_KERNEL``) on the same γ; times are processor time, so that a busy machine matters less, and the least of the
turns. What is wanted is the ratio. The limit is what the operations of one pass over the rows, or the bytes of the
table that is made, take at the rates of `limits`; beside it stands how many times as long the kernel takes.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.limits import byte_rate, operation_rate, processor_seconds, sweep_operations

if TYPE_CHECKING:
    from darrm_opt import NoiseFunction, Problem

SECONDS_PER_TURN = 0.2  # a search is repeated within a turn until it took about so long


@dataclass(frozen=True)
class KernelRow:
    """One line of the table: a search, its times by either path [s], and the ratio that is wanted."""

    name: str
    compiled: float
    numpy: float
    wanted: float
    limit: float | None  # None: not stated

    @property
    def ratio(self) -> float:
        """How many times faster the kernel is."""
        return self.numpy / self.compiled

    @property
    def met(self) -> bool:
        """Whether that is as wanted."""
        return self.ratio >= self.wanted

    def __str__(self) -> str:
        times = f"{1e3 * self.compiled:.3g} ms | {1e3 * self.numpy:.3g} ms"
        limit = "" if self.limit is None else f"{1e3 * self.limit:.2g} ms, {self.compiled / self.limit:.3g}×"
        met = "yes" if self.met else "**no**"
        return f"| {self.name} | {times} | {self.ratio:.3g}× | ≥ {self.wanted:g}× | {met} | {limit} |"


def searches() -> Iterator[tuple[str, float, Callable[[], Any], float | None]]:
    """Yield searches: the name, the ratio that is wanted, a call that makes one, and its limit [s]."""
    from darrm_opt import Problem
    from darrm_opt.accounting.bits.recursion import compose_bits
    from darrm_opt.accounting.bits.region import outer_region
    from darrm_opt.design.constraint import PrivacyConstraint
    from darrm_opt.design.schedule import binding_family
    from darrm_opt.design.separation.oracle import worst_case, worst_case_near_faces

    for K, Delta, wanted in ((11, 1e-5, 10), (35, 1e-5, 10), (101, 1e-5, 10), (101, 0.2, 20), (301, 1e-5, 5)):
        problem = Problem.from_allowance(K, 3, 0.1, Delta, delta=None if Delta < 0.1 else 0.1)
        constraint, noise = PrivacyConstraint.of(problem), _not_monotone(problem)
        limit = sweep_operations(K) / operation_rate()
        yield f"proof, K={K}, Δ={Delta:g}", wanted, partial(worst_case, noise, constraint), limit
    problem = Problem.from_allowance(1001, 3, 0.1, 1e-6)
    wide, rough = PrivacyConstraint.of(problem), _not_monotone(problem)
    near_faces = partial(worst_case_near_faces, rough, wide, above=wide.limit - 1e-6, most=6000)
    yield "cuts near the faces, K=1001", 20, near_faces, sweep_operations(1001, width=0) / operation_rate()
    small = PrivacyConstraint.of(Problem.from_allowance(11, 3, 0.1, 1e-5))
    family = binding_family(small)
    limit = len(family) * small.entries * np.dtype(np.float64).itemsize / byte_rate()
    yield "rows to start from, K=11", 5, partial(small.rows, family), limit
    lines = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0]
    region = outer_region([math.exp(line) for line in lines], [0.12 * math.exp(-3 * line) for line in lines])
    yield "recursion on bits, 100 releases", 4, partial(compose_bits, [(region, 100)], points=8001), None


def _not_monotone(problem: Problem) -> NoiseFunction:
    """Return a private γ near the best monotone one, with dents: it takes the general search, as a design does."""
    from darrm_opt import NoiseFunction, certify, solve

    upper = solve(problem, shape="monotone", tolerance=1e-4).noise.values[problem.K // 2 + 1 :].copy()
    upper[2::7] *= 1 - 1e-6
    return certify(problem, NoiseFunction.from_upper_half(upper, problem.K))[0]


def measure(turns: int) -> Iterator[KernelRow]:
    """Yield the rows of the table."""
    from darrm_opt.design.kernel.library import kernel

    for name, wanted, search, limit in searches():
        best_times: dict[str, float] = {}
        for _ in range(turns):
            for path in ("c", "numpy"):
                os.environ["DARRM_KERNEL"] = path
                kernel.cache_clear()
                search()
                best_times[path] = min(best_times.get(path, 1e9), processor_seconds(search, SECONDS_PER_TURN))
        yield KernelRow(name, best_times["c"], best_times["numpy"], wanted, limit)


def main(words: list[str]) -> None:
    """Measure, print the table, write it beside those of the other suites, and fail if something is not as wanted."""
    from benchmarks.report import write_own

    parser = argparse.ArgumentParser(prog="python -m benchmarks kernel", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write there instead of benchmarks/results.md")
    options = parser.parse_args(words)
    load, rows = os.getloadavg()[0], []
    lines = [
        "| search | compiled | NumPy | ratio | wanted | met | limit, times as long |",
        "|---|--:|--:|--:|--:|---|--:|",
    ]
    for row in measure(options.turns):
        rows.append(row)
        lines.append(f"{row}")
        print(row, flush=True)
    about = [
        "The compiled kernel beside NumPy (`benchmarks/kernel.py`), turn by turn in one process, processor time.",
        f"Met: **{sum(row.met for row in rows)} of {len(rows)}**.",
    ]
    write_own(["kernel", *words], load, about, lines, options.output)
    sys.exit(not all(row.met for row in rows))
