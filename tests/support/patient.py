"""Settings of a service that waits for every solve, however busy the machine is."""

from __future__ import annotations

from typing import Any

from api.settings import Settings

PATIENCE = 3600.0
"""How long a request waits for its solve [s]: more than an operator may set, since a test wants the whole answer."""


def patient(**settings: Any) -> Settings:
    """Return settings of a service in memory, of one solver, that answers with the job only after `PATIENCE`."""
    chosen = Settings(**{"cache_url": "memory", "solvers": 1, "rate": 0, **settings})
    return chosen.model_copy(update={"wait_seconds": PATIENCE})
