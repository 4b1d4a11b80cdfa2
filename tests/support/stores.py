"""Stores of each kind, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support import postgres

STORE_URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory",
    "sqlite": lambda folder: f"sqlite:///{folder / 'cache.sqlite'}",
    "postgresql": lambda _: postgres.server().new_store(),
}
"""The url of a new store, from a folder of its own."""
