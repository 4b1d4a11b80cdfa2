"""Places for work that cannot be put into a queue on disk: so many in all, and half of them for one client at most.

Curves, certificates and accounts take a solver process each, for seconds, while their client waits. Without a bound one
client's flood of them would stand before everyone else's for hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from api.access import Client
from api.refusals import Busy, TooManyJobs

LATER = 5.0
"""When one who has too much under way should come back [s]."""


class Shares:
    """The places.

    Args:
        most: in all.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    @contextmanager
    def one(self, client: Client | None) -> Iterator[None]:
        """Have a place within the block; what the server does for itself (None) always has one.

        Raises:
            TooManyJobs: the client has half of all places.
            Busy: there is none.
        """
        if client is None:
            yield
            return
        if self._taken.total() >= self._most:
            raise Busy(f"{self._most} requests wait for a solver process already, and more than that are not taken.")
        name, share = client.name, max(1, self._most // 2)
        if self._taken[name] >= share:
            raise TooManyJobs(f"{share} requests of one client may wait for a solver process, and so many do.", LATER)
        self._taken[name] += 1
        try:
            yield
        finally:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]  # clients come and go for years
