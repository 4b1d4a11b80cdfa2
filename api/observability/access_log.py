"""Access log: who requested what, and the response, as one JSON object per line, in a file or on stderr.

Off unless configured. A line has the key, address, path, content keys, jobs and status: never a query, a body or a
header, so no vote, label or secret. A thread writes the lines (`api.observability.logs`), so that no response waits
for a disk. A file that was moved away is created again before the next line, which suits any rotation. Lines that
cannot be written, such as to a full disk, are retried, up to `MAX_WAITING_LINES`; meanwhile /readyz reports it, and
lost lines are counted.
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
from typing import Any

from pydantic import Field, FiniteFloat
from starlette.types import Scope

from api.access.clients import OPEN_FOLDERS, OPEN_PATHS, Client
from api.observability import logs, metrics
from api.schemas.fields import AnswerModel

_LOG = logging.getLogger("api.access_log")

STDERR = "stderr"  # target that writes to the log on stderr
MAX_WAITING_LINES = 10_000  # lines waiting for a full disk, a few megabytes
RETRY_SECONDS = 1.0  # interval between attempts to write
MIN_FREE_BYTES = 2**16  # free disk space below which the next lines may not fit
MAX_PATH_LENGTH = 512  # characters of a path that are written

BLOCK_BYTES = 2**16
MAX_READ_BYTES = 2**24  # bytes at the end of the file that `AccessLogFile.last` reads


class AccessLogEntry(AnswerModel):
    """One request, as the access log has it."""

    time: str = Field(description="End of the response (UTC, ISO 8601).")
    request_id: str = Field(description="Id of the request, as in X-Request-ID and in the log.")
    client: str = Field(description="'client NAME' or 'address A.B.C.D'.")
    key: str = Field(description="Id of the key; empty without one.")
    role: str = Field(description="Role of the key; empty if no client was identified.")
    address: str = Field(description="Address of the client, as trusted proxies report it.")
    method: str = Field(description="HTTP method.")
    path: str = Field(description="Path, without the query.")
    questions: list[str] = Field(description="Content keys of the questions.")
    jobs: list[str] = Field(description="Ids of the jobs that were queued, read or changed.")
    status: int = Field(description="Status of the response; 499 if the client disconnected before.")
    seconds: FiniteFloat = Field(description="Time to answer [s].", ge=0)


def line_of(entry: dict[str, Any]) -> str:
    """Return the line of an entry, which is plain data: one is written for every request."""
    return json.dumps({"event": "access", **entry}, ensure_ascii=False, separators=(",", ":")) + "\n"


class Mentions:
    """Questions and jobs of one request, collected while it is answered."""

    def __init__(self, log: AccessLog) -> None:
        self.log = log
        self.questions: dict[str, None] = {}  # sets in order
        self.jobs: dict[str, None] = {}


class AccessLogFile(logs.LogStream):
    """File of the access log, written by a thread; `write` never blocks."""

    def __init__(self, path: Path) -> None:
        self.path, self.trouble = path, ""
        super().__init__(_open(path), _lost_line, MAX_WAITING_LINES)

    def write(self, line: str) -> int:
        """Queue a line; one without room is counted as lost."""
        if len(self._queue) >= self._max_lines:
            metrics.ACCESS_LOG_LOST.inc()
        return super().write(line)

    def find_trouble(self) -> str:
        """Return why a line could not be written now, or ""; detects a full disk in advance."""
        with contextlib.suppress(OSError):  # moved: the next line creates it
            if not self.trouble and shutil.disk_usage(self.path).free < MIN_FREE_BYTES:
                return os.strerror(errno.ENOSPC)
        return self.trouble

    def last(self, count: int) -> list[dict[str, Any]]:
        """Return the last entries of the file, newest first; blocks."""
        with self.path.open("rb") as file:
            position = file.seek(0, os.SEEK_END)
            tail, size_read = b"", 0
            while position > 0 and tail.count(b"\n") <= count and size_read < MAX_READ_BYTES:
                size = min(BLOCK_BYTES, position)
                position, size_read = file.seek(position - size), size_read + size
                tail = file.read(size) + tail
        lines = tail.split(b"\n")[0 if position == 0 else 1 :]  # the first line may be incomplete
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
            lines = b"\n" + lines[lines.rfind(b"\n", 0, count) + 1 :]  # write a partial line again in full

    def _follow(self) -> None:
        """Reopen the file if it was moved or removed."""
        with contextlib.suppress(OSError):
            file_at_path, open_file = self.path.stat(), os.fstat(self._descriptor)
            if (file_at_path.st_dev, file_at_path.st_ino) == (open_file.st_dev, open_file.st_ino):
                return
        descriptor = _open(self.path)
        os.close(self._descriptor)
        self._descriptor = descriptor


class _Stderr:
    """Access log on stderr."""

    trouble = ""

    def write(self, line: str) -> int:
        return logs.write_line(line)

    def drain(self) -> bool:
        return True


@cache  # one thread per file
def open_file(path: Path) -> AccessLogFile:
    """Return the access log in a file; raises OSError if it cannot be opened."""
    return AccessLogFile(path)


AccessLog = AccessLogFile | _Stderr

_CURRENT: ContextVar[Mentions | None] = ContextVar("mentions", default=None)


@contextlib.contextmanager
def opened(target: str | None) -> Iterator[AccessLog | None]:
    """Yield the access log, and write its last lines at the end of the block."""
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
    """Create the file of the access log; raises OSError if it cannot be opened."""
    if target is not None and target != STDERR:
        os.close(_open(Path(target)))


def begin(log: AccessLog | None, path: str) -> Mentions | None:
    """Return the mentions of a new request, or None if it is not logged."""
    if log is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
        return None
    mentions = Mentions(log)
    _CURRENT.set(mentions)
    return mentions


def mention_question(key: str) -> None:
    """Add the content key of a question to the log entry of the current request."""
    mentions = _CURRENT.get()
    if mentions is not None:
        mentions.questions[key] = None


def mention_job(id: str) -> None:
    """Add the id of a job to the log entry of the current request."""
    mentions = _CURRENT.get()
    if mentions is not None:
        mentions.jobs[id] = None


def record(mentions: Mentions | None, scope: Scope, status: int, seconds: float) -> None:
    """Write the line of a finished request."""
    if mentions is None:
        return
    client: Client | None = scope.get("darrm.client")
    origin, path = scope.get("client"), scope["path"]
    entry = {
        "time": _now(),
        "request_id": scope["darrm.request_id"],
        "client": "unknown" if client is None else client.name,
        "key": "" if client is None else client.key_id,
        "role": "" if client is None else client.role,
        "address": str(origin[0]) if origin else "",
        "method": scope["method"],
        "path": path if len(path) <= MAX_PATH_LENGTH else f"{path[:MAX_PATH_LENGTH]}…",
        "questions": list(mentions.questions),
        "jobs": list(mentions.jobs),
        "status": status,
        "seconds": round(seconds, 6),
    }
    mentions.log.write(line_of(entry))


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lost_line(lines: int) -> str:
    return json.dumps({"event": "lost", "time": _now(), "lines": lines}, separators=(",", ":")) + "\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return an entry; None for an incomplete line, or one that counts lost lines."""
    try:
        record = json.loads(line)
        return {name: record[name] for name in AccessLogEntry.model_fields}
    except (ValueError, TypeError, LookupError):
        return None
