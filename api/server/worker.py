"""Workers: uvicorn with the application, in one or several processes at one socket; dead ones are replaced.

uvicorn's own supervisor waits for hung workers without a deadline, and ignores signals during health checks
(`docs/dependencies.md`). This one waits for the end of a process or for a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess, SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from api.observability import logs
from api.server.connections import ConnectionLimits, OpenConnections
from api.server.protocol import GuardedProtocol
from api.settings import KILL_SECONDS, Settings
from darrm_opt import __version__

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from fastapi import FastAPI

_LOG, _SUPERVISOR_LOG = logging.getLogger("api.worker"), logging.getLogger("api.supervisor")

SWITCH_SECONDS = 0.0005
"""Longest time for which a thread holds the interpreter while another waits.

With Python's default of 5 ms the event loop waits that long for each busy thread.
"""


class WorkerConfig(uvicorn.Config):
    """uvicorn's configuration for a worker, with the limits of `GuardedProtocol`."""

    def __init__(self, settings: Settings) -> None:
        limits = ConnectionLimits(
            connections=settings.max_connections,
            per_address=settings.max_connections_per_address or max(1, settings.max_connections // 2),
            exempt=settings.trusted_proxies,
            head_bytes=settings.max_head_bytes,
            head_seconds=settings.head_seconds,
            body_seconds=settings.body_seconds,
            received_bytes=max(settings.max_received_bytes, settings.max_head_bytes + settings.max_body_bytes),
            unread_bytes=settings.max_unread_bytes,
        )
        self.open = OpenConnections(limits)
        # Explicit uvloop: with several workers on asyncio's loop, accepted connections lack TCP_NODELAY, and each
        # response waits 40 ms for an acknowledgement.
        super().__init__(
            functools.partial(create_worker_app, settings, self.open),
            factory=True,
            loop="uvloop" if find_spec("uvloop") is not None else "asyncio",
            http=GuardedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_keep_alive=settings.idle_seconds,
            timeout_graceful_shutdown=settings.stop_seconds,
        )


def run_worker(settings: Settings, listening: socket.socket) -> None:
    """Serve at a socket until a signal: the main function of a worker, or of a server with only one."""
    logs.configure(settings)
    sys.setswitchinterval(SWITCH_SECONDS)
    parent = multiprocessing.parent_process()
    if parent is not None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the code after the shutdown would not run
        threading.Thread(target=_stop_with_parent, args=(parent, listening), daemon=True).start()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has shut down in order, and then passes the signal on
            uvicorn.Server(WorkerConfig(settings)).run(sockets=[listening])
    finally:
        if parent is not None and settings.run_folder is not None and not parent.is_alive():
            shutil.rmtree(settings.run_folder, ignore_errors=True)  # as the parent would have
        logs.drain()


def create_worker_app(settings: Settings, connections: OpenConnections) -> FastAPI:
    """Return the application of a worker, with its connections in the metrics.

    Raises SystemExit if it cannot be created, so that uvicorn does not restart a worker that cannot start.
    """
    loop = type(asyncio.get_running_loop()).__module__
    _LOG.info("worker starts", extra={"pid": os.getpid(), "loop": loop, "version": __version__})
    try:
        from api.app import create_app

        app = create_app(settings)
    except Exception:  # noqa: BLE001 — logged
        _LOG.exception("the application cannot be created")
        sys.exit(STARTUP_FAILURE)
    app.state.connections = connections
    return app


def _stop_with_parent(parent: BaseProcess, listening: socket.socket) -> None:
    """Stop gracefully when the parent process ends; the port is free at once."""
    wait([parent.sentinel])
    with contextlib.suppress(OSError):  # closed by another worker
        listening.shutdown(socket.SHUT_RD)
    _LOG.warning("the parent process has ended; stopping")
    os.kill(os.getpid(), signal.SIGTERM)


UNKNOWN_END = 255  # exit code of a worker whose fork server did not report its end
RESTART_SECONDS = 1.0  # minimum time between two starts of a worker in one slot


def supervise(settings: Settings, listening: socket.socket) -> bool:
    """Run the workers until SIGTERM or SIGINT; return whether they could be started."""
    slots = [_WorkerSlot(settings, listening) for _ in range(settings.workers)]
    with _signal_pipe() as pipe:
        try:
            for slot in slots:
                slot.start()
            while pipe not in wait([pipe, *(slot.process.sentinel for slot in slots)]):
                for slot in slots:
                    code = slot.process.exitcode  # read once: it may change
                    if code == STARTUP_FAILURE:
                        _SUPERVISOR_LOG.error("a worker could not start; stopping")
                        return False
                    if code is not None:
                        _SUPERVISOR_LOG.warning("worker %s ended (%s); replacing it", slot.process.pid, code)
                        slot.start()
            return True
        finally:
            _stop_workers([slot.process for slot in slots if slot.has_started], settings.stop_seconds + KILL_SECONDS)


LONG_PATH = "AF_UNIX path too long"  # Python's error if TMPDIR is too long for the socket of the fork server


class _WorkerSlot:
    """Worker slot and its current process."""

    process: ForkServerProcess | SpawnProcess

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._arguments = (settings, listening)
        self._start_time = float("-inf")

    @property
    def has_started(self) -> bool:
        """Whether a worker was started in it."""
        return self._start_time > float("-inf")

    def start(self) -> None:
        """Start a worker, after a pause if the last one has just started."""
        time.sleep(max(0.0, self._start_time + RESTART_SECONDS - time.monotonic()))
        # Forked from a preloaded process without threads: it starts in milliseconds and shares memory. If that
        # process is killed, the end of its workers goes unnoticed, so they are stopped.
        if self.has_started and self.process.exitcode == UNKNOWN_END and self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGTERM)
        multiprocessing.set_forkserver_preload(["api.server.preload"])
        with _start_environment():
            try:
                self.process = ForkServerProcess(target=run_worker, args=self._arguments)
                self.process.start()
            except (OSError, EOFError) as err:
                was_killed = isinstance(err, ConnectionError | EOFError)  # the fork server
                if not (was_killed or str(err) == LONG_PATH):
                    raise
                self.process = SpawnProcess(target=run_worker, args=self._arguments)
                self.process.start()
        self._start_time = time.monotonic()


@contextlib.contextmanager
def _start_environment() -> Iterator[None]:
    """Set the environment of the fork server, which starts with the first worker.

    Its first imports, such as socket, must not come from the current folder, and OpenBLAS must have no threads. This
    package `api`, which an installation keeps out of site-packages, takes precedence over a project's own.
    """
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    wanted = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path), "OPENBLAS_NUM_THREADS": "1"}
    previous = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stop_workers(processes: list[ForkServerProcess | SpawnProcess], seconds: float) -> None:
    """Stop the workers gracefully; kill those still alive at the deadline."""
    deadline = time.monotonic() + seconds
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.exitcode is None:
            _SUPERVISOR_LOG.warning("worker %s did not stop in time; killing it", process.pid)
            process.kill()
            process.join()


@contextlib.contextmanager
def _signal_pipe() -> Iterator[int]:
    """Yield a descriptor that becomes readable on SIGTERM or SIGINT."""
    reader, writer = os.pipe()
    # A handler must never block; a full pipe already signals.
    os.set_blocking(writer, False)
    previous = {
        number: signal.signal(number, lambda *_: os.write(writer, b".")) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield reader
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
