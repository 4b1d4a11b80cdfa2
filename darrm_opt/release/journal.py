"""Journal: an append-only file of records that survives kill -9, torn writes, interrupts and concurrent processes.

A line is ``<checksum> <JSON>``; the checksum covers the line and all lines before it, so a line that was changed, moved
or removed in the middle is detected. Readers and writers hold an exclusive lock on the file itself (``flock``) and open
it anew each time, so that threads and forked children exclude each other too.

A record counts once `LockedJournal.append` has returned: then it is on the disk (``fsync``). A line that a crash cut
short has no end of line; it never counted, and the next user of the file cuts it off. Any other fault rejects the file:
continuing could make a charged release free.

An interrupt (Ctrl-C, or any exception of a signal handler) may come before any bytecode: the state is replaced in one
assignment, and the lock ends with the call that took it, so that the same object can continue.

Not covered: a copy of the file is a second file; a process that starts later does not recognise that an older version
was put back in its place; the checksum detects damage, not forgery; locks need a local file system, or an NFS with
locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from darrm_opt.durable_file import errors_naming, flush_folder
from darrm_opt.errors import BudgetExceeded, BudgetUnreadable, ReleaseLogDamaged
from darrm_opt.optional_packages import posix_only
from darrm_opt.process import close_in_forks, process_identity
from darrm_opt.untrusted import json_value

with contextlib.suppress(ImportError):  # `posix_only` raises an error without it
    import fcntl

Record = dict[str, Any]

State = TypeVar("State")

Result = TypeVar("Result")

CHECKSUM = 32  # length of a checksum: 128 bits [hexadecimal digits]


class _Read(NamedTuple, Generic[State]):
    """Progress of reading: the end of the last line, that line's checksum, and the state after all records."""

    end: int
    chain: str
    state: State


