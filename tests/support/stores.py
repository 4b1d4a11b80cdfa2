"""Stores of each kind, new for each test, and rows for them; a plugin of pytest (`conftest.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from darrm_opt.record import canonical_json, digest
from solver_cache import DesignSpec, Row, Store, cached_solve, open_store
from support import postgres

STORE_URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory",
    "sqlite": lambda folder: f"sqlite:///{folder / 'cache.sqlite'}",
    "postgresql": lambda _: postgres.server().new_store(),
}
"""The URL of a new store, given a folder."""


@pytest.fixture(params=STORE_URLS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield a store, of each kind in turn."""
    with closing(open_store(STORE_URLS[request.param](tmp_path))) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new database, for a store that lasts, of each kind in turn."""
    return STORE_URLS[request.param](tmp_path)


@pytest.fixture
def database_server() -> Iterator[postgres.Postgres]:
    """Yield the PostgreSQL server, which the test may stop; it is started again afterwards."""
    opened = postgres.server()
    yield opened
    opened.start()


@cache
def kept_row(spec: DesignSpec) -> Row:
    """Return the row that a solve stores."""
    store = open_store("memory")
    assert cached_solve(spec.problem, spec.objective, spec.shape, store=store).stored
    [row] = store.rows()
    return row


def rehashed(row: Row, record: str) -> Row:
    """Return the row with another record and a matching hash, as anyone with write access could write it."""
    return replace(row, record=record, digest=digest(record))


def edited(row: Row, change: Callable[[dict[str, Any]], object]) -> Row:
    """Return the row with a changed record."""
    record = json.loads(row.record)
    change(record)
    return rehashed(row, canonical_json(record))


def setting(**values: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change of a record that sets members, nested ones as ``outer__inner``."""

    def change(record: dict[str, Any]) -> None:
        for path, value in values.items():
            outer, _, inner = path.rpartition("__")
            (record[outer] if outer else record)[inner] = value

    return change


def query_plan(store: Any, queries: Sequence[str], **values: Any) -> str:
    """Return how the database of a store executes queries; fail if it scans a table or sorts."""
    with store._database.writing() as statements:
        explain = "EXPLAIN " if statements.dialect == "postgresql" else "EXPLAIN QUERY PLAN "
        lines = [line for query in queries for line in statements.rows(explain + query, **values)]
    plan = "\n".join(" ".join(map(str, line)) for line in lines)
    assert not any(word in plan for word in ("Seq Scan", "SCAN", "Sort", "TEMP B-TREE")), plan
    return plan
