"""Log on stderr: one line per event, as text or JSON, with the request id. Never a body, a query or a key.

Modules log through the standard library; the server calls `configure` once, which gives every line, including
uvicorn's, the same format.

A thread writes the lines, so logging never blocks. A pipe without a reader is full after 64 KiB, and the next write
would block the event loop. So lines enter a bounded queue, which takes a microsecond, and are written in blocks some
milliseconds later. Lines that exceed the queue are dropped, and the next line reports their number. A killed process
loses the lines of its last `FLUSH_SECONDS`.
"""

from __future__ import annotations

import contextvars
import json
import logging
import os
import random
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from json.encoder import encode_basestring
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from api.settings import Settings

_REQUESTS = logging.getLogger("api.requests")

REQUEST_ID: contextvars.ContextVar[str | None] = contextvars.ContextVar("request_id", default=None)
"""Id of the current request."""

_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,64}")

MAX_QUEUED_LINES = 10_000  # queued lines, a few megabytes; further ones are dropped

FLUSH_SECONDS = 0.02
"""Time for which lines are collected before a write: waking the thread for each line would slow every response."""

PIPE_BUF = 4096
"""Bytes that a process writes to a pipe atomically (PIPE_BUF), so that lines of several processes stay intact."""

DRAIN_SECONDS = 1.0  # time for which a process that ends waits until its last lines are written


def accept_request_id(proposal: bytes | None) -> str:
    """Return the client's id if it is a short word that is harmless in a log, else a new one.

    >>> accept_request_id(b"train-7.epoch-3"), len(accept_request_id(b"forged line")), len(accept_request_id(None))
    ('train-7.epoch-3', 16, 16)
    """
    if proposal is not None and _SAFE_ID.fullmatch(proposal):
        return proposal.decode()
    return f"{random.getrandbits(64):016x}"


class RequestLogEntry(NamedTuple):
    """Content of a request's log line."""

    method: str
    path: str
    status: int
    seconds: float  # duration [s]
    bytes: int  # of the response body [bytes]
    client: str
    request_id: str


def log_request(entry: RequestLogEntry) -> None:
    """Log a request: as an error for status 500, else as information."""
    level = logging.ERROR if entry.status == 500 else logging.INFO
    if not _REQUESTS.isEnabledFor(level):
        return
    if _render is _as_text:
        _stream.write(_request_as_text(level, time.time(), entry))
        return
    content = entry._asdict()
    content["seconds"] = round(entry.seconds, 6)
    if _render is None:
        _REQUESTS.log(level, "request", extra=content)
    else:  # without a LogRecord, which would double the time
        _stream.write(_render(_content(_REQUESTS.name, level, "request", time.time(), content)) + "\n")


def _request_as_text(level: int, now: float, entry: RequestLogEntry) -> str:
    """Return the line that `_as_text` makes of a request, in a third of the time."""
    method, path, status, seconds, length, client, request_id = entry
    return (
        f"{_timestamp(now)} [{_level(level):9}] {'request':30} [{_REQUESTS.name}] method={_plain(method)}"
        f" path={_plain(path)} status={status} seconds={round(seconds, 6)} bytes={length} client={_plain(client)}"
        f" request_id={_plain(request_id)}\n"
    )


Render = Callable[[dict[str, Any]], str]  # function from the content of a line to its text

_render: Render | None = None  # format of every line; None until configured

_stream: TextIO | LogStream = sys.stderr


def configure(settings: Settings) -> None:
    """Send every log line of this process to stderr in the configured format."""
    global _stream, _render  # noqa: PLW0603 — the log of a process is global
    _render = _as_json if settings.log_format == "json" else _as_text
    _stream = _open_stream()
    handler = logging.StreamHandler(_stream)
    handler.setFormatter(LineFormatter(_render))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # replaced by our request lines, which omit the query
    logging.captureWarnings(capture=True)


def write_line(line: str) -> int:
    """Write a line, its end included, where the log goes."""
    return _stream.write(line)


def drain() -> None:
    """Wait up to `DRAIN_SECONDS` until all lines are written, at the end of a process."""
    if isinstance(_stream, LogStream):
        _stream.drain()


class LineFormatter(logging.Formatter):
    """Formatter that renders a record's message, its extra fields and the request id."""

    def __init__(self, render: Render) -> None:
        super().__init__()
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without its end."""
        extra = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        identity = REQUEST_ID.get()
        if identity is not None:
            extra.setdefault("request_id", identity)
        if record.exc_info:
            extra["exception"] = self.formatException(record.exc_info)
        return self._render(_content(record.name, record.levelno, record.getMessage(), record.created, extra))


_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""Fields of every record, and uvicorn's coloured copy of the message."""


