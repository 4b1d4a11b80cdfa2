"""Rows that depend on a stored answer, its tags, clients and reads: who may see it, and its removal with them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from solver_cache.database.statements import FOR_UPDATE, Statements, belongs, is_listed

DEPENDENT_TABLES = ("darrm_design_tags", "darrm_design_clients", "darrm_design_reads")
"""Tables whose rows go when the answer goes."""

IS_VISIBLE = belongs("darrm_solutions", "darrm_design_clients", "key")
"""Condition that an answer may be seen by a client: it is its own, or nobody's and so everyone's."""


def lock(statements: Statements, keys: Collection[str]) -> list[str]:
    """Lock answers, in order, until the transaction ends; return the keys of those that are stored."""
    query = f"SELECT key FROM darrm_solutions WHERE {is_listed(statements)} ORDER BY key"
    locked = statements.rows(f"{query} {FOR_UPDATE[statements.dialect]}", keys=statements.listed(keys))
    return [str(key) for (key,) in locked]


def set_clients(statements: Statements, key: str, clients: Collection[str]) -> None:
    """Make a new answer that of ``clients``; without any it is everyone's."""
    insertion = "INSERT INTO darrm_design_clients (key, client) VALUES (:key, :client) ON CONFLICT DO NOTHING"
    for client in sorted(clients):
        statements.rows(insertion, key=key, client=client)


def add_clients(statements: Statements, keys: Collection[str], clients: Collection[str]) -> None:
    """Make answers, which are locked, those of ``clients`` too; those that have no clients stay everyone's."""
    insertion = (
        "INSERT INTO darrm_design_clients (key, client) SELECT DISTINCT key, CAST(:client AS TEXT) "
        f"FROM darrm_design_clients WHERE {is_listed(statements)} ON CONFLICT DO NOTHING"
    )
    for client in sorted(clients):
        statements.rows(insertion, client=client, keys=statements.listed(keys))


def remove(statements: Statements, keys: Collection[str], condition: str = "true", **values: Any) -> int:
    """Remove the answers under ``keys`` that fulfil a condition, and what depends on them; return how many."""
    # Locked first: a client or tag that another transaction adds is seen by the condition, and goes with the answer.
    keys = lock(statements, keys)
    removal = f"DELETE FROM darrm_solutions WHERE {is_listed(statements)} AND {condition} RETURNING key"
    removed = [str(key) for (key,) in statements.rows(removal, keys=statements.listed(keys), **values)]
    for table in DEPENDENT_TABLES:
        statements.rows(f"DELETE FROM {table} WHERE {is_listed(statements)}", keys=statements.listed(removed))
    return len(removed)
