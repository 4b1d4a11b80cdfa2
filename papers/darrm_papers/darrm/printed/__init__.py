"""The paper's own numbers (README.md beside this file says where they come from), and tables of ours beside them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from darrm_opt.problem import Privacy, Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K = 11  # teachers, each on its own part of the data
CLASSES = (5, 8)  # the two classes

QUERIES = (20, 50, 100)

DRAWS = 10  # how often the queries are drawn
SLACK = 1e-4  # δ′ of the general composition over the queries

VOTERS = {"mnist": Privacy(0.0892, 1e-4), "fashion-mnist": Privacy(0.0852, 1e-4)}
"""Privacy of one teacher, as the paper has it."""

ACCURACY_TABLES = {1: 3, 6: 1, 8: 5, 10: 7}  # number of the table → m

COST_TABLES = {2: 3, 5: 1, 7: 5, 9: 7}
"""Number of the table → m. Table 2 belongs to Table 1; Tables 5, 7 and 9 to Tables 6, 8 and 10."""


def voter(dataset: str) -> Privacy:
    """Return the privacy of one teacher; for data that the paper has not, that of MNIST."""
    return VOTERS.get(dataset, VOTERS["mnist"])


def problem(m: int, dataset: str) -> Problem:
    """Return the paper's problem: K private voters, all of which a record may reach, δ = 1 − (1−Δ)^m."""
    privacy = voter(dataset)
    return Problem.from_allowance(K=K, m=m, epsilon=privacy.epsilon, Delta=privacy.delta)


GNMAX_ORDERS = {21.46: 34.31, 22.46: 35.74}  # table 4: σ → λ, as printed


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


Sense = Literal["exact", "accounting", "experiment"]
"""exact: computed from the paper's inputs, no data, no sampling but where said. accounting: the same for privacy
totals. experiment: measured on data, so only comparable with the paper's."""

Cell = str | float | int | None  # none: the paper's number is not at hand
NOT_HERE = "not printed here"  # what stands for a number of the paper that is not at hand


@dataclass(frozen=True)
class Table:
    """Rows under heads."""

    title: str  # what the rows are
    heads: tuple[tuple[str, str], ...]  # name of each column and how its numbers are written (a format, or "" for text)
    rows: tuple[tuple[Cell, ...], ...]  # cells
    shown: bool = True  # False for long tables that go into the JSON only

    def written(self) -> list[list[str]]:
        """Return the rows as text."""
        return [[_text(cell, form) for cell, (_, form) in zip(row, self.heads, strict=True)] for row in self.rows]

    def content(self) -> dict[str, Any]:
        """Return what JSON can hold: infinity is the text "inf", and what is not at hand is null."""
        names = [name for name, _ in self.heads]
        rows = [dict(zip(names, (_jsonable(cell) for cell in row), strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows}


@dataclass(frozen=True)
class Reproduction:
    """One figure or table of the paper, computed again.

    Attributes:
        name: such as "table-1".
        title: what it is in the paper.
        sense: in what sense it is reproduced.
        tables: the numbers.
        notes: what to know when reading them.
        settings: the inputs, for the record.
        draw: makes the picture; None where the paper has none.
    """

    name: str
    title: str
    sense: Sense
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    draw: Callable[[], Figure] | None = None

    def content(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "name": self.name,
            "title": self.title,
            "sense": self.sense,
            "settings": dict(self.settings),
            "tables": [table.content() for table in self.tables],
            "notes": list(self.notes),
        }


def one_table(
    name: str,
    title: str,
    sense: Sense,
    table: Table,
    *notes: str,
    settings: Mapping[str, Any] | None = None,
    draw: Callable[[], Figure] | None = None,
) -> Reproduction:
    """Return a reproduction of one table."""
    return Reproduction(name, title, sense, (table,), notes, settings or {}, draw)


def rounds_to(value: float, text: str) -> bool:
    """Return whether a number, rounded to as many digits, is the printed one."""
    decimals = len(text.partition(".")[2])
    return bool(abs(value - float(text)) <= 0.5000001 * 0.1**decimals)


def _text(cell: Cell, form: str) -> str:
    if cell is None:
        return NOT_HERE
    if isinstance(cell, str):
        return cell
    return "inf" if cell == math.inf else format(cell, form)


def _jsonable(cell: Cell) -> Cell:
    return "inf" if isinstance(cell, float) and cell == math.inf else cell
