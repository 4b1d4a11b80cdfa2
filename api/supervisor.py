"""Several workers at one socket: started, replaced when one dies, and stopped in order.

uvicorn has a supervisor too. It asks each worker for a sign of life and kills one that is silent for some seconds, which
is what a worker that has just been started on a busy machine is; and while it asks it hears no signal. This one waits
for what happens: the end of a process, or a signal.
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

from api.settings import Settings
from api.stopping import HARD
from api.worker import work

_LOG = logging.getLogger("api.supervisor")

PAUSE = 1.0
"""Least time between two starts of a worker in one place [s]: one that dies at once is not started in a frenzy."""


def supervise(settings: Settings, listening: socket.socket) -> bool:
    """Run the workers until SIGTERM or SIGINT; return whether they could be started."""
    places = [_Place(settings, listening) for _ in range(settings.workers)]
    with _signals() as told:
        try:
            for place in places:
                place.start()
            while told not in wait([told, *(place.process.sentinel for place in places)]):
                for place in places:
                    code = place.process.exitcode  # asked once: it may end between two questions
                    if code == STARTUP_FAILURE:
                        _LOG.error("a worker could not start; stopping")
                        return False
                    if code is not None:
                        _LOG.warning("worker %s ended (%s) and is replaced", place.process.pid, code)
                        place.start()
            return True
        finally:
            _stop([place.process for place in places if place.begun], settings.stop_seconds + HARD)


class _Place:
    """One of the places for workers, and the worker that has it."""

    process: SpawnProcess

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._given = (settings, listening)
        self._began = float("-inf")

    @property
    def begun(self) -> bool:
        """Whether there has been a worker yet."""
        return self._began > float("-inf")

    def start(self) -> None:
        """Start a worker, a little later if the last one was started just now."""
        time.sleep(max(0.0, self._began + PAUSE - time.monotonic()))
        self.process = multiprocessing.get_context("spawn").Process(target=work, args=self._given)
        self.process.start()
        self._began = time.monotonic()


def _stop(processes: list[SpawnProcess], seconds: float) -> None:
    """Have the workers stop in order; those that are still there at the deadline are killed."""
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
def _signals() -> Iterator[int]:
    """Yield a descriptor that can be read once SIGTERM or SIGINT has come."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    before = {
        number: signal.signal(number, lambda *_: os.write(tell, b".")) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        os.close(tell)
