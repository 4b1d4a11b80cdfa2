"""Vote files: CSV, Parquet and npy, read a block at a time; and label files, written the same way.

What a file holds that is not a vote is refused by its place, never by its content.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from darrm.cli.parameters import named_values, number, options_named
from darrm_opt.durable_file import errors_naming
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.optional_packages import require
from darrm_opt.tables.votes import (
    AS_CLASS,
    EVENLY,
    INDEXED,
    NAMED,
    SIGNED,
    TRANSPOSED,
    checked_classes,
    checked_votes,
    fill_missing,
    kind_advice,
    label_type,
    shape_advice,
)

if TYPE_CHECKING:
    from darrm_opt.questions.plan import ReleasePlan
    from darrm_opt.tables.priors import PastVotes

Table = NDArray[Any]

VOTE_ROWS = 65_536  # rows of a file of votes that are read at a time
FORMATS = (".csv", ".parquet", ".npy")  # names that files of votes and labels may end in

_VOTE = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?", re.IGNORECASE)
"""How a class may be written: `float` takes underscores and the digits of other scripts, too."""

_MISSING = frozenset({"", "na", "n/a", "<na>", "nan", "nil", "none", "null", "missing", "?", "-", ".", "#n/a"})
"""What stands for votes that are missing, so that it names no voter."""

CHOOSE = (
    "Are votes missing? --missing evenly counts them for each class in turn, --missing class for the last class; "
    "add ,value=-1 if -1 marks them."
)
"""Advice where votes may be missing."""

_GONE = -1  # a missing vote that was read from text

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_LONGEST_CELL = 256  # bytes of a line for each voter, at most
_PIECE = 1 << 22  # bytes of a CSV file that are read at once, at most

_NPY_HEADER = 128
"""Bytes of the header of an .npy file of one flat array, padded so that the length can be filled in at the end."""


@dataclass(frozen=True)
class Missing:
    """What becomes of the missing votes of a file, as `fill_missing` takes it."""

    how: str
    value: int | None = None
    groups: tuple[int, ...] | None = None

    def check(self, K: int, classes: int | None) -> None:
        """Refuse what cannot be done for K votes among these classes."""
        with options_named(how="missing", value="missing"):
            self.fill([[0] * K], classes, 0, self.value)

    def fill(self, votes: Any, classes: int | None, first_row: int, value: int | None) -> Table:
        """Return votes that are all there; ``classes`` is None for the bits of a γ."""
        return fill_missing(votes, classes or 2, self.how, value=value, groups=self.groups, first_row=first_row)


def missing_votes(text: str | None) -> Missing | None:
    """Return what becomes of missing votes, as typed; None: they are refused."""
    from darrm_opt.arguments import whole_number

    if text is None:
        return None
    how, _, rest = text.partition(",")
    accepted = f"{EVENLY} or {AS_CLASS}, and perhaps value=N behind a comma"
    if how not in (EVENLY, AS_CLASS):
        raise InvalidInput("missing", text, accepted)
    value = named_values("missing", rest or None, ("value",), accepted).get("value")
    if value is None:
        return Missing(how)
    return Missing(how, whole_number(number(value), "missing", accepted, least=-(2**63), most=2**63 - 1))


def check_format(path: str, argument: str) -> str:
    """Return what a file's name ends in."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise InvalidInput(argument, path, "a name ending in " + ", ".join(FORMATS))
    if suffix == ".parquet":
        _parquet()
    return suffix


