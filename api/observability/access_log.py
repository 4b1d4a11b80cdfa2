"""Access log: who asked what and what was answered, one JSON object a line, in a file or on stderr.

It is off unless configured. A line has the key, the address, the path, the content keys of what was asked, the jobs,
the status: never a query, a body or a header, so no vote, no label and no secret. Lines are written by a thread
(`api.observability.logs`), so that no answer waits for a disk. A file that was moved away is made anew before the next
line, so any rotation serves. What cannot be written, as the disk is full, is kept for later and tried again, up to
`MAX_WAITING_LINES`; meanwhile /readyz says so, and what is lost beyond that is counted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from starlette.types import Scope

from api.access.clients import OPEN_FOLDERS, OPEN_PATHS, Client
from api.observability import logs, metrics

_LOG = logging.getLogger("api.access_log")

STDERR = "stderr"
"""Place that is no file: the lines go where the log goes."""

MAX_WAITING_LINES = 10_000
"""Lines that wait for a disk that is full, a few megabytes."""

RETRY_SECONDS = 1.0
"""Time between attempts to write to a file that could not be written [s]."""

MIN_FREE_BYTES = 2**16
"""Room on the disk below which the next lines may not fit [bytes]."""

MAX_PATH_LENGTH = 512
"""Longest path that is written in full [characters]."""

BLOCK_BYTES = 2**16
"""Bytes that are read at a time from the file's end backwards."""

MAX_READ_BYTES = 2**24
"""Most bytes of the file's end that are read for `AccessLogFile.last`."""


class AccessLogEntry(NamedTuple):
    """One line."""

    time: str  # when the answer was complete (UTC, ISO 8601)
    request_id: str  # as in the log and in the answer's X-Request-ID
    client: str  # "client NAME" or "address A.B.C.D"
    key: str  # id of the key; empty without one
    role: str  # of the key
    address: str  # where the request came from, as trusted proxies say
    method: str  # of HTTP
    path: str  # without the query
    questions: list[str]  # content keys of what was asked: a γ, a comparison, a plan, …
    jobs: list[str]  # ids of the jobs that were queued, read or changed
    status: int  # of the answer; 499 where the client left before
    seconds: float  # time to answer [s]

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps({"event": "access", **self._asdict()}, ensure_ascii=False, separators=(",", ":")) + "\n"


class Mentions:
    """What one request is about, as the service finds out while it answers."""

    def __init__(self, log: AccessLog) -> None:
        self.log = log  # where the request will be written
        self.questions: dict[str, None] = {}  # sets in order
        self.jobs: dict[str, None] = {}


class AccessLogFile(logs.LogStream):
    """File of the access log, written by a thread; `write` never blocks."""

    def __init__(self, path: Path) -> None:
        self.path, self.trouble = path, ""
        super().__init__(_open(path), _lost_line, MAX_WAITING_LINES)

    def write(self, line: str) -> int:
        """Take a line to be written soon; one that finds no room is counted."""
        if len(self._queue) >= self._max_lines:
            metrics.count_access_log_loss()
        return super().write(line)

    def find_trouble(self) -> str:
        """Return why a line could not be written now, in words; "" if it could: a full disk shows before it is met."""
        with contextlib.suppress(OSError):  # the file was moved: the next line makes it
            if not self.trouble and shutil.disk_usage(self.path).free < MIN_FREE_BYTES:
                return os.strerror(errno.ENOSPC)
        return self.trouble

    def last(self, count: int) -> list[dict[str, Any]]:
        """Return the last lines of the file, the newest first; blocks."""
        with self.path.open("rb") as file:
            position = file.seek(0, os.SEEK_END)
            tail, size_read = b"", 0
            while position > 0 and tail.count(b"\n") <= count and size_read < MAX_READ_BYTES:
                size = min(BLOCK_BYTES, position)
                position, size_read = file.seek(position - size), size_read + size
                tail = file.read(size) + tail
        lines = tail.split(b"\n")[0 if position == 0 else 1 :]  # the first one may begin before what was read
        return [entry for entry in map(_entry, reversed(lines)) if entry is not None][:count]

    def _put(self, lines: bytes) -> None:
        while lines:
            try:
                self._follow()
                count = os.write(self._descriptor, lines)
            except OSError as err:
                if not self.trouble:
                    _LOG.error("the access log cannot be written: %s", err.strerror or err)
                self.trouble = err.strerror or "it cannot be written"
                time.sleep(RETRY_SECONDS)
                continue
            if self.trouble:
                _LOG.info("the access log can be written again")
                self.trouble = ""
            if count == len(lines):
                return
            lines = b"\n" + lines[lines.rfind(b"\n", 0, count) + 1 :]  # the line that was cut is written again, whole

    def _follow(self) -> None:
        """Open the file anew if it was moved or removed."""
        with contextlib.suppress(OSError):
            file_at_path, open_file = self.path.stat(), os.fstat(self._descriptor)
            if (file_at_path.st_dev, file_at_path.st_ino) == (open_file.st_dev, open_file.st_ino):
                return
        descriptor = _open(self.path)
        os.close(self._descriptor)
        self._descriptor = descriptor


