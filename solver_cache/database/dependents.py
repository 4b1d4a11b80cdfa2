"""Rows that depend on a stored answer (tags, clients, reads): its visibility, and its removal with them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from solver_cache.database.statements import FOR_UPDATE, Statements, belongs, is_listed

DEPENDENT_TABLES = ("darrm_design_tags", "darrm_design_clients", "darrm_design_reads")
IS_VISIBLE = belongs("darrm_solutions", "darrm_design_clients", "key")
"""Condition that a client may see an answer: it owns it, or the answer is public."""


def lock(statements: Statements, keys: Collection[str]) -> list[str]:
    """Lock answers, in order, until the transaction ends; return the keys of those that exist."""
    query = f"SELECT key FROM darrm_solutions WHERE {is_listed(statements)} ORDER BY key"
    locked = statements.rows(f"{query} {FOR_UPDATE[statements.dialect]}", keys=statements.listed(keys))
    return [str(key) for (key,) in locked]


def set_clients(statements: Statements, key: str, clients: Collection[str]) -> None:
    """Assign a new answer to ``clients``; without any it is public."""
    insertion = "INSERT INTO darrm_design_clients (key, client) VALUES (:key, :client) ON CONFLICT DO NOTHING"
    for client in sorted(clients):
        statements.rows(insertion, key=key, client=client)


def add_clients(statements: Statements, keys: Collection[str], clients: Collection[str]) -> None:
    """Share locked answers with ``clients``; public answers stay public."""
    insertion = (
        "INSERT INTO darrm_design_clients (key, client) SELECT DISTINCT key, CAST(:client AS TEXT) "
        f"FROM darrm_design_clients WHERE {is_listed(statements)} ON CONFLICT DO NOTHING"
    )
    for client in sorted(clients):
        statements.rows(insertion, client=client, keys=statements.listed(keys))


def remove(statements: Statements, keys: Collection[str], condition: str = "true", **values: Any) -> int:
    """Remove the answers under ``keys`` that satisfy ``condition``, with their dependents; return their number."""
    # Locked first, so that the condition sees, and the removal includes, rows that other transactions add.
    keys = lock(statements, keys)
    removal = f"DELETE FROM darrm_solutions WHERE {is_listed(statements)} AND {condition} RETURNING key"
    removed = [str(key) for (key,) in statements.rows(removal, keys=statements.listed(keys), **values)]
    for table in DEPENDENT_TABLES:
        statements.rows(f"DELETE FROM {table} WHERE {is_listed(statements)}", keys=statements.listed(removed))
    return len(removed)
