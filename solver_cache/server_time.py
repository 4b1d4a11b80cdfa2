"""What time it is, by the clock that all who share a database see."""

from __future__ import annotations

import time

from sqlalchemy import Double, func, literal
from sqlalchemy.sql.elements import ColumnElement


def server_time(dialect: str) -> ColumnElement[float]:
    """Return the time for a statement that is sent now [s since 1970-01-01 UTC]."""
    if dialect == "postgresql":  # stable within a statement, so that an index can be searched by it
        return func.extract("epoch", func.statement_timestamp()).cast(Double)
    return literal(time.time(), Double)
