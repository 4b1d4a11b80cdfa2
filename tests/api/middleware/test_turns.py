"""Turns: many requests of one client that arrive at once delay another's by a few of them."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send

from api.access.client_shares import FairQueue
from api.access.clients import Client
from api.middleware.admission import STARTS, TurnsMiddleware


def begun(clients: list[str], path: str = "/v1/jobs") -> list[str]:
    """Return the clients in the order in which their requests reach the route, each of which waits for ever."""
    order: list[str] = []

    async def route(scope: Scope, _receive: Receive, _send: Send) -> None:
        order.append(scope["darrm.client"].name)
        await asyncio.Event().wait()

    async def run() -> None:
        middleware: Any = TurnsMiddleware(route, FairQueue(STARTS))
        scopes = [{"type": "http", "path": path, "darrm.client": Client(name, local=False)} for name in clients]
        tasks = [asyncio.create_task(middleware(scope, None, None)) for scope in scopes]
        for _ in range(2 * len(clients)):  # rounds of the event loop
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 60))
    return order


def test_a_request_waits_for_one_turn_of_each_client() -> None:
    order = begun(["greedy"] * 300 + ["polite"] * 2 + ["third"])
    assert [order.index(name) for name in ("polite", "third")] == [STARTS + 1, STARTS + 2]
    assert [i for i, name in enumerate(order) if name == "polite"] == [STARTS + 1, STARTS + 4]


def test_health_checks_skip_the_queue() -> None:
    assert begun(["greedy"] * 20 + ["polite"], "/healthz")[-1] == "polite"  # all in one round, as they came
