"""Log on stderr: one line an event, for people or as JSON, with the id of the request. Never a body, a query or a key.

Modules log through the standard library and configure nothing; `configure` is called once by whoever serves, and gives
every line, uvicorn's included, the same form by one chain of structlog processors.

Lines are written by a thread of their own: whoever logs never waits for whoever reads. A pipe that nobody reads is full
after 64 KiB, and the next write to it blocks; in the event loop that would be the end of all answers. So lines are put
into a bounded queue, which costs a microsecond, and written some milliseconds later, many at once. When the queue is
full, lines are dropped and counted, and the count is the next line that comes through. A process that is killed loses
the lines of its last `FLUSH_SECONDS`.
"""

from __future__ import annotations

import contextvars
import logging
import os
import re
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import structlog

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
    return secrets.token_hex(8)


def current_request_id() -> str | None:
    """Return the id of the request that is being answered; None where there is none."""
    return REQUEST_ID.get()


class RequestLogEntry(NamedTuple):
    """Content of a request's log line.

    Attributes:
        method, path: of the request; no query.
        status: of the answer.
        seconds: time to answer it [s].
        bytes: of the body of the answer [bytes].
        client: its name.
        request_id: its id.
    """

    method: str
    path: str
    status: int
    seconds: float
    bytes: int
    client: str
    request_id: str


def log_request(entry: RequestLogEntry) -> None:
    """Log a request: as an error if the fault is the server's, else as information."""
    level = logging.ERROR if entry.status == 500 else logging.INFO
    if not _REQUESTS.isEnabledFor(level):
        return
    if _request_lines is None:
        _REQUESTS.log(level, "request", extra=entry._asdict())
    else:
        _stream.write(_request_lines.line(level, entry))


_renderers: list[Any] = []
"""The last processors of every line, which make text of it; empty until the log is configured."""

_request_lines: RequestLines | None = None
"""Lines of requests in the configured form; None until the log is configured."""

_stream: TextIO | LogStream = sys.stderr
"""Where lines are written."""


def configure(settings: Settings) -> None:
    """Send every log line of this process to stderr in the form that the settings ask for."""
    global _stream, _request_lines  # noqa: PLW0603 — as the logging of a process is one
    _renderers[:] = _renderers_of(settings.log_format)
    _request_lines = RequestLines(encode_basestring if settings.log_format == "json" else _plain)
    _stream = _open_stream()
    handler = logging.StreamHandler(_stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(),
                _add_request_id,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _remove_color_message,
                *_renderers,
            ],
        )
    )
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


def _renderers_of(log_format: str) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    # the plain traceback: the pretty one shows local variables, keys among them, and takes seconds
    formatter = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=formatter)]


def _add_request_id(_: Any, __: str, event: Any) -> Any:
    identity = REQUEST_ID.get()
    if identity is not None:
        event.setdefault("request_id", identity)
    return event


def _remove_color_message(_: Any, __: str, event: Any) -> Any:
    event.pop("color_message", None)  # uvicorn's second version of the same words
    return event


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
    return _line("api.logs", logging.WARNING, f"{lines} lines of the log were dropped: nobody read it in time", {})


def _line(logger: str, level: int, event: str, content: dict[str, Any]) -> str:
    """Return a line in the configured form, without a log record."""
    line: Any = {"event": event, "level": logging.getLevelName(level).lower(), "logger": logger, **content}
    line.setdefault("timestamp", _now())
    for renderer in _renderers:
        line = renderer(None, "", line)
    return f"{line}\n"


def _now() -> str:
    seconds, microseconds = divmod(time.time_ns() // 1000, 10**6)
    return f"{_second(seconds)}.{microseconds:06d}Z"


@lru_cache(maxsize=2)  # a clock is read for every request, a date needed once a second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


class RequestLines:
    """Lines of requests: the last processors render one of each level, with gaps, and every request fills them in.

    To render each would take longer than to send a cached answer.

    Args:
        quote: returns a text as the last processors write it.
    """

    def __init__(self, quote: Callable[[str], str]) -> None:
        self._quote = quote
        self._forms = {level: self._form(level) for level in (logging.INFO, logging.ERROR)}

    def _form(self, level: int) -> str:
        """Return the line of a request of this level for the operator %."""
        gaps = {name: f"<{name}>" for name in (*RequestLogEntry._fields, "timestamp")}
        form = _line(_REQUESTS.name, level, "request", gaps).replace("%", "%%")
        for name, gap in gaps.items():
            form = form.replace(self._quote(gap), f"%({name}){'.6f' if name == 'seconds' else 's'}")
        return form

    def line(self, level: int, entry: RequestLogEntry) -> str:
        """Return the line of a request."""
        quote = self._quote
        return self._forms[level] % {
            "method": quote(entry.method),
            "path": quote(entry.path),
            "status": entry.status,
            "seconds": entry.seconds,
            "bytes": entry.bytes,
            "client": quote(entry.client),
            "request_id": quote(entry.request_id),
            "timestamp": quote(_now()),
        }


_WORD = re.compile(r"[!#-&(-<>-~]+")
"""Text that structlog's console writes as it is."""


def _plain(text: str) -> str:
    r"""Return a text for people: in quotes if it is not a plain word, and nothing that a terminal would obey.

    >>> _plain("/v1/gamma"), _plain("address ::1"), _plain("\x1b[31m")
    ('/v1/gamma', "'address ::1'", "'\\x1b[31m'")
    """
    return text if _WORD.fullmatch(text) else repr(text)


class LogStream:
    """Text stream, line by line, whose writes never block and never fail.

    Args:
        descriptor: where the lines go. Written to directly: a buffered file would be locked by the thread that waits in
            it, and the end of the process would wait for that lock.
        loss_line: returns the line that reports dropped lines, from their number.
        max_lines: lines that may wait.
    """

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
