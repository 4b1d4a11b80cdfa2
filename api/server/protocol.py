"""HTTP protocol with limits: bounds on connections, heads, and the time that a client may take.

uvicorn's fast protocol (httptools) takes a head of any length, waits for it for ever, and waits for ever for a client
that does not read its answer. `GuardedProtocol` bounds all three, and the number of connections. What goes on in time
costs nothing: timers start only where a piece of a request has to be waited for.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.access.clients import UNLIMITED_PATHS, client_at
from api.access.path_prefix import is_trusted
from api.access.rate_limits import RateLimiter
from api.errors.problem_details import Rejection, retry_after
from api.middleware.path_prefix import PEER
from api.observability import metrics

_LOG = logging.getLogger("api.wire")

BODY_GRACE_SECONDS = 5.0
"""Time after a body's limit for the application's own answer, before the connection is cut [s]."""

MAX_TARGET_BYTES = 2**16 - 1
"""Longest path and query that the parser accepts [bytes]; it takes a longer one for bad HTTP."""

_USE_POST = "Send a long objective by POST."

_TARGET_TOO_LONG = f"Path and query may have {MAX_TARGET_BYTES} bytes together. {_USE_POST}"


class ConnectionLimits(NamedTuple):
    """Limits of one connection, and of all connections of a worker.

    Attributes:
        connections: open at once.
        per_address: of them, those of one address.
        exempt: networks of trusted proxies, whose connections are many clients'.
        head_bytes: request line and headers [bytes].
        head_seconds: for them to arrive [s].
        body_seconds: for a body to arrive, or for a client to read on [s].
    """

    connections: int
    per_address: int
    exempt: tuple[str, ...]
    head_bytes: int
    head_seconds: float
    body_seconds: float


SAMPLED_CONNECTIONS = 64
"""Idle connections among which the one to close is chosen: a look at thousands for each new one stalls the loop."""

RESERVED_CONNECTIONS = 64
"""Connections beyond the limit on which health is still answered."""

RESERVED_SECONDS = 2.0
"""Time for such a connection to ask [s]."""

REFUSED_ROUTE = "wire"
"""Route, in the metrics, of what was refused before there was a request."""

LOGGED_REFUSALS = 10.0
"""Refusals on the wire that are logged in a second; a flood of them must not become a flood of lines."""

_HEALTH = frozenset(path.encode() for path in UNLIMITED_PATHS)

RESERVED_PER_ADDRESS = 4
"""Connections of one address beyond its limit on which health is still answered."""

_TOO_MANY = Rejection("busy", "Too many connections; try again later.", (retry_after(1),), closing=True)


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


class IdleConnections:
    """Connections of a worker that have no request, the one that has been idle longest first."""

    def __init__(self) -> None:
        self._idle: dict[GuardedProtocol, None] = {}

    def add(self, connection: GuardedProtocol) -> None:
        """Add a connection, behind the others."""
        self._idle[connection] = None

    def discard(self, connection: GuardedProtocol) -> None:
        """Take a connection out, if it is in."""
        self._idle.pop(connection, None)

    def greediest(self) -> GuardedProtocol | None:
        """Return the longest idle connection of the address with the most, unused ones first; None if none is idle."""
        by_address: dict[str, list[GuardedProtocol]] = {}
        for connection in islice(self._idle, SAMPLED_CONNECTIONS):
            by_address.setdefault(connection.address, []).append(connection)
        if not by_address:
            return None
        connections = max(by_address.values(), key=len)
        return min(connections, key=lambda connection: connection.was_used)


class AddressConnections:
    """Connections of one address to a worker: all that are open, and those that have no request."""

    def __init__(self) -> None:
        self.open: set[GuardedProtocol] = set()
        self.idle = IdleConnections()


class OpenConnections:
    """Connections of a worker: those that have no request, and those of each address."""

    def __init__(self) -> None:
        self.idle = IdleConnections()
        self.by_address: dict[str, AddressConnections] = {}


class _RejectedError(Exception):
    """Exception that stops the parser."""


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 connection with the limits of ``config.limits``."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self._limits: ConnectionLimits = config.limits
        self._request_timer: asyncio.TimerHandle | None = None  # for the rest of a request
        self._unread_timer: asyncio.TimerHandle | None = None  # for a client to read on
        self._in_head = self._in_message = False
        self._head = 0  # bytes since the request began, while its head is not complete
        self._open: list[RequestResponseCycle] = []  # requests that are being answered, or wait for it
        self._rejection: Rejection | None = None
        self._too_many: Rejection | None = None  # on this connection, whatever is asked but health
        self._refusals = _REFUSALS
        self._all: OpenConnections = config.open
        self._siblings = AddressConnections()  # of the same address
        self.address, self.was_used = "", False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection; if there are too many, close an idle one, or answer only health checks on this one.

        First those of its address are counted, so that no address gets beyond its own limit; then all.
        """
        super().connection_made(transport)
        origin, limits = self.client[0] if self.client else None, self._limits
        self.address = client_at(origin).name
        self._siblings = self._all.by_address.setdefault(self.address, self._siblings)
        self._siblings.open.add(self)
        address_count, total = len(self._siblings.open), len(self.connections)
        if (
            address_count > limits.per_address
            and not is_trusted(origin, limits.exempt)
            and not _make_room(self._siblings.idle)
        ):
            detail = f"One address may have {limits.per_address} connections open, and this one has."
            self._too_many = Rejection("too-many-requests", detail, (retry_after(1),), closing=True)
            if address_count > limits.per_address + RESERVED_PER_ADDRESS:
                self._reject(self._too_many)
                return
        if total > limits.connections and len(self.connections) == total and not _make_room(self._all.idle):
            self._too_many = self._too_many or _TOO_MANY
            if total > limits.connections + RESERVED_CONNECTIONS:
                self._reject(_TOO_MANY)
                return
        self._set_idle()
        seconds = limits.head_seconds if self._too_many is None else min(limits.head_seconds, RESERVED_SECONDS)
        self._request_timer = self.loop.call_later(seconds, self._nothing_came)

    def _set_idle(self) -> None:
        """Count this connection among those that have no request."""
        for idle in (self._all.idle, self._siblings.idle):
            idle.add(self)

    def _set_busy(self) -> None:
        """Count it among them no more."""
        for idle in (self._all.idle, self._siblings.idle):
            idle.discard(self)

    def forget(self) -> None:
        """Count this connection no more at all."""
        self._set_busy()
        self.connections.discard(self)
        self._siblings.open.discard(self)
        if not self._siblings.open and self._all.by_address.get(self.address) is self._siblings:
            del self._all.by_address[self.address]  # addresses come and go for years

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers, and disconnect every pipelined request: uvicorn tells the last one only."""
        self._cancel_request_timer()
        self.forget()
        self.resume_writing()
        for cycle in self._open:
            _disconnect(cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data, and bound the time until the request is complete."""
        if self._is_over():
            return
        if self._request_timer is not None and not self._in_message:  # the first byte of a connection's first request
            self._cancel_request_timer()
        self._head += len(data)
        super().data_received(data)
        if self._is_over() or not self._in_message:
            return
        if self._in_head and self._head > self._limits.head_bytes:
            self._reject(self._too_large())
        elif self._request_timer is None:
            seconds = self._limits.head_seconds if self._in_head else self._limits.body_seconds + BODY_GRACE_SECONDS
            self._request_timer = self.loop.call_later(seconds, self._too_slow)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._in_head = self._in_message = self.was_used = True
        self._set_busy()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Pass the request on, unless its head is too large."""
        if self._head > self._limits.head_bytes:  # with other requests, or a body, in the same piece: count exactly
            exact = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if exact > self._limits.head_bytes:
                self._rejection = self._too_large()
                raise _RejectedError
        if len(self.url) > MAX_TARGET_BYTES:
            self._rejection = Rejection("head-too-large", _TARGET_TOO_LONG, closing=True)
            raise _RejectedError
        if self._too_many is not None and self.url.split(b"?", 1)[0] not in _HEALTH:
            self._rejection = self._too_many
            raise _RejectedError
        self._in_head = False
        self._cancel_request_timer()
        super().on_headers_complete()
        self.scope[PEER] = self.client  # type: ignore[literal-required]  # of the connection, whatever a proxy says
        self._open = [*(cycle for cycle in self._open if not cycle.response_complete), self.cycle]

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_message = False
        self._head = 0
        self._cancel_request_timer()
        super().on_message_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:  # answered before its body had come
            self._set_idle()

    def on_response_complete(self) -> None:
        """End a response; the connection is idle now, unless another request has begun."""
        super().on_response_complete()
        if not (
            self.transport.is_closing() or self._in_message or any(not cycle.response_complete for cycle in self._open)
        ):
            self._set_idle()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, or was rejected during parsing."""
        self._reject(self._rejection or Rejection("bad-request", msg, closing=True))

    def pause_writing(self) -> None:
        """Wait for a client to read, for a limited time."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self._limits.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Resume writing."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort it if an answer stays unread."""
        super().timeout_keep_alive_handler()
        self._cut_later()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as HTTP/1.1 without a warning: anyone may ask for another protocol, and no package changes that."""

    def _is_over(self) -> bool:
        return self._rejection is not None or self.transport.is_closing()

    def _too_large(self) -> Rejection:
        detail = f"Request line and headers may have {self._limits.head_bytes} bytes together. {_USE_POST}"
        return Rejection("head-too-large", detail, closing=True)

    def _nothing_came(self) -> None:
        self.transport.close()

    def _too_slow(self) -> None:
        if self._in_head:
            detail = f"The head of a request must arrive within {self._limits.head_seconds:g} s."
            self._reject(Rejection("too-slow", detail, closing=True))
        else:  # the application has said so in its own words, to no effect
            self.transport.abort()

    def _reject(self, rejection: Rejection) -> None:
        """Reject and close, unless an answer to another request is under way; nothing more is read."""
        self._rejection = rejection
        metrics.count_request("other", REFUSED_ROUTE, rejection.status, 0.0)
        self._refusals.log(rejection, self.client[0] if self.client else "unknown")
        self._cancel_request_timer()
        unfinished = [cycle for cycle in self._open if not cycle.response_complete]
        if self._in_message and not self._in_head and not self.cycle.response_started:  # its body is what is refused
            unfinished.remove(self.cycle)
            _disconnect(self.cycle)
        if not unfinished:
            self.transport.write(rejection._replace(closing=True).raw())
        self.transport.close()
        self._cut_later()

    def _cut_later(self) -> None:
        self.loop.call_later(self._limits.body_seconds, self.transport.abort)

    def _cancel_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None


def _make_room(idle: IdleConnections) -> bool:
    """Close an idle connection; return whether there is one."""
    connection = idle.greediest()
    if connection is None:
        return False
    connection.forget()
    connection.transport.close()
    return True


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Tell the application that the client of a request has disconnected."""
    cycle.disconnected = True
    cycle.message_event.set()
