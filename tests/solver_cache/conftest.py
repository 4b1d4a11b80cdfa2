"""A new store of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.stores import STORE_URLS

from solver_cache import Store, open_store


@pytest.fixture(params=STORE_URLS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(STORE_URLS[request.param](tmp_path))) as opened:
        yield opened
