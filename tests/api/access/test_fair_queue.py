"""Turns of clients at a few slots: many concurrent requests of one client delay another client by only a few."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from support.waiting import in_loop

from api.access.client_shares import FairQueue
from api.access.clients import Client
from api.middleware.admission import STARTS, TurnsMiddleware


def order_of(asked: list[str], size: int = 1) -> list[str]:
    """Return the order in which waiting clients get a slot."""
    served: list[str] = []

    async def test() -> None:
        queue, taken = FairQueue(size), asyncio.Event()

        async def hold() -> None:
            async with queue.place("holder"):
                await taken.wait()

        async def ask(client: str) -> None:
            async with queue.place(client):
                served.append(client)
                await asyncio.sleep(0)

        holding = [asyncio.create_task(hold()) for _ in range(size)]
        await asyncio.sleep(0)
        asking = []
        for client in asked:
            asking.append(asyncio.create_task(ask(client)))
            await asyncio.sleep(0)
        assert queue.waiting == len(asked)
        taken.set()
        await asyncio.gather(*holding, *asking)
        assert queue.waiting == 0

    asyncio.run(test())
    return served


def test_clients_take_turns() -> None:
    order = order_of(["greedy"] * 5 + ["polite", "polite", "third"])
    assert order == ["greedy", "polite", "third", "greedy", "polite", "greedy", "greedy", "greedy"]


def test_requests_of_one_client_keep_their_order() -> None:
    assert order_of(["me"] * 4, size=2) == ["me"] * 4


async def served(queue: FairQueue) -> str:
    """Wait for a slot, and release it."""
    async with queue.place("me"):
        return "served"


@pytest.mark.parametrize("late", [False, True])
@in_loop
async def test_a_cancelled_waiter_does_not_lose_a_slot(late: bool) -> None:
    queue = FairQueue(1)
    taken = asyncio.Event()

    impatient: asyncio.Task[str]

    async def hold() -> None:
        async with queue.place("holder"):
            await taken.wait()
        if late:  # when the turn of the other has come, before it resumes
            impatient.cancel()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    impatient, patient = asyncio.create_task(served(queue)), asyncio.create_task(served(queue))
    await asyncio.sleep(0)
    if not late:
        impatient.cancel()
        await asyncio.sleep(0)
    taken.set()
    await holding
    assert await asyncio.wait_for(patient, 60) == "served"
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert await asyncio.wait_for(served(queue), 60) == "served"


@in_loop
async def test_a_waiter_cancelled_early_does_not_lose_a_slot() -> None:
    queue, taken = FairQueue(1), asyncio.Event()

    async def hold() -> None:
        async with queue.place("holder"):
            await taken.wait()
            for each in impatient:  # cancelled, but not yet resumed when the slot becomes free
                each.cancel()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    impatient, patient = [asyncio.create_task(served(queue)) for _ in range(2)], asyncio.create_task(served(queue))
    await asyncio.sleep(0)
    taken.set()
    await holding
    assert await asyncio.wait_for(patient, 60) == "served"
    for each in impatient:
        with pytest.raises(asyncio.CancelledError):
            await each
    assert queue.waiting == 0
    assert await asyncio.wait_for(served(queue), 60) == "served"


def begun(clients: list[str], path: str = "/v1/jobs") -> list[str]:
    """Return the clients in the order in which their requests reach the route, which never returns."""
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
    assert begun(["greedy"] * 20 + ["polite"], "/healthz")[-1] == "polite"  # all in one round, in order of arrival
