"""The connection as an attacker sees it: what uvicorn's own protocol leaves open, closed.

uvicorn's fast protocol (httptools) takes a head of any length, waits for it for ever, and waits for ever for a client
that does not read its answer. `GuardedProtocol` bounds all three, and the number of connections. What goes on in time
costs nothing: timers start only where a piece of a request has to be waited for.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.denials import Denial, retry_after

GRACE = 5.0
"""Seconds by which the application's own answer to a slow body may come later than its limit, before the cut."""


MAX_TARGET = 2**16 - 1
"""Longest path and query that the parser can tell apart [bytes]; to it, a longer one is no HTTP."""

_INSTEAD = "Send a long objective by POST."
_TARGET_TOO_LONG = f"Path and query may have {MAX_TARGET} bytes together. {_INSTEAD}"


class Limits(NamedTuple):
    """What one connection, and all of a worker's together, may take.

    Attributes:
        connections: open at once.
        head_bytes: request line and headers [bytes].
        head_seconds: for them to arrive [s].
        body_seconds: for a body to arrive, or for a client to read on [s].
    """

    connections: int
    head_bytes: int
    head_seconds: float
    body_seconds: float


class _Denied(Exception):
    """Stops the parser."""


class GuardedProtocol(HttpToolsProtocol):
    """An HTTP/1.1 connection with limits, which ``config.limits`` names."""

    def __init__(self, config: Any, *arguments: Any, **more: Any) -> None:
        super().__init__(config, *arguments, **more)
        self._limits: Limits = config.limits
        self._waiting: asyncio.TimerHandle | None = None  # for the rest of a request
        self._unread: asyncio.TimerHandle | None = None  # for a client to read on
        self._in_head = self._in_message = False
        self._head = 0  # bytes since the request began, while its head is not complete
        self._open: list[RequestResponseCycle] = []  # requests that are being answered, or wait for it
        self._denial: Denial | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take a connection, or refuse one too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._deny(Denial(503, "busy", "Too many connections; try again later.", (retry_after(1),)))
        else:
            self._waiting = self.loop.call_later(self._limits.head_seconds, self._nothing_came)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers, and give up every request that was sent ahead: uvicorn tells the last one only."""
        self._stop_waiting()
        self.resume_writing()
        for cycle in self._open:
            _give_up(cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and see that the client keeps coming to an end."""
        if self._is_over():
            return
        if self._waiting is not None and not self._in_message:  # the first byte of a connection's first request
            self._stop_waiting()
        self._head += len(data)
        super().data_received(data)
        if self._is_over() or not self._in_message:
            return
        if self._in_head and self._head > self._limits.head_bytes:
            self._deny(self._too_large())
        elif self._waiting is None:
            seconds = self._limits.head_seconds if self._in_head else self._limits.body_seconds + GRACE
            self._waiting = self.loop.call_later(seconds, self._too_slow)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._in_head = self._in_message = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request on, unless its head is too large."""
        if self._head > self._limits.head_bytes:  # with other requests, or a body, in the same piece: count exactly
            exact = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if exact > self._limits.head_bytes:
                self._denial = self._too_large()
                raise _Denied
        if len(self.url) > MAX_TARGET:
            self._denial = Denial(431, "head-too-large", _TARGET_TOO_LONG, closing=True)
            raise _Denied
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()
        self._open = [*(cycle for cycle in self._open if not cycle.response_complete), self.cycle]

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_message = False
        self._head = 0
        self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be parsed, or was refused while it was."""
        self._deny(self._denial or Denial(400, "bad-request", msg, closing=True))

    def pause_writing(self) -> None:
        """Wait for a client to read, but not for ever."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Write on."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; cut it if there is an answer that nobody reads."""
        super().timeout_keep_alive_handler()
        self._cut_later()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as HTTP/1.1, in silence: anyone may ask for another protocol, and no package would change that."""

    def _is_over(self) -> bool:
        return self._denial is not None or self.transport.is_closing()

    def _too_large(self) -> Denial:
        detail = f"Request line and headers may have {self._limits.head_bytes} bytes together. {_INSTEAD}"
        return Denial(431, "head-too-large", detail, closing=True)

    def _nothing_came(self) -> None:
        self.transport.close()

    def _too_slow(self) -> None:
        if self._in_head:
            detail = f"The head of a request must arrive within {self._limits.head_seconds:g} s."
            self._deny(Denial(408, "too-slow", detail, closing=True))
        else:  # the application has said so in its own words, to no effect
            self.transport.abort()

    def _deny(self, denial: Denial) -> None:
        """Say no and close, unless an answer to another request is under way; nothing more is read."""
        self._denial = denial
        self._stop_waiting()
        before = [cycle for cycle in self._open if not cycle.response_complete]
        if self._in_message and not self._in_head and not self.cycle.response_started:  # its body is what is refused
            before.remove(self.cycle)
            _give_up(self.cycle)
        if not before:
            self.transport.write(denial._replace(closing=True).raw())
        self.transport.close()
        self._cut_later()

    def _cut_later(self) -> None:
        self.loop.call_later(self._limits.body_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _give_up(cycle: RequestResponseCycle) -> None:
    """Have the application take a request for one whose client is gone."""
    cycle.disconnected = True
    cycle.message_event.set()
