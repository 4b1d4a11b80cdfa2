"""Eviction: the least recently read answers are removed, tagged ones stay, and no client exceeds its share."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api.service import upkeep
from api.service.upkeep import Upkeep
from api.settings import Settings
from darrm_opt import Problem
from darrm_opt.record import digest
from solver_cache import CORE, DesignSpec, Row, Store, cached_solve, nearest, open_store
from solver_cache.database import store as database_store
from solver_cache.database.designs import not_since
from solver_cache.solve import load_record

SIZE = 100  # length of a row's record [bytes]


class Clock:
    """A clock that the test sets."""

    now_ = datetime(2026, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, zone: Any) -> datetime:
        return cls.now_.astimezone(zone)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    Clock.now_ = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(database_store, "datetime", Clock)
    return Clock


def row(key: str) -> Row:
    return Row(key, CORE, "x" * SIZE, digest("x" * SIZE))


def keys(store: Store) -> str:
    return "".join(found.key for found in store.rows())


def read(store: Store, *names: str) -> None:
    for name in names:
        store.reads.add(name)
    store.save_reads()


def test_the_least_recently_read_are_removed_first(
    store: Store, clock: type[Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solver_cache.database.designs.MAX_EVICTED_AT_ONCE", 1)  # several transactions
    for key in "abcdef":
        store.put(row(key))
        clock.now_ += timedelta(minutes=1)
    clock.now_ += timedelta(hours=2)
    read(store, "a", "c", "missing")
    clock.now_ += timedelta(minutes=30)
    read(store, "b", "a")  # a read of a is already recorded in this hour
    store.designs.tag("d", "best")
    assert store.designs.stored_bytes() == 6 * SIZE
    assert store.designs.evict(max_bytes=6 * SIZE) == 0
    assert store.designs.evict(max_bytes=4 * SIZE) == 2
    assert keys(store) == "abcd"  # e and f were stored last, and never read
    assert store.designs.evict(max_bytes=3 * SIZE + 1, down_to=2 * SIZE) == 2
    assert keys(store) == "bd"  # a and c were read before b
    assert store.designs.evict(max_bytes=0) == 1
    assert keys(store) == "d"


def test_answers_not_read_for_long_are_removed(store: Store, clock: type[Clock]) -> None:
    clock.now_ = datetime.now(UTC) - timedelta(days=40)
    for key in "abc":
        store.put(row(key))
    store.designs.tag("b", "best")
    clock.now_ += timedelta(days=20)
    read(store, "c")
    assert store.designs.evict(before=not_since(41)) == 0
    assert store.designs.evict(before=not_since(30)) == 1
    assert keys(store) == "bc"
    assert store.designs.evict(before=not_since(10)) == 1
    assert keys(store) == "b"


def test_a_store_can_be_evicted_down_to_nothing(store: Store) -> None:
    for key in "ab":
        store.put(row(key))
    assert store.designs.evict(max_bytes=SIZE, down_to=0) == 2


def test_a_removed_answer_takes_its_dependents(store: Store) -> None:
    store.put(row("a"), clients=["one"])
    read(store, "a")
    store.designs.evict(max_bytes=0)
    store.put(row("a"))  # again, by an import: shared by all clients
    assert store.designs.get("a", "two") is not None


def test_reads_of_every_kind_count(store: Store) -> None:
    problem = Problem.from_allowance(K=5, m=2, epsilon=0.5)
    key = DesignSpec(problem).key
    cached_solve(problem, store=store)
    assert store.reads.take() == []
    for reading in (
        lambda: cached_solve(problem, store=store),
        lambda: load_record(key, store),
        lambda: nearest(DesignSpec(Problem.from_allowance(K=5, m=2.5, epsilon=0.5)), store),
    ):
        reading()
        assert store.reads.take() == [key]


def test_reads_are_recorded_on_close(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with closing(open_store(url)) as opened:
        for key in "ab":
            opened.put(row(key))
    for mode in ("", "?mode=ro"):  # which cannot be written and need not be
        with closing(open_store(url + mode)) as opened:
            opened.reads.add("a")
    with closing(open_store(url)) as opened:
        opened.designs.evict(max_bytes=SIZE)
        assert keys(opened) == "a"


def test_a_client_loses_its_least_recently_read_first_and_tagged_last(store: Store, clock: type[Clock]) -> None:
    for key in "abcd":
        store.put(row(key), clients=["one"])
        clock.now_ += timedelta(minutes=1)
    store.put(row("e"), clients=["two"])
    store.put(row("f"))
    store.designs.grant(["b", "f"], "two")  # f is shared, and remains so
    store.designs.tag("a", "best")
    assert store.designs.evict_of_clients(4 * SIZE) == 0
    assert store.designs.evict_of_clients(2 * SIZE) == 1
    assert keys(store) == "abdef"  # c was removed; b still belongs to the other client
    seen = {client: {each.key for each in store.designs.list(client=client)} for client in ("one", "two", "three")}
    assert seen == {"one": set("adf"), "two": set("bef"), "three": {"f"}}
    assert store.designs.evict_of_clients(SIZE) == 2
    assert keys(store) == "abf" or keys(store) == "aef"
    assert store.designs.evict_of_clients(0) == 2
    assert keys(store) == "f"


def test_one_server_at_a_time_evicts(store: Store) -> None:
    size = 2**18
    limits = Settings(max_stored_bytes=2**20, max_stored_bytes_per_client=2**19)
    first, second = (Upkeep(store, limits, upkeep_run) for _ in range(2))
    for key in "abcdefgh":
        store.put(Row(key, CORE, "x" * size, digest("x" * size)), clients=["one"] if key in "efgh" else [])
    assert first.do_round() == 5  # two of the client and three others: 0.9 of the limit stay
    assert store.designs.stored_bytes() == 3 * size <= upkeep.KEPT_SHARE * 2**20
    for key in "abcdefgh":
        store.put(Row(key, CORE, "x" * size, digest("x" * size)))
    assert second.do_round() == 0  # now the other server evicts
    assert first.do_round() > 0
    unlimited = Upkeep(store, Settings(), upkeep_run)
    store.reads.add("a")
    assert unlimited.do_round() == 0
    assert store.reads.take() == []


def test_a_round_evicts_in_small_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_REMOVED", 2)
    size = 2**18
    for key in "abcdefgh":
        store.put(Row(key, CORE, "x" * size, digest("x" * size)))
    upkeeper = Upkeep(store, Settings(max_stored_bytes=2**20), upkeep_run)
    assert [upkeeper.do_round() for _ in range(4)] == [2, 2, 1, 0]
    assert store.designs.stored_bytes() == 3 * size
    for key in "hijkl":
        store.put(Row(key, CORE, "x" * size, digest("x" * size)), clients=["one"])
    assert store.designs.evict_of_clients(2 * size, most=1) == 1


async def upkeep_run(work: Any, *arguments: Any) -> Any:
    return work(*arguments)
