"""CSV: the names of the columns, then a row a line, plain enough for any reader of CSV.

Numbers are written so that they read back as the same doubles; γ and the record are JSON within their cells. Two
columns more than in other formats say what the file is: ``table``, the version of its layout, in each row, and
``end``, empty but in the last row, where it counts the rows and hashes their order; so a file that was cut is known.
A table without rows has no column ``end``. Files of layout 1 said both in comments, which other readers take for rows.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from darrm_opt.record import canonical_json
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
from solver_cache.tables.jsonl import check_end

VERSION = "2"
"""Version of the layout of a CSV file."""

COMMENT, OLD_END = "# darrm-opt table ", "# end "
"""What the first and the last line of a file of layout 1 begin with."""


def write(path: Path, rows: Iterable[Row]) -> int:
    """Write rows; return how many."""
    number, total, last = 0, hashlib.sha256(), None
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
            # A row is written when the next one is known: only the last has an end.
            writer.writerow([*COLUMNS, "table", "end"] if last is None else [*last, VERSION, ""])
            last = [_cell(value) for value in columns_of(row).values()]
            total.update(row.digest.encode())
        end = canonical_json({"rows": number, "sha256": total.hexdigest()})
        writer.writerow([*COLUMNS, "table"] if last is None else [*last, VERSION, end])
    return number


def read(path: Path) -> Iterator[Entry]:
    """Yield the rows of a table; raises TableError where it is none, or was cut."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # records are longer than the usual limit
    number, total, end = 0, hashlib.sha256(), None
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        # By its first bytes: layout 1 began with a comment, which is no row of CSV.
        is_old = file.read(len(COMMENT)) == COMMENT
        if is_old:
            check_head(json_or_none(file.readline()))
        else:
            file.seek(0)
        reader = csv.reader(file, strict=True)
        try:
            names = next(reader, [])
            if not is_old and "table" not in names:
                check_head(None)
            # A table without rows has no last row to say so.
            if names == [*COLUMNS, "table"]:
                end = {"rows": 0, "sha256": total.hexdigest()}
            for cells in reader:
                if is_old and cells and cells[0].startswith(OLD_END):
                    end = json_or_none(cells[0][len(OLD_END) :])
                    continue
                number += 1
                cell_of = dict(zip(names, cells, strict=False))
                if not is_old:
                    if (version := cell_of.get("table")) != VERSION:
                        raise TableError(
                            f"The table has version {version!r:.20}; this program reads 1 and {VERSION}. "
                            "Upgrade darrm-opt."
                        )
                    end = json_or_none(cell_of.get("end")) or end
                # Over the rows' own hashes, in order: a row that was left out, doubled or moved is known without
                # reading γ.
                total.update(cell_of.get("sha256", "").encode())
                yield (
                    # A row that is damaged is an entry with a reason: the others can be imported.
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