class _Stderr:
    """The log on stderr, as a place of the access log."""

    trouble = ""

    def write(self, line: str) -> int:
        return logs.write_line(line)

    def drain(self) -> bool:
        return True


@cache  # one thread for a file, however many applications this process makes
def open_file(path: Path) -> AccessLogFile:
    """Return the access log in a file; raises OSError where it cannot be opened."""
    return AccessLogFile(path)


AccessLog = AccessLogFile | _Stderr

_CURRENT: ContextVar[Mentions | None] = ContextVar("mentions", default=None)


@contextlib.contextmanager
def opened(target: str | None) -> Iterator[AccessLog | None]:
    """Yield the access log, and write the last of it at the end of the block."""
    if target is None:
        yield None
        return
    log = _Stderr() if target == STDERR else open_file(Path(target))
    try:
        yield log
    finally:
        if not log.drain():
            _LOG.error("the last lines of the access log could not be written: %s", log.trouble)


def check_access_log(target: str | None) -> None:
    """Make the file of the access log, if it is one; raises OSError where it cannot be opened."""
    if target is not None and target != STDERR:
        os.close(_open(Path(target)))


def begin(log: AccessLog | None, path: str) -> Mentions | None:
    """Begin a request; return what will be found out about it, or None where it is not logged."""
    if log is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
        return None
    mentions = Mentions(log)
    _CURRENT.set(mentions)
    return mentions


def mention_question(key: str) -> None:
    """Say the content key of what the present request asks."""
    mentions = _CURRENT.get()
    if mentions is not None:
        mentions.questions[key] = None


def mention_job(id: str) -> None:
    """Say the id of a job that the present request queues, reads or changes."""
    mentions = _CURRENT.get()
    if mentions is not None:
        mentions.jobs[id] = None


def record(mentions: Mentions | None, scope: Scope, status: int, seconds: float) -> None:
    """Write the line of a request that is over."""
    if mentions is None:
        return
    client: Client | None = scope.get("darrm.client")
    origin, path = scope.get("client"), scope["path"]
    entry = AccessLogEntry(
        time=_now(),
        request_id=scope["darrm.request_id"],
        client="unknown" if client is None else client.name,
        key="" if client is None else client.key_id,
        role="" if client is None else client.role,
        address=str(origin[0]) if origin else "",
        method=scope["method"],
        path=path if len(path) <= MAX_PATH_LENGTH else f"{path[:MAX_PATH_LENGTH]}…",
        questions=list(mentions.questions),
        jobs=list(mentions.jobs),
        status=status,
        seconds=round(seconds, 6),
    )
    mentions.log.write(entry.line())


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lost_line(lines: int) -> str:
    return json.dumps({"event": "lost", "time": _now(), "lines": lines}, separators=(",", ":")) + "\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return an entry; None for a line that was cut, or that counts lost ones."""
    try:
        record = json.loads(line)
        return {name: record[name] for name in AccessLogEntry._fields}
    except (ValueError, TypeError, LookupError):
        return None
