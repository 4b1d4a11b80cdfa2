"""Shares of clients: rate limits, quotas of concurrent work, and turns at a few places.

The token bucket of a rate limit is kept as one number, the moment at which it would be full again (the "theoretical
arrival time" of the generic cell rate algorithm, ITU-T I.371): taking n tokens of a bucket that fills at r a second
moves that moment by n / r, and is refused where it would lie more than burst / r ahead. So a bucket is eight bytes,
written at once by every processor that Python runs on: workers share a table through a file without a lock. Two that
take a token in the very same microsecond may count only one of them, which a rate limit can afford.

A client's place in the table is a keyed hash of its name. However many addresses a flood comes from, the table does
not grow; clients that fall together (one in 65,536 for each other one that is active) share a bucket, and as the key of
the hash is random, nobody can choose whom to fall together with.
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

BUCKETS = 2**16
"""Buckets in the table: half a megabyte."""

KEY_BYTES = 16
"""Length of the key of the hash, which is the beginning of the table."""

_TABLE_NAME = "rates"


QUOTA_RETRY_SECONDS = 5.0
"""When a client whose quota is used up should ask again [s]."""


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
        """Take a token from a bucket that fills at `rate` [1/s]; return 0, or after how long it can be taken [s].

        >>> limiter = RateLimiter(clock=lambda: 100.0)
        >>> [limiter.take("me", rate=2, burst=2) for _ in range(3)]
        [0.0, 0.0, 0.5]
        """
        slot = self._place(client)
        now = self._clock()
        full_at = max(self._full[slot], now) + 1 / rate
        delay = full_at - now - burst / rate
        if delay > 1e-9:  # rounding of the clock's seconds: a millionth of a token at most
            return delay
        self._full[slot] = full_at
        return 0.0

    def _place(self, client: str) -> int:
        digest = hashlib.blake2b(client.encode("utf-8", "surrogateescape"), digest_size=4, key=self._key).digest()
        return int.from_bytes(digest, "little") % BUCKETS


def create_shared_table(folder: Path) -> None:
    """Create the table that workers share, in their shared folder."""
    (folder / _TABLE_NAME).write_bytes(secrets.token_bytes(KEY_BYTES) + bytes(8 * BUCKETS))


def shared_table(folder: Path | None) -> Path | None:
    """Return the table in a folder, if there is one."""
    path = None if folder is None else folder / _TABLE_NAME
    return path if path is not None and path.exists() else None


class ClientQuota:
    """Per-client quota of concurrent computations: so many in all, and at most half of them for one client.

    Curves, certificates and accounts take a process each, for seconds, while their client waits; they cannot be queued
    on disk. Without a bound, one client's flood of them would delay everyone else's for hours.
    """

    def __init__(self, size: int, noun: str = "computations") -> None:
        self._size, self._noun = size, noun
        self._counts: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many are running or waiting."""
        return self._counts.total()

    @contextmanager
    def reserve(self, client: Client | None) -> Iterator[None]:
        """Hold a place within the block; what the server computes for itself (None) is not counted."""
        if client is None:
            yield
            return
        if self.count >= self._size:
            raise Overloaded(f"{self._size} {self._noun} are running or waiting, the maximum of this server.")
        name, share = client.name, max(1, self._size // 2)
        if self._counts[name] >= share:
            raise TooManyJobs(
                f"One client may have {share} {self._noun} running or waiting, and this one has.", QUOTA_RETRY_SECONDS
            )
        self._counts[name] += 1
        try:
            yield
        finally:
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]  # clients come and go for years


class FairQueue:
    """Places that clients take turns at: each in turn gives one of its waiters a place. For use within one event loop.

    However much one client has waiting, another's next piece of work waits for one turn of each client before it, not
    for all that came earlier.
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
