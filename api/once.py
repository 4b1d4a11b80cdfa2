"""One piece of work for all who ask for it while it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class Once:
    """What is being done now, by name. Made and used within one event loop."""

    def __init__(self) -> None:
        self._asking: dict[str, asyncio.Task[Any]] = {}

    async def do(self, name: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what ``work`` returns, begun once for all who ask under one name while it goes on.

        It goes on also when whoever asked first is gone.
        """
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.ensure_future(work())
            task.add_done_callback(lambda done: (self._asking.pop(name), done.cancelled() or done.exception()))
        result: Result = await asyncio.shield(task)
        return result
