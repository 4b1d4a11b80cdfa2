"""JSON Lines: the head, a row a line, and an end that counts them, so that a file that was cut is known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from darrm_opt.record import canonical_json
from solver_cache.model import Row
from solver_cache.tables.entry import Entry, TableError, check_head, columns_of, entry, head, json_or_none, record_text


def write(path: Path, rows: Iterable[Row]) -> int:
    """Write rows, records as JSON; return how many."""
    number, total = 0, hashlib.sha256()
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(canonical_json(head()) + "\n")
        for number, row in enumerate(rows, start=1):  # noqa: B007 — counted
            columns_of(row)
            record = json.loads(row.record)
            if record_text(record) != row.record:
                raise TableError(f"{row.key}: its record is not spelt as this program spells it")
            line = canonical_json({"id": row.key, "core": row.core, "sha256": row.digest, "record": record})
            total.update(row.digest.encode())
            file.write(line + "\n")
        file.write(canonical_json({"end": True, "rows": number, "sha256": total.hexdigest()}) + "\n")
    return number


def read(path: Path) -> Iterator[Entry]:
    """Yield the rows of a table; raises TableError where it is none, or was cut."""
    number, total, end = 0, hashlib.sha256(), None
    with path.open("rb") as file:
        check_head(json_or_none(file.readline()))
        for line in file:
            content = json_or_none(line)
            if isinstance(content, dict) and "end" in content:
                end = content
                continue
            number += 1
            total.update(str(content.get("sha256") if isinstance(content, dict) else "").encode())
            yield _entry(number, content)
    check_end(end, number, total.hexdigest())


def check_end(content: Any, number: int, total: str) -> None:
    """Refuse a table that does not end as it was written."""
    if not isinstance(content, dict):
        raise TableError(f"The table was cut: it has no end behind row {number}.")
    if (content.get("rows"), content.get("sha256")) != (number, total):
        raise TableError(
            f"The table was changed: its end tells of {content.get('rows')!r:.20} rows, and {number} are there."
        )


def _entry(number: int, content: Any) -> Entry:
    if not isinstance(content, dict):
        return Entry(number, None, "it is not JSON")
    try:
        record = record_text(content.get("record"))
        row = Row(str(content.get("id")), -1, record, "")
        return entry(number, {**columns_of(row), **content, "record": record})
    except TableError as err:
        return Entry(number, None, str(err))
