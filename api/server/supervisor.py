"""Supervisor: several worker processes at one socket; one that dies is replaced.

uvicorn's own supervisor waits for hung workers without a deadline, and hears no signal while it waits for a sign of
life (`docs/dependencies.md`). This one waits for the end of a process or for a signal, whichever comes first.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from uvicorn.config import STARTUP_FAILURE

from api.server.shutdown import KILL_SECONDS
from api.server.worker import run_worker
from api.settings import Settings

_LOG = logging.getLogger("api.supervisor")

RESTART_SECONDS = 1.0
"""Shortest time between two starts of a worker in one slot [s], for a worker that dies at once."""


def supervise(settings: Settings, listening: socket.socket) -> bool:
    """Run the workers until SIGTERM or SIGINT; return whether they could be started."""
    slots = [_WorkerSlot(settings, listening) for _ in range(settings.workers)]
    with _signal_pipe() as pipe:
        try:
            for slot in slots:
                slot.start()
            while pipe not in wait([pipe, *(slot.process.sentinel for slot in slots)]):
                for slot in slots:
                    code = slot.process.exitcode  # asked once: it may end between two questions
                    if code == STARTUP_FAILURE:
                        _LOG.error("a worker could not start; stopping")
                        return False
                    if code is not None:
                        _LOG.warning("worker %s ended (%s) and is replaced", slot.process.pid, code)
                        slot.start()
            return True
        finally:
            _stop_workers([slot.process for slot in slots if slot.has_started], settings.stop_seconds + KILL_SECONDS)


class _WorkerSlot:
    """One worker slot and its present process."""

    process: SpawnProcess

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._arguments = (settings, listening)
        self._start_time = float("-inf")

    @property
    def has_started(self) -> bool:
        """Whether a worker was started in it."""
        return self._start_time > float("-inf")

    def start(self) -> None:
        """Start a worker, after a pause if the last one was started just now."""
        time.sleep(max(0.0, self._start_time + RESTART_SECONDS - time.monotonic()))
        self.process = multiprocessing.get_context("spawn").Process(target=run_worker, args=self._arguments)
        with _safe_path():
            self.process.start()
        self._start_time = time.monotonic()


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Let a process that starts here look for its first imports, such as socket, outside the current folder."""
    previous = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if previous is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = previous


def _stop_workers(processes: list[SpawnProcess], seconds: float) -> None:
    """Stop the workers gracefully; those still alive at the deadline are killed."""
    deadline = time.monotonic() + seconds
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.exitcode is None:
            _LOG.warning("worker %s did not stop in time and is killed", process.pid)
            process.kill()
            process.join()


@contextlib.contextmanager
def _signal_pipe() -> Iterator[int]:
    """Yield a descriptor that can be read once SIGTERM or SIGINT has come."""
    reader, writer = os.pipe()
    # A handler must never wait: a full pipe already says that there was a signal.
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
