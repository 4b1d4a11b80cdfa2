"""Golden set: problems with their optimal utilities, computed by an independent program (tests/data/README.md)."""

from __future__ import annotations

import csv

from darrm_opt import Problem
from support.paths import DATA

Row = dict[str, str]

GOLDEN: list[Row] = list(csv.DictReader((DATA / "golden_optima.csv").read_text(encoding="utf-8").splitlines()))


def problem_of(row: Row) -> Problem:
    """Return the problem of a row."""
    m = float(row["m"]) if row["m"] else None
    return Problem.from_allowance(
        K=int(row["K"]),
        m=m,
        epsilon=float(row["epsilon"]),
        Delta=float(row["Delta"]),
        delta=float(row["delta"]),
        affected=int(row["affected"]),
        target_epsilon=None if m is not None else float(row["target_epsilon"]),
    )


def name(row: Row) -> str:
    """Return the id of a test of this row."""
    voters = f"K={row['K']} m={row['m'] or '-'} epsilon={row['epsilon']} Delta={row['Delta']}"
    return f"{voters} r={row['affected']} {row['objective']}"
