"""Admission of requests: host name, API key, rate limit, body and concurrency, checked before the application.

A rejection costs microseconds and reaches no route, solver or disk. The whole body is read here, within its limits of
size and time, before the request counts as concurrent: a slow client occupies a connection and what it has sent,
never a slot for concurrent requests.

Admitted requests then start a few at a time, clients in turn (`TurnsMiddleware`): otherwise each of hundreds that
arrive at once would take its first step before another client's request takes its second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.client_shares import FairQueue, RateLimiter, shared_table
from api.access.clients import UNLIMITED_PATHS, Client, check_access
from api.access.keys import KeyRing, open_ring
from api.errors.problem_details import Rejection, retry_after
from api.settings import Settings

DEFAULT_RATE = 100.0  # default sustained request rate of an address or key [1/s]
STARTS = 4  # requests that start in one iteration of the event loop: some 2 ms of work

DRAIN_TIMES = 4
"""Multiple of the limit up to which a body that is too large is read and discarded.

A client that reads the response only after sending everything would otherwise see a broken connection instead of it.
"""


MAX_MEMBERS = 128
"""Members and parameters in the list headers and query of a request: browsers send some ten, and parsing each
takes microseconds."""

LIST_HEADERS = frozenset({b"accept", b"accept-encoding", b"if-none-match"})
LINGER_SECONDS = 10.0
"""Time for which the rest of a rejected body is read and discarded after the response.

A connection that is closed with unread bytes is reset, and many clients then miss the response.
"""


class HttpMiddleware:
    """ASGI middleware for HTTP requests; anything else, such as the lifespan, passes by."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (self.respond if scope["type"] == "http" else self._app)(scope, receive, send)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, or pass it on."""
        raise NotImplementedError


class AdmissionMiddleware(HttpMiddleware):
    """ASGI middleware that responds with 400, 401, 403, 408, 413, 421, 429, 431 and 503."""

    def __init__(self, app: ASGIApp, settings: Settings, ring: KeyRing | None = None) -> None:
        super().__init__(app)
        self._settings = settings
        self._ring = ring or open_ring(settings.keys)
        self._limiter = RateLimiter(shared_table(settings.run_folder))
        self._in_flight = 0

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        rejection = self._check(scope)
        # Before counting: a slow body must not count as concurrent work.
        if rejection is None and _has_body(scope["headers"]):
            body = await self._read_body(scope["headers"], receive)
            if body is None:  # the client disconnected
                return
            if isinstance(body, Rejection):
                rejection = body
            else:
                receive = _replay(body, receive)
        is_full = self._in_flight >= self._settings.max_concurrent_requests
        if rejection is None and is_full and scope["path"] not in UNLIMITED_PATHS:
            rejection = Rejection(
                "busy", "The server has reached its maximum of concurrent requests.", (retry_after(1),)
            )
        if rejection is not None:
            # A client that waits for "100 Continue" has no body to discard.
            sending = rejection.name == "body-too-large" and not _expects_leave(scope["headers"])
            await send_rejection(rejection, scope, send, receive if sending else None)
            return
        self._in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight -= 1

    def _check(self, scope: Scope) -> Rejection | None:
        settings = self._settings
        if scope["path"] in UNLIMITED_PATHS:  # also by a pod's address, which is not a host name of the server
            return None
        rejection = check_access(scope, settings, self._ring) or check_lists(scope)
        client: Client | None = scope.get("darrm.client")
        if client is None:  # wrong host name, or cross-site
            return rejection
        rate = client.rate(settings.rate, DEFAULT_RATE)
        if (delay := self._limiter.take(client.name, rate, settings.burst)) > 0:
            detail = f"The limit for one client is {rate:g} requests per second, and {settings.burst} in a burst."
            return Rejection("too-many-requests", detail, (retry_after(delay),))
        return rejection

    async def _read_body(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes | Rejection | None:
        """Return the body, or a rejection; None if the client disconnected."""
        settings = self._settings
        detail = f"The limit for a request body is {settings.max_body_bytes} bytes."
        too_large = Rejection("body-too-large", detail, closing=True)
        declared, largest_read = _declared_length(headers), DRAIN_TIMES * settings.max_body_bytes
        # A client that waits for "100 Continue" is rejected at once; for others see `DRAIN_TIMES`.
        if declared > (settings.max_body_bytes if _expects_leave(headers) else largest_read):
            return too_large
        chunks: list[bytes] = []
        length, more = 0, True
        try:
            # One limit for the whole body: a slow drip must not hold a connection for ever.
            async with asyncio.timeout(settings.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    length += len(chunk)
                    if length > DRAIN_TIMES * settings.max_body_bytes:
                        return too_large
                    chunks.append(chunk)
                    if length > settings.max_body_bytes:
                        chunks.clear()  # read to the end, and discarded
        except TimeoutError:
            detail = f"The body of a request must arrive within {settings.body_seconds:g} s."
            return Rejection("too-slow", detail, closing=True)
        return too_large if length > settings.max_body_bytes else b"".join(chunks)


def check_lists(scope: Scope) -> Rejection | None:
    """Return a rejection of a query, or of list headers, that would take long to parse."""
    members = scope.get("query_string", b"").count(b"&")
    for name, value in scope["headers"]:
        if name in LIST_HEADERS:
            members += value.count(b",") + value.count(b";")
    if members <= MAX_MEMBERS:
        return None
    detail = f"The limit for query, Accept, Accept-Encoding and If-None-Match is {MAX_MEMBERS} parts in total."
    return Rejection("head-too-large", detail)


async def send_rejection(rejection: Rejection, scope: Scope, send: Send, receive: Receive | None = None) -> None:
    """Send a rejection; then discard what the client still sends, through ``receive``, for a limited time."""
    body = rejection.body(scope.get("darrm.request_id"))
    head = scope["method"] == "HEAD"
    await send({"type": "http.response.start", "status": rejection.status, "headers": rejection.all_headers(body)})
    if receive is not None:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                    pass
        body = b""
    await send({"type": "http.response.body", "body": b"" if head else body})


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    for name, value in headers:  # no generator: on the path of every request
        if name == b"content-length":
            return value != b"0"
        if name == b"transfer-encoding":
            return True
    return False


def _expects_leave(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a client waits for "100 Continue" before sending its body."""
    return any(name == b"expect" for name, _ in headers)


def _declared_length(headers: list[tuple[bytes, bytes]]) -> int:
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value) if len(value) < 20 else 2**64
    return 0


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that replays a body, and then waits for the client to disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


class TurnsMiddleware(HttpMiddleware):
    """ASGI middleware that starts requests in turn; inside the response cache."""

    def __init__(self, app: ASGIApp, turns: FairQueue) -> None:
        super().__init__(app)
        self._turns = turns

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in UNLIMITED_PATHS:
            await self._turns.begin(client_name(scope))
        await self._app(scope, receive, send)


def client_name(scope: MutableMapping[str, Any]) -> str:
    """Return the name of the client of an admitted request, or ""."""
    client = scope.get("darrm.client")
    return "" if client is None else str(client.name)
