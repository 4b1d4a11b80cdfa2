"""HTTP protocol with limits on connections, heads, bytes and time.

uvicorn's fast protocol (httptools) accepts heads of any length and any number of headers, waits for ever for a head
or for a client that does not read, and buffers pipelined requests. `GuardedProtocol` bounds all of these, and handles
one request at a time per connection. Timers start only when part of a request is missing, so the usual case costs
next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.access.client_shares import RateLimiter
from api.access.clients import client_at
from api.errors.problem_details import Rejection
from api.middleware.request_context import PEER
from api.observability import metrics
from api.server.connections import TOO_MANY, OpenConnections

_LOG = logging.getLogger("api.wire")

BODY_GRACE_SECONDS = 5.0  # time after a body's limit for the application's response, before the connection is closed
MAX_TARGET_BYTES = 2**16 - 1  # longest path and query that the parser accepts; a longer one counts as bad HTTP
MAX_HEADERS = 128  # headers of a request; each takes some hundred bytes of memory
BYTES_PER_BODY_BYTE = 8  # framing bytes allowed per byte of a body; a chunk of one byte has five

WRITE_BUFFER_BYTES = 2**14  # buffered bytes of a response beyond which the application waits and the bytes are counted

REFUSED_ROUTE = "wire"  # route, in the metrics, of rejections before there is a request
LOGGED_REFUSALS = 10.0  # logged rejections per second, so that a flood does not flood the log


class RefusalLog:
    """Log of early rejections: one line each, at most `LOGGED_REFUSALS` per second, with the number omitted."""

    def __init__(self) -> None:
        self._limiter, self._skipped_count = RateLimiter(), 0

    def log(self, rejection: Rejection, client: str) -> None:
        """Log a rejection."""
        if self._limiter.take("wire", LOGGED_REFUSALS, LOGGED_REFUSALS) > 0:
            self._skipped_count += 1
            return
        extra = {"client": f"address {client}", "status": rejection.status, "not_logged": self._skipped_count}
        _LOG.info("rejected early: %s", rejection.name, extra=extra)
        self._skipped_count = 0


_REFUSALS = RefusalLog()


class _Stage(Enum):
    """What a connection waits for: the head of a request, its body, or the server's response."""

    HEAD, BODY, ANSWER = range(3)


class _RejectedError(Exception):
    """Stops the parser."""