@dataclass(frozen=True)
class VoteFile:
    """A file of votes: a row for each query, a column for each voter."""

    path: str
    K: int  # voters
    classes: int | None = None  # of which a vote names one; None: the bits of a γ
    missing: Missing | None = None  # what becomes of missing votes; None: they are refused
    argument: str = "VOTES"  # what named it

    def blocks(self, rows: int) -> Iterator[Table]:
        """Yield the votes, ``rows`` rows at a time (the last block may be shorter), checked."""
        if self.missing is not None:
            self.missing.check(self.K, self.classes)
        reader = {".csv": self._csv, ".parquet": self._parquet, ".npy": self._npy}[
            check_format(self.path, self.argument)
        ]
        try:
            yield from _in_blocks(reader(rows), rows)
        except OSError as err:
            raise self._invalid("a readable file", f"{err.strerror or 'It cannot be read'}.") from err

    def count_rows(self, rows: int) -> int:
        """Return the number of rows, once all of the file is found to be votes."""
        return sum(len(block) for block in self.blocks(rows))

    def _invalid(self, accepted: str, advice: str = "") -> InvalidInput:
        return InvalidInput(self.argument, self.path, accepted, advice)

    def _no_vote(self, place: str, advice: str) -> InvalidInput:
        return self._invalid(self._accepted, f"{place} {advice}".strip())

    @property
    def _accepted(self) -> str:
        return "0 and 1 alone" if self.classes is None else f"classes 0 to {self.classes - 1} alone"

    def _csv(self, rows: int) -> Iterator[Table]:
        missing = self.missing
        with Path(self.path).open("rb") as file:
            number, read = 1, 0
            for lines in self._whole_lines(file, rows):
                start = 0
                if number == 1:
                    start = len(_BYTE_ORDER_MARK) if lines.startswith(_BYTE_ORDER_MARK) else 0
                    head_end = lines.index(b"\n") + 1
                    if self._is_head(lines[start:head_end]):
                        start, number = head_end, 2
                votes = self._parse(lines[start:], number)
                if len(votes):
                    filled = votes if missing is None else missing.fill(votes, self.classes, read, _GONE)
                    yield filled.astype(votes.dtype, copy=False)
                read += len(votes)
                number += lines.count(b"\n", start)

    def _whole_lines(self, file: BinaryIO, rows: int) -> Iterator[bytes]:
        """Yield the lines, many at a time, each with an end; a line that is too long is never read whole."""
        longest = _LONGEST_CELL * self.K
        pending, number = b"", 1
        while piece := file.read(min(2 * self.K * rows, _PIECE)):
            end = piece.rfind(b"\n") + 1
            if end:
                yield pending + piece[:end]
                number += piece.count(b"\n", 0, end)
                pending = b""
            pending += piece[end:]
            if len(pending) > longest:
                raise self._invalid(f"lines of at most {longest} bytes", f"Line {number} is longer.")
        if pending:
            yield pending + b"\n"

    def _is_head(self, line: bytes) -> bool:
        """Return whether the first line holds names, not votes; refuse it if it may be either."""
        cells = [cell.strip().lower() for cell in self._cells(line, 1)]
        # pandas names columns 0, 1, 2, … and other programs begin with 1: taken for votes, every label is one row off.
        for first in (0, 1):
            if cells == [str(first + place) for place in range(self.K)] and self.K > 1:
                if first + self.K - 1 >= (self.classes or 2):  # the last of them is no class
                    return True
                accepted = "a first line that is plainly votes, or names"
                advice = f"Line 1 counts from {first}, as a header without names does: give names to the columns."
                raise self._invalid(accepted, f"{advice} If it contains votes, add a line of names above it.")
        if not line.strip() or any(_is_number(cell) for cell in cells):
            return False
        if len(cells) != self.K:
            raise self._wrong_width(1, len(cells))
        if len({*cells}) < self.K or not _MISSING.isdisjoint(cells):
            numbers = "0 and 1" if self.classes is None else f"the numbers 0 to {self.classes - 1}"
            advice = f"Line 1 is neither: votes are {numbers}, not words."
            raise self._invalid("a first line of votes, or of names, without duplicates", advice)
        return True

    def _parse(self, lines: bytes, number: int) -> Table:
        """Return the votes of lines, the first of which has that number: all at once if each is as short as can be.

        Where votes may be missing, those that are become `_GONE`.
        """
        K, classes, missing = self.K, self.classes, self.missing
        lines = lines.replace(b"\r\n", b"\n")
        text = np.frombuffer(lines, dtype=np.uint8)
        if text.size == 2 * K * lines.count(b"\n"):
            table = text.reshape(-1, 2 * K)
            digits = table[:, ::2] - np.uint8(ord("0"))
            if (
                (table[:, 1:-1:2] == ord(",")).all()
                and (table[:, -1] == ord("\n")).all()
                and (digits < min(classes or 2, 10)).all()  # what follows the digits is no digit, whatever its code
            ):
                return digits
        votes = []
        for line_number, line in enumerate(lines.split(b"\n"), number):
            if not line.strip():
                continue
            cells = self._cells(line, line_number)
            if len(cells) != K:
                raise self._wrong_width(line_number, len(cells))
            row = [_vote(cell, classes) for cell in cells]
            if missing is not None:
                row = [
                    _GONE if vote is None and _is_missing(cell, missing.value) else vote
                    for vote, cell in zip(row, cells, strict=True)
                ]
            if None in row:
                column = row.index(None)
                place = f"Line {line_number}, column {column + 1} holds something else."  # what is not shown: a vote
                raise self._no_vote(place, self._advice(cells[column]))
            votes.append(row)
        kind = np.uint8 if classes is None and missing is None else np.int64
        return np.array(votes, dtype=kind).reshape(len(votes), K)

    def _advice(self, cell: str) -> str:
        """Return what makes a vote of a cell of that kind: a missing one, text, or another number."""
        if _is_missing(cell, None):
            return CHOOSE
        if not _is_number(cell):
            return NAMED
        return " ".join(([] if self.missing else [CHOOSE]) + ([SIGNED] if self.classes in (None, 2) else []))

    def _checked(self, votes: Any, start: int) -> Table:
        """Return rows of votes, the first of which has that number in its file, counted from 0."""
        try:
            if self.missing is not None:
                votes = self.missing.fill(votes, self.classes, start, self.missing.value)
            if self.classes is None:
                return checked_votes(votes, self.K)
            return checked_classes(votes, self.K, self.classes)
        except InvalidInput:
            place = self._invalid_place(votes, start)
            advice = kind_advice(votes.dtype, signed=self.classes in (None, 2), absent="" if self.missing else CHOOSE)
            raise self._no_vote(place, advice) from None

    def _invalid_place(self, votes: Table, start: int) -> str:
        """Return where the first invalid vote of some rows is, or the rows if they hold no numbers."""
        if votes.dtype.kind in "iuf":
            rows, columns = np.nonzero(~np.isin(votes, range(self.classes or 2)))
            if rows.size:
                return f"Row {start + rows[0]}, column {columns[0]}, counted from 0, holds something else."
        return f"Of rows {start} to {start + len(votes) - 1}, counted from 0, one holds something else."

    def _cells(self, line: bytes, number: int) -> list[str]:
        try:
            return next(csv.reader([line.decode("utf-8")]), [])
        except (UnicodeDecodeError, csv.Error):
            raise self._invalid("CSV as UTF-8 text", f"Line {number} is not.") from None

    def _wrong_width(self, number: int, cells: int) -> InvalidInput:
        advice = f"Line {number} has {cells}."
        if number == 1:
            advice += f" {INDEXED if cells == self.K + 1 else TRANSPOSED}"
        return self._invalid(f"{self.K} votes on each line, one of each voter", advice)

    def _npy(self, rows: int) -> Iterator[Table]:
        K, header = self.K, np.lib.format
        expected = f"an array of shape (N, {K}) of whole numbers, truth values or floats"
        with Path(self.path).open("rb") as file:
            try:
                version = header.read_magic(file)
                reader = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
                shape, fortran, dtype = reader(file)
            except ValueError:
                raise self._invalid("a file written by numpy.save") from None
            if len(shape) != 2 or shape[1] != K or dtype.kind not in "biuf":
                is_numbers = dtype.kind in "biuf"
                advice = shape_advice(shape, K) if is_numbers else kind_advice(dtype, signed=False, absent="")
                raise self._invalid(expected, f"It has shape {shape} and type {dtype}. {advice}".strip())
            data = file.tell()
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                pieces = [(start * K, count * K)]
                if fortran:  # a transposed array, as predictions.T: the votes of a voter are neighbours in the file
                    pieces = [(voter * shape[0] + start, count) for voter in range(K)]
                raw = b""
                for first, length in pieces:
                    file.seek(data + first * dtype.itemsize)
                    raw += file.read(length * dtype.itemsize)
                if len(raw) != count * K * dtype.itemsize:
                    raise self._invalid(f"{shape[0]} rows", "The file ends before.")
                table = np.frombuffer(raw, dtype=dtype).reshape((count, K), order="F" if fortran else "C")
                yield self._checked(np.ascontiguousarray(table), start)

    def _parquet(self, rows: int) -> Iterator[Table]:
        arrow = _parquet()
        try:
            file = arrow.ParquetFile(self.path)
        except ValueError:  # pyarrow's own errors derive from it
            raise self._invalid("a Parquet file") from None
        with file:
            if len(file.schema_arrow) != self.K:
                shape = (file.metadata.num_rows, len(file.schema_arrow))
                advice = f"It has {shape[1]}. {shape_advice(shape, self.K)}".strip()
                raise self._invalid(f"{self.K} columns, one of each voter", advice)
            start = 0
            for batch in file.iter_batches(batch_size=rows):
                if self.missing is None and any(column.null_count for column in batch.columns):
                    raise self._invalid(self._accepted, f"It has missing values. {CHOOSE}")
                columns = np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
                yield self._checked(columns, start)
                start += len(columns)


