"""ASGI middleware, from the outermost: request context, admission, bodies of responses."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import ASGIApp, Receive, Scope, Send


class HttpMiddleware:
    """ASGI middleware for HTTP requests; anything else, such as the lifespan, passes by."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return (self.respond if scope["type"] == "http" else self._app)(scope, receive, send)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, or pass it on."""
        raise NotImplementedError
