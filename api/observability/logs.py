"""The log on stderr: one line an event, for people or as JSON. Never a body, a query or a key.

Modules log through the standard library and configure nothing; `configure` is called once by whoever serves, and gives
every line, uvicorn's included, the same form. Nobody who logs waits for whoever reads (`api.lines`).
"""

from __future__ import annotations

import contextvars
import json
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
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import structlog

from api.settings import Settings

_REQUESTS = logging.getLogger("api.requests")


class RequestLogEntry(NamedTuple):
    """What the line of a request says.

    Attributes:
        method, path: of the request; no query.
        status: of the answer.
        seconds: time to answer it [s].
        bytes: of the body of the answer [bytes].
        client: who asked.
        request_id: its id.
    """

    method: str
    path: str
    status: int
    seconds: float
    bytes: int
    client: str
    request_id: str


def log_request(about: RequestLogEntry) -> None:
    """Write the line of a request: an error where it is ours, else information."""
    level = logging.ERROR if about.status == 500 else logging.INFO
    if not _REQUESTS.isEnabledFor(level):
        return
    if _line_of is None:
        _REQUESTS.log(level, "request", extra=about._asdict())
    else:  # a log record takes longer to make than a kept answer to send: this line is written by hand
        _out.write(_line_of(about, "error" if level == logging.ERROR else "info"))


_line_of: Callable[[RequestLogEntry, str], str] | None = None
"""How the line of a request is written, once the log is configured."""

_out: TextIO | LogStream = sys.stderr
"""Where it is written."""


def _json_line(about: RequestLogEntry, level: str) -> str:
    return (
        f'{{"event": "request", "level": "{level}", "logger": "api.requests", "method": {_quoted(about.method)}, '
        f'"path": {_quoted(about.path)}, "status": {about.status}, "seconds": {about.seconds:.6f}, '
        f'"bytes": {about.bytes}, "client": {_quoted(about.client)}, "request_id": {_quoted(about.request_id)}, '
        f'"timestamp": "{_now()}"}}\n'
    )


def _console_line(about: RequestLogEntry, level: str) -> str:
    return (
        f"{_now()} [{level:9s}] request                        [api.requests] method={about.method} "
        f"path={_quoted(about.path)} status={about.status} seconds={about.seconds:.6f} bytes={about.bytes} "
        f"client={_quoted(about.client)} request_id={about.request_id}\n"
    )


_quoted = json.encoder.encode_basestring_ascii


def _now() -> str:
    return f"{datetime.now(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def configure(settings: Settings) -> None:
    """Send every log line of this process to stderr in the form that the settings ask for."""
    global _line_of, _out  # noqa: PLW0603 — as the logging of a process is one
    _line_of = _json_line if settings.log_format == "json" else _console_line
    _out = _open_stream()
    handler = logging.StreamHandler(_out)
    handler.setFormatter(_formatter(settings.log_format))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # ours say more, and leave out the query
    logging.captureWarnings(capture=True)


def drain() -> None:
    """Wait, not for long, until what was logged is written: for the end of a process."""
    if isinstance(_out, LogStream):
        _out.drain()


def _open_stream() -> TextIO | LogStream:
    try:
        return _log_stream(sys.stderr.fileno())
    except AttributeError:  # the program was started without one
        return Path(os.devnull).open("w", encoding="utf-8")
    except OSError:  # one in this process's memory, which makes nobody wait
        return sys.stderr


@cache  # one thread for a process, however often its log is configured
def _log_stream(descriptor: int) -> LogStream:
    def dropped(number: int) -> str:
        told = f"{number} lines of the log were dropped: nobody read it in time"
        if _line_of is _json_line:
            line = {"event": told, "level": "warning", "logger": "api.logs", "timestamp": _now()}
            return f"{json.dumps(line)}\n"
        return f"{_now()} [warning  ] {told} [api.logs]\n"

    return LogStream(descriptor, dropped)


