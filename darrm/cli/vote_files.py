"""Vote files: CSV, Parquet and npy, read a block at a time; and label files, written the same way.

What a file holds that is not a vote is refused by its place, never by its content.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from darrm_opt.errors import InvalidInput
from darrm_opt.mechanism.majority import checked_votes
from darrm_opt.optional_packages import require
from darrm_opt.tables.votes import checked_classes

Table = NDArray[Any]

FORMATS = (".csv", ".parquet", ".npy")
"""Names that files of votes and labels may end in."""

_VOTE = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}

_NPY_HEADER = 128
"""Bytes of the header of an .npy file of one flat array, padded so that the length can be filled in at the end."""


def check_format(path: str, argument: str) -> str:
    """Return what a file's name ends in.

    Raises:
        InvalidInput: in none of `FORMATS`.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InvalidInput(argument, path, "a name ending in " + ", ".join(FORMATS))
    if suffix == ".parquet":
        _parquet()
    return suffix


def blocks(path: str, K: int, rows: int, classes: int | None = None) -> Iterator[Table]:
    """Yield the votes of a file, ``rows`` rows at a time (the last block may be shorter), checked.

    Args:
        path: a file; its name ends in one of `FORMATS`. CSV: a line for each release, 0 and 1 separated by commas, with
            or without a line of names. Parquet: a column for each voter. npy: an array of shape (N, K).
        K: voters, the columns that are needed.
        rows: rows of a block.
        classes: C, for votes that are whole numbers 0..C−1; None: they are 0 or 1.

    Raises:
        InvalidInput: the file cannot be read, has other columns, or holds something that is no vote.
        BackendUnavailable: Parquet needs pyarrow, and it is not there.
    """
    reader = {".csv": _csv, ".parquet": _parquet_columns, ".npy": _npy}[check_format(path, "VOTES")]
    try:
        yield from _in_blocks(reader(path, K, rows, classes), rows)
    except OSError as err:
        raise InvalidInput("VOTES", path, "a readable file", f"{err.strerror or 'It cannot be read'}.") from err


def count_rows(path: str, K: int, rows: int, classes: int | None = None) -> int:
    """Return the number of rows in a file of votes, once all of it is found to be votes; raises as `blocks`."""
    return sum(len(block) for block in blocks(path, K, rows, classes))


def _csv(path: str, K: int, rows: int, classes: int | None) -> Iterator[Table]:
    with Path(path).open("rb") as file:
        head = file.readline()
        if head.startswith(b"\xef\xbb\xbf"):
            head = head[3:]
        number = 1
        pending = [head] if head.strip() else []
        if pending and not any(_is_number(cell) for cell in _cells(head, path, 1)):
            if len(_cells(head, path, 1)) != K:
                raise _wrong_width(path, 1, K)
            pending, number = [], 2
        while lines := pending + list(islice(file, rows - len(pending))):
            pending = []
            votes = _parse(lines, path, number, K, classes)
            if len(votes):
                yield votes
            number += len(lines)


def _parse(lines: list[bytes], path: str, number: int, K: int, classes: int | None) -> Table:
    """Return the votes of some lines, the first of which has that number: all at once if each is as short as can be."""
    raw = b"".join(lines).replace(b"\r\n", b"\n")
    if not raw.endswith(b"\n"):
        raw += b"\n"
    text = np.frombuffer(raw, dtype=np.uint8)
    if text.size == 2 * K * len(lines):
        table = text.reshape(len(lines), 2 * K)
        digits = table[:, ::2] - np.uint8(ord("0"))
        if (
            (table[:, 1:-1:2] == ord(",")).all()
            and (table[:, -1] == ord("\n")).all()
            and (digits < (classes or 2)).all()
        ):
            return digits
    votes = []
    for line_number, line in enumerate(lines, number):
        if not line.strip():
            continue
        cells = _cells(line, path, line_number)
        if len(cells) != K:
            raise _wrong_width(path, line_number, K)
        row = [_vote(cell, classes) for cell in cells]
        if None in row:
            raise InvalidInput("VOTES", path, _accepted_values(classes), f"Line {line_number} holds something else.")
        votes.append(row)
    return np.array(votes, dtype=np.uint8 if classes is None else np.int64).reshape(len(votes), K)


def _accepted_values(classes: int | None) -> str:
    return "0 and 1 alone" if classes is None else f"classes 0 to {classes - 1} alone"


def _vote(cell: str, classes: int | None) -> int | None:
    """Return the vote that a cell spells, or None."""
    if classes is None:
        return _VOTE.get(cell.strip().lower())
    try:
        vote = float(cell)
    except ValueError:
        return None
    return int(vote) if vote in range(classes) else None


def _check_votes(votes: Any, path: str, start: int, K: int, classes: int | None) -> Table:
    """Return rows of votes, the first of which has that number in its file, counted from 0."""
    try:
        return checked_votes(votes, K) if classes is None else checked_classes(votes, K, classes)
    except InvalidInput:
        place = f"Of rows {start} to {start + len(votes) - 1}, counted from 0, one holds something else."
        raise InvalidInput("VOTES", path, _accepted_values(classes), place) from None


