"""Waiting for other threads and processes, for minutes at most: a busy machine is not a failure."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PAUSE = 0.03  # between two checks [s]: more frequent ones use more processor time than the work itself


def until(look: Callable[..., Any], seconds: float = 300) -> Any:
    """Call a function until its result is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"it did not come about: {found}"
        time.sleep(PAUSE)
    return found


async def until_in_loop(look: Callable[..., Any], seconds: float = 300) -> Any:
    """The same in an event loop, without blocking it."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"it did not come about: {found}"
        await asyncio.sleep(PAUSE)
    return found


def together(*works: Callable[[], object]) -> None:
    """Call functions concurrently in threads; fail if one fails."""
    barrier = threading.Barrier(len(works))

    def begun(work: Callable[[], object]) -> None:
        barrier.wait()
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(begun, work) for work in works]:
            done.result(300)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function, run in a new event loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run
