"""Parquet, through pyarrow: typed columns, γ as a list of doubles, the head in the file's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from darrm_opt.optional_packages import require
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
from solver_cache.tables.entry import head as head_of

GROUP = 1_000
"""Rows in a row group: what is held in memory at a time."""

_HEAD = b"darrm-opt"


def write(path: Path, rows: Iterable[Row]) -> int:
    """Write rows; return how many."""
    pa, pq = _pyarrow()
    schema = _schema(pa)
    number, iterator = 0, iter(rows)
    with pq.ParquetWriter(path, schema, compression="zstd", version="2.6", write_page_checksum=True) as writer:
        while group := [columns_of(row) for row in islice(iterator, GROUP)]:
            writer.write_table(pa.Table.from_pylist(group, schema=schema), row_group_size=GROUP)
            number += len(group)
    return number


def read(path: Path) -> Iterator[Entry]:
    """Yield the rows of a table; raises TableError where it is none, or is damaged."""
    pa, pq = _pyarrow()
    number = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = file.schema_arrow.metadata or {}
            check_head(json_or_none(metadata.get(_HEAD, b"")))
            missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
            if missing:
                raise TableError(f"The table has no column {missing[0]!r}.")
            for batch in file.iter_batches(batch_size=GROUP, columns=list(COLUMNS)):
                for columns in batch.to_pylist():
                    number += 1
                    yield entry(number, columns)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as err:
        message = str(err).splitlines()[0]
        raise TableError(f"The table cannot be read behind row {number}: {message}") from err


def _schema(pa: Any) -> Any:
    kinds = {
        **dict.fromkeys((*NUMBERS, "m"), pa.float64()),
        **dict.fromkeys(COUNTS, pa.int64()),
        **dict.fromkeys(LISTS, pa.list_(pa.float64())),
    }
    fields = [pa.field(name, kinds.get(name, pa.string()), nullable=name == "m") for name in COLUMNS]
    return pa.schema(fields, metadata={_HEAD: canonical_json(head_of()).encode()})


def _pyarrow() -> tuple[Any, Any]:
    return require("pyarrow", "A table in Parquet"), require("pyarrow.parquet", "A table in Parquet")
