"""The log on stderr: one line an event, for people or as JSON. Never a body, a query or a key.

Modules log through the standard library and configure nothing; `configure` is called once by whoever serves, and gives
every line, uvicorn's included, the same form.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from api.request_id import REQUEST_ID
from api.settings import Settings

_REQUESTS = logging.getLogger("api.requests")


def answered(about: dict[str, Any], status: int) -> None:
    """Write the line of a request: an error where it is ours, else information."""
    level = logging.ERROR if status == 500 else logging.INFO
    if _REQUESTS.isEnabledFor(level):
        _REQUESTS.log(level, "request", extra=about)


def configure(settings: Settings) -> None:
    """Send every log line of this process to stderr in the form that the settings ask for."""
    handler = logging.StreamHandler(sys.stderr)
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
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
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