def _formatter(kind: str) -> logging.Formatter:
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _with_request_id,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if kind == "json":
        last: list[Any] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        # the plain traceback: the pretty one shows local variables, keys among them, and takes seconds
        plainly = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plainly)]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_color_message, *last],
    )


def _with_request_id(_: Any, __: str, event: Any) -> Any:
    identity = REQUEST_ID.get()
    if identity is not None:
        event.setdefault("request_id", identity)
    return event


def _without_color_message(_: Any, __: str, event: Any) -> Any:
    event.pop("color_message", None)  # uvicorn's second version of the same words
    return event


MAX_QUEUED_LINES = 10_000
"""Lines that may wait, a few megabytes; beyond them they are dropped."""

FLUSH_SECONDS = 0.02
"""How long lines are collected before they are written [s]: a thread that woke for each would slow every answer."""

PIPE_BUF = 4096
"""Bytes that a pipe takes from one process in one piece (PIPE_BUF): lines of several processes do not run into each other."""

DRAIN_SECONDS = 1.0
"""How long the end of a process waits for its last lines to be taken [s]."""


class LogStream:
    """A stream for text, line by line, that never blocks and never fails.

    Args:
        descriptor: where the lines go. Written to directly: a buffered file would be locked by the thread that waits in
            it, and the end of the process would wait for that lock.
        dropped: makes the line that tells of lines that were dropped, from their number.
        most: how many lines may wait.
    """

    def __init__(self, descriptor: int, dropped: Callable[[int], str], most: int = MAX_QUEUED_LINES) -> None:
        self._descriptor, self._dropped, self._most = descriptor, dropped, most
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._counting = threading.Lock()
        self._there, self._written = threading.Event(), threading.Event()
        self._written.set()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, line: str) -> int:
        """Take a line, its end included, to be written soon; return its length."""
        if len(self._waiting) >= self._most:
            with self._counting:
                self._lost += 1
        else:
            self._waiting.append(line)
        if not self._there.is_set():
            self._written.clear()
            self._there.set()
        return len(line)

    def flush(self) -> None:
        """Do nothing: lines are written soon in any case, and whoever logs must not wait."""

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until every line is written, so long at most [s]; return whether they are."""
        deadline = time.monotonic() + seconds
        while not (self._written.is_set() and not self._waiting):  # the one may be set just before the other grows
            if time.monotonic() > deadline:
                return False
            time.sleep(FLUSH_SECONDS / 4)
        return True

    def _write_on(self) -> None:
        while True:
            self._there.wait()
            time.sleep(FLUSH_SECONDS)
            self._there.clear()
            while piece := self._piece():
                self._put(piece)
            if not self._there.is_set():
                self._written.set()

    def _piece(self) -> bytes:
        """Return the next lines, as many as go in one piece; one that is longer goes alone. Empty: none is left."""
        piece = b""
        while self._waiting:
            line = self._waiting[0].encode("utf-8", "backslashreplace")
            if piece and len(piece) + len(line) > PIPE_BUF:
                return piece
            self._waiting.popleft()
            piece += line
        with self._counting:
            lost, self._lost = self._lost, 0
        return piece + self._dropped(lost).encode() if lost else piece

    def _put(self, piece: bytes) -> None:
        try:
            while piece:
                piece = piece[os.write(self._descriptor, piece) :]
        except OSError:  # whoever read it is gone, and there is nobody to tell
            return


REQUEST_ID: contextvars.ContextVar[str | None] = contextvars.ContextVar("request_id", default=None)
"""Id of the request that is being answered."""

_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,64}")


def accept_request_id(offered: bytes | None) -> str:
    """Return the id that the client offers, if it is a short word that can do no harm in a log, else a new one.

    >>> accept_request_id(b"train-7.epoch-3"), len(accept_request_id(b"forged line")), len(accept_request_id(None))
    ('train-7.epoch-3', 16, 16)
    """
    if offered is not None and _SAFE_ID.fullmatch(offered):
        return offered.decode()
    return secrets.token_hex(8)


def current_request_id() -> str | None:
    """Return the id of the request that is being answered; None where there is none."""
    return REQUEST_ID.get()
