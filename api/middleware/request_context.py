"""Request context: path prefix, id, security headers, log line and metrics of every request, and unexpected errors.

An unhandled exception is logged with its traceback; the response is a problem detail with the request id and nothing
else. A request cancelled by a stopping server is answered with 503.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.clients import CURRENT_PREFIX, forwarded_prefix, is_trusted
from api.errors.problem_details import CLIENT_CLOSED_REQUEST, Rejection, retry_after
from api.middleware.admission import HttpMiddleware, client_name, send_rejection
from api.observability import access_log, metrics, traces
from api.observability.logs import REQUEST_ID, RequestLogEntry, accept_request_id, log_request
from api.settings import Settings

_LOG = logging.getLogger("api")

DEFAULT_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
"""Default headers of every response, for content that is not a page and must not be cached."""

UNMATCHED_ROUTE, REFUSED_ROUTE = "unmatched", "refused"
"""Routes, in the metrics, of requests without a route, and of those rejected before one."""


STOPPED = Rejection(
    "shutting-down", "The server is shutting down; ask again when it is back.", (retry_after(1),), closing=True
)
"""Response to a request that is unfinished when the server must stop; clients retry it."""


PEER = "darrm.peer"
"""Entry of a request's scope: peer address and port, before any proxy header (`api.server.protocol`)."""


class RequestContextMiddleware(HttpMiddleware):
    """ASGI middleware, the outermost except for the path prefix."""

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        proposal = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        identity = scope["darrm.request_id"] = accept_request_id(proposal)
        REQUEST_ID.set(identity)
        status, length, mentions = 0, 0, access_log.begin(scope["app"].state.access_log, scope["path"])

        async def send_with_headers(message: Message) -> None:
            nonlocal status, length
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.get("headers", ())
                missing = _missing_headers(tuple(headers))
                message = {**message, "headers": [*headers, *missing, (b"x-request-id", identity.encode())]}
            else:
                length += len(message.get("body", b""))
            await send(message)

        metrics.IN_FLIGHT.inc()
        with traces.request_span(scope["method"], scope["headers"]) as end_span:
            try:
                await self._app(scope, receive, send_with_headers)
            except asyncio.CancelledError:  # by the stopping server, at its deadline
                if status:
                    raise
                await send_rejection(STOPPED, scope, send_with_headers)
            except Exception:
                _LOG.exception("unexpected error")
                if status:  # the response has started and can only be aborted
                    raise
                failure = Rejection("internal-error", "The server's log has the details.")
                await send_rejection(failure, scope, send_with_headers)
                status = 500
            finally:
                metrics.IN_FLIGHT.dec()
                seconds = time.perf_counter() - start
                status = status or CLIENT_CLOSED_REQUEST
                template = _route_template(scope, status)
                metrics.count_request(scope["method"], template, status, seconds)
                name = client_name(scope) or "unknown"
                end_span(template, status, name, identity)
                access_log.record(mentions, scope, status, seconds)
                log_request(RequestLogEntry(scope["method"], scope["path"], status, seconds, length, name, identity))


@lru_cache(maxsize=256)  # cached responses have the same ones
def _missing_headers(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    present = {name for name, _ in headers}
    return tuple(header for header in DEFAULT_HEADERS if header[0] not in present)


def _route_template(scope: Scope, status: int) -> str:
    """Return the template of the route that responded; a folder of files is one route."""
    none = UNMATCHED_ROUTE if status in {404, 405} else REFUSED_ROUTE
    return scope.get("darrm.route") or getattr(scope.get("route"), "path", None) or none


class PathPrefixMiddleware(HttpMiddleware):
    """Outermost ASGI middleware: removes the path prefix."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        self._prefix, self._proxies = settings.path_prefix, settings.trusted_proxies

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefix, peer = self._prefix, scope.get(PEER) or scope.get("client")
        if self._proxies and is_trusted(peer[0] if peer else None, self._proxies):
            forwarded = forwarded_prefix(scope["headers"])
            prefix = prefix if forwarded is None else forwarded
        CURRENT_PREFIX.set(prefix)
        if prefix and scope["path"].startswith(f"{prefix}/"):
            scope = {**scope, "path": scope["path"].removeprefix(prefix)}
        await self._app(scope, receive, send)