def _is_missing(cell: str, value: int | None) -> bool:
    if cell.strip().lower() in _MISSING:
        return True
    return value is not None and _is_number(cell) and float(cell) == value


@lru_cache(maxsize=1 << 16)
def _vote(cell: str, classes: int | None) -> int | None:
    """Return the vote that a cell spells, or None."""
    if classes is None:
        return _VOTE.get(cell.strip().lower())
    vote = float(cell) if _NUMBER.fullmatch(cell := cell.strip()) else -1.0
    return int(vote) if vote in range(classes) else None


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in _VOTE:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


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
    """A file of labels, written block by block: 0 and 1 as bytes; classes as `label_type` says, −1 for none."""

    def __init__(self, file: BinaryIO, suffix: str, classes: int | None = None) -> None:
        self._classes = classes is not None
        self._type = np.dtype(np.uint8) if classes is None else label_type(classes).newbyteorder("<")
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
            self._schema = self._arrow.schema([("label", self._arrow.from_numpy_dtype(self._type))])
            self._parquet = _parquet().ParquetWriter(file, self._schema)

    def write(self, bits: NDArray[np.integer]) -> None:
        """Add labels."""
        self._count += len(bits)
        if self._suffix == ".csv" and self._classes:
            self._file.write("".join(f"{label}\n" for label in bits.tolist()).encode("ascii"))
        elif self._suffix == ".csv":
            text = np.full((len(bits), 2), ord("\n"), dtype=np.uint8)
            text[:, 0] = bits + np.uint8(ord("0"))
            self._file.write(text.tobytes())
        elif self._suffix == ".npy":
            self._file.write(bits.astype(self._type, copy=False).tobytes())
        else:
            self._parquet.write_table(self._arrow.table([self._arrow.array(bits)], schema=self._schema))

    def finish(self) -> None:
        """Write what can only be known at the end."""
        if self._parquet is not None:
            self._parquet.close()
        if self._suffix == ".npy":
            header = io.BytesIO()
            header_fields = {"descr": self._type.str, "fortran_order": False, "shape": (self._count,)}
            np.lib.format.write_array_header_1_0(header, header_fields)
            self._file.seek(0)
            self._file.write(header.getvalue())

    def abandon(self) -> None:
        """Write no more, whether `finish` ended well or not."""
        if self._parquet is not None:
            self._parquet.is_open = False  # else it writes the end when it is collected, to a file that is closed


