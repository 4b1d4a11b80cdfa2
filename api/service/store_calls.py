"""Calls to the store, which block: made in threads, each with a deadline, and refused while the store hangs.

A PostgreSQL whose kernel still answers, and a SQLite file that another process has locked, keep a call waiting for as
long as they like. So a call that takes `STORE_SECONDS` is given up with a `CacheError`. The store is then asked until
it answers; while that takes longer than a moment it hangs, and every other call fails at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from solver_cache.errors import ELSEWHERE, CacheError
from solver_cache.store import Store

_LOG = logging.getLogger("api")

Result = TypeVar("Result")

STORE_THREADS = 4
"""Blocking calls at once."""

STORE_SECONDS = 10.0
"""Longest call, with the time in which it waits for a thread [s]."""

ANSWER_SECONDS = 1.0
"""Time in which a store that does not hang answers a question, and between two questions to one that does [s]."""


class StoreCalls:
    """Threads for calls to the store.

    Args:
        name: of the threads.
        store: which is called.
        question: a call that succeeds if others of this kind do.
    """

    def __init__(self, name: str, store: Store, question: Callable[[], Any]) -> None:
        self._threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix=name)
        self._asking = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-asking")
        self._store, self._question = store, question
        self._hangs = False
        self._watch: asyncio.Task[None] | None = None

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Return ``work(*arguments)``, done in a thread.

        A call that is given up may still take effect later.

        Raises:
            CacheError: it took `STORE_SECONDS`, or the store is known to hang.
            Exception: whatever the work raises.
        """
        if self._hangs:
            raise self._error()
        call = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        try:
            done, _ = await asyncio.wait({call}, timeout=STORE_SECONDS)
        finally:
            call.cancel()  # nobody waits for it; it does not begin if it still waits for a thread
        if not done:
            if self._watch is None:
                self._watch = asyncio.create_task(self._ask_until_answered())
            raise self._error()
        return call.result()

    async def close(self) -> None:
        """End the threads, once their calls have ended; those that hang are cut off."""
        if self._watch is not None:
            self._watch.cancel()
            self._store.interrupt()
        for threads in (self._threads, self._asking):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)

    async def _ask_until_answered(self) -> None:
        """Ask the store until it answers, or fails by itself; if that takes longer than a moment, it hangs."""
        try:
            while True:
                asked = asyncio.get_running_loop().run_in_executor(self._asking, self._question)
                done, _ = await asyncio.wait({asked}, timeout=ANSWER_SECONDS)
                if not done:
                    if not self._hangs:
                        _LOG.error("%s", self._error())
                    self._hangs = True
                    self._store.interrupt()
                    await asyncio.wait({asked})
                elif not (self._hangs and asked.exception()):
                    return
                asked.exception()
                await asyncio.sleep(ANSWER_SECONDS)
        finally:
            if self._hangs:
                _LOG.warning("the cache at %s answers again", self._store.url)
            self._hangs, self._watch = False, None

    def _error(self) -> CacheError:
        return CacheError(self._store.url, f"it has not answered for {STORE_SECONDS:g} s", ELSEWHERE)
