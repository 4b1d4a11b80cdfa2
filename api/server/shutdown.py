"""Shutdown notice: requests that wait for a solve, and event streams, end before the server does.

A server that stops waits for its open requests first and tells the application last. Requests that wait for a solve or
follow a job would delay it to its deadline. So the application watches for the signal itself, whatever server runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

KILL_SECONDS = 10.0
"""Time after the deadline for open requests at which a process that is still there ends itself [s]."""


class Shutdown:
    """Notice that the server was told to stop. Created within the event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def requested(self) -> bool:
        """Whether the notice was given."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return when the notice is given."""
        await self._event.wait()

    def request(self) -> None:
        """Give the notice; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._event.set)


@contextlib.contextmanager
def watch_signals(shutdown: Shutdown, seconds: float) -> Iterator[None]:
    """Make SIGTERM and SIGINT give the notice, and then do what they did before.

    Open requests may take ``seconds`` more; `KILL_SECONDS` later the process is ended, hung or not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for us: a server in a thread, as in tests
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        shutdown.request()
        _exit_after(seconds + KILL_SECONDS)
        previous_handler = previous[signal.Signals(number)]
        if callable(previous_handler):
            previous_handler(number, frame)

    numbers = [number for number, handler in previous.items() if callable(handler)]
    for number in numbers:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            if signal.getsignal(number) is on_signal:
                signal.signal(number, previous[number])


def _exit_after(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, [1])
    timer.daemon = True  # which is why it ends nothing that ends by itself
    timer.start()