@contextmanager
def labels(path: Path, suffix: str, classes: int | None = None) -> Iterator[LabelFile]:
    """Open a file for labels, anew; when this ends well the file is whole and on the disk."""
    with errors_naming(path), path.open("wb") as file:
        writing = LabelFile(file, suffix, classes)
        try:
            yield writing
            writing.finish()
        finally:
            writing.abandon()
        file.flush()
        os.fsync(file.fileno())


def vote_prior(past: Mapping[str, Any], asked: ReleasePlan) -> Any:
    """Return the prior, by the file that --votes names, if any: as the question has it, or an objective."""
    if past["votes"] is None:
        if past["missing"] is not None:
            raise InvalidInput("missing", past["missing"], Rule("needs --votes"))
        return asked.prior
    if asked.groups is not None:
        raise InvalidInput("votes", past["votes"], Rule("cannot be combined with --group"), "Give a --prior.")
    if asked.prior is not None:
        raise InvalidInput("prior", asked.prior, Rule("cannot be combined with --votes"), "The votes are the prior.")
    if asked.classes > 2 or asked.price > 0:
        return past_votes(past, asked.voters, asked.classes)
    from darrm_opt.design.objective import histogram
    from darrm_opt.priors import vote_histogram

    filled = missing_votes(past["missing"])
    return histogram(
        vote_histogram(VoteFile(past["votes"], asked.voters, None, filled, "votes").blocks(VOTE_ROWS)).counts
    )


def past_votes(past: Mapping[str, Any], K: int, classes: int) -> PastVotes:
    """Return the votes of the file that --votes names, which need no protection."""
    from darrm_opt.tables.priors import PastVotes

    path = past["votes"]
    filled = missing_votes(past["missing"])
    tables = [] if path is None else list(VoteFile(path, K, classes, filled, "votes").blocks(VOTE_ROWS))
    if not tables:
        raise InvalidInput("votes", path, "a file with at least one row of votes")
    return PastVotes.of_votes(np.concatenate(tables), classes)
