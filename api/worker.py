"""One process that answers requests: how uvicorn runs the application, alone or as one of several workers."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
import signal
import threading
from importlib.util import find_spec
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

import uvicorn

from api import logs
from api.settings import Settings
from api.wire import GuardedProtocol, Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOG = logging.getLogger("api.worker")


class WorkerConfig(uvicorn.Config):
    """uvicorn's configuration, with what `GuardedProtocol` reads; it is pickled on its way to a worker."""

    def __init__(self, settings: Settings, **more: Any) -> None:
        self.settings = settings
        self.limits = Limits(settings.connections, settings.head_bytes, settings.head_seconds, settings.body_seconds)
        super().__init__(functools.partial(application, settings), factory=True, log_config=None, **more)

    def configure_logging(self) -> None:
        """Give this process's log its form; uvicorn calls it in each process."""
        logs.configure(self.settings)


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
        workers=settings.workers,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=settings.stop_seconds,
    )


def application(settings: Settings) -> FastAPI:
    """Return the application of a worker, which stops in order when the process that started it is gone."""
    from api.app import create_app

    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    return create_app(settings)


def _follow(sentinel: int) -> None:
    wait([sentinel])
    _LOG.warning("the process that started this worker is gone; stopping")
    os.kill(os.getpid(), signal.SIGTERM)
