"""HEAD requests: answered as GET, without the body (RFC 9110, 9.3.2), on every path that answers GET."""

from __future__ import annotations

from typing import Any

from api.middleware.admission import App, Receive, Scope, Send

EVENTS = "/events"
"""End of the paths whose GET never ends by itself; their HEAD is left to the router."""


class HeadMiddleware:
    """ASGI middleware that has HEAD answered as GET, and sends the head alone.

    Args:
        app: the application behind it.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].endswith(EVENTS):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)
