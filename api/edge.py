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
from api.watch import Watch

if TYPE_CHECKING:
    from api.desk import Desk
    from api.pool import PoolState

COUNT_EVERY = 1.0
"""How often it is noted where the solver processes stand [s]."""


def install(app: FastAPI, settings: Settings) -> None:
    """Put the layers around an application's routes; the last one added is the outermost."""
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


@asynccontextmanager
async def counting(desk: Desk) -> AsyncIterator[None]:
    """Note from time to time where a desk's solver processes stand: whichever worker is asked, the numbers are there."""

    async def count() -> None:
        before: Mapping[str, PoolState] = {}
        while True:
            states = desk.pools
            metrics.pooled(states, before)
            before = states
            await asyncio.sleep(COUNT_EVERY)

    chore = asyncio.create_task(count())
    try:
        yield
    finally:
        chore.cancel()
