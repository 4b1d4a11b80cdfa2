"""Migrations: a schema with one more column, applied to stores of the current version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support import postgres

from darrm_opt import Problem
from solver_cache import CacheError, cached_solve, check, open_store
from solver_cache.database.schema import MIGRATIONS

PROBLEMS = [Problem.from_allowance(K=K, m=2, epsilon=0.1) for K in (7, 9)]
STEP = (
    "ALTER TABLE darrm_solutions ADD COLUMN note TEXT NOT NULL DEFAULT ''",
    "UPDATE darrm_solutions SET note = 'migrated'",
)
STEPS = "solver_cache.database.schema.MIGRATIONS"
PRESENT, NEXT = len(MIGRATIONS), len(MIGRATIONS) + 1


@pytest.fixture(autouse=True)
def answered(lasting_url: str) -> None:
    """Store one answer in the current schema."""
    with closing(open_store(lasting_url)) as store:
        assert cached_solve(PROBLEMS[0], store=store).stored


def query(url: str, text: str) -> list[tuple[object, ...]]:
    with closing(open_store(url)) as store, store._database.reading() as statements:  # type: ignore[attr-defined]
        return [tuple(row) for row in statements.rows(text)]


def test_a_migration_runs_once_and_keeps_answers(lasting_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS, (*MIGRATIONS, STEP))
    for found in (PRESENT, NEXT):
        with closing(open_store(lasting_url)) as store:
            assert (store.found_schema, store.stats().schema) == (found, NEXT)  # type: ignore[attr-defined]
            assert list(check(store)) == []
            assert cached_solve(PROBLEMS[0], store=store).hit
    with closing(open_store(lasting_url)) as store:
        assert cached_solve(PROBLEMS[1], store=store).stored
    assert sorted(query(lasting_url, "SELECT note FROM darrm_solutions")) == [("",), ("migrated",)]
    assert query(lasting_url, "SELECT version FROM darrm_schema") == [(NEXT,)]


def test_a_migration_does_not_break_open_stores(lasting_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its statements name their columns."""
    with closing(open_store(lasting_url)) as earlier:
        with monkeypatch.context() as patched:
            patched.setattr(STEPS, (*MIGRATIONS, STEP))
            open_store(lasting_url).close()
        assert cached_solve(PROBLEMS[1], store=earlier).stored
        assert cached_solve(PROBLEMS[0], store=earlier).hit


def test_a_store_of_a_newer_schema_is_refused(lasting_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(STEPS, (*MIGRATIONS, STEP))
        open_store(lasting_url).close()
    with pytest.raises(
        CacheError, match=rf"its schema has version {NEXT}; this program supports {PRESENT}\. Upgrade darrm-opt"
    ):
        open_store(lasting_url)


def test_an_old_read_only_store_explains_migration(lasting_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS, (*MIGRATIONS, STEP))
    reading = f"{lasting_url}{'&' if '?' in lasting_url else '?'}mode=ro"
    with pytest.raises(
        CacheError,
        match=rf"its schema has version {PRESENT}; this program reads {NEXT}\. Migrate it, .* `darrm cache check --migrate",
    ):
        open_store(reading)
    open_store(lasting_url).close()
    with closing(open_store(reading)) as store:
        assert cached_solve(PROBLEMS[0], store=store).hit


def test_an_interrupted_migration_changes_nothing(lasting_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(STEPS, (*MIGRATIONS, (*STEP, "SELECT * FROM no_such_table")))
        with pytest.raises(CacheError, match="no_such_table"):
            open_store(lasting_url)
    assert query(lasting_url, "SELECT version FROM darrm_schema") == [(PRESENT,)]
    with pytest.raises(CacheError, match="note"):
        query(lasting_url, "SELECT note FROM darrm_solutions")
    with closing(open_store(lasting_url)) as store:
        assert cached_solve(PROBLEMS[0], store=store).hit


def test_a_migrated_schema_is_that_of_a_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Including the text of columns and indices in SQLite, so tests of new stores hold for migrated ones."""

    def schema(path: Path) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as plain:
            names = [name for (name,) in plain.execute("SELECT name FROM sqlite_master ORDER BY name")]
            return [(name, *line) for name in names for line in plain.execute(f"PRAGMA table_xinfo({name!r})")]

    open_store(f"sqlite:///{tmp_path / 'migrated.sqlite'}").close()
    monkeypatch.setattr(STEPS, (*MIGRATIONS, STEP))
    for name in ("migrated", "new"):
        open_store(f"sqlite:///{tmp_path / name}.sqlite").close()
    assert schema(tmp_path / "migrated.sqlite") == schema(tmp_path / "new.sqlite")


def test_postgresql_and_sqlite_have_the_same_columns(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path / 'cache.sqlite'}").close()
    with closing(sqlite3.connect(tmp_path / "cache.sqlite")) as plain:
        tables = [name for (name,) in plain.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        expected = {(table, row[1]) for table in tables for row in plain.execute(f"PRAGMA table_info({table!r})")}
    place = postgres.server().new_store()
    open_store(place).close()
    found = query(place, "SELECT table_name, column_name FROM information_schema.columns WHERE table_name ~ '^darrm_'")
    assert set(found) == expected
