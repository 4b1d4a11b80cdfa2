"""Eviction of connections: idle ones of the address that uses most of the exhausted limit."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from api.server.connections import SMALL_REQUEST, ConnectionLimits, OpenConnections

LIMITS = ConnectionLimits(
    connections=6,
    per_address=3,
    exempt=("10.0.0.9/32",),
    head_bytes=1000,
    head_seconds=1,
    body_seconds=1,
    received_bytes=10 * SMALL_REQUEST,
    unread_bytes=1000,
)


@dataclass(eq=False)
class Opened:
    """A connection without a socket."""

    registry: OpenConnections
    address: str
    was_used: bool = False
    received: int = 0
    unread: int = 0
    evicted: bool = field(default=False, init=False)
    held: bool = field(default=False, init=False)

    def evict(self) -> None:
        self.evicted = True
        self.registry.remove(self)

    def hold(self, *, held: bool) -> None:
        self.held = held


def opened(registry: OpenConnections, *addresses: str) -> list[Opened]:
    """Open a connection from each address, within the limits."""
    connections = [Opened(registry, address) for address in addresses]
    assert [registry.add(connection, connection.address) for connection in connections] == [None] * len(connections)
    return connections


def evicted(connections: list[Opened]) -> list[int]:
    return [number for number, connection in enumerate(connections) if connection.evicted]


def test_an_address_beyond_its_limit_loses_its_oldest_unused_connection() -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, "a", "b", "a", "a")
    connections[0].was_used = True
    connections += opened(registry, "a")
    assert evicted(connections) == [2]
    connections += opened(registry, "a", "a", "a")
    assert evicted(connections) == [2, 3, 4, 5]
    assert registry.count == 4


def test_a_trusted_proxy_has_no_limit_per_address() -> None:
    registry = OpenConnections(LIMITS)
    assert evicted(opened(registry, *["10.0.0.9"] * 6)) == []


@pytest.mark.parametrize("addresses", [["a", "a", "a", "b", "b", "c"], ["a", "a", "b", "b", "c", "d"]])
def test_above_the_total_a_connection_of_the_busiest_address_is_evicted(addresses: list[str]) -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, *addresses, "polite", "polite")
    assert not any(connection.evicted for connection in connections[-2:])
    assert [connections[number].address for number in evicted(connections)] == ["a", addresses[2]]
    assert registry.count == 6


def test_connections_being_answered_are_not_evicted() -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, "a", "a", "a", "b", "b", "b")
    for connection in connections:
        registry.set_waiting(connection, waiting=False)
    refused = [registry.add(Opened(registry, address), address) for address in ("a", "c")]
    assert [rejection and rejection.status for rejection in refused] == [429, 503]
    assert (evicted(connections), registry.count) == ([], 6)
    registry.set_waiting(connections[4], waiting=True)
    assert evicted(connections + opened(registry, "c")) == [4]


def test_beyond_the_byte_budget_the_heaviest_request_is_evicted() -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, "a", "a", "b", "c", "c", "c")
    for connection, places in zip(connections, (2, 3, 4, 0.5, 0.5, 0.5), strict=True):
        registry.receive(connection, int(places * SMALL_REQUEST))
    assert evicted(connections) == [1]
    registry.receive(connections[3], 3 * SMALL_REQUEST)
    assert evicted(connections) == [1, 2]
    assert registry.received == sum(connection.received for connection in connections if not connection.evicted)


def test_small_requests_are_always_admitted() -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, "a", "a", "a", "b", "b", "b")
    for connection in connections[:4]:
        registry.set_waiting(connection, waiting=False)
        registry.receive(connection, 3 * SMALL_REQUEST)
    for connection in connections[4:]:
        registry.receive(connection, SMALL_REQUEST)
    assert evicted(connections) == []
    registry.receive(connections[4], 1)
    assert evicted(connections) == [4]


def test_near_the_byte_budget_heavy_addresses_are_held() -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, "a", "a", "a", "b", "c")
    for connection, places in zip(connections, (4, 3, 0.5, 1.5, 0.5), strict=True):
        registry.receive(connection, int(places * SMALL_REQUEST))
    assert [connection.held for connection in connections] == [False] * 5
    registry.receive(connections[1], 1)  # 9.5 of 10 slots are used: none is evicted yet
    assert [connection.held for connection in connections] == [False, True, False, False, False]
    registry.receive(
        connections[0], 1
    )  # the largest continues, as do small requests and addresses with less than half as much
    registry.receive(connections[2], 1)
    registry.receive(connections[3], 1)
    registry.receive(connections[4], 1)
    assert [connection.held for connection in connections] == [False, True, False, False, False]
    assert evicted(connections) == []
    registry.receive(connections[0], -connections[0].received)
    assert [connection.held for connection in connections] == [False] * 5


def test_a_closed_connection_is_not_resumed() -> None:
    registry = OpenConnections(LIMITS)
    first, second = opened(registry, "a", "a")
    registry.receive(first, 5 * SMALL_REQUEST)
    registry.receive(second, 4 * SMALL_REQUEST)
    assert second.held
    registry.remove(second)
    assert second.held
    registry.receive(first, -first.received)
    assert second.held


def test_beyond_the_unread_budget_the_heaviest_is_evicted() -> None:
    registry = OpenConnections(LIMITS)
    connections = opened(registry, "a", "a", "b", "c")
    for connection in connections:
        registry.set_waiting(connection, waiting=False)  # its request is in progress
    for connection, unread in zip(connections, (200, 300, 400, 200), strict=True):
        registry.set_unread(connection, unread)
    assert evicted(connections) == [1]
    registry.set_unread(connections[2], 0)
    assert registry.unread == 400


def test_closed_connections_leave_nothing() -> None:
    registry = OpenConnections(LIMITS)
    for connection in opened(registry, "a", "b", "c"):
        registry.receive(connection, 10)
        registry.set_unread(connection, 10)
        registry.remove(connection)
        registry.remove(connection)
        registry.set_waiting(connection, waiting=True)
    assert (registry.count, registry.received, registry.unread, registry._by_address) == (0, 0, 0, {})
