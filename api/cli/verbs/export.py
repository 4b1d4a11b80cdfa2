"""``darrm export``."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from api.cli.declared import Option
from api.cli.options import AsJson, StoreUrl, TableFormat
from api.cli.outcome import answer, say


def export(
    output: Annotated[str | None, Option("--output", "The table to be written.", "FILE")] = None,
    format: TableFormat = None,  # noqa: A002 — the option's name
    url: StoreUrl = None,
    *,
    json: AsJson = False,
) -> None:
    """Write every kept answer to one file, with its certificate, to be shipped beside the jobs that use it.

    The same answers make the same file, byte for byte. A job reads it by DarrmClient("file:///…"), proving each answer
    when it is used; `darrm import` brings it into another store. Rows of another version are left out.
    """
    from api.cli.caching import opened
    from api.cli.files import check_writable
    from api.cli.report import as_json
    from darrm_opt.errors import InvalidInput
    from solver_cache.tables.formats import exportable_rows, format_of, write_table

    if output is None:
        raise InvalidInput("output", None, "a file to be written")
    check_writable(output, "output")
    chosen = format_of(output, format)
    with closing(opened(url, reading=True)) as store:
        many = write_table(output, exportable_rows(store.rows()), chosen.name)
        left = store.stats().rows - many
    if left > 0:
        say(f"Warning: {left:,} rows are of another version or damaged, and left out (`darrm cache check` names them).")
    told = {"file": output, "format": chosen.name, "rows": many, "left_out": max(0, left)}
    answer(as_json(told) if json else f"Written: {many:,} answers to {output} ({chosen.name}).")
