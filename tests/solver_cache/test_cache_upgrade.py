"""Stores as earlier releases wrote them, opened by this one: every answer is still read.

The files are in ``data/``; a release that changes the schema adds one of its own there before it does.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import postgres
from support.paths import DATA

from darrm_opt import Privacy, Problem, verify
from darrm_opt.record import digest
from solver_cache import CacheError, DesignSpec, Row, cached_solve, check, nearest, open_store, recall
from solver_cache.database.schema import MIGRATIONS

ASKED = [
    DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.1)),
    DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.1), shape="monotone"),
    DesignSpec(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4), "shared(2,5) agreement", "monotone"),
    DesignSpec(Problem.from_allowance(K=11, m=2, epsilon=0.1, Delta=1e-5, delta=3e-5), "uniform"),
    DesignSpec(Problem(8, Privacy(math.inf), Privacy(0.5, 1e-3), affected=2), "uniform(lower=0.6)"),
    DesignSpec(Problem(7, Privacy(0.0, 0.1), Privacy(0.0, 0.05))),
    DesignSpec(Problem(1, Privacy(1.0), Privacy(1e-300))),
    DesignSpec(Problem(11, Privacy(math.inf), Privacy(0.2676, 0.0003), affected=1)),
    DesignSpec(
        Problem.from_allowance(K=10, m=1, epsilon=0.5, Delta=1e-3, delta=1e-4), "histogram(1,2,3,4,5,6,5,4,3,2,1)"
    ),
    DesignSpec(Problem.from_allowance(K=35, m=5, epsilon=0.1, Delta=1e-5), "expected_error"),
]
"""What was asked of the release with schema 1, and kept."""


def sqlite_of_schema_1(folder: Path) -> str:
    shutil.copy(DATA / "store_schema_1.sqlite", folder / "cache.sqlite")
    return f"sqlite:///{folder / 'cache.sqlite'}"


def postgresql_of_schema_1(_: Path) -> str:
    name = postgres.server().new()
    postgres.server().sql(name, (DATA / "store_schema_1.postgresql.sql").read_text(encoding="utf-8"))
    return postgres.server().url(name)


OLD: dict[str, Callable[[Path], str]] = {"sqlite": sqlite_of_schema_1, "postgresql": postgresql_of_schema_1}


def records() -> dict[str, str]:
    """Return the records of the fixture by key, read by nobody else."""
    with closing(sqlite3.connect(f"{(DATA / 'store_schema_1.sqlite').as_uri()}?immutable=1", uri=True)) as plain:
        assert plain.execute("SELECT version FROM darrm_schema").fetchall() == [(1,)]
        return dict(plain.execute("SELECT key, record FROM darrm_solutions").fetchall())


@pytest.fixture
def answers_of_version_1(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This program as if the answers had not changed since those stores were written, only their schema."""
    for module in (
        "darrm_opt.record",
        "solver_cache.model",
        "solver_cache.validate",
        "solver_cache.database.store",
    ):
        monkeypatch.setattr(f"{module}.CORE", 1)
    forget_keys()
    yield
    forget_keys()


def forget_keys() -> None:
    """Forget the keys of `ASKED`, which a specification computes once."""
    for spec in ASKED:
        vars(spec).pop("key", None)


@pytest.mark.parametrize("name", OLD)
def test_answers_of_another_version_are_kept_but_not_served(name: str, tmp_path: Path) -> None:
    with closing(open_store(OLD[name](tmp_path))) as store:
        assert {row.key for row in store.rows()} == set(records())
        assert {finding.key for finding in check(store)} == set(records())
        for request in ASKED:
            assert recall(request, store) is None
            assert nearest(request, store) is None


@pytest.mark.usefixtures("answers_of_version_1")
@pytest.mark.parametrize("name", OLD)
def test_every_answer_of_an_earlier_release_is_read(name: str, tmp_path: Path) -> None:
    before = records()
    with closing(open_store(OLD[name](tmp_path))) as store:
        rows = {row.key: row.record for row in store.rows()}
        assert rows == before if name == "sqlite" else set(rows) == set(before)  # the seconds it took differ
        assert set(before) == {request.key for request in ASKED}
        assert list(check(store)) == []
        for request in ASKED:
            solution = recall(request, store)
            assert solution is not None
            assert solution.gamma.tolist() == json.loads(before[request.key])["gamma"]
            assert solution.certificate.bound >= verify(request.problem, solution.gamma).bound
            near = nearest(request, store)  # by the columns that the migration filled
            assert near is not None
            assert near.key == request.key or near.solution.utility >= solution.utility


@pytest.mark.parametrize("name", OLD)
def test_what_an_earlier_release_wrote_can_be_added_to(name: str, tmp_path: Path) -> None:
    url = OLD[name](tmp_path)
    problem = Problem.from_allowance(K=9, m=2, epsilon=0.1)
    for found in ("miss", "hit"):
        with closing(open_store(url)) as store:
            assert cached_solve(problem, store=store).decision == found
            store.jobs.submit(found, "gamma", "{}")
    with closing(open_store(url)) as store:
        assert [job.id for job in store.jobs.list()] == ["hit", "miss"]
        assert len(list(store.rows())) == len(ASKED) + 1