class _ReadingFlow(FlowControl):
    """Flow control of a connection that may be held."""

    _held = False

    def hold(self, *, held: bool) -> None:
        self._held = held
        if held:
            self.pause_reading()
        else:
            self.resume_reading()

    def resume_reading(self) -> None:
        if not self._held:
            super().resume_reading()


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection with the limits of ``config.open``."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self._all: OpenConnections = config.open
        self._limits = self._all.limits
        self._stage = _Stage.HEAD
        self._timer: asyncio.TimerHandle | None = None  # for a head or body
        self._unread_timer: asyncio.TimerHandle | None = None  # for a client to read
        self._frame = 0  # bytes of the request outside its body
        self._rejection: Rejection | None = None
        self._ignores_input = False  # until the connection ends after the current response
        self.url, self.headers = b"", []  # no request yet
        self.address, self.was_used, self.received, self.unread = "", False, 0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection if there is room or a waiting one makes room."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self.flow: _ReadingFlow = _ReadingFlow(transport)
        origin = self.client[0] if self.client else None
        self.address = client_at(origin).name
        rejection = self._all.add(self, origin)
        if rejection is not None:
            self._reject(rejection)
        else:
            self._timer = self.loop.call_later(self._limits.head_seconds, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection and cancel its timers."""
        self._all.remove(self)
        self._cancel_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def evict(self, why: Rejection = TOO_MANY) -> None:
        """Close this connection to make room or because it is slow, with a response if a request has begun."""
        if self.unread:
            self._all.remove(self)
            self.transport.abort()
        elif self.received:
            self._reject(why)
        else:
            self._close()

    def hold(self, *, held: bool) -> None:
        """Pause or resume reading; the time limit of the body continues."""
        self.flow.hold(held=held)

    def data_received(self, data: bytes) -> None:
        """Read data, within the limits on the request's bytes and time."""
        if self._is_over():
            return
        self._frame = max(0, self._frame) + len(data)
        self._all.receive(self, len(data))
        if self._is_over():  # evicted as the heaviest
            return
        super().data_received(data)
        if self._is_over() or self._stage is _Stage.ANSWER:
            return
        if self._frame > self._limits.head_bytes or len(self.headers) > MAX_HEADERS:
            self._reject(self._too_large())
        elif self._timer is None:
            in_head = self._stage is _Stage.HEAD
            seconds = self._limits.head_seconds if in_head else self._limits.body_seconds + BODY_GRACE_SECONDS
            self._timer = self.loop.call_later(seconds, self._too_slow)
            self._all.set_waiting(self, waiting=True)

    def on_message_begin(self) -> None:
        """Begin a request; a pipelined one is not read (RFC 9112, 9.3.2: the client retries it)."""
        if self._stage is _Stage.ANSWER:
            raise _RejectedError
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request on, unless its head is too large."""
        exact = 0
        if self._frame > self._limits.head_bytes:  # includes part of a body
            exact = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if exact > self._limits.head_bytes or len(self.url) > MAX_TARGET_BYTES or len(self.headers) > MAX_HEADERS:
            self._rejection = self._too_large()
            raise _RejectedError
        self._cancel_timer()
        self._stage, self.was_used = _Stage.BODY, True
        self._all.set_waiting(self, waiting=False)
        super().on_headers_complete()
        self.scope[PEER] = self.client  # type: ignore[literal-required]  # before any proxy header
        self.headers = []  # excludes trailers

    def on_body(self, body: bytes) -> None:
        """Receive part of the body."""
        self._frame -= (1 + BYTES_PER_BODY_BYTE) * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._cancel_timer()
        self._stage = _Stage.ANSWER
        super().on_message_complete()
        if self.cycle.response_complete:  # answered before its body arrived
            self._end_request()
        else:
            self._all.set_waiting(self, waiting=False)

    def on_response_complete(self) -> None:
        """End a response and, unless its body is still arriving, the request."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_later()
        elif self._stage is _Stage.ANSWER:
            self._end_request()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed or was rejected; data after a request ends the connection."""
        if self._stage is _Stage.ANSWER:
            self._end_with_answer()
        else:
            self._reject(self._rejection or Rejection("bad-request", msg, closing=True))

    def pause_writing(self) -> None:
        """Wait for a client to read, for a limited time."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self._limits.body_seconds, self.transport.abort)
        self._all.set_unread(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Resume writing."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
            self._all.set_unread(self, 0)
            self._all.set_waiting(self, waiting=self._stage is not _Stage.ANSWER)
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort it if a response stays unread."""
        self._close()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer with HTTP/1.1 without a warning, which any client could provoke."""
        # Data after such a request is not parsed.
        self._end_with_answer()

    def _is_over(self) -> bool:
        return self._ignores_input or self.transport.is_closing()

    def _end_request(self) -> None:
        self._stage, self._frame = _Stage.HEAD, 0
        self._all.receive(self, -self.received)
        self._all.set_waiting(self, waiting=True)

    def _end_with_answer(self) -> None:
        self.cycle.keep_alive = False
        self._ignores_input = True

    def _too_large(self) -> Rejection:
        detail = f"The limit for request line and headers is {self._limits.head_bytes} bytes, for path and query "
        detail += f"{MAX_TARGET_BYTES} bytes together. Send a long objective by POST. At most {MAX_HEADERS} headers."
        return Rejection("head-too-large", detail, closing=True)

    def _too_slow(self) -> None:  # also for a body, if the application's response had no effect
        detail = f"The head of a request must arrive within {self._limits.head_seconds:g} s."
        self.evict(Rejection("too-slow", detail, closing=True))

    def _reject(self, rejection: Rejection) -> None:
        """Reject and close, unless a response has started; nothing more is read."""
        has_answer = self._stage is _Stage.BODY and self.cycle.response_started
        if self._stage is _Stage.BODY:  # its body is rejected
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not has_answer:
            metrics.count_request("other", REFUSED_ROUTE, rejection.status, 0.0)
            _REFUSALS.log(rejection, self.client[0] if self.client else "unknown")
            self.transport.write(rejection.raw())
        self._close()

    def _close(self) -> None:
        self._all.remove(self)
        self.transport.close()
        self._cut_later()

    def _cut_later(self) -> None:
        """Abort a closed connection unless its client reads the response."""
        self._cancel_timer()
        self._timer = self.loop.call_later(self._limits.body_seconds, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
