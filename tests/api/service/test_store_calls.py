"""A store that hangs: calls fail in time, later ones at once, and all work when it answers again."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support import postgres
from support.waiting import in_loop

from api.service import resources
from api.service.resources import STORE_THREADS, StoreCalls
from solver_cache import CacheError, open_store
from solver_cache.database.store import DatabaseStore


class Hanging(DatabaseStore):
    """A store whose calls wait until it is released; an interrupt makes waiting calls fail."""

    def __init__(self) -> None:
        super().__init__("memory")
        self.released = threading.Event()
        self.interrupts = 0

    def health_check(self) -> None:
        interrupts = self.interrupts
        while not self.released.wait(0.005):
            if self.interrupts > interrupts:
                raise CacheError("memory", "cut", "")

    def interrupt(self) -> None:
        self.interrupts += 1


def be(monkeypatch: pytest.MonkeyPatch, *, patient: bool) -> None:
    """Set the limits: minutes for calls that should succeed on a busy machine, little for calls that hang."""
    monkeypatch.setattr(resources, "STORE_SECONDS", 300.0 if patient else 0.3)
    monkeypatch.setattr(resources, "ANSWER_SECONDS", 300.0 if patient else 0.1)


async def until_refused_at_once(calls: StoreCalls) -> None:
    """Make instant calls until they are refused."""
    while True:
        try:
            await calls.run(str)
        except CacheError:
            return
        await asyncio.sleep(0.01)


async def until_answered(calls: StoreCalls) -> None:
    while True:
        try:
            await calls.run(str)
        except CacheError:
            await asyncio.sleep(0.01)
        else:
            return


@in_loop
async def test_calls_to_a_store_that_hangs_fail_in_time_and_then_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, patient=False)
    store, began = Hanging(), list[str]()
    calls = StoreCalls("store", store, store.health_check)
    many = [calls.run(store.health_check) for _ in range(2 * STORE_THREADS)]
    many += [calls.run(began.append, "late") for _ in range(5)]
    outcomes = await asyncio.gather(*many, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {CacheError}
    await until_refused_at_once(calls)
    assert store.interrupts > 0
    assert began == []  # a refused call that waited for a thread is not executed later
    store.released.set()
    await until_answered(calls)
    be(monkeypatch, patient=True)
    assert await calls.run(len, "four") == 4
    await calls.close()


@in_loop
async def test_only_the_slow_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, patient=True)
    store, slow = open_store("memory"), threading.Event()
    calls = StoreCalls("store", store, store.health_check)
    with monkeypatch.context() as hasty:
        hasty.setattr(resources, "STORE_SECONDS", 0.3)
        with pytest.raises(CacheError, match="has not responded"):
            await calls.run(slow.wait)
    for _ in range(20):
        assert await calls.run(str) == ""
        await asyncio.sleep(0.01)
    slow.set()
    await calls.close()


@pytest.mark.slow
@in_loop
async def test_a_wait_for_a_hanging_postgresql_is_ended(
    database_server: postgres.Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, patient=True)
    store = open_store(f"{database_server.url(database_server.new())}&connect_timeout=2")
    calls = StoreCalls("reader", store, lambda: store.get(""))
    await asyncio.gather(*(calls.run(store.get, "") for _ in range(STORE_THREADS)))
    with database_server.hanging():
        be(monkeypatch, patient=False)
        outcomes = await asyncio.gather(*(calls.run(store.get, "") for _ in range(9)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {CacheError}
        await until_refused_at_once(calls)
        async with asyncio.timeout(300):  # it ends after all waiting threads
            await calls.close()
    be(monkeypatch, patient=True)
    calls = StoreCalls("reader", store, lambda: store.get(""))
    await until_answered(calls)
    assert await calls.run(store.get, "") is None
    await calls.close()
    store.close()
