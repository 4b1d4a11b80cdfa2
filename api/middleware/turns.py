"""Turns: requests that reach a route begin a few at a time, clients in turn.

Hundreds that arrive at once would each do its first step before another client's request does its second, and every request has
several. Answers from the response cache take one step and do not wait.
"""

from __future__ import annotations

from api.access.clients import UNLIMITED_PATHS
from api.access.fair_queue import FairQueue
from api.middleware.admission import App, Receive, Scope, Send

STARTS = 4
"""Requests that begin in one round of the event loop: some 2 ms of work."""


class TurnsMiddleware:
    """ASGI middleware that lets requests begin in turn.

    Args:
        app: the router.
    """

    def __init__(self, app: App) -> None:
        self._app, self._turns = app, FairQueue(STARTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on when it is its client's turn."""
        if scope["type"] == "http" and scope["path"] not in UNLIMITED_PATHS:
            client = scope.get("darrm.client")
            await self._turns.begin("" if client is None else client.name)
        await self._app(scope, receive, send)
