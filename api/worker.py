"""One process that answers requests: how uvicorn runs the application, alone or as one of several workers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from importlib.util import find_spec
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from api import logs
from api.settings import Settings
from api.wire import GuardedProtocol, Limits
from darrm_opt import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOG = logging.getLogger("api.worker")


class WorkerConfig(uvicorn.Config):
    """uvicorn's configuration, with what `GuardedProtocol` reads."""

    def __init__(self, settings: Settings, **more: Any) -> None:
        self.limits = Limits(settings.connections, settings.head_bytes, settings.head_seconds, settings.body_seconds)
        super().__init__(functools.partial(application, settings), factory=True, log_config=None, **more)


def configuration(settings: Settings) -> WorkerConfig:
    """Return how to run the application.

    uvloop and httptools are named and not left to chance: with several workers on asyncio's own loop the connections
    that a worker accepts come without TCP_NODELAY, and each answer waits 40 ms for an acknowledgement.
    """
    return WorkerConfig(
        settings,
        loop="uvloop" if find_spec("uvloop") is not None else "asyncio",
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=settings.stop_seconds,
    )


def work(settings: Settings, listening: socket.socket) -> None:
    """Serve at a socket until a signal says otherwise: the whole life of a worker, or of a server that has none.

    Raises:
        SystemExit: the application did not start.
    """
    logs.configure(settings)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has shut down in order, and then passes the signal on
            uvicorn.Server(configuration(settings)).run(sockets=[listening])
    finally:
        logs.drain()


def application(settings: Settings) -> FastAPI:
    """Return the application of a worker, which stops in order when the process that started it is gone.

    Raises:
        SystemExit: it cannot be made. Said in uvicorn's way, so that a worker that cannot start is not started again.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    loop = type(asyncio.get_running_loop()).__module__
    _LOG.info("worker starts", extra={"pid": os.getpid(), "loop": loop, "version": __version__})
    try:
        from api.app import create_app

        return create_app(settings)
    except Exception:  # noqa: BLE001 — whatever it is, the log has it
        _LOG.exception("the application cannot be made")
        sys.exit(STARTUP_FAILURE)


def _follow(sentinel: int) -> None:
    wait([sentinel])
    _LOG.warning("the process that started this worker is gone; stopping")
    os.kill(os.getpid(), signal.SIGTERM)
