"""Open connections of a worker: their number, addresses and bytes, and which of them makes room for others.

When a limit is exceeded, the address that uses the most gives up a connection, so an attacker evicts its own
connections. Only connections that wait for their client are evicted: a request being answered is bounded by other
limits.

Before bodies are evicted, their senders are held: nothing more is read from them until others finish. An evicted
client returns and sends everything again, which costs processor time; a held one costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, Protocol

from api.access.clients import is_trusted
from api.errors.problem_details import Rejection, retry_after

SAMPLED_CONNECTIONS = 64  # connections of an address among which the one to evict is chosen, to bound the time
SMALL_REQUEST = 2**14  # request size that is always admitted, in addition to the budget


HOLD_SHARE = 0.75  # share of the budget of received bytes beyond which the heaviest addresses are held


class ConnectionLimits(NamedTuple):
    """Limits of one connection, and of all connections of a worker."""

    connections: int  # open connections
    per_address: int  # open connections of one address
    exempt: tuple[str, ...]  # networks of trusted proxies, which serve many clients
    head_bytes: int  # request line and headers, or framing of a body [bytes]
    head_seconds: float  # time for a head to arrive [s]
    body_seconds: float  # time for a body to arrive, or for a client to read [s]
    received_bytes: int  # unanswered requests of all connections [bytes]
    unread_bytes: int  # unread responses of all connections [bytes]


class Connection(Protocol):
    """Connection, as needed for accounting."""

    address: str
    was_used: bool  # whether it has received a request
    received: int  # of the unanswered request [bytes]
    unread: int  # of unread responses [bytes]

    def evict(self) -> None:
        """Close it to make room, and remove it."""

    def hold(self, *, held: bool) -> None:
        """Pause or resume reading from it."""


class AddressConnections:
    """Connections of one address: all, and those that wait for their client, longest first."""

    def __init__(self) -> None:
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, None] = {}
        self.large = 0  # bytes of its unanswered large requests

    def make_room(self) -> bool:
        """Evict a waiting connection, preferably an unused one; return whether there was one."""
        first = next(iter(self.waiting), None)
        unused = (each for each in islice(self.waiting, SAMPLED_CONNECTIONS) if not each.was_used)
        victim = next(unused, first)
        if victim is not None:
            victim.evict()
        return victim is not None


class OpenConnections:
    """Open connections of a worker, within limits on their number and bytes."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.count = self.received = self.unread = 0
        self._by_address: dict[str, AddressConnections] = {}
        self._held: dict[Connection, None] = {}

    def add(self, connection: Connection, origin: str | None) -> Rejection | None:
        """Count a new connection, which waits for its client; or return a rejection.

        The limit of its address is checked first, then the total.
        """
        siblings = self._by_address.get(connection.address) or AddressConnections()
        rejection, limits = None, self.limits
        if (
            len(siblings.open) >= limits.per_address
            and not is_trusted(origin, limits.exempt)
            and not siblings.make_room()
        ):
            detail = f"One address can have {limits.per_address} open connections; this address has reached the limit."
            rejection = Rejection("too-many-requests", detail, (retry_after(1),), closing=True)
        elif self.count >= limits.connections:
            waiting_most = max(self._by_address.values(), key=lambda connections: len(connections.waiting))
            rejection = None if waiting_most.make_room() else TOO_MANY
        if rejection is None:
            self._by_address[connection.address] = siblings  # it may have lost its last connection
            siblings.open.add(connection)
            self.count += 1
            self.set_waiting(connection, waiting=True)
        return rejection

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is counted."""
        siblings = self._by_address.get(connection.address)
        if siblings is None or connection not in siblings.open:
            return
        self._held.pop(connection, None)
        self.receive(connection, -connection.received)
        self.set_unread(connection, 0)
        siblings.open.discard(connection)
        siblings.waiting.pop(connection, None)
        self.count -= 1
        if not siblings.open:
            del self._by_address[connection.address]  # bounds memory

    def set_waiting(self, connection: Connection, *, waiting: bool) -> None:
        """Set whether a connection waits for its client."""
        siblings = self._by_address.get(connection.address)
        if siblings is None or connection not in siblings.open:
            return
        if waiting:
            siblings.waiting[connection] = None
        else:
            siblings.waiting.pop(connection, None)

    def receive(self, connection: Connection, length: int) -> None:
        """Count bytes of a request in or out; near the budget hold heavy senders, beyond it evict the heaviest."""
        before = _large(connection)
        connection.received += length
        self.received += length
        after = _large(connection)
        siblings = self._by_address.get(connection.address) if before or after else None
        if siblings is not None and connection in siblings.open:
            siblings.large += after - before
            # Hold the largest senders first; evict only beyond the budget.
            if self.received > HOLD_SHARE * self.limits.received_bytes and self._should_wait(connection, siblings):
                self._held[connection] = None
                connection.hold(held=True)
        if self._held and self.received <= HOLD_SHARE * self.limits.received_bytes:
            self._release()
        while self.received > self.limits.received_bytes and self._evict_heaviest(_large):
            pass

    def _should_wait(self, connection: Connection, siblings: AddressConnections) -> bool:
        """Whether a large request, of a heavy address, is not the largest of its address."""
        # The largest continues, so that some request finishes.
        most = max(each.large for each in self._by_address.values())
        return 2 * siblings.large > most and 0 < _large(connection) < max(map(_large, siblings.open))

    def _release(self) -> None:
        """Resume reading from all held connections; heavy ones will be held again."""
        held, self._held = self._held, {}
        for connection in held:
            connection.hold(held=False)

    def set_unread(self, connection: Connection, length: int) -> None:
        """Set the unread bytes of a client; beyond the budget, evict the heaviest."""
        self.unread += length - connection.unread
        connection.unread = length
        if length:
            self.set_waiting(connection, waiting=True)
        while self.unread > self.limits.unread_bytes and self._evict_heaviest(lambda each: each.unread):
            pass

    def _evict_heaviest(self, weigh: Callable[[Connection], int]) -> bool:
        """Evict the heaviest waiting connection of the heaviest address; return whether there is one."""
        waiting = [connections.waiting for connections in self._by_address.values() if connections.waiting]
        heaviest = max(waiting, key=lambda connections: sum(map(weigh, connections)), default={})
        victim = max(heaviest, key=weigh, default=None)
        if victim is None or not weigh(victim):
            return False
        victim.evict()
        return True


TOO_MANY = Rejection(
    "busy", "The server has reached its limit of connections or request bytes.", (retry_after(1),), closing=True
)
"""Response to a connection without room, or evicted while its request arrives."""


def _large(connection: Connection) -> int:
    """Return the bytes of a connection's request; 0 if it is small."""
    return connection.received if connection.received > SMALL_REQUEST else 0
