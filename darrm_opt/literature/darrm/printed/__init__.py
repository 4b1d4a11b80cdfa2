"""The paper's own numbers, and where they come from (README.md beside this file)."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from darrm_opt.problem import Privacy, Problem

K = 11
"""Teachers, each on its own part of the data."""

CLASSES = (5, 8)
"""The two classes."""

QUERIES = (20, 50, 100)

DRAWS = 10
"""How often the queries are drawn."""

SLACK = 1e-4
"""δ′ of the general composition over the queries."""

VOTERS = {"mnist": Privacy(0.0892, 1e-4), "fashion-mnist": Privacy(0.0852, 1e-4)}
"""Privacy of one teacher, as the paper has it."""

ACCURACY_TABLES = {1: 3, 6: 1, 8: 5, 10: 7}
"""Number of the table → m."""

COST_TABLES = {2: 3, 5: 1, 7: 5, 9: 7}
"""Number of the table → m. Table 2 belongs to Table 1; Tables 5, 7 and 9 to Tables 6, 8 and 10."""


def voter(dataset: str) -> Privacy:
    """Return the privacy of one teacher; for data that the paper has not, that of MNIST."""
    return VOTERS.get(dataset, VOTERS["mnist"])


def problem(m: int, dataset: str) -> Problem:
    """Return the paper's problem: K private voters, all of which a record may reach, δ = 1 − (1−Δ)^m."""
    privacy = voter(dataset)
    return Problem.from_allowance(K=K, m=m, epsilon=privacy.epsilon, Delta=privacy.delta)


GNMAX_ORDERS = {21.46: 34.31, 22.46: 35.74}
"""Table 4: σ → λ, as printed."""


@dataclass(frozen=True)
class PrintedNumber:
    """One number that does not depend on data."""

    table: str  # where it is printed
    quantity: str  # what it is
    inputs: dict[str, Any]  # what it was computed from
    value: float  # as printed
    decimals: int  # how many were printed


@dataclass(frozen=True)
class Accuracy:
    """Mean and standard deviation of an accuracy over 10 draws, as printed."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.std:.2f})"


@cache
def accounts(table: str) -> tuple[PrintedNumber, ...]:
    """Return the numbers of a table that do not depend on data.

    >>> accounts("Table 2")[0].value
    5.352
    """
    return tuple(
        PrintedNumber(
            row["table"],
            row["quantity"],
            json.loads(row["inputs"]),
            float(row["expected"].removeprefix("sigma=")),
            int(row["printed_decimals"]),
        )
        for row in _rows("accounts.csv")
        if row["table"] == table
    )


def printed_value(table: str, quantity: str, **inputs: float) -> float | None:
    """Return one such number; None if there is none.

    >>> printed_value("Table 2", "general_composition_total", epsilon=0.2676, Q=50)
    9.901
    """
    for row in accounts(table):
        if quantity in row.quantity and inputs.items() <= row.inputs.items():
            return row.value
    return None


@cache
def accuracies() -> dict[tuple[int, str, int, str], Accuracy]:
    """Return the accuracies by (m, dataset, Q, method).

    >>> str(accuracies()[3, "mnist", 20, "optimal"])
    '0.79 (0.09)'
    """
    return {
        (int(row["m"]), row["dataset"], int(row["Q"]), row["method"]): Accuracy(float(row["mean"]), float(row["std"]))
        for row in _rows("accuracy.csv")
    }


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((files(__name__) / name).read_text(encoding="utf-8").splitlines()))
