"""The cache in PostgreSQL: lost connections, stopped and killed servers, messages."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Collection, Iterator
from contextlib import closing

import pytest
from support import postgres
from support.waiting import together, until

from darrm_opt import Problem, verify
from darrm_opt.record import digest
from solver_cache import CORE, CacheError, Row, Store, cached_solve, check, open_store
from solver_cache.database import dependents, designs
from solver_cache.database.schema import MIGRATIONS
from solver_cache.database.statements import Statements

PROBLEM = Problem.from_allowance(K=11, m=3, epsilon=0.1)


@pytest.fixture
def database() -> str:
    return postgres.server().new()


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with closing(open_store(postgres.server().url(database))) as opened:
        yield opened


# ------------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("postgresql+psycopg://me:tops3cret@127.0.0.1:1/name", "Connection refused"),
        ("postgresql+psycopg://me@127.0.0.1:1/name?password=tops3cret", "Connection refused"),
        ("postgresql+psycopg://me:tops3cret@127.0.0.1:1/name?sslmode=perhaps", "invalid sslmode value"),
        ("postgresql+psycopg:/me:tops3cret@host/name", "it is not a database URL"),
        ("postgresql+psycopg//me:tops3cret@host/name", "it is not a database URL"),
        ("postgresql+psycopg://me:tops3cret@host:port/name", "it is not a database URL"),
        ("host=here user=me password=tops3cret", "it is not a database URL"),
        ("oracle://me:tops3cret@host/name", "oracle is not supported"),
        ("oracle://me@host/name?password=tops3cret", "oracle is not supported"),
    ],
)
def test_no_error_shows_the_password(url: str, text: str) -> None:
    with pytest.raises(CacheError, match=text) as caught:
        open_store(url)
    assert "tops3cret" not in "".join(traceback.format_exception(caught.value))
    assert "tops3cret" not in caught.value.url


def test_an_open_store_shows_no_password(database: str) -> None:
    with closing(open_store(postgres.server().url(database, "postgres:tops3cret"))) as store:
        assert store.url.startswith("postgresql+psycopg://postgres:***@/")
        assert "tops3cret" not in store.url


@pytest.mark.parametrize(
    ("name", "user", "text"),
    [
        ("nowhere", "postgres", 'database "nowhere" does not exist'),
        ("postgres", "nobody", 'role "nobody" does not exist'),
    ],
)
def test_errors_name_missing_databases_and_users(name: str, user: str, text: str) -> None:
    with pytest.raises(CacheError, match=text):
        open_store(postgres.server().url(name, user))


def test_an_unresponsive_host_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver_cache.database.engine.CONNECTING_SECONDS", 2)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)  # connections are accepted, but never answered
        with pytest.raises(CacheError, match="timeout"):
            open_store(f"postgresql+psycopg://me@127.0.0.1:{deaf.getsockname()[1]}/name")


# --------------------------------------------------------------------------------------------------- the schema


def test_concurrent_schema_creation_succeeds(database: str) -> None:
    url, opened = postgres.server().url(database), list[str]()

    def make(number: int) -> None:
        with closing(open_store(url)) as store:
            opened.append(store.put(Row(f"{number}", 1, "{}", "")).key)

    together(*(lambda n=n: make(n) for n in range(6)))
    assert sorted(opened) == list("012345")
    assert postgres.server().sql(database, "SELECT version FROM darrm_schema") == str(len(MIGRATIONS))


# -------------------------------------------------------------------------------------------- concurrent transactions


def test_a_shared_answer_survives_concurrent_eviction(
    database: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(Row("a", CORE, "x" * 100, digest("x" * 100)), clients=["one"])
    removed: list[int] = []
    with closing(open_store(postgres.server().url(database))) as other:
        giving_up = threading.Thread(target=lambda: removed.append(other.designs.evict_of_clients(0)))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

        def add_clients_slowly(statements: Statements, keys: Collection[str], clients: Collection[str]) -> None:
            dependents.add_clients(statements, keys, clients)
            giving_up.start()  # before the new client is committed
            until(lambda: not giving_up.is_alive() or postgres.server().sql(database, waiting) != "0")

        monkeypatch.setattr(designs, "add_clients", add_clients_slowly)
        assert store.designs.grant(["a"], "two")
        giving_up.join(60)
        assert removed == [0]
        assert other.designs.get("a", "one") is None
        assert other.designs.get("a", "two") is not None


def test_the_size_of_a_store_counts_every_table(database: str, store: Store) -> None:
    """Also tables that did not exist when the size was first requested."""
    names = postgres.server().sql(
        database, "SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'public'"
    )
    sizes = [int(postgres.server().sql(database, f"SELECT pg_total_relation_size('{name}')")) for name in names.split()]
    assert store.stats().bytes == sum(sizes) > 0
    assert {"darrm_solutions", "darrm_claims", "darrm_design_reads"} <= {*names.split()}


# ------------------------------------------------------------------------------------------ lost connections


def test_a_broken_connection_is_replaced(database: str, store: Store) -> None:
    assert cached_solve(PROBLEM, store=store).stored
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    postgres.server().sql(database, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")  # noqa: S608
    assert cached_solve(PROBLEM, store=store).hit
    assert store.jobs.submit("a", "gamma", "{}").state == "queued"


def test_an_absent_server_is_a_cache_error_until_it_is_back(database_server: postgres.Postgres, store: Store) -> None:
    assert cached_solve(PROBLEM, store=store).stored
    store.jobs.submit("a", "gamma", "{}")
    database_server.stop()
    for use in (
        lambda: store.get("a"),
        lambda: store.put(Row("a", 1, "{}", "")),
        lambda: list(store.rows()),
        lambda: store.jobs.submit("a", "gamma", "{}"),
        lambda: store.jobs.take("me", 60),
        lambda: store.jobs.finish("a", "me", "{}"),
        lambda: open_store(store.url.replace("***", "secret")),
    ):
        with pytest.raises(CacheError, match=r"cannot be used: .*connection"):
            use()
    database_server.start()
    assert cached_solve(PROBLEM, store=store).hit
    assert store.jobs.take("me", 60) is not None


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_server_restarted_under_load_loses_nothing_acknowledged(
    database_server: postgres.Postgres, store: Store, ending: str
) -> None:
    acknowledged: list[str] = []
    finished: list[str] = []
    refused: list[CacheError] = []
    unforeseen: list[BaseException] = []
    enough = threading.Event()

    def work(owner: str) -> None:
        number = 0
        while not enough.is_set():
            name, number = f"{owner}-{number:05}", number + 1
            text = name * 500
            try:
                acknowledged.append(store.put(Row(name, 1, text, digest(text))).key)
                store.jobs.submit(name, owner, "{}")
                job = store.jobs.take(owner, 60, kinds=[owner])
                if job is not None and store.jobs.finish(job.id, owner, job.id):  # an older one if its claim failed
                    finished.append(job.id)
            except CacheError as err:
                refused.append(err)
                time.sleep(0.01)
            except BaseException as err:  # noqa: BLE001 — reported in the main thread
                unforeseen.append(err)

    threads = [threading.Thread(target=work, args=(f"{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            seen, failed = len(finished), len(refused)
            until(lambda seen=seen: len(finished) > seen + 20)
            database_server.stop() if ending == "stop" else database_server.kill()
            until(lambda failed=failed: len(refused) > failed)
            database_server.start()
        seen = len(finished)
        until(lambda: len(finished) > seen + 20)
    finally:
        enough.set()
        for thread in threads:
            thread.join(60)
    assert unforeseen == []
    kept = {row.key: row for row in store.rows()}
    assert set(acknowledged) <= set(kept)
    assert all(row.digest == digest(row.record) for row in kept.values())
    for name in finished:
        job = store.jobs.get(name)
        assert job is not None
        assert (job.state, job.result) == ("done", name)
    assert verify(PROBLEM, cached_solve(PROBLEM, store=store).solution.gamma).margin >= 0
    assert {finding.key for finding in check(store)} == set(kept)  # none of these is an answer, and all are detected


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_keeps_answers(encoding: str) -> None:
    server = postgres.server()
    name = f"{encoding.lower()}_{server.new()}"
    server.run(
        "psql", "-d", "postgres", "-c", f"CREATE DATABASE {name} ENCODING {encoding} LOCALE 'C' TEMPLATE template0"
    )
    with closing(open_store(server.url(name))) as store:
        assert cached_solve(PROBLEM, store=store).stored
        assert cached_solve(PROBLEM, store=store).hit
        assert list(check(store)) == []
