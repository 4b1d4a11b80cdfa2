"""Ports of loopback: for servers that restart, and one that refuses connections."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

CHOSEN = range(20_000, 32_000)  # below the ports of outgoing connections and of port 0


def free_ports(count: int) -> list[int]:
    """Return ports that stay free while unused: the system may give one that it chose to any connection."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in random.SystemRandom().sample(CHOSEN, len(CHOSEN)):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                break
        return found


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """Hold a port without listening, so that no other program listens there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
