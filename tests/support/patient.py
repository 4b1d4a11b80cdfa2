"""Settings and client of a service that waits for every solve, on any machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings

PATIENCE = 3600.0
"""Wait of a request for its solve [s], above the limit of the setting, since tests need the answer."""


def patient(**settings: Any) -> Settings:
    """Return settings of a service in memory with one solver, which answers with a job only after `PATIENCE`."""
    chosen = Settings(**{"cache_url": "memory", "solvers": 1, "rate": 0, **settings})
    return chosen.model_copy(update={"wait_seconds": PATIENCE})


def client_fixture(settings: Settings) -> Any:
    """Return a module fixture: the client of an app, which answers errors like a server."""

    @pytest.fixture(scope="module")
    def client() -> Iterator[TestClient]:
        with TestClient(create_app(settings), raise_server_exceptions=False) as opened:
            yield opened

    return client