@pytest.mark.usefixtures("answers_of_version_1")
def test_rows_that_say_nothing_survive_the_migration(tmp_path: Path) -> None:
    url = sqlite_of_schema_1(tmp_path)
    bad = {"a": "", "b": "null", "c": '{"problem": {"K": -1}}', "d": "[" * 5000}
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain, plain:
        rows = [(key, 1, record, digest(record), "") for key, record in bad.items()]
        plain.executemany("INSERT INTO darrm_solutions VALUES (?, ?, ?, ?, ?)", [*rows, ("e", 1, b"\xff\x00", "", "")])
    with closing(open_store(url)) as store:
        kept = {row.key: row.record for row in store.rows()}
        assert {key: kept[key] for key in bad} == bad
        assert sorted(finding.key for finding in check(store)) == [*bad, "e"]
        assert len(kept) == len(ASKED) + 5


def test_the_migrated_schema_is_the_one_of_a_new_store(tmp_path: Path) -> None:
    """In SQLite to the letter of its columns and indices; so what is tested on new stores holds for old ones."""

    def schema(path: Path) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as plain:
            names = [name for (name,) in plain.execute("SELECT name FROM sqlite_master ORDER BY name")]
            return [(name, *line) for name in names for line in plain.execute(f"PRAGMA table_xinfo({name!r})")]

    open_store(sqlite_of_schema_1(tmp_path)).close()
    open_store(f"sqlite:///{tmp_path / 'new.sqlite'}").close()
    assert schema(tmp_path / "cache.sqlite") == schema(tmp_path / "new.sqlite")


def test_a_migration_that_is_cut_short_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = sqlite_of_schema_1(tmp_path)

    def broken(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("solver_cache.database.schema.MIGRATIONS", (*MIGRATIONS, (broken,)))
        with pytest.raises(KeyboardInterrupt):
            open_store(url)
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain:
        assert plain.execute("SELECT version FROM darrm_schema").fetchall() == [(1,)]
        assert len(plain.execute("PRAGMA table_info(darrm_solutions)").fetchall()) == 5
    open_store(url).close()


def test_a_large_store_is_migrated_a_page_at_a_time(tmp_path: Path) -> None:
    url = sqlite_of_schema_1(tmp_path)
    [record, *_] = records().values()
    padded = json.dumps({**json.loads(record), "padding": "x" * 20_000})
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain, plain:
        plain.executemany(
            "INSERT INTO darrm_solutions VALUES (?, 1, ?, '', '')",
            ((f"z{number:05}", padded) for number in range(3000)),
        )
    tracemalloc.start()
    try:
        open_store(url).close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000  # a page of 500 records is 10 MB; all of them would be 60
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain:
        filled = plain.execute("SELECT count(*) FROM darrm_solutions WHERE voters IS NOT NULL").fetchone()
        assert filled == (3000 + len(ASKED),)


def test_an_earlier_release_leaves_a_migrated_store_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = sqlite_of_schema_1(tmp_path)
    open_store(url).close()
    monkeypatch.setattr("solver_cache.database.schema.MIGRATIONS", MIGRATIONS[:1])  # as that release has it
    with pytest.raises(
        CacheError, match=rf"its schema has version {len(MIGRATIONS)}, this program knows 1\. Upgrade darrm-opt"
    ):
        open_store(url)


def test_a_row_of_an_earlier_release_that_still_runs_is_read(tmp_path: Path) -> None:
    """Its INSERT names the columns that it knows."""
    url = sqlite_of_schema_1(tmp_path)
    with closing(open_store(url)) as store:
        with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain, plain:
            plain.execute(
                "INSERT INTO darrm_solutions (key, core, record, digest, created) VALUES ('a', 1, '{}', ?, '')",
                (digest("{}"),),
            )
        assert store.get("a") == Row("a", 1, "{}", digest("{}"))


def test_a_store_of_schema_4_keeps_its_answers_and_takes_tags(tmp_path: Path) -> None:
    path = shutil.copy(DATA / "store_schema_4.sqlite", tmp_path / "cache.sqlite")
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute(
            "INSERT INTO darrm_jobs SELECT 'precompute:x', 'precompute', request, state, attempts, owner, lease_until, "
            "progress, reason, result, created, updated, client, seconds FROM darrm_jobs"
        )  # a claim, which no later schema has as a job
        before = plain.execute("SELECT key, core, record, digest FROM darrm_solutions ORDER BY key").fetchall()
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert [(row.key, row.core, row.record, row.digest) for row in store.rows()] == before
        assert list(check(store)) == []
        assert [job.id for job in store.jobs.list()] == ["a"]
        assert {design.key for design in store.designs.list()} == {key for key, *_ in before}
        tagged = store.designs.tag(before[0][0], "old")
        assert tagged is not None
        assert tagged.tags == ("old",)