class Journal(Generic[State]):
    """A file of records, of which this process has read the first ones.

    ``step`` returns the state after a record, from the state before it (``start`` at first), the record and the place
    of its line; an interrupt may discard the result and repeat the call. ``read_only``: the file is never written, and
    a line cut short by a crash is ignored and stays.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        start: State,
        step: Callable[[State, Record, int], State],
        *,
        read_only: bool = False,
    ) -> None:
        posix_only("A release log")
        self._path = Path(path)
        self.read_only = read_only
        self._step = step
        self._read = _Read(0, "", start)
        self._flushed = 0
        self._identity: tuple[int, int] | None = None
        self._holder: tuple[int, FileIO] | None = None

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._path

    def locked(self, act: Callable[[LockedJournal[State]], Result]) -> Result:
        """Return the result of ``act``, called with the file locked and all its records read.

        No context manager, because an interrupt between its two methods would leave the file locked.
        """
        if self._holder is not None and self._holder[0] == threading.get_ident() and not self._holder[1].closed:
            # a second lock of the same file would wait for the first for ever
            raise RuntimeError("a release log cannot be used from within one of its own releases")
        try:
            file = FileIO(self._path, "r" if self.read_only else "r+")
        except OSError as err:
            raise BudgetUnreadable(f"the release log {self._path} cannot be opened: {err.strerror}") from err

        def act_on_all_records() -> Result:
            self._holder = (threading.get_ident(), file)
            try:
                self._same_file(file)
                self._catch_up(file)
                return act(LockedJournal(self, file))
            finally:
                self._holder = None

        return _alone(file, act_on_all_records, fcntl.LOCK_SH if self.read_only else fcntl.LOCK_EX)

    def _same_file(self, file: FileIO) -> None:
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        if self._identity not in (None, identity) or status.st_size < self._read.end:
            raise ReleaseLogDamaged(f"the release log {self._path} was replaced or cut while it was in use")
        self._identity = identity
        if status.st_nlink > 1 and not self.read_only:  # `create` ended before it removed the draft's name
            with contextlib.suppress(OSError):
                draft = _draft(self._path)
                if os.path.samestat(draft.lstat(), status):
                    draft.unlink()

    def _catch_up(self, file: FileIO) -> None:
        """Read the records of others, and cut off a line that a crash cut short."""
        for line in _lines(file, self._read.end):
            record = self._record(line)
            if record is None:
                if not self._is_torn(line):
                    raise ReleaseLogDamaged(f"the release log {self._path} is damaged at byte {self._read.end}")
                if not self.read_only:
                    os.ftruncate(file.fileno(), self._read.end)
                    os.fsync(file.fileno())
                break
            self._take(record, line)
        if self._read.end > self._flushed and not self.read_only:
            os.fsync(file.fileno())  # the writer of these lines may have ended before they were on the disk
            self._flushed = self._read.end

    def _record(self, line: bytes) -> Record | None:
        checksum, _, content = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum.decode("ascii", "replace") != _checksum(self._read.chain, content):
            return None
        try:
            record = json_value(content)
        except ValueError as err:
            raise ReleaseLogDamaged(f"the release log {self._path} is damaged at byte {self._read.end}: {err}") from err
        return record if isinstance(record, dict) else None

    def _is_torn(self, line: bytes) -> bool:
        """Return whether an unreadable line is a last line cut short, not one whose end of line was changed."""
        # The first line exists before the file has its name, so it is never torn: without it, this is another file.
        return self._read.end > 0 and not line.endswith(b"\n") and self._record(line[:-1] + b"\n") is None

    def _take(self, record: Record, line: bytes) -> None:
        before = self._read
        state = self._step(before.state, record, before.end)
        self._read = _Read(before.end + len(line), line[:CHECKSUM].decode("ascii"), state)  # in one assignment

    def _append(self, file: FileIO, record: Record) -> None:
        line = _line(self._read.chain, record)
        with errors_naming(self._path):
            _write(file, self._read.end, line)
        self._take(record, line)
        self._flushed = self._read.end


class LockedJournal(Generic[State]):
    """A locked journal, for the process that took the lock; children forked meanwhile are rejected."""

    def __init__(self, journal: Journal[State], file: FileIO) -> None:
        self._journal = journal
        self._file = file
        self._process = process_identity()

    @property
    def state(self) -> State:
        """State after all records."""
        return self._journal._read.state  # noqa: SLF001 — two halves of one thing

    def append(self, record: Record) -> None:
        """Add a record; when this returns, it is on the disk."""
        self._refuse_fork()
        if self._journal.read_only:
            raise BudgetUnreadable(f"the release log {self._journal.path} was opened read-only.")
        self._journal._append(self._file, record)  # noqa: SLF001 — as above

    def at(self, place: int) -> Record:
        """Return the record whose line begins at ``place``; raises BudgetExceeded as `append`."""
        self._refuse_fork()
        record: Record = json_value(next(_lines(self._file, place))[CHECKSUM + 1 :])
        return record

    def _refuse_fork(self) -> None:
        if self._process != process_identity():
            raise BudgetExceeded(
                f"process {self._process[0]} began this release, and this process was forked from it meanwhile. "
                "Nothing was charged or released here: finish a release in the process that began it."
            )


def create(path: str | os.PathLike[str], first: Record) -> None:
    """Create a journal with one record, atomically, and never over another file.

    It is written to a draft with a name that depends on ``path`` alone; the draft of a killed creator is used or
    removed by the next creator, or on opening the journal.
    """
    posix_only("A release log")
    target, line = Path(path), _line("", first)
    draft = _draft(target)
    is_created = False
    while not is_created:
        file = FileIO(draft, "a+", opener=partial(os.open, mode=0o600))
        is_created = _alone(file, partial(_publish, file, line, draft, target))
    flush_folder(target.absolute().parent)


def _publish(file: FileIO, line: bytes, draft: Path, target: Path) -> bool:
    """Write a locked draft and give it its final name; False if another creator owned it, which was waited for."""
    status, place = os.fstat(file.fileno()), None
    with contextlib.suppress(FileNotFoundError):
        place = draft.lstat()
    is_here = place is not None and os.path.samestat(place, status)
    if place is None or not (is_here or stat.S_ISLNK(place.st_mode)):
        return False
    try:
        if is_ours := is_here and status.st_nlink == 1:  # with two names it is a journal already: do not write it
            file.truncate(0)
            _write(file, 0, line)
            os.link(draft, target)  # unlike a replacement, this fails if another creator was faster
        return is_ours
    finally:
        draft.unlink(missing_ok=True)


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.draft")


def _alone(file: FileIO, act: Callable[[], Result], lock: int | None = None) -> Result:
    """Return the result of ``act``, called with an exclusive lock (or ``lock``); then release and close the file."""
    process = process_identity()
    with close_in_forks(file):  # also closes it if an interrupt comes before the unlock
        try:
            fcntl.flock(file, fcntl.LOCK_EX if lock is None else lock)
            return act()
        finally:
            if process == process_identity():  # otherwise the lock is the parent's
                fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough while a child has inherited the file


def _lines(file: FileIO, place: int) -> BufferedReader:
    """Return the lines of a file from a place on, through its own descriptor: another one would keep the lock."""
    lines = open(file.fileno(), "rb", closefd=False)  # noqa: SIM115 — nothing to close
    lines.seek(place)
    return lines


def _write(file: FileIO, place: int, line: bytes) -> None:
    """Write a line at a place, durably."""
    file.seek(place)
    rest = memoryview(line)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())


def _line(chain: str, record: Record) -> bytes:
    content = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    return f"{_checksum(chain, content)} ".encode("ascii") + content + b"\n"


def _checksum(chain: str, content: bytes) -> str:
    return blake2b(chain.encode("ascii") + content, digest_size=CHECKSUM // 2).hexdigest()
