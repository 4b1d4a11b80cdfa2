"""Everything between the server and the routes, put on in one place.

Watch   id, headers, log line, count; the last word on bugs
CORS    only where the settings name origins
Gate    our name, key, rate, body, how many at once
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from api.gate import Gate
from api.settings import Settings
from api.watch import Watch


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
