"""What every store must do, whatever it is made of. A new store adds a line to STORES."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import postgres

from darrm_opt.design_spec import digest
from solver_cache import CORE, CacheError, MemoryStore, NoStore, Row, Store, open_store
from solver_cache.model import Completion


def memory(_: Path) -> Store:
    return open_store("memory")


def sqlite_file(folder: Path) -> Store:
    return open_store(f"sqlite:///{folder / 'deep' / 'cache.sqlite'}")


def postgresql(folder: Path) -> Store:
    name = folder / "name"
    if not name.exists():  # one database for all that this test opens
        name.write_text(postgres.server().new())
    return open_store(postgres.server().url(name.read_text()))


STORES: dict[str, Callable[[Path], Store]] = {"memory": memory, "sqlite": sqlite_file, "postgresql": postgresql}
LASTING = ("sqlite", "postgresql")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(STORES[request.param](tmp_path)) as opened:
        yield opened


def row(key: str, record: str = "{}", core: int = CORE) -> Row:
    return Row(key, core, record, digest(record))


def test_an_empty_store_has_nothing(store: Store) -> None:
    assert store.get("a") is None
    assert list(store.rows()) == []
    assert store.integrity_errors() == []
    assert set(store.hits.counts.values()) == {0}


def test_a_probe_leaves_everything_as_it_was(store: Store) -> None:
    kept = store.put(row("a"))
    job = store.jobs.submit("a", "gamma", "{}")
    before = store.stats()
    store.health_check()
    assert list(store.rows()) == [kept]
    assert store.jobs.list() == [job]
    assert store.stats() == before


@pytest.mark.parametrize("record", ["{}", "γ = ½ · '\"; --\n\t\u2028 😀", "0.1" * 400_000, ""])
def test_what_is_put_comes_back_to_the_letter(store: Store, record: str) -> None:
    kept = row("a", record, core=7)
    assert store.put(kept) == kept
    assert store.get("a") == kept
    assert store.get("A") is None


def test_the_first_answer_stays(store: Store) -> None:
    first = store.put(row("a", "first"))
    assert store.put(row("a", "second")) == first
    assert store.get("a") == first


def test_a_bad_row_is_replaced_by_one_who_saw_it(store: Store) -> None:
    bad, good = store.put(row("a", "bad")), row("a", "good")
    assert store.put(good, replacing=bad) == good
    assert store.get("a") == good


def test_a_good_row_that_came_in_between_is_safe(store: Store) -> None:
    bad, good = store.put(row("a", "bad")), row("a", "good")
    store.put(good, replacing=bad)
    assert store.put(row("a", "late"), replacing=bad) == good
    assert store.get("a") == good


def test_replacing_a_row_that_is_gone_keeps_the_new_one(store: Store) -> None:
    assert store.put(row("a"), replacing=row("a", "gone")) == row("a")


def test_rows_come_in_the_order_of_keys_however_many(store: Store) -> None:
    keys = [f"{number * 37 % 1001:04}" for number in range(1001)]
    for key in keys:
        store.put(row(key))
    assert [kept.key for kept in store.rows()] == sorted(keys)


def test_a_walk_through_the_rows_does_not_stop_a_writer(store: Store) -> None:
    for key in "ac":
        store.put(row(key))
    walk = iter(store.rows())
    assert next(walk).key == "a"
    store.put(row("b"))
    assert store.get("b") == row("b")


def test_threads_that_put_one_key_agree_on_its_row(store: Store) -> None:
    barrier = threading.Barrier(8)
    standing: list[Row] = []

    def write(number: int) -> None:
        barrier.wait()
        standing.append(store.put(row("a", f"from {number}")))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(standing) == 8
    assert set(standing) == {store.get("a")}


@pytest.mark.parametrize("name", LASTING)
def test_rows_outlive_the_store(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        with closing(STORES[name](tmp_path)) as opened:
            opened.put(row("a"))
    with closing(STORES[name](tmp_path)) as opened:
        assert opened.get("a") == row("a")


def test_off_keeps_nothing() -> None:
    store = open_store("off")
    assert isinstance(store, NoStore)
    assert store.put(row("a"), replacing=row("a", "bad")) == row("a")
    assert store.get("a") is None
    assert list(store.rows()) == []
    assert store.integrity_errors() == []
    store.close()


def test_memory_is_forgotten_with_its_store() -> None:
    open_store("memory").put(row("a"))
    assert MemoryStore().get("a") is None


def test_many_keys_are_looked_up_at_once(store: Store) -> None:
    for number in range(3):
        store.put(row(f"{number:04}"))
    store.put(row("0003", core=99))  # of another version: no answer
    asked = [f"{number:04}" for number in range(1200)]
    assert store.present(asked) == {"0000", "0001", "0002"}
    assert store.present([]) == set()


# ------------------------------------------------------------------------------------- answers with their jobs


def taken(store: Store, *names: str, owner: str = "me", lease: float = 600.0) -> None:
    store.jobs.take(owner, lease, "grid", dict.fromkeys(names, "{}"))


def test_answers_are_kept_and_their_jobs_are_done_at_one_stroke(store: Store) -> None:
    taken(store, "job a", "job b", "known")
    completions = [
        Completion("job b", "of b", row("b")),
        Completion("job a", "of a", row("a")),
        Completion("known", "{}", None),
    ]
    assert store.complete("me", completions) == {"job a": row("a"), "job b": row("b"), "known": None}
    assert list(store.rows()) == [row("a"), row("b")]
    jobs = {job.id: (job.state, job.result, job.owner, job.lease_until) for job in store.jobs.list()}
    assert jobs == {
        "job a": ("done", "of a", "", 0.0),
        "job b": ("done", "of b", "", 0.0),
        "known": ("done", "{}", "", 0.0),
    }
    assert store.complete("me", completions) == {}  # nobody holds them any more
    assert store.complete("me", []) == {}


def test_the_answer_to_a_job_that_another_holds_is_left_to_it(store: Store) -> None:
    taken(store, "mine", "lost", lease=0.001)
    time.sleep(0.05)
    taken(store, "lost", owner="you")
    completions = [Completion(name, "{}", row(name)) for name in ("mine", "lost", "gone")]
    assert store.complete("me", completions) == {"mine": row("mine")}
    assert list(store.rows()) == [row("mine")]
    assert store.complete("you", completions) == {"lost": row("lost")}


def test_an_answer_that_is_there_stays(store: Store) -> None:
    first, stale = store.put(row("a", "first")), store.put(row("b", core=99))
    taken(store, "job a", "job b", "job c")
    completions = [Completion(f"job {key}", "{}", row(key, "second")) for key in "abc"]
    assert store.complete("me", completions) == {"job a": first, "job b": stale, "job c": row("c", "second")}
    assert list(store.rows()) == [first, stale, row("c", "second")]
    assert store.jobs.counts()["done"] == 3


def test_however_many_answers(store: Store) -> None:
    names = [f"{number:04}" for number in range(1201)]
    taken(store, *names)
    assert store.complete("me", [Completion(name, "{}", row(name)) for name in names]) == {
        name: row(name) for name in names
    }
    assert len([*store.rows()]) == 1201


@pytest.mark.parametrize("name", LASTING)
def test_all_of_it_stands_or_nothing(name: str, tmp_path: Path) -> None:
    refuse = {
        "sqlite": "CREATE TRIGGER full BEFORE INSERT ON darrm_solutions WHEN NEW.key = 'b' "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
        "postgresql": "ALTER TABLE darrm_solutions ADD CONSTRAINT full_ CHECK (key <> 'b')",
    }[name]
    with closing(STORES[name](tmp_path)) as opened:
        with opened._database.writing() as connection:  # type: ignore[attr-defined]
            connection.exec_driver_sql(refuse)
        taken(opened, "job a", "job b")
        with pytest.raises(CacheError):
            opened.complete("me", [Completion(f"job {key}", "{}", row(key)) for key in "ab"])
        assert list(opened.rows()) == []
        assert opened.jobs.counts()["running"] == 2
        assert opened.complete("me", [Completion("job a", "{}", row("a"))]) == {"job a": row("a")}


def test_off_ends_jobs_and_keeps_nothing() -> None:
    store = open_store("off")
    taken(store, "job a")
    assert store.complete("me", [Completion("job a", "of a", row("a"))]) == {"job a": row("a")}
    assert store.jobs.counts()["done"] == 1
    assert list(store.rows()) == []
