"""Contract of every store."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from support.refusals import refused
from support.waiting import together

from darrm_opt.record import digest
from solver_cache import CORE, CacheError, NoStore, Row, Store, open_store
from solver_cache.database.connection import Database
from solver_cache.model import MAX_LEASE_SECONDS, ClaimResult


def row(key: str, record: str = "{}", core: int = CORE) -> Row:
    return Row(key, core, record, digest(record))


def test_an_empty_store_has_nothing(store: Store) -> None:
    assert store.get("a") is None
    assert list(store.rows()) == []
    assert store.integrity_errors() == []
    assert set(store.hits.counts.values()) == {0}


def test_a_health_check_changes_nothing(store: Store) -> None:
    kept = store.put(row("a"))
    job = store.jobs.submit("a", "gamma", "{}")
    before = store.stats()
    store.health_check()
    assert list(store.rows()) == [kept]
    assert store.jobs.list() == [job]
    assert store.stats() == before


@pytest.mark.parametrize("record", ["{}", "γ = ½ · '\"; --\n\t\u2028 😀", "0.1" * 400_000, ""])
def test_rows_are_returned_verbatim(store: Store, record: str) -> None:
    kept = row("a", record, core=7)
    assert store.put(kept) == kept
    assert store.get("a") == kept
    assert store.get("A") is None


def test_the_first_answer_stays(store: Store) -> None:
    first = store.put(row("a", "first"))
    assert store.put(row("a", "second")) == first
    assert store.get("a") == first


def test_an_invalid_row_is_replaced_only_if_seen(store: Store) -> None:
    bad, good = store.put(row("a", "bad")), row("a", "good")
    assert store.put(good, replacing=bad) == good
    assert store.get("a") == good


def test_a_valid_row_stored_meanwhile_is_safe(store: Store) -> None:
    bad, good = store.put(row("a", "bad")), row("a", "good")
    store.put(good, replacing=bad)
    assert store.put(row("a", "late"), replacing=bad) == good
    assert store.get("a") == good


def test_replacing_a_removed_row_stores_the_new_one(store: Store) -> None:
    assert store.put(row("a"), replacing=row("a", "gone")) == row("a")


def test_rows_are_ordered_by_key(store: Store) -> None:
    keys = [f"{number * 37 % 401:04}" for number in range(401)]  # three pages
    for key in keys:
        store.put(row(key))
    assert [kept.key for kept in store.rows()] == sorted(keys)


def test_iterating_over_rows_does_not_block_writers(store: Store) -> None:
    for key in "ac":
        store.put(row(key))
    walk = iter(store.rows())
    assert next(walk).key == "a"
    store.put(row("b"))
    assert store.get("b") == row("b")


def test_concurrent_puts_agree(store: Store) -> None:
    standing: list[Row] = []
    together(*(lambda n=n: standing.append(store.put(row("a", f"from {n}"))) for n in range(8)))
    assert len(standing) == 8
    assert set(standing) == {store.get("a")}


def test_rows_outlive_the_store(lasting_url: str) -> None:
    for _ in range(2):
        with closing(open_store(lasting_url)) as opened:
            opened.put(row("a"))
    with closing(open_store(lasting_url)) as opened:
        assert opened.get("a") == row("a")


def test_put_many_returns_existing_rows(store: Store) -> None:
    stood, other = row("b", "[1]"), row("d", "[2]")
    store.put(stood)
    store.put(other)
    assert store.put_many([row("c"), row("b", "[3]"), row("a"), other]) == {"b": stood, "d": other}
    assert [*store.rows()] == [row("a"), stood, row("c"), other]
    assert store.put_many([]) == {}


def test_off_stores_nothing() -> None:
    store = open_store("off")
    assert isinstance(store, NoStore)
    assert store.put(row("a"), replacing=row("a", "bad")) == row("a")
    assert store.get("a") is None
    assert list(store.rows()) == []
    assert store.integrity_errors() == []
    store.close()


def test_a_memory_store_is_lost_when_closed() -> None:
    open_store("memory").put(row("a"))
    assert open_store("memory").get("a") is None


def test_many_keys_are_looked_up_at_once(store: Store) -> None:
    for number in range(3):
        store.put(row(f"{number:04}"))
    store.put(row("0003", core=99))  # of another version: no answer
    asked = [f"{number:04}" for number in range(1200)]
    assert store.present(asked) == {"0000", "0001", "0002"}
    assert store.present([]) == set()


# ------------------------------------------------------------------------------------------------------ claims

LONG, SHORT = 600.0, 0.001  # leases of a live and of a dead owner [s]


def claimed(store: Store, *keys: str, owner: str = "me", lease: float = LONG) -> dict[str, ClaimResult]:
    return store.claim(owner, lease, keys)


def test_only_free_keys_are_claimed(store: Store) -> None:
    assert claimed(store, "b", "a") == {"a": "taken", "b": "taken"}
    assert claimed(store, "died", owner="who died", lease=SHORT) == {"died": "taken"}
    store.put(row("stored"))
    store.put(row("stale", core=99))  # of another version: no answer
    time.sleep(0.05)
    keys = ("a", "died", "stored", "stale", "new")
    expected = {"a": "held", "died": "taken", "stored": "stored", "stale": "taken", "new": "taken"}
    assert claimed(store, *keys, owner="you") == expected
    assert claimed(store, *keys, owner="you") == expected  # a lost response is requested again
    assert claimed(store, *keys) == {**dict.fromkeys(keys, "held"), "a": "taken", "stored": "stored"}
    assert claimed(store) == {}
    assert store.remove(row("stored"))  # it is not claimed
    assert claimed(store, "stored") == {"stored": "taken"}


def test_a_claim_ends_once_its_answer_is_stored(store: Store) -> None:
    assert claimed(store, "a") == {"a": "taken"}
    store.put(row("a"))  # by a service, which makes no claims
    assert claimed(store, "a") == {"a": "stored"}
    assert store.remove(row("a"))
    assert claimed(store, "a", owner="you") == {"a": "taken"}


def test_owners_renew_their_claims(store: Store) -> None:
    claimed(store, "mine", "lost", lease=SHORT)
    time.sleep(0.05)
    claimed(store, "lost", owner="you", lease=SHORT)
    store.renew_claims("me", LONG, ["mine", "lost", "none"])
    time.sleep(0.05)
    assert claimed(store, "mine", "lost", "none", owner="they") == {"mine": "held", "lost": "taken", "none": "taken"}
    store.renew_claims("me", LONG, [])


def test_owners_release_their_claims(store: Store) -> None:
    claimed(store, "mine", "too")
    claimed(store, "theirs", owner="you")
    store.release_claims("me", ["mine", "theirs", "none"])
    expected = {"mine": "taken", "too": "held", "theirs": "held", "none": "taken"}
    assert claimed(store, "mine", "too", "theirs", "none", owner="they") == expected
    store.release_claims("me", [])


@pytest.mark.parametrize("lease", [0, float("nan"), MAX_LEASE_SECONDS + 1])
def test_invalid_claims_are_refused(store: Store, lease: float) -> None:
    with refused("lease_seconds"):
        store.claim("me", lease, ["a"])
    with refused("lease_seconds"):
        store.renew_claims("me", lease, ["a"])
    with refused("owner", "''"):
        store.claim("", LONG, ["a"])
    assert claimed(store, "a", owner="you") == {"a": "taken"}


def test_concurrent_claims_do_not_deadlock(store: Store) -> None:
    keys = [f"{number:02}" for number in range(60)]
    taken = dict[str, list[str]]()

    def work(number: int) -> None:
        owner, order, mine = f"{number}", keys if number % 2 else keys[::-1], list[str]()
        for start in range(0, 60, 20):
            found = claimed(store, *order[start : start + 20], owner=owner)
            mine += [key for key, what in found.items() if what == "taken"]
            store.renew_claims(owner, LONG, mine)
        taken[owner] = mine

    together(*(lambda n=n: work(n) for n in range(4)))
    assert sorted(key for mine in taken.values() for key in mine) == keys
    for owner, mine in taken.items():
        assert claimed(store, *mine, owner=owner) == dict.fromkeys(mine, "taken")


def test_abandoned_and_damaged_claims_expire(lasting_url: str) -> None:
    with closing(open_store(lasting_url)) as opened:
        database: Database = opened._database  # type: ignore[attr-defined]
        now = time.time()
        leases = {"past": now - 2 * MAX_LEASE_SECONDS, "ahead": now + 2 * MAX_LEASE_SECONDS, "held": now + LONG}
        with database.writing() as statements:
            for key, until in leases.items():
                statements.rows("INSERT INTO darrm_claims VALUES (:key, 'who died', :until)", key=key, until=until)
            if database.dialect == "sqlite":  # SQLite, which accepts any type
                statements.rows("INSERT INTO darrm_claims VALUES ('text', x'ff', 'soon')")
        assert claimed(opened, "ahead", "text", "held") == {"ahead": "taken", "text": "taken", "held": "held"}
        with database.reading() as statements:
            there = {str(key) for (key,) in statements.rows("SELECT key FROM darrm_claims")}
        assert there == {"ahead", "text", "held"}


def test_storing_answers_ends_their_claims(store: Store) -> None:
    claimed(store, "a", "b", "known")
    assert store.complete("me", [row("b"), row("a")]) == {"a": row("a"), "b": row("b")}
    assert list(store.rows()) == [row("a"), row("b")]
    assert claimed(store, "a", "b", "known", owner="you") == {"a": "stored", "b": "stored", "known": "held"}
    assert store.complete("me", [row("b"), row("a")]) == {}  # they are no longer claimed
    assert store.complete("me", []) == {}


def test_answers_to_foreign_claims_are_not_stored(store: Store) -> None:
    claimed(store, "mine", "lost", lease=SHORT)
    time.sleep(0.05)
    claimed(store, "lost", owner="you")
    answers = [row(key) for key in ("mine", "lost", "gone")]
    assert store.complete("me", answers) == {"mine": row("mine")}  # with an expired lease that was not taken over
    assert list(store.rows()) == [row("mine")]
    assert store.complete("you", answers) == {"lost": row("lost")}


def test_a_stored_answer_stays(store: Store) -> None:
    claimed(store, "a", "b", "c")
    first, stale = store.put(row("a", "first")), store.put(row("b", core=99))  # by a service, which makes no claims
    second = {key: row(key, "second") for key in "abc"}
    assert store.complete("me", [*second.values()]) == {"a": first, "b": stale, "c": second["c"]}
    assert list(store.rows()) == [first, stale, second["c"]]


def test_any_number_of_answers_is_stored(store: Store) -> None:
    keys = [f"{number:04}" for number in range(1201)]
    assert claimed(store, *keys) == dict.fromkeys(keys, "taken")
    store.renew_claims("me", LONG, keys)
    assert store.complete("me", [row(key) for key in keys]) == {key: row(key) for key in keys}
    assert len([*store.rows()]) == 1201


def test_completion_is_atomic(lasting_url: str) -> None:
    refuse = {
        "sqlite": "CREATE TRIGGER full BEFORE INSERT ON darrm_solutions WHEN NEW.key = 'b' "
        "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
        "postgresql": "ALTER TABLE darrm_solutions ADD CONSTRAINT full_ CHECK (key <> 'b')",
    }[lasting_url.partition(":")[0].partition("+")[0]]
    with closing(open_store(lasting_url)) as opened:
        with opened._database.writing() as statements:  # type: ignore[attr-defined]
            statements.rows(refuse)
        claimed(opened, "a", "b")
        with pytest.raises(CacheError):
            opened.complete("me", [row("a"), row("b")])
        assert list(opened.rows()) == []
        assert claimed(opened, "a", "b", owner="you") == {"a": "held", "b": "held"}
        assert opened.complete("me", [row("a")]) == {"a": row("a")}


def test_off_claims_keys_and_stores_nothing() -> None:
    store = open_store("off")
    assert claimed(store, "a", "b") == {"a": "taken", "b": "taken"}
    assert claimed(store, "b", owner="you") == {"b": "held"}
    store.renew_claims("me", LONG, ["b"])
    store.release_claims("me", ["b"])
    assert claimed(store, "b", owner="you") == {"b": "taken"}
    assert store.complete("me", [row("a"), row("b")]) == {"a": row("a")}
    assert list(store.rows()) == []