def _cells(line: bytes, path: str, number: int) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8")]), [])
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput("VOTES", path, "CSV as UTF-8 text", f"Line {number} is not.") from None


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in _VOTE:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _wrong_width(path: str, number: int, K: int) -> InvalidInput:
    return InvalidInput(
        "VOTES", path, f"{K} votes on each line, one of each voter", f"Line {number} has another number."
    )


def _npy(path: str, K: int, rows: int, classes: int | None) -> Iterator[Table]:
    expected = f"an array of shape (N, {K}), in C order, of whole numbers, truth values or floats"
    with Path(path).open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = reader(file)
        except ValueError:
            raise InvalidInput("VOTES", path, "a file as numpy.save writes it") from None
        if len(shape) != 2 or shape[1] != K or fortran or dtype.kind not in "biuf":
            raise InvalidInput("VOTES", path, expected, f"It has shape {shape} and type {dtype}.")
        for start in range(0, shape[0], rows):
            count = min(rows, shape[0] - start)
            raw = file.read(count * K * dtype.itemsize)
            if len(raw) != count * K * dtype.itemsize:
                raise InvalidInput("VOTES", path, f"{shape[0]} rows", "The file ends before.")
            yield _check_votes(np.frombuffer(raw, dtype=dtype).reshape(count, K), path, start, K, classes)


def _parquet_columns(path: str, K: int, rows: int, classes: int | None) -> Iterator[Table]:
    arrow = _parquet()
    try:
        file = arrow.ParquetFile(path)
    except ValueError:  # pyarrow's own errors derive from it
        raise InvalidInput("VOTES", path, "a Parquet file") from None
    with file:
        if len(file.schema_arrow) != K:
            raise InvalidInput("VOTES", path, f"{K} columns, one of each voter", f"It has {len(file.schema_arrow)}.")
        start = 0
        for batch in file.iter_batches(batch_size=rows):
            if any(column.null_count for column in batch.columns):
                raise InvalidInput("VOTES", path, _accepted_values(classes), "It has missing values.")
            columns = np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
            yield _check_votes(columns, path, start, K, classes)
            start += len(columns)


def _parquet() -> Any:
    return require("pyarrow.parquet", "A Parquet file (.csv and .npy do not)")


def _in_blocks(tables: Iterable[Table], rows: int) -> Iterator[Table]:
    """Yield the same rows in blocks of ``rows``, wherever the pieces were cut."""
    pending: list[Table] = []
    count = 0
    for table in tables:
        start = 0
        while count + len(table) - start >= rows:
            end = start + rows - count
            yield np.concatenate([*pending, table[start:end]]) if pending else table[start:end]
            pending, count, start = [], 0, end
        if start < len(table):
            pending.append(table[start:])
            count += len(table) - start
    if pending:
        yield np.concatenate(pending)


class LabelFile:
    """A file of labels, written block by block: 0 and 1 as bytes; classes as 16-bit whole numbers, −1 for none."""

    def __init__(self, file: BinaryIO, suffix: str, *, classes: bool = False) -> None:
        self._classes = classes
        self._file = file
        self._suffix = suffix
        self._count = 0
        self._parquet: Any = None
        if suffix == ".csv":
            file.write(b"label\n")
        elif suffix == ".npy":
            file.write(bytes(_NPY_HEADER))
        else:
            self._arrow = require("pyarrow", "A Parquet file")
            self._schema = self._arrow.schema([("label", self._arrow.int16() if classes else self._arrow.uint8())])
            self._parquet = _parquet().ParquetWriter(file, self._schema)

    def write(self, bits: NDArray[np.uint8] | NDArray[np.int16]) -> None:
        """Add labels."""
        self._count += len(bits)
        if self._suffix == ".csv" and self._classes:
            self._file.write("".join(f"{label}\n" for label in bits.tolist()).encode("ascii"))
        elif self._suffix == ".csv":
            text = np.full((len(bits), 2), ord("\n"), dtype=np.uint8)
            text[:, 0] = bits + np.uint8(ord("0"))
            self._file.write(text.tobytes())
        elif self._suffix == ".npy":
            self._file.write(bits.astype("<i2" if self._classes else "|u1", copy=False).tobytes())
        else:
            self._parquet.write_table(self._arrow.table([self._arrow.array(bits)], schema=self._schema))

    def finish(self) -> None:
        """Write what can only be known at the end."""
        if self._parquet is not None:
            self._parquet.close()
        if self._suffix == ".npy":
            header = io.BytesIO()
            header_fields = {
                "descr": "<i2" if self._classes else "|u1",
                "fortran_order": False,
                "shape": (self._count,),
            }
            np.lib.format.write_array_header_1_0(header, header_fields)
            self._file.seek(0)
            self._file.write(header.getvalue())


@contextmanager
def labels(path: Path, suffix: str, *, classes: bool = False) -> Iterator[LabelFile]:
    """Open a file for labels, anew; when this ends well the file is whole and on the disk."""
    with path.open("wb") as file:
        writing = LabelFile(file, suffix, classes=classes)
        yield writing
        writing.finish()
        file.flush()
        os.fsync(file.fileno())
