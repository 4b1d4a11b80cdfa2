"""Fair queue: turns at a few places, shared by client: each in turn gives one of its waiters a place.

However much one client has waiting, another's next piece of work waits for one turn of each client before it, not for
all that came earlier.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairQueue:
    """Places that clients take turns at. For use within one event loop.

    Args:
        size: how many at once.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Hold a place within the block, once it is the client's turn."""
        await self.acquire(client)
        try:
            yield
        finally:
            self.release()

    async def acquire(self, client: str) -> None:
        """Take a place, once it is the client's turn; it is given back by `release`."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled() or not turn.done():
                self._forget(client, turn)
            else:  # its turn came in the very moment in which it was cancelled
                self.release()
            raise

    async def begin(self, client: str) -> None:
        """Wait for the client's turn to begin; the place is free again in the next round of the event loop."""
        await self.acquire(client)
        asyncio.get_running_loop().call_soon(self.release)

    def release(self) -> None:
        """Give a place back, to the first who waits; some gave up just now, and have not run since."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            while turns:
                turn = turns.popleft()
                if not turn.done():
                    turn.set_result(None)
                    if turns:
                        self._waiting[client] = turns  # behind the others
                    return
        self._free += 1

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[client]
