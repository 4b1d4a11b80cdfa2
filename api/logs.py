"""The log on stderr: one line an event, for people or as JSON. Never a body, a query or a key.

Modules log through the standard library and configure nothing; `configure` is called once by whoever serves, and gives
every line, uvicorn's included, the same form. Nobody who logs waits for whoever reads (`api.lines`).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import structlog

from api.lines import Lines
from api.request_id import REQUEST_ID
from api.settings import Settings

_REQUESTS = logging.getLogger("api.requests")


class Answered(NamedTuple):
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


def answered(about: Answered) -> None:
    """Write the line of a request: an error where it is ours, else information."""
    level = logging.ERROR if about.status == 500 else logging.INFO
    if not _REQUESTS.isEnabledFor(level):
        return
    if _line_of is None:
        _REQUESTS.log(level, "request", extra=about._asdict())
    else:  # a log record takes longer to make than a kept answer to send: this line is written by hand
        _out.write(_line_of(about, "error" if level == logging.ERROR else "info"))


_line_of: Callable[[Answered, str], str] | None = None
"""How the line of a request is written, once the log is configured."""

_out: TextIO | Lines = sys.stderr
"""Where it is written."""


def _json_line(about: Answered, level: str) -> str:
    return (
        f'{{"event": "request", "level": "{level}", "logger": "api.requests", "method": {_quoted(about.method)}, '
        f'"path": {_quoted(about.path)}, "status": {about.status}, "seconds": {about.seconds:.6f}, '
        f'"bytes": {about.bytes}, "client": {_quoted(about.client)}, "request_id": {_quoted(about.request_id)}, '
        f'"timestamp": "{_now()}"}}\n'
    )


def _console_line(about: Answered, level: str) -> str:
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
    _out = _stream()
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
    if isinstance(_out, Lines):
        _out.drain()


def _stream() -> TextIO | Lines:
    try:
        return _lines_to(sys.stderr.fileno())
    except AttributeError:  # the program was started without one
        return Path(os.devnull).open("w", encoding="utf-8")
    except OSError:  # one in this process's memory, which makes nobody wait
        return sys.stderr


@cache  # one thread for a process, however often its log is configured
def _lines_to(descriptor: int) -> Lines:
    def dropped(number: int) -> str:
        told = f"{number} lines of the log were dropped: nobody read it in time"
        if _line_of is _json_line:
            line = {"event": told, "level": "warning", "logger": "api.logs", "timestamp": _now()}
            return f"{json.dumps(line)}\n"
        return f"{_now()} [warning  ] {told} [api.logs]\n"

    return Lines(descriptor, dropped)


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
