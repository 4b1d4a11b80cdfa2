"""``darrm import``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from api.cli.declared import Argument
from api.cli.options import AsJson, StoreUrl, TableFormat
from api.cli.outcome import ExitCode, answer, end, say


def import_(
    file: Annotated[str, Argument("FILE", "A table that `darrm export` wrote.")],
    format: TableFormat = None,  # noqa: A002 — the option's name
    url: StoreUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """Bring a table into the store: every row is proved again, and each that is not is refused with its reason.

    An answer that is kept already stands. Rows that are refused are listed, the others are kept, and the exit code says so.
    """
    from api.cli.caching import opened
    from api.cli.report import as_json
    from solver_cache.tables.formats import format_of, import_rows, read_table

    chosen = format_of(file, format)
    counts = {"new": 0, "known": 0, "refused": 0}
    refused = []
    with closing(opened(url, reading=False)) as store:
        for row in import_rows(read_table(file, chosen.name), store):
            counts[row.became] += 1
            if row.became == "refused":
                refused.append({"row": row.number, "id": row.key, "reason": row.reason})
                say(f"Row {row.number} is refused: {row.reason}")
    told = {"file": file, "format": chosen.name, **counts, "rows_refused": refused}
    text = f"New: {counts['new']:,}; known already: {counts['known']:,}; refused: {counts['refused']:,}."
    answer(as_json(told) if json else text)
    if refused:
        end(ExitCode.SOME_FAILED)
