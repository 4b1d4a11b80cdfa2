"""Make the table of `darrm_opt.answers.running_time` from the records of a scan.

    python -m benchmarks --scan --records RECORDS      any number of times, in any order
    PYTHONPATH=tests python -m campaigns.cost RECORDS …

Prints `TIMES` and `TIMES_NON_PRIVATE` as Python, and how often the estimate is right within a factor of 3:
for the points of the table, and for the others (a K between or beyond those of the table). Times are the processor's.
A cell that was not measured is that of the last smaller K times the median growth among cells of its Δ and, where
there are two, of its ε and δ, with an m as large or as small.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.scan import EPSILONS, FAILURES, Point
from darrm_opt.answers import running_time
from darrm_opt.answers.running_time import FACTOR, LEAST, TABLE_KS, solve_seconds
from darrm_opt.record import DesignSpec

Cell = tuple[int, float, int, float, bool]  # K, Δ, which m, ε, whether δ = 0 is asked for
DELTAS_ASKED = (False, True)
IDLE_SHARE = 0.8
"""The table states this share of times measured on busy cores: idle ones take about half."""


def cell_of(point: Point) -> Cell:
    """Return where a point of private voters stands in the table."""
    which = [1.05, 1.5, 3.0, point.K / 8, point.K / 2].index(point.m)
    return point.K, point.Delta, which, point.epsilon, point.delta == 0.0 and point.Delta > 0


def cell_of_non_private(point: Point) -> Cell:
    """Return where a point of voters that are not private stands in theirs."""
    return point.K, 0.0, int(point.affected > 1), point.m, point.delta == 0.0


def filled(cells: dict[Cell, float], wanted: list[Cell]) -> dict[Cell, float]:
    """Return the cells of every K of the table, those that were not measured filled in."""
    table = dict(cells)
    for smaller, K in pairwise(TABLE_KS):
        for Delta in FAILURES:
            both = [c for c in cells if c[:2] == (K, Delta) and (smaller, *c[1:]) in cells]
            for cell in wanted:
                if cell[:2] == (K, Delta) and cell not in table:
                    near = [c for c in both if (c[2] > 2) == (cell[2] > 2)]  # m up to 3, or from K/8 on
                    alike = [c for c in near if c[3:] == cell[3:]]
                    used = alike if len(alike) > 1 else near
                    growth = [cells[c] / cells[smaller, *c[1:]] for c in used] or [(K / smaller) ** 2]
                    table[cell] = table[smaller, *cell[1:]] * max(median(growth), 1.0)
    return table


def letters(table: dict[Cell, float], cells: list[Cell]) -> str:
    """Return times as letters, each `FACTOR` times the one before."""
    steps = [round(math.log(IDLE_SHARE * table[cell] / LEAST) / math.log(FACTOR)) for cell in cells]
    return "".join(chr(ord("a") + min(max(step, 0), 25)) for step in steps)


def main(paths: list[str]) -> None:
    """Print the table, and what it is worth."""
    lines = [line for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()]
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    measured = {Point(**record["point"]): record["processor_seconds"] for record in records}  # the last one counts
    private = {cell_of(p): seconds for p, seconds in measured.items() if math.isfinite(p.epsilon)}
    others = {cell_of_non_private(p): seconds for p, seconds in measured.items() if math.isinf(p.epsilon)}
    wanted = [(K, Delta, m, e, zero) for K in TABLE_KS for Delta in FAILURES for m in range(5) for e in EPSILONS
              for zero in DELTAS_ASKED if Delta or not zero]  # fmt: skip
    wanted_others = [
        (K, 0.0, r, e, zero) for K in TABLE_KS for r in range(2) for e in EPSILONS for zero in DELTAS_ASKED
    ]
    table = filled(private, wanted)
    times = {(K, D): letters(table, [c for c in wanted if c[:2] == (K, D)]) for K in TABLE_KS for D in FAILURES}
    non_private = {K: letters(filled(others, wanted_others), [c for c in wanted_others if c[0] == K]) for K in TABLE_KS}
    sys.stdout.write(f"TIMES = {times}\nTIMES_NON_PRIVATE = {non_private}\n")
    running_time.TIMES, running_time.TIMES_NON_PRIVATE = times, non_private
    for name, inside in (("of the table", True), ("of other K", False)):
        off = [
            abs(math.log(solve_seconds(DesignSpec(p.problem)) / seconds))
            for p, seconds in measured.items()
            if (p.K in TABLE_KS) == inside
        ]
        shares = ", ".join(f"{sum(x <= math.log(k) for x in off) / len(off):.1%} within {k}" for k in (2, 3, 10))
        sys.stdout.write(f"{name}: {len(off)} points, {shares}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
