"""Application: the HTTP API with its lifespan, routes, error handlers and middleware.

It designs noise and never sees a vote. Routes parse, call and render; they call the `DesignService` that the lifespan
opens.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from api.access.client_shares import FairQueue
from api.access.keys import KeyRing, open_ring
from api.errors.handlers import add_exception_handlers
from api.middleware.admission import STARTS, AdmissionMiddleware, TurnsMiddleware
from api.middleware.request_context import PathPrefixMiddleware, RequestContextMiddleware
from api.middleware.response_bodies import CompressionMiddleware, HeadMiddleware, ResponseCache, ResponseCacheMiddleware
from api.observability import access_log, traces
from api.observability.metrics import ServiceMetrics
from api.routes import ROUTERS
from api.routes.documents import openapi_schema
from api.service.design_service import DesignService
from api.settings import KILL_SECONDS, Settings, read_settings
from darrm_opt import __version__
from solver_cache.store import open_store

DESCRIPTION = """
K voters each give a 0/1 answer, each (ε, Δ)-differentially private. Request the noise function γ that releases their
majority privately with the smallest loss: with l ones, keep the majority with probability γ(l), else toss a fair
coin. Every γ comes with a certificate. Votes are never sent here: the release happens where the votes are.

Numbers carry their unit in brackets: [voters], [nats], [probability], [s]. Infinity is the text "inf". Errors are
problem details (RFC 9457), media type `application/problem+json`, and name the field at fault.
"""


_READ_HEADERS = ["Authorization", "Content-Type", "If-None-Match", "Last-Event-ID", "X-API-Key", "X-Request-ID"]


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application, by default with the environment's settings; nothing is opened before startup."""
    config = read_settings() if settings is None else settings
    ring = open_ring(config.keys)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = open_store(config.cache_url)
        shutdown = app.state.shutdown = asyncio.Event()
        build_task = asyncio.create_task(asyncio.to_thread(_build, app))  # while processes start
        with (
            access_log.opened(config.access_log) as app.state.access_log,
            traces.traced(),
            watch_signals(shutdown, config.stop_seconds),
        ):
            async with DesignService.open(store, config, shutdown, ring) as service:
                app.state.service = service
                app.state.metrics = ServiceMetrics(
                    lambda: service.pools,
                    lambda: {str(found): times for found, times in service.store.hits.counts.items()},
                    lambda: service.streams.count,
                    app.state.connections,
                )
                await build_task
                async with app.state.metrics.collected():
                    yield

    app = FastAPI(
        title="darrm-opt",
        version=__version__,
        summary="Optimal private majority votes: γ tables with a certificate.",
        description=DESCRIPTION,
        lifespan=lifespan,
        servers=[{"url": config.path_prefix}] if config.path_prefix else None,
        openapi_url=None,  # FastAPI encodes it for each request; `api.routes.documents` caches it
        docs_url=None,  # its page loads scripts from another site
        redoc_url=None,
        redirect_slashes=False,  # it would trust the Host header, and lose https behind a proxy
        generate_unique_id_function=lambda route: route.name,
        # FastAPI's spans and logs contain queries; those of `traces` do not.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.settings, app.state.turns = config, FairQueue(STARTS)
    app.state.response_cache = ResponseCache()
    app.state.access_log = None  # until opened
    app.state.connections = None  # set by the server
    app.state.openapi = None  # built on first use
    app.state.routes = tuple(route for router in ROUTERS for route in router.routes)
    for router in ROUTERS:
        app.include_router(router)
    add_exception_handlers(app)
    _add_middleware(app, config, ring)
    app.openapi = lambda: openapi_schema(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _build(app: FastAPI) -> None:
    """Build the routes, which FastAPI otherwise builds on the first request."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []})


@contextmanager
def watch_signals(shutdown: asyncio.Event, seconds: float) -> Iterator[None]:
    """Set ``shutdown`` on SIGTERM and SIGINT, then call the previous handlers.

    Open requests may take ``seconds`` more; `KILL_SECONDS` later the process exits, even if it hangs.
    """
    # A stopping server waits for open requests before it notifies the application; requests that wait for a solve, or
    # follow a job, would delay it until its deadline.
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    replaced = {number: handler for number, handler in handlers.items() if callable(handler)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(shutdown.set)
        timer = threading.Timer(seconds + KILL_SECONDS, os._exit, [1])
        timer.daemon = True  # does not delay a regular exit
        timer.start()
        replaced[signal.Signals(number)](number, frame)

    for number in replaced:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            if signal.getsignal(number) is on_signal:
                signal.signal(number, handler)


def _add_middleware(app: FastAPI, settings: Settings, ring: KeyRing | None) -> None:
    """Add the middleware; the last one added is the outermost."""
    # From the outermost: path prefix, if configured or forwarded; request context (id, headers, log line, metrics,
    # unexpected errors); CORS, if origins are set; admission (host name, key, rate, body, concurrency); HEAD as GET;
    # compression; response cache; turns. Turns are innermost: a cached answer does no work and need not wait.
    app.add_middleware(TurnsMiddleware, turns=app.state.turns)
    app.add_middleware(ResponseCacheMiddleware)
    # Outside the cache, whose entries serve clients with and without gzip.
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(AdmissionMiddleware, settings=settings, ring=ring)
    # Outside admission: a page can read a rejection only with these headers.
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=_READ_HEADERS,
            expose_headers=("ETag", "Location", "Retry-After", "X-Request-ID"),
        )
    # Around everything that can reject or fail: each request has an id, a log line and a count.
    app.add_middleware(RequestContextMiddleware)
    if settings.path_prefix or settings.trusted_proxies:
        app.add_middleware(PathPrefixMiddleware, settings=settings)
