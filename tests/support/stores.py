"""Stores of each kind, new for each test; a plugin of pytest (`conftest.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from solver_cache import Store, open_store
from support import postgres

STORE_URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory",
    "sqlite": lambda folder: f"sqlite:///{folder / 'cache.sqlite'}",
    "postgresql": lambda _: postgres.server().new_store(),
}
"""The url of a new store, from a folder of its own."""


@pytest.fixture(params=STORE_URLS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield a store, of each kind in turn."""
    with closing(open_store(STORE_URLS[request.param](tmp_path))) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new database, for a store that lasts, of each kind in turn."""
    return STORE_URLS[request.param](tmp_path)
