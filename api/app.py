"""Application: the HTTP API with its lifespan, routes, error handlers and middleware.

It designs noise and never sees a vote. Routes parse, call and render. What they call is the `DesignService` that the
lifespan opens.
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
K voters each give a 0/1 answer, each (ε, Δ)-differentially private. Ask for the noise function γ with which their
majority can be released privately at the smallest loss: with l ones, keep the majority with probability γ(l), else
toss a fair coin. Every γ comes with a certificate. Votes are never sent here: the release is made where the votes are.

Numbers carry their unit in brackets: [voters], [nats], [probability], [s]. Infinity is the text "inf". Errors are
problem details (RFC 9457), media type `application/problem+json`, and name the field at fault.
"""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the application; nothing is opened before it starts. Without ``settings``, those of the environment."""
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
                    lambda: service.resources.pools,
                    lambda: {str(found): times for found, times in service.store.hits.counts.items()},
                    lambda: service.open_streams,
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
        openapi_url=None,  # encoded anew for each request there; `api.routes.documents` has its own
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to an address made of the client's Host header, and in plain text behind a proxy
        generate_unique_id_function=lambda route: route.name,
        # Its own spans and log records carry queries and what was wrong with them; `traces` does not.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.settings, app.state.turns = config, FairQueue(STARTS)
    app.state.response_cache = ResponseCache()
    app.state.access_log = None  # until it is opened
    app.state.connections = None  # unless the server counts them
    app.state.openapi = None  # until it is asked for
    app.state.routes = tuple(route for router in ROUTERS for route in router.routes)
    for router in ROUTERS:
        app.include_router(router)
    add_exception_handlers(app)
    _add_middleware(app, config, ring)
    app.openapi = lambda: openapi_schema(app)  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    return app


def _build(app: FastAPI) -> None:
    """Build what FastAPI builds when a request is first matched: the routes."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []})


@contextmanager
def watch_signals(shutdown: asyncio.Event, seconds: float) -> Iterator[None]:
    """Make SIGTERM and SIGINT set the event, and then do what they did before.

    Open requests may take ``seconds`` more; `KILL_SECONDS` later the process is ended, hung or not.
    """
    # A server that stops waits for its open requests first and tells the application last: requests that wait for a
    # solve, or follow a job, would delay it to its deadline.
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for us: a server in a thread, as in tests
        return
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    replaced = {number: handler for number, handler in handlers.items() if callable(handler)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(shutdown.set)
        timer = threading.Timer(seconds + KILL_SECONDS, os._exit, [1])
        timer.daemon = True  # which is why it ends nothing that ends by itself
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
    """Put the middleware around the routes; the last one added is the outermost."""
    # From the outermost: path prefix, if one is set or a proxy may say it; request context (id, headers, log line,
    # metrics, last word on bugs); CORS, if origins are set; admission (host name, key, rate, body, concurrency); HEAD
    # as GET; compression; response cache; turns.
    # Innermost: an answer from the cache does no work, and waits for nobody's turn.
    app.add_middleware(TurnsMiddleware, turns=app.state.turns)
    app.add_middleware(ResponseCacheMiddleware)
    # Outside of the cache, whose entries serve clients that take gzip and clients that do not.
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(AdmissionMiddleware, settings=settings, ring=ring)
    # Outside of admission: a page may read why it was refused only if the refusal has these headers too.
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
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
    # Around all that can refuse or fail: each request has an id, a log line and a count.
    app.add_middleware(RequestContextMiddleware)
    if settings.path_prefix or settings.trusted_proxies:
        app.add_middleware(PathPrefixMiddleware, settings=settings)
