"""Everything between the server and the routes, put on in one place.

Watch   id, headers, log line, count; the last word on bugs
CORS    only where the settings name origins
Gate    our name, key, rate, body, how many at once
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from api import metrics
from api.gate import Gate
from api.settings import Settings
from api.shortcut import Shortcut
from api.watch import Watch

if TYPE_CHECKING:
    from api.desk import Desk
    from api.pool import PoolState

COUNT_EVERY = 1.0
"""How often it is noted what the parts of a desk have counted [s]."""


def install(app: FastAPI, settings: Settings) -> None:
    """Put the layers around an application's routes; the last one added is the outermost."""
    app.add_middleware(Shortcut)
    app.add_middleware(Gate, settings=settings)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=(
                "Authorization",
                "Content-Type",
                "If-None-Match",
                "Last-Event-ID",
                "X-API-Key",
                "X-Request-ID",
            ),
            expose_headers=("ETag", "Location", "Retry-After", "X-Request-ID"),
        )
    app.add_middleware(Watch)


class Counting:
    """Carries over into the metrics what a desk's parts count themselves: looks into the store, solver processes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pools: Mapping[str, PoolState] = {}
        self._looks: Mapping[str, int] = {}

    def note(self) -> None:
        """Count what is new."""
        pools, looks = self._desk.pools, self._desk.store.hits.counts
        metrics.pooled(pools, self._pools)
        for found, times in looks.items():
            metrics.looked(found, times - self._looks.get(found, 0))
        self._pools, self._looks = pools, {str(found): times for found, times in looks.items()}


@asynccontextmanager
async def counting(desk: Desk) -> AsyncIterator[Counting]:
    """Count every second, so that the numbers are there whichever worker is asked for them."""
    counts = Counting(desk)

    async def chore() -> None:
        while True:
            counts.note()
            await asyncio.sleep(COUNT_EVERY)

    task = asyncio.create_task(chore())
    try:
        yield counts
    finally:
        task.cancel()
