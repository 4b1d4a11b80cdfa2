"""HTTP protocol with limits: bounds on connections, heads, bytes, and the time that a client may take.

uvicorn's fast protocol (httptools) takes a head of any length and any number of headers, waits for it for ever, waits
for ever for a client that does not read its answer, and holds every request that a client sends ahead.
`GuardedProtocol` bounds all of them, and has one request at a time on a connection. What goes on in time costs next to
nothing: timers start only where a piece of a request has to be waited for.
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

BODY_GRACE_SECONDS = 5.0
"""Time after a body's limit for the application's own answer, before the connection is cut [s]."""

MAX_TARGET_BYTES = 2**16 - 1
"""Longest path and query that the parser accepts [bytes]; it takes a longer one for bad HTTP."""

MAX_HEADERS = 128
"""Headers of a request: each takes some hundred bytes of memory, however short it is."""

BYTES_PER_BODY_BYTE = 8
"""Bytes around each byte of a body that are allowed beside those of a head: a chunk of one byte has five."""

WRITE_BUFFER_BYTES = 2**14
"""Bytes of an answer that wait for a client unseen [bytes]: beyond, the application waits, and they are counted."""

REFUSED_ROUTE = "wire"
"""Route, in the metrics, of what was refused before there was a request."""

LOGGED_REFUSALS = 10.0
"""Refusals on the wire that are logged in a second; a flood of them must not become a flood of lines."""


class RefusalLog:
    """Log of refusals on the wire: a line each, at most `LOGGED_REFUSALS` a second; then how many were not logged."""

    def __init__(self) -> None:
        self._limiter, self._skipped_count = RateLimiter(), 0

    def log(self, rejection: Rejection, client: str) -> None:
        """Log a refusal."""
        if self._limiter.take("wire", LOGGED_REFUSALS, LOGGED_REFUSALS) > 0:
            self._skipped_count += 1
            return
        extra = {"client": f"address {client}", "status": rejection.status, "not_logged": self._skipped_count}
        _LOG.info("refused on the wire: %s", rejection.name, extra=extra)
        self._skipped_count = 0


_REFUSALS = RefusalLog()


class _Stage(Enum):
    """What a connection waits for: the head of a request, its body, or the server's answer."""

    HEAD, BODY, ANSWER = range(3)


class _RejectedError(Exception):
    """Exception that stops the parser."""


class _ReadingFlow(FlowControl):
    """Flow control of a connection that may be held, whatever the application is ready for."""

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
        self._timer: asyncio.TimerHandle | None = None  # for the rest of a head or body
        self._unread_timer: asyncio.TimerHandle | None = None  # for a client to read on
        self._frame = 0  # bytes of the request that are not of its body
        self._rejection: Rejection | None = None
        self._ignores_input = False  # until the connection ends with the present answer
        self.url, self.headers = b"", []  # of no request yet
        self.address, self.was_used, self.received, self.unread = "", False, 0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection, if there is room for it or one that waits for its client makes room."""
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
        """Count the connection out and cancel its timers."""
        self._all.remove(self)
        self._cancel_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def evict(self, why: Rejection = TOO_MANY) -> None:
        """Close this connection, for others' sake or as it is slow: with an answer, if a request has begun."""
        if self.unread:
            self._all.remove(self)
            self.transport.abort()
        elif self.received:
            self._reject(why)
        else:
            self._close()

    def hold(self, *, held: bool) -> None:
        """Read no more for others' sake, or read on; the time for the body goes on."""
        self.flow.hold(held=held)

    def data_received(self, data: bytes) -> None:
        """Read data, and bound the bytes of the request and the time until it is complete."""
        if self._is_over():
            return
        self._frame = max(0, self._frame) + len(data)
        self._all.receive(self, len(data))
        if self._is_over():  # it had the most, beyond what there is room for
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
        """Begin a request; one that was sent ahead is left unread (RFC 9112, 9.3.2: its client sends it again)."""
        if self._stage is _Stage.ANSWER:
            raise _RejectedError
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request on, unless its head is too large."""
        exact = 0
        if self._frame > self._limits.head_bytes:  # with a body in the same piece
            exact = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if exact > self._limits.head_bytes or len(self.url) > MAX_TARGET_BYTES or len(self.headers) > MAX_HEADERS:
            self._rejection = self._too_large()
            raise _RejectedError
        self._cancel_timer()
        self._stage, self.was_used = _Stage.BODY, True
        self._all.set_waiting(self, waiting=False)
        super().on_headers_complete()
        self.scope[PEER] = self.client  # type: ignore[literal-required]  # of the connection, whatever a proxy says
        self.headers = []  # what follows the body is none of the request's

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._frame -= (1 + BYTES_PER_BODY_BYTE) * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._cancel_timer()
        self._stage = _Stage.ANSWER
        super().on_message_complete()
        if self.cycle.response_complete:  # answered before its body had come
            self._end_request()
        else:
            self._all.set_waiting(self, waiting=False)

    def on_response_complete(self) -> None:
        """End a response, and with it the request, unless its body is still coming."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_later()
        elif self._stage is _Stage.ANSWER:
            self._end_request()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed or was rejected; what follows a request ends the connection."""
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
        """Close an idle connection; abort it if an answer stays unread."""
        self._close()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as HTTP/1.1 without a warning: anyone may ask for another protocol, and no package changes that."""
        # What follows such a request is not parsed.
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
        detail = f"Request line and headers may have {self._limits.head_bytes} bytes together. Path and query may have "
        detail += f"{MAX_TARGET_BYTES} bytes together. Send a long objective by POST. At most {MAX_HEADERS} headers."
        return Rejection("head-too-large", detail, closing=True)

    def _too_slow(self) -> None:  # a body too, if the application has said so in its own words, to no effect
        detail = f"The head of a request must arrive within {self._limits.head_seconds:g} s."
        self.evict(Rejection("too-slow", detail, closing=True))

    def _reject(self, rejection: Rejection) -> None:
        """Reject and close, unless an answer to the request is under way; nothing more is read."""
        has_answer = self._stage is _Stage.BODY and self.cycle.response_started
        if self._stage is _Stage.BODY:  # its body is what is refused
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
        """Abort a connection that is closed, unless its client reads what it was sent."""
        self._cancel_timer()
        self._timer = self.loop.call_later(self._limits.body_seconds, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