def _content(logger: str, level: int, event: str, now: float, extra: dict[str, Any]) -> dict[str, Any]:
    return {"event": event, "level": _level(level), "logger": logger, **extra, "timestamp": _timestamp(now)}


def _timestamp(now: float) -> str:
    seconds, microseconds = divmod(int(now * 1e6), 10**6)
    return f"{_second(seconds)}.{microseconds:06d}Z"


_level = cache(lambda level: logging.getLevelName(level).lower())

_encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def _as_json(content: dict[str, Any]) -> str:
    # three times as fast as encoding the dictionary: nearly all values are text and integers
    return "{" + ", ".join([f"{encode_basestring(name)}: {_json(value)}" for name, value in content.items()]) + "}"


def _json(value: Any) -> str:
    if type(value) is str:
        return encode_basestring(value)
    return repr(value) if type(value) is int or (type(value) is float and isfinite(value)) else _encode(value)


_NUMBERS = frozenset({int, float})


def _as_text(content: dict[str, Any]) -> str:
    pop = content.pop
    event, level, logger, timestamp = pop("event"), pop("level"), pop("logger"), pop("timestamp")
    traceback = "\n" + pop("exception") if "exception" in content else ""
    fields = "".join(
        [f" {name}={value if type(value) in _NUMBERS else _plain(str(value))}" for name, value in content.items()]
    )
    return f"{timestamp} [{level:9}] {event if event.isprintable() else repr(event):30} [{logger}]{fields}{traceback}"


def _open_stream() -> TextIO | LogStream:
    try:
        return _log_stream(sys.stderr.fileno())
    except AttributeError:  # no stderr
        return Path(os.devnull).open("w", encoding="utf-8")
    except OSError:  # in memory: never blocks
        return sys.stderr


@cache  # one thread per process
def _log_stream(descriptor: int) -> LogStream:
    return LogStream(descriptor, _dropped_line)


def _dropped_line(lines: int) -> str:
    event = f"{lines} log lines were dropped because stderr was not read in time"
    return (_render or _as_text)(_content("api.logs", logging.WARNING, event, time.time(), {})) + "\n"


@lru_cache(maxsize=2)  # the date changes once a second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


_WORD = re.compile(r"[!#-&(-<>-~]+")
"""Text that needs no quotes."""


def _plain(text: str) -> str:
    r"""Return a text for a terminal: quoted unless it is a plain word, and without control characters.

    >>> _plain("/v1/gamma"), _plain("address ::1"), _plain("\x1b[31m")
    ('/v1/gamma', "'address ::1'", "'\\x1b[31m'")
    """
    return text if _WORD.fullmatch(text) else repr(text)


class LogStream:
    """Line-based text stream whose writes never block and never fail."""

    def __init__(self, descriptor: int, loss_line: Callable[[int], str], max_lines: int = MAX_QUEUED_LINES) -> None:
        self._descriptor, self._loss_line, self._max_lines = descriptor, loss_line, max_lines
        self._queue: deque[str] = deque()
        self._losses = 0
        self._loss_lock = threading.Lock()
        self._has_lines, self._written = threading.Event(), threading.Event()
        self._written.set()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, line: str) -> int:
        """Queue a line, including its end; return its length."""
        if len(self._queue) >= self._max_lines:
            with self._loss_lock:
                self._losses += 1
        else:
            self._queue.append(line)
        if not self._has_lines.is_set():
            self._written.clear()
            self._has_lines.set()
        return len(line)

    def flush(self) -> None:
        """Do nothing: a flush would block."""

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait up to ``seconds`` until every line is written; return whether they are."""
        deadline = time.monotonic() + seconds
        while not (self._written.is_set() and not self._queue):  # a line may arrive after the event was set
            if time.monotonic() > deadline:
                return False
            time.sleep(FLUSH_SECONDS / 4)
        return True

    def _write_on(self) -> None:
        while True:
            self._has_lines.wait()
            time.sleep(FLUSH_SECONDS)
            self._has_lines.clear()
            while lines := self._next_block():
                self._put(lines)
            if not self._has_lines.is_set():
                self._written.set()

    def _next_block(self) -> bytes:
        """Return the next lines that fit into one atomic write, or one longer line; empty if none is left."""
        block = b""
        while self._queue:
            line = self._queue[0].encode("utf-8", "backslashreplace")
            if block and len(block) + len(line) > PIPE_BUF:
                return block
            self._queue.popleft()
            block += line
        with self._loss_lock:
            losses, self._losses = self._losses, 0
        return block + self._loss_line(losses).encode() if losses else block

    def _put(self, lines: bytes) -> None:
        try:
            while lines:
                lines = lines[os.write(self._descriptor, lines) :]
        except OSError:  # the reader is gone
            return
