"""``python -m tools.results``: compute the tables of papers/results.md again (some minutes) and write them there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from darrm_papers.darrm import printed as paper
from darrm_papers.darrm import reproduce
from tools.locked import ROOT

PAGE = ROOT / "papers" / "results.md"

STAND_IN = "private, ε = 8"

Row = dict[str, Any]


def main() -> None:
    """Write the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in (("accuracy", accuracy()), ("summary", summary()), ("equal totals", equal_totals())):
        start = text.index(marker := f"<!-- {name}: made by tools/results.py -->\n") + len(marker)
        end = text.index("<!-- end -->", start)
        text = text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]
    PAGE.write_text(text, encoding="utf-8")


def accuracy() -> list[str]:
    """Return Table 1 in full."""
    heads = ("Q", "noise", "teachers", "paper, MNIST", "ours: mean (std)", "expected", "total ε, the paper's account")
    rows = [
        [
            *(row["Q"], row["noise"], row["teachers"], row["paper"].replace("not in the paper", "–"), _mean(row)),
            *(f"{row['expected']:.3f}", _number(row["paper's total ε"]), _number(row["sound total ε"]), row["by"]),
        ]
        for row in rows_of(3, 0)
    ]
    return _markdown((*heads, "total ε, sound", "by"), rows)


def summary() -> list[str]:
    """Return the rows of all four tables that the paper has, and γ_opt for teachers that are not private."""
    columns = (("GNMax", "not private"), ("γ_Sub", STAND_IN), ("γ_opt", STAND_IN))
    heads = ("GNMax: paper / ours", "γ_Sub: paper / ours, stand-in", "γ_opt: paper / ours, stand-in")
    rows = []
    for m, Q in settings():
        of = {(row["noise"], row["teachers"]): row for row in rows_of(m, 0) if row["Q"] == Q}
        cells = [f"{of[column]['paper']} / {_mean(of[column])}, {of[column]['expected']:.2f}" for column in columns]
        ours = of["γ_opt, affected = 1", "not private"]
        rows.append([m, Q, *cells, f"{_mean(ours)}, {ours['expected']:.2f}"])
    return _markdown(("m", "Q", *heads, "γ_opt, affected = 1: ours"), rows)


def equal_totals() -> list[str]:
    """Return the expected accuracy of each method at the same total."""
    names = ("GNMax", "γ_opt, affected = 1", "γ_opt, all releases", "none")
    heads = ("GNMax, tight", "γ_opt, one target", "γ_opt, all releases", "private teachers, no noise")
    rows = []
    for m, Q in settings():
        of = {row["noise"]: row for row in rows_of(m, 1) if row["Q"] == Q}
        total = f"({of['none']['total ε']:.3f}, {of['none']['total δ']:.4f})"
        rows.append([m, Q, total, *(f"{of[name]['expected']:.3f}" for name in names)])
    return _markdown(("m", "Q", "total (ε, δ)", *heads), rows)


def settings() -> list[tuple[int, int]]:
    """Return (m, Q) of every row of the summary."""
    return [(m, Q) for m in sorted(paper.ACCURACY_TABLES.values()) for Q in paper.QUERIES]


@cache
def rows_of(m: int, table: int) -> tuple[Row, ...]:
    """Return the rows of one of the two tables of the experiment at an m."""
    number = next(number for number, each in paper.ACCURACY_TABLES.items() if each == m)
    return tuple(reproduce(f"table-{number}").content()["tables"][table]["rows"])


def _mean(row: Row) -> str:
    return f"{row['mean']:.2f} ({row['std']:.2f})"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def _markdown(heads: tuple[str, ...], rows: Iterable[Iterable[Any]]) -> list[str]:
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return [lines[0], "|" + "---|" * len(heads), *lines[1:]]


if __name__ == "__main__":
    main()
