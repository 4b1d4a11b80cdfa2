"""Shares of clients: rate limits, quotas of concurrent work, and fair queues.

A token bucket is stored as one number, the time at which it would be full again (the "theoretical arrival time" of
the generic cell rate algorithm, ITU-T I.371): taking n tokens from a bucket that fills at r per second moves that
time by n / r, and is rejected if it would lie more than burst / r ahead. A bucket is eight bytes, which processors
write atomically, so workers share a table in a file without locks. Two tokens taken in the same microsecond may count
as one, which a rate limit can afford.

The slot of a client is a keyed hash of its name, so the table does not grow with the number of addresses. Clients
that collide (one in 65,536 for each other active one) share a bucket; because the key is random, nobody can choose
with whom to collide.
"""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from api.access.clients import Client
from api.errors.problem_details import Overloaded, TooManyJobs

BUCKETS = 2**16  # half a megabyte
KEY_BYTES = 16  # length of the hash key at the start of the table

_TABLE_NAME = "rates"


QUOTA_RETRY_SECONDS = 5.0  # Retry-After for a client whose quota is used up


class RateLimiter:
    """Token buckets of all clients."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if path is None:
            table = mmap.mmap(-1, KEY_BYTES + 8 * BUCKETS)
            table[:KEY_BYTES] = secrets.token_bytes(KEY_BYTES)
        else:
            with path.open("r+b") as file:
                table = mmap.mmap(file.fileno(), KEY_BYTES + 8 * BUCKETS)
        self._key = bytes(table[:KEY_BYTES])
        self._full = memoryview(table)[KEY_BYTES:].cast("d")
        self._clock = clock

    def take(self, client: str, rate: float, burst: float) -> float:
        """Take a token from a bucket that fills at ``rate`` [1/s]; return 0, or the time until one is available [s].

        A rate of 0 is no limit.

        >>> limiter = RateLimiter(clock=lambda: 100.0)
        >>> [limiter.take("me", rate=2, burst=2) for _ in range(3)]
        [0.0, 0.0, 0.5]
        """
        if rate <= 0:
            return 0.0
        slot = self._place(client)
        now = self._clock()
        full_at = max(self._full[slot], now) + 1 / rate
        delay = full_at - now - burst / rate
        if delay > 1e-9:  # rounding of the clock
            return delay
        self._full[slot] = full_at
        return 0.0

    def _place(self, client: str) -> int:
        digest = hashlib.blake2b(client.encode("utf-8", "surrogateescape"), digest_size=4, key=self._key).digest()
        return int.from_bytes(digest, "little") % BUCKETS


def create_shared_table(folder: Path) -> None:
    """Create the table that workers share, in their run folder."""
    (folder / _TABLE_NAME).write_bytes(secrets.token_bytes(KEY_BYTES) + bytes(8 * BUCKETS))


def shared_table(folder: Path | None) -> Path | None:
    """Return the table in a folder, if it exists."""
    path = None if folder is None else folder / _TABLE_NAME
    return path if path is not None and path.exists() else None


class ClientQuota:
    """Quota of concurrent computations: a total, of which one client can have half.

    Curves, certificates and accounts occupy a process for seconds while their client waits, and cannot be queued on
    disk. Without a limit, a flood from one client would delay everyone for hours.
    """

    def __init__(self, size: int, noun: str = "computations") -> None:
        self._size, self._noun = size, noun
        self._counts: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Number of running and waiting computations."""
        return self._counts.total()

    @contextmanager
    def reserve(self, client: Client | None) -> Iterator[None]:
        """Reserve a place during the block; None, the server itself, is not counted."""
        if client is None:
            yield
            return
        if self.count >= self._size:
            raise Overloaded(f"The server has reached its maximum of {self._size} {self._noun}.")
        name, share = client.name, max(1, self._size // 2)
        if self._counts[name] >= share:
            raise TooManyJobs(
                f"One client can have {share} {self._noun} at once; this client has reached the limit.",
                QUOTA_RETRY_SECONDS,
            )
        self._counts[name] += 1
        try:
            yield
        finally:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]  # bounds memory


class FairQueue:
    """Queue for a few slots, in which clients take turns. For use within one event loop.

    However much one client has waiting, another client's next request waits for one turn of each client before it.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Hold a slot during the block, once it is the client's turn."""
        await self.acquire(client)
        try:
            yield
        finally:
            self.release()

    async def acquire(self, client: str) -> None:
        """Take a slot, once it is the client's turn; `release` returns it."""
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
            else:  # cancelled after its turn came
                self.release()
            raise

    async def begin(self, client: str) -> None:
        """Wait for the client's turn; the slot is released in the next iteration of the event loop."""
        await self.acquire(client)
        asyncio.get_running_loop().call_soon(self.release)

    def release(self) -> None:
        """Return a slot, and give it to the next waiter that is not cancelled."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            while turns:
                turn = turns.popleft()
                if not turn.done():
                    turn.set_result(None)
                    if turns:
                        self._waiting[client] = turns  # to the end
                    return
        self._free += 1

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[client]
