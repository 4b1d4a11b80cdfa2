"""Adding a row where there is none under its key: each database spells it its own way."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Insert, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_new(dialect: str, table: Table, **values: Any) -> Insert:
    """Return the statement that adds a row, and does nothing where one is there already."""
    if dialect == "postgresql":
        return postgresql.insert(table).values(**values).on_conflict_do_nothing()
    return sqlite.insert(table).values(**values).on_conflict_do_nothing()
