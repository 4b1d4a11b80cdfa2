"""Path prefix of a request: that of the setting or of a trusted proxy, removed from the path if the proxy left it."""

from __future__ import annotations

from api.access.path_prefix import forwarded_prefix, is_trusted, set_current_prefix
from api.middleware.admission import App, Receive, Scope, Send
from api.settings import Settings

PEER = "darrm.peer"
"""Entry of a request's scope: address and port of the connection, whatever proxies say (`api.server.protocol`)."""


class PathPrefixMiddleware:
    """ASGI middleware, the outermost: behind it, paths begin at the root.

    Args:
        app: the application and its other middleware.
        settings: the prefix, and whose X-Forwarded-Prefix is trusted.
    """

    def __init__(self, app: App, settings: Settings) -> None:
        self._app, self._prefix, self._proxies = app, settings.path_prefix, settings.trusted_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, by its path below the prefix."""
        if scope["type"] == "http" and (self._prefix or self._proxies):
            prefix, peer = self._prefix, scope.get(PEER) or scope.get("client")
            if self._proxies and is_trusted(peer[0] if peer else None, self._proxies):
                forwarded = forwarded_prefix(scope["headers"])
                prefix = prefix if forwarded is None else forwarded
            set_current_prefix(prefix)
            if prefix and scope["path"].startswith(f"{prefix}/"):
                scope = {**scope, "path": scope["path"].removeprefix(prefix)}
        await self._app(scope, receive, send)
