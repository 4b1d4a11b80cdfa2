"""An append-only file of records that survives kill -9, torn writes, and several processes at once.

A line is ``<checksum> <JSON>``; the checksum covers the line and all lines before it, so a line that was changed, moved
or removed in the middle is found. Whoever reads or writes holds an exclusive lock on the file itself (``flock``), and
opens it anew each time, so that threads and forked children exclude each other too.

A record counts once `append` has returned: then it is on the disk (``fsync``). What a crash leaves of a line that was
being written has no end of line; it never counted, and is cut off by the next who comes. Any other fault refuses the
file: to go on from it could make something free that was charged.

Not covered: a copy of the file is a second file; an older version put back in its place is not recognised by a process
that starts afterwards; the checksum finds damage, not forgery; locks need a local file system, or an NFS with
locks.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from darrm_opt.accounting.errors import BudgetUnreadable
from darrm_opt.durable_file import flush_folder
from darrm_opt.mechanism.errors import ReleaseLogDamaged

Record = dict[str, Any]

CHECKSUM = 32
"""Characters of a checksum: 128 bits."""


class Journal:
    """A file of records, of which this process has read the first ones.

    Args:
        path: an existing file.
        replay: called with each record and the place of its line, in order, once.
    """

    def __init__(self, path: str | os.PathLike[str], replay: Callable[[Record, int], None]) -> None:
        self._path = Path(path)
        self._replay = replay
        self._end = 0
        self._chain = ""
        self._identity: tuple[int, int] | None = None
        self._thread = threading.RLock()
        self._held = False

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    @contextmanager
    def locked(self) -> Iterator[LockedJournal]:
        """Hold the file alone, with all its records replayed.

        Raises:
            BudgetUnreadable: it cannot be opened.
            ReleaseLogDamaged: a line is not as it was written, or the file was replaced or cut while in use.
        """
        with self._thread:
            if self._held:  # a second lock of the same file would wait for the first, forever
                raise RuntimeError("a release log cannot be used from within one of its own releases")
            try:
                file = self._path.open("r+b", buffering=0)
            except OSError as err:
                raise BudgetUnreadable(f"the release log {self._path} cannot be opened: {err.strerror}") from err
            with file:
                fcntl.flock(file, fcntl.LOCK_EX)  # let go when the file is closed, or the process dies
                self._same_file(file)
                self._catch_up(file)
                self._held = True
                try:
                    yield LockedJournal(self, file)
                finally:
                    self._held = False

    def _same_file(self, file: BinaryIO) -> None:
        state = os.fstat(file.fileno())
        identity = (state.st_dev, state.st_ino)
        if self._identity not in (None, identity) or state.st_size < self._end:
            raise ReleaseLogDamaged(
                f"the release log {self._path} was replaced or cut while it was in use: nothing is released."
            )
        self._identity = identity

    def _catch_up(self, file: BinaryIO) -> None:
        """Read what others have added, and cut off what a crash left."""
        start = self._end
        file.seek(start)
        with os.fdopen(os.dup(file.fileno()), "rb") as lines:
            for line in lines:
                record = self._read(line)
                if record is None:
                    if self._is_torn(line):
                        os.ftruncate(file.fileno(), self._end)
                        os.fsync(file.fileno())
                        break
                    raise ReleaseLogDamaged(
                        f"the release log {self._path} is damaged at byte {self._end}: nothing is released. Put back "
                        "the file as it was, with every line that it had, or create another with a budget of its own."
                    )
                self._take(record, line)
        if self._end > start:
            os.fsync(file.fileno())  # whoever wrote these lines may have died before they were on the disk

    def _read(self, line: bytes) -> Record | None:
        checksum, _, content = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum.decode("ascii", "replace") != _checksum(self._chain, content):
            return None
        record: Record = json.loads(content)
        return record

    def _is_torn(self, line: bytes) -> bool:
        """Return whether an unreadable line is the last one, cut short; not one whose end of line was changed."""
        return not line.endswith(b"\n") and self._read(line[:-1] + b"\n") is None

    def _take(self, record: Record, line: bytes) -> None:
        self._replay(record, self._end)
        self._end += len(line)
        self._chain = line[:CHECKSUM].decode("ascii")

    def _append(self, file: BinaryIO, record: Record) -> None:
        line = _line(self._chain, record)
        file.seek(self._end)
        rest = memoryview(line)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
        self._take(record, line)


class LockedJournal:
    """A journal that is held alone."""

    def __init__(self, journal: Journal, file: BinaryIO) -> None:
        self._journal = journal
        self._file = file

    def append(self, record: Record) -> None:
        """Add a record; when this returns, it is on the disk.

        Raises:
            OSError: it could not be written; it may count or not, and whoever waits for it gets nothing.
        """
        self._journal._append(self._file, record)  # noqa: SLF001 — two halves of one thing

    def at(self, place: int) -> Record:
        """Return the record whose line begins at ``place``."""
        self._file.seek(place)
        with os.fdopen(os.dup(self._file.fileno()), "rb") as lines:
            record: Record = json.loads(lines.readline()[CHECKSUM + 1 :])
        return record


def create(path: str | os.PathLike[str], first: Record) -> None:
    """Make a journal that holds one record: all of it or nothing, and never over another file.

    Raises:
        FileExistsError: there is a file already.
        OSError: it cannot be written.
    """
    target = Path(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.absolute().parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_line("", first))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, target)  # unlike a replacement, this fails where another was quicker
    finally:
        draft.unlink(missing_ok=True)
    flush_folder(target.absolute().parent)


def _line(chain: str, record: Record) -> bytes:
    content = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    return f"{_checksum(chain, content)} ".encode("ascii") + content + b"\n"


def _checksum(chain: str, content: bytes) -> str:
    return blake2b(chain.encode("ascii") + content, digest_size=CHECKSUM // 2).hexdigest()
