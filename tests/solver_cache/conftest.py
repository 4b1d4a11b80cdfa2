"""Stores of each kind, new for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.postgres import STORE_URLS

from solver_cache import Store, open_store


@pytest.fixture(params=STORE_URLS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield a store, of each kind in turn."""
    with closing(open_store(STORE_URLS[request.param](tmp_path))) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database for a store that lasts, of each kind in turn."""
    return STORE_URLS[request.param](tmp_path)
