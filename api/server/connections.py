"""Open connections of a worker: how many, whose, with how many bytes; and which of them makes room for others.

One rule: what there is too much of is taken from the address that has the most of it. An attacker so evicts its own
connections, from however many addresses and however fast it comes back. Only connections that wait for their client are
evicted: one whose request is being answered is the server's own work, which has limits of its own.

Before bodies are evicted their senders are held: nothing more is read from them until others are done. Who is evicted
comes back and sends everything again, and reading that for ever takes a processor; who is held takes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, Protocol

from api.access.clients import is_trusted
from api.errors.problem_details import Rejection, retry_after

SAMPLED_CONNECTIONS = 64
"""Connections of an address among which the one to evict is chosen: a look at thousands for each new one takes long."""

SMALL_REQUEST = 2**14
"""Request that is not refused for want of room [bytes]; as many of them as connections fit beside the budget."""


HOLD_SHARE = 0.75
"""Share of the budget of received bytes beyond which the addresses with the most are held."""


class ConnectionLimits(NamedTuple):
    """Limits of one connection, and of all connections of a worker."""

    connections: int  # open at once
    per_address: int  # of them, those of one address
    exempt: tuple[str, ...]  # networks of trusted proxies, whose connections are many clients'
    head_bytes: int  # request line and headers, or what stands around a body [bytes]
    head_seconds: float  # for a head to arrive [s]
    body_seconds: float  # for a body to arrive, or for a client to read on [s]
    received_bytes: int  # requests of all connections that are not answered yet [bytes]
    unread_bytes: int  # answers of all connections that their clients do not read [bytes]


class Connection(Protocol):
    """A connection, as far as room is concerned."""

    address: str  # whose it is
    was_used: bool  # whether it has had a request
    received: int  # bytes of the request that is not answered yet
    unread: int  # bytes of answers that its client does not read

    def evict(self) -> None:
        """Close it, for others' sake, and remove it."""

    def hold(self, *, held: bool) -> None:
        """Read no more from it, or read on."""


class AddressConnections:
    """Connections of one address: all that are open, and those that wait for their client, the longest first."""

    def __init__(self) -> None:
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, None] = {}
        self.large = 0  # bytes of its requests that are not answered yet, without those of small requests

    def make_room(self) -> bool:
        """Evict a connection that waits, an unused one first; return whether there was one."""
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
        """Count a connection in, one that waits for its client; or return why there is no room.

        First those of its address are counted, so that no address gets beyond its own limit; then all.
        """
        siblings = self._by_address.get(connection.address) or AddressConnections()
        rejection, limits = None, self.limits
        if (
            len(siblings.open) >= limits.per_address
            and not is_trusted(origin, limits.exempt)
            and not siblings.make_room()
        ):
            detail = f"One address may have {limits.per_address} connections open, and this one has."
            rejection = Rejection("too-many-requests", detail, (retry_after(1),), closing=True)
        elif self.count >= limits.connections:
            waiting_most = max(self._by_address.values(), key=lambda connections: len(connections.waiting))
            rejection = None if waiting_most.make_room() else TOO_MANY
        if rejection is None:
            self._by_address[connection.address] = siblings  # which lost its last connection just now, perhaps
            siblings.open.add(connection)
            self.count += 1
            self.set_waiting(connection, waiting=True)
        return rejection

    def remove(self, connection: Connection) -> None:
        """Count a connection out, if it is in."""
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
            del self._by_address[connection.address]  # addresses come and go for years

    def set_waiting(self, connection: Connection, *, waiting: bool) -> None:
        """Say whether a connection waits for its client."""
        siblings = self._by_address.get(connection.address)
        if siblings is None or connection not in siblings.open:
            return
        if waiting:
            siblings.waiting[connection] = None
        else:
            siblings.waiting.pop(connection, None)

    def receive(self, connection: Connection, length: int) -> None:
        """Count bytes of a request in, or out; near the budget, hold who has much, and beyond it evict the heaviest."""
        before = _large(connection)
        connection.received += length
        self.received += length
        after = _large(connection)
        siblings = self._by_address.get(connection.address) if before or after else None
        if siblings is not None and connection in siblings.open:
            siblings.large += after - before
            # First they are held, largest senders first, and read no more; only beyond the budget is somebody cut off.
            if self.received > HOLD_SHARE * self.limits.received_bytes and self._should_wait(connection, siblings):
                self._held[connection] = None
                connection.hold(held=True)
        if self._held and self.received <= HOLD_SHARE * self.limits.received_bytes:
            self._release()
        while self.received > self.limits.received_bytes and self._evict_heaviest(_large):
            pass

    def _should_wait(self, connection: Connection, siblings: AddressConnections) -> bool:
        """Tell whether a large request of an address with much, compared with all, is not the largest of its own."""
        # The largest goes on, or nobody would ever be done.
        most = max(each.large for each in self._by_address.values())
        return 2 * siblings.large > most and 0 < _large(connection) < max(map(_large, siblings.open))

    def _release(self) -> None:
        """Read on from all that are held: the first to send much are held again."""
        held, self._held = self._held, {}
        for connection in held:
            connection.hold(held=False)

    def set_unread(self, connection: Connection, length: int) -> None:
        """Set how many bytes a client does not read; beyond the budget, evict whoever has the most."""
        self.unread += length - connection.unread
        connection.unread = length
        if length:
            self.set_waiting(connection, waiting=True)
        while self.unread > self.limits.unread_bytes and self._evict_heaviest(lambda each: each.unread):
            pass

    def _evict_heaviest(self, weigh: Callable[[Connection], int]) -> bool:
        """Evict the heaviest connection that waits, of the address where they weigh most; return if there is one."""
        waiting = [connections.waiting for connections in self._by_address.values() if connections.waiting]
        heaviest = max(waiting, key=lambda connections: sum(map(weigh, connections)), default={})
        victim = max(heaviest, key=weigh, default=None)
        if victim is None or not weigh(victim):
            return False
        victim.evict()
        return True


TOO_MANY = Rejection(
    "busy", "The server has as many connections and requests as it can hold.", (retry_after(1),), closing=True
)
"""Answer to a connection that has no room, or has to make room while its request arrives."""


def _large(connection: Connection) -> int:
    """Return the bytes of its request, none if that is small."""
    return connection.received if connection.received > SMALL_REQUEST else 0
