"""Result of a reproduction: tables of numbers, ours beside the paper's, and a picture where the paper has one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sense = Literal["exact", "accounting", "experiment"]
"""exact: computed from the paper's inputs, no data, no sampling but where said. accounting: the same for privacy
totals. experiment: measured on data, so only comparable with the paper's."""

Cell = str | float | int | None
"""None: the paper's number is not at hand."""

NOT_HERE = "not printed here"
"""What stands for a number of the paper that is not at hand."""


COMPANIONS = {
    "bagging-tables": "Bagging, Tables 2 to 5, budget columns: accounting",
    "bagging-figures": "Bagging, Figures 1 and 2, at digits size: experiment",
    "pate-column": "Bagging, Tables 4 and 5, what PATE costs: accounting",
    "dpbag-labels": "DPBag, labels of SAA in Table 2 and the supplement: accounting",
    "hwt-composition": "He, Wang, Tao, composition theorems: accounting",
    "hwt-training": "He, Wang, Tao, Theorems 7 (SGLD) and 8 (federated): accounting",
    "sign-sgd": "DaRRM's earlier version, sign-SGD at digits size: experiment",
}
"""Reproductions of the companion papers: name → what it is, and in what sense it is reproduced."""


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


def _text(cell: Cell, form: str) -> str:
    if cell is None:
        return NOT_HERE
    if isinstance(cell, str):
        return cell
    return "inf" if cell == math.inf else format(cell, form)


def _jsonable(cell: Cell) -> Cell:
    return "inf" if isinstance(cell, float) and cell == math.inf else cell
