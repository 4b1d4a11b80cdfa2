"""A service that waits for every solve, however busy the machine is: its settings, and its client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings

PATIENCE = 3600.0
"""How long a request waits for its solve [s]: more than an operator may set, since a test wants the whole answer."""


def patient(**settings: Any) -> Settings:
    """Return settings of a service in memory, of one solver, that answers with the job only after `PATIENCE`."""
    chosen = Settings(**{"cache_url": "memory", "solvers": 1, "rate": 0, **settings})
    return chosen.model_copy(update={"wait_seconds": PATIENCE})


def client_fixture(settings: Settings) -> Any:
    """Return a fixture of a module: the client of an app, which answers faults as a server does."""

    @pytest.fixture(scope="module")
    def client() -> Iterator[TestClient]:
        with TestClient(create_app(settings), raise_server_exceptions=False) as opened:
            yield opened

    return client
