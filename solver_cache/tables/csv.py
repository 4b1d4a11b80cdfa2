"""CSV: a comment with the head, the names of the columns, a row a line, and a comment that ends it.

Numbers are written so that they read back as the same doubles; γ and the record are JSON within their cells.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from darrm_opt.design_spec import canonical_json
from solver_cache.model import Row
from solver_cache.tables.entry import (
    COLUMNS,
    COUNTS,
    LISTS,
    NUMBERS,
    Entry,
    TableError,
    check_head,
    columns_of,
    entry,
    json_or_none,
)
from solver_cache.tables.entry import head as head_of
from solver_cache.tables.jsonl import check_end

COMMENT = "# darrm-opt table "
END = "# end "


def write(path: Path, rows: Iterable[Row]) -> int:
    """Write rows; return how many."""
    number, total = 0, hashlib.sha256()
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{COMMENT}{canonical_json(head_of())}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
            writer.writerow([_cell(value) for value in columns_of(row).values()])
            total.update(row.digest.encode())
        writer.writerow([END + canonical_json({"rows": number, "sha256": total.hexdigest()})])
    return number


def read(path: Path) -> Iterator[Entry]:
    """Yield the rows of a table; raises TableError where it is none, or was cut."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # records are longer than the usual limit
    number, total, end = 0, hashlib.sha256(), None
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        first_line = file.readline()
        check_head(json_or_none(first_line[len(COMMENT) :]) if first_line.startswith(COMMENT) else None)
        reader = csv.reader(file, strict=True)
        try:
            names = next(reader, [])
            for cells in reader:
                if cells and cells[0].startswith(END):
                    end = json_or_none(cells[0][len(END) :])
                    continue
                number += 1
                cell_of = dict(zip(names, cells, strict=False))
                total.update(cell_of.get("sha256", "").encode())
                yield (
                    Entry(number, None, "it has too many, or too few, cells")
                    if len(cells) != len(names)
                    else entry(number, {name: _value(name, cell) for name, cell in cell_of.items()})
                )
        except csv.Error as err:
            raise TableError(f"The table cannot be read behind row {number}: {err}.") from err
    check_end(end, number, total.hexdigest())


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return canonical_json(value)
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _value(name: str, cell: str) -> Any:
    """Return what a cell says, or its text where it does not say it in the one spelling."""
    try:
        value: Any = cell
        if name == "m" and not cell:
            return None
        if name in NUMBERS or name == "m":
            value = float(cell)
        elif name in COUNTS:
            value = int(cell)
        elif name in LISTS:
            value = json.loads(cell)
    except (ValueError, RecursionError):
        return cell
    return value if _cell(value) == cell else cell
