"""Log on stderr: one line an event, for people or as JSON, with the id of the request. Never a body, a query or a key.

Modules log through the standard library and configure nothing; `configure` is called once by whoever serves, and gives
every line, uvicorn's included, the same form.

Lines are written by a thread of their own: whoever logs never waits for whoever reads. A pipe that nobody reads is full
after 64 KiB, and the next write to it blocks; in the event loop that would be the end of all answers. So lines are put
into a bounded queue, which costs a microsecond, and written some milliseconds later, many at once. When the queue is
full, lines are dropped and counted, and the count is the next line that comes through. A process that is killed loses
the lines of its last `FLUSH_SECONDS`.
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
"""Id of the request that is being answered."""

_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,64}")

MAX_QUEUED_LINES = 10_000
"""Lines that may wait, a few megabytes; beyond them they are dropped."""

FLUSH_SECONDS = 0.02
"""How long lines are collected before they are written [s]: a thread that woke for each would slow every answer."""

PIPE_BUF = 4096
"""Bytes that a pipe takes from one process in one piece (PIPE_BUF), so that lines of several processes stay apart."""

DRAIN_SECONDS = 1.0
"""How long the end of a process waits for its last lines to be taken [s]."""


def accept_request_id(proposal: bytes | None) -> str:
    """Return the id that the client offers, if it is a short word that can do no harm in a log, else a new one.

    >>> accept_request_id(b"train-7.epoch-3"), len(accept_request_id(b"forged line")), len(accept_request_id(None))
    ('train-7.epoch-3', 16, 16)
    """
    if proposal is not None and _SAFE_ID.fullmatch(proposal):
        return proposal.decode()
    return f"{random.getrandbits(64):016x}"


def current_request_id() -> str | None:
    """Return the id of the request that is being answered; None where there is none."""
    return REQUEST_ID.get()


class RequestLogEntry(NamedTuple):
    """Content of a request's log line."""

    method: str
    path: str
    status: int  # of the answer
    seconds: float  # time to answer it [s]
    bytes: int  # of the body of the answer [bytes]
    client: str  # its name
    request_id: str  # its id


def log_request(entry: RequestLogEntry) -> None:
    """Log a request: as an error if the fault is the server's, else as information."""
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
    else:  # without a record: to make one, and find its caller, would take as long as everything else here
        _stream.write(_render(_content(_REQUESTS.name, level, "request", time.time(), content)) + "\n")


def _request_as_text(level: int, now: float, entry: RequestLogEntry) -> str:
    """Return the line that `_as_text` makes of a request, in a third of the time; most lines are of requests."""
    method, path, status, seconds, length, client, request_id = entry
    return (
        f"{_timestamp(now)} [{_level(level):9}] {'request':30} [{_REQUESTS.name}] method={_plain(method)}"
        f" path={_plain(path)} status={status} seconds={round(seconds, 6)} bytes={length} client={_plain(client)}"
        f" request_id={_plain(request_id)}\n"
    )


Render = Callable[[dict[str, Any]], str]
"""From the content of a line to its text."""

_render: Render | None = None
"""The form of every line; None until the log is configured."""

_stream: TextIO | LogStream = sys.stderr
"""Where lines are written."""


def configure(settings: Settings) -> None:
    """Send every log line of this process to stderr in the form that the settings ask for."""
    global _stream, _render  # noqa: PLW0603 — as the logging of a process is one
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
    logging.getLogger("uvicorn.access").disabled = True  # ours say more, and leave out the query
    logging.captureWarnings(capture=True)


def write_line(line: str) -> int:
    """Write a line, its end included, where the log goes."""
    return _stream.write(line)


def drain() -> None:
    """Wait, not for long, until what was logged is written: for the end of a process."""
    if isinstance(_stream, LogStream):
        _stream.drain()


class LineFormatter(logging.Formatter):
    """Formatter that says of a record what it says itself, its extra fields, and the id of the request."""

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
"""Fields of every record, and uvicorn's second version of the same words."""


def _content(logger: str, level: int, event: str, now: float, extra: dict[str, Any]) -> dict[str, Any]:
    return {"event": event, "level": _level(level), "logger": logger, **extra, "timestamp": _timestamp(now)}


def _timestamp(now: float) -> str:
    seconds, microseconds = divmod(int(now * 1e6), 10**6)
    return f"{_second(seconds)}.{microseconds:06d}Z"


_level = cache(lambda level: logging.getLevelName(level).lower())

_encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def _as_json(content: dict[str, Any]) -> str:
    # three times as fast as to encode the dictionary: nearly all of it is text and whole numbers
    return "{" + ", ".join([f"{encode_basestring(name)}: {_json(value)}" for name, value in content.items()]) + "}"


def _json(value: Any) -> str:
    if type(value) is str:
        return encode_basestring(value)
    return repr(value) if type(value) is int or (type(value) is float and isfinite(value)) else _encode(value)


_NUMBERS = frozenset({int, float})
"""Types whose text is a plain word."""


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
    except AttributeError:  # the program was started without one
        return Path(os.devnull).open("w", encoding="utf-8")
    except OSError:  # one in this process's memory, which makes nobody wait
        return sys.stderr


@cache  # one thread for a process, however often its log is configured
def _log_stream(descriptor: int) -> LogStream:
    return LogStream(descriptor, _dropped_line)


def _dropped_line(lines: int) -> str:
    event = f"{lines} lines of the log were dropped: nobody read it in time"
    return (_render or _as_text)(_content("api.logs", logging.WARNING, event, time.time(), {})) + "\n"


@lru_cache(maxsize=2)  # a clock is read for every request, a date needed once a second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


_WORD = re.compile(r"[!#-&(-<>-~]+")
"""Text that is written as it is."""


def _plain(text: str) -> str:
    r"""Return a text for people: in quotes if it is not a plain word, and nothing that a terminal would obey.

    >>> _plain("/v1/gamma"), _plain("address ::1"), _plain("\x1b[31m")
    ('/v1/gamma', "'address ::1'", "'\\x1b[31m'")
    """
    return text if _WORD.fullmatch(text) else repr(text)


class LogStream:
    """Text stream, line by line, whose writes never block and never fail."""

    def __init__(self, descriptor: int, loss_line: Callable[[int], str], max_lines: int = MAX_QUEUED_LINES) -> None:
        self._descriptor, self._loss_line, self._max_lines = descriptor, loss_line, max_lines
        self._queue: deque[str] = deque()
        self._losses = 0
        self._loss_lock = threading.Lock()
        self._has_lines, self._written = threading.Event(), threading.Event()
        self._written.set()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, line: str) -> int:
        """Take a line, its end included, to be written soon; return its length."""
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
        """Do nothing: lines are written soon in any case, and whoever logs must not wait."""

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until every line is written, so long at most [s]; return whether they are."""
        deadline = time.monotonic() + seconds
        while not (self._written.is_set() and not self._queue):  # the one may be set just before the other grows
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
        """Return the next lines, as many as go in one piece; one that is longer goes alone. Empty: none is left."""
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
        except OSError:  # whoever read it is gone, and there is nobody to tell
            return
